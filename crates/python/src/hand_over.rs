//! What one side of the foreign interface gives the other to hold, by number instead of by value: both are in one process.

use datafusion::common::exec_err;
use datafusion::error::Result;
use parking_lot::Mutex;
use std::collections::BTreeMap;

/// Values that may wait; beyond that the oldest is forgotten, as those are whose statement failed on the way.
const WAITING_MAX: usize = 4096;

/// Values on their way, each until it is taken.
#[derive(Debug)]
pub(crate) struct HandOver<T>(Mutex<Waiting<T>>);

#[derive(Debug)]
struct Waiting<T> {
    next: u64,
    values: BTreeMap<u64, T>,
}

impl<T> HandOver<T> {
    pub(crate) fn new() -> Self {
        HandOver(Mutex::new(Waiting {
            next: 0,
            values: BTreeMap::new(),
        }))
    }

    /// Keeps a value, and returns what it is taken with.
    pub(crate) fn give(&self, value: T) -> [u8; 12] {
        let mut waiting = self.0.lock();
        let number = waiting.next;
        waiting.next += 1;
        waiting.values.insert(number, value);
        if waiting.values.len() > WAITING_MAX {
            waiting.values.pop_first();
        }
        let mut bytes = [0; 12];
        bytes[..4].copy_from_slice(&std::process::id().to_le_bytes());
        bytes[4..].copy_from_slice(&number.to_le_bytes());
        bytes
    }

    /// Takes a value, which nobody can take again.
    ///
    /// # Errors
    /// Bytes that [`HandOver::give`] did not return in this process, or whose value was taken.
    pub(crate) fn take(&self, bytes: &[u8]) -> Result<T> {
        let Some((process, number)) = bytes.split_first_chunk::<4>() else {
            return exec_err!("a plan of corun's has no number");
        };
        if u32::from_le_bytes(*process) != std::process::id() {
            return exec_err!("a plan of corun's cannot leave its process");
        }
        let number = <[u8; 8]>::try_from(number).map(u64::from_le_bytes);
        match number
            .ok()
            .and_then(|number| self.0.lock().values.remove(&number))
        {
            Some(value) => Ok(value),
            None => exec_err!("a plan of corun's was handed over before"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_taken_once_and_only_here() {
        let values = HandOver::new();
        let (first, second) = (values.give("first"), values.give("second"));
        assert_eq!(values.take(&second).ok(), Some("second"));
        assert_eq!(values.take(&first).ok(), Some("first"));
        assert!(values.take(&first).is_err());
        let mut elsewhere = values.give("third");
        elsewhere[0] ^= 1;
        assert!(values.take(&elsewhere).is_err());
        assert!(values.take(b"").is_err() && values.take(&elsewhere[..7]).is_err());
    }

    #[test]
    fn values_that_nobody_takes_are_forgotten() {
        let values = HandOver::new();
        let first = values.give(0);
        let last = (1..=WAITING_MAX).map(|value| values.give(value)).last();
        assert!(values.take(&first).is_err());
        assert_eq!(last.and_then(|bytes| values.take(&bytes).ok()), Some(WAITING_MAX));
    }
}
