//! [`Spec`]: one way to ask the server, which [`Setting::start`] starts.
//!
//! | side | what stands before the server | who chooses what runs together |
//! | --- | --- | --- |
//! | `direct` | nothing | the operating system |
//! | `fifo` | the proxy, heavy queue off, as many servers as cores: what any pooler does | arrival |
//! | `sls`, `learned`, `auto` | the proxy, heavy queue on | that policy, plans as PostgreSQL prefers them |
//! | `sls_plans`, `auto_plans` | the proxy, heavy queue on | that policy, and it may take other plans |
//! | `mls`, `mls_plans` | the proxy, heavy queue on | beside the opposite, in a partitioned cache; unavailable where there is none |

use corun_model::topology::Topology;
use corun_model::units::Bytes;
use corun_resctrl::Settings;
use corun_resctrl::partition::{PartitionChoice, choose};

use crate::fixture::PgFixture;
use crate::fixture::address::Address;
use crate::fixture::contender::{Contender, Front};

/// What the proxy's heavy queue is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeavyQueue {
    /// `heavy_queue_policy`.
    pub policy: &'static str,
    /// `heavy_queue_plans`.
    pub plans: bool,
}

/// What is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The server itself.
    Direct,
    /// The proxy, with a heavy queue or without.
    Corun(Option<HeavyQueue>),
}

/// One side of a comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Spec {
    /// What rows call it.
    pub name: &'static str,
    /// What it is.
    pub kind: Kind,
}

const fn heavy_queue(name: &'static str, policy: &'static str, plans: bool) -> Spec {
    Spec {
        name,
        kind: Kind::Corun(Some(HeavyQueue { policy, plans })),
    }
}

/// The server itself.
pub const DIRECT: Spec = Spec {
    name: "direct",
    kind: Kind::Direct,
};
/// What any pooler does; ratios are versus this.
pub const FIFO: Spec = Spec {
    name: "fifo",
    kind: Kind::Corun(None),
};
/// Beside its like.
pub const SLS: Spec = heavy_queue("sls", "sls", false);
/// Beside its opposite, in a partitioned cache.
pub const MLS: Spec = heavy_queue("mls", "mls", false);
/// By learnt slow-downs.
pub const LEARNED: Spec = heavy_queue("learned", "learned", false);
/// As the proxy sees fit.
pub const AUTO: Spec = heavy_queue("auto", "auto", false);
/// Beside its like, with other plans.
pub const SLS_PLANS: Spec = heavy_queue("sls_plans", "sls", true);
/// Beside its opposite, with other plans.
pub const MLS_PLANS: Spec = heavy_queue("mls_plans", "mls", true);
/// As the proxy sees fit, with other plans: what a user gets who turns the heavy queue on.
pub const AUTO_PLANS: Spec = heavy_queue("auto_plans", "auto", true);

impl Spec {
    /// The stable name in rows: `direct` or `corun`.
    pub fn target(&self) -> &'static str {
        match self.kind {
            Kind::Direct => "direct",
            Kind::Corun(_) => "corun",
        }
    }

    /// The stable word for who chooses: `none`, `fifo`, or the heavy queue's policy.
    pub fn policy(&self) -> &'static str {
        match self.kind {
            Kind::Direct => "none",
            Kind::Corun(None) => "fifo",
            Kind::Corun(Some(heavy_queue)) => heavy_queue.policy,
        }
    }

    /// `on` where the heavy queue may take other plans.
    pub fn plan_choice(&self) -> &'static str {
        match self.kind {
            Kind::Corun(Some(HeavyQueue { plans: true, .. })) => "on",
            _ => "off",
        }
    }
}

/// What all sides of a case have in common.
pub struct Setting<'s> {
    /// The folder and the programs.
    pub fixture: &'s PgFixture,
    /// The server.
    pub server: &'s Address,
    /// The machine.
    pub topology: &'s Topology,
    /// `C`.
    pub cache: Bytes,
    /// Servers of each pool, as many as cores.
    pub pool: usize,
    /// Whether queries take too short to queue by themselves.
    pub quick: bool,
}

impl Setting<'_> {
    /// Starts a side. What fails is kept, for its rows.
    pub fn start(&self, spec: Spec) -> Contender {
        let Kind::Corun(heavy_queue) = spec.kind else {
            return Contender::direct(self.server);
        };
        if spec.policy() == "mls"
            && self.fixture.corun.is_ok()
            && let Err(error) = choose(&Settings::default(), self.topology, PartitionChoice::Ways)
        {
            return Contender::unavailable(error.to_string());
        }
        let mut more = "\n[corun]\ndispatch = \"off\"\nsplit = \"off\"\n".to_owned();
        if let Some(HeavyQueue { policy, plans }) = heavy_queue {
            more.push_str(&format!(
                "heavy_queue = \"on\"\nheavy_queue_policy = \"{policy}\"\nheavy_queue_plans = {plans}\nheavy_queue_cache_bytes = {}\n",
                self.cache.0
            ));
        }
        let front = Front {
            fixture: self.fixture,
            name: &format!("side-{}", spec.name),
            server: self.server,
            pool: self.pool,
        };
        Contender::corun(&front, &self.fixture.corun, true, &more)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_distinct_and_words_are_stable() {
        let all = [
            DIRECT, FIFO, SLS, MLS, LEARNED, AUTO, SLS_PLANS, MLS_PLANS, AUTO_PLANS,
        ];
        let mut names = all.map(|spec| spec.name).to_vec();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), all.len());
        assert_eq!(
            (FIFO.policy(), FIFO.plan_choice(), FIFO.target()),
            ("fifo", "off", "corun")
        );
        assert_eq!((AUTO_PLANS.policy(), AUTO_PLANS.plan_choice()), ("auto", "on"));
        assert_eq!((DIRECT.policy(), DIRECT.target()), ("none", "direct"));
    }
}
