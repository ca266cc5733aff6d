//! [`Wait`]: how a client waits for a server connection.

use std::time::Duration;

/// Where and since when. What waits for cores has a turn instead (`heavy_queue`).
#[derive(Debug, Default)]
pub(in crate::core) struct Wait {
    pub place: WaitsIn,
    /// Since when it waits, or waited last.
    pub since: Duration,
    /// Since when it has waited, when it looks for a host again.
    pub from: Option<Duration>,
    /// The client was told that it waits.
    pub told: bool,
}

/// Where a client waits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::core) enum WaitsIn {
    #[default]
    Nowhere,
    /// In the queue of this pool.
    Pool(usize),
    /// In no queue: there is no host for it now.
    NoHost,
}

impl Wait {
    /// Whether it waits anywhere.
    pub fn waits(&self) -> bool {
        self.place != WaitsIn::Nowhere
    }

    /// The pool in whose queue it is.
    pub fn pool(&self) -> Option<usize> {
        match self.place {
            WaitsIn::Pool(pool) => Some(pool),
            WaitsIn::Nowhere | WaitsIn::NoHost => None,
        }
    }

    /// It is in no pool's queue any more. Returns the pool in whose queue it was.
    pub fn leave(&mut self) -> Option<usize> {
        let pool = self.pool();
        if pool.is_some() {
            self.place = WaitsIn::Nowhere;
        }
        pool
    }

    /// It looks for a host again. `false`: it did not wait for one.
    pub fn unpark(&mut self) -> bool {
        let parked = self.place == WaitsIn::NoHost;
        if parked {
            self.place = WaitsIn::Nowhere;
        }
        parked
    }

    /// It has its server.
    pub fn ends(&mut self) {
        self.unpark();
        self.from = None;
    }
}
