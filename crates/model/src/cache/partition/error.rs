//! Why a wish cannot be had, in words that say what to do about it.

use thiserror::Error;

use super::{BandwidthUnit, numbered};
use crate::units::Ways;

/// Why there is no plan. The text is one line; [`PlanError::detail`] and [`PlanError::hint`] say more.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum PlanError {
    /// resctrl is there, but no cache can be partitioned.
    #[error("no cache of this machine can be partitioned")]
    NoCache,
    /// Another level than asked for.
    #[error("the L{level} cache of this machine cannot be partitioned")]
    NoSuchLevel {
        /// The level asked for.
        level: u8,
        /// The levels that can be.
        levels: Vec<u8>,
    },
    /// A domain that is not there.
    #[error("there is no cache domain {domain}")]
    NoSuchDomain {
        /// The domain asked for.
        domain: u32,
        /// The domains there are.
        domains: Vec<u32>,
    },
    /// An empty list of domains.
    #[error("no cache domain was chosen")]
    NoDomain,
    /// All classes of service are taken.
    #[error("too few classes of service are free: {needed} are needed")]
    TooFewClasses {
        /// Classes of the machine, the root group's included.
        classes: u32,
        /// Classes a plan needs.
        needed: u32,
        /// Groups of others that hold one.
        holders: Vec<String>,
    },
    /// All monitoring ids are taken.
    #[error("too few monitoring ids are free: {needed} are needed")]
    TooFewMonitors {
        /// Ids of the machine.
        monitors: u32,
        /// Ids in use, the root group's included.
        used: u32,
        /// Ids a plan needs.
        needed: u32,
    },
    /// Others hold the whole cache exclusively.
    #[error("{resource} domain {domain} has no ways left for corun")]
    Closed {
        /// The resource.
        resource: String,
        /// The domain.
        domain: u32,
    },
    /// A mask of so few ways is not allowed.
    #[error("{} ways of {resource} are too few for a class", ways.0)]
    TooFewWays {
        /// The resource.
        resource: String,
        /// Ways asked for.
        ways: Ways,
        /// Fewest ways of a mask.
        ways_min: Ways,
    },
    /// So many ways cannot be had.
    #[error("{} ways of {resource} are too many for `corun-weak` in domain {domain}", ways.0)]
    TooManyWays {
        /// The resource.
        resource: String,
        /// The domain.
        domain: u32,
        /// Ways asked for.
        ways: Ways,
        /// Most ways that can be had, if others leave no holes.
        ways_max: Ways,
        /// Ways of the cache.
        full: Ways,
    },
    /// Memory bandwidth cannot be limited.
    #[error("memory bandwidth cannot be limited on this machine")]
    NoBandwidth,
    /// Memory bandwidth is not in percent here.
    #[error("memory bandwidth is not limited in percent on this machine")]
    BandwidthUnit {
        /// What it is in.
        unit: BandwidthUnit,
    },
    /// A percentage the machine does not take.
    #[error("{percent} % of the memory bandwidth cannot be had")]
    BandwidthRange {
        /// Percent asked for.
        percent: u32,
        /// Fewest percent the machine takes.
        minimum: u32,
    },
}

impl PlanError {
    /// What lies behind it: one line.
    pub fn detail(&self) -> Option<String> {
        Some(match self {
            Self::NoCache => {
                "resctrl lists no resource with masks of ways: this CPU can only monitor".to_owned()
            }
            Self::NoSuchLevel { levels, .. } => {
                let levels: Vec<String> = levels.iter().map(|level| format!("L{level}")).collect();
                format!("it can partition {}", levels.join(" and "))
            }
            Self::NoSuchDomain { domains, .. } => format!("there are {}", numbered("domain", domains)),
            Self::NoDomain | Self::NoBandwidth => return None,
            Self::TooFewClasses { classes, holders, .. } => match holders.as_slice() {
                [] => format!("this machine has {classes}, one of them the root group's"),
                _ => format!(
                    "this machine has {classes}, one of them the root group's; others hold {}: {}",
                    holders.len(),
                    holders.join(", ")
                ),
            },
            Self::TooFewMonitors { monitors, used, .. } => {
                format!("this machine has {monitors}, of which groups and monitoring groups hold {used}")
            }
            Self::Closed { .. } => {
                "groups of other tools hold its ways exclusively or pseudo-locked".to_owned()
            }
            Self::TooFewWays { ways_min, .. } => format!("a mask needs at least {}", ways_min.0),
            Self::TooManyWays { ways_max, full, .. } => format!(
                "of {} ways it may have {}, less where other groups leave holes",
                full.0, ways_max.0
            ),
            Self::BandwidthUnit { unit } => match unit {
                BandwidthUnit::Percent => return None,
                BandwidthUnit::Megabytes => "resctrl is mounted with the option mba_MBps".to_owned(),
                BandwidthUnit::NonLinear => {
                    "its steps are not linear (AMD counts eighths of GB/s)".to_owned()
                }
            },
            Self::BandwidthRange { minimum, .. } => format!("this machine takes {minimum} to 100"),
        })
    }

    /// What to do about it: one line.
    pub fn hint(&self) -> Option<String> {
        Some(match self {
            Self::NoCache => "rely on co-scheduling and streaming instead of partitions".to_owned(),
            Self::NoSuchLevel { .. } => "leave the level out to take the outermost".to_owned(),
            Self::NoSuchDomain { .. } | Self::NoDomain => "leave the domains out to take all".to_owned(),
            Self::TooFewClasses { holders, .. } if holders.is_empty() => {
                "mount resctrl without the options cdp and cdpl2, which halve the classes".to_owned()
            }
            Self::TooFewClasses { .. } => "end a tool that holds a group, or remove its group".to_owned(),
            Self::TooFewMonitors { .. } => "remove monitoring groups nobody reads (rmdir)".to_owned(),
            Self::Closed { .. } => "leave this domain out, or end the tool that holds it".to_owned(),
            Self::TooFewWays { ways_min, .. } => format!("ask for {} or more", ways_min.0),
            Self::TooManyWays { ways_max, .. } => format!("ask for {} or less", ways_max.0),
            Self::NoBandwidth | Self::BandwidthUnit { .. } => "leave the bandwidth out".to_owned(),
            Self::BandwidthRange { minimum, .. } => format!("ask for {minimum} to 100"),
        })
    }
}
