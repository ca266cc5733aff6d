//! The data of traced queries: rows of lineorder, keys of parts, and what a right answer adds up to.

use corun_exec::operators::Row;
use corun_model::units::Bytes;
use corun_workloads::numbers::{below, draw, permutation};

use super::super::query::CATEGORIES;

/// Streams of random numbers.
const KEYS: u64 = 1;
const AMOUNTS: u64 = 2;
const GROUPS: u64 = 3;

/// What all queries are made of.
pub(super) struct Sizes {
    /// Lines of the shared cache.
    pub(super) lines: usize,
    /// Memory of the query's table.
    pub(super) table: Bytes,
    /// Seed of all of it.
    pub(super) seed: u64,
}

impl Sizes {
    fn random(&self, stream: u64, at: usize, bound: usize) -> u32 {
        below(draw(self.seed, stream, at as u64), bound as u64) as u32
    }

    pub(super) fn amount(&self, row: usize) -> u32 {
        self.random(AMOUNTS, row, 10_000)
    }

    /// The group of a row.
    pub(super) fn group(&self, row: usize, groups: usize) -> usize {
        self.random(GROUPS, row, groups) as usize
    }

    /// Rows of lineorder with keys from 1 to `keys`, and an amount first in the payload.
    pub(super) fn facts(&self, rows: usize, keys: usize) -> Vec<Row> {
        let row = |at| Row {
            key: 1 + self.random(KEYS, at, keys),
            payload: std::array::from_fn(|word| if word == 0 { self.amount(at) } else { word as u32 }),
        };
        (0..rows).map(row).collect()
    }

    /// The same as two columns.
    pub(super) fn columns(&self, rows: usize, keys: usize) -> (Vec<u32>, Vec<u32>) {
        let key = (0..rows).map(|at| 1 + self.random(KEYS, at, keys));
        (key.collect(), (0..rows).map(|at| self.amount(at)).collect())
    }

    /// The keys of `count` parts in the order of the table, if that is `categories` of 25 of all parts, and how many parts there are.
    pub(super) fn parts(&self, count: usize, categories: u32) -> (Vec<u32>, usize) {
        let all = (count * CATEGORIES as usize / categories as usize).max(count);
        let mut keys = permutation(self.seed, all);
        keys.truncate(count);
        keys.iter_mut().for_each(|key| *key += 1);
        keys.sort_unstable();
        (keys, all)
    }
}

pub(super) fn part_rows(keys: &[u32]) -> Vec<Row> {
    keys.iter()
        .map(|&key| Row {
            key,
            payload: [key; 15],
        })
        .collect()
}

/// What rows with one of `keys` of 1 to `all` amount to.
pub(super) fn matching(keys: &[u32], all: usize, fact_keys: &[u32], amounts: &[u32]) -> u64 {
    let is_member = members(keys, all);
    let of_members = fact_keys
        .iter()
        .zip(amounts)
        .filter(|(key, _)| is_member[**key as usize]);
    of_members.map(|(_, &amount)| u64::from(amount)).sum()
}

/// Is key `k`, from 1, one of these?
pub(super) fn members(keys: &[u32], all: usize) -> Vec<bool> {
    let mut members = vec![false; all + 1];
    keys.iter().for_each(|&key| members[key as usize] = true);
    members
}
