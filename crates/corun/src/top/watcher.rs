//! The thread that asks a server, and finds it again when it is gone.

use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::Duration;

use anyhow::Context;

use super::view::View;

/// Pause before the first attempt to connect again.
const PAUSE: Duration = Duration::from_millis(500);
/// Longest pause.
const PAUSE_MAX: Duration = Duration::from_secs(8);
/// Views that may wait for the display; the thread waits for room.
const WAITING_MAX: usize = 4;

/// A server that is asked again and again.
pub trait Source: Send + 'static {
    /// Where it is.
    fn place(&self) -> String;

    /// What there is now. It connects again where the connection was lost.
    fn look(&mut self) -> Result<View, Lost>;
}

/// Why there is nothing to see.
pub struct Lost {
    /// In one line.
    pub why: String,
    /// Whether trying again is of no use before a person has done something.
    pub is_final: bool,
}

/// What the thread found.
pub enum News {
    /// A view.
    View(Box<View>),
    /// The connection was lost, or could not be made again.
    Lost {
        /// Why, in one line.
        why: String,
        /// When it is tried again.
        pause: Duration,
    },
}

/// Starts the thread. It ends with the program, or when nobody listens.
///
/// # Errors
/// When the system refuses the thread.
pub fn start(source: impl Source, interval: Duration) -> anyhow::Result<Receiver<News>> {
    let (news, receiver) = sync_channel(WAITING_MAX);
    std::thread::Builder::new()
        .name("corun-top".to_owned())
        .spawn(move || run(source, interval, &news))
        .context("cannot start a thread")?;
    Ok(receiver)
}

fn run(mut source: impl Source, interval: Duration, listener: &SyncSender<News>) {
    let mut pause = interval;
    let mut failures = 0_u32;
    loop {
        std::thread::sleep(pause);
        let news = match source.look() {
            Ok(view) => {
                failures = 0;
                // The first look of a connection has no rates: the second soon follows.
                pause = interval;
                News::View(Box::new(view))
            }
            Err(Lost { why, is_final }) => {
                pause = pause_after(failures, is_final);
                failures = failures.saturating_add(1);
                News::Lost { why, pause }
            }
        };
        if listener.send(news).is_err() {
            return;
        }
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
