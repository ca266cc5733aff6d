//! Formulas against `perf stat` outputs that others published: the same percentages must come out of the same counts.
//!
//! Each capture names where it is from. A line is a count and an event, a published figure (`=`, within half of its last
//! digit), or one published to the tens of percent only (`~`).

use corun_model::pmu::cpu::CpuModel;
use corun_model::pmu::rates;
use corun_model::pmu::top_down::top_down;
use corun_model::pmu::{Counts, GroupCounts, Quantity};

struct Capture {
    counts: Counts,
    /// Name, figure, how far off it may be.
    published: Vec<(String, f64, f64)>,
}

/// What an event of the tool counts.
fn quantity(event: &str) -> Quantity {
    match event {
        "cycles" | "ls_not_halted_cyc" => Quantity::Cycles,
        "instructions" => Quantity::Instructions,
        "branches" => Quantity::Branches,
        "branch-misses" | "ex_ret_brn_misp" => Quantity::BranchMispredictions,
        "L1-dcache-loads" => Quantity::L1dAccesses,
        "L1-dcache-load-misses" => Quantity::L1dMisses,
        "L1-icache-loads" => Quantity::L1iAccesses,
        "L1-icache-load-misses" => Quantity::L1iMisses,
        "slots" => Quantity::Slots,
        "topdown-retiring" => Quantity::TopDownRetiring,
        "topdown-bad-spec" => Quantity::TopDownBadSpeculation,
        "topdown-fe-bound" => Quantity::TopDownFrontendBound,
        "topdown-be-bound" => Quantity::TopDownBackendBound,
        "topdown-heavy-ops" => Quantity::TopDownHeavyOperations,
        "topdown-br-mispredict" => Quantity::TopDownBranchMispredicts,
        "topdown-fetch-lat" => Quantity::TopDownFetchLatency,
        "topdown-mem-bound" => Quantity::TopDownMemoryBound,
        "uops_issued.any" | "de_src_op_disp.all" => Quantity::UopsIssued,
        "uops_retired.retire_slots" | "ex_ret_ops" => Quantity::UopsRetired,
        "idq_uops_not_delivered.core" => Quantity::UopsNotDelivered,
        "int_misc.recovery_cycles" => Quantity::RecoveryCycles,
        "resyncs_or_nc_redirects" => Quantity::PipelineRestarts,
        "ex_no_retire.load_not_complete" => Quantity::RetireStallLoadCycles,
        "ex_no_retire.not_complete" => Quantity::RetireStallCycles,
        "ex_ret_ucode_ops" => Quantity::MicrocodeOpsRetired,
        "de_no_dispatch_per_slot.backend_stalls" => Quantity::SlotsBackendStalls,
        "de_no_dispatch_per_slot.no_ops_from_frontend" => Quantity::SlotsNoOps,
        "de_no_dispatch_per_slot.no_ops_from_frontend,cmask=0x6" => Quantity::CyclesNoOps,
        other => panic!("no quantity for {other}"),
    }
}

fn read(text: &str) -> Capture {
    let provenance = text.lines().filter(|line| line.starts_with('#'));
    let named = provenance.clone().any(|line| line.contains("https://"));
    let dated = provenance.clone().any(|line| line.contains("looked up "));
    assert!(named && dated, "a capture says where it is from, and when");
    let mut groups = vec![GroupCounts::default()];
    let mut published = Vec::new();
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let words: Vec<&str> = line.split(' ').collect();
        match words[..] {
            ["---"] => groups.push(GroupCounts::default()),
            ["=", figure, name] => {
                let decimals = figure.split_once('.').map_or(0, |(_, digits)| digits.len());
                let half = 0.5 / 10f64.powi(i32::try_from(decimals).unwrap());
                // The tool rounds what it printed counts of; a hair more for that.
                published.push((name.to_owned(), figure.parse().unwrap(), half * 1.02));
            }
            ["~", figure, name] => published.push((name.to_owned(), figure.parse().unwrap(), 5.0)),
            [count, event] => {
                let group = groups.last_mut().unwrap();
                group.values.push((quantity(event), count.parse().unwrap()));
                // The tool has scaled its counts already.
                (group.time_enabled_ns, group.time_running_ns) = (1, 1);
            }
            _ => panic!("{line}"),
        }
    }
    Capture {
        counts: Counts { groups },
        published,
    }
}

/// Every published figure comes out of the counts.
fn reproduces(text: &str, cpu: &CpuModel, siblings_active: bool) {
    let capture = read(text);
    let shares = top_down(&capture.counts, cpu, siblings_active).unwrap();
    // Rates are of the group of general events, which is the last.
    let rates_of = Counts {
        groups: capture.counts.groups.last().cloned().into_iter().collect(),
    };
    assert!(capture.published.len() >= 4);
    for (name, figure, within) in &capture.published {
        let found = match name.as_str() {
            "instructions_per_cycle" => rates::cpi_not_halted(&rates_of).map(|cpi| 1.0 / cpi),
            "branch_mispredict" => rates::branch_mispredict(&rates_of).map(|rate| rate.percent),
            "l1d_miss" => rates::l1d_miss(&rates_of).map(|rate| rate.percent),
            "l1i_miss" => rates::l1i_miss(&rates_of).map(|rate| rate.percent),
            category => shares
                .iter()
                .find(|share| share.category == category)
                .map(|share| share.percent),
        };
        let found = found.unwrap_or_else(|| panic!("{name} does not follow from the counts"));
        assert!(
            (found - figure).abs() <= *within,
            "{name}: {found}, published {figure}"
        );
    }
}

fn intel(signature: u32) -> CpuModel {
    CpuModel::from_signature("GenuineIntel", signature)
}

fn amd(signature: u32) -> CpuModel {
    CpuModel::from_signature("AuthenticAMD", signature)
}

#[test]
fn zen4_at_both_levels() {
    for text in [
        include_str!("captures/zen4_gcc.txt"),
        include_str!("captures/zen4_clang.txt"),
    ] {
        reproduces(text, &amd(0x00a6_0f12), false);
    }
}

#[test]
fn sapphire_rapids_at_both_levels() {
    reproduces(
        include_str!("captures/sapphire_rapids.txt"),
        &intel(0x0008_06f8),
        true,
    );
}

#[test]
fn ice_lake_at_level_1() {
    reproduces(
        include_str!("captures/ice_lake_guest.txt"),
        &intel(0x0006_06a6),
        true,
    );
}

#[test]
fn before_ice_lake_at_level_1() {
    reproduces(include_str!("captures/classic.txt"), &intel(0x0005_0657), true);
}
