//! [`Spec`]: one way to ask the server, and [`Target`]: such a way, running.
//!
//! | side | what stands before the server | who chooses what runs together |
//! | --- | --- | --- |
//! | `direct` | nothing | the operating system |
//! | `fifo` | the proxy, lane off, as many servers as cores: what any pooler does | arrival |
//! | `sls`, `learned`, `auto` | the proxy, lane on | that policy, plans as PostgreSQL prefers them |
//! | `sls_plans`, `auto_plans` | the proxy, lane on | that policy, and it may take other plans |
//! | `mls`, `mls_plans` | the proxy, lane on | beside the opposite, in a partitioned cache; unavailable where there is none |

use std::path::Path;

use machine::partition::{PartitionChoice, choose};
use machine::resctrl::Settings;
use model::topology::Topology;
use model::units::Bytes;

use crate::caric::configuration::beginning;
use crate::caric::ground::Ground;
use crate::caric::target::launch;
use crate::error::BenchError;
use crate::proxy::address::Address;
use crate::proxy::guarded::Guarded;
use crate::proxy::sides::Gone;
use crate::proxy::text;

/// What the proxy's lane is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lane {
    /// `lane_policy`.
    pub policy: &'static str,
    /// `lane_plans`.
    pub plans: bool,
}

/// What is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The server itself.
    Direct,
    /// The proxy, with a lane or without.
    Corun(Option<Lane>),
}

/// One side of a comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Spec {
    /// What rows call it.
    pub name: &'static str,
    /// What it is.
    pub kind: Kind,
}

const fn lane(name: &'static str, policy: &'static str, plans: bool) -> Spec {
    Spec {
        name,
        kind: Kind::Corun(Some(Lane { policy, plans })),
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
pub const SLS: Spec = lane("sls", "sls", false);
/// Beside its opposite, in a partitioned cache.
pub const MLS: Spec = lane("mls", "mls", false);
/// By learnt slow-downs.
pub const LEARNED: Spec = lane("learned", "learned", false);
/// As the proxy sees fit.
pub const AUTO: Spec = lane("auto", "auto", false);
/// Beside its like, with other plans.
pub const SLS_PLANS: Spec = lane("sls_plans", "sls", true);
/// Beside its opposite, with other plans.
pub const MLS_PLANS: Spec = lane("mls_plans", "mls", true);
/// As the proxy sees fit, with other plans: what a user gets who turns the lane on.
pub const AUTO_PLANS: Spec = lane("auto_plans", "auto", true);

impl Spec {
    /// The stable name in rows: `direct` or `corun`.
    pub fn target(&self) -> &'static str {
        match self.kind {
            Kind::Direct => "direct",
            Kind::Corun(_) => "corun",
        }
    }

    /// The stable word for who chooses: `none`, `fifo`, or the lane's policy.
    pub fn policy(&self) -> &'static str {
        match self.kind {
            Kind::Direct => "none",
            Kind::Corun(None) => "fifo",
            Kind::Corun(Some(lane)) => lane.policy,
        }
    }

    /// `on` where the lane may take other plans.
    pub fn plan_choice(&self) -> &'static str {
        match self.kind {
            Kind::Corun(Some(Lane { plans: true, .. })) => "on",
            _ => "off",
        }
    }
}

/// What all sides of a case have in common.
pub struct Setting<'s> {
    /// The folder and the programs.
    pub ground: &'s Ground,
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

/// `corun.toml` of a side.
fn configuration(listen: &Address, users: &Path, lane: Option<Lane>, setting: &Setting<'_>) -> String {
    let mut file = beginning(listen, users, setting.server, setting.pool);
    file.push_str("\n[corun]\ndispatch = \"off\"\nsplit = \"off\"\n");
    if let Some(Lane { policy, plans }) = lane {
        file.push_str(&format!(
            "lane = \"on\"\nlane_policy = \"{policy}\"\nlane_plans = {plans}\nlane_cache_bytes = {}\n",
            setting.cache.0
        ));
    }
    file
}

/// A side, running, or why not.
pub struct Target {
    /// What it is.
    pub spec: Spec,
    running: Result<(Address, Option<Guarded>), Gone>,
}

impl Target {
    /// Starts it. What fails is kept, for its rows.
    pub fn start(spec: Spec, setting: &Setting<'_>) -> Target {
        Target {
            spec,
            running: run(spec, setting),
        }
    }

    /// Why it does not run.
    pub fn gone(&self) -> Option<&Gone> {
        self.running.as_ref().err()
    }

    /// Where it listens.
    pub fn address(&self) -> Option<&Address> {
        self.running.as_ref().ok().map(|(address, _)| address)
    }

    /// That its process still runs.
    ///
    /// # Errors
    /// When it has ended: its last words.
    pub fn alive(&mut self) -> Result<(), BenchError> {
        match &mut self.running {
            Ok((_, Some(process))) => process.alive(),
            _ => Ok(()),
        }
    }
}

fn run(spec: Spec, setting: &Setting<'_>) -> Result<(Address, Option<Guarded>), Gone> {
    let Kind::Corun(lane) = spec.kind else {
        return Ok((setting.server.clone(), None));
    };
    setting
        .ground
        .corun()
        .as_ref()
        .map_err(|reason| Gone::Unavailable(reason.clone()))?;
    if lane.is_some_and(|lane| lane.policy == "mls") {
        choose(&Settings::default(), setting.topology, PartitionChoice::Ways)
            .map_err(|error| Gone::Unavailable(error.to_string()))?;
    }
    let words = |listen: &Address, users: &Path| configuration(listen, users, lane, setting);
    let (address, process) =
        launch(setting.ground, spec.name, &words).map_err(|error| Gone::Failed(text(&error)))?;
    Ok((address, Some(process)))
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
