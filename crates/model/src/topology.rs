//! What a machine is made of, as plain data: packages, cores, CPUs, caches, memory and the facilities around them.
//!
//! The machine crate fills a [`Topology`] from sysfs, procfs and cpuid; everything that decides (placement, table
//! sizing, capability reports) reads it. A field that could not be found out is `None` or empty, and
//! [`Topology::problems`] says why: absent is never written as zero.
//!
//! Not here: anything measured. A VM may report a last-level cache it never gets to use; see [`crate::knee`].

use serde::{Deserialize, Serialize};

use crate::units::{Bytes, CacheLines, CpuId, Ways};

/// One machine as the operating system describes it.
///
/// ```text
/// package 0 ── core 0 ── cpu 0, cpu 4 (SMT siblings) ── L1d, L1i, L2 of that core ─┐
///           └─ core 1 ── cpu 1, cpu 5 ──────────────── L1d, L1i, L2 of that core ─┴─ L3 (shared_cpus = 0,1,4,5)
/// ```
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Topology {
    /// `GenuineIntel`, `AuthenticAMD`, ...
    pub vendor: Option<String>,
    /// The CPU's marketing name.
    pub model_name: Option<String>,
    /// `x86_64`, `aarch64`, ... of the running program.
    pub architecture: String,
    /// Every CPU the kernel knows as present, ascending, offline ones included.
    pub cpus: Vec<LogicalCpu>,
    /// Physical cores with at least one online CPU, ordered by their first CPU.
    pub cores: Vec<Core>,
    /// Sockets with at least one online CPU.
    pub packages: Vec<Package>,
    /// Every distinct cache, ordered by level, kind and first CPU.
    pub caches: Vec<Cache>,
    /// Main memory.
    pub memory: Memory,
    /// Memory nodes; empty where the kernel does not say.
    pub numa_nodes: Vec<NumaNode>,
    /// Huge page support.
    pub huge_pages: HugePages,
    /// Cache partitioning by the kernel.
    pub resctrl: Resctrl,
    /// Hardware performance counters.
    pub pmu: Pmu,
    /// The hypervisor below, if any.
    pub hypervisor: Option<Hypervisor>,
    /// Vector instruction sets and other features the program cares about, lower case, sorted.
    pub simd: Vec<String>,
    /// CPU time this process may use, in CPUs, when a control group limits it.
    pub cpu_quota: Option<f64>,
    /// What could not be read, in words; the rest of the topology is still valid.
    pub problems: Vec<String>,
}

/// One hardware thread.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LogicalCpu {
    /// The kernel's number.
    pub id: CpuId,
    /// Offline CPUs have no place in cores, packages or caches.
    pub online: bool,
    /// Whether this process may run on it (affinity mask, control group).
    pub allowed: bool,
    /// Socket number.
    pub package: Option<u32>,
    /// Core number within the package, as the firmware gives it; may have gaps.
    pub core: Option<u32>,
    /// Memory node.
    pub numa_node: Option<u32>,
}

/// One physical core.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Core {
    /// Socket number.
    pub package: u32,
    /// Core number within the package.
    pub id: u32,
    /// Which kind of core on a hybrid part.
    pub kind: CoreKind,
    /// Its hardware threads; more than one means SMT siblings.
    pub cpus: Vec<CpuId>,
}

/// Kinds of cores.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CoreKind {
    /// All cores are alike.
    #[default]
    Uniform,
    /// The fast kind of a hybrid part.
    Performance,
    /// The small kind of a hybrid part.
    Efficiency,
}

/// One socket.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Package {
    /// Socket number.
    pub id: u32,
    /// Its online CPUs.
    pub cpus: Vec<CpuId>,
}

/// What a cache holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CacheKind {
    /// Data only.
    Data,
    /// Instructions only.
    Instruction,
    /// Both.
    Unified,
}

/// One cache, with everybody who shares it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Cache {
    /// The kernel's id, the domain number in resctrl schemata; may have gaps.
    pub id: Option<u32>,
    /// 1, 2, 3, ...
    pub level: u8,
    /// What it holds.
    pub kind: CacheKind,
    /// Capacity.
    pub size: Bytes,
    /// Associativity; `None` where unknown, and for fully associative caches the number of lines.
    pub ways: Option<Ways>,
    /// Line size.
    pub line: Bytes,
    /// Number of sets.
    pub sets: Option<u32>,
    /// Online CPUs that share it.
    pub shared_cpus: Vec<CpuId>,
    /// Where the numbers come from.
    pub source: CacheSource,
}

/// Who described a cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CacheSource {
    /// The kernel's cache folders.
    Sysfs,
    /// The CPU itself; sharing is derived from APIC ids.
    Cpuid,
}

impl Cache {
    /// Capacity in cache lines.
    pub fn lines(&self) -> CacheLines {
        self.size.whole_lines(self.line)
    }

    /// Whether this cache serves data accesses.
    pub fn holds_data(&self) -> bool {
        self.kind != CacheKind::Instruction
    }

    /// `L1d`, `L1i`, `L2`, `L3`.
    pub fn name(&self) -> String {
        let suffix = match self.kind {
            CacheKind::Data => "d",
            CacheKind::Instruction => "i",
            CacheKind::Unified => "",
        };
        format!("L{}{suffix}", self.level)
    }
}

/// Main memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Memory {
    /// Installed memory the kernel manages.
    pub total: Option<Bytes>,
    /// What the kernel believes can be allocated without swapping.
    pub available: Option<Bytes>,
    /// The limit of this process's control group, if below `total`.
    pub limit: Option<Bytes>,
    /// Base page size.
    pub page: Option<Bytes>,
}

/// One memory node.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct NumaNode {
    /// Node number; may have gaps.
    pub id: u32,
    /// CPUs next to it; empty for memory-only nodes.
    pub cpus: Vec<CpuId>,
    /// Its memory.
    pub memory: Option<Bytes>,
}

/// Huge page support.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct HugePages {
    /// Transparent huge pages; `None` where the kernel has none.
    pub transparent: Option<ThpMode>,
    /// Size of a transparent huge page.
    pub transparent_page: Option<Bytes>,
    /// Reserved pools, by page size.
    pub pools: Vec<HugePagePool>,
}

/// When the kernel backs memory with transparent huge pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ThpMode {
    /// Everywhere.
    Always,
    /// Where a program asks with `madvise`, which corun does.
    Madvise,
    /// Nowhere.
    Never,
}

/// A pool of reserved huge pages (hugetlb).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HugePagePool {
    /// Page size.
    pub page: Bytes,
    /// Pages reserved.
    pub total: u64,
    /// Pages nobody uses.
    pub free: u64,
}

/// The kernel's cache partitioning.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Resctrl {
    /// The kernel can mount it.
    pub in_kernel: bool,
    /// Where it is mounted.
    pub mounted: Option<String>,
    /// The CPU's own flags: `cat_l3`, `cdp_l3`, `cat_l2`, `mba`, `cqm_llc`, ...
    pub cpu_flags: Vec<String>,
    /// Resources that can be partitioned, known only while mounted.
    pub resources: Vec<ResctrlResource>,
    /// What stands in the way of using it; empty means usable.
    pub missing: Vec<String>,
}

/// One resource under `info/` of a mounted resctrl.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ResctrlResource {
    /// `L3`, `L3CODE` and `L3DATA` (code and data prioritisation is on), `L2`, ...
    pub name: String,
    /// Ways of the full mask.
    pub ways: Option<Ways>,
    /// Fewest ways a mask may have.
    pub ways_min: Option<Ways>,
    /// Classes of service, the root included.
    pub classes: Option<u32>,
    /// Masks may have holes.
    pub sparse_masks: bool,
}

/// Hardware performance counters.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Pmu {
    /// Counter units of the cores the kernel drives: `cpu`, or `cpu_core` and `cpu_atom`.
    pub devices: Vec<String>,
    /// `perf_event_paranoid`; above 2, ordinary users may measure nothing.
    pub paranoid: Option<i32>,
    /// Whether counting cycles of this process worked when tried; `None` when it was not tried.
    pub opened: Option<bool>,
    /// What stands in the way; empty means usable.
    pub missing: Vec<String>,
}

/// The virtual machine monitor this machine runs on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hypervisor {
    /// `KVM`, `VMware`, ..., or `unknown`.
    pub name: String,
    /// What said so, in words.
    pub evidence: String,
}

impl Topology {
    /// CPUs this process can really use: online and allowed, ascending.
    pub fn usable_cpus(&self) -> Vec<CpuId> {
        self.cpus
            .iter()
            .filter(|cpu| cpu.online && cpu.allowed)
            .map(|cpu| cpu.id)
            .collect()
    }

    /// The core a CPU belongs to.
    pub fn core_of(&self, cpu: CpuId) -> Option<&Core> {
        self.cores.iter().find(|core| core.cpus.contains(&cpu))
    }

    /// Whether the two are hardware threads of one core, by the kernel's word.
    pub fn are_siblings(&self, a: CpuId, b: CpuId) -> bool {
        a != b && self.core_of(a).is_some_and(|core| core.cpus.contains(&b))
    }

    /// The data cache of this level a CPU uses.
    pub fn cache_of(&self, cpu: CpuId, level: u8) -> Option<&Cache> {
        self.caches
            .iter()
            .find(|cache| cache.level == level && cache.holds_data() && cache.shared_cpus.contains(&cpu))
    }

    /// The outermost data cache a CPU uses, by the kernel's word.
    pub fn last_level_cache_of(&self, cpu: CpuId) -> Option<&Cache> {
        self.caches
            .iter()
            .filter(|c| c.holds_data() && c.shared_cpus.contains(&cpu))
            .max_by_key(|c| c.level)
    }

    /// Size of the data cache of this level of the first usable CPU.
    pub fn cache_bytes(&self, level: u8) -> Option<Bytes> {
        self.usable_cpus()
            .first()
            .and_then(|&cpu| self.cache_of(cpu, level))
            .map(|cache| cache.size)
    }

    /// Size of the outermost data cache of the first usable CPU, as reported, not as measured.
    pub fn last_level_cache_bytes(&self) -> Option<Bytes> {
        self.usable_cpus()
            .first()
            .and_then(|&cpu| self.last_level_cache_of(cpu))
            .map(|cache| cache.size)
    }

    /// The last-level cache to plan with before anybody has measured it; `None` if none is described.
    ///
    /// On bare metal the reported size. Under a hypervisor at most 4 MiB a usable CPU, and 8 MiB in all if that is more:
    /// cautious, because neighbours share it (one virtual machine that reports 260 MiB has an effective 80 to 120 at rest).
    pub fn planning_llc_bytes(&self) -> Option<Bytes> {
        let reported = self.last_level_cache_bytes()?;
        if self.hypervisor.is_none() {
            return Some(reported);
        }
        let share = Bytes::mib(4 * self.usable_cpus().len() as u64).max(Bytes::mib(8));
        Some(reported.min(share))
    }

    /// Cache line size; 64 bytes where nobody says.
    pub fn line_bytes(&self) -> Bytes {
        self.caches
            .iter()
            .find(|c| c.holds_data() && c.line.0 > 0)
            .map_or(Bytes(64), |cache| cache.line)
    }

    /// Usable CPUs in the order threads should be placed: one of each core first, fast cores before small ones, then
    /// the SMT siblings.
    pub fn placement_order(&self) -> Vec<CpuId> {
        let mut ranked: Vec<(usize, u8, CpuId)> = self
            .usable_cpus()
            .into_iter()
            .map(|cpu| match self.core_of(cpu) {
                Some(core) => {
                    let usable =
                        |other: &&CpuId| self.cpus.iter().any(|c| c.id == **other && c.online && c.allowed);
                    let thread = core
                        .cpus
                        .iter()
                        .filter(usable)
                        .position(|&other| other == cpu)
                        .unwrap_or(0);
                    (thread, u8::from(core.kind == CoreKind::Efficiency), cpu)
                }
                None => (0, 0, cpu),
            })
            .collect();
        ranked.sort_unstable();
        ranked.into_iter().map(|(_, _, cpu)| cpu).collect()
    }

    /// How close two CPUs are, by what they share.
    pub fn relation(&self, a: CpuId, b: CpuId) -> Relation {
        let package = |cpu| self.cpus.iter().find(|c| c.id == cpu).and_then(|c| c.package);
        let shares = |level| {
            self.cache_of(a, level)
                .is_some_and(|cache| cache.shared_cpus.contains(&b))
        };
        if self.are_siblings(a, b) {
            Relation::SmtSiblings
        } else if shares(2) && self.last_level_cache_of(a).is_some_and(|llc| llc.level > 2) {
            Relation::SameL2
        } else if self
            .last_level_cache_of(a)
            .is_some_and(|llc| llc.shared_cpus.contains(&b))
        {
            Relation::SameLlc
        } else if package(a) == package(b) {
            Relation::SamePackage
        } else {
            Relation::OtherPackage
        }
    }
}

/// How close two CPUs are, nearest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Relation {
    /// Threads of one core.
    SmtSiblings,
    /// Cores of one cluster with a common second-level cache.
    SameL2,
    /// Cores under one last-level cache.
    SameLlc,
    /// Cores of one socket with different last-level caches.
    SamePackage,
    /// Cores of different sockets.
    OtherPackage,
}

/// At most `pairs_max` pairs of `cpus` worth measuring, nearest relations first in turn.
///
/// Every relation that occurs is represented before any gets its second pair: on a large server all pairs would take
/// minutes, and pairs of one relation behave alike.
pub fn representative_pairs(
    topology: &Topology,
    cpus: &[CpuId],
    pairs_max: usize,
) -> Vec<(CpuId, CpuId, Relation)> {
    let mut by_relation: Vec<(Relation, Vec<(CpuId, CpuId)>)> = Vec::new();
    for (i, &a) in cpus.iter().enumerate() {
        for &b in &cpus[i + 1..] {
            let relation = topology.relation(a, b);
            match by_relation.iter_mut().find(|(known, _)| *known == relation) {
                Some((_, pairs)) if pairs.len() < pairs_max => pairs.push((a, b)),
                Some(_) => {}
                None => by_relation.push((relation, vec![(a, b)])),
            }
        }
    }
    by_relation.sort_unstable_by_key(|(relation, _)| *relation);
    let rounds = by_relation
        .iter()
        .map(|(_, pairs)| pairs.len())
        .max()
        .unwrap_or(0);
    let in_turn = (0..rounds).flat_map(|round| {
        by_relation
            .iter()
            .filter_map(move |(relation, pairs)| pairs.get(round).map(|&(a, b)| (a, b, *relation)))
    });
    in_turn.take(pairs_max).collect()
}
