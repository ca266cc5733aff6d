//! Which events are counted together.
//!
//! A CPU counts few events at a time, so more events mean groups that take turns. Quantities whose ratio is taken go into one
//! group: [`plan`] keeps each set of them together where it fits, and puts as many sets into a group as the counters hold, so
//! that there are few turns to take.
//!
//! Not here: which ratios exist ([`super::rates`], [`super::top_down`]); counting.

use super::event::Event;
use super::quantity::Quantity;
use super::table::{Absent, EventTable};

/// What is counted, group by group.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    /// Events that are counted together. Intel's slots come first in their group, as the kernel wants it.
    pub groups: Vec<Vec<Event>>,
    /// What this CPU cannot count, each once.
    pub absent: Vec<Absent>,
    /// Sets that do not fit into one group: their ratios are of different stretches of time.
    pub torn: Vec<Vec<Quantity>>,
}

impl Plan {
    /// Everything that is counted, each quantity once.
    pub fn quantities(&self) -> Vec<Quantity> {
        let mut all: Vec<Quantity> = self.groups.iter().flatten().map(|event| event.quantity).collect();
        all.sort_unstable();
        all.dedup();
        all
    }
}

/// The sets of quantities that a characterisation of a workload wants, each with the denominator of its ratios first.
pub fn wanted() -> Vec<Vec<Quantity>> {
    use Quantity as Q;
    vec![
        vec![Q::Instructions, Q::Cycles, Q::ReferenceCycles],
        vec![Q::Instructions, Q::UopsRetired, Q::UopsIssued],
        vec![Q::Instructions, Q::Loads, Q::Stores, Q::Branches],
        vec![Q::L1dAccesses, Q::L1dMisses, Q::Instructions],
        vec![Q::LlcAccesses, Q::LlcMisses, Q::Instructions],
        vec![Q::L2DataAccesses, Q::L2DataMisses, Q::Instructions],
        vec![Q::L2CodeAccesses, Q::L2CodeMisses, Q::Instructions],
        vec![Q::L1iAccesses, Q::L1iHits, Q::L1iMisses, Q::Instructions],
        vec![Q::DecoderUops, Q::OpCacheUops],
        vec![Q::Instructions, Q::ItlbMisses],
        vec![Q::Loads, Q::DtlbMisses, Q::Instructions],
        vec![Q::Branches, Q::BranchMispredictions, Q::Instructions],
        vec![Q::Instructions, Q::MemoryOrderMachineClears],
        vec![
            Q::Cycles,
            Q::L1iStallCycles,
            Q::L1dStallCycles,
            Q::L2StallCycles,
            Q::LlcStallCycles,
        ],
    ]
}

/// The sets that top-down metrics need; what a CPU has not of them is no loss on it.
pub fn wanted_of_top_down() -> Vec<Vec<Quantity>> {
    use Quantity as Q;
    vec![
        vec![
            Q::Slots,
            Q::TopDownRetiring,
            Q::TopDownBadSpeculation,
            Q::TopDownFrontendBound,
            Q::TopDownBackendBound,
            Q::TopDownHeavyOperations,
            Q::TopDownBranchMispredicts,
            Q::TopDownFetchLatency,
            Q::TopDownMemoryBound,
        ],
        // Before Ice Lake; the core's cycles only say more than the thread's where the sibling is active.
        vec![
            Q::Cycles,
            Q::UopsNotDelivered,
            Q::UopsIssued,
            Q::UopsRetired,
            Q::RecoveryCycles,
        ],
        vec![Q::Cycles, Q::CoreCycles],
        // Zen 4 and 5: what level 1 needs is exactly six events.
        vec![
            Q::Cycles,
            Q::SlotsNoOps,
            Q::SlotsBackendStalls,
            Q::SlotsSmtContention,
            Q::UopsIssued,
            Q::UopsRetired,
        ],
        vec![Q::Cycles, Q::SlotsNoOps, Q::CyclesNoOps],
        vec![Q::RetireStallCycles, Q::RetireStallLoadCycles],
        vec![Q::UopsRetired, Q::MicrocodeOpsRetired],
        vec![Q::BranchMispredictions, Q::PipelineRestarts],
    ]
}

/// Groups for these sets on this CPU, no group with more than `counters_general` events that need a general counter
/// (at least one is always assumed).
///
/// A set that does not fit is torn: its first quantity is repeated in each part, so that rates to that one stay sound.
pub fn plan(table: &EventTable, sets: &[Vec<Quantity>], counters_general: usize) -> Plan {
    let room = counters_general.max(1);
    let mut plan = Plan::default();
    for set in sets {
        let mut events: Vec<Event> = Vec::with_capacity(set.len());
        for quantity in set {
            match table.event(*quantity) {
                Ok(event) if !events.iter().any(|known| known.quantity == event.quantity) => {
                    events.push(event);
                }
                Ok(_) => {}
                Err(absent) if !plan.absent.contains(&absent) => plan.absent.push(absent),
                Err(_) => {}
            }
        }
        if general(&events) <= room {
            place(&mut plan.groups, events, room);
            continue;
        }
        plan.torn.push(set.clone());
        for part in torn(&events, room) {
            place(&mut plan.groups, part, room);
        }
    }
    for group in &mut plan.groups {
        // The kernel takes top-down metrics only in a group that slots lead.
        group.sort_by_key(|event| event.quantity != Quantity::Slots);
    }
    plan
}

/// How many of these need a general counter. Two quantities of one encoding still take two: the kernel does not share.
fn general(events: &[Event]) -> usize {
    events.iter().filter(|event| event.general).count()
}

/// Puts a set into the first group that has or can take all of it, else into one of its own.
fn place(groups: &mut Vec<Vec<Event>>, events: Vec<Event>, room: usize) {
    if events.is_empty() {
        return;
    }
    // Software events are counted without turns, in groups of their own: a group that waits for hardware would wait them too.
    let software = |events: &[Event]| events.iter().all(|event| event.encoding.is_software());
    let alone = software(&events);
    for group in groups.iter_mut().filter(|group| software(group) == alone) {
        let missing: Vec<Event> = events
            .iter()
            .filter(|event| !group.iter().any(|known| known.quantity == event.quantity))
            .copied()
            .collect();
        if general(group) + general(&missing) <= room {
            group.extend(missing);
            return;
        }
    }
    groups.push(events);
}

/// A set that is too large in parts that fit, its first event in each.
fn torn(events: &[Event], room: usize) -> Vec<Vec<Event>> {
    let Some((first, rest)) = events.split_first() else {
        return Vec::new();
    };
    let mut parts: Vec<Vec<Event>> = Vec::new();
    for event in rest {
        match parts.last_mut() {
            Some(part) if general(part) + usize::from(event.general) <= room => part.push(*event),
            // With one counter only there is no room for the denominator beside.
            _ if usize::from(first.general) + usize::from(event.general) > room => parts.push(vec![*event]),
            _ => parts.push(vec![*first, *event]),
        }
    }
    if !parts.iter().flatten().any(|event| event == first) {
        parts.insert(0, vec![*first]);
    }
    parts
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::cpu::CpuModel;
    use super::*;

    fn sapphire_rapids() -> EventTable {
        EventTable::of(&CpuModel::from_signature("GenuineIntel", 0x0008_06f8))
    }

    fn zen4() -> EventTable {
        EventTable::of(&CpuModel::from_signature("AuthenticAMD", 0x00a1_0f11))
    }

    fn table(known: usize) -> EventTable {
        let tables = [
            ("GenuineIntel", 0x0003_06f2),
            ("GenuineIntel", 0x0008_06f8),
            ("AuthenticAMD", 0x0083_0f10),
            ("AuthenticAMD", 0x00b0_0f21),
            ("", 0),
        ];
        let (vendor, signature) = tables[known % tables.len()];
        EventTable::of(&CpuModel::from_signature(vendor, signature))
    }

    #[test]
    fn ratios_stay_together_on_real_cpus() {
        for (table, room) in [(sapphire_rapids(), 4), (zen4(), 6)] {
            let mut sets = wanted();
            sets.extend(wanted_of_top_down());
            let plan = plan(&table, &sets, room);
            assert!(plan.torn.is_empty(), "{:?}", plan.torn);
            let events: usize = plan.groups.iter().map(Vec::len).sum();
            assert!(plan.groups.len() < sets.len() && events > 20, "{plan:#?}");
        }
    }

    #[test]
    fn slots_lead_their_group() {
        let sets = [vec![
            Quantity::TopDownRetiring,
            Quantity::Instructions,
            Quantity::Slots,
        ]];
        let plan = plan(&sapphire_rapids(), &sets, 4);
        assert_eq!(plan.groups[0][0].quantity, Quantity::Slots);
        assert_eq!(plan.groups[0].len(), 3);
    }

    #[test]
    fn software_events_need_no_counter_and_share_none() {
        let sets = [
            vec![Quantity::Instructions, Quantity::Cycles],
            vec![Quantity::TaskClock, Quantity::PageFaults],
            vec![Quantity::ContextSwitches, Quantity::CpuMigrations],
        ];
        let plan = plan(&zen4(), &sets, 1);
        assert_eq!(plan.torn, [vec![Quantity::Instructions, Quantity::Cycles]]);
        let software: Vec<_> = plan
            .groups
            .iter()
            .filter(|group| group[0].encoding.is_software())
            .collect();
        assert_eq!((software.len(), software[0].len()), (1, 4));
    }

    #[test]
    fn what_a_cpu_does_not_count_is_named_once() {
        let sets = [
            vec![Quantity::Instructions, Quantity::L1iHits],
            vec![Quantity::L1iHits, Quantity::L1iMisses],
        ];
        let plan = plan(&sapphire_rapids(), &sets, 4);
        assert_eq!(plan.absent.len(), 1);
        assert_eq!(plan.quantities(), [Quantity::Instructions, Quantity::L1iMisses]);
    }

    proptest! {
        #[test]
        fn no_group_is_too_large_and_nothing_is_lost(
            known in 0usize..5,
            room in 0usize..8,
            sets in proptest::collection::vec(
                proptest::collection::vec(proptest::sample::select(Quantity::ALL), 0..8),
                0..12,
            ),
        ) {
            let table = table(known);
            let plan = plan(&table, &sets, room);
            for group in &plan.groups {
                prop_assert!(general(group) <= room.max(1), "{:?}", group);
                prop_assert!(!group.is_empty());
                let mut quantities: Vec<_> = group.iter().map(|event| event.quantity).collect();
                quantities.sort_unstable();
                let all = quantities.len();
                quantities.dedup();
                prop_assert_eq!(quantities.len(), all, "twice in a group");
            }
            for set in &sets {
                for quantity in set {
                    let counted = plan.quantities().contains(quantity);
                    prop_assert_eq!(counted, table.event(*quantity).is_ok());
                }
                // A set that is not torn is whole in one group.
                let there = |group: &Vec<Event>| {
                    set.iter()
                        .filter(|quantity| table.event(**quantity).is_ok())
                        .all(|quantity| group.iter().any(|event| event.quantity == *quantity))
                };
                let any = set.iter().any(|quantity| table.event(*quantity).is_ok());
                prop_assert!(!any || plan.torn.contains(set) || plan.groups.iter().any(there));
            }
        }
    }
}
