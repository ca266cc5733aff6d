//! `corun topology` for people: the cache hierarchy drawn, the facilities, what is missing, and measured tables.

use std::fmt::Write as _;

use corun_cli::plain;
use corun_model::capability::{State, capabilities};
use corun_model::cpulist;
use corun_model::knee::EffectiveLlc;
use corun_model::siblings::Behaviour;
use corun_model::spread::{Label, Spread};
use corun_model::topology::{CoreKind, Relation, ResctrlResource, ThpMode, Topology};
use corun_model::units::{Bytes, CpuId};
use corun_topology::effective_llc::{Effective, Source};
use corun_topology::measure::Measurement;

use super::tree;
use corun_cli::out;

/// The whole report without measurements.
pub fn topology(topology: &Topology) -> String {
    let mut text = String::new();
    text.push_str(&heading(topology));
    text.push_str("\n\ncaches and cores (as reported)\n");
    for line in tree::lines(topology) {
        let _ = writeln!(text, "  {line}");
    }
    text.push_str("\nfacilities\n");
    for (name, value) in facilities(topology) {
        paragraph(&mut text, &format!("  {name:<12} "), &value);
    }
    text.push_str("\nwhat corun can use\n");
    for capability in capabilities(topology) {
        let state = match capability.state {
            State::Available => "yes",
            State::Missing => "no",
        };
        paragraph(
            &mut text,
            &format!("  {:<20} {state:<4} ", capability.name),
            &capability.reason,
        );
        if !capability.fallback.is_empty() {
            paragraph(
                &mut text,
                &format!("  {:<25} ", ""),
                &format!("instead: {}", capability.fallback),
            );
        }
    }
    if !topology.problems.is_empty() {
        text.push_str("\nnot understood or unreadable\n");
        for problem in &topology.problems {
            paragraph(&mut text, "  ", problem);
        }
    }
    text.trim_end().to_owned()
}

/// Adds words after `start`, further lines indented to where they began.
fn paragraph(text: &mut String, start: &str, words: &str) {
    text.push_str(&plain::paragraph(start, words));
}

fn count(n: usize, noun: &str) -> String {
    if n == 1 {
        format!("1 {noun}")
    } else {
        format!("{n} {noun}s")
    }
}

fn heading(topology: &Topology) -> String {
    let name = topology.model_name.as_deref().unwrap_or("unknown CPU");
    let vendor = topology.vendor.as_deref().unwrap_or("unknown vendor");
    let under = match &topology.hypervisor {
        Some(hypervisor) => format!("in a virtual machine ({})", hypervisor.name),
        None => "no hypervisor seen".to_owned(),
    };
    let online: Vec<CpuId> = topology
        .cpus
        .iter()
        .filter(|cpu| cpu.online)
        .map(|cpu| cpu.id)
        .collect();
    let offline: Vec<CpuId> = topology
        .cpus
        .iter()
        .filter(|cpu| !cpu.online)
        .map(|cpu| cpu.id)
        .collect();
    let usable = topology.usable_cpus();
    let mut text = format!("{name} ({vendor}), {under}\n");
    let _ = write!(
        text,
        "{}, {}, {} online ({})",
        count(topology.packages.len(), "package"),
        count(topology.cores.len(), "core"),
        count(online.len(), "CPU"),
        cpulist::format(&online),
    );
    let efficient = topology
        .cores
        .iter()
        .filter(|core| core.kind == CoreKind::Efficiency)
        .count();
    if efficient > 0 {
        let _ = write!(text, ", {} of the small kind", count(efficient, "core"));
    }
    if !offline.is_empty() {
        let _ = write!(text, ", offline: {}", cpulist::format(&offline));
    }
    if usable.len() < online.len() {
        let _ = write!(text, ", usable here: {}", cpulist::format(&usable));
    }
    text
}

fn words_or_none(words: &[String]) -> String {
    if words.is_empty() {
        "none".to_owned()
    } else {
        words.join(" ")
    }
}

fn facilities(topology: &Topology) -> Vec<(&'static str, String)> {
    let known = |bytes: Option<Bytes>| bytes.map_or_else(|| "unknown".to_owned(), |bytes| bytes.to_string());
    let memory = &topology.memory;
    let mut memory_text = format!("{}, {} available", known(memory.total), known(memory.available));
    if let Some(limit) = memory.limit {
        let _ = write!(memory_text, ", limited to {limit} by a control group");
    }
    let nodes: Vec<String> = topology
        .numa_nodes
        .iter()
        .map(|node| {
            let cpus = if node.cpus.is_empty() {
                "none".to_owned()
            } else {
                cpulist::format(&node.cpus)
            };
            format!("node {}: CPUs {cpus}, {}", node.id, known(node.memory))
        })
        .collect();
    let thp = match topology.huge_pages.transparent {
        Some(ThpMode::Always) => "transparent: always",
        Some(ThpMode::Madvise) => "transparent: where asked (madvise)",
        Some(ThpMode::Never) => "transparent: never",
        None => "transparent: not offered",
    };
    let pools = topology.huge_pages.pools.iter();
    let pools: String = pools
        .map(|pool| format!("; {} pool: {} of {} free", pool.page, pool.free, pool.total))
        .collect();
    let resctrl = &topology.resctrl;
    let resource = |r: &ResctrlResource| {
        let number = |n: Option<u32>| n.map_or_else(|| "?".to_owned(), |n| n.to_string());
        format!(
            "; {}: {} ways, {} classes",
            r.name,
            number(r.ways.map(|ways| ways.0)),
            number(r.classes)
        )
    };
    let resctrl_text = format!(
        "in the kernel: {}, mounted: {}, CPU flags: {}{}",
        if resctrl.in_kernel { "yes" } else { "no" },
        resctrl.mounted.as_deref().unwrap_or("no"),
        words_or_none(&resctrl.cpu_flags),
        resctrl.resources.iter().map(resource).collect::<String>(),
    );
    let pmu = &topology.pmu;
    let counters = format!(
        "units: {}, perf_event_paranoid: {}, a counter opened: {}",
        words_or_none(&pmu.devices),
        pmu.paranoid
            .map_or_else(|| "unknown".to_owned(), |level| level.to_string()),
        pmu.opened
            .map_or("not tried", |opened| if opened { "yes" } else { "no" }),
    );
    let hypervisor = topology.hypervisor.as_ref().map_or_else(
        || "none seen".to_owned(),
        |hypervisor| format!("{} ({})", hypervisor.name, hypervisor.evidence),
    );
    vec![
        ("memory", memory_text),
        (
            "numa",
            if nodes.is_empty() {
                "not described".to_owned()
            } else {
                nodes.join("; ")
            },
        ),
        ("huge pages", format!("{thp}{pools}")),
        ("resctrl", resctrl_text),
        ("counters", counters),
        ("hypervisor", hypervisor),
        ("vectors", words_or_none(&topology.simd)),
    ]
}

/// The last-level cache corun counts on, and who says so.
pub fn llc(effective: &Effective) -> String {
    let why = match effective.from {
        Source::Given => "given",
        Source::Measured => "measured on this machine and kept; `--measure` does it again",
        Source::Planned => "planned, not measured; `--measure` finds out and keeps it",
    };
    format!("\nlast-level cache to count on: {} ({why})", effective.bytes)
}

/// Tables of measurements, each headed by how its numbers came about.
pub fn measurements(results: &[Measurement], label: Label) -> String {
    let label = label.as_str();
    let mut chase = Vec::new();
    let mut floor = Vec::new();
    let mut pairs = Vec::new();
    let mut notes = Vec::new();
    for result in results {
        match result {
            Measurement::Chase { bytes, ns } => chase.push(cells([bytes.to_string()], ns, 1)),
            Measurement::Floor { bytes, threads, ns_per_line, answer_ok } => {
                let mut row = cells([bytes.to_string(), threads.to_string()], ns_per_line, 2);
                row.push(if *answer_ok { "ok" } else { "WRONG" }.to_owned());
                floor.push(row);
            }
            Measurement::HandOver { a, b, relation, ns } => {
                let name = format!("hand-over, ns ({})", relation_name(*relation));
                pairs.push(cells([format!("{a}, {b}"), name], ns, 1));
            }
            Measurement::Siblings { a, b, slowdown, behaviour, kernel_says_siblings } => {
                let name = format!("slow-down beside each other: {}", verdict(*behaviour, *kernel_says_siblings));
                pairs.push(cells([format!("{a}, {b}"), name], slowdown, 2));
            }
            Measurement::EffectiveLlc(EffectiveLlc::Found {
                bytes,
                bytes_min,
                bytes_max,
                cache_ns,
                memory_ns,
                fit_error_percent,
            }) => notes.push(format!(
                "effective last-level cache ({label}): {bytes} (single repetitions {bytes_min} to {bytes_max}); \
                 {cache_ns:.0} ns inside, {memory_ns:.0} ns beyond; the fit is off by {fit_error_percent:.0} %"
            )),
            Measurement::EffectiveLlc(EffectiveLlc::NotFound { reason }) => {
                notes.push(format!("effective last-level cache: unavailable, {reason}"));
            }
            Measurement::Skipped { what, reason } => notes.push(format!("{what}: unavailable, {reason}")),
        }
    }
    let mut text = String::new();
    let mut table = |title: &str, headings: &[&str], numeric: usize, rows: &[Vec<String>]| {
        if rows.is_empty() {
            return;
        }
        let mut bytes = Vec::new();
        // Writing to memory does not fail.
        let _ = out::table(&mut bytes, headings, numeric, rows);
        let _ = write!(text, "\n{title} ({label})\n");
        for line in String::from_utf8_lossy(&bytes).lines() {
            let _ = writeln!(text, "  {line}");
        }
    };
    table(
        "latency of dependent random accesses",
        &["working set", "ns min", "median", "max"],
        4,
        &chase,
    );
    table(
        "throughput of independent random accesses, wall ns a line over all threads",
        &["working set", "threads", "ns min", "median", "max", "answer"],
        5,
        &floor,
    );
    table(
        "pairs of CPUs",
        &["CPUs", "what", "min", "median", "max"],
        3,
        &pairs,
    );
    if !notes.is_empty() {
        text.push('\n');
    }
    for note in notes {
        paragraph(&mut text, "", &note);
    }
    text.trim_end().to_owned()
}

fn cells<const N: usize>(keys: [String; N], spread: &Spread, decimals: usize) -> Vec<String> {
    let numbers = [spread.min, spread.median, spread.max].map(|value| format!("{value:.decimals$}"));
    keys.into_iter().chain(numbers).collect()
}

fn relation_name(relation: Relation) -> &'static str {
    match relation {
        Relation::SmtSiblings => "SMT siblings",
        Relation::SameL2 => "same L2",
        Relation::SameLlc => "same last-level cache",
        Relation::SamePackage => "same package",
        Relation::OtherPackage => "other package",
    }
}

fn verdict(behaviour: Behaviour, kernel_says_siblings: bool) -> &'static str {
    match (behaviour, kernel_says_siblings) {
        (Behaviour::Siblings, true) => "siblings, as the kernel says",
        (Behaviour::Siblings, false) => "SIBLINGS, though the kernel does not say so",
        (Behaviour::Separate, false) => "separate cores, as the kernel says",
        (Behaviour::Separate, true) => "SEPARATE, though the kernel says siblings",
        (Behaviour::Unclear, _) => "unclear, other load hides it",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn measured_text_says_how_numbers_came_about_and_what_is_missing() {
        let ns = Spread {
            n: 5,
            min: 1.0,
            median: 2.0,
            max: 3.0,
        };
        let results = [
            Measurement::Chase {
                bytes: Bytes::kib(16),
                ns,
            },
            Measurement::Siblings {
                a: CpuId(0),
                b: CpuId(1),
                slowdown: ns,
                behaviour: Behaviour::Siblings,
                kernel_says_siblings: false,
            },
            Measurement::Skipped {
                what: "latency over 1 GiB".to_owned(),
                reason: "no memory".to_owned(),
            },
        ];
        let text = measurements(&results, Label::Measured);
        assert!(
            text.contains("latency of dependent random accesses (measured)"),
            "{text}"
        );
        assert!(
            text.contains("SIBLINGS, though the kernel does not say so"),
            "{text}"
        );
        assert!(
            text.ends_with("latency over 1 GiB: unavailable, no memory"),
            "{text}"
        );
    }

    #[test]
    fn long_text_is_broken_between_words_and_indented() {
        let mut text = String::new();
        paragraph(&mut text, "  name ", &["word"; 20].join(" "));
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 2);
        assert!(
            lines[0].starts_with("  name word") && lines[1].starts_with("       word"),
            "{text}"
        );
        assert!(lines.iter().all(|line| line.len() <= plain::LINE_CHARS_MAX));
        assert_eq!(text.matches("word").count(), 20);
    }

    #[test]
    fn an_unknown_machine_is_described_without_numbers() {
        let text = topology(&Topology::default());
        assert!(
            text.starts_with("unknown CPU (unknown vendor), no hypervisor seen\n0 packages, 0 cores"),
            "{text}"
        );
        assert!(text.contains("memory       unknown, unknown available"), "{text}");
    }
}
