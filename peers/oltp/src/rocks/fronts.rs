//! [`Fronts`]: where the scans of a queue begin.

use std::collections::HashMap;

use parking_lot::Mutex;

/// The table of TPC-C that is a queue; see [`Fronts`].
const QUEUE: &str = "new_order";

/// Where the scans of a table that serves as a queue may begin.
///
/// Deliveries delete the smallest key of a district, and RocksDB keeps a mark for each deleted key until a compaction: a scan from the
/// start of the district steps over all of them, and after a minute takes 100 times as long as it should. Who runs a queue on
/// RocksDB remembers its front instead. Keys of `new_order` are inserted in growing order within a district (the order number
/// comes from the district's row, which is locked until the commit), so nothing ever appears before the first key that a
/// committed transaction has seen.
#[derive(Default)]
pub(super) struct Fronts {
    /// The number of the queue's table, if the workload has one.
    pub(super) table: Option<u8>,
    /// By the lower end of the scan, the first key there was.
    first: Mutex<HashMap<Vec<u8>, Vec<u8>>>,
}

impl Fronts {
    pub(super) fn of(tables: &[&str]) -> Self {
        let table = tables
            .iter()
            .position(|name| *name == QUEUE)
            .map(|number| number as u8);
        Self {
            table,
            ..Self::default()
        }
    }

    /// Where a scan from `lo` may begin.
    pub(super) fn begin(&self, table: u8, lo: &[u8]) -> Option<Vec<u8>> {
        (self.table == Some(table)).then(|| self.first.lock().get(lo).cloned())?
    }

    /// Notes what a transaction saw that has committed.
    pub(super) fn committed(&self, seen: Vec<(Vec<u8>, Vec<u8>)>) {
        if !seen.is_empty() {
            let mut first = self.first.lock();
            for (lo, key) in seen {
                let front = first.entry(lo).or_default();
                if *front < key {
                    *front = key;
                }
            }
        }
    }
}
