//! Which columns, once read from files and decoded, are worth keeping in memory for the next query that reads them.
//!
//! A column here is a piece of one, what a row group of a file has of it. The rule counts how often each is asked for, halves all counts
//! now and then, and keeps within a budget those that save the most seconds a byte (least frequently used, with costs and aging; the
//! newcomer must be worth more than what would go for it, as in Einziger, Friedman and Manes, "TinyLFU", 2017). So a scan over more than
//! there is room for, again and again, keeps a part and leaves it in peace, where a cache that always takes the newest would keep nothing
//! until it is asked for.

use std::collections::{BTreeSet, HashMap};
use std::hash::Hash;

/// The largest part of the budget that one column may have: one over eight.
pub const SHARE_MAX: usize = 8;

/// Of all columns that are worth keeping a part is kept each time that they are read, so many times, so that no reader pays for all.
pub const TURNS: u32 = 4;

/// How often the column `index` of row group `group` is left out before it is kept, once it was asked for before.
pub fn turn(group: usize, index: usize) -> u32 {
    (group.wrapping_add(index) % TURNS as usize) as u32
}

/// Columns asked for once that are remembered, at least.
const REMEMBERED: usize = 1 << 16;
/// Counts are halved after so many questions for each column known.
const QUESTIONS: usize = 16;
/// Of the worth of what is kept, a newcomer must have so many times as much.
const CLEARLY: f64 = 1.1;

/// What is known of each column.
#[derive(Debug)]
pub struct ColumnLedger<K> {
    budget: usize,
    bytes: usize,
    columns: HashMap<K, Known>,
    /// Those that are kept, the least worth first.
    order: BTreeSet<(Worth, K)>,
    questions: usize,
    /// Of all that was ever offered.
    offered: Cost,
}

/// Seconds saved a byte, as bits: not negative numbers have the order of their bits.
type Worth = u64;

#[derive(Debug, Clone, Copy, Default)]
struct Cost {
    bytes: usize,
    seconds: f64,
}

#[derive(Debug, Default)]
struct Known {
    asked: u32,
    cost: Option<Cost>,
    is_kept: bool,
}

impl Cost {
    fn rate(self) -> f64 {
        self.seconds.max(0.0) / self.bytes.max(1) as f64
    }
}

impl Known {
    fn worth(&self) -> Worth {
        let rate = self.cost.map_or(0.0, Cost::rate);
        (f64::from(self.asked) * rate).to_bits()
    }
}

/// What came of an offer.
#[derive(Debug, PartialEq, Eq)]
pub struct Taken<K> {
    /// Whether the column is kept now.
    pub is_kept: bool,
    /// What had to go.
    pub gone: Vec<K>,
}

impl<K: Eq + Hash + Copy + Ord> ColumnLedger<K> {
    /// Keeps nothing yet.
    pub fn new(budget: usize) -> Self {
        ColumnLedger {
            budget,
            bytes: 0,
            columns: HashMap::new(),
            order: BTreeSet::new(),
            questions: 0,
            offered: Cost::default(),
        }
    }

    /// How many columns are kept.
    pub fn len(&self) -> usize {
        self.order.len()
    }

    /// Whether none is.
    pub fn is_empty(&self) -> bool {
        self.order.is_empty()
    }

    /// Bytes of all that is kept.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Notes that a column is read; how often it was before, as far as that is remembered.
    pub fn ask(&mut self, key: K) -> u32 {
        self.questions += 1;
        if self.questions > QUESTIONS * self.columns.len().max(REMEMBERED / QUESTIONS)
            || self.columns.len() >= self.order.len() + REMEMBERED
        {
            self.age();
        }
        let known = self.columns.entry(key).or_default();
        let before = known.asked;
        if known.is_kept {
            self.order.remove(&(known.worth(), key));
        }
        known.asked = before.saturating_add(1);
        if known.is_kept {
            self.order.insert((known.worth(), key));
        }
        before
    }

    /// Whether a column would be kept if it were offered; of one that never was, by what others cost.
    pub fn would_keep(&self, key: K) -> bool {
        let Some(known) = self.columns.get(&key) else {
            return false;
        };
        let likely = Known {
            asked: known.asked,
            cost: known.cost.or(Some(self.offered)),
            is_kept: false,
        };
        let bytes = known.cost.map_or(0, |cost| cost.bytes);
        known.is_kept || self.room(bytes, likely.worth()).is_some()
    }

    /// Offers a column that took `seconds` to read and decode.
    pub fn offer(&mut self, key: K, bytes: usize, seconds: f64) -> Taken<K> {
        self.remove(key);
        let cost = Cost { bytes, seconds };
        self.offered = Cost {
            bytes: self.offered.bytes.saturating_add(bytes),
            seconds: self.offered.seconds + seconds,
        };
        let known = self.columns.entry(key).or_default();
        known.cost = Some(cost);
        let worth = known.worth();
        let Some(gone) = self.room(bytes, worth) else {
            return Taken {
                is_kept: false,
                gone: Vec::new(),
            };
        };
        for key in &gone {
            self.remove(*key);
        }
        if let Some(known) = self.columns.get_mut(&key) {
            known.is_kept = true;
        }
        self.order.insert((worth, key));
        self.bytes += bytes;
        Taken { is_kept: true, gone }
    }

    /// A column is kept no longer.
    pub fn remove(&mut self, key: K) {
        let Some(known) = self.columns.get_mut(&key).filter(|known| known.is_kept) else {
            return;
        };
        known.is_kept = false;
        self.order.remove(&(known.worth(), key));
        self.bytes -= known.cost.map_or(0, |cost| cost.bytes);
    }

    /// Changes the budget; what has no room any more comes back.
    pub fn resize(&mut self, budget: usize) -> Vec<K> {
        self.budget = budget;
        let mut gone = Vec::new();
        while self.bytes > self.budget
            && let Some((_, key)) = self.order.first().copied()
        {
            self.remove(key);
            gone.push(key);
        }
        gone
    }

    /// What has to go for `bytes` of this worth; `None`: it is not worth that.
    fn room(&self, bytes: usize, worth: Worth) -> Option<Vec<K>> {
        if bytes > self.budget / SHARE_MAX {
            return None;
        }
        let mut over = (self.bytes + bytes).saturating_sub(self.budget);
        let mut gone = Vec::new();
        for (least, key) in &self.order {
            if over == 0 {
                break;
            }
            if f64::from_bits(*least) * CLEARLY >= f64::from_bits(worth) {
                return None;
            }
            let cost = self.columns.get(key).and_then(|known| known.cost)?;
            over = over.saturating_sub(cost.bytes);
            gone.push(*key);
        }
        (over == 0).then_some(gone)
    }

    fn age(&mut self) {
        self.questions = 0;
        for known in self.columns.values_mut() {
            known.asked /= 2;
        }
        self.columns.retain(|_, known| known.asked > 0 || known.is_kept);
        let kept = self.columns.iter().filter(|(_, known)| known.is_kept);
        self.order = kept.map(|(key, known)| (known.worth(), *key)).collect();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(ledger: &mut ColumnLedger<u32>, key: u32, times: u32) {
        for _ in 0..times {
            ledger.ask(key);
        }
    }

    #[test]
    fn every_turn_has_its_part_of_a_row_group_and_of_a_column() {
        for fixed in 0..5 {
            let turns =
                |turn: fn(usize, usize) -> u32| (0..TURNS as usize).map(move |other| turn(fixed, other));
            let mut of_group: Vec<u32> = turns(turn).collect();
            let mut of_column: Vec<u32> = turns(|index, group| turn(group, index)).collect();
            of_group.sort_unstable();
            of_column.sort_unstable();
            assert_eq!(of_group, (0..TURNS).collect::<Vec<_>>());
            assert_eq!(of_column, of_group);
        }
    }

    #[test]
    fn questions_are_counted() {
        let mut ledger = ColumnLedger::new(800);
        assert!(!ledger.would_keep(7), "nobody asked for it");
        assert_eq!(ledger.ask(7), 0);
        assert_eq!(ledger.ask(7), 1);
        assert!(ledger.would_keep(7));
        assert_eq!((ledger.len(), ledger.bytes()), (0, 0));
    }

    #[test]
    fn what_saves_most_seconds_a_byte_stays() {
        let mut ledger = ColumnLedger::new(800);
        for key in 0..8 {
            asked(&mut ledger, key, 2);
            assert!(ledger.offer(key, 100, f64::from(key + 1)).is_kept);
        }
        assert_eq!(ledger.bytes(), 800);
        asked(&mut ledger, 8, 2);
        let taken = ledger.offer(8, 100, 4.0);
        assert_eq!(taken.gone, [0]);
        assert!(taken.is_kept);
        asked(&mut ledger, 9, 2);
        assert!(!ledger.offer(9, 100, 1.0).is_kept, "all others save more");
        assert!(!ledger.would_keep(9), "and that is remembered");
        asked(&mut ledger, 9, 9);
        assert!(ledger.would_keep(9), "until it is asked for often");
        assert_eq!(ledger.len(), 8);
    }

    #[test]
    fn of_a_scan_that_is_too_large_a_part_stays_in_peace() {
        let mut ledger = ColumnLedger::new(1600);
        let mut hits = 0;
        for _ in 0..10 {
            for key in 0..32 {
                ledger.ask(key);
                if ledger.columns[&key].is_kept {
                    hits += 1;
                } else if ledger.would_keep(key) {
                    ledger.offer(key, 100, 1.0);
                }
            }
        }
        assert_eq!(hits, 9 * 16, "half of it, from the second time on");
    }

    #[test]
    fn what_nobody_asks_for_any_more_goes() {
        let mut ledger = ColumnLedger::new(800);
        for key in 0..8 {
            asked(&mut ledger, key, 100);
            ledger.offer(key, 100, 1.0);
        }
        for round in 0..40 * REMEMBERED as u32 {
            ledger.ask(100 + round % 8);
        }
        for key in 100..108 {
            assert!(ledger.offer(key, 100, 1.0).is_kept, "{key}");
        }
    }

    #[test]
    fn one_column_does_not_displace_all_others_and_budgets_change() {
        let mut ledger = ColumnLedger::new(800);
        asked(&mut ledger, 1, 3);
        assert!(!ledger.offer(1, 101, 1e9).is_kept);
        assert!(ledger.offer(2, 100, 0.0).is_kept, "there is room");
        asked(&mut ledger, 3, 1);
        assert!(ledger.offer(3, 50, 1.0).is_kept);
        assert_eq!(ledger.resize(60), [2]);
        assert_eq!((ledger.len(), ledger.bytes()), (1, 50));
        ledger.remove(3);
        ledger.remove(3);
        assert!(ledger.is_empty() && ledger.bytes() == 0);
    }

    #[test]
    fn columns_that_are_not_kept_are_forgotten_before_they_are_too_many() {
        let mut ledger = ColumnLedger::new(800);
        for key in 0..5 * REMEMBERED as u32 {
            ledger.ask(key);
        }
        assert!(ledger.columns.len() <= REMEMBERED);
    }
}
