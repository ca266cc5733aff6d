//! Hierarchies as machines have them: who shares what, what a topology turns into, and which machines are refused.

use corun_cachesim::hierarchy::{HierarchyError, Scope, levels_of};
use corun_cachesim::{Counters, Geometry, Hierarchy, Level, Preset, Sharing};
use corun_model::operators::trace::{Access, Event, Sink, ThreadRole};
use corun_model::topology::{Cache, CacheKind, CacheSource, Core, CoreKind, LogicalCpu, Topology};
use corun_model::units::{Bytes, CpuId, Ways};

const MAIN: ThreadRole = ThreadRole::Worker(0);
const HELPER: ThreadRole = ThreadRole::Helper;

fn event(role: ThreadRole, access: Access, address: u64) -> Event {
    Event {
        role,
        access,
        address,
        bytes: 8,
    }
}

fn level(number: u8, size: Bytes, ways: u32, line: u64, scope: Scope) -> Level {
    Level {
        level: number,
        geometry: Geometry::new(size, Ways(ways), Bytes(line)).unwrap(),
        scope,
    }
}

/// Two private levels and a shared one.
fn levels() -> Vec<Level> {
    vec![
        level(1, Bytes::kib(1), 4, 64, Scope::Core),
        level(2, Bytes::kib(4), 8, 64, Scope::Core),
        level(3, Bytes::kib(16), 16, 64, Scope::Machine),
    ]
}

fn counters(hierarchy: &Hierarchy, role: ThreadRole) -> Vec<Counters> {
    hierarchy
        .levels()
        .iter()
        .map(|level| hierarchy.counters(role, level.level).unwrap())
        .collect()
}

fn demand(accesses: u64, misses: u64) -> Counters {
    Counters {
        accesses,
        misses,
        ..Counters::default()
    }
}

#[test]
fn siblings_find_each_other_s_lines_cores_only_in_the_shared_level() {
    let mut siblings = Hierarchy::new(&levels(), Sharing::Siblings).unwrap();
    let mut cores = Hierarchy::new(&levels(), Sharing::Cores).unwrap();
    for hierarchy in [&mut siblings, &mut cores] {
        hierarchy.event(&event(HELPER, Access::Load, 0x1000));
        hierarchy.event(&event(MAIN, Access::Load, 0x1008));
        assert_eq!(counters(hierarchy, HELPER), [demand(1, 1); 3]);
    }
    assert_eq!(
        counters(&siblings, MAIN),
        [demand(1, 0), demand(0, 0), demand(0, 0)]
    );
    assert_eq!(counters(&cores, MAIN), [demand(1, 1), demand(1, 1), demand(1, 0)]);
    assert_eq!(cores.counters(MAIN, 4), None);
}

#[test]
fn a_store_takes_the_line_from_other_cores() {
    let mut cores = Hierarchy::new(&levels(), Sharing::Cores).unwrap();
    cores.event(&event(HELPER, Access::Load, 0));
    cores.event(&event(MAIN, Access::Store, 0));
    cores.event(&event(MAIN, Access::Store, 8));
    cores.event(&event(HELPER, Access::Load, 0));
    let lost = |level| cores.counters(HELPER, level).unwrap().invalidations;
    assert_eq!(
        [lost(1), lost(2), lost(3)],
        [1, 1, 0],
        "once, and the shared level keeps it"
    );
    assert_eq!(cores.counters(HELPER, 2).unwrap().misses, 2);
    assert_eq!(cores.counters(HELPER, 3).unwrap().misses, 1);
    assert_eq!(cores.counters(MAIN, 1).unwrap().invalidations, 0);

    let mut siblings = Hierarchy::new(&levels(), Sharing::Siblings).unwrap();
    siblings.event(&event(HELPER, Access::Load, 0));
    siblings.event(&event(MAIN, Access::Store, 0));
    siblings.event(&event(HELPER, Access::Load, 0));
    assert_eq!(siblings.counters(HELPER, 1), Some(demand(2, 1)));
}

#[test]
fn a_prefetched_line_is_a_hit_for_whoever_waits() {
    let mut hierarchy = Hierarchy::new(&levels(), Sharing::Siblings).unwrap();
    // Across a line border: two lines.
    hierarchy.sink(MAIN).access(Access::Prefetch, 0x103c, 8);
    hierarchy.sink(MAIN).access(Access::Prefetch, 0x1000, 8);
    hierarchy.sink(MAIN).access(Access::Load, 0x1000, 128);
    let expected = |accesses| Counters {
        accesses,
        misses: 0,
        prefetched: 2,
        invalidations: 0,
    };
    assert_eq!(
        counters(&hierarchy, MAIN),
        [expected(2), expected(0), expected(0)]
    );
}

#[test]
fn the_paper_s_machine_fetches_two_first_level_lines_at_once() {
    let mut machine = Preset::PaperPentium4.hierarchy().unwrap();
    let shape = machine
        .levels()
        .iter()
        .map(|level| (level.level, level.geometry.size(), level.geometry.sets()))
        .collect::<Vec<_>>();
    assert_eq!(shape, [(1, Bytes::kib(8), 32), (2, Bytes::kib(512), 512)]);
    machine.event(&event(HELPER, Access::Load, 0x8000));
    machine.event(&event(MAIN, Access::Load, 0x8040));
    assert_eq!(counters(&machine, MAIN), [demand(1, 1), demand(1, 0)]);
}

#[test]
fn levels_that_make_no_machine_are_errors() {
    let refused = |levels: &[Level]| Hierarchy::new(levels, Sharing::Cores).err();
    assert_eq!(refused(&[]), Some(HierarchyError::NoLevels));
    let [l1, l2, l3] = levels().try_into().unwrap();
    assert_eq!(
        refused(&[l2, l1]),
        Some(HierarchyError::Order { before: 2, after: 1 })
    );
    assert_eq!(
        refused(&[l1, l1]),
        Some(HierarchyError::Order { before: 1, after: 1 })
    );
    let short = level(2, Bytes::kib(4), 8, 32, Scope::Core);
    assert_eq!(
        refused(&[l1, short]),
        Some(HierarchyError::LineShrinks { level: 2 })
    );
    let shared = Level {
        scope: Scope::Machine,
        ..l1
    };
    assert_eq!(
        refused(&[shared, l2, l3]),
        Some(HierarchyError::PrivateBehindShared { level: 2 })
    );
}

fn cache(level: u8, kind: CacheKind, size: Bytes, ways: Option<u32>, shared: &[u32]) -> Cache {
    Cache {
        id: None,
        level,
        kind,
        size,
        ways: ways.map(Ways),
        line: Bytes(64),
        sets: None,
        shared_cpus: shared.iter().copied().map(CpuId).collect(),
        source: CacheSource::Sysfs,
    }
}

/// Two cores of one thread each.
fn topology(caches: Vec<Cache>) -> Topology {
    let cpu = |id| LogicalCpu {
        id: CpuId(id),
        online: true,
        allowed: true,
        package: Some(0),
        core: Some(id),
        numa_node: None,
    };
    let core = |id| Core {
        package: 0,
        id,
        kind: CoreKind::Uniform,
        cpus: vec![CpuId(id)],
    };
    Topology {
        cpus: vec![cpu(0), cpu(1)],
        cores: vec![core(0), core(1)],
        caches,
        ..Topology::default()
    }
}

#[test]
fn a_topology_s_data_caches_become_levels() {
    let levels = levels_of(&topology(vec![
        cache(1, CacheKind::Data, Bytes::kib(48), Some(12), &[0]),
        cache(1, CacheKind::Instruction, Bytes::kib(32), Some(8), &[0]),
        cache(2, CacheKind::Unified, Bytes::mib(2), Some(16), &[0]),
        cache(3, CacheKind::Unified, Bytes::mib(260), Some(20), &[0, 1]),
    ]))
    .unwrap();
    assert_eq!(
        levels,
        [
            level(1, Bytes::kib(48), 12, 64, Scope::Core),
            level(2, Bytes::mib(2), 16, 64, Scope::Core),
            level(3, Bytes::mib(260), 20, 64, Scope::Machine),
        ]
    );
}

#[test]
fn a_second_level_shared_by_cores_is_shared() {
    let levels = levels_of(&topology(vec![
        cache(1, CacheKind::Data, Bytes::kib(32), Some(8), &[0]),
        cache(2, CacheKind::Unified, Bytes::mib(2), Some(16), &[0, 1]),
    ]))
    .unwrap();
    assert_eq!(
        levels.iter().map(|level| level.scope).collect::<Vec<_>>(),
        [Scope::Core, Scope::Machine]
    );
}

#[test]
fn what_a_topology_leaves_out_is_filled_in_as_documented() {
    let by_sets = Cache {
        sets: Some(64),
        ..cache(1, CacheKind::Data, Bytes::kib(48), None, &[0])
    };
    let odd_line = Cache {
        line: Bytes(0),
        ..cache(2, CacheKind::Unified, Bytes::kib(1), None, &[0])
    };
    // 100 lines in sets of 16: six sets, 96 lines.
    let uneven = cache(3, CacheKind::Unified, Bytes(6400), Some(0), &[0]);
    let no_size = cache(4, CacheKind::Unified, Bytes(0), Some(16), &[0]);
    let fully = cache(5, CacheKind::Unified, Bytes::kib(1), Some(999), &[0]);
    let levels = levels_of(&topology(vec![by_sets, odd_line, uneven, no_size, fully])).unwrap();
    assert_eq!(
        levels,
        [
            level(1, Bytes::kib(48), 12, 64, Scope::Core),
            level(2, Bytes::kib(1), 8, 64, Scope::Core),
            level(3, Bytes(6144), 16, 64, Scope::Machine),
            level(5, Bytes::kib(1), 16, 64, Scope::Machine),
        ]
    );
}

#[test]
fn a_machine_without_caches_is_an_error() {
    assert_eq!(levels_of(&Topology::default()), Err(HierarchyError::NoLevels));
    assert_eq!(
        Hierarchy::of(&topology(Vec::new()), Sharing::Cores).err(),
        Some(HierarchyError::NoLevels)
    );
    let large = topology(vec![cache(
        3,
        CacheKind::Unified,
        Bytes(u64::MAX),
        Some(16),
        &[0],
    )]);
    assert!(matches!(levels_of(&large), Err(HierarchyError::Geometry(_))));
}
