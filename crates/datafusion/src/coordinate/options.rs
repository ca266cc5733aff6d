//! How a coordinator is set up.

use crate::EngineError;
use corun_model::cache::coschedule::{Config, LlcDomain, PolicyName, Priority, llc_domains};
use corun_model::cache::locality::Thresholds;
use corun_model::topology::Topology;
use corun_model::units::Bytes;
use corun_resctrl::Settings;
use corun_resctrl::partition::{PartitionChoice, Partitioner, choose};
use corun_topology::effective_llc::effective_llc;
use std::sync::Arc;

/// How a [`Coordinator`](super::Coordinator) is set up.
#[derive(Debug, Clone)]
pub struct CoordinatorOptions {
    /// Which of the waiting queries is started next, and beside whom.
    pub policy: PolicyName,
    /// Whether queries give way to transactions of the same process ([`Coordinator::transacted`](super::Coordinator::transacted)).
    pub priority: Priority,
    /// CPUs that share one last-level cache, and its effective size `C`. Each CPU gets one thread that queries run on.
    pub domains: Vec<LlcDomain>,
    /// Where the locality classes meet.
    pub thresholds: Thresholds,
    /// Whether to choose among plans of similar cost by locality (paper 002, sections 5.1 and 6.3); otherwise the cheapest
    /// is taken.
    pub plan_choice: bool,
    /// Whether a query that finds nobody else waiting, and nobody running in its domain, gets all CPUs of the domain.
    pub widen: bool,
    /// How often a waiting query may be overtaken.
    pub overtakes_max: u32,
    /// Most queries that wait, and as many whose results nobody reads, and as many statements that are no queries; more are
    /// refused.
    pub waiting_max: usize,
    /// Queries expected to take fewer nanoseconds run at once, beside the scheduled ones; 0 for none.
    pub short_below_ns: f64,
    /// Most queries that do so at a time.
    pub bypass_max: usize,
    /// Keeps weak-locality queries from flushing the cache for others; `None`: co-scheduling only.
    pub partitioner: Option<Arc<dyn Partitioner>>,
}

impl CoordinatorOptions {
    /// The usual setting for this machine: policy `auto`, plan choice and widening on, the best partitioner there is
    /// ([`corun_resctrl::partition::choose`]: ways of the cache only where somebody applied them). `cache` is the effective
    /// size of one domain's last-level cache; `None`: what `corun topology --measure` kept, else what is planned with.
    ///
    /// # Errors
    /// No usable CPU.
    pub fn for_machine(topology: &Topology, cache: Option<Bytes>) -> Result<Self, EngineError> {
        let domains = llc_domains(topology, Some(effective_llc(topology, cache).bytes)).map_err(|error| {
            EngineError::new("cannot tell which CPUs share a last-level cache").with_detail(error.to_string())
        })?;
        let usual = Config::new(PolicyName::Auto, false, domains);
        Ok(Self {
            policy: usual.policy,
            priority: Priority::default(),
            domains: usual.domains,
            thresholds: usual.thresholds,
            plan_choice: true,
            widen: true,
            overtakes_max: usual.overtakes_max,
            waiting_max: usual.waiting_max,
            short_below_ns: usual.short_below_ns,
            bypass_max: usual.bypass_max,
            partitioner: choose(&Settings::default(), topology, PartitionChoice::Auto).ok(),
        })
    }

    /// The scheduler's part of it.
    pub(super) fn config(&self) -> Config {
        Config {
            policy: self.policy,
            partitioner: self.partitioner.as_ref().is_some_and(|p| p.protects()),
            domains: self.domains.clone(),
            thresholds: self.thresholds,
            overtakes_max: self.overtakes_max,
            waiting_max: self.waiting_max,
            short_below_ns: self.short_below_ns,
            bypass_max: self.bypass_max,
            widen: self.widen,
        }
    }
}
