//! Which CPU each thread of an operator runs on.
//!
//! The paper's partner and helper threads are hardware threads of one core: they share its caches, so what one loads the
//! other has (paper 000, section 1). Where a machine has no such siblings they can only run on another core, whose
//! private caches they do not share; [`place`] says which it was, so that no result hides it.
//!
//! Not here: pinning, which is `corun-topology`'s.

use crate::explained::Explained;
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::topology::Topology;
use crate::units::CpuId;

/// Where the second thread should go.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Placement {
    /// On a hardware thread of the same core.
    Siblings,
    /// On another core.
    Cores,
    /// On a sibling if the machine has one, else on another core.
    #[default]
    Auto,
}

impl Placement {
    /// The names accepted on a command line.
    pub const NAMES: [&'static str; 3] = ["siblings", "cores", "auto"];
}

impl fmt::Display for Placement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(Placement::NAMES[*self as usize])
    }
}

impl FromStr for Placement {
    type Err = PlacementError;

    fn from_str(name: &str) -> Result<Self, PlacementError> {
        match name {
            "siblings" => Ok(Placement::Siblings),
            "cores" => Ok(Placement::Cores),
            "auto" => Ok(Placement::Auto),
            other => Err(PlacementError::UnknownName(other.to_string())),
        }
    }
}

/// Why threads cannot be placed as asked.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PlacementError {
    /// No such placement.
    #[error("there is no placement {0:?}; there are siblings, cores and auto")]
    UnknownName(String),
    /// No core has two usable hardware threads.
    #[error("this machine shows no two hardware threads of one core that this process may use")]
    NoSiblings,
    /// All usable CPUs belong to one core.
    #[error("this process may use the hardware threads of one core only")]
    OneCore,
    /// Only one CPU is usable.
    #[error("this process may use one CPU only; a second thread would take turns with the first")]
    OneCpu,
}

impl Explained for PlacementError {
    fn hint(&self) -> Option<String> {
        let hint = match self {
            PlacementError::NoSiblings => {
                "--placement cores puts the second thread on another core, --placement auto where it can"
            }
            PlacementError::OneCore => "--placement siblings puts the second thread on the same core",
            _ => return None,
        };
        Some(hint.to_owned())
    }

    fn is_usage(&self) -> bool {
        true
    }
}

/// CPUs for two threads that work together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pair {
    /// For the main thread, or the first worker.
    pub main: CpuId,
    /// For its helper, or the second worker.
    pub partner: CpuId,
    /// What they are to each other: [`Placement::Siblings`] or [`Placement::Cores`], never `Auto`.
    pub relation: Placement,
}

/// Chooses two usable CPUs. The main thread gets the same CPU whichever placement can be had, so that results differ by the
/// partner alone.
///
/// # Errors
/// [`PlacementError`] when the machine, or what this process may use of it, has no such pair.
pub fn place(topology: &Topology, placement: Placement) -> Result<Pair, PlacementError> {
    let usable = topology.usable_cpus();
    if usable.len() < 2 {
        return Err(PlacementError::OneCpu);
    }
    let sibling_of = |main: CpuId| {
        usable
            .iter()
            .copied()
            .find(|&other| other != main && topology.are_siblings(main, other))
    };
    let core_beside = |main: CpuId| {
        usable
            .iter()
            .copied()
            .find(|&other| other != main && !topology.are_siblings(main, other))
    };
    // A CPU that has a sibling, if any has: then both placements begin with the same one.
    let main = usable
        .iter()
        .copied()
        .find(|&cpu| sibling_of(cpu).is_some())
        .unwrap_or(usable[0]);
    let (partner, relation) = match (placement, sibling_of(main), core_beside(main)) {
        (Placement::Siblings | Placement::Auto, Some(partner), _) => (partner, Placement::Siblings),
        (Placement::Siblings, None, _) => return Err(PlacementError::NoSiblings),
        (Placement::Cores | Placement::Auto, _, Some(partner)) => (partner, Placement::Cores),
        (Placement::Cores | Placement::Auto, _, None) => return Err(PlacementError::OneCore),
    };
    Ok(Pair {
        main,
        partner,
        relation,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::topology::{Core, CoreKind, LogicalCpu};

    fn machine(cores: &[&[u32]]) -> Topology {
        let cpus = |ids: &[u32]| ids.iter().copied().map(CpuId).collect::<Vec<_>>();
        Topology {
            cpus: cores
                .iter()
                .enumerate()
                .flat_map(|(core, ids)| ids.iter().map(move |&id| (core as u32, id)))
                .map(|(core, id)| LogicalCpu {
                    id: CpuId(id),
                    online: true,
                    allowed: true,
                    package: Some(0),
                    core: Some(core),
                    numa_node: None,
                })
                .collect(),
            cores: cores
                .iter()
                .enumerate()
                .map(|(id, ids)| Core {
                    package: 0,
                    id: id as u32,
                    kind: CoreKind::default(),
                    cpus: cpus(ids),
                })
                .collect(),
            ..Topology::default()
        }
    }

    #[test]
    fn siblings_are_preferred_and_cores_can_be_asked_for() {
        let smt = machine(&[&[0, 2], &[1, 3]]);
        let pair =
            |placement| place(&smt, placement).map(|pair| (pair.main.0, pair.partner.0, pair.relation));
        assert_eq!(pair(Placement::Auto), Ok((0, 2, Placement::Siblings)));
        assert_eq!(pair(Placement::Siblings), Ok((0, 2, Placement::Siblings)));
        assert_eq!(pair(Placement::Cores), Ok((0, 1, Placement::Cores)));
    }

    #[test]
    fn without_siblings_another_core_or_an_error() {
        let plain = machine(&[&[0], &[1]]);
        assert_eq!(
            place(&plain, Placement::Auto).map(|pair| pair.relation),
            Ok(Placement::Cores)
        );
        assert_eq!(
            place(&plain, Placement::Siblings),
            Err(PlacementError::NoSiblings)
        );
        assert_eq!(
            place(&machine(&[&[0, 1]]), Placement::Cores),
            Err(PlacementError::OneCore)
        );
        assert_eq!(
            place(&machine(&[&[0]]), Placement::Auto),
            Err(PlacementError::OneCpu)
        );
    }

    #[test]
    fn names_round_trip() {
        for name in Placement::NAMES {
            assert_eq!(
                name.parse::<Placement>().map(|p| p.to_string()),
                Ok(name.to_string())
            );
        }
        assert!("sibling".parse::<Placement>().is_err());
    }
}
