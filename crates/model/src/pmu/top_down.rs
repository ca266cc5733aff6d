//! Top-down metrics: where the slots of the pipeline go, first in four categories, then each in two.
//!
//! | CPU | level 1 | level 2 |
//! | --- | --- | --- |
//! | Intel, Haswell to Cascade Lake | four events over four slots a cycle | not available |
//! | Intel, Ice Lake | the fixed slots counter and its metrics | not available |
//! | Intel, Sapphire Rapids and later | the same | four more metrics |
//! | AMD, Zen to Zen 3 | not available | not available |
//! | AMD, Zen 4 (6 slots), Zen 5 (8 slots) | dispatch slots | three more pairs of events |
//!
//! Sources: A. Yasin, "A top-down method for performance analysis and counters architecture" (ISPASS 2014); the kernel's
//! `tools/perf/Documentation/topdown.txt`; AMD 58550 and PPR 55901, section on pipeline utilisation.
//!
//! AMD has a fifth category: slots given to the sibling.

use serde::{Deserialize, Serialize};
use thiserror::Error;

use super::counts::Counts;
use super::cpu::{CpuModel, Maker, Microarchitecture};
use super::quantity::Quantity;

/// A category and its share of the slots.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Share {
    /// Its name in rows.
    pub category: &'static str,
    /// 1, or 2 for what a category of level 1 is made of.
    pub level: u8,
    /// The category of level 1 it is a part of; itself for those.
    pub parent: &'static str,
    /// Of all slots.
    pub percent: f64,
}

/// Why there are no top-down metrics.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum NoTopDown {
    /// This CPU offers none.
    #[error("top-down metrics are not available on {cpu}")]
    Unavailable {
        /// The CPU, in words.
        cpu: String,
    },
    /// Something they are made of was not counted, or was 0.
    #[error("top-down metrics need {missing}, which was not counted")]
    NotCounted {
        /// What.
        missing: Quantity,
    },
}

/// Name of the category.
pub const RETIRING: &str = "retiring";
/// Name of the category.
pub const BAD_SPECULATION: &str = "bad_speculation";
/// Name of the category.
pub const FRONTEND_BOUND: &str = "frontend_bound";
/// Name of the category.
pub const BACKEND_BOUND: &str = "backend_bound";
/// Name of AMD's fifth category.
pub const SMT_CONTENTION: &str = "smt_contention";

/// Slots a cycle before Ice Lake.
const CLASSIC_WIDTH: f64 = 4.0;

/// How a CPU is asked for its top-down metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Method {
    /// Four events of Intel before Ice Lake.
    Classic,
    /// Intel's slots counter, level 1.
    Slots,
    /// Intel's slots counter, both levels.
    SlotsLevel2,
    /// AMD's dispatch slots, so many a cycle, both levels.
    Dispatch {
        /// Slots a cycle.
        width: u32,
    },
}

/// How this CPU is asked; `None` where it offers none.
pub fn method(cpu: &CpuModel) -> Option<Method> {
    Some(match cpu.microarchitecture()? {
        Microarchitecture::Haswell | Microarchitecture::Skylake => Method::Classic,
        Microarchitecture::IceLake => Method::Slots,
        Microarchitecture::GoldenCove | Microarchitecture::RedwoodCove => Method::SlotsLevel2,
        Microarchitecture::Zen1 | Microarchitecture::Zen2 | Microarchitecture::Zen3 => return None,
        Microarchitecture::Zen4 => Method::Dispatch { width: 6 },
        Microarchitecture::Zen5 => Method::Dispatch { width: 8 },
    })
}

/// The shares of the slots on this CPU, level 1 first. What level 2 needs and was not counted is left out.
///
/// `siblings_active` says whether other threads ran on the same cores: it matters before Ice Lake only, where slots are the
/// core's.
///
/// # Errors
/// [`NoTopDown::Unavailable`] where the CPU offers none, [`NoTopDown::NotCounted`] where level 1 was not counted.
pub fn top_down(counts: &Counts, cpu: &CpuModel, siblings_active: bool) -> Result<Vec<Share>, NoTopDown> {
    match method(cpu) {
        None => Err(NoTopDown::Unavailable {
            cpu: match (cpu.microarchitecture(), cpu.maker()) {
                (Some(known), Maker::Amd) => format!("{} cores", known.name()),
                _ => cpu.words(),
            },
        }),
        Some(Method::Classic) => classic(counts, siblings_active),
        Some(Method::Slots) => slots(counts, false),
        Some(Method::SlotsLevel2) => slots(counts, true),
        Some(Method::Dispatch { width }) => dispatch(counts, f64::from(width)),
    }
}

/// All of these counts, or which is missing.
fn counted<const N: usize>(counts: &Counts, quantities: [Quantity; N]) -> Result<[f64; N], NoTopDown> {
    counts.together(quantities).ok_or_else(|| NoTopDown::NotCounted {
        missing: quantities
            .into_iter()
            .find(|quantity| counts.get(*quantity).is_none())
            .unwrap_or(Quantity::Slots),
    })
}

fn level_1(category: &'static str, share: f64) -> Share {
    Share {
        category,
        level: 1,
        parent: category,
        percent: 100.0 * share,
    }
}

fn level_2(category: &'static str, parent: &'static str, share: f64) -> Share {
    Share {
        category,
        level: 2,
        parent,
        percent: 100.0 * share,
    }
}

/// Intel before Ice Lake.
fn classic(counts: &Counts, siblings_active: bool) -> Result<Vec<Share>, NoTopDown> {
    let [cycles, undelivered, issued, retired, recovery] = counted(
        counts,
        [
            Quantity::Cycles,
            Quantity::UopsNotDelivered,
            Quantity::UopsIssued,
            Quantity::UopsRetired,
            Quantity::RecoveryCycles,
        ],
    )?;
    // Two threads of a core each see the core's cycles: half of them is what one has.
    let cycles = match counts.ratio(Quantity::CoreCycles, Quantity::Cycles) {
        Some(ratio) if siblings_active => cycles * ratio / 2.0,
        _ => cycles,
    };
    let all = CLASSIC_WIDTH * cycles;
    if all <= 0.0 {
        return Err(NoTopDown::NotCounted {
            missing: Quantity::Cycles,
        });
    }
    let frontend = undelivered / all;
    let retiring = retired / all;
    // Recovery is counted while more retires than was issued since: never less than nothing.
    let wrong = ((issued - retired + CLASSIC_WIDTH * recovery) / all).max(0.0);
    let backend = (1.0 - frontend - retiring - wrong).max(0.0);
    Ok(vec![
        level_1(RETIRING, retiring),
        level_1(BAD_SPECULATION, wrong),
        level_1(FRONTEND_BOUND, frontend),
        level_1(BACKEND_BOUND, backend),
    ])
}

/// Intel since Ice Lake. The metrics are fractions of 8 bits, so the shares are of their sum and not of the slots.
fn slots(counts: &Counts, both: bool) -> Result<Vec<Share>, NoTopDown> {
    let first @ [retiring, wrong, frontend, backend] = counted(
        counts,
        [
            Quantity::TopDownRetiring,
            Quantity::TopDownBadSpeculation,
            Quantity::TopDownFrontendBound,
            Quantity::TopDownBackendBound,
        ],
    )?;
    let all: f64 = first.iter().sum();
    if all <= 0.0 {
        return Err(NoTopDown::NotCounted {
            missing: Quantity::Slots,
        });
    }
    let mut shares = vec![
        level_1(RETIRING, retiring / all),
        level_1(BAD_SPECULATION, wrong / all),
        level_1(FRONTEND_BOUND, frontend / all),
        level_1(BACKEND_BOUND, backend / all),
    ];
    if !both {
        return Ok(shares);
    }
    let pairs = [
        (
            Quantity::TopDownHeavyOperations,
            retiring,
            RETIRING,
            "heavy_operations",
            "light_operations",
        ),
        (
            Quantity::TopDownBranchMispredicts,
            wrong,
            BAD_SPECULATION,
            "branch_mispredicts",
            "machine_clears",
        ),
        (
            Quantity::TopDownFetchLatency,
            frontend,
            FRONTEND_BOUND,
            "fetch_latency",
            "fetch_bandwidth",
        ),
        (
            Quantity::TopDownMemoryBound,
            backend,
            BACKEND_BOUND,
            "memory_bound",
            "core_bound",
        ),
    ];
    for (quantity, whole, parent, one, other) in pairs {
        if let Some(part) = counts.get(quantity) {
            shares.push(level_2(one, parent, part / all));
            shares.push(level_2(other, parent, ((whole - part) / all).max(0.0)));
        }
    }
    Ok(shares)
}

/// AMD since Zen 4.
fn dispatch(counts: &Counts, width: f64) -> Result<Vec<Share>, NoTopDown> {
    // Each share is of the cycles of its own group: groups take turns.
    let share = |quantity: Quantity| -> Result<f64, NoTopDown> {
        let [part, cycles] = counted(counts, [quantity, Quantity::Cycles])?;
        if cycles <= 0.0 {
            return Err(NoTopDown::NotCounted {
                missing: Quantity::Cycles,
            });
        }
        Ok(part / (width * cycles))
    };
    let frontend = share(Quantity::SlotsNoOps)?;
    let backend = share(Quantity::SlotsBackendStalls)?;
    let retiring = share(Quantity::UopsRetired)?;
    let [dispatched, retired, cycles] = counted(
        counts,
        [Quantity::UopsIssued, Quantity::UopsRetired, Quantity::Cycles],
    )?;
    let wrong = ((dispatched - retired) / (width * cycles)).max(0.0);
    let mut shares = vec![
        level_1(RETIRING, retiring),
        level_1(BAD_SPECULATION, wrong),
        level_1(FRONTEND_BOUND, frontend),
        level_1(BACKEND_BOUND, backend),
    ];
    if let Ok(contention) = share(Quantity::SlotsSmtContention) {
        shares.push(level_1(SMT_CONTENTION, contention));
    }
    // A category in two parts, `part` of it the first.
    let mut split = |parent, whole: f64, one, other, part: f64| {
        let part = part.clamp(0.0, 1.0);
        shares.push(level_2(one, parent, whole * part));
        shares.push(level_2(other, parent, whole * (1.0 - part)));
    };
    if let Some(microcode) = counts.ratio(Quantity::MicrocodeOpsRetired, Quantity::UopsRetired) {
        split(
            RETIRING,
            retiring,
            "heavy_operations",
            "light_operations",
            microcode,
        );
    }
    if let Some([mispredicts, restarts]) =
        counts.together([Quantity::BranchMispredictions, Quantity::PipelineRestarts])
        && mispredicts + restarts > 0.0
    {
        let part = mispredicts / (mispredicts + restarts);
        split(
            BAD_SPECULATION,
            wrong,
            "branch_mispredicts",
            "machine_clears",
            part,
        );
    }
    if let Some(ratio) = counts.ratio(Quantity::CyclesNoOps, Quantity::SlotsNoOps) {
        split(
            FRONTEND_BOUND,
            frontend,
            "fetch_latency",
            "fetch_bandwidth",
            width * ratio,
        );
    }
    if let Some(loads) = counts.ratio(Quantity::RetireStallLoadCycles, Quantity::RetireStallCycles) {
        split(BACKEND_BOUND, backend, "memory_bound", "core_bound", loads);
    }
    Ok(shares)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn cpu(vendor: &str, signature: u32) -> CpuModel {
        CpuModel::from_signature(vendor, signature)
    }

    fn percent(shares: &[Share], category: &str) -> f64 {
        let found = shares.iter().find(|share| share.category == category);
        let percent = found.map_or_else(|| panic!("no {category} in {shares:?}"), |share| share.percent);
        // Free of the last bits, so that round figures can be compared.
        (percent * 1e9).round() / 1e9
    }

    fn sum(shares: &[Share], level: u8, parent: Option<&str>) -> f64 {
        shares
            .iter()
            .filter(|share| share.level == level && parent.is_none_or(|parent| share.parent == parent))
            .map(|share| share.percent)
            .sum()
    }

    #[test]
    fn each_cpu_is_asked_in_its_way() {
        let ways = [
            ("GenuineIntel", 0x0003_06f2, Some(Method::Classic)),
            ("GenuineIntel", 0x0005_0657, Some(Method::Classic)),
            ("GenuineIntel", 0x0006_06a6, Some(Method::Slots)),
            ("GenuineIntel", 0x0008_06f8, Some(Method::SlotsLevel2)),
            ("GenuineIntel", 0x000a_06d1, Some(Method::SlotsLevel2)),
            ("AuthenticAMD", 0x0083_0f10, None),
            ("AuthenticAMD", 0x00a0_0f11, None),
            ("AuthenticAMD", 0x00a1_0f11, Some(Method::Dispatch { width: 6 })),
            ("AuthenticAMD", 0x00b0_0f21, Some(Method::Dispatch { width: 8 })),
        ];
        for (vendor, signature, expected) in ways {
            assert_eq!(method(&cpu(vendor, signature)), expected, "{signature:#x}");
        }
    }

    #[test]
    fn what_is_not_available_is_said() {
        let zen2 = top_down(&Counts::default(), &cpu("AuthenticAMD", 0x0083_0f10), false).unwrap_err();
        assert_eq!(
            zen2.to_string(),
            "top-down metrics are not available on Zen 2 cores"
        );
        let unknown = top_down(&Counts::default(), &CpuModel::default(), false).unwrap_err();
        assert!(unknown.to_string().ends_with("a CPU without cpuid"), "{unknown}");
        let empty = Counts::exact(&[(Quantity::TopDownRetiring, 5)]);
        let missing = top_down(&empty, &cpu("GenuineIntel", 0x0006_06a6), false).unwrap_err();
        assert_eq!(
            missing,
            NoTopDown::NotCounted {
                missing: Quantity::TopDownBadSpeculation
            }
        );
    }

    #[test]
    fn siblings_share_the_slots_of_a_core_before_ice_lake() {
        let counts = Counts::exact(&[
            (Quantity::Cycles, 1_000),
            (Quantity::CoreCycles, 1_200),
            (Quantity::UopsNotDelivered, 480),
            (Quantity::UopsIssued, 1_200),
            (Quantity::UopsRetired, 1_200),
            (Quantity::RecoveryCycles, 0),
        ]);
        let skylake = cpu("GenuineIntel", 0x0005_0657);
        let alone = top_down(&counts, &skylake, false).unwrap();
        assert_eq!(percent(&alone, RETIRING), 30.0);
        assert_eq!(percent(&alone, FRONTEND_BOUND), 12.0);
        let beside = top_down(&counts, &skylake, true).unwrap();
        assert_eq!(percent(&beside, RETIRING), 50.0);
        assert_eq!(percent(&beside, FRONTEND_BOUND), 20.0);
        assert_eq!(percent(&beside, BACKEND_BOUND), 30.0);
    }

    #[test]
    fn slots_that_are_the_siblings_are_named_on_amd() {
        let counts = Counts::exact(&[
            (Quantity::Cycles, 1_000),
            (Quantity::SlotsNoOps, 1_600),
            (Quantity::SlotsBackendStalls, 2_400),
            (Quantity::SlotsSmtContention, 800),
            (Quantity::UopsIssued, 3_200),
            (Quantity::UopsRetired, 2_400),
        ]);
        let shares = top_down(&counts, &cpu("AuthenticAMD", 0x00b0_0f21), true).unwrap();
        assert_eq!(percent(&shares, SMT_CONTENTION), 10.0);
        assert_eq!(percent(&shares, BAD_SPECULATION), 10.0);
        assert!((sum(&shares, 1, None) - 100.0).abs() < 1e-9);
        assert_eq!(sum(&shares, 2, None), 0.0, "nothing of level 2 was counted");
    }

    proptest! {
        #[test]
        fn metrics_of_slots_sum_to_all(
            parts in proptest::collection::vec((0u64..1 << 40, 0u64..1 << 40), 4),
        ) {
            let whole = |at: usize| parts[at].0 + parts[at].1;
            prop_assume!((0..4).map(whole).sum::<u64>() > 0);
            let counts = Counts::exact(&[
                (Quantity::TopDownRetiring, whole(0)),
                (Quantity::TopDownHeavyOperations, parts[0].0),
                (Quantity::TopDownBadSpeculation, whole(1)),
                (Quantity::TopDownBranchMispredicts, parts[1].0),
                (Quantity::TopDownFrontendBound, whole(2)),
                (Quantity::TopDownFetchLatency, parts[2].0),
                (Quantity::TopDownBackendBound, whole(3)),
                (Quantity::TopDownMemoryBound, parts[3].0),
            ]);
            let shares = top_down(&counts, &cpu("GenuineIntel", 0x0008_06f8), true).unwrap();
            prop_assert!((sum(&shares, 1, None) - 100.0).abs() < 1e-6);
            for parent in [RETIRING, BAD_SPECULATION, FRONTEND_BOUND, BACKEND_BOUND] {
                let whole = percent(&shares, parent);
                prop_assert!((sum(&shares, 2, Some(parent)) - whole).abs() < 1e-6, "{}", parent);
            }
        }

        #[test]
        fn four_events_sum_to_all(
            retired in 1u64..1 << 40,
            wrong in 0u64..1 << 40,
            undelivered in 0u64..1 << 40,
            recovery in 0u64..1 << 38,
            bound in 0u64..1 << 40,
        ) {
            let slots = retired + wrong + undelivered + 4 * recovery + bound;
            let counts = Counts::exact(&[
                (Quantity::Cycles, slots.div_ceil(4)),
                (Quantity::UopsNotDelivered, undelivered),
                (Quantity::UopsIssued, retired + wrong),
                (Quantity::UopsRetired, retired),
                (Quantity::RecoveryCycles, recovery),
            ]);
            let shares = top_down(&counts, &cpu("GenuineIntel", 0x0003_06f2), false).unwrap();
            prop_assert!((sum(&shares, 1, None) - 100.0).abs() < 1e-6);
            prop_assert!(shares.iter().all(|share| (0.0..=100.0).contains(&share.percent)));
        }

        #[test]
        fn dispatch_slots_sum_to_all(
            retired in 1u64..1 << 40,
            wrong in 0u64..1 << 40,
            empty in 0u64..1 << 40,
            stalled in 0u64..1 << 40,
            siblings in 0u64..1 << 40,
            parts in proptest::collection::vec(0u64..1 << 20, 6),
        ) {
            let slots = retired + wrong + empty + stalled + siblings;
            let counts = Counts::exact(&[
                // Six slots a cycle; what is over goes to the siblings.
                (Quantity::Cycles, slots.div_ceil(6)),
                (Quantity::SlotsNoOps, empty),
                (Quantity::SlotsBackendStalls, stalled),
                (Quantity::SlotsSmtContention, siblings + (slots.div_ceil(6) * 6 - slots)),
                (Quantity::UopsIssued, retired + wrong),
                (Quantity::UopsRetired, retired),
                (Quantity::MicrocodeOpsRetired, parts[0].min(retired)),
                (Quantity::BranchMispredictions, parts[1]),
                (Quantity::PipelineRestarts, parts[2]),
                (Quantity::CyclesNoOps, parts[3].min(empty / 6)),
                (Quantity::RetireStallCycles, parts[4] + parts[5] + 1),
                (Quantity::RetireStallLoadCycles, parts[4]),
            ]);
            let shares = top_down(&counts, &cpu("AuthenticAMD", 0x00a1_0f11), true).unwrap();
            prop_assert!((sum(&shares, 1, None) - 100.0).abs() < 1e-6);
            for parent in [RETIRING, BACKEND_BOUND] {
                let whole = percent(&shares, parent);
                prop_assert!((sum(&shares, 2, Some(parent)) - whole).abs() < 1e-6, "{}", parent);
            }
        }
    }
}
