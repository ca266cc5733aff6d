//! How the queue is set up on this machine, or on what stands for it.

use corun_topology::effective_llc::effective_llc;
use std::sync::Arc;

use corun_model::cache::coschedule::{LlcDomain, PolicyName, llc_domains};
use corun_model::units::Bytes;
use corun_resctrl::Settings;
use corun_resctrl::partition::{PartitionChoice, Partitioner, choose};

use super::Setup;
use crate::config::{AutoCount, Config, HeavyQueuePolicy, Switch};

/// What the queue is for.
#[derive(Debug)]
pub(in crate::core) enum Machine {
    /// This machine.
    This,
    /// This machine, with another way to keep weak queries out of the cache.
    Partitioned(Arc<dyn Partitioner>),
    /// Two cores with 8 MiB of cache, where nothing can be bound.
    Simulated,
}

/// Whether anybody's queries may queue.
fn is_wanted(config: &Config) -> bool {
    let on = |switch: Option<Switch>| switch.is_some_and(|switch| switch != Switch::Off);
    on(Some(config.corun.heavy_queue))
        || config.databases.values().any(|database| on(database.heavy_queue))
        || config.users.values().any(|user| on(user.heavy_queue))
}

/// What the configuration asks for. `None`: the machine does not say what it is.
fn setup(config: &Config, machine: &Machine) -> Option<Setup> {
    let corun = &config.corun;
    let given = Some(Bytes(corun.heavy_queue_cache_bytes.0)).filter(|bytes| bytes.0 > 0);
    let (mut domains, partitioner, classes) = if matches!(machine, Machine::Simulated) {
        let domain = LlcDomain {
            cache: given.unwrap_or(Bytes::mib(8)),
            cpus: [0, 1].map(corun_model::units::CpuId).to_vec(),
        };
        (vec![domain], None, "simulated".to_owned())
    } else {
        let topology = corun_topology::discover();
        let cache = effective_llc(&topology, given).bytes;
        let domains = match llc_domains(&topology, Some(cache)) {
            Ok(domains) => domains,
            Err(error) => {
                tracing::warn!(%error, "heavy queries do not queue");
                return None;
            }
        };
        let partitioner = match machine {
            Machine::Partitioned(partitioner) => Some(Arc::clone(partitioner)),
            _ => choose(&Settings::default(), &topology, PartitionChoice::Auto).ok(),
        };
        let protects = partitioner.filter(|partitioner| partitioner.protects());
        let classes = match &protects {
            Some(partitioner) => partitioner.describe(),
            None => "co-scheduling only, the last-level cache is not partitioned".to_owned(),
        };
        (domains, protects, classes)
    };
    if let AutoCount::Count(cores) = corun.heavy_queue_cores {
        keep(&mut domains, cores as usize);
    }
    Some(Setup {
        policy: match corun.heavy_queue_policy {
            HeavyQueuePolicy::Fifo => PolicyName::Fifo,
            HeavyQueuePolicy::Sls => PolicyName::Sls,
            HeavyQueuePolicy::Mls => PolicyName::Mls,
            HeavyQueuePolicy::Learned => PolicyName::Learned,
            HeavyQueuePolicy::Auto => PolicyName::Auto,
        },
        domains,
        overtakes_max: corun.heavy_queue_overtakes_max,
        waiting_max: corun.heavy_queue_waiting_max as usize,
        partitioner,
        classes,
    })
}

/// Leaves so many cores, taken from the domains with most.
fn keep(domains: &mut Vec<LlcDomain>, cores: usize) {
    while domains.iter().map(|domain| domain.cpus.len()).sum::<usize>() > cores.max(1) {
        let Some(most) = domains.iter_mut().max_by_key(|domain| domain.cpus.len()) else {
            return;
        };
        most.cpus.pop();
        domains.retain(|domain| !domain.cpus.is_empty());
    }
}

impl crate::core::shared::Shared {
    /// Sets the queue up, once somebody's queries may queue.
    pub fn open_heavy_queue(&self, config: &Config) {
        if is_wanted(config) {
            self.heavy_queue.open(|| setup(config, &self.machine));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use corun_model::units::CpuId;

    #[test]
    fn fewer_cores_come_from_the_fullest_caches() {
        let domain = |cpus: std::ops::Range<u32>| LlcDomain {
            cache: Bytes::mib(1),
            cpus: cpus.map(CpuId).collect(),
        };
        let mut domains = vec![domain(0..4), domain(4..6)];
        keep(&mut domains, 3);
        assert_eq!(domains.iter().map(|domain| domain.cpus.len()).sum::<usize>(), 3);
        assert!(domains.iter().all(|domain| !domain.cpus.is_empty()));
        keep(&mut domains, 0);
        assert_eq!(domains.iter().map(|domain| domain.cpus.len()).sum::<usize>(), 1);
    }

    #[test]
    fn nobody_asks_for_it_by_default() {
        assert!(!is_wanted(&Config::default()));
    }
}
