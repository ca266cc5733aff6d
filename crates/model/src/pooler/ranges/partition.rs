//! The best way to share consecutive buckets among owners: the largest load as small as can be, and of such ways the one that moves
//! the fewest buckets.
//!
//! Two steps: the smallest largest load is found by halving, as whether a load suffices is one pass over the buckets; then a
//! dynamic program over (owner, bucket) finds the fewest moves within that load. Its inner minimum slides along with the bucket, so
//! the whole takes `owners * buckets` steps: four million at the limits, some thousands as a rule.

use std::collections::VecDeque;
use std::ops::Range;

/// The first bucket of each owner, given what each bucket weighs and the buckets each owner holds now. Every owner gets a bucket at
/// least, if there are enough; else the last ones get none, which the number of buckets stands for.
pub(super) fn balance(weights: &[u64], held: &[Range<usize>]) -> Vec<usize> {
    let (buckets, owners) = (weights.len(), held.len());
    if buckets <= owners {
        return (0..owners).map(|owner| owner.min(buckets)).collect();
    }
    let mut sums = vec![0_u128];
    for &weight in weights {
        sums.push(sums[sums.len() - 1] + u128::from(weight));
    }
    fewest_moves(&sums, held, smallest_load(&sums, owners))
}

/// The smallest load so that at most `owners` runs of buckets have no more each. Whoever needs fewer runs can cut some: no load
/// rises by that.
fn smallest_load(sums: &[u128], owners: usize) -> u128 {
    let total = sums[sums.len() - 1];
    let heaviest = sums.windows(2).map(|pair| pair[1] - pair[0]).max().unwrap_or(0);
    // `low` may suffice, `high` does.
    let (mut low, mut high) = (heaviest, total);
    while low < high {
        let middle = low + (high - low) / 2;
        if runs(sums, middle) <= owners {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    high
}

/// How many runs of at most `load` the buckets need; `load` is not below any bucket's weight.
fn runs(sums: &[u128], load: u128) -> usize {
    let (mut count, mut from) = (0, 0);
    while from + 1 < sums.len() {
        let beyond = from + 1 + sums[from + 1..].partition_point(|&sum| sum - sums[from] <= load);
        from = beyond - 1;
        count += 1;
    }
    count
}

/// `kept[b]` after owner `o`: the most buckets that stay with their owner when owners up to `o` hold the first `b` buckets. For owner
/// `o` with buckets `a..b`, holding `s..e` now, the overlap is `min(b, e) - max(a, s)` or nothing. It takes one of three forms,
/// each of which is something of `a` plus something of `b`, so the best `a` is kept in one sliding window for each:
///
/// ```text
///   a <= s:      kept[a]      +  max(min(b, e) - s, 0)
///   s < a < e:   kept[a] - a  +  min(b, e)
///   e <= a:      kept[a]
/// ```
fn fewest_moves(sums: &[u128], held: &[Range<usize>], load: u128) -> Vec<usize> {
    let buckets = sums.len() - 1;
    let mut kept: Vec<Option<i64>> = vec![None; buckets + 1];
    kept[0] = Some(0);
    // For each owner and each end of its buckets, where they began.
    let mut began = vec![0_u16; held.len() * (buckets + 1)];
    for (owner, now) in held.iter().enumerate() {
        let (start, end) = (now.start, now.end);
        let mut next = vec![None; buckets + 1];
        let (mut before, mut inside, mut after) = (Window::default(), Window::default(), Window::default());
        let mut least = 0;
        for b in 1..=buckets {
            let a = b - 1;
            if let Some(value) = kept[a] {
                if a <= start {
                    before.push(a, value);
                } else if a < end {
                    inside.push(a, value - a as i64);
                } else {
                    after.push(a, value);
                }
            }
            while sums[b] - sums[least] > load {
                least += 1;
            }
            let until = b.min(end) as i64;
            let candidates = [
                before
                    .best(least)
                    .map(|(a, value)| (value + (until - start as i64).max(0), a)),
                inside.best(least).map(|(a, value)| (value + until, a)),
                after.best(least).map(|(a, value)| (value, a)),
            ];
            if let Some((value, a)) = candidates.into_iter().flatten().max_by_key(|&(value, _)| value) {
                next[b] = Some(value);
                began[owner * (buckets + 1) + b] = a as u16;
            }
        }
        kept = next;
    }
    let mut firsts = vec![0; held.len()];
    let mut end = buckets;
    for owner in (0..held.len()).rev() {
        end = usize::from(began[owner * (buckets + 1) + end]);
        firsts[owner] = end;
    }
    firsts
}

/// The largest of the values whose place is not below a bound that never falls.
#[derive(Default)]
struct Window {
    /// Places ascend, values strictly descend.
    values: VecDeque<(usize, i64)>,
}

impl Window {
    fn push(&mut self, place: usize, value: i64) {
        while self.values.back().is_some_and(|&(_, last)| last <= value) {
            self.values.pop_back();
        }
        self.values.push_back((place, value));
    }

    fn best(&mut self, least: usize) -> Option<(usize, i64)> {
        while self.values.front().is_some_and(|&(place, _)| place < least) {
            self.values.pop_front();
        }
        self.values.front().copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// All ways to give each owner at least one bucket, as first buckets.
    fn ways(buckets: usize, owners: usize) -> Vec<Vec<usize>> {
        fn go(from: usize, buckets: usize, left: usize, way: &mut Vec<usize>, all: &mut Vec<Vec<usize>>) {
            if left == 0 {
                all.push(way.clone());
                return;
            }
            for first in from..=buckets - left {
                way.push(first);
                go(first + 1, buckets, left - 1, way, all);
                way.pop();
            }
        }
        let mut all = Vec::new();
        go(1, buckets, owners - 1, &mut vec![0], &mut all);
        all
    }

    fn ranges(firsts: &[usize], buckets: usize) -> Vec<Range<usize>> {
        let ends = firsts[1..].iter().copied().chain([buckets]);
        firsts.iter().zip(ends).map(|(&first, end)| first..end).collect()
    }

    fn largest(weights: &[u64], firsts: &[usize]) -> u64 {
        let loads = ranges(firsts, weights.len());
        loads
            .into_iter()
            .map(|range| weights[range].iter().sum())
            .max()
            .unwrap_or(0)
    }

    fn moved(held: &[Range<usize>], firsts: &[usize], buckets: usize) -> usize {
        let new = ranges(firsts, buckets);
        (0..buckets)
            .filter(|bucket| {
                !held
                    .iter()
                    .zip(&new)
                    .any(|(a, b)| a.contains(bucket) && b.contains(bucket))
            })
            .count()
    }

    proptest! {
        #[test]
        fn as_good_as_trying_all(
            weights in prop::collection::vec(prop_oneof![Just(0_u64), 0_u64..5, 0_u64..1_000], 1..10),
            owners in 1_usize..6, pick: prop::sample::Index,
        ) {
            let buckets = weights.len();
            if buckets <= owners {
                let held = vec![0..0; owners];
                let firsts = balance(&weights, &held);
                prop_assert!(firsts.iter().enumerate().all(|(owner, &first)| first == owner.min(buckets)));
                return Ok(());
            }
            let all = ways(buckets, owners);
            let held = ranges(&all[pick.index(all.len())], buckets);
            let firsts = balance(&weights, &held);
            prop_assert!(all.contains(&firsts), "{firsts:?}");
            let best = all.iter().map(|way| (largest(&weights, way), moved(&held, way, buckets))).min();
            prop_assert_eq!(Some((largest(&weights, &firsts), moved(&held, &firsts, buckets))), best);
        }
    }

    #[test]
    fn at_the_limits() {
        let weights: Vec<u64> = (0..4096).map(|i| u64::MAX - i % 7).collect();
        let held: Vec<Range<usize>> = (0..1024).map(|i| 4 * i..4 * i + 4).collect();
        let firsts = balance(&weights, &held);
        assert!(firsts.windows(2).all(|pair| pair[0] < pair[1]));
        let zeros = balance(&vec![0; 4096], &held);
        assert!(zeros.iter().enumerate().all(|(i, &first)| first == 4 * i));
    }
}
