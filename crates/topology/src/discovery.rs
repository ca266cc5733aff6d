//! Finding out what this machine is made of.
//!
//! [`discover`] reads `/sys`, `/proc` and cpuid once and returns plain data ([`corun_model::topology::Topology`]). It never
//! fails: what cannot be read is left out and named in `problems`. [`discover_at`] reads the same files below another
//! folder: a test's fixture, or a copy of another machine's files; nothing of the running machine leaks into it. Elsewhere than on
//! Linux [`discover`] knows the number of CPUs only, each taken as a core of its own; that part is untested.
//!
//! Order of calls: `discover()` first, then whatever decides. Not here: anything timed (see [`crate::measure`]).

mod caches;
pub mod cpuid;
mod cpus;
mod facilities;
mod files;

use std::path::Path;

use corun_model::topology::Topology;
use corun_model::units::Bytes;

use cpuid::{Cpuid, NoCpuid};
use files::{Files, field};

/// The running machine.
pub fn discover() -> Topology {
    let mut topology = this_machine();
    topology.architecture = std::env::consts::ARCH.to_owned();
    if topology.cpus.is_empty() {
        without_files(&mut topology);
    }
    topology
}

#[cfg(target_os = "linux")]
fn this_machine() -> Topology {
    let opened = crate::performance_events::try_open();
    read(Path::new("/"), &cpuid::HostCpuid, page_bytes(), Some(opened))
}

/// No files to read: what the standard library knows is added by [`without_files`].
#[cfg(not(target_os = "linux"))]
fn this_machine() -> Topology {
    let problem = "cores, caches and memory are read from Linux's /sys and /proc; on this system the number of CPUs is all that is known";
    Topology {
        problems: vec![problem.to_owned()],
        ..Topology::default()
    }
}

/// The machine whose `sys` and `proc` folders lie below `root`. Asks nobody but those files.
pub fn discover_at(root: &Path) -> Topology {
    discover_with(root, &NoCpuid)
}

/// Like [`discover_at`], with somebody to answer cpuid.
pub fn discover_with(root: &Path, cpuid: &dyn Cpuid) -> Topology {
    read(root, cpuid, None, None)
}

fn read(root: &Path, cpuid: &dyn Cpuid, page: Option<Bytes>, opened: Option<Result<(), String>>) -> Topology {
    let files = Files::new(root);
    if !files.exists("sys/devices/system/cpu") {
        files.problem("/sys/devices/system/cpu is missing: is sysfs mounted?".to_owned());
    }
    let cpuinfo = files.text("proc/cpuinfo");
    if cpuinfo.is_none() {
        files.problem("/proc/cpuinfo is missing: is procfs mounted?".to_owned());
    }
    let cpuinfo = cpuinfo.unwrap_or_default();
    let named = |key: &str| {
        field(&cpuinfo, key)
            .filter(|text| !text.is_empty())
            .map(str::to_owned)
    };
    let flags = facilities::flags(&cpuinfo);

    let numa_nodes = cpus::numa_nodes(&files);
    let cpus = cpus::cpus(&files, &numa_nodes);
    let cores = cpus::cores(&files, &cpus);
    let packages = cpus::packages(&cpus);
    let caches = caches::caches(&files, &cpus, &cores, cpuid);
    let memory = facilities::memory(&files, page);
    cpus::check_nodes(&files, &numa_nodes, memory.total);
    Topology {
        vendor: named("vendor_id").or_else(|| named("CPU implementer")),
        model_name: named("model name"),
        architecture: String::new(),
        cores,
        packages,
        caches,
        memory,
        numa_nodes,
        huge_pages: facilities::huge_pages(&files),
        resctrl: facilities::resctrl(&files, &flags),
        pmu: facilities::pmu(&files, opened),
        hypervisor: facilities::hypervisor(&files, &flags, cpuid),
        simd: facilities::simd(&flags),
        cpu_quota: facilities::cpu_quota(&files),
        cpus,
        problems: files.into_problems(),
    }
}

/// Where the CPUs come from that [`crate::affinity`] allows.
const CPUS_FROM: &str = if cfg!(target_os = "linux") {
    "the affinity mask"
} else {
    "the standard library"
};

/// Neither sysfs nor procfs: the affinity mask still says which CPUs there are, each taken as a core of its own.
fn without_files(topology: &mut Topology) {
    use corun_model::topology::{Core, CoreKind, LogicalCpu, Package};
    let cpus = crate::affinity::allowed_cpus().unwrap_or_default();
    topology.problems.push(format!(
        "CPUs are taken from {CPUS_FROM}: {}",
        corun_model::cpulist::format(&cpus)
    ));
    let unknown = |id| LogicalCpu {
        id,
        online: true,
        allowed: true,
        package: None,
        core: None,
        numa_node: None,
    };
    topology.cpus = cpus.iter().copied().map(unknown).collect();
    topology.cores = cpus
        .iter()
        .map(|&cpu| Core {
            package: 0,
            id: cpu.0,
            kind: CoreKind::Uniform,
            cpus: vec![cpu],
        })
        .collect();
    topology.packages = vec![Package { id: 0, cpus }];
}

#[cfg(target_os = "linux")]
fn page_bytes() -> Option<Bytes> {
    // SAFETY: sysconf reads a constant of the system and touches no memory of ours.
    let bytes = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    u64::try_from(bytes).ok().filter(|bytes| *bytes > 0).map(Bytes)
}
