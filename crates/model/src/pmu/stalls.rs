//! The paper's non-overlapped stall components: misses an instruction times cycles a miss (section 4.6, figures 7a and 16).
//!
//! They say how long an instruction would wait if nothing overlapped. Out-of-order cores overlap most of it, so the sum may be
//! more than all cycles there are; top-down metrics ([`super::top_down`]) are the other half of the answer.
//!
//! Cycles a miss are handed in: latencies that were measured on the machine, at the frequency it ran.

use serde::{Deserialize, Serialize};

use super::counts::Counts;
use super::quantity::Quantity;

/// Where an instruction waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Component {
    /// Misses of the second level: the last level's latency, or memory's where that missed too.
    L2,
    /// Misses of the first data level that the second served.
    L1d,
    /// Misses of the first instruction level.
    L1i,
    /// Walks for data addresses.
    Dtlb,
    /// Walks for instruction addresses.
    Itlb,
    /// Mispredicted branches.
    Branch,
}

impl Component {
    /// All, in the order of figure 7a.
    pub const ALL: [Self; 6] = [
        Self::L2,
        Self::L1d,
        Self::L1i,
        Self::Dtlb,
        Self::Itlb,
        Self::Branch,
    ];

    /// Its name in rows.
    pub fn name(self) -> &'static str {
        match self {
            Self::L2 => "l2",
            Self::L1d => "l1d",
            Self::L1i => "l1i",
            Self::Dtlb => "dtlb",
            Self::Itlb => "itlb",
            Self::Branch => "branch",
        }
    }
}

/// What a miss costs, in cycles.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct CyclesPerMiss {
    /// A miss of the first level served by the second.
    pub l2_hit: f64,
    /// A miss of the second level served by the last.
    pub llc_hit: f64,
    /// A miss of the last level.
    pub memory: f64,
    /// A walk through the page tables.
    pub walk: f64,
    /// A mispredicted branch.
    pub mispredict: f64,
}

impl CyclesPerMiss {
    /// From measured latencies in nanoseconds at a frequency in GHz. A walk is taken for one access of the second level, where
    /// upper page tables mostly are, and a misprediction for 20 cycles, which the paper gives for its machine (section 3.1) and
    /// later cores are near.
    pub fn from_latencies(l2_ns: f64, llc_ns: f64, memory_ns: f64, frequency_ghz: f64) -> Self {
        Self {
            l2_hit: l2_ns * frequency_ghz,
            llc_hit: llc_ns * frequency_ghz,
            memory: memory_ns * frequency_ghz,
            walk: l2_ns * frequency_ghz,
            mispredict: 20.0,
        }
    }
}

/// Stall cycles an instruction by component; what was not counted is left out.
pub fn components(counts: &Counts, costs: &CyclesPerMiss) -> Vec<(Component, f64)> {
    let per_instruction = |quantity| counts.ratio(quantity, Quantity::Instructions);
    let l2_misses = per_instruction(Quantity::L2DataMisses);
    let of = |component: Component| -> Option<f64> {
        let cycles = match component {
            Component::L2 => {
                let l2 = l2_misses?;
                // Where misses of the last level are not counted, each is taken for a hit there: a lower bound.
                let llc = per_instruction(Quantity::LlcMisses).unwrap_or(0.0).min(l2);
                (l2 - llc) * costs.llc_hit + llc * costs.memory
            }
            Component::L1d => {
                let l1d = per_instruction(Quantity::L1dMisses)?;
                (l1d - l2_misses.unwrap_or(0.0)).max(0.0) * costs.l2_hit
            }
            Component::L1i => per_instruction(Quantity::L1iMisses)? * costs.l2_hit,
            Component::Dtlb => per_instruction(Quantity::DtlbMisses)? * costs.walk,
            Component::Itlb => per_instruction(Quantity::ItlbMisses)? * costs.walk,
            Component::Branch => per_instruction(Quantity::BranchMispredictions)? * costs.mispredict,
        };
        Some(cycles)
    };
    Component::ALL
        .into_iter()
        .filter_map(|component| of(component).map(|cycles| (component, cycles)))
        .collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn costs() -> CyclesPerMiss {
        CyclesPerMiss {
            l2_hit: 14.0,
            llc_hit: 70.0,
            memory: 300.0,
            walk: 30.0,
            mispredict: 20.0,
        }
    }

    #[test]
    fn each_component_is_misses_times_cycles() {
        let counts = Counts::exact(&[
            (Quantity::Instructions, 1_000),
            (Quantity::L1dMisses, 50),
            (Quantity::L2DataMisses, 20),
            (Quantity::LlcMisses, 5),
            (Quantity::L1iMisses, 10),
            (Quantity::DtlbMisses, 2),
            (Quantity::ItlbMisses, 1),
            (Quantity::BranchMispredictions, 4),
        ]);
        let found = components(&counts, &costs());
        let expected = [
            // 15 served by the last level, 5 by memory.
            (Component::L2, 2.55),
            // 30 served by the second level.
            (Component::L1d, 0.42),
            (Component::L1i, 0.14),
            (Component::Dtlb, 0.06),
            (Component::Itlb, 0.03),
            (Component::Branch, 0.08),
        ];
        assert_eq!(found.len(), expected.len());
        for ((component, cycles), (name, wanted)) in found.iter().zip(expected) {
            assert_eq!(*component, name);
            assert!((cycles - wanted).abs() < 1e-9, "{name:?}: {cycles}");
        }
    }

    #[test]
    fn what_was_not_counted_is_left_out() {
        let counts = Counts::exact(&[(Quantity::Instructions, 10), (Quantity::ItlbMisses, 1)]);
        let found = components(&counts, &costs());
        assert_eq!(found, [(Component::Itlb, 3.0)]);
        assert!(components(&Counts::default(), &costs()).is_empty());
    }

    #[test]
    fn latencies_become_cycles() {
        // The paper's machine: 8.26 ns and 137.9 ns at 3.4 GHz (section 3.1), without a third level.
        let costs = CyclesPerMiss::from_latencies(8.26, 137.9, 137.9, 3.4);
        assert!((costs.l2_hit - 28.084).abs() < 1e-9);
        assert!((costs.memory - 468.86).abs() < 1e-9);
    }

    proptest! {
        #[test]
        fn components_grow_with_misses_and_costs(misses in 0u64..1 << 30, more in 0u64..1 << 20) {
            let counts = |l2: u64| Counts::exact(&[
                (Quantity::Instructions, 1 << 32),
                (Quantity::L2DataMisses, l2),
                (Quantity::LlcMisses, l2 / 3),
            ]);
            let of = |l2| components(&counts(l2), &costs())[0].1;
            prop_assert!(of(misses + more) >= of(misses));
            prop_assert!(of(misses) >= 0.0);
        }
    }
}
