//! The last-level cache domains of a machine: which CPUs share which cache, and how much of it there really is.
//!
//! Not here: measuring the effective size; see [`crate::knee`].

use crate::topology::{Cache, Topology};
use crate::units::{Bytes, CpuId};

/// CPUs that share one last-level cache, one query each.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LlcDomain {
    /// Effective size of the cache, `C`.
    pub cache: Bytes,
    /// The CPUs, in the order they are given work.
    pub cpus: Vec<CpuId>,
}

/// Why a machine cannot be cut into domains.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DomainError {
    /// Nothing to run on.
    #[error("this process may use no CPU")]
    NoCpu,
    /// A CPU of which nobody says what cache it has.
    #[error("no cache of CPU {0} is described; give the size of the last-level cache by hand")]
    NoCache(CpuId),
}

/// The domains of a machine, ordered by their first CPU in placement order.
///
/// One CPU of each core: hardware threads of one core compete for more than the last-level cache, so a second query
/// there is nothing this model speaks of. `effective` is the measured or configured size of one domain's cache; without it, the
/// size the domain's cache reports, under a hypervisor at most [`Topology::planning_llc_bytes`]. CPUs without a described cache
/// form one domain if `effective` is given.
///
/// # Errors
/// [`DomainError`] if no CPU is usable, or a cache size is neither described nor given.
pub fn llc_domains(topology: &Topology, effective: Option<Bytes>) -> Result<Vec<LlcDomain>, DomainError> {
    let mut cores_seen = Vec::new();
    let mut domains: Vec<(Option<&Cache>, LlcDomain)> = Vec::new();
    for cpu in topology.placement_order() {
        if let Some(core) = topology.core_of(cpu) {
            let name = (core.package, core.id);
            if cores_seen.contains(&name) {
                continue;
            }
            cores_seen.push(name);
        }
        let cache = topology.last_level_cache_of(cpu);
        if let Some((_, domain)) = domains.iter_mut().find(|(known, _)| *known == cache) {
            domain.cpus.push(cpu);
            continue;
        }
        let planned = || {
            let own = cache.map(|cache| cache.size)?;
            let plan = topology.planning_llc_bytes()?;
            // On bare metal the plan is the size of the first CPU's cache, which says nothing of the others.
            Some(if topology.hypervisor.is_some() {
                own.min(plan)
            } else {
                own
            })
        };
        let bytes = effective.or_else(planned).ok_or(DomainError::NoCache(cpu))?;
        domains.push((
            cache,
            LlcDomain {
                cache: bytes,
                cpus: vec![cpu],
            },
        ));
    }
    if domains.is_empty() {
        return Err(DomainError::NoCpu);
    }
    Ok(domains.into_iter().map(|(_, domain)| domain).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::topology::{CacheKind, CacheSource, Core, CoreKind, Hypervisor, LogicalCpu};

    /// `cores` cores of two threads each, cpu `c` and `c + cores`, in last-level caches of these sizes.
    fn machine(cores: u32, caches: &[Bytes]) -> Topology {
        let threads = |core: u32| vec![CpuId(core), CpuId(core + cores)];
        let share = (cores as usize).div_ceil(caches.len().max(1)) as u32;
        Topology {
            cpus: (0..2 * cores)
                .map(|id| LogicalCpu {
                    id: CpuId(id),
                    online: true,
                    allowed: true,
                    package: Some(0),
                    core: Some(id % cores),
                    numa_node: None,
                })
                .collect(),
            cores: (0..cores)
                .map(|id| Core {
                    package: 0,
                    id,
                    kind: CoreKind::Uniform,
                    cpus: threads(id),
                })
                .collect(),
            caches: caches
                .iter()
                .enumerate()
                .map(|(i, &size)| Cache {
                    id: Some(i as u32),
                    level: 3,
                    kind: CacheKind::Unified,
                    size,
                    ways: None,
                    line: Bytes(64),
                    sets: None,
                    shared_cpus: (0..cores)
                        .filter(|core| core / share == i as u32)
                        .flat_map(threads)
                        .collect(),
                    source: CacheSource::Sysfs,
                })
                .collect(),
            ..Topology::default()
        }
    }

    fn domain(cache: Bytes, cpus: &[u32]) -> LlcDomain {
        LlcDomain {
            cache,
            cpus: cpus.iter().copied().map(CpuId).collect(),
        }
    }

    #[test]
    fn a_domain_has_one_cpu_of_each_core_below_its_cache() {
        let machine = machine(4, &[Bytes::mib(96), Bytes::mib(32)]);
        assert_eq!(
            llc_domains(&machine, None),
            Ok(vec![
                domain(Bytes::mib(96), &[0, 1]),
                domain(Bytes::mib(32), &[2, 3])
            ])
        );
        assert_eq!(
            llc_domains(&machine, Some(Bytes::mib(7))),
            Ok(vec![
                domain(Bytes::mib(7), &[0, 1]),
                domain(Bytes::mib(7), &[2, 3])
            ])
        );
    }

    #[test]
    fn a_virtual_machine_is_not_believed() {
        let mut machine = machine(2, &[Bytes::mib(260)]);
        machine.hypervisor = Some(Hypervisor {
            name: "KVM".to_owned(),
            evidence: "cpuid".to_owned(),
        });
        let planned = machine.planning_llc_bytes().expect("a cache");
        assert!(planned < Bytes::mib(260));
        assert_eq!(llc_domains(&machine, None), Ok(vec![domain(planned, &[0, 1])]));
    }

    #[test]
    fn what_is_not_described_must_be_given() {
        let blank = machine(2, &[]);
        assert_eq!(llc_domains(&blank, None), Err(DomainError::NoCache(CpuId(0))));
        assert_eq!(
            llc_domains(&blank, Some(Bytes::mib(4))),
            Ok(vec![domain(Bytes::mib(4), &[0, 1])])
        );
        assert_eq!(
            llc_domains(&Topology::default(), Some(Bytes(1))),
            Err(DomainError::NoCpu)
        );
    }
}
