//! Events every CPU may have, by the names the kernel has for them, and events the kernel counts itself.
//!
//! Which hardware event a portable name stands for is the kernel's choice for each CPU, and not always what the name says;
//! reports show the name, so that nobody takes it for more.

use super::event::{CacheLevel, Encoding, Event, HardwareEvent, SoftwareEvent};
use super::quantity::Quantity;

/// Where these names come from.
const SOURCE: &str = "Linux, perf_event_open(2)";

const fn hardware(quantity: Quantity, event: HardwareEvent, name: &'static str) -> Event {
    Event {
        quantity,
        encoding: Encoding::Hardware(event),
        name,
        source: SOURCE,
        general: true,
    }
}

const fn cache(quantity: Quantity, level: CacheLevel, misses: bool, name: &'static str) -> Event {
    Event {
        quantity,
        encoding: Encoding::CacheReads { level, misses },
        name,
        source: SOURCE,
        general: true,
    }
}

const fn software(quantity: Quantity, event: SoftwareEvent, name: &'static str) -> Event {
    Event {
        quantity,
        encoding: Encoding::Software(event),
        name,
        source: SOURCE,
        general: false,
    }
}

/// For CPUs on no list.
pub(super) const HARDWARE: &[Event] = &[
    hardware(Quantity::Cycles, HardwareEvent::Cycles, "cpu-cycles"),
    hardware(
        Quantity::ReferenceCycles,
        HardwareEvent::ReferenceCycles,
        "ref-cycles",
    ),
    hardware(
        Quantity::Instructions,
        HardwareEvent::Instructions,
        "instructions",
    ),
    hardware(Quantity::Branches, HardwareEvent::Branches, "branch-instructions"),
    hardware(
        Quantity::BranchMispredictions,
        HardwareEvent::BranchMisses,
        "branch-misses",
    ),
    cache(Quantity::L1dAccesses, CacheLevel::L1d, false, "L1-dcache-loads"),
    cache(
        Quantity::L1dMisses,
        CacheLevel::L1d,
        true,
        "L1-dcache-load-misses",
    ),
    cache(
        Quantity::L1iMisses,
        CacheLevel::L1i,
        true,
        "L1-icache-load-misses",
    ),
    cache(Quantity::LlcAccesses, CacheLevel::LastLevel, false, "LLC-loads"),
    cache(
        Quantity::LlcMisses,
        CacheLevel::LastLevel,
        true,
        "LLC-load-misses",
    ),
    cache(Quantity::DtlbMisses, CacheLevel::Dtlb, true, "dTLB-load-misses"),
    cache(Quantity::ItlbMisses, CacheLevel::Itlb, true, "iTLB-load-misses"),
];

/// For every kernel.
pub(super) const SOFTWARE: &[Event] = &[
    software(Quantity::TaskClock, SoftwareEvent::TaskClock, "task-clock"),
    software(
        Quantity::ContextSwitches,
        SoftwareEvent::ContextSwitches,
        "context-switches",
    ),
    software(
        Quantity::CpuMigrations,
        SoftwareEvent::CpuMigrations,
        "cpu-migrations",
    ),
    software(Quantity::PageFaults, SoftwareEvent::PageFaults, "page-faults"),
    software(Quantity::MinorFaults, SoftwareEvent::MinorFaults, "minor-faults"),
    software(Quantity::MajorFaults, SoftwareEvent::MajorFaults, "major-faults"),
];
