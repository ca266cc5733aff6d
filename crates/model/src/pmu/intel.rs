//! Events of Intel's big cores, Haswell to Granite Rapids.
//!
//! Encodings from the event lists Intel publishes (<https://github.com/intel/perfmon>, one folder a generation: HSX and BDX,
//! SKX and CLX, ICX, SPR and EMR, GNR), cross-checked with the kernel's copies of them (`tools/perf/pmu-events/arch/x86`).
//! Fixed counters are asked for by their portable names. The pseudo-events of top-down metrics are those the kernel shows in
//! `/sys/bus/event_source/devices/cpu/events` (Documentation: `tools/perf/Documentation/topdown.txt`).

use super::cpu::Microarchitecture;
use super::event::{Encoding, Event, HardwareEvent};
use super::quantity::Quantity;

/// Where the names come from.
const LISTS: &str = "Intel perfmon event lists";
/// Where the kernel's own come from.
const KERNEL: &str = "Linux, tools/perf/Documentation/topdown.txt";

const fn raw(quantity: Quantity, name: &'static str, event: u8, unit_mask: u8, counter_mask: u8) -> Event {
    Event {
        quantity,
        encoding: Encoding::intel(event, unit_mask, counter_mask),
        name,
        source: LISTS,
        general: true,
    }
}

const fn fixed(quantity: Quantity, name: &'static str, event: HardwareEvent) -> Event {
    Event {
        quantity,
        encoding: Encoding::Hardware(event),
        name,
        source: LISTS,
        general: false,
    }
}

const fn metric(quantity: Quantity, name: &'static str, unit_mask: u8) -> Event {
    Event {
        quantity,
        encoding: Encoding::intel(0x00, unit_mask, 0),
        name,
        source: KERNEL,
        general: false,
    }
}

/// The same on all of them.
const COMMON: &[Event] = &[
    fixed(Quantity::Cycles, "CPU_CLK_UNHALTED.THREAD", HardwareEvent::Cycles),
    fixed(
        Quantity::ReferenceCycles,
        "CPU_CLK_UNHALTED.REF_TSC",
        HardwareEvent::ReferenceCycles,
    ),
    fixed(
        Quantity::Instructions,
        "INST_RETIRED.ANY",
        HardwareEvent::Instructions,
    ),
    raw(Quantity::Branches, "BR_INST_RETIRED.ALL_BRANCHES", 0xc4, 0x00, 0),
    raw(
        Quantity::BranchMispredictions,
        "BR_MISP_RETIRED.ALL_BRANCHES",
        0xc5,
        0x00,
        0,
    ),
    raw(
        Quantity::MemoryOrderMachineClears,
        "MACHINE_CLEARS.MEMORY_ORDERING",
        0xc3,
        0x02,
        0,
    ),
    raw(
        Quantity::L2DataAccesses,
        "L2_RQSTS.ALL_DEMAND_DATA_RD",
        0x24,
        0xe1,
        0,
    ),
    raw(
        Quantity::L2DataMisses,
        "L2_RQSTS.DEMAND_DATA_RD_MISS",
        0x24,
        0x21,
        0,
    ),
    raw(Quantity::L2CodeAccesses, "L2_RQSTS.ALL_CODE_RD", 0x24, 0xe4, 0),
    raw(Quantity::L2CodeMisses, "L2_RQSTS.CODE_RD_MISS", 0x24, 0x24, 0),
    raw(
        Quantity::L2DemandMisses,
        "L2_RQSTS.ALL_DEMAND_MISS",
        0x24,
        0x27,
        0,
    ),
    raw(Quantity::OpCacheUops, "IDQ.DSB_UOPS", 0x79, 0x08, 0),
    raw(Quantity::DecoderUops, "IDQ.MITE_UOPS", 0x79, 0x04, 0),
];

/// Loads and what they missed, by the names until Broadwell.
const LOADS_OF_HASWELL: &[Event] = &[
    raw(Quantity::Loads, "MEM_UOPS_RETIRED.ALL_LOADS", 0xd0, 0x81, 0),
    raw(Quantity::Stores, "MEM_UOPS_RETIRED.ALL_STORES", 0xd0, 0x82, 0),
    raw(Quantity::L1dAccesses, "MEM_UOPS_RETIRED.ALL_LOADS", 0xd0, 0x81, 0),
    raw(
        Quantity::L1dMisses,
        "MEM_LOAD_UOPS_RETIRED.L1_MISS",
        0xd1,
        0x08,
        0,
    ),
    raw(
        Quantity::LlcAccesses,
        "MEM_LOAD_UOPS_RETIRED.L2_MISS",
        0xd1,
        0x10,
        0,
    ),
    raw(
        Quantity::LlcMisses,
        "MEM_LOAD_UOPS_RETIRED.L3_MISS",
        0xd1,
        0x20,
        0,
    ),
];

/// The same since Skylake.
const LOADS: &[Event] = &[
    raw(Quantity::Loads, "MEM_INST_RETIRED.ALL_LOADS", 0xd0, 0x81, 0),
    raw(Quantity::Stores, "MEM_INST_RETIRED.ALL_STORES", 0xd0, 0x82, 0),
    raw(Quantity::L1dAccesses, "MEM_INST_RETIRED.ALL_LOADS", 0xd0, 0x81, 0),
    raw(Quantity::L1dMisses, "MEM_LOAD_RETIRED.L1_MISS", 0xd1, 0x08, 0),
    raw(Quantity::LlcAccesses, "MEM_LOAD_RETIRED.L2_MISS", 0xd1, 0x10, 0),
    raw(Quantity::LlcMisses, "MEM_LOAD_RETIRED.L3_MISS", 0xd1, 0x20, 0),
];

/// Translation buffers until Ice Lake.
const WALKS: &[Event] = &[
    raw(Quantity::ItlbMisses, "ITLB_MISSES.WALK_COMPLETED", 0x85, 0x0e, 0),
    raw(
        Quantity::DtlbMisses,
        "DTLB_LOAD_MISSES.WALK_COMPLETED",
        0x08,
        0x0e,
        0,
    ),
];

/// The same since Golden Cove.
const WALKS_OF_GOLDEN_COVE: &[Event] = &[
    raw(Quantity::ItlbMisses, "ITLB_MISSES.WALK_COMPLETED", 0x11, 0x0e, 0),
    raw(
        Quantity::DtlbMisses,
        "DTLB_LOAD_MISSES.WALK_COMPLETED",
        0x12,
        0x0e,
        0,
    ),
];

/// Top-down metrics of level 1 as four general events.
const TOP_DOWN_CLASSIC: &[Event] = &[
    raw(
        Quantity::UopsNotDelivered,
        "IDQ_UOPS_NOT_DELIVERED.CORE",
        0x9c,
        0x01,
        0,
    ),
    Event {
        quantity: Quantity::CoreCycles,
        // The same event as cycles, with the bit that counts for any thread of the core.
        encoding: Encoding::Raw(0x0020_003c),
        name: "CPU_CLK_UNHALTED.THREAD_ANY",
        source: LISTS,
        general: true,
    },
];

/// Top-down metrics of level 1 from the fixed slots counter.
const TOP_DOWN_LEVEL_1: &[Event] = &[
    metric(Quantity::Slots, "slots", 0x04),
    metric(Quantity::TopDownRetiring, "topdown-retiring", 0x80),
    metric(Quantity::TopDownBadSpeculation, "topdown-bad-spec", 0x81),
    metric(Quantity::TopDownFrontendBound, "topdown-fe-bound", 0x82),
    metric(Quantity::TopDownBackendBound, "topdown-be-bound", 0x83),
];

/// Level 2.
const TOP_DOWN_LEVEL_2: &[Event] = &[
    metric(Quantity::TopDownHeavyOperations, "topdown-heavy-ops", 0x84),
    metric(Quantity::TopDownBranchMispredicts, "topdown-br-mispredict", 0x85),
    metric(Quantity::TopDownFetchLatency, "topdown-fetch-lat", 0x86),
    metric(Quantity::TopDownMemoryBound, "topdown-mem-bound", 0x87),
];

const HASWELL: &[Event] = &[
    raw(Quantity::UopsRetired, "UOPS_RETIRED.RETIRE_SLOTS", 0xc2, 0x02, 0),
    raw(Quantity::UopsIssued, "UOPS_ISSUED.ANY", 0x0e, 0x01, 0),
    raw(Quantity::L1iHits, "ICACHE.HIT", 0x80, 0x01, 0),
    raw(Quantity::L1iMisses, "ICACHE.MISSES", 0x80, 0x02, 0),
    raw(Quantity::L1iStallCycles, "ICACHE.IFDATA_STALL", 0x80, 0x04, 0),
    raw(
        Quantity::L1dStallCycles,
        "CYCLE_ACTIVITY.STALLS_L1D_PENDING",
        0xa3,
        0x0c,
        12,
    ),
    raw(
        Quantity::L2StallCycles,
        "CYCLE_ACTIVITY.STALLS_L2_PENDING",
        0xa3,
        0x05,
        5,
    ),
    raw(
        Quantity::RecoveryCycles,
        "INT_MISC.RECOVERY_CYCLES",
        0x0d,
        0x03,
        1,
    ),
];

/// Stall cycles from Skylake to Ice Lake.
const STALLS: &[Event] = &[
    raw(Quantity::L1iHits, "ICACHE_64B.IFTAG_HIT", 0x83, 0x01, 0),
    raw(Quantity::L1iMisses, "ICACHE_64B.IFTAG_MISS", 0x83, 0x02, 0),
    raw(Quantity::L1iStallCycles, "ICACHE_16B.IFDATA_STALL", 0x80, 0x04, 0),
    raw(
        Quantity::L1dStallCycles,
        "CYCLE_ACTIVITY.STALLS_L1D_MISS",
        0xa3,
        0x0c,
        12,
    ),
    raw(
        Quantity::L2StallCycles,
        "CYCLE_ACTIVITY.STALLS_L2_MISS",
        0xa3,
        0x05,
        5,
    ),
    raw(
        Quantity::LlcStallCycles,
        "CYCLE_ACTIVITY.STALLS_L3_MISS",
        0xa3,
        0x06,
        6,
    ),
];

const SKYLAKE: &[Event] = &[
    raw(Quantity::UopsRetired, "UOPS_RETIRED.RETIRE_SLOTS", 0xc2, 0x02, 0),
    raw(Quantity::UopsIssued, "UOPS_ISSUED.ANY", 0x0e, 0x01, 0),
    raw(
        Quantity::RecoveryCycles,
        "INT_MISC.RECOVERY_CYCLES",
        0x0d,
        0x01,
        0,
    ),
];

const ICE_LAKE: &[Event] = &[
    raw(Quantity::UopsRetired, "UOPS_RETIRED.SLOTS", 0xc2, 0x02, 0),
    raw(Quantity::UopsIssued, "UOPS_ISSUED.ANY", 0x0e, 0x01, 0),
];

/// Golden Cove and Redwood Cove. These count no lookups of the first instruction level; its misses are the requests it
/// makes of the second.
const GOLDEN_COVE: &[Event] = &[
    raw(Quantity::UopsRetired, "UOPS_RETIRED.SLOTS", 0xc2, 0x02, 0),
    raw(Quantity::UopsIssued, "UOPS_ISSUED.ANY", 0xae, 0x01, 0),
    raw(Quantity::L1iMisses, "L2_RQSTS.ALL_CODE_RD", 0x24, 0xe4, 0),
    raw(Quantity::L1iStallCycles, "ICACHE_DATA.STALLS", 0x80, 0x04, 0),
    raw(
        Quantity::L1dStallCycles,
        "MEMORY_ACTIVITY.STALLS_L1D_MISS",
        0x47,
        0x03,
        3,
    ),
    raw(
        Quantity::L2StallCycles,
        "MEMORY_ACTIVITY.STALLS_L2_MISS",
        0x47,
        0x05,
        5,
    ),
    raw(
        Quantity::LlcStallCycles,
        "MEMORY_ACTIVITY.STALLS_L3_MISS",
        0x47,
        0x09,
        9,
    ),
];

/// The events of a generation.
pub(super) fn events(of: Microarchitecture) -> Vec<Event> {
    let parts: &[&[Event]] = match of {
        Microarchitecture::Haswell => &[COMMON, LOADS_OF_HASWELL, WALKS, HASWELL, TOP_DOWN_CLASSIC],
        Microarchitecture::Skylake => &[COMMON, LOADS, WALKS, STALLS, SKYLAKE, TOP_DOWN_CLASSIC],
        Microarchitecture::IceLake => &[COMMON, LOADS, WALKS, STALLS, ICE_LAKE, TOP_DOWN_LEVEL_1],
        Microarchitecture::GoldenCove | Microarchitecture::RedwoodCove => &[
            COMMON,
            LOADS,
            WALKS_OF_GOLDEN_COVE,
            GOLDEN_COVE,
            TOP_DOWN_LEVEL_1,
            TOP_DOWN_LEVEL_2,
        ],
        _ => &[],
    };
    parts.concat()
}
