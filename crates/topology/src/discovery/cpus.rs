//! CPUs, cores, packages and memory nodes, from `/sys/devices/system` with `/proc/cpuinfo` as the second source.

use std::collections::BTreeMap;

use corun_model::topology::{Core, CoreKind, LogicalCpu, NumaNode, Package};
use corun_model::units::{Bytes, CpuId};

use super::files::{Files, field, field_size};

const CPU: &str = "sys/devices/system/cpu";
const NODE: &str = "sys/devices/system/node";

/// All present CPUs with the nodes they belong to.
pub(super) fn cpus(files: &Files, nodes: &[NumaNode]) -> Vec<LogicalCpu> {
    let present = present(files);
    let online = files
        .cpus(&format!("{CPU}/online"))
        .unwrap_or_else(|| present.clone());
    let allowed = allowed(files);
    if let Some(allowed) = &allowed
        && !online.iter().any(|cpu| allowed.contains(cpu))
    {
        files.problem("/proc/self/status: no online CPU is allowed; all are taken as allowed".to_owned());
    }
    let allowed = allowed.filter(|allowed| online.iter().any(|cpu| allowed.contains(cpu)));
    let from_cpuinfo = cpuinfo_blocks(files);
    present
        .into_iter()
        .map(|id| {
            let is_online = online.contains(&id);
            let number = |file: &str| -> Option<u32> {
                // The kernel writes -1 where the firmware does not say.
                files
                    .value::<i64>(&format!("{CPU}/cpu{id}/topology/{file}"))
                    .and_then(|n| u32::try_from(n).ok())
            };
            let told = |key: &str| {
                from_cpuinfo
                    .get(&id.0)
                    .and_then(|block| field(block, key)?.parse().ok())
            };
            LogicalCpu {
                id,
                online: is_online,
                allowed: is_online && allowed.as_ref().is_none_or(|allowed| allowed.contains(&id)),
                package: number("physical_package_id").or_else(|| told("physical id")),
                core: number("core_id").or_else(|| told("core id")),
                numa_node: nodes
                    .iter()
                    .find(|node| node.cpus.contains(&id))
                    .map(|node| node.id),
            }
        })
        .collect()
}

fn present(files: &Files) -> Vec<CpuId> {
    let listed = files
        .cpus(&format!("{CPU}/present"))
        .filter(|cpus| !cpus.is_empty());
    if let Some(listed) = listed {
        return listed;
    }
    let folders: Vec<CpuId> = files.numbered(CPU, "cpu").into_iter().map(CpuId).collect();
    if !folders.is_empty() {
        return folders;
    }
    cpuinfo_blocks(files).into_keys().map(CpuId).collect()
}

/// CPUs this process may run on: affinity mask and control groups together, as the scheduler sees them.
fn allowed(files: &Files) -> Option<Vec<CpuId>> {
    let status = files.text("proc/self/status")?;
    corun_model::cpulist::parse(field(&status, "Cpus_allowed_list")?).ok()
}

/// The blocks of `/proc/cpuinfo` by processor number.
pub(super) fn cpuinfo_blocks(files: &Files) -> BTreeMap<u32, String> {
    let text = files.text("proc/cpuinfo").unwrap_or_default();
    text.split("\n\n")
        .filter_map(|block| Some((field(block, "processor")?.parse().ok()?, block.to_owned())))
        .collect()
}

/// Online CPUs grouped into cores. SMT siblings come from the kernel's lists; without lists, from equal core numbers;
/// without numbers, every CPU is its own core.
pub(super) fn cores(files: &Files, cpus: &[LogicalCpu]) -> Vec<Core> {
    let kinds = core_kinds(files);
    let mut cores: Vec<Core> = Vec::new();
    for cpu in cpus.iter().filter(|cpu| cpu.online) {
        if cores.iter().any(|core| core.cpus.contains(&cpu.id)) {
            continue;
        }
        let folder = format!("{CPU}/cpu{}/topology", cpu.id);
        let listed = files
            .cpus(&format!("{folder}/core_cpus_list"))
            .or_else(|| files.cpus(&format!("{folder}/thread_siblings_list")));
        let same_numbers = |other: &&LogicalCpu| {
            cpu.core.is_some()
                && cpu.package.is_some()
                && (other.core, other.package) == (cpu.core, cpu.package)
        };
        let mut threads: Vec<CpuId> = match listed {
            Some(listed) => cpus
                .iter()
                .filter(|c| c.online && listed.contains(&c.id))
                .map(|c| c.id)
                .collect(),
            None => cpus
                .iter()
                .filter(|c| c.online)
                .filter(same_numbers)
                .map(|c| c.id)
                .collect(),
        };
        if !threads.contains(&cpu.id) {
            threads = vec![cpu.id];
        }
        let kind = kinds
            .iter()
            .find(|(_, members)| members.contains(&cpu.id))
            .map_or(CoreKind::Uniform, |(k, _)| *k);
        cores.push(Core {
            package: cpu.package.unwrap_or(0),
            id: cpu.core.unwrap_or(cpu.id.0),
            kind,
            cpus: threads,
        });
    }
    cores
}

/// Hybrid parts name their kinds of cores through two counter units.
fn core_kinds(files: &Files) -> Vec<(CoreKind, Vec<CpuId>)> {
    [
        (CoreKind::Performance, "cpu_core"),
        (CoreKind::Efficiency, "cpu_atom"),
    ]
    .into_iter()
    .filter_map(|(kind, unit)| {
        let listed = files
            .cpus(&format!("sys/devices/{unit}/cpus"))
            .or_else(|| files.cpus(&format!("sys/bus/event_source/devices/{unit}/cpus")));
        Some((kind, listed?))
    })
    .collect()
}

pub(super) fn packages(cpus: &[LogicalCpu]) -> Vec<Package> {
    let mut packages: BTreeMap<u32, Vec<CpuId>> = BTreeMap::new();
    for cpu in cpus.iter().filter(|cpu| cpu.online) {
        packages.entry(cpu.package.unwrap_or(0)).or_default().push(cpu.id);
    }
    packages
        .into_iter()
        .map(|(id, cpus)| Package { id, cpus })
        .collect()
}

pub(super) fn numa_nodes(files: &Files) -> Vec<NumaNode> {
    files
        .numbered(NODE, "node")
        .into_iter()
        .map(|id| NumaNode {
            id,
            cpus: files
                .cpus(&format!("{NODE}/node{id}/cpulist"))
                .unwrap_or_default(),
            memory: files
                .text(&format!("{NODE}/node{id}/meminfo"))
                .and_then(|text| field_size(&text, &format!("Node {id} MemTotal"))),
        })
        .collect()
}

/// Nodes whose memory does not add up to the machine's are worth a word: some virtual machines grow after they start.
pub(super) fn check_nodes(files: &Files, nodes: &[NumaNode], total: Option<Bytes>) {
    let sum: Option<u64> = nodes.iter().map(|node| node.memory.map(|bytes| bytes.0)).sum();
    let (Some(sum), Some(total)) = (sum.filter(|_| !nodes.is_empty()), total) else {
        return;
    };
    if sum.abs_diff(total.0) > total.0 / 10 {
        files.problem(format!(
            "memory nodes add up to {}, the machine has {total}",
            Bytes(sum)
        ));
    }
}
