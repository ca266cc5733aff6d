//! Trees of `sys` and `proc` files as kernels write them, for machines nobody here owns.

use std::fs;
use std::path::Path;

use corun_model::cpulist;
use corun_model::topology::Topology;
use corun_model::units::CpuId;
use tempfile::TempDir;

/// A fixture tree under construction.
pub struct Tree {
    folder: TempDir,
}

/// One cache folder's files.
pub struct CacheFiles<'a> {
    pub level: u8,
    pub kind: &'a str,
    pub size: &'a str,
    pub ways: u32,
    pub sets: u32,
    pub id: u32,
}

impl Tree {
    pub fn new() -> Self {
        Self {
            folder: TempDir::new().expect("a temporary folder"),
        }
    }

    pub fn root(&self) -> &Path {
        self.folder.path()
    }

    pub fn discover(&self) -> Topology {
        corun_topology::discover_at(self.root())
    }

    /// Writes one file, a newline at its end as the kernel does.
    pub fn file(&self, path: &str, text: &str) -> &Self {
        let path = self.root().join(path);
        fs::create_dir_all(path.parent().expect("files have folders")).expect("a folder");
        fs::write(path, format!("{text}\n")).expect("a file");
        self
    }

    pub fn remove(&self, path: &str) -> &Self {
        fs::remove_dir_all(self.root().join(path)).expect("a folder to remove");
        self
    }

    /// The lists of present and online CPUs.
    pub fn lists(&self, present: &str, online: &str) -> &Self {
        self.file("sys/devices/system/cpu/present", present)
            .file("sys/devices/system/cpu/online", online)
    }

    /// One CPU's topology folder.
    pub fn cpu(&self, cpu: u32, package: u32, core: u32, threads: &str) -> &Self {
        let folder = format!("sys/devices/system/cpu/cpu{cpu}/topology");
        self.file(&format!("{folder}/physical_package_id"), &package.to_string())
            .file(&format!("{folder}/core_id"), &core.to_string())
            .file(&format!("{folder}/core_cpus_list"), threads)
    }

    /// The next cache folder of every CPU in `shared`.
    pub fn cache(&self, shared: &str, cache: &CacheFiles<'_>) -> &Self {
        for CpuId(cpu) in cpulist::parse(shared).expect("a CPU list") {
            let caches = format!("sys/devices/system/cpu/cpu{cpu}/cache");
            let index = fs::read_dir(self.root().join(&caches)).map_or(0, Iterator::count);
            let file = |name: &str, text: &str| {
                self.file(&format!("{caches}/index{index}/{name}"), text);
            };
            file("level", &cache.level.to_string());
            file("type", cache.kind);
            file("size", cache.size);
            file("ways_of_associativity", &cache.ways.to_string());
            file("number_of_sets", &cache.sets.to_string());
            file("coherency_line_size", "64");
            file("id", &cache.id.to_string());
            file("shared_cpu_list", shared);
        }
        self
    }

    /// `/proc/cpuinfo` with one block a CPU.
    pub fn cpuinfo(&self, cpus: &[u32], flags: &str) -> &Self {
        let block = |cpu: &u32| {
            format!(
                "processor\t: {cpu}\nvendor_id\t: GenuineIntel\ncpu family\t: 6\nmodel name\t: Test CPU\n\
                 physical id\t: 0\ncore id\t\t: {cpu}\napicid\t\t: {cpu}\nflags\t\t: {flags}\n"
            )
        };
        self.file(
            "proc/cpuinfo",
            &cpus.iter().map(block).collect::<Vec<_>>().join("\n"),
        )
    }

    pub fn allowed(&self, cpus: &str) -> &Self {
        self.file(
            "proc/self/status",
            &format!("Name:\tcorun\nCpus_allowed:\tff\nCpus_allowed_list:\t{cpus}"),
        )
    }
}

/// A two-CPU virtual machine: large last-level cache announced, no SMT, counters, resctrl or DMI.
pub fn small_vm() -> Tree {
    let tree = Tree::new();
    tree.lists("0-1", "0-1")
        .cpuinfo(&[0, 1], "fpu sse2 sse4_2 avx2 avx512f hypervisor")
        .allowed("0-1");
    for cpu in 0..2 {
        let own = cpu.to_string();
        tree.cpu(cpu, 0, cpu, &own)
            .cache(
                &own,
                &CacheFiles {
                    level: 1,
                    kind: "Data",
                    size: "48K",
                    ways: 12,
                    sets: 64,
                    id: cpu,
                },
            )
            .cache(
                &own,
                &CacheFiles {
                    level: 1,
                    kind: "Instruction",
                    size: "32K",
                    ways: 8,
                    sets: 64,
                    id: cpu,
                },
            )
            .cache(
                &own,
                &CacheFiles {
                    level: 2,
                    kind: "Unified",
                    size: "2048K",
                    ways: 16,
                    sets: 2048,
                    id: cpu,
                },
            );
    }
    tree.cache(
        "0-1",
        &CacheFiles {
            level: 3,
            kind: "Unified",
            size: "266240K",
            ways: 20,
            sets: 212_992,
            id: 0,
        },
    )
    .file(
        "proc/meminfo",
        "MemTotal:       24684092 kB\nMemFree: 1 kB\nMemAvailable:   23399364 kB",
    )
    .file("proc/filesystems", "nodev\tsysfs\n\text4")
    .file("proc/mounts", "sysfs /sys sysfs rw 0 0")
    .file("proc/sys/kernel/perf_event_paranoid", "2")
    .file("sys/bus/event_source/devices/software/type", "1")
    .file(
        "sys/kernel/mm/transparent_hugepage/enabled",
        "always [madvise] never",
    )
    .file("sys/kernel/mm/transparent_hugepage/hpage_pmd_size", "2097152")
    .file("sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages", "0")
    .file("sys/kernel/mm/hugepages/hugepages-2048kB/free_hugepages", "0")
    .file("sys/devices/system/node/node0/cpulist", "0-1")
    .file(
        "sys/devices/system/node/node0/meminfo",
        "Node 0 MemTotal:       24684092 kB",
    );
    tree
}

/// Two sockets of four SMT-2 cores each, sibling numbers eight apart, resctrl mounted with code and data split.
pub fn smt_server() -> Tree {
    let tree = Tree::new();
    let all: Vec<u32> = (0..16).collect();
    tree.lists("0-15", "0-15")
        .cpuinfo(&all, "sse2 avx2 cat_l3 cdp_l3 cqm_llc mba")
        .allowed("0-15");
    for core in 0..8 {
        let threads = format!("{core},{}", core + 8);
        for cpu in [core, core + 8] {
            tree.cpu(cpu, core / 4, core % 4, &threads);
        }
        tree.cache(
            &threads,
            &CacheFiles {
                level: 1,
                kind: "Data",
                size: "32K",
                ways: 8,
                sets: 64,
                id: core,
            },
        )
        .cache(
            &threads,
            &CacheFiles {
                level: 2,
                kind: "Unified",
                size: "1024K",
                ways: 16,
                sets: 1024,
                id: core,
            },
        );
    }
    for (package, cpus) in [(0, "0-3,8-11"), (1, "4-7,12-15")] {
        // Domain ids with a gap, as real sockets have.
        tree.cache(
            cpus,
            &CacheFiles {
                level: 3,
                kind: "Unified",
                size: "22M",
                ways: 11,
                sets: 32768,
                id: package * 2,
            },
        )
        .file(&format!("sys/devices/system/node/node{package}/cpulist"), cpus)
        .file(
            &format!("sys/devices/system/node/node{package}/meminfo"),
            &format!("Node {package} MemTotal:       65536000 kB"),
        );
    }
    for name in ["L3CODE", "L3DATA"] {
        tree.file(&format!("sys/fs/resctrl/info/{name}/cbm_mask"), "7ff")
            .file(&format!("sys/fs/resctrl/info/{name}/min_cbm_bits"), "1")
            .file(&format!("sys/fs/resctrl/info/{name}/num_closids"), "8");
    }
    tree.file("sys/fs/resctrl/info/MB/num_closids", "8")
        .file("proc/filesystems", "nodev\tsysfs\nnodev\tresctrl")
        .file("proc/mounts", "resctrl /sys/fs/resctrl resctrl rw,cdp 0 0")
        .file(
            "proc/meminfo",
            "MemTotal:       131072000 kB\nMemAvailable:   100000000 kB",
        )
        .file("proc/sys/kernel/perf_event_paranoid", "1")
        .file("sys/bus/event_source/devices/cpu/type", "4")
        .file(
            "sys/kernel/mm/transparent_hugepage/enabled",
            "[always] madvise never",
        );
    tree
}

/// Two SMT-2 performance cores and one cluster of four efficiency cores that share a second-level cache.
pub fn hybrid() -> Tree {
    let tree = Tree::new();
    let all: Vec<u32> = (0..8).collect();
    tree.lists("0-7", "0-7").cpuinfo(&all, "sse2 avx2").allowed("0-7");
    for (core, threads) in [(0, "0-1"), (1, "2-3")] {
        for cpu in [core * 2, core * 2 + 1] {
            tree.cpu(cpu, 0, core, threads);
        }
        tree.cache(
            threads,
            &CacheFiles {
                level: 1,
                kind: "Data",
                size: "48K",
                ways: 12,
                sets: 64,
                id: core,
            },
        )
        .cache(
            threads,
            &CacheFiles {
                level: 2,
                kind: "Unified",
                size: "1280K",
                ways: 10,
                sets: 2048,
                id: core,
            },
        );
    }
    for cpu in 4..8u32 {
        let own = cpu.to_string();
        tree.cpu(cpu, 0, cpu * 8, &own).cache(
            &own,
            &CacheFiles {
                level: 1,
                kind: "Data",
                size: "32K",
                ways: 8,
                sets: 64,
                id: cpu,
            },
        );
    }
    tree.cache(
        "4-7",
        &CacheFiles {
            level: 2,
            kind: "Unified",
            size: "2048K",
            ways: 16,
            sets: 2048,
            id: 4,
        },
    )
    .cache(
        "0-7",
        &CacheFiles {
            level: 3,
            kind: "Unified",
            size: "12288K",
            ways: 12,
            sets: 16384,
            id: 0,
        },
    )
    .file("sys/devices/cpu_core/cpus", "0-3")
    .file("sys/devices/cpu_atom/cpus", "4-7")
    .file("sys/bus/event_source/devices/cpu_core/type", "4")
    .file("sys/bus/event_source/devices/cpu_atom/type", "10")
    .file("proc/sys/kernel/perf_event_paranoid", "4");
    tree
}
