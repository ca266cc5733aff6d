//! A pooler: its console is asked, and shown as tables.

mod frame;
pub mod json;
mod tables;

use corun_pooler::watch::{Address, Console, Sample, WatchError};

pub use frame::Frame;

use super::LIMIT;
use super::view::View;
use super::watcher::{Lost, Source};
use corun_cli::failure::Report;

/// A console that is asked again and again.
pub struct Pooler {
    address: Address,
    console: Option<Console>,
    /// The last sample of this console; rates are never taken over two connections, which may be two proxies.
    earlier: Option<Sample>,
}

impl Pooler {
    /// Logs in.
    ///
    /// # Errors
    /// No console there.
    pub fn connect(address: Address) -> Result<Self, WatchError> {
        Ok(Self {
            console: Some(Console::connect(&address, LIMIT)?),
            address,
            earlier: None,
        })
    }

    /// What there is now, and since the last call.
    ///
    /// # Errors
    /// The connection is lost.
    pub fn frame(&mut self) -> Result<Frame, WatchError> {
        let console = match &mut self.console {
            Some(console) => console,
            none => none.insert(Console::connect(&self.address, LIMIT)?),
        };
        let sample = console.sample()?;
        let place = self.address.endpoint.to_string();
        let frame = Frame::of(&place, sample.clone(), self.earlier.as_ref());
        self.earlier = Some(sample);
        Ok(frame)
    }
}

impl Source for Pooler {
    fn place(&self) -> String {
        self.address.endpoint.to_string()
    }

    fn look(&mut self) -> Result<View, Lost> {
        self.frame().map(|frame| frame.view()).map_err(|error| {
            self.console = None;
            self.earlier = None;
            Lost {
                why: Report::parse(&error.to_string()).primary,
                is_final: error.is_final(),
            }
        })
    }
}
