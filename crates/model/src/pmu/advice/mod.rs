//! What corun could do about a workload's cycles: ranked advice from the figures of a run, each with its evidence (paper 001 says
//! where cycles go; papers 000 to 004 what to do about it).
//!
//! ```text
//!   Facts ─► disturbed? ──────────────► first, whatever follows: steal time
//!         ├► keep apart / cache share ─┐
//!         ├► over-subscription         ├─► by what is at stake, largest first; what nobody can put a number on comes last
//!         ├► SMT gain or loss          │
//!         ├► instruction footprint ────┘
//!         └► none of them ────────────► nothing to gain, and what was looked at
//! ```
//!
//! Order of calls: fill [`Facts`], call [`advise`]. The borders are the `*_PERCENT` and other constants below; all of them are
//! unmeasured, chosen so that the noise of a shared machine (a few percent) gives no advice. A rule without its figures is silent:
//! no advice without evidence, and where nothing was measured there is none at all.
//!
//! What it is not: a promise of gain. What is at stake is what a workload loses today at most; what the command gets back is found
//! out by running it.

mod facts;
mod rules;

#[cfg(test)]
mod tests;

pub use facts::{Facts, Figure, Host, Machine, Point, SmtRatio, Workload};

use crate::spread::Label;

/// From this slow-down beside a polluter on, in percent, a workload counts as sensitive to the last-level cache.
pub const SENSITIVE_PERCENT: f64 = 10.0;
/// A sensitive workload's fastest repetition beside the polluter must be slower by this much, and an insensitive one's median by
/// less than it.
pub const INSENSITIVE_PERCENT: f64 = 5.0;
/// An insensitive workload that misses the last-level cache with this share of its loads, in percent, streams: it has weak locality.
pub const STREAMING_MISS_PERCENT: f64 = 0.5;
/// A rate within this many percent of the best is as good as the best.
pub const RATE_FLAT_PERCENT: f64 = 5.0;
/// From this share of a query's time spent ready but waiting for a CPU, in percent, CPUs are over-subscribed.
pub const RUN_DELAY_SHARE_PERCENT: f64 = 10.0;
/// From so many involuntary switches a query on, CPUs are over-subscribed.
pub const INVOLUNTARY_SWITCHES: f64 = 1.0;
/// Code that misses the level-one instruction cache with less than this share of its fetches, in percent, loops in what fits, however much it
/// touches in all.
pub const FETCH_MISS_PERCENT: f64 = 0.1;
/// SMT gains or loses where the ratio's median is this many percent from 1 and no repetition is on the other side of 1.
pub const SMT_PERCENT: f64 = 5.0;
/// From this much stolen time on, in percent, the figures of a run are disturbed.
pub const STEAL_PERCENT: f64 = 2.0;

/// What kind of advice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// Others used the CPUs during the run: measure again.
    Disturbed,
    /// Workloads of weak locality run beside one that lives from the shared cache.
    KeepApart,
    /// A workload lives from the shared cache.
    CacheShare,
    /// More queries run at once than raise the rate.
    OverSubscription,
    /// Two hardware threads of a core do more than one.
    SmtGain,
    /// Two hardware threads of a core do less than one.
    SmtLoss,
    /// A query's instructions do not fit the level-one cache.
    InstructionFootprint,
    /// Nothing that was looked at leaves anything to gain.
    Nothing,
}

impl Kind {
    /// All of them, in the order in which equal stakes are ranked.
    pub const ALL: [Kind; 8] = [
        Kind::Disturbed,
        Kind::KeepApart,
        Kind::CacheShare,
        Kind::OverSubscription,
        Kind::SmtGain,
        Kind::SmtLoss,
        Kind::InstructionFootprint,
        Kind::Nothing,
    ];

    /// The word used in rows.
    pub fn as_str(self) -> &'static str {
        match self {
            Kind::Disturbed => "disturbed",
            Kind::KeepApart => "keep_apart",
            Kind::CacheShare => "cache_share",
            Kind::OverSubscription => "over_subscription",
            Kind::SmtGain => "smt_gain",
            Kind::SmtLoss => "smt_loss",
            Kind::InstructionFootprint => "instruction_footprint",
            Kind::Nothing => "nothing",
        }
    }

    /// One sentence: what to do.
    pub fn sentence(self) -> &'static str {
        match self {
            Kind::Disturbed => {
                "The figures are disturbed: others used these CPUs. Measure again in a quiet moment."
            }
            Kind::KeepApart => "Keep the streaming workloads out of the cache that the others live from.",
            Kind::CacheShare => "Keep what streams out of the cache this workload lives from.",
            Kind::OverSubscription => "Let fewer queries run at once; the others wait in a queue.",
            Kind::SmtGain => "Use both hardware threads of each core, for queries over the same data.",
            Kind::SmtLoss => "Use one hardware thread of each core.",
            Kind::InstructionFootprint => {
                "Run statements of one kind after each other, so that they find their code in the cache."
            }
            Kind::Nothing => "Nothing to gain from corun by these figures.",
        }
    }
}

/// One piece of advice.
#[derive(Clone, Debug, PartialEq)]
pub struct Advice {
    /// What kind.
    pub kind: Kind,
    /// The workload or workloads it is for; `machine` for the machine.
    pub subject: String,
    /// The figures behind it, with their labels.
    pub evidence: String,
    /// The command that acts on it; empty where there is nothing to do.
    pub command: String,
    /// What is at stake, in percent of time or rate; `None` where no figure says.
    pub stake_percent: Option<f64>,
    /// Simulated if any figure that decided was.
    pub label: Label,
}

/// The advice these facts give, the most important first. Empty where there are no figures at all.
pub fn advise(facts: &Facts) -> Vec<Advice> {
    let mut advice = rules::cache(facts);
    for workload in &facts.workloads {
        advice.extend(rules::over_subscription(workload));
        advice.extend(rules::smt(workload));
        advice.extend(rules::instructions(workload));
    }
    // What nobody can put a number on comes last; kind and subject make the order certain.
    advice.sort_by(|a, b| {
        let stake = |advice: &Advice| advice.stake_percent.unwrap_or(f64::NEG_INFINITY);
        stake(b)
            .total_cmp(&stake(a))
            .then(a.kind.cmp(&b.kind))
            .then_with(|| a.subject.cmp(&b.subject))
    });
    if advice.is_empty() {
        advice.extend(rules::nothing(facts));
    }
    if let Some(disturbed) = rules::disturbed(facts) {
        advice.insert(0, disturbed);
    }
    advice
}
