//! Who goes first: the order of sides within a round, shuffled anew each round from a seed that the run prints.
//!
//! A rotation is the rejected alternative: there each side follows the same neighbour in all rounds but one, and inherits that
//! neighbour's warm caches and boosted clock.

use rand::SeedableRng;
use rand::rngs::StdRng;
use rand::seq::SliceRandom;

/// The seed unless somebody names one.
pub const SEED: u64 = 1;

/// Shuffles the sides of a round. The same seed, contest and round give the same order.
///
/// ```
/// use lab_core::order::{SEED, shuffle};
/// let mut order = [0, 1, 2];
/// shuffle(&mut order, SEED, "join sparse_1m_x_16m", 0);
/// let mut sorted = order;
/// sorted.sort_unstable();
/// assert_eq!(sorted, [0, 1, 2]);
/// ```
pub fn shuffle<T>(order: &mut [T], seed: u64, contest: &str, round: usize) {
    // FNV-1a: two contests of one run get orders that have nothing to do with each other.
    let name = contest.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    let round = (round as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    order.shuffle(&mut StdRng::seed_from_u64(seed ^ name ^ round));
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn order(seed: u64, contest: &str, round: usize) -> Vec<usize> {
        let mut order: Vec<usize> = (0..4).collect();
        shuffle(&mut order, seed, contest, round);
        order
    }

    #[test]
    fn a_seed_repeats_its_orders() {
        for round in 0..10 {
            assert_eq!(order(7, "join", round), order(7, "join", round));
        }
        assert_ne!(
            (0..10).map(|round| order(7, "join", round)).collect::<Vec<_>>(),
            (0..10).map(|round| order(8, "join", round)).collect::<Vec<_>>()
        );
    }

    #[test]
    fn every_side_follows_every_other_and_begins_rounds() {
        let mut pairs = BTreeSet::new();
        let mut first = BTreeSet::new();
        for round in 0..60 {
            let order = order(SEED, "ssb q1.1", round);
            first.insert(order[0]);
            pairs.extend(order.windows(2).map(|pair| (pair[0], pair[1])));
        }
        assert_eq!((first.len(), pairs.len()), (4, 12));
    }
}
