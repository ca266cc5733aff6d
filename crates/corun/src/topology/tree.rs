//! The cache hierarchy as a drawing.
//!
//! Caches shared by the same CPUs stand on one line; lines nest by containment of those CPUs; neighbours that look
//! alike are drawn once with a count:
//!
//! ```text
//! package 0
//! └─ L3 260 MiB 20 ways: CPUs 0-1
//!    └─ 2 x L2 2 MiB 16 ways, L1d 48 KiB 12 ways, L1i 32 KiB 8 ways: CPUs 0 | 1
//! ```

use corun_model::cpulist;
use corun_model::topology::{Cache, CoreKind, Topology};
use corun_model::units::CpuId;

/// A line of the drawing with what hangs below it.
struct Node {
    label: String,
    cpus: Vec<CpuId>,
    children: Vec<Node>,
}

/// More alternatives than this are not spelled out.
const ALTERNATIVES_MAX: usize = 4;

/// The drawing, one string a line.
pub fn lines(topology: &Topology) -> Vec<String> {
    let mut lines = Vec::new();
    let packages: Vec<Node> = topology
        .packages
        .iter()
        .map(|package| Node {
            label: format!("package {}", package.id),
            children: children(topology, &package.cpus, None),
            cpus: package.cpus.clone(),
        })
        .collect();
    for package in &packages {
        lines.push(package.label.clone());
        draw(&package.children, "", &mut lines);
    }
    lines
}

/// The outermost sharing sets within `cpus`, other than `own`; CPUs that no cache claims become plain cores.
fn children(topology: &Topology, cpus: &[CpuId], own: Option<&[CpuId]>) -> Vec<Node> {
    let within = |set: &[CpuId]| set.iter().all(|cpu| cpus.contains(cpu));
    let mut sets: Vec<&[CpuId]> = topology
        .caches
        .iter()
        .map(|cache| cache.shared_cpus.as_slice())
        .chain(topology.cores.iter().map(|core| core.cpus.as_slice()))
        .filter(|set| within(set) && own.is_none_or(|own| *set != own))
        .collect();
    sets.sort_by_key(|set| (std::cmp::Reverse(set.len()), set.first().copied()));
    sets.dedup();
    let mut outer: Vec<&[CpuId]> = Vec::new();
    for set in sets {
        if !outer
            .iter()
            .any(|other| set.iter().any(|cpu| other.contains(cpu)))
        {
            outer.push(set);
        }
    }
    outer.sort_by_key(|set| set.first().copied());
    outer
        .into_iter()
        .map(|set| Node {
            label: label(topology, set),
            children: children(topology, set, Some(set)),
            cpus: set.to_vec(),
        })
        .collect()
}

fn label(topology: &Topology, set: &[CpuId]) -> String {
    let mut caches: Vec<&Cache> = topology
        .caches
        .iter()
        .filter(|cache| cache.shared_cpus == set)
        .collect();
    caches.sort_by_key(|cache| (std::cmp::Reverse(cache.level), cache.kind));
    let mut parts: Vec<String> = caches
        .iter()
        .map(|cache| {
            let ways = cache
                .ways
                .map_or_else(String::new, |ways| format!(" {} ways", ways.0));
            format!("{} {}{ways}", cache.name(), cache.size)
        })
        .collect();
    if let Some(core) = topology.cores.iter().find(|core| core.cpus == set) {
        let kind = match core.kind {
            CoreKind::Uniform => "core",
            CoreKind::Performance => "performance core",
            CoreKind::Efficiency => "efficiency core",
        };
        let threads = if set.len() > 1 {
            format!(" with {} SMT threads", set.len())
        } else {
            String::new()
        };
        if set.len() > 1 || core.kind != CoreKind::Uniform || parts.is_empty() {
            parts.insert(0, format!("{kind}{threads}"));
        }
    }
    parts.join(", ")
}

/// What a node looks like without its CPU numbers.
fn shape(node: &Node) -> String {
    let below: Vec<String> = node.children.iter().map(shape).collect();
    format!("{}[{}]", node.label, below.join(";"))
}

fn draw(nodes: &[Node], indent: &str, lines: &mut Vec<String>) {
    // Alike nodes are drawn together even when others stand between them.
    let mut groups: Vec<(String, Vec<&Node>)> = Vec::new();
    for node in nodes {
        let shape = shape(node);
        match groups.iter_mut().find(|(known, _)| *known == shape) {
            Some((_, members)) => members.push(node),
            None => groups.push((shape, vec![node])),
        }
    }
    let last = groups.len().saturating_sub(1);
    for (index, (_, members)) in groups.iter().enumerate() {
        let (branch, below) = if index == last {
            ("└─", "   ")
        } else {
            ("├─", "│  ")
        };
        let Some(first) = members.first() else { continue };
        let times = if members.len() > 1 {
            format!("{} x ", members.len())
        } else {
            String::new()
        };
        lines.push(format!(
            "{indent}{branch} {times}{}: {}",
            first.label,
            cpus_of(members)
        ));
        draw(&first.children, &format!("{indent}{below}"), lines);
    }
}

fn cpus_of(members: &[&Node]) -> String {
    if members.len() > ALTERNATIVES_MAX {
        let all: Vec<CpuId> = members
            .iter()
            .flat_map(|node| node.cpus.iter().copied())
            .collect();
        return format!("CPUs {}", cpulist::format(&all));
    }
    let sets: Vec<String> = members.iter().map(|node| cpulist::format(&node.cpus)).collect();
    let many = members.iter().map(|node| node.cpus.len()).sum::<usize>() > 1;
    format!("{} {}", if many { "CPUs" } else { "CPU" }, sets.join(" | "))
}

#[cfg(test)]
mod tests {
    use corun_model::topology::{CacheKind, CacheSource, Core, Package};
    use corun_model::units::{Bytes, Ways};

    use super::*;

    fn cpus(list: &str) -> Vec<CpuId> {
        cpulist::parse(list).expect("a CPU list")
    }

    fn cache(level: u8, size: Bytes, ways: u32, shared: &str) -> Cache {
        Cache {
            id: None,
            level,
            kind: if level == 1 {
                CacheKind::Data
            } else {
                CacheKind::Unified
            },
            size,
            ways: Some(Ways(ways)),
            line: Bytes(64),
            sets: None,
            shared_cpus: cpus(shared),
            source: CacheSource::Sysfs,
        }
    }

    fn core(id: u32, kind: CoreKind, threads: &str) -> Core {
        Core {
            package: 0,
            id,
            kind,
            cpus: cpus(threads),
        }
    }

    #[test]
    fn a_hybrid_part_is_drawn_by_clusters() {
        let mut topology = Topology {
            packages: vec![Package {
                id: 0,
                cpus: cpus("0-7"),
            }],
            caches: vec![
                cache(3, Bytes::mib(12), 12, "0-7"),
                cache(2, Bytes::mib(2), 16, "4-7"),
            ],
            ..Topology::default()
        };
        for (id, threads) in [(0, "0-1"), (1, "2-3")] {
            topology.cores.push(core(id, CoreKind::Performance, threads));
            topology.caches.push(cache(2, Bytes::kib(1280), 10, threads));
            topology.caches.push(cache(1, Bytes::kib(48), 12, threads));
        }
        for id in 4..8 {
            topology
                .cores
                .push(core(id, CoreKind::Efficiency, &id.to_string()));
            topology.caches.push(cache(1, Bytes::kib(32), 8, &id.to_string()));
        }
        assert_eq!(
            lines(&topology),
            [
                "package 0",
                "└─ L3 12 MiB 12 ways: CPUs 0-7",
                "   ├─ 2 x performance core with 2 SMT threads, L2 1.25 MiB 10 ways, L1d 48 KiB 12 ways: CPUs 0-1 | 2-3",
                "   └─ L2 2 MiB 16 ways: CPUs 4-7",
                "      └─ 4 x efficiency core, L1d 32 KiB 8 ways: CPUs 4 | 5 | 6 | 7",
            ]
        );
    }

    #[test]
    fn without_caches_cores_remain_and_many_are_counted() {
        let topology = Topology {
            packages: vec![Package {
                id: 3,
                cpus: cpus("0-5"),
            }],
            cores: (0..6)
                .map(|id| core(id, CoreKind::Uniform, &id.to_string()))
                .collect(),
            ..Topology::default()
        };
        assert_eq!(lines(&topology), ["package 3", "└─ 6 x core: CPUs 0-5"]);
        assert!(lines(&Topology::default()).is_empty());
    }
}
