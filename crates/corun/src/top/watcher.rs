//! [`Watcher`]: the thread that asks the console, and finds it again when it is gone.

use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::Duration;

use anyhow::Context;
use corun_pooler::watch::{Address, Console, Sample, WatchError};

use super::LIMIT;
use super::frame::Frame;
use corun_cli::failure::Report;

/// Pause before the first attempt to connect again.
const PAUSE: Duration = Duration::from_millis(500);
/// Longest pause.
const PAUSE_MAX: Duration = Duration::from_secs(8);
/// Frames that may wait for the display; the thread waits for room.
const WAITING_MAX: usize = 4;

/// What the thread found.
pub enum News {
    /// A frame.
    Frame(Box<Frame>),
    /// The connection was lost, or could not be made again.
    Lost {
        /// Why, in one line.
        why: String,
        /// When it is tried again.
        pause: Duration,
    },
}

/// Asks and asks.
pub struct Watcher {
    address: Address,
    console: Option<Console>,
    /// The last sample of this console; rates are never taken over two connections, which may be two proxies.
    earlier: Option<Sample>,
    interval: Duration,
    failures: u32,
    news: SyncSender<News>,
}

impl Watcher {
    /// Starts the thread with a console that has just given `first`. It ends with the program, or when nobody listens.
    ///
    /// # Errors
    /// When the system refuses the thread.
    pub fn start(
        address: Address,
        console: Console,
        first: Sample,
        interval: Duration,
    ) -> anyhow::Result<Receiver<News>> {
        let (news, receiver) = sync_channel(WAITING_MAX);
        let mut watcher = Self {
            address,
            console: Some(console),
            earlier: Some(first),
            interval,
            failures: 0,
            news,
        };
        std::thread::Builder::new()
            .name("corun-top".to_owned())
            .spawn(move || watcher.run())
            .context("cannot start a thread")?;
        Ok(receiver)
    }

    fn run(&mut self) {
        let mut pause = self.interval;
        loop {
            std::thread::sleep(pause);
            let news = match self.look() {
                Ok(frame) => {
                    self.failures = 0;
                    // The first look of a connection has no rates: the second soon follows.
                    pause = self.interval;
                    News::Frame(Box::new(frame))
                }
                Err(error) => {
                    self.console = None;
                    self.earlier = None;
                    pause = pause_after(self.failures, error.is_final());
                    self.failures = self.failures.saturating_add(1);
                    News::Lost {
                        why: Report::parse(&error.to_string()).primary,
                        pause,
                    }
                }
            };
            if self.news.send(news).is_err() {
                return;
            }
        }
    }

    fn look(&mut self) -> Result<Frame, WatchError> {
        let console = match &mut self.console {
            Some(console) => console,
            none => none.insert(Console::connect(&self.address, LIMIT)?),
        };
        let sample = console.sample()?;
        let frame = Frame::of(
            &self.address.endpoint.to_string(),
            sample.clone(),
            self.earlier.as_ref(),
        );
        self.earlier = Some(sample);
        Ok(frame)
    }
}

/// Pause after so many failures before: twice as long each time, within bounds. What only a person can mend is not hurried.
fn pause_after(failures: u32, is_final: bool) -> Duration {
    if is_final {
        return PAUSE_MAX;
    }
    PAUSE.saturating_mul(1 << failures.min(10)).min(PAUSE_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_and_are_bounded() {
        let pauses: Vec<u128> = (0..6)
            .map(|failures| pause_after(failures, false).as_millis())
            .collect();
        assert_eq!(pauses, [500, 1000, 2000, 4000, 8000, 8000]);
        assert_eq!(pause_after(u32::MAX, false), PAUSE_MAX);
        assert_eq!(pause_after(0, true), PAUSE_MAX);
    }
}
