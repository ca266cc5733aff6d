//! Discovery on fixture trees: kinds of machines, and trees with pieces missing or damaged.

use crate::fixture::{CacheFiles, Tree, hybrid, small_vm, smt_server};
use corun_model::capability::{State, capabilities};
use corun_model::cpulist;
use corun_model::topology::{
    CacheKind, CacheSource, CoreKind, Relation, ThpMode, Topology, representative_pairs,
};
use corun_model::units::{Bytes, CpuId, Ways};
use corun_topology::cpuid::Cpuid;
use corun_topology::{discover, discover_at, discover_with};

fn shared(topology: &Topology, level: u8) -> Vec<String> {
    let data = topology
        .caches
        .iter()
        .filter(|cache| cache.level == level && cache.holds_data());
    data.map(|cache| cpulist::format(&cache.shared_cpus)).collect()
}

fn state(topology: &Topology, name: &str) -> State {
    let found = capabilities(topology)
        .into_iter()
        .find(|capability| capability.name == name);
    let found = found.unwrap_or_else(|| panic!("no capability {name}"));
    assert_eq!(
        found.fallback.is_empty(),
        found.state == State::Available,
        "{name}: a fallback if and only if missing"
    );
    assert!(!found.reason.is_empty(), "{name} gives no reason");
    found.state
}

#[test]
fn a_small_virtual_machine() {
    let topology = small_vm().discover();
    assert_eq!(topology.problems, [""; 0]);
    assert_eq!(
        (
            topology.packages.len(),
            topology.cores.len(),
            topology.caches.len()
        ),
        (1, 2, 7)
    );
    assert_eq!(topology.cache_bytes(2), Some(Bytes::mib(2)));
    assert_eq!(topology.last_level_cache_bytes(), Some(Bytes::mib(260)));
    assert_eq!(topology.planning_llc_bytes(), Some(Bytes::mib(8)));
    let l3 = topology.last_level_cache_of(CpuId(1)).unwrap();
    assert_eq!(
        (l3.ways, l3.sets, l3.line, l3.id),
        (Some(Ways(20)), Some(212_992), Bytes(64), Some(0))
    );
    assert_eq!(topology.memory.total, Some(Bytes::kib(24_684_092)));
    assert_eq!(topology.huge_pages.transparent, Some(ThpMode::Madvise));
    assert_eq!(
        topology
            .hypervisor
            .as_ref()
            .map(|hypervisor| hypervisor.name.as_str()),
        Some("unknown")
    );
    assert_eq!(topology.simd, ["avx2", "avx512f", "sse2", "sse4_2"]);
    for (name, expected) in [
        ("cache_geometry", State::Available),
        ("trusted_llc_size", State::Missing),
        ("cache_partitioning", State::Missing),
        ("smt_siblings", State::Missing),
        ("hardware_counters", State::Missing),
        ("huge_pages", State::Available),
        ("vector_instructions", State::Available),
        ("whole_machine", State::Available),
    ] {
        assert_eq!(state(&topology, name), expected, "{name}");
    }
}

#[test]
fn a_two_socket_server_with_smt_and_split_partitioning() {
    let topology = smt_server().discover();
    assert_eq!(topology.problems, [""; 0]);
    assert_eq!(
        (
            topology.packages.len(),
            topology.cores.len(),
            topology.numa_nodes.len()
        ),
        (2, 8, 2)
    );
    assert_eq!(shared(&topology, 3), ["0-3,8-11", "4-7,12-15"]);
    assert_eq!(shared(&topology, 2).first().map(String::as_str), Some("0,8"));
    let ids: Vec<Option<u32>> = topology
        .caches
        .iter()
        .filter(|c| c.level == 3)
        .map(|c| c.id)
        .collect();
    assert_eq!(ids, [Some(0), Some(2)]);
    assert!(topology.are_siblings(CpuId(3), CpuId(11)) && !topology.are_siblings(CpuId(3), CpuId(10)));
    assert_eq!(topology.cpus[12].numa_node, Some(1));
    assert_eq!(topology.planning_llc_bytes(), Some(Bytes::mib(22)));

    let resources = &topology.resctrl.resources;
    assert_eq!(
        resources.iter().map(|r| r.name.as_str()).collect::<Vec<_>>(),
        ["L3CODE", "L3DATA"]
    );
    assert_eq!(
        (resources[0].ways, resources[0].classes),
        (Some(Ways(11)), Some(8))
    );
    assert_eq!(topology.resctrl.cpu_flags, ["cat_l3", "cdp_l3", "cqm_llc", "mba"]);
    for name in [
        "cache_partitioning",
        "smt_siblings",
        "hardware_counters",
        "trusted_llc_size",
        "huge_pages",
    ] {
        assert_eq!(state(&topology, name), State::Available, "{name}");
    }

    // One thread of each core comes before any second thread.
    let order = topology.placement_order();
    assert_eq!(cpulist::format(&order[..8]), "0-7");
    let relations: Vec<Relation> = representative_pairs(&topology, &order, 3)
        .into_iter()
        .map(|(.., relation)| relation)
        .collect();
    assert_eq!(
        relations,
        [Relation::SmtSiblings, Relation::SameLlc, Relation::OtherPackage]
    );
}

#[test]
fn a_hybrid_part_with_clustered_small_cores() {
    let topology = hybrid().discover();
    assert_eq!(shared(&topology, 2), ["0-1", "2-3", "4-7"]);
    let kinds: Vec<CoreKind> = topology.cores.iter().map(|core| core.kind).collect();
    assert_eq!(kinds[..2], [CoreKind::Performance; 2]);
    assert_eq!(kinds[2..], [CoreKind::Efficiency; 4]);
    assert_eq!(topology.relation(CpuId(4), CpuId(5)), Relation::SameL2);
    assert_eq!(topology.relation(CpuId(0), CpuId(4)), Relation::SameLlc);
    // Fast cores first, their second threads last.
    assert_eq!(topology.placement_order(), [0, 2, 4, 5, 6, 7, 1, 3].map(CpuId));
    // Two counter units, but the paranoid level forbids them.
    assert_eq!(topology.pmu.devices, ["cpu_atom", "cpu_core"]);
    assert_eq!(state(&topology, "hardware_counters"), State::Missing);
}

#[test]
fn gaps_in_numbers_and_offline_cpus() {
    let tree = Tree::new();
    tree.lists("0,2,4-5", "0,4-5")
        .cpuinfo(&[0, 4, 5], "sse2")
        .allowed("0,4-5");
    for (cpu, core) in [(0, 0), (4, 2), (5, 6)] {
        let own = cpu.to_string();
        tree.cpu(cpu, 0, core, &own).cache(
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
    // The kernel's list still names the offline CPU.
    tree.cache(
        "0,4",
        &CacheFiles {
            level: 2,
            kind: "Unified",
            size: "1M",
            ways: 16,
            sets: 1024,
            id: 0,
        },
    );
    tree.file("sys/devices/system/cpu/cpu4/topology/core_cpus_list", "2,4");
    let topology = tree.discover();
    assert_eq!(
        topology.cpus.iter().map(|cpu| cpu.id.0).collect::<Vec<_>>(),
        [0, 2, 4, 5]
    );
    let offline = &topology.cpus[1];
    assert!(!offline.online && !offline.allowed && topology.core_of(offline.id).is_none());
    assert_eq!(topology.cores.len(), 3);
    assert_eq!(topology.usable_cpus(), [0, 4, 5].map(CpuId));
    assert_eq!(
        topology.last_level_cache_of(CpuId(5)).map(|cache| cache.level),
        Some(1)
    );
    assert_eq!(topology.problems, [""; 0]);
}

#[test]
fn fewer_cpus_and_less_memory_and_time_than_the_machine_has() {
    let tree = smt_server();
    tree.allowed("2,10")
        .file("proc/self/cgroup", "0::/jobs/one")
        .file("sys/fs/cgroup/jobs/one/cpu.max", "max 100000")
        .file("sys/fs/cgroup/jobs/cpu.max", "150000 100000")
        .file("sys/fs/cgroup/jobs/one/memory.max", "max")
        .file("sys/fs/cgroup/jobs/memory.max", "1073741824");
    let topology = tree.discover();
    assert_eq!(topology.usable_cpus(), [CpuId(2), CpuId(10)]);
    assert_eq!(
        (topology.cpu_quota, topology.memory.limit),
        (Some(1.5), Some(Bytes::gib(1)))
    );
    assert_eq!(state(&topology, "whole_machine"), State::Missing);
    assert_eq!(state(&topology, "smt_siblings"), State::Available);

    // Version 1: a folder a controller; its "no limit" is a huge number.
    let tree = small_vm();
    tree.allowed("1")
        .file(
            "proc/self/cgroup",
            "4:memory:/job\n3:cpuset:/\n1:cpu,cpuacct:/job",
        )
        .file("sys/fs/cgroup/cpu/job/cpu.cfs_quota_us", "50000")
        .file("sys/fs/cgroup/cpu/job/cpu.cfs_period_us", "100000")
        .file(
            "sys/fs/cgroup/memory/job/memory.limit_in_bytes",
            "9223372036854771712",
        );
    let topology = tree.discover();
    assert_eq!(topology.usable_cpus(), [CpuId(1)]);
    assert_eq!((topology.cpu_quota, topology.memory.limit), (Some(0.5), None));
    assert_eq!(state(&topology, "whole_machine"), State::Missing);
}

/// Registers as a table: leaf, subleaf, eax, ebx, ecx, edx.
struct Table(Vec<(u32, u32, [u32; 4])>);

impl Cpuid for Table {
    fn leaf(&self, leaf: u32, subleaf: u32) -> Option<[u32; 4]> {
        let found = self.0.iter().find(|(l, s, _)| (*l, *s) == (leaf, subleaf));
        found.map(|(.., registers)| *registers)
    }
}

fn registers(level: u32, kind: u32, sharers: u32, line: u32, ways: u32, sets: u32) -> [u32; 4] {
    [
        kind | level << 5 | (sharers - 1) << 14,
        (line - 1) | (ways - 1) << 22,
        sets - 1,
        0,
    ]
}

#[test]
fn without_cache_folders_the_cpu_itself_is_asked() {
    for leaf in [4, 0x8000_001d] {
        let tree = small_vm();
        for cpu in 0..2 {
            tree.remove(&format!("sys/devices/system/cpu/cpu{cpu}/cache"));
        }
        let table = Table(vec![
            (leaf, 0, registers(1, 1, 1, 64, 12, 64)),
            (leaf, 1, registers(1, 2, 1, 64, 8, 64)),
            (leaf, 2, registers(2, 3, 1, 64, 16, 2048)),
            (leaf, 3, registers(3, 3, 2, 64, 20, 212_992)),
            (leaf, 4, [0; 4]),
        ]);
        let topology = discover_with(tree.root(), &table);
        assert_eq!(topology.caches.len(), 7, "leaf {leaf:#x}");
        assert!(
            topology
                .caches
                .iter()
                .all(|cache| cache.source == CacheSource::Cpuid)
        );
        assert_eq!(topology.last_level_cache_bytes(), Some(Bytes::mib(260)));
        assert_eq!(
            (shared(&topology, 2), shared(&topology, 3)),
            (vec!["0".into(), "1".into()], vec!["0-1".to_owned()])
        );
        assert_eq!(topology.problems.len(), 1, "{:?}", topology.problems);

        let topology = discover_at(tree.root());
        assert!(topology.caches.is_empty() && topology.problems.len() == 1);
        assert_eq!(state(&topology, "cache_geometry"), State::Missing);
    }
}

#[test]
fn hypervisors_sign_their_name() {
    let text = |s: &[u8; 12]| [0, 4, 8].map(|at| u32::from_le_bytes(s[at..at + 4].try_into().unwrap()));
    let [ebx, ecx, edx] = text(b"KVMKVMKVM\0\0\0");
    let table = Table(vec![
        (1, 0, [0, 0, 1 << 31, 0]),
        (0x4000_0000, 0, [0, ebx, ecx, edx]),
    ]);
    let name = |topology: Topology| topology.hypervisor.map(|hypervisor| hypervisor.name);
    assert_eq!(
        name(discover_with(small_vm().root(), &table)).as_deref(),
        Some("KVM")
    );
    let bare = Table(vec![(1, 0, [0; 4])]);
    assert_eq!(name(discover_with(smt_server().root(), &bare)), None);
    // Without cpuid, firmware and the CPU's flag must agree.
    let tree = small_vm();
    tree.file("sys/class/dmi/id/sys_vendor", "QEMU");
    assert_eq!(name(tree.discover()).as_deref(), Some("QEMU"));
    let tree = smt_server();
    tree.file("sys/class/dmi/id/sys_vendor", "Amazon EC2");
    assert_eq!(name(tree.discover()), None);
}

#[test]
fn an_empty_or_missing_root_gives_words_and_no_cpus() {
    let tree = Tree::new();
    for root in [tree.root().to_owned(), tree.root().join("missing")] {
        let topology = discover_at(&root);
        assert!(topology.cpus.is_empty() && topology.caches.is_empty());
        assert_eq!(topology.problems.len(), 2, "{:?}", topology.problems);
        assert!(capabilities(&topology).iter().all(|c| !c.reason.is_empty()));
        assert_eq!(topology.placement_order(), []);
    }
}

#[test]
fn procfs_alone_is_enough_for_cpus() {
    let tree = Tree::new();
    tree.cpuinfo(&[0, 1, 3], "sse2 avx2").allowed("0-1,3");
    let topology = tree.discover();
    assert_eq!(topology.usable_cpus(), [0, 1, 3].map(CpuId));
    assert_eq!((topology.cores.len(), topology.packages.len()), (3, 1));
    assert_eq!(topology.model_name.as_deref(), Some("Test CPU"));
}

#[test]
fn damaged_files_are_named_and_the_rest_stands() {
    let tree = small_vm();
    tree.file("sys/devices/system/cpu/cpu0/cache/index2/size", "many")
        .file("sys/devices/system/cpu/cpu1/cache/index1/type", "Trace")
        .file("sys/devices/system/cpu/cpu0/topology/core_id", "x")
        .file("sys/devices/system/cpu/cpu1/cache/index3/shared_cpu_list", "1-0");
    let topology = tree.discover();
    for file in ["index2/size", "index1/type", "core_id", "shared_cpu_list"] {
        assert!(
            topology.problems.iter().any(|p| p.contains(file)),
            "{file} is not in {:?}",
            topology.problems
        );
    }
    // The size follows from line, sets and ways; the second core's instruction cache is left out.
    assert_eq!(topology.cache_bytes(2), Some(Bytes::mib(2)));
    assert_eq!(
        topology
            .caches
            .iter()
            .filter(|cache| cache.kind == CacheKind::Instruction)
            .count(),
        1
    );
}

#[test]
fn resctrl_says_what_stands_in_the_way() {
    let tree = smt_server();
    tree.file("proc/mounts", "sysfs /sys sysfs rw 0 0");
    let topology = tree.discover();
    assert!(topology.resctrl.in_kernel && topology.resctrl.missing.len() == 1);
    assert!(topology.resctrl.missing[0].contains("mount -t resctrl"));
    assert_eq!(state(&topology, "cache_partitioning"), State::Missing);
    assert_eq!(small_vm().discover().resctrl.missing.len(), 2);
}

#[test]
fn the_running_machine_is_consistent() {
    let topology = discover();
    let usable = topology.usable_cpus();
    assert_eq!(usable, corun_topology::affinity::allowed_cpus().unwrap());
    assert_eq!(topology.architecture, std::env::consts::ARCH);
    let in_cores: usize = topology.cores.iter().map(|core| core.cpus.len()).sum();
    assert_eq!(in_cores, topology.cpus.iter().filter(|cpu| cpu.online).count());
    for cache in &topology.caches {
        assert!(cache.size.0 > 0 && !cache.shared_cpus.is_empty(), "{cache:?}");
    }
    let mut order = topology.placement_order();
    order.sort_unstable();
    assert_eq!(order, usable);
}
