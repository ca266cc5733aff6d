//! Memory, huge pages, resctrl, performance counters, the hypervisor, vector sets and control-group limits.

use corun_model::topology::{
    HugePagePool, HugePages, Hypervisor, Memory, Pmu, Resctrl, ResctrlResource, ThpMode,
};
use corun_model::units::{Bytes, Ways};

use super::cpuid::{self, Cpuid};
use super::files::{Files, field, field_size};

pub(super) fn memory(files: &Files, page: Option<Bytes>) -> Memory {
    let meminfo = files.text("proc/meminfo").unwrap_or_default();
    let total = field_size(&meminfo, "MemTotal");
    let limit = group_files(files, "memory", "memory.max")
        .into_iter()
        .chain(group_files(files, "memory", "memory.limit_in_bytes"))
        .filter_map(|text| text.parse().ok().map(Bytes))
        .min()
        // Version 1 writes a huge number for "no limit".
        .filter(|limit| total.is_some_and(|total| *limit < total));
    Memory {
        total,
        available: field_size(&meminfo, "MemAvailable"),
        limit,
        page,
    }
}

/// CPU time allowed by control groups, in CPUs; the tightest of the process's group and its ancestors.
pub(super) fn cpu_quota(files: &Files) -> Option<f64> {
    let v2 = group_files(files, "cpu", "cpu.max")
        .into_iter()
        .filter_map(|text| {
            let (quota, period) = text.split_once(' ')?;
            Some(quota.parse::<f64>().ok()? / period.trim().parse::<f64>().ok()?)
        });
    let quotas = group_files(files, "cpu", "cpu.cfs_quota_us");
    let periods = group_files(files, "cpu", "cpu.cfs_period_us");
    let v1 = quotas.iter().zip(&periods).filter_map(|(quota, period)| {
        let quota: f64 = quota.parse().ok()?;
        (quota > 0.0).then_some(quota / period.parse::<f64>().ok()?)
    });
    v2.chain(v1)
        .filter(|cpus| cpus.is_finite() && *cpus > 0.0)
        .min_by(f64::total_cmp)
}

/// Texts of one control file in the process's group of `controller` and in every ancestor up to the mount.
fn group_files(files: &Files, controller: &str, file: &str) -> Vec<String> {
    let groups = files.text("proc/self/cgroup").unwrap_or_default();
    let mut texts = Vec::new();
    for line in groups.lines() {
        // `hierarchy:controllers:path`; version 2 has hierarchy 0 and no controllers.
        let mut parts = line.splitn(3, ':');
        let (Some(_), Some(controllers), Some(path)) = (parts.next(), parts.next(), parts.next()) else {
            continue;
        };
        let mounts: &[String] = if controllers.is_empty() {
            &["sys/fs/cgroup".to_owned(), "sys/fs/cgroup/unified".to_owned()]
        } else if controllers.split(',').any(|name| name == controller) {
            &[
                format!("sys/fs/cgroup/{controller}"),
                format!("sys/fs/cgroup/{controllers}"),
            ]
        } else {
            continue;
        };
        let Some(mount) = mounts.iter().find(|mount| files.exists(mount)) else {
            continue;
        };
        let mut path = path.trim_matches('/');
        loop {
            let folder = if path.is_empty() {
                mount.clone()
            } else {
                format!("{mount}/{path}")
            };
            texts.extend(files.text(&format!("{folder}/{file}")));
            match path.rsplit_once('/') {
                Some((parent, _)) => path = parent,
                None if path.is_empty() => break,
                None => path = "",
            }
        }
    }
    texts
}

pub(super) fn huge_pages(files: &Files) -> HugePages {
    const MM: &str = "sys/kernel/mm";
    let thp = files.text(&format!("{MM}/transparent_hugepage/enabled"));
    let transparent = thp.and_then(|text| {
        let chosen = text
            .split_whitespace()
            .find_map(|word| word.strip_prefix('[')?.strip_suffix(']'))?;
        match chosen {
            "always" => Some(ThpMode::Always),
            "madvise" => Some(ThpMode::Madvise),
            "never" => Some(ThpMode::Never),
            _ => None,
        }
    });
    let mut pools: Vec<HugePagePool> = files
        .names(&format!("{MM}/hugepages"))
        .iter()
        .filter_map(|name| {
            let kib: u64 = name
                .strip_prefix("hugepages-")?
                .strip_suffix("kB")?
                .parse()
                .ok()?;
            Some(HugePagePool {
                page: Bytes::kib(kib),
                total: files.value(&format!("{MM}/hugepages/{name}/nr_hugepages"))?,
                free: files
                    .value(&format!("{MM}/hugepages/{name}/free_hugepages"))
                    .unwrap_or(0),
            })
        })
        .collect();
    pools.sort_by_key(|pool| pool.page);
    HugePages {
        transparent,
        transparent_page: files.size(&format!("{MM}/transparent_hugepage/hpage_pmd_size")),
        pools,
    }
}

pub(super) fn resctrl(files: &Files, flags: &[String]) -> Resctrl {
    const FLAGS: [&str; 8] = [
        "cat_l2",
        "cat_l3",
        "cdp_l2",
        "cdp_l3",
        "cqm_llc",
        "cqm_mbm_local",
        "cqm_mbm_total",
        "mba",
    ];
    let cpu_flags: Vec<String> = FLAGS
        .into_iter()
        .filter(|flag| flags.iter().any(|f| f == flag))
        .map(str::to_owned)
        .collect();
    let in_kernel = files.text("proc/filesystems").is_some_and(|text| {
        text.lines()
            .any(|line| line.split_whitespace().last() == Some("resctrl"))
    });
    let mounted = files.text("proc/mounts").and_then(|text| {
        text.lines().find_map(|line| {
            let mut words = line.split_whitespace();
            let (_, folder, kind) = (words.next()?, words.next()?, words.next()?);
            (kind == "resctrl").then(|| folder.to_owned())
        })
    });
    let resources: Vec<ResctrlResource> = mounted
        .as_ref()
        .map(|folder| resctrl_resources(files, folder))
        .unwrap_or_default();

    let mut missing = Vec::new();
    if !cpu_flags.iter().any(|flag| flag.starts_with("cat_")) {
        missing.push("the CPU shows no cache allocation (flag cat_l3); a hypervisor may hide it".to_owned());
    }
    if !in_kernel {
        missing.push(
            "the kernel offers no resctrl file system (CONFIG_X86_CPU_RESCTRL, or no such CPU)".to_owned(),
        );
    } else if mounted.is_none() {
        missing.push("resctrl is not mounted (as root: mount -t resctrl resctrl /sys/fs/resctrl)".to_owned());
    } else if resources.is_empty() {
        missing.push("resctrl is mounted but offers no cache to partition".to_owned());
    }
    // A mounted file system with a cache in it proves more than a flag list that may be filtered.
    if !resources.is_empty() {
        missing.clear();
    }
    Resctrl {
        in_kernel,
        mounted,
        cpu_flags,
        resources,
        missing,
    }
}

fn resctrl_resources(files: &Files, folder: &str) -> Vec<ResctrlResource> {
    let folder = folder.trim_start_matches('/');
    files
        .names(&format!("{folder}/info"))
        .into_iter()
        .filter_map(|name| {
            let file = |file: &str| format!("{folder}/info/{name}/{file}");
            // Only caches have masks; bandwidth and monitoring entries do not.
            let mask =
                u64::from_str_radix(files.text(&file("cbm_mask"))?.trim_start_matches("0x"), 16).ok()?;
            Some(ResctrlResource {
                ways: Some(Ways(mask.count_ones())),
                ways_min: files.value(&file("min_cbm_bits")).map(Ways),
                classes: files.value(&file("num_closids")),
                sparse_masks: files.value::<u32>(&file("sparse_masks")) == Some(1),
                name,
            })
        })
        .collect()
}

/// Counter units of the cores. `opened` says whether a counter could be opened, if anybody tried.
pub(super) fn pmu(files: &Files, opened: Option<Result<(), String>>) -> Pmu {
    let devices: Vec<String> = files
        .names("sys/bus/event_source/devices")
        .into_iter()
        .filter(|name| matches!(name.as_str(), "cpu" | "cpu_core" | "cpu_atom") || name.starts_with("armv"))
        .collect();
    let paranoid = files.value("proc/sys/kernel/perf_event_paranoid");
    let mut missing = Vec::new();
    if !files.exists("proc/sys/kernel/perf_event_paranoid") {
        missing.push("the kernel is built without perf events".to_owned());
    } else if devices.is_empty() {
        missing
            .push("the kernel drives no counter unit of the cores (common in virtual machines)".to_owned());
    }
    match &opened {
        Some(Err(reason)) if missing.is_empty() => missing.push(reason.clone()),
        None if paranoid.is_some_and(|level| level > 2) => {
            missing.push(format!("perf_event_paranoid is {}", paranoid.unwrap_or_default()));
        }
        _ => {}
    }
    Pmu {
        devices,
        paranoid,
        opened: opened.map(|result| result.is_ok()),
        missing,
    }
}

pub(super) fn hypervisor(files: &Files, flags: &[String], cpuid: &dyn Cpuid) -> Option<Hypervisor> {
    let product = ["sys_vendor", "product_name"]
        .into_iter()
        .filter_map(|name| files.text(&format!("sys/class/dmi/id/{name}")))
        .collect::<Vec<_>>()
        .join(" ");
    if let Some(name) = cpuid::hypervisor(cpuid) {
        return Some(Hypervisor {
            name,
            evidence: "cpuid leaf 0x40000000".to_owned(),
        });
    }
    if let Some(kind) = files.text("sys/hypervisor/type").filter(|kind| !kind.is_empty()) {
        return Some(Hypervisor {
            name: kind,
            evidence: "/sys/hypervisor/type".to_owned(),
        });
    }
    const PRODUCTS: [(&str, &str); 8] = [
        ("KVM", "KVM"),
        ("QEMU", "QEMU"),
        ("VMware", "VMware"),
        ("VirtualBox", "VirtualBox"),
        ("Virtual Machine", "Hyper-V"),
        ("Xen", "Xen"),
        ("Google Compute Engine", "KVM"),
        ("Amazon EC2", "Nitro"),
    ];
    // Bare-metal instances of clouds carry the cloud's name too, so the CPU's own flag must agree where it exists.
    let flagged = flags.iter().any(|flag| flag == "hypervisor");
    let named = PRODUCTS
        .into_iter()
        .find(|(text, _)| product.contains(text))
        .map(|(_, name)| name);
    match (named, flagged || flags.is_empty()) {
        (Some(name), true) => Some(Hypervisor {
            name: name.to_owned(),
            evidence: format!("firmware says `{product}`"),
        }),
        (None, true) if flagged => Some(Hypervisor {
            name: "unknown".to_owned(),
            evidence: "CPU flag `hypervisor`".to_owned(),
        }),
        _ => None,
    }
}

/// The CPU flags of the first processor in `/proc/cpuinfo`.
pub(super) fn flags(cpuinfo: &str) -> Vec<String> {
    let line = field(cpuinfo, "flags")
        .or_else(|| field(cpuinfo, "Features"))
        .unwrap_or_default();
    line.split_whitespace().map(str::to_owned).collect()
}

/// The flags that matter to corun's kernels, sorted.
pub(super) fn simd(flags: &[String]) -> Vec<String> {
    const KEPT: [&str; 21] = [
        "asimd",
        "avx",
        "avx2",
        "avx512bw",
        "avx512cd",
        "avx512dq",
        "avx512f",
        "avx512vbmi",
        "avx512vl",
        "bmi1",
        "bmi2",
        "clflushopt",
        "clwb",
        "crc32",
        "popcnt",
        "sse2",
        "sse4_1",
        "sse4_2",
        "ssse3",
        "sve",
        "sve2",
    ];
    KEPT.into_iter()
        .filter(|kept| flags.iter().any(|flag| flag == kept))
        .map(str::to_owned)
        .collect()
}
