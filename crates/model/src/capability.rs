//! What a machine can and cannot do for corun, and what corun does instead.
//!
//! [`capabilities`] is a pure function of a [`Topology`]: the program prints its answer, features consult it, and tests
//! feed it machines nobody here owns.

use serde::{Deserialize, Serialize};

use crate::cpulist;
use crate::topology::{ThpMode, Topology};
use crate::units::CpuId;

/// One thing corun makes use of.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Capability {
    /// Stable name, for scripts.
    pub name: &'static str,
    /// Whether this machine has it.
    pub state: State,
    /// What was found, or why it is missing.
    pub reason: String,
    /// What corun does instead; empty when available.
    pub fallback: &'static str,
}

/// Whether a capability can be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// Usable now, by this process.
    Available,
    /// Not usable; the reason says whether the machine, the kernel or a permission is in the way.
    Missing,
}

/// Every capability corun knows, in a fixed order.
pub fn capabilities(topology: &Topology) -> Vec<Capability> {
    vec![
        cache_geometry(topology),
        trusted_llc_size(topology),
        cache_partitioning(topology),
        smt_siblings(topology),
        hardware_counters(topology),
        huge_pages(topology),
        vector_instructions(topology),
        whole_machine(topology),
    ]
}

fn decide(
    name: &'static str,
    available: bool,
    reason: impl Into<String>,
    fallback_if_missing: &'static str,
) -> Capability {
    let (state, fallback) = if available {
        (State::Available, "")
    } else {
        (State::Missing, fallback_if_missing)
    };
    Capability {
        name,
        state,
        reason: reason.into(),
        fallback,
    }
}

fn cache_geometry(topology: &Topology) -> Capability {
    let data: Vec<String> = topology
        .usable_cpus()
        .first()
        .map(|&cpu| {
            topology
                .caches
                .iter()
                .filter(move |c| c.holds_data() && c.shared_cpus.contains(&cpu))
        })
        .into_iter()
        .flatten()
        .map(|cache| format!("{} {}", cache.name(), cache.size))
        .collect();
    let found = !data.is_empty();
    let reason = if found {
        data.join(", ")
    } else {
        "neither the kernel nor the CPU describes the caches".into()
    };
    decide(
        "cache_geometry",
        found,
        reason,
        "tables are sized for a private cache of 1 MiB and a last-level cache of 16 MiB",
    )
}

fn trusted_llc_size(topology: &Topology) -> Capability {
    let (trusted, reason) = match (&topology.hypervisor, topology.last_level_cache_bytes()) {
        (_, None) => (false, "no last-level cache is described".to_owned()),
        (Some(hypervisor), Some(size)) => (
            false,
            format!(
                "{size} is what {} reports; other tenants may share it",
                hypervisor.name
            ),
        ),
        (None, Some(size)) => (true, format!("{size} on bare metal")),
    };
    decide(
        "trusted_llc_size",
        trusted,
        reason,
        "`corun topology --measure` finds the effective size",
    )
}

fn cache_partitioning(topology: &Topology) -> Capability {
    let usable = topology.resctrl.missing.is_empty() && topology.resctrl.in_kernel;
    let reason = if usable {
        let names: Vec<&str> = topology
            .resctrl
            .resources
            .iter()
            .map(|r| r.name.as_str())
            .collect();
        format!("resctrl with {}", names.join(", "))
    } else if topology.resctrl.missing.is_empty() {
        "the kernel offers no resctrl".to_owned()
    } else {
        topology.resctrl.missing.join("; ")
    };
    decide(
        "cache_partitioning",
        usable,
        reason,
        "queries are co-scheduled by what they do to the shared cache, and those that would flush it read past it",
    )
}

fn smt_siblings(topology: &Topology) -> Capability {
    let usable = topology.usable_cpus();
    let pair = topology
        .cores
        .iter()
        .map(|core| {
            core.cpus
                .iter()
                .filter(|cpu| usable.contains(cpu))
                .copied()
                .collect::<Vec<CpuId>>()
        })
        .find(|threads| threads.len() > 1);
    let reason = match &pair {
        Some(threads) => format!("CPUs {} share a core", cpulist::format(threads)),
        None if topology.hypervisor.is_some() => {
            "no two usable CPUs share a core by the kernel's word; a hypervisor may hide it, `--measure` tests it".to_owned()
        }
        None => "no two usable CPUs share a core".to_owned(),
    };
    decide(
        "smt_siblings",
        pair.is_some(),
        reason,
        "memory latency is hidden by software prefetch within one thread instead of a helper thread",
    )
}

fn hardware_counters(topology: &Topology) -> Capability {
    let pmu = &topology.pmu;
    let usable = pmu.missing.is_empty() && !pmu.devices.is_empty();
    let reason = if usable {
        format!(
            "{} (perf_event_paranoid {})",
            pmu.devices.join(", "),
            pmu.paranoid.map_or("?".into(), |p| p.to_string())
        )
    } else if pmu.missing.is_empty() {
        "the kernel drives no counter unit of the cores".to_owned()
    } else {
        pmu.missing.join("; ")
    };
    decide(
        "hardware_counters",
        usable,
        reason,
        "cache misses are not counted: only times are shown, measured with the clock",
    )
}

fn huge_pages(topology: &Topology) -> Capability {
    let huge = &topology.huge_pages;
    let (usable, reason) = match huge.transparent {
        Some(ThpMode::Always) => (true, "transparent huge pages everywhere"),
        Some(ThpMode::Madvise) => (
            true,
            "transparent huge pages where asked with madvise, which corun does for large tables",
        ),
        Some(ThpMode::Never) => (false, "transparent huge pages are set to never"),
        None => (false, "the kernel offers no transparent huge pages"),
    };
    decide(
        "huge_pages",
        usable,
        reason,
        "tables use base pages: large random access also pays for page walks",
    )
}

fn vector_instructions(topology: &Topology) -> Capability {
    const USEFUL: [&str; 5] = ["avx512f", "avx2", "sse4_2", "sve", "asimd"];
    let best = USEFUL
        .into_iter()
        .find(|name| topology.simd.iter().any(|found| found == name));
    let wide = matches!(best, Some("avx512f" | "avx2"));
    let reason = best.map_or_else(
        || "none was reported".to_owned(),
        |name| format!("widest useful set: {name}"),
    );
    decide(
        "vector_instructions",
        wide,
        reason,
        "keys of a cache line are compared one by one",
    )
}

fn whole_machine(topology: &Topology) -> Capability {
    let usable = topology.usable_cpus();
    let online: Vec<CpuId> = topology
        .cpus
        .iter()
        .filter(|cpu| cpu.online)
        .map(|cpu| cpu.id)
        .collect();
    let quota = topology.cpu_quota.filter(|quota| *quota < usable.len() as f64);
    let (whole, reason) = match (usable.len() < online.len(), quota) {
        (_, Some(quota)) => (
            false,
            format!(
                "a control group limits CPU time to {quota:.2} of CPUs {}",
                cpulist::format(&usable)
            ),
        ),
        (true, None) => {
            let (some, all) = (cpulist::format(&usable), cpulist::format(&online));
            (false, format!("this process may use CPUs {some} of {all}"))
        }
        (false, None) => (true, format!("all online CPUs: {}", cpulist::format(&online))),
    };
    decide(
        "whole_machine",
        whole,
        reason,
        "thread counts and pinning stay within the CPUs allowed",
    )
}
