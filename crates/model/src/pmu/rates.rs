//! Rates as paper 001 gives them: cycles and micro-operations an instruction, the instruction mix, and misses in percent of
//! what could have missed (sections 4 and 5, tables 1 and 2, figures 4 to 6 and 10 to 15).
//!
//! All are pure functions of counts; what was not counted is `None`, never a guess.

use serde::{Deserialize, Serialize};

use super::counts::Counts;
use super::quantity::Quantity;

/// What a rate in percent is a part of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Base {
    /// The accesses that could have missed.
    Accesses,
    /// Retired loads.
    Loads,
    /// Retired branches.
    Branches,
    /// Retired instructions, where the CPU does not count the accesses.
    Instructions,
}

/// A rate in percent.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Rate {
    /// The rate; above 100 where the CPU counts replays as misses.
    pub percent: f64,
    /// Of what.
    pub base: Base,
}

/// Cycles that were not halted, for each retired instruction: the paper's non-halted CPI.
pub fn cpi_not_halted(counts: &Counts) -> Option<f64> {
    counts.ratio(Quantity::Cycles, Quantity::Instructions)
}

/// All cycles that went by, for each retired instruction: the paper's CPI. `cycles_elapsed` are those of all CPUs looked at,
/// idle ones included.
pub fn cpi(counts: &Counts, cycles_elapsed: f64) -> Option<f64> {
    let instructions = counts.get(Quantity::Instructions)?;
    (instructions > 0.0 && cycles_elapsed > 0.0).then_some(cycles_elapsed / instructions)
}

/// The part of the time in which the CPUs were halted, 0 to 1. `cycles_elapsed` are reference cycles: seconds times CPUs times
/// the frequency of the time stamp counter.
pub fn halted_share(counts: &Counts, cycles_elapsed: f64) -> Option<f64> {
    let running = counts.get(Quantity::ReferenceCycles)?;
    (cycles_elapsed > 0.0).then_some((1.0 - running / cycles_elapsed).clamp(0.0, 1.0))
}

/// Retired micro-operations for each retired instruction.
pub fn uops_per_instruction(counts: &Counts) -> Option<f64> {
    counts.ratio(Quantity::UopsRetired, Quantity::Instructions)
}

/// The part of micro-operations that came from the cache of decoded instructions, in percent of those from it and the
/// decoders.
pub fn op_cache_percent(counts: &Counts) -> Option<f64> {
    let [cached, decoded] = counts.together([Quantity::OpCacheUops, Quantity::DecoderUops])?;
    let all = cached + decoded;
    (all > 0.0).then_some(100.0 * cached / all)
}

/// Memory-order machine clears for each thousand instructions.
pub fn machine_clears_per_kilo_instruction(counts: &Counts) -> Option<f64> {
    counts
        .ratio(Quantity::MemoryOrderMachineClears, Quantity::Instructions)
        .map(|ratio| 1_000.0 * ratio)
}

/// Shares of kinds of instructions, in percent: tables 1 and 2 of the paper.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Mix {
    /// Loads.
    pub load: f64,
    /// Stores.
    pub store: f64,
    /// Branches.
    pub branch: f64,
    /// The rest; 0 where the others are more than all, because an instruction that loads and stores counts as both.
    pub other: f64,
}

/// The instruction mix.
pub fn mix(counts: &Counts) -> Option<Mix> {
    let [instructions, load, store, branch] = counts.together([
        Quantity::Instructions,
        Quantity::Loads,
        Quantity::Stores,
        Quantity::Branches,
    ])?;
    if instructions <= 0.0 {
        return None;
    }
    let percent = |count: f64| 100.0 * count / instructions;
    Some(Mix {
        load: percent(load),
        store: percent(store),
        branch: percent(branch),
        other: (100.0 - percent(load + store + branch)).max(0.0),
    })
}

fn rate(counts: &Counts, of: Quantity, to: Quantity, base: Base) -> Option<Rate> {
    counts.ratio(of, to).map(|ratio| Rate {
        percent: 100.0 * ratio,
        base,
    })
}

/// Misses of the first data level.
pub fn l1d_miss(counts: &Counts) -> Option<Rate> {
    rate(counts, Quantity::L1dMisses, Quantity::L1dAccesses, Base::Accesses)
}

/// Misses of the second level, of data.
pub fn l2_data_miss(counts: &Counts) -> Option<Rate> {
    rate(
        counts,
        Quantity::L2DataMisses,
        Quantity::L2DataAccesses,
        Base::Accesses,
    )
}

/// Misses of the second level, of instructions.
pub fn l2_code_miss(counts: &Counts) -> Option<Rate> {
    rate(
        counts,
        Quantity::L2CodeMisses,
        Quantity::L2CodeAccesses,
        Base::Accesses,
    )
}

/// Misses of the last level, of what came to it.
pub fn llc_miss(counts: &Counts) -> Option<Rate> {
    rate(counts, Quantity::LlcMisses, Quantity::LlcAccesses, Base::Accesses)
}

/// Misses of the first instruction level: of its lookups, where the CPU counts them, else of instructions.
pub fn l1i_miss(counts: &Counts) -> Option<Rate> {
    let of_hits_and_misses = || {
        let [hits, misses] = counts.together([Quantity::L1iHits, Quantity::L1iMisses])?;
        let all = hits + misses;
        (all > 0.0).then_some(Rate {
            percent: 100.0 * misses / all,
            base: Base::Accesses,
        })
    };
    rate(counts, Quantity::L1iMisses, Quantity::L1iAccesses, Base::Accesses)
        .or_else(of_hits_and_misses)
        .or_else(|| {
            rate(
                counts,
                Quantity::L1iMisses,
                Quantity::Instructions,
                Base::Instructions,
            )
        })
}

/// Misses of the translation buffers of instructions, of instructions: no CPU counts all of their lookups.
pub fn itlb_miss(counts: &Counts) -> Option<Rate> {
    rate(
        counts,
        Quantity::ItlbMisses,
        Quantity::Instructions,
        Base::Instructions,
    )
}

/// Misses of the translation buffers of data, of loads.
pub fn dtlb_miss(counts: &Counts) -> Option<Rate> {
    rate(counts, Quantity::DtlbMisses, Quantity::Loads, Base::Loads).or_else(|| {
        rate(
            counts,
            Quantity::DtlbMisses,
            Quantity::Instructions,
            Base::Instructions,
        )
    })
}

/// Branches predicted wrongly.
pub fn branch_mispredict(counts: &Counts) -> Option<Rate> {
    rate(
        counts,
        Quantity::BranchMispredictions,
        Quantity::Branches,
        Base::Branches,
    )
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_papers_own_figures_follow_from_counts_that_have_them() {
        // uTPC-C: CPI 1.81, non-halted 1.54, 1.6 micro-operations an instruction, table 1 (section 4).
        let counts = Counts::exact(&[
            (Quantity::Instructions, 1_000_000),
            (Quantity::Cycles, 1_540_000),
            (Quantity::UopsRetired, 1_600_000),
            (Quantity::Loads, 360_000),
            (Quantity::Stores, 210_000),
            (Quantity::Branches, 180_000),
        ]);
        assert_eq!(cpi(&counts, 1_810_000.0), Some(1.81));
        assert_eq!(cpi_not_halted(&counts), Some(1.54));
        assert_eq!(uops_per_instruction(&counts), Some(1.6));
        let mix = mix(&counts).unwrap();
        assert_eq!((mix.load, mix.store, mix.branch), (36.0, 21.0, 18.0));
        assert!((mix.other - 25.0).abs() < 1e-9);
    }

    #[test]
    fn the_base_of_instruction_misses_is_what_the_cpu_counts() {
        let misses = (Quantity::L1iMisses, 5);
        let instructions = (Quantity::Instructions, 1_000);
        let of = |more: &[(Quantity, u64)]| {
            let mut values = vec![misses, instructions];
            values.extend_from_slice(more);
            l1i_miss(&Counts::exact(&values)).unwrap()
        };
        let rate = |percent, base| Rate { percent, base };
        assert_eq!(of(&[]), rate(0.5, Base::Instructions));
        assert_eq!(of(&[(Quantity::L1iHits, 95)]), rate(5.0, Base::Accesses));
        assert_eq!(of(&[(Quantity::L1iAccesses, 50)]), rate(10.0, Base::Accesses));
    }

    #[test]
    fn what_was_not_counted_is_not_guessed() {
        let counts = Counts::exact(&[(Quantity::Instructions, 0), (Quantity::Cycles, 5)]);
        assert_eq!(cpi_not_halted(&counts), None);
        assert_eq!(cpi(&counts, 5.0), None);
        assert_eq!(mix(&counts), None);
        for rate in [
            l1d_miss,
            l2_data_miss,
            l2_code_miss,
            llc_miss,
            l1i_miss,
            itlb_miss,
            dtlb_miss,
            branch_mispredict,
        ] {
            assert_eq!(rate(&counts), None);
        }
        assert_eq!(machine_clears_per_kilo_instruction(&counts), None);
        assert_eq!(op_cache_percent(&counts), None);
        assert_eq!(halted_share(&counts, 10.0), None);
    }

    proptest! {
        #[test]
        fn shares_of_the_mix_sum_to_all(
            load in 0u64..1 << 40,
            store in 0u64..1 << 40,
            branch in 0u64..1 << 40,
            other in 1u64..1 << 40,
        ) {
            let counts = Counts::exact(&[
                (Quantity::Instructions, load + store + branch + other),
                (Quantity::Loads, load),
                (Quantity::Stores, store),
                (Quantity::Branches, branch),
            ]);
            let mix = mix(&counts).unwrap();
            let sum = mix.load + mix.store + mix.branch + mix.other;
            prop_assert!((sum - 100.0).abs() < 1e-6, "{}", sum);
        }

        #[test]
        fn a_part_is_between_none_and_all(part in 0u64..1 << 50, rest in 0u64..1 << 50) {
            prop_assume!(part + rest > 0);
            let counts = Counts::exact(&[
                (Quantity::L1dMisses, part),
                (Quantity::L1dAccesses, part + rest),
                (Quantity::OpCacheUops, part),
                (Quantity::DecoderUops, rest),
            ]);
            let missed = l1d_miss(&counts).unwrap();
            prop_assert!((0.0..=100.0).contains(&missed.percent));
            let cached = op_cache_percent(&counts).unwrap();
            prop_assert!((missed.percent - cached).abs() < 1e-9);
        }
    }
}
