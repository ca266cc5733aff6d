//! Every distinct cache, from the kernel's cache folders or, where those are missing, from cpuid.

use corun_model::topology::{Cache, CacheKind, CacheSource, Core, LogicalCpu};
use corun_model::units::{CpuId, Ways};

use super::cpuid::{self, Cpuid};
use super::cpus::cpuinfo_blocks;
use super::files::{Files, field};

/// All caches, ordered by level, kind and first CPU.
pub(super) fn caches(files: &Files, cpus: &[LogicalCpu], cores: &[Core], cpuid: &dyn Cpuid) -> Vec<Cache> {
    let online: Vec<CpuId> = cpus.iter().filter(|cpu| cpu.online).map(|cpu| cpu.id).collect();
    let mut caches = from_sysfs(files, &online);
    if caches.is_empty() && !online.is_empty() {
        caches = from_cpuid(files, cpus, cores, cpuid);
        files.problem(if caches.is_empty() {
            "no cache is described: /sys/devices/system/cpu/cpu*/cache is missing and cpuid does not help".to_owned()
        } else {
            "/sys/devices/system/cpu/cpu*/cache is missing: caches are those cpuid reports for one CPU, assumed alike on all"
                .to_owned()
        });
    }
    caches.sort_by(|a, b| {
        (a.level, a.kind, a.shared_cpus.first()).cmp(&(b.level, b.kind, b.shared_cpus.first()))
    });
    caches
}

fn from_sysfs(files: &Files, online: &[CpuId]) -> Vec<Cache> {
    let mut caches: Vec<Cache> = Vec::new();
    for cpu in online {
        let folder = format!("sys/devices/system/cpu/cpu{cpu}/cache");
        for index in files.numbered(&folder, "index") {
            let Some(cache) = read_index(files, &format!("{folder}/index{index}"), *cpu, online) else {
                continue;
            };
            // Each sharer has its own folder for the same cache.
            let known = caches.iter().any(|other| {
                (other.level, other.kind) == (cache.level, cache.kind)
                    && other.shared_cpus == cache.shared_cpus
            });
            if !known {
                caches.push(cache);
            }
        }
    }
    caches
}

fn read_index(files: &Files, folder: &str, cpu: CpuId, online: &[CpuId]) -> Option<Cache> {
    let file = |name: &str| format!("{folder}/{name}");
    let kind = match files.text(&file("type"))?.as_str() {
        "Data" => CacheKind::Data,
        "Instruction" => CacheKind::Instruction,
        "Unified" => CacheKind::Unified,
        other => {
            files.problem(format!("/{folder}/type: `{other}` is no kind of cache"));
            return None;
        }
    };
    let line = files.size(&file("coherency_line_size"));
    let sets: Option<u32> = files.value(&file("number_of_sets"));
    let ways = files
        .value::<u32>(&file("ways_of_associativity"))
        .filter(|ways| *ways > 0);
    // Some firmware leaves `size` out but gives the factors.
    let size = files.size(&file("size")).or_else(|| {
        let bytes = line?
            .0
            .checked_mul(u64::from(sets?))?
            .checked_mul(u64::from(ways?))?;
        Some(corun_model::units::Bytes(bytes))
    });
    let Some(size) = size.filter(|size| size.0 > 0) else {
        files.problem(format!("/{folder}: the cache's size is not given"));
        return None;
    };
    let mut shared_cpus = files.cpus(&file("shared_cpu_list")).unwrap_or_default();
    shared_cpus.retain(|other| online.contains(other));
    if !shared_cpus.contains(&cpu) {
        shared_cpus.push(cpu);
        shared_cpus.sort_unstable();
    }
    Some(Cache {
        id: files.value(&file("id")),
        level: files.value(&file("level"))?,
        kind,
        size,
        ways: ways.map(Ways),
        line: line.unwrap_or(corun_model::units::Bytes(64)),
        sets,
        shared_cpus,
        source: CacheSource::Sysfs,
    })
}

fn from_cpuid(files: &Files, cpus: &[LogicalCpu], cores: &[Core], cpuid: &dyn Cpuid) -> Vec<Cache> {
    let apic: Vec<(CpuId, u32)> = cpuinfo_blocks(files)
        .iter()
        .filter_map(|(cpu, block)| Some((CpuId(*cpu), field(block, "apicid")?.parse().ok()?)))
        .collect();
    let package = |cpu: CpuId| {
        cpus.iter()
            .find(|c| c.id == cpu)
            .and_then(|c| c.package)
            .unwrap_or(0)
    };
    let apic_of = |cpu: CpuId| apic.iter().find(|(id, _)| *id == cpu).map(|(_, apic)| *apic);
    let core = |cpu: CpuId| cores.iter().position(|core| core.cpus.contains(&cpu));
    let mut caches: Vec<Cache> = Vec::new();
    for described in cpuid::caches(cpuid) {
        let shared = |a: CpuId, b: CpuId| match (apic_of(a), apic_of(b)) {
            // Without APIC ids: the inner caches belong to the core, the outer ones to the package.
            (None, _) | (_, None) if described.level <= 2 => core(a) == core(b),
            (None, _) | (_, None) => package(a) == package(b),
            (Some(x), Some(y)) => {
                let bits = described.sharing_bits;
                package(a) == package(b)
                    && x.checked_shr(bits).unwrap_or(0) == y.checked_shr(bits).unwrap_or(0)
            }
        };
        for cpu in cpus.iter().filter(|cpu| cpu.online) {
            let same = |c: &Cache| {
                (c.level, c.kind) == (described.level, described.kind) && c.shared_cpus.contains(&cpu.id)
            };
            if caches.iter().any(same) {
                continue;
            }
            let sharers = cpus
                .iter()
                .filter(|other| other.online && shared(cpu.id, other.id))
                .map(|c| c.id)
                .collect();
            caches.push(Cache {
                id: None,
                level: described.level,
                kind: described.kind,
                size: described.size,
                ways: Some(described.ways),
                line: described.line,
                sets: Some(described.sets),
                shared_cpus: sharers,
                source: CacheSource::Cpuid,
            });
        }
    }
    caches
}
