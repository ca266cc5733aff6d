//! [`Simulated`]: a polluter that only remembers what it was told, for tests of what is timed beside it.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use corun_model::units::Bytes;

use super::{Load, Pollute, Pollution, check};
use corun_topology::measure::MeasureError;

/// The twin. Clones share their load, so that a simulated workload can look at it.
#[derive(Clone, Debug)]
pub struct Simulated {
    streams: usize,
    footprint_max: Bytes,
    bytes_per_s: u64,
    load: Rc<Cell<Option<Load>>>,
}

impl Simulated {
    /// One of `streams` threads, which would touch `bytes_per_s` together at full intensity.
    pub fn new(streams: usize, footprint_max: Bytes, bytes_per_s: u64) -> Simulated {
        Simulated {
            streams,
            footprint_max,
            bytes_per_s,
            load: Rc::new(Cell::new(None)),
        }
    }

    /// What it does now.
    pub fn load(&self) -> Option<Load> {
        self.load.get()
    }
}

impl Pollute for Simulated {
    fn streams(&self) -> usize {
        self.streams
    }

    fn footprint_max(&self) -> Bytes {
        self.footprint_max
    }

    fn start(&mut self, load: Load) -> Result<(), MeasureError> {
        check(&load, self.footprint_max)?;
        self.load.set(Some(load));
        Ok(())
    }

    fn stop(&mut self) -> Pollution {
        match self.load.take() {
            None => Pollution::default(),
            Some(load) => Pollution {
                touched: Bytes((self.bytes_per_s as f64 * load.intensity) as u64),
                time: Duration::from_secs(1),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::Walk;
    use super::*;

    #[test]
    fn clones_see_the_load() {
        let mut polluter = Simulated::new(1, Bytes::mib(1), 1000);
        let seen = polluter.clone();
        let load = Load {
            footprint: Bytes::kib(4),
            walk: Walk::Streaming,
            intensity: 0.5,
        };
        polluter.start(load).expect("a good load");
        assert_eq!(seen.load(), Some(load));
        assert_eq!(polluter.stop().bytes_per_s(), Some(500.0));
        assert_eq!((seen.load(), polluter.stop()), (None, Pollution::default()));
    }
}
