//! Which events a CPU has.

use thiserror::Error;

use super::cpu::{CpuModel, Maker, Microarchitecture};
use super::event::Event;
use super::quantity::Quantity;
use super::{amd, intel, portable};

/// The events of one CPU, hardware's and the kernel's own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventTable {
    cpu: CpuModel,
    microarchitecture: Option<Microarchitecture>,
    events: Vec<Event>,
}

/// Why a quantity cannot be counted on a CPU.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("no event for {quantity}: {reason}")]
pub struct Absent {
    /// What.
    pub quantity: Quantity,
    /// Why, in words.
    pub reason: String,
}

impl EventTable {
    /// The events known of a CPU; portable ones only where its model is on no list.
    pub fn of(cpu: &CpuModel) -> Self {
        let microarchitecture = cpu.microarchitecture();
        let mut events = match (microarchitecture, cpu.maker()) {
            (None, _) => portable::HARDWARE.to_vec(),
            (Some(known), Maker::Intel) => intel::events(known),
            (Some(known), _) => amd::events(known),
        };
        events.extend_from_slice(portable::SOFTWARE);
        debug_assert!(
            events
                .iter()
                .enumerate()
                .all(|(i, event)| events[..i].iter().all(|before| before.quantity != event.quantity)),
            "one event a quantity"
        );
        Self {
            cpu: cpu.clone(),
            microarchitecture,
            events,
        }
    }

    /// The CPU.
    pub fn cpu(&self) -> &CpuModel {
        &self.cpu
    }

    /// Its generation; `None` where only portable events are known.
    pub fn microarchitecture(&self) -> Option<Microarchitecture> {
        self.microarchitecture
    }

    /// All events, hardware's first.
    pub fn events(&self) -> &[Event] {
        &self.events
    }

    /// How this CPU counts a quantity.
    ///
    /// # Errors
    /// When no event for it is known, with the reason.
    pub fn event(&self, quantity: Quantity) -> Result<Event, Absent> {
        let found = self.events.iter().find(|event| event.quantity == quantity);
        found.copied().ok_or_else(|| Absent {
            quantity,
            reason: match self.microarchitecture {
                Some(known) => format!("{} cores do not count it", known.name()),
                None => format!("only portable events are known of {}", self.cpu.words()),
            },
        })
    }

    /// How many general counters a thread can rely on, the fixed ones not among them.
    ///
    /// Intel since Ice Lake has eight, but memory and cache events go to the first four only, and so do all where the sibling
    /// is active before. Of unknown CPUs as many as any has.
    pub fn counters_general(&self) -> usize {
        match self.cpu.maker() {
            Maker::Intel if self.microarchitecture.is_some() => 4,
            // The same six since the first generation.
            Maker::Amd if self.microarchitecture.is_some() => 6,
            _ => 2,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::event::{Encoding, HardwareEvent};
    use super::*;

    fn table(vendor: &str, signature: u32) -> EventTable {
        EventTable::of(&CpuModel::from_signature(vendor, signature))
    }

    fn every_table() -> Vec<EventTable> {
        let intel = [0x0003_06f2, 0x0005_0657, 0x0006_06a6, 0x0008_06f8, 0x000a_06d1];
        let amd = [0x0080_0f12, 0x0083_0f10, 0x00a0_0f11, 0x00a1_0f11, 0x00b0_0f21];
        intel
            .map(|signature| table("GenuineIntel", signature))
            .into_iter()
            .chain(amd.map(|signature| table("AuthenticAMD", signature)))
            .chain([EventTable::of(&CpuModel::default())])
            .collect()
    }

    #[test]
    fn every_known_cpu_counts_what_the_paper_needs() {
        for table in every_table().iter().filter(|t| t.microarchitecture().is_some()) {
            for quantity in [
                Quantity::Cycles,
                Quantity::Instructions,
                Quantity::UopsRetired,
                Quantity::UopsIssued,
                Quantity::Loads,
                Quantity::Stores,
                Quantity::Branches,
                Quantity::BranchMispredictions,
                Quantity::L1dAccesses,
                Quantity::L1dMisses,
                Quantity::L2DataAccesses,
                Quantity::L2DataMisses,
                Quantity::L2CodeAccesses,
                Quantity::L2CodeMisses,
                Quantity::L2DemandMisses,
                Quantity::L1iMisses,
                Quantity::OpCacheUops,
                Quantity::DecoderUops,
                Quantity::ItlbMisses,
                Quantity::DtlbMisses,
            ] {
                assert!(table.event(quantity).is_ok(), "{:?} {quantity}", table.cpu());
            }
        }
    }

    #[test]
    fn no_two_events_of_a_quantity_and_a_name_for_each() {
        for table in every_table() {
            for (i, event) in table.events().iter().enumerate() {
                assert!(!event.name.is_empty() && !event.source.is_empty());
                assert!(
                    table.events()[..i].iter().all(|e| e.quantity != event.quantity),
                    "{:?} {event:?}",
                    table.cpu()
                );
            }
        }
    }

    #[test]
    fn encodings_of_sapphire_rapids() {
        let table = table("GenuineIntel", 0x000c_06f2);
        let raw = |quantity| table.event(quantity).unwrap().encoding;
        assert_eq!(raw(Quantity::L2DemandMisses), Encoding::Raw(0x2724));
        assert_eq!(raw(Quantity::MemoryOrderMachineClears), Encoding::Raw(0x02c3));
        assert_eq!(raw(Quantity::UopsIssued), Encoding::Raw(0x01ae));
        assert_eq!(raw(Quantity::ItlbMisses), Encoding::Raw(0x0e11));
        assert_eq!(raw(Quantity::LlcStallCycles), Encoding::Raw(0x0900_0947));
        assert_eq!(raw(Quantity::Slots), Encoding::Raw(0x0400));
        assert_eq!(raw(Quantity::TopDownMemoryBound), Encoding::Raw(0x8700));
        assert_eq!(raw(Quantity::Cycles), Encoding::Hardware(HardwareEvent::Cycles));
        assert!(!table.event(Quantity::Instructions).unwrap().general);
        assert_eq!(
            table.event(Quantity::L1iHits).unwrap_err().to_string(),
            "no event for L1 instruction cache hits: Golden Cove cores do not count it"
        );
    }

    #[test]
    fn encodings_of_zen() {
        let zen4 = table("AuthenticAMD", 0x00a1_0f11);
        let raw = |quantity| zen4.event(quantity).unwrap().encoding;
        assert_eq!(raw(Quantity::SlotsBackendStalls), Encoding::Raw(0x1_0000_1ea0));
        assert_eq!(raw(Quantity::CyclesNoOps), Encoding::Raw(0x1_0600_01a0));
        assert_eq!(raw(Quantity::LlcMisses), Encoding::Raw(0xfc43));
        assert!(zen4.event(Quantity::MemoryOrderMachineClears).is_err());
        let zen5 = table("AuthenticAMD", 0x00b0_0f21);
        assert_eq!(
            zen5.event(Quantity::CyclesNoOps).unwrap().encoding,
            Encoding::Raw(0x1_0800_01a0)
        );
    }

    #[test]
    fn unknown_models_have_portable_events_only() {
        for cpu in [
            CpuModel::default(),
            CpuModel::from_signature("GenuineIntel", 0x000a_06f3),
        ] {
            let table = EventTable::of(&cpu);
            assert!(
                table
                    .events()
                    .iter()
                    .all(|event| !matches!(event.encoding, Encoding::Raw(_)))
            );
            let absent = table.event(Quantity::L2DemandMisses).unwrap_err().to_string();
            assert!(absent.contains("only portable events are known of"), "{absent}");
            assert!(table.event(Quantity::TaskClock).is_ok());
        }
    }
}
