//! Facts that belong beside numbers: machine, program, date. For reports and records.

use std::time::{SystemTime, UNIX_EPOCH};

use corun_model::topology::Topology;

/// The commit the program was built from.
pub const COMMIT: &str = env!("CORUN_COMMIT");

/// Today in UTC, `YYYY-MM-DD`.
pub fn today() -> String {
    let now = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |since| since.as_secs());
    lab_core::record::civil_date(now)
}

/// The host's name, as the kernel has it.
pub fn host() -> String {
    std::fs::read_to_string("/proc/sys/kernel/hostname")
        .map_or_else(|_| "host".to_owned(), |name| name.trim().to_owned())
}

/// What a report says about where its numbers come from; `numbers` tells how they came about.
pub fn facts(numbers: &str) -> Vec<(String, String)> {
    let topology = corun_topology::discover();
    let mut facts = machine_facts(&topology);
    let profile = if cfg!(debug_assertions) {
        "with debug assertions"
    } else {
        "release"
    };
    facts.push((
        "program".to_owned(),
        format!("corun {} ({COMMIT}, {profile})", env!("CARGO_PKG_VERSION")),
    ));
    facts.push(("date".to_owned(), format!("{} (UTC)", today())));
    facts.push(("numbers".to_owned(), numbers.to_owned()));
    facts
}

fn machine_facts(topology: &Topology) -> Vec<(String, String)> {
    let unknown = || "unknown".to_owned();
    let allowed = topology
        .cpus
        .iter()
        .filter(|cpu| cpu.online && cpu.allowed)
        .count();
    let mut facts = vec![
        (
            "processor".to_owned(),
            topology.model_name.clone().unwrap_or_else(unknown),
        ),
        (
            "cores".to_owned(),
            format!(
                "{} usable logical processors, {} cores in {} packages",
                allowed,
                topology.cores.len(),
                topology.packages.len()
            ),
        ),
        ("caches".to_owned(), caches_text(topology)),
        (
            "memory".to_owned(),
            topology
                .memory
                .total
                .map_or_else(unknown, |bytes| corun_cli::number::bytes(bytes.0 as f64)),
        ),
        (
            "huge pages".to_owned(),
            topology
                .huge_pages
                .transparent
                .map_or_else(unknown, |mode| format!("transparent: {mode:?}").to_lowercase()),
        ),
    ];
    if let Some(hypervisor) = &topology.hypervisor {
        facts.push(("hypervisor".to_owned(), hypervisor.name.clone()));
    }
    facts
}

/// One cache of each level and type, such as `L1d 48.0 KiB, L2 2.0 MiB, L3 105.0 MiB shared by 2`.
fn caches_text(topology: &Topology) -> String {
    let mut names = Vec::new();
    let mut texts = Vec::new();
    for cache in &topology.caches {
        if names.contains(&cache.name()) {
            continue;
        }
        names.push(cache.name());
        let size = cache.size;
        let shared = match cache.shared_cpus.len() {
            0 | 1 => String::new(),
            cpus => format!(" shared by {cpus}"),
        };
        texts.push(format!("{} {size}{shared}", cache.name()));
    }
    if texts.is_empty() {
        "unknown".to_owned()
    } else {
        texts.join(", ")
    }
}
