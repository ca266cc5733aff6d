//! Which results of queries are worth keeping for the next query that wants them.
//!
//! [`SeenBefore`] says what comes more than once; [`KeptResults`] chooses, of what was computed, what stays within a budget of bytes.

use std::collections::{HashMap, HashSet};
use std::hash::Hash;

/// Remembers about the last `capacity` to twice as many things that came by.
#[derive(Debug)]
pub struct SeenBefore<K> {
    capacity: usize,
    recent: HashSet<K>,
    older: HashSet<K>,
}

impl<K: Eq + Hash> SeenBefore<K> {
    /// Nothing was seen yet.
    pub fn new(capacity: usize) -> Self {
        SeenBefore {
            capacity,
            recent: HashSet::new(),
            older: HashSet::new(),
        }
    }

    /// Whether `key` came by before.
    pub fn contains(&self, key: &K) -> bool {
        self.recent.contains(key) || self.older.contains(key)
    }

    /// Notes `key`; whether it came by before.
    pub fn again(&mut self, key: K) -> bool {
        let known = self.contains(&key);
        if self.recent.len() >= self.capacity {
            self.older = std::mem::take(&mut self.recent);
        }
        self.recent.insert(key);
        known
    }
}

/// Results within a budget of bytes, by the seconds that a byte of them saves.
///
/// The rule is GreedyDual-Size (Cao and Irani, "Cost-aware WWW proxy caching algorithms", 1997): a result's worth is what making it
/// again would cost a byte, on top of the worth of the last one that was given up. So what is not asked for any more grows old, however
/// expensive it was.
#[derive(Debug)]
pub struct KeptResults<K> {
    budget: usize,
    bytes: usize,
    /// The worth of what was given up last.
    floor: f64,
    results: HashMap<K, KeptResult>,
}

#[derive(Debug)]
struct KeptResult {
    bytes: usize,
    seconds: f64,
    worth: f64,
}

impl<K: Eq + Hash + Copy + Ord> KeptResults<K> {
    /// The largest part of the budget that one result may have: one over four.
    pub const SHARE_MAX: usize = 4;

    /// Keeps nothing yet.
    pub fn new(budget: usize) -> Self {
        KeptResults {
            budget,
            bytes: 0,
            floor: 0.0,
            results: HashMap::new(),
        }
    }

    /// How many results are kept.
    pub fn len(&self) -> usize {
        self.results.len()
    }

    /// Whether none is.
    pub fn is_empty(&self) -> bool {
        self.results.is_empty()
    }

    /// Bytes of all that is kept.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// The largest result that is kept at all.
    pub fn largest(&self) -> usize {
        self.budget / Self::SHARE_MAX
    }

    /// Changes the budget; what has no room any more comes back.
    pub fn resize(&mut self, budget: usize) -> Vec<K> {
        self.budget = budget;
        self.make_room()
    }

    /// Offers a result that took `seconds` to make. What had to go for it comes back, maybe the result itself.
    pub fn offer(&mut self, key: K, bytes: usize, seconds: f64) -> Vec<K> {
        self.remove(key);
        if bytes > self.largest() {
            return vec![key];
        }
        let worth = self.floor + seconds / bytes.max(1) as f64;
        self.bytes += bytes;
        let result = KeptResult {
            bytes,
            seconds,
            worth,
        };
        self.results.insert(key, result);
        self.make_room()
    }

    /// A result was asked for again.
    pub fn used(&mut self, key: K) {
        if let Some(result) = self.results.get_mut(&key) {
            result.worth = self.floor + result.seconds / result.bytes.max(1) as f64;
        }
    }

    /// A result is gone.
    pub fn remove(&mut self, key: K) {
        if let Some(result) = self.results.remove(&key) {
            self.bytes -= result.bytes;
        }
    }

    fn make_room(&mut self) -> Vec<K> {
        let mut gone = Vec::new();
        while self.bytes > self.budget {
            let least = self
                .results
                .iter()
                .min_by(|(a, x), (b, y)| x.worth.total_cmp(&y.worth).then(a.cmp(b)))
                .map(|(key, result)| (*key, result.worth));
            let Some((key, worth)) = least else { break };
            self.floor = worth;
            self.remove(key);
            gone.push(key);
        }
        gone
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_came_long_ago_is_forgotten() {
        let mut seen = SeenBefore::new(2);
        assert!(!seen.again(1));
        assert!(seen.again(1));
        assert!(!seen.again(2));
        assert!(!seen.again(3));
        assert!(seen.again(1), "between one and two capacities back");
        assert!(!seen.again(4));
        assert!(!seen.again(5));
        assert!(!seen.again(6));
        assert!(!seen.again(2));
    }

    #[test]
    fn what_saves_most_time_a_byte_stays() {
        let mut kept = KeptResults::new(400);
        assert!(kept.offer(1, 100, 1.0).is_empty());
        assert!(kept.offer(2, 100, 9.0).is_empty());
        assert!(kept.offer(3, 50, 3.0).is_empty());
        assert!(kept.offer(4, 100, 2.0).is_empty());
        assert_eq!(kept.bytes(), 350);
        assert_eq!(kept.offer(5, 100, 5.0), [1]);
        assert_eq!(kept.bytes(), 350);
    }

    #[test]
    fn what_nobody_asks_for_grows_old() {
        let mut kept = KeptResults::new(400);
        for key in 0..4 {
            assert!(kept.offer(key, 100, 4.0).is_empty());
        }
        // Others come and go, each cheaper than those four; one of the four is asked for now and then.
        let mut gone = HashSet::new();
        for key in 10..40 {
            kept.used(0);
            gone.extend(kept.offer(key, 100, 1.0));
        }
        assert!(!gone.contains(&0));
        assert!(gone.contains(&1) && gone.contains(&2) && gone.contains(&3));
    }

    #[test]
    fn one_result_does_not_displace_all_others() {
        let mut kept = KeptResults::new(400);
        assert!(kept.offer(1, 100, 1.0).is_empty());
        assert_eq!(kept.offer(2, 101, 1e9), [2]);
        assert_eq!(kept.offer(1, 50, 1.0), []);
        assert_eq!(kept.bytes(), 50);
        assert_eq!(kept.resize(40), [1]);
        assert_eq!(kept.bytes(), 0);
    }
}
