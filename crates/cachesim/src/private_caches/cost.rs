//! What misses cost in time, by a model that can be checked by hand; and backwards, which change of misses a gain would need.
//!
//! ```text
//!   cycles of a query = instructions * cycles of one + L1 misses that hit L2 * L2 latency
//!                       + (L2 misses - invalidated) * LLC latency + invalidated * latency of another core's cache
//! ```
//!
//! Nothing overlaps, so a miss costs its whole latency: gains computed here are upper bounds of what the change of misses can bring. Kernel
//! and network, which the trace does not have, are left out too: they would make gains smaller still.

use super::platform::Costs;
use super::run::Counted;

/// Cycles of a query.
pub fn cycles_per_query(counted: &Counted, costs: &Costs) -> f64 {
    let misses = counted.all();
    let cycles = counted.instructions as f64 * costs.cycles_per_instruction
        + (misses.l1 - misses.l2) as f64 * costs.l2
        + (misses.l2 - misses.invalidated) as f64 * costs.llc
        + misses.invalidated as f64 * costs.remote;
    if counted.queries > 0.0 {
        cycles / counted.queries
    } else {
        0.0
    }
}

/// Throughput of `new` against `old`, less 1, in percent.
pub fn gain_percent(old: &Counted, new: &Counted, costs: &Costs) -> f64 {
    100.0 * (cycles_per_query(old, costs) / cycles_per_query(new, costs) - 1.0)
}

/// How many second-level misses of a query of `old` must become hits of the second level for a gain of so many percent.
pub fn misses_to_save(old: &Counted, costs: &Costs, gain_percent: f64) -> f64 {
    let gain = gain_percent / 100.0;
    cycles_per_query(old, costs) * gain / (1.0 + gain) / (costs.llc - costs.l2)
}

/// Cycles of one part of a Best Seller of so many steps, cut into `parts`: how long it takes where all parts run at once.
///
/// Each part has `ends` of its own. What it takes a part to pass over order lines of other parts is not in it.
pub fn cycles_of_part(ends: &Counted, step: &Counted, costs: &Costs, steps: usize, parts: usize) -> f64 {
    let steps = steps as f64 / parts.max(1) as f64;
    cycles_per_query(ends, costs) + steps * cycles_per_query(step, costs)
}

#[cfg(test)]
mod tests {
    use super::super::run::Misses;
    use super::*;

    const COSTS: Costs = Costs {
        cycles_per_instruction: 0.5,
        l2: 10.0,
        llc: 50.0,
        remote: 200.0,
    };

    fn counted(l2: u64, invalidated: u64) -> Counted {
        let mut counted = Counted {
            queries: 10.0,
            instructions: 100_000,
            ..Counted::default()
        };
        counted.regions[0] = Misses {
            touches: 50_000,
            l1: 2_000,
            l2,
            invalidated,
        };
        counted
    }

    #[test]
    fn cycles_by_hand() {
        // 5,000 of instructions, 100 hits of L2 at 10, 90 of LLC at 50, 10 elsewhere at 200.
        assert_eq!(cycles_per_query(&counted(1000, 100), &COSTS), 12_500.0);
        assert_eq!(cycles_per_query(&Counted::default(), &COSTS), 0.0);
    }

    #[test]
    fn every_part_has_ends_of_its_own() {
        let (ends, step) = (counted(1000, 0), counted(0, 0));
        // Ends take 5,000 + 100 * 10 + 100 * 50, steps 5,000 + 200 * 10.
        assert_eq!(cycles_of_part(&ends, &step, &COSTS, 100, 1), 11_000.0 + 700_000.0);
        assert_eq!(cycles_of_part(&ends, &step, &COSTS, 100, 10), 11_000.0 + 70_000.0);
    }

    #[test]
    fn saving_what_is_needed_brings_the_gain() {
        let old = counted(1000, 0);
        let save = misses_to_save(&old, &COSTS, 12.0);
        let before = cycles_per_query(&old, &COSTS);
        assert!((before / (before - save * (COSTS.llc - COSTS.l2)) - 1.12).abs() < 1e-9);
        assert!(gain_percent(&old, &counted(500, 0), &COSTS) > 0.0);
        assert_eq!(gain_percent(&old, &old, &COSTS), 0.0);
    }
}
