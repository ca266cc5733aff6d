//! [`place`]: the hardware thread of each part of a split query, and [`reserved`]: the cores that heavy queries get.
//!
//! The paper's two strategies (section 3.2, Figs. 5 and 6), for one query in four parts on cores with two hardware threads:
//!
//! ```text
//!               core 0      core 1      core 2      core 3
//!   Spread      A1  A2      A3  A4      B1  B2      B3  B4      CARIC-DA-1: a query on both threads of its cores
//!   Siblings    A1  B1      A2  B2                              CARIC-DA-2: half as many parts, one a core; the sibling
//!                                                               runs the same range of another query: they share a cache
//! ```
//!
//! Fig. 5 puts parts 1 and 6 on siblings; here neighbours are, as neighbouring ranges share the upper nodes of an index. Without
//! siblings both strategies are one part a core.

use std::fmt;
use std::str::FromStr;

use crate::units::CpuId;

/// A hardware thread that parts may run on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Core {
    /// Its number.
    pub cpu: CpuId,
    /// The first hardware thread of the same core, if that is another one.
    pub sibling_of: Option<CpuId>,
}

/// How the parts of queries are laid over cores.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Placement {
    /// One query's parts on all hardware threads of its cores (CARIC-DA-1).
    #[default]
    Spread,
    /// One part a core, the same range of two queries on the siblings of a core (CARIC-DA-2).
    Siblings,
}

impl Placement {
    /// The names in a configuration.
    pub const NAMES: [&'static str; 2] = ["spread", "siblings"];
}

impl fmt::Display for Placement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(Placement::NAMES[*self as usize])
    }
}

/// No placement has this name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("there is no placement of parts {0:?}; there are spread and siblings")]
pub struct UnknownPlacement(pub String);

impl FromStr for Placement {
    type Err = UnknownPlacement;

    fn from_str(name: &str) -> Result<Self, UnknownPlacement> {
        match name {
            "spread" => Ok(Placement::Spread),
            "siblings" => Ok(Placement::Siblings),
            other => Err(UnknownPlacement(other.to_owned())),
        }
    }
}

/// The hardware thread of each part, as places in `cores`. `job` numbers the queries under way, from 0: neighbours get other cores
/// ([`Placement::Spread`]), or the siblings of the same ones ([`Placement::Siblings`]). Parts beyond [`parts_most`] and jobs beyond
/// [`jobs_at_once`] share threads with others. Empty if there are no cores.
pub fn place(parts: usize, cores: &[Core], placement: Placement, job: usize) -> Vec<usize> {
    let groups = by_core(cores);
    if groups.is_empty() {
        return Vec::new();
    }
    // Where only some cores have siblings, the least: jobs keep apart then, and some threads idle.
    let threads = groups.iter().map(Vec::len).min().unwrap_or(1);
    match placement {
        Placement::Spread => {
            let start = job.wrapping_mul(parts.div_ceil(threads)) % groups.len();
            let from_start = groups[start..].iter().chain(&groups[..start]).flatten();
            from_start.copied().cycle().take(parts).collect()
        }
        Placement::Siblings => {
            let start = (job / threads).wrapping_mul(parts) % groups.len();
            (0..parts)
                .map(|part| {
                    let group = &groups[(start + part) % groups.len()];
                    // Round by round over a core's threads, if there are more parts than cores.
                    group[(job + part / groups.len()) % group.len()]
                })
                .collect()
        }
    }
}

/// Parts of one query at most, so that no two of them share a hardware thread: all threads, or one a core.
pub fn parts_most(cores: &[Core], placement: Placement) -> usize {
    match placement {
        Placement::Spread => cores.len(),
        Placement::Siblings => by_core(cores).len(),
    }
}

/// Queries of so many parts that can run side by side without sharing a hardware thread, at least one.
pub fn jobs_at_once(parts: usize, cores: &[Core], placement: Placement) -> usize {
    let groups = by_core(cores);
    let threads = groups.iter().map(Vec::len).min().unwrap_or(1);
    let jobs = match placement {
        Placement::Spread => groups.len() / parts.div_ceil(threads).max(1),
        Placement::Siblings => groups.len() / parts.max(1) * threads,
    };
    jobs.max(1)
}

/// The hardware threads for heavy queries and those for all others, as places in `cores`. Siblings are never parted: a heavy query
/// would flush its sibling's caches.
///
/// `wanted`: so many cores for heavy queries, but others keep at least one; `None`: a quarter, as the paper's 20 of 80 hardware
/// threads, and none below four cores. Where none are reserved, both get everything. The last cores are reserved, as interrupts
/// and whatever else runs on a machine prefer the first.
pub fn reserved(cores: &[Core], wanted: Option<usize>) -> (Vec<usize>, Vec<usize>) {
    let groups = by_core(cores);
    let count = wanted
        .unwrap_or(groups.len() / 4)
        .min(groups.len().saturating_sub(1));
    if count == 0 {
        let all: Vec<usize> = (0..cores.len()).collect();
        return (all.clone(), all);
    }
    let (simple, complex) = groups.split_at(groups.len() - count);
    (complex.concat(), simple.concat())
}

/// The places of each core's hardware threads, cores in the order in which they first come.
fn by_core(cores: &[Core]) -> Vec<Vec<usize>> {
    let mut groups: Vec<(CpuId, Vec<usize>)> = Vec::new();
    for (place, core) in cores.iter().enumerate() {
        let first = core.sibling_of.unwrap_or(core.cpu);
        match groups.iter_mut().find(|(of, _)| *of == first) {
            Some((_, group)) => group.push(place),
            None => groups.push((first, vec![place])),
        }
    }
    groups.into_iter().map(|(_, group)| group).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    /// `count` cores; with siblings, thread `count + i` is the sibling of thread `i`, as Linux numbers them.
    fn machine(count: usize, siblings: bool) -> Vec<Core> {
        let first = (0..count as u32).map(|i| Core {
            cpu: CpuId(i),
            sibling_of: None,
        });
        let second = (0..count as u32).map(|i| Core {
            cpu: CpuId(count as u32 + i),
            sibling_of: Some(CpuId(i)),
        });
        if siblings {
            first.chain(second).collect()
        } else {
            first.collect()
        }
    }

    fn core_of(cores: &[Core], place: usize) -> CpuId {
        cores[place].sibling_of.unwrap_or(cores[place].cpu)
    }

    #[test]
    fn the_papers_platform() {
        // 40 cores, 80 threads, 20 of them for Best Seller.
        let machine = machine(40, true);
        let (complex, simple) = reserved(&machine, None);
        assert_eq!((complex.len(), simple.len()), (20, 60));
        let complex: Vec<Core> = complex.into_iter().map(|place| machine[place]).collect();
        // CARIC-DA-1: two queries of ten parts, each on five cores of its own.
        assert_eq!(jobs_at_once(10, &complex, Placement::Spread), 2);
        let used: Vec<BTreeSet<CpuId>> = (0..2)
            .map(|job| {
                let parts = place(10, &complex, Placement::Spread, job);
                assert!(
                    parts
                        .chunks(2)
                        .all(|pair| core_of(&complex, pair[0]) == core_of(&complex, pair[1]))
                );
                parts.iter().map(|&part| core_of(&complex, part)).collect()
            })
            .collect();
        assert!(used[0].len() == 5 && used[1].len() == 5 && used[0].is_disjoint(&used[1]));
        // CARIC-DA-2: four queries of five parts; two of them have each part on the same core.
        assert_eq!(jobs_at_once(5, &complex, Placement::Siblings), 4);
        let jobs: Vec<Vec<usize>> = (0..4)
            .map(|job| place(5, &complex, Placement::Siblings, job))
            .collect();
        let on =
            |job: usize| -> Vec<CpuId> { jobs[job].iter().map(|&part| core_of(&complex, part)).collect() };
        assert_eq!(on(0), on(1));
        assert_eq!(on(2), on(3));
        assert!(on(0).iter().all(|core| !on(2).contains(core)));
        let all: BTreeSet<usize> = jobs.concat().into_iter().collect();
        assert_eq!(all.len(), 20);
    }

    #[test]
    fn small_machines_share() {
        let (complex, simple) = reserved(&machine(2, false), None);
        assert_eq!((complex, simple), (vec![0, 1], vec![0, 1]));
        let (complex, simple) = reserved(&machine(2, false), Some(1));
        assert_eq!((complex, simple), (vec![1], vec![0]));
        let (complex, simple) = reserved(&machine(1, true), Some(3));
        assert_eq!((complex, simple), (vec![0, 1], vec![0, 1]));
        assert_eq!(reserved(&[], Some(3)), (vec![], vec![]));
        assert!(place(3, &[], Placement::Spread, 0).is_empty());
        assert_eq!(place(2, &machine(2, false), Placement::Siblings, 0), [0, 1]);
    }

    #[test]
    fn names_are_read_back() {
        for placement in [Placement::Spread, Placement::Siblings] {
            assert_eq!(placement.to_string().parse(), Ok(placement));
        }
        assert!("auto".parse::<Placement>().is_err());
    }

    proptest! {
        /// Side by side, no thread runs two parts, as long as there is room.
        #[test]
        fn threads_are_not_shared(count in 1_usize..24, siblings: bool, wanted in 1_usize..30, spread: bool) {
            let cores = machine(count, siblings);
            let placement = if spread { Placement::Spread } else { Placement::Siblings };
            let parts = wanted.min(parts_most(&cores, placement));
            let jobs = jobs_at_once(parts, &cores, placement);
            let all: Vec<usize> = (0..jobs).flat_map(|job| place(parts, &cores, placement, job)).collect();
            prop_assert_eq!(all.iter().collect::<BTreeSet<_>>().len(), all.len());
            prop_assert_eq!(all.len(), jobs * parts);
        }

        #[test]
        fn without_siblings_one_part_a_core(count in 1_usize..24, parts in 1_usize..24, job in 0_usize..5) {
            let cores = machine(count, false);
            prop_assert_eq!(place(parts, &cores, Placement::Spread, job), place(parts, &cores, Placement::Siblings, job));
        }

        #[test]
        fn reserved_parts_no_siblings(count in 1_usize..50, siblings: bool, wanted in prop::option::of(0_usize..60)) {
            let cores = machine(count, siblings);
            let (complex, simple) = reserved(&cores, wanted);
            prop_assert!(!complex.is_empty() && !simple.is_empty());
            if complex.len() < cores.len() {
                let on = |places: &[usize]| -> BTreeSet<CpuId> { places.iter().map(|&p| core_of(&cores, p)).collect() };
                prop_assert!(on(&complex).is_disjoint(&on(&simple)));
                prop_assert_eq!(complex.len() + simple.len(), cores.len());
            } else {
                prop_assert_eq!(simple.len(), cores.len());
            }
        }
    }
}
