//! Which ways of the shared cache each class of queries may fill: a plan made from what the kernel's resctrl offers.
//!
//! Paper 002, section 6.2, gives weak-locality plans few page colours and hash tables all of them; today's hardware cuts
//! the cache by ways and classes instead, and page colours do not survive hashed cache slices. So there are two classes:
//!
//! ```text
//!   way          10 9 8 7 6 5 4 3 2 1 0
//!   corun-weak                      w w      scans, index joins, hash tables far larger than the cache
//!   corun-default d d d d d d d d d          all else: the rest, or, as in the paper, every way
//! ```
//!
//! [`plan`] is a pure function from [`Capabilities`], a snapshot the machine crate reads, and [`Wishes`] to a [`Plan`]:
//! the text of each class's schemata file, with reasons. It keeps the kernel's rules: masks without holes unless the
//! machine takes sparse ones, a least number of ways, no way another group holds exclusively, no more classes than there
//! are. A plan names every value of every resource it may set, so that applying it over an older plan leaves nothing of
//! the old one behind.
//!
//! Only fills are limited: a query still hits lines in ways of others. And only corun's classes are: groups of other
//! tools and the root group keep their masks, may overlap, and are named in the reasons.
//!
//! Not here: reading or writing files; see the machine crate's `resctrl`.

mod error;
mod mask;
mod place;
mod schemata;
mod weak_ways;

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

pub use error::PlanError;
pub use mask::WayMask;
pub use schemata::{Schemata, SchemataError};
pub use weak_ways::default_weak_ways;

use crate::units::Ways;
use place::{Place, Rules};

/// A class of queries that gets its own share of the cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Class {
    /// Queries that gain nothing from cache and flush it for others: `corun-weak`.
    Weak,
    /// All other queries: `corun-default`.
    Default,
}

impl Class {
    /// Every class, in the order their groups are made.
    pub const ALL: [Self; 2] = [Self::Weak, Self::Default];

    /// The name of its group, a folder of the resctrl file system.
    pub fn group(self) -> &'static str {
        match self {
            Self::Weak => "corun-weak",
            Self::Default => "corun-default",
        }
    }

    /// The class a group's name belongs to; `None` for groups of others.
    pub fn of_group(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|class| class.group() == name)
    }
}

/// What the mounted resctrl offers, and who uses it already.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Capabilities {
    /// Caches that can be partitioned; empty on machines that can only monitor.
    pub caches: Vec<CacheResource>,
    /// Memory bandwidth that can be limited.
    pub bandwidth: Option<BandwidthResource>,
    /// Classes of service (CLOSIDs) in all: the smallest number over all resources, the root group's included. With code
    /// and data prioritisation the kernel has already halved it.
    pub classes: u32,
    /// Monitoring ids (RMIDs) in all; `None` on machines that cannot monitor, where a group needs none.
    pub monitors: Option<u32>,
    /// The root group, to which every task belongs that nobody moved.
    pub root: Group,
    /// All other groups, corun's own included, by name.
    pub groups: Vec<Group>,
}

/// One line of schemata that holds masks of ways.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct CacheResource {
    /// `L3`, `L3CODE`, `L2DATA`, ...
    pub name: String,
    /// 2 or 3.
    pub level: u8,
    /// Which accesses it limits.
    pub part: CachePart,
    /// All ways.
    pub full: WayMask,
    /// Fewest neighbouring ways a mask may have.
    pub ways_min: Ways,
    /// Whether masks may have holes.
    pub sparse: bool,
    /// Ways that devices fill too, whatever the masks say.
    pub hardware: WayMask,
    /// Its instances, by id.
    pub domains: Vec<CacheDomain>,
}

/// What a cache resource limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum CachePart {
    /// All accesses.
    Unified,
    /// Instruction fetches (code and data prioritisation is on).
    Code,
    /// Data accesses (code and data prioritisation is on).
    Data,
}

/// One cache of a resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct CacheDomain {
    /// The cache's id; ids may have gaps.
    pub id: u32,
    /// Ways other groups hold exclusively or pseudo-locked; a mask that touches them is refused.
    pub closed: WayMask,
}

/// Memory bandwidth as a resource.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct BandwidthResource {
    /// What its numbers mean.
    pub unit: BandwidthUnit,
    /// Smallest value, in the unit.
    pub minimum: u32,
    /// The kernel rounds values up to multiples of this.
    pub step: u32,
    /// Ids of its instances.
    pub domains: Vec<u32>,
}

/// What numbers of the resource `MB` mean.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum BandwidthUnit {
    /// Percent of the full bandwidth.
    Percent,
    /// Megabytes a second: mounted with the option `mba_MBps`.
    Megabytes,
    /// Neither: eighths of a gigabyte a second on AMD, throttling steps on others.
    NonLinear,
}

/// One group of the resctrl file system.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Group {
    /// Its folder's name; empty for the root group.
    pub name: String,
    /// Whether it shares its ways.
    pub mode: GroupMode,
    /// Monitoring groups below it, each of which holds a monitoring id.
    pub monitor_groups: u32,
    /// What it may use; empty where it says nothing readable.
    pub schemata: Schemata,
}

/// Modes of groups.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum GroupMode {
    /// Its ways may be shared.
    #[default]
    Shareable,
    /// No other mask may touch its ways.
    Exclusive,
    /// On the way to be pseudo-locked; holds a class of service but no monitoring id.
    PseudoLockSetup,
    /// Its ways hold pinned data; needs neither class nor monitoring id any more.
    PseudoLocked,
}

/// What somebody wants.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wishes {
    /// Ways of `corun-weak` in each domain.
    pub weak_ways: Ways,
    /// Ways of `corun-default`.
    pub default: DefaultShare,
    /// Which cache to partition, 2 or 3; `None` is the outermost that can be.
    pub level: Option<u8>,
    /// In which domains; `None` is all. In the others both classes may use every way.
    pub domains: Option<Vec<u32>>,
    /// Memory bandwidth of `corun-weak` in percent; `None` is no limit.
    pub weak_bandwidth_percent: Option<u32>,
}

/// What `corun-default` gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DefaultShare {
    /// The ways `corun-weak` does not have: neither class can evict the other.
    Rest,
    /// Every way, as in paper 002, section 6.2: weak queries cannot evict most of it, and no way lies idle without them.
    All,
}

/// What to write, and why.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Plan {
    /// One share a class, in the order to make them.
    pub shares: Vec<Share>,
    /// What holds for both, one sentence each.
    pub reasons: Vec<String>,
}

/// What one class gets.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Share {
    /// The class.
    pub class: Class,
    /// The text of its group's schemata file.
    pub schemata: Schemata,
    /// Why, one sentence each.
    pub reasons: Vec<String>,
}

/// Makes a plan that the kernel of this machine takes.
///
/// # Errors
/// When a wish cannot be had on this machine: no cache to partition, no class or monitoring id left, more ways than
/// there are, fewer than a mask may have, unknown domains, bandwidth that is not in percent.
pub fn plan(capabilities: &Capabilities, wishes: &Wishes) -> Result<Plan, PlanError> {
    let level = chosen_level(capabilities, wishes)?;
    let chosen = chosen_domains(capabilities, wishes, level)?;
    check_ids(capabilities)?;

    let mut weak = Schemata::default();
    let mut default = Schemata::default();
    let mut weak_reasons = Vec::new();
    let mut default_reasons = Vec::new();
    for cache in &capabilities.caches {
        // Domains that get the same masks share a sentence.
        let mut places: Vec<(Place, Vec<u32>)> = Vec::new();
        let partitioned = cache.level == level && cache.part != CachePart::Code;
        for domain in &cache.domains {
            let rules = Rules::of(capabilities, cache, domain.id);
            let place = if partitioned && chosen.contains(&domain.id) {
                let place = rules.split(wishes.weak_ways, wishes.default);
                let place = place.ok_or_else(|| no_room(&rules, cache, domain.id, wishes))?;
                match places.iter_mut().find(|(known, _)| *known == place) {
                    Some((_, domains)) => domains.push(domain.id),
                    None => places.push((place, vec![domain.id])),
                }
                place
            } else {
                let whole = rules.whole().ok_or_else(|| closed(cache, domain.id))?;
                Place {
                    weak: whole,
                    default: whole,
                }
            };
            weak.set(&cache.name, domain.id, place.weak.0);
            default.set(&cache.name, domain.id, place.default.0);
        }
        for (place, domains) in &places {
            let sentence = |mask: WayMask| {
                let (ways, all) = (mask.ways().0, cache.full.ways().0);
                format!(
                    "{}: {ways} of {all} ways (mask {mask}) in {}",
                    cache.name,
                    numbered("domain", domains)
                )
            };
            weak_reasons.push(format!(
                "{}: enough for data that is read once",
                sentence(place.weak)
            ));
            default_reasons.push(match wishes.default {
                DefaultShare::Rest => {
                    format!(
                        "{}: the rest, which weak queries cannot fill",
                        sentence(place.default)
                    )
                }
                DefaultShare::All => {
                    let safe = (place.default & !place.weak).ways().0;
                    format!(
                        "{}: all there is; weak queries cannot fill {safe} of them",
                        sentence(place.default)
                    )
                }
            });
            if (place.weak & cache.hardware) != WayMask::default() {
                weak_reasons.push(format!(
                    "{}: devices fill ways {} too; no other place was free",
                    cache.name, cache.hardware
                ));
            }
        }
        if cache.level == level && cache.part == CachePart::Code {
            weak_reasons.push(format!(
                "{}: no limit, because classes run the same code",
                cache.name
            ));
        }
    }
    limit_bandwidth(capabilities, wishes, &mut weak, &mut default, &mut weak_reasons)?;
    let share = |class, schemata, reasons| Share {
        class,
        schemata,
        reasons,
    };
    Ok(Plan {
        shares: vec![
            share(Class::Weak, weak, weak_reasons),
            share(Class::Default, default, default_reasons),
        ],
        reasons: common_reasons(capabilities, wishes, level, &chosen),
    })
}

fn chosen_level(capabilities: &Capabilities, wishes: &Wishes) -> Result<u8, PlanError> {
    let levels: BTreeSet<u8> = capabilities.caches.iter().map(|cache| cache.level).collect();
    let Some(&outermost) = levels.last() else {
        return Err(PlanError::NoCache);
    };
    let level = wishes.level.unwrap_or(outermost);
    if !levels.contains(&level) {
        return Err(PlanError::NoSuchLevel {
            level,
            levels: levels.into_iter().collect(),
        });
    }
    Ok(level)
}

fn chosen_domains(
    capabilities: &Capabilities,
    wishes: &Wishes,
    level: u8,
) -> Result<BTreeSet<u32>, PlanError> {
    let there: BTreeSet<u32> = capabilities
        .caches
        .iter()
        .filter(|cache| cache.level == level)
        .flat_map(|cache| cache.domains.iter().map(|domain| domain.id))
        .collect();
    let Some(wanted) = &wishes.domains else {
        return Ok(there);
    };
    match wanted.iter().find(|domain| !there.contains(domain)) {
        Some(&domain) => Err(PlanError::NoSuchDomain {
            domain,
            domains: there.into_iter().collect(),
        }),
        None if wanted.is_empty() => Err(PlanError::NoDomain),
        None => Ok(wanted.iter().copied().collect()),
    }
}

/// Whether classes and monitoring ids for both groups are left.
fn check_ids(capabilities: &Capabilities) -> Result<(), PlanError> {
    let needed = Class::ALL.len() as u32;
    let foreign: Vec<&Group> = foreign(capabilities).collect();
    let holders: Vec<&Group> = foreign
        .iter()
        .copied()
        .filter(|group| group.mode != GroupMode::PseudoLocked)
        .collect();
    // The root group takes one class.
    if capabilities.classes < 1 + holders.len() as u32 + needed {
        return Err(PlanError::TooFewClasses {
            classes: capabilities.classes,
            needed,
            holders: holders.iter().map(|group| group.name.clone()).collect(),
        });
    }
    let Some(monitors) = capabilities.monitors else {
        return Ok(());
    };
    let of_foreign = foreign.iter().map(|group| {
        let own = matches!(group.mode, GroupMode::Shareable | GroupMode::Exclusive);
        u32::from(own) + group.monitor_groups
    });
    // Monitoring groups somebody made inside corun's own groups vanish only when those are removed.
    let of_own = own(capabilities).map(|group| group.monitor_groups);
    let used = 1 + capabilities.root.monitor_groups + of_foreign.sum::<u32>() + of_own.sum::<u32>();
    if monitors < used + needed {
        return Err(PlanError::TooFewMonitors {
            monitors,
            used,
            needed,
        });
    }
    Ok(())
}

fn foreign(capabilities: &Capabilities) -> impl Iterator<Item = &Group> {
    capabilities
        .groups
        .iter()
        .filter(|group| Class::of_group(&group.name).is_none())
}

fn own(capabilities: &Capabilities) -> impl Iterator<Item = &Group> {
    capabilities
        .groups
        .iter()
        .filter(|group| Class::of_group(&group.name).is_some())
}

fn closed(cache: &CacheResource, domain: u32) -> PlanError {
    PlanError::Closed {
        resource: cache.name.clone(),
        domain,
    }
}

/// Why two masks do not fit.
fn no_room(rules: &Rules, cache: &CacheResource, domain: u32, wishes: &Wishes) -> PlanError {
    let Some(whole) = rules.whole() else {
        return closed(cache, domain);
    };
    let ways_min = cache.ways_min.max(Ways(1));
    if wishes.weak_ways < ways_min {
        return PlanError::TooFewWays {
            resource: cache.name.clone(),
            ways: wishes.weak_ways,
            ways_min,
        };
    }
    let for_default = match wishes.default {
        DefaultShare::Rest => ways_min.0,
        DefaultShare::All => 0,
    };
    PlanError::TooManyWays {
        resource: cache.name.clone(),
        domain,
        ways: wishes.weak_ways,
        ways_max: Ways(whole.ways().0.saturating_sub(for_default)),
        full: cache.full.ways(),
    }
}

/// Sets the bandwidth of both classes, where it is in percent.
fn limit_bandwidth(
    capabilities: &Capabilities,
    wishes: &Wishes,
    weak: &mut Schemata,
    default: &mut Schemata,
    reasons: &mut Vec<String>,
) -> Result<(), PlanError> {
    const ALL: u32 = 100;
    let bandwidth = match (&capabilities.bandwidth, wishes.weak_bandwidth_percent) {
        (None, Some(_)) => return Err(PlanError::NoBandwidth),
        (Some(bandwidth), Some(_)) if bandwidth.unit != BandwidthUnit::Percent => {
            return Err(PlanError::BandwidthUnit { unit: bandwidth.unit });
        }
        (Some(bandwidth), _) if bandwidth.unit == BandwidthUnit::Percent => bandwidth,
        _ => return Ok(()),
    };
    let percent = wishes.weak_bandwidth_percent.unwrap_or(ALL);
    if percent < bandwidth.minimum || percent > ALL {
        return Err(PlanError::BandwidthRange {
            percent,
            minimum: bandwidth.minimum,
        });
    }
    // The kernel would round it itself; then what it shows would differ from what was written.
    let rounded = percent.next_multiple_of(bandwidth.step.max(1)).min(ALL);
    for &domain in &bandwidth.domains {
        weak.set("MB", domain, rounded);
        default.set("MB", domain, ALL);
    }
    if rounded < ALL {
        let step = if rounded == percent {
            String::new()
        } else {
            format!(" ({percent} is between two steps of this machine)")
        };
        reasons.push(format!("MB: at most {rounded} % of the memory bandwidth{step}"));
    }
    Ok(())
}

fn common_reasons(
    capabilities: &Capabilities,
    wishes: &Wishes,
    level: u8,
    chosen: &BTreeSet<u32>,
) -> Vec<String> {
    let mut reasons = Vec::new();
    match wishes.level {
        Some(_) => reasons.push(format!("L{level} was asked for")),
        None => reasons.push(format!(
            "L{level} is the outermost cache that can be partitioned here"
        )),
    }
    let partitioned = || {
        let of_level = move |cache: &&CacheResource| cache.level == level && cache.part != CachePart::Code;
        capabilities.caches.iter().filter(of_level)
    };
    // A group's mask is worth a word only where corun draws borders.
    let overlaps = |group: &Group| {
        partitioned().any(|cache| {
            chosen.iter().any(|domain| {
                group
                    .schemata
                    .get(&cache.name, *domain)
                    .is_some_and(|mask| mask != 0)
            })
        })
    };
    if overlaps(&capabilities.root) {
        reasons
            .push("tasks nobody moved stay in the root group, which keeps its ways and shares them".into());
    }
    let sharing: Vec<&str> = foreign(capabilities)
        .filter(|group| group.mode == GroupMode::Shareable && overlaps(group))
        .map(|group| group.name.as_str())
        .collect();
    if !sharing.is_empty() {
        reasons.push(format!(
            "groups of other tools keep their ways, which may be the same: {}",
            sharing.join(", ")
        ));
    }
    for cache in partitioned() {
        for domain in cache.domains.iter().filter(|domain| chosen.contains(&domain.id)) {
            let closed = cache.full & !Rules::of(capabilities, cache, domain.id).open();
            if closed != WayMask::default() {
                reasons.push(format!(
                    "{} domain {}: ways {closed} are exclusive to another group and were left out",
                    cache.name, domain.id
                ));
            }
        }
    }
    reasons
}

/// `domain 0`, `domains 0,2`.
pub(crate) fn numbered(noun: &str, numbers: &[u32]) -> String {
    let list: Vec<String> = numbers.iter().map(u32::to_string).collect();
    format!(
        "{noun}{} {}",
        if numbers.len() == 1 { "" } else { "s" },
        list.join(",")
    )
}

#[cfg(test)]
mod tests;
