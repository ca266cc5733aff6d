//! Events of AMD's Zen cores, first to fifth generation.
//!
//! Encodings from AMD's Processor Programming References (family 17h: documents 54945 and 55803; family 19h: 55898 and 55901)
//! and "Performance Monitor Counters for AMD Family 1Ah Model 00h-0Fh Processors" (58550), cross-checked with the kernel's
//! lists (`tools/perf/pmu-events/arch/x86/amdzen1` to `amdzen5`), whose names stand here.
//!
//! All are events of the core. The last level is counted outside the cores, for all threads of a complex together; what one
//! program misses there is taken from where its first level was filled from.

use super::cpu::Microarchitecture;
use super::event::{Encoding, Event};
use super::quantity::Quantity;

const fn raw(
    quantity: Quantity,
    name: &'static str,
    event: u16,
    unit_mask: u8,
    source: &'static str,
) -> Event {
    Event {
        quantity,
        encoding: Encoding::amd(event, unit_mask, 0),
        name,
        source,
        general: true,
    }
}

/// Documents that describe all generations alike.
const PPR: &str = "AMD PPR 54945, 55803, 55898, 55901, 58550";
/// Family 17h, first generation.
const PPR_ZEN1: &str = "AMD PPR 54945";
/// Family 17h, second generation.
const PPR_ZEN2: &str = "AMD PPR 55803";
/// Family 19h, third generation.
const PPR_ZEN3: &str = "AMD PPR 55898";
/// Family 19h, fourth generation.
const PPR_ZEN4: &str = "AMD PPR 55901";
/// Family 1Ah.
const PPR_ZEN5: &str = "AMD 58550";

/// The same on all of them.
const COMMON: &[Event] = &[
    raw(Quantity::Cycles, "ls_not_halted_cyc", 0x76, 0x00, PPR),
    raw(Quantity::Instructions, "ex_ret_instr", 0xc0, 0x00, PPR),
    raw(Quantity::UopsRetired, "ex_ret_ops", 0xc1, 0x00, PPR),
    raw(Quantity::Branches, "ex_ret_brn", 0xc2, 0x00, PPR),
    raw(Quantity::BranchMispredictions, "ex_ret_brn_misp", 0xc3, 0x00, PPR),
    raw(
        Quantity::Loads,
        "ls_dispatch.ld_dispatch + ls_dispatch.ld_st_dispatch",
        0x29,
        0x05,
        PPR,
    ),
    raw(
        Quantity::Stores,
        "ls_dispatch.store_dispatch + ls_dispatch.ld_st_dispatch",
        0x29,
        0x06,
        PPR,
    ),
    raw(Quantity::L1dAccesses, "ls_dispatch.all", 0x29, 0x07, PPR),
    raw(
        Quantity::L2DataMisses,
        "l2_cache_req_stat.ls_rd_blk_c",
        0x64,
        0x08,
        PPR,
    ),
    raw(
        Quantity::L2CodeAccesses,
        "l2_cache_req_stat.ic_access_in_l2",
        0x64,
        0x07,
        PPR,
    ),
    raw(
        Quantity::L2CodeMisses,
        "l2_cache_req_stat.ic_fill_miss",
        0x64,
        0x01,
        PPR,
    ),
    raw(
        Quantity::L2DemandMisses,
        "l2_cache_req_stat.ic_dc_miss_in_l2",
        0x64,
        0x09,
        PPR,
    ),
    raw(Quantity::OpCacheUops, "de_src_op_disp.op_cache", 0xaa, 0x02, PPR),
    raw(Quantity::DecoderUops, "de_src_op_disp.decoder", 0xaa, 0x01, PPR),
    raw(
        Quantity::DtlbMisses,
        "ls_l1_d_tlb_miss.all_l2_miss",
        0x45,
        0xf0,
        PPR,
    ),
];

const ZEN1: &[Event] = &[
    raw(Quantity::UopsIssued, "uops_dispatched", 0xaa, 0x03, PPR_ZEN1),
    raw(
        Quantity::L1dMisses,
        "ls_mab_alloc.loads + ls_mab_alloc.stores",
        0x41,
        0x03,
        PPR_ZEN1,
    ),
    raw(
        Quantity::L2DataAccesses,
        "l2_cache_hits_from_dc_misses + ls_rd_blk_c",
        0x64,
        0x78,
        PPR_ZEN1,
    ),
    raw(Quantity::L1iAccesses, "ic_fw32", 0x80, 0x00, PPR_ZEN1),
    raw(Quantity::L1iMisses, "ic_fw32_miss", 0x81, 0x00, PPR_ZEN1),
    raw(Quantity::ItlbMisses, "l2_itlb_misses", 0x85, 0x07, PPR_ZEN1),
];

/// A line of another complex of the same die counts as one of this complex here.
const ZEN2: &[Event] = &[
    raw(
        Quantity::UopsIssued,
        "de_dis_uops_from_decoder",
        0xaa,
        0x03,
        PPR_ZEN2,
    ),
    raw(
        Quantity::L1dMisses,
        "ls_refills_from_sys.all",
        0x43,
        0x5b,
        PPR_ZEN2,
    ),
    raw(
        Quantity::LlcAccesses,
        "ls_refills_from_sys.all but ls_mabresp_lcl_l2",
        0x43,
        0x5a,
        PPR_ZEN2,
    ),
    raw(
        Quantity::LlcMisses,
        "ls_refills_from_sys.ls_mabresp_lcl_dram + rmt_cache + rmt_dram",
        0x43,
        0x58,
        PPR_ZEN2,
    ),
    raw(
        Quantity::L2DataAccesses,
        "l2_cache_req_stat.dc_access_in_l2",
        0x64,
        0xf8,
        PPR_ZEN2,
    ),
    raw(Quantity::L1iAccesses, "ic_fw32", 0x80, 0x00, PPR_ZEN2),
    raw(Quantity::L1iMisses, "ic_fw32_miss", 0x81, 0x00, PPR_ZEN2),
    raw(Quantity::ItlbMisses, "l2_itlb_misses", 0x85, 0x07, PPR_ZEN2),
];

/// From the third generation on.
const SINCE_ZEN3: &[Event] = &[
    raw(Quantity::UopsIssued, "de_src_op_disp.all", 0xaa, 0x07, PPR_ZEN3),
    raw(
        Quantity::L2DataAccesses,
        "l2_cache_req_stat.dc_access_in_l2",
        0x64,
        0xf8,
        PPR_ZEN3,
    ),
    raw(
        Quantity::L1iAccesses,
        "ic_tag_hit_miss.all_instruction_cache_accesses",
        0x18e,
        0x1f,
        PPR_ZEN3,
    ),
    raw(
        Quantity::L1iMisses,
        "ic_tag_hit_miss.instruction_cache_miss",
        0x18e,
        0x18,
        PPR_ZEN3,
    ),
    raw(
        Quantity::ItlbMisses,
        "bp_l1_tlb_miss_l2_tlb_miss.all",
        0x85,
        0x0f,
        PPR_ZEN3,
    ),
];

const ZEN3: &[Event] = &[
    raw(
        Quantity::L1dMisses,
        "ls_dmnd_fills_from_sys, all sources",
        0x43,
        0x5f,
        PPR_ZEN3,
    ),
    raw(
        Quantity::LlcAccesses,
        "ls_dmnd_fills_from_sys, all but lcl_l2",
        0x43,
        0x5e,
        PPR_ZEN3,
    ),
    raw(
        Quantity::LlcMisses,
        "ls_dmnd_fills_from_sys, all but lcl_l2 and int_cache",
        0x43,
        0x5c,
        PPR_ZEN3,
    ),
];

/// From the fourth generation on; dispatch slots are six a cycle in the fourth and eight in the fifth.
const SINCE_ZEN4: &[Event] = &[
    raw(
        Quantity::ReferenceCycles,
        "ls_not_halted_p0_cyc.p0_freq_cyc",
        0x120,
        0x01,
        PPR_ZEN4,
    ),
    raw(
        Quantity::L1dMisses,
        "ls_dmnd_fills_from_sys.all",
        0x43,
        0xff,
        PPR_ZEN4,
    ),
    raw(
        Quantity::LlcAccesses,
        "ls_dmnd_fills_from_sys, all but local_l2",
        0x43,
        0xfe,
        PPR_ZEN4,
    ),
    raw(
        Quantity::LlcMisses,
        "ls_dmnd_fills_from_sys, all but local_l2 and local_ccx",
        0x43,
        0xfc,
        PPR_ZEN4,
    ),
    raw(
        Quantity::SlotsNoOps,
        "de_no_dispatch_per_slot.no_ops_from_frontend",
        0x1a0,
        0x01,
        PPR_ZEN4,
    ),
    raw(
        Quantity::SlotsBackendStalls,
        "de_no_dispatch_per_slot.backend_stalls",
        0x1a0,
        0x1e,
        PPR_ZEN4,
    ),
    raw(
        Quantity::SlotsSmtContention,
        "de_no_dispatch_per_slot.smt_contention",
        0x1a0,
        0x60,
        PPR_ZEN4,
    ),
    raw(
        Quantity::MicrocodeOpsRetired,
        "ex_ret_ucode_ops",
        0x1c1,
        0x00,
        PPR_ZEN4,
    ),
    raw(
        Quantity::RetireStallCycles,
        "ex_no_retire.not_complete",
        0xd6,
        0x02,
        PPR_ZEN4,
    ),
    raw(
        Quantity::RetireStallLoadCycles,
        "ex_no_retire.load_not_complete",
        0xd6,
        0xa2,
        PPR_ZEN4,
    ),
];

const ZEN4: &[Event] = &[
    raw(
        Quantity::PipelineRestarts,
        "resyncs_or_nc_redirects",
        0x96,
        0x00,
        PPR_ZEN4,
    ),
    Event {
        quantity: Quantity::CyclesNoOps,
        encoding: Encoding::amd(0x1a0, 0x01, 6),
        name: "de_no_dispatch_per_slot.no_ops_from_frontend, cmask 6",
        source: PPR_ZEN4,
        general: true,
    },
];

const ZEN5: &[Event] = &[
    raw(
        Quantity::PipelineRestarts,
        "bp_redirects.resync",
        0x9f,
        0x01,
        PPR_ZEN5,
    ),
    Event {
        quantity: Quantity::CyclesNoOps,
        encoding: Encoding::amd(0x1a0, 0x01, 8),
        name: "de_no_dispatch_per_slot.no_ops_from_frontend, cmask 8",
        source: PPR_ZEN5,
        general: true,
    },
];

/// The events of a generation.
pub(super) fn events(of: Microarchitecture) -> Vec<Event> {
    let parts: &[&[Event]] = match of {
        Microarchitecture::Zen1 => &[COMMON, ZEN1],
        Microarchitecture::Zen2 => &[COMMON, ZEN2],
        Microarchitecture::Zen3 => &[COMMON, SINCE_ZEN3, ZEN3],
        Microarchitecture::Zen4 => &[COMMON, SINCE_ZEN3, SINCE_ZEN4, ZEN4],
        Microarchitecture::Zen5 => &[COMMON, SINCE_ZEN3, SINCE_ZEN4, ZEN5],
        _ => &[],
    };
    parts.concat()
}
