//! [`Totals`]: what a pool has done, counted up.

use std::time::Duration;

/// Counts since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Transactions.
    pub transactions: u64,
    /// Queries.
    pub queries: u64,
    /// Bytes from clients.
    pub received: u64,
    /// Bytes to clients.
    pub sent: u64,
    /// Time transactions took.
    pub transaction_time: Duration,
    /// Time queries took.
    pub query_time: Duration,
    /// Time clients waited for a server.
    pub wait_time: Duration,
    /// How often a client was given a server.
    pub attached: u64,
    /// How often its settings had to be set there first.
    pub replays: u64,
    /// How often settings were read back.
    pub read_backs: u64,
    /// Statements parsed again on another server.
    pub prepared_again: u64,
}

impl Totals {
    /// These and those.
    #[must_use]
    pub fn plus(&self, other: &Self) -> Self {
        Self {
            transactions: self.transactions + other.transactions,
            queries: self.queries + other.queries,
            received: self.received + other.received,
            sent: self.sent + other.sent,
            transaction_time: self.transaction_time + other.transaction_time,
            query_time: self.query_time + other.query_time,
            wait_time: self.wait_time + other.wait_time,
            attached: self.attached + other.attached,
            replays: self.replays + other.replays,
            read_backs: self.read_backs + other.read_backs,
            prepared_again: self.prepared_again + other.prepared_again,
        }
    }
}

/// Buckets of [`Latencies`].
pub const LATENCY_BUCKETS: usize = 128;

/// How long queries took, in buckets of which four make a doubling: a quantile is at most a fifth too high.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Latencies {
    /// Queries by bucket.
    pub counts: Box<[u64; LATENCY_BUCKETS]>,
}

impl Default for Latencies {
    fn default() -> Self {
        Self {
            counts: Box::new([0; LATENCY_BUCKETS]),
        }
    }
}

impl Latencies {
    /// The bucket of a time.
    fn bucket(took: Duration) -> usize {
        let us = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        if us < 4 {
            return us as usize;
        }
        let doubling = us.ilog2();
        let quarter = (us >> (doubling - 2)) & 3;
        (((doubling - 1) * 4) as usize + quarter as usize).min(LATENCY_BUCKETS - 1)
    }

    /// The longest time of a bucket, exclusive, in microseconds.
    pub fn upper_us(bucket: usize) -> u64 {
        if bucket < 4 {
            return bucket as u64 + 1;
        }
        let (doubling, quarter) = ((bucket / 4 + 1) as u32, (bucket % 4) as u64);
        (4 + quarter + 1) << (doubling - 2)
    }

    /// Counts a query.
    #[inline]
    pub fn add(&mut self, took: Duration) {
        self.counts[Self::bucket(took)] += 1;
    }

    /// These and those.
    pub fn merge(&mut self, other: &Self) {
        for (count, more) in self.counts.iter_mut().zip(other.counts.iter()) {
            *count += more;
        }
    }

    /// The time that this share (0 to 1) of the queries stayed below, in microseconds; `None` without queries.
    pub fn quantile_us(&self, share: f64) -> Option<u64> {
        let all: u64 = self.counts.iter().sum();
        let rank = (share * all as f64).ceil().max(1.0) as u64;
        let mut seen = 0;
        self.counts.iter().enumerate().find_map(|(bucket, count)| {
            seen += count;
            (all > 0 && seen >= rank).then(|| Self::upper_us(bucket))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_hold_what_they_say() {
        for us in (0..5000).chain([1 << 20, (1 << 20) + 1, 123_456_789]) {
            let bucket = Latencies::bucket(Duration::from_micros(us));
            assert!(us < Latencies::upper_us(bucket), "{us}");
            assert!(bucket == 0 || us >= Latencies::upper_us(bucket - 1), "{us}");
        }
    }

    #[test]
    fn quantiles() {
        let mut latencies = Latencies::default();
        assert_eq!(latencies.quantile_us(0.5), None);
        for us in 1..=1000 {
            latencies.add(Duration::from_micros(us));
        }
        let median = latencies.quantile_us(0.5).expect("queries");
        assert!((500..=600).contains(&median), "{median}");
        let mut twice = latencies.clone();
        twice.merge(&latencies);
        assert_eq!(twice.quantile_us(0.5), Some(median));
    }
}
