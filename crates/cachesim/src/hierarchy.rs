//! The caches of a machine as its threads share them, counting misses by thread and level.
//!
//! ```text
//!   Sharing::Siblings               Sharing::Cores
//!
//!   worker 0   helper               worker 0   helper
//!        \      /                      │          │
//!       L1 ── L2                    L1 ── L2   L1 ── L2     private: one set of caches for each role that shows up
//!          │                            \        /
//!         LLC                              LLC              shared
//! ```
//!
//! An access asks level after level until one has the line; every level asked without success then holds it too. No level
//! includes another by force: a line that leaves the outer one may stay in the inner one. A store takes the line away from the
//! other cores' private levels, which is all the coherence there is. Writing back costs nothing here and is not counted.
//!
//! **Hardware prefetchers are not modelled.** Sequential streams, which real machines prefetch, miss here once a line. Simulated
//! misses of operators that scan (column-wise storage, clustered probe streams) are therefore an upper bound, those of random
//! probes are not affected; compare modes of one operator over one stream, not scans with probes.
//!
//! Not here: one cache by itself ([`crate::cache`]), time.

use corun_model::operators::trace::{Access, Event, Sink, ThreadRole};
use corun_model::topology::Topology;
use corun_model::units::{Bytes, Ways};

use crate::cache::{Geometry, GeometryError, SetAssociative};

/// Ways of a level nearer than the third where nobody says. Unmeasured: what such caches mostly have.
const WAYS_INNER_FALLBACK: u32 = 8;
/// Ways of the third level and beyond where nobody says. Unmeasured, likewise.
const WAYS_OUTER_FALLBACK: u32 = 16;
/// Line where a topology gives none that can be.
const LINE_BYTES_FALLBACK: u64 = 64;
/// Workers a role can name, and the helper.
const ROLES: usize = 257;

/// One level of the machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Level {
    /// 1 for L1, 2 for L2, ...
    pub level: u8,
    /// Size and shape of each cache of this level.
    pub geometry: Geometry,
    /// How many of them there are.
    pub scope: Scope,
}

/// Who uses one cache of a level.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// The hardware threads of one core.
    Core,
    /// Every core.
    Machine,
}

/// Where the threads of a trace run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sharing {
    /// All on hardware threads of one core: they share every level.
    Siblings,
    /// Each on a core of its own: they share levels of [`Scope::Machine`] only.
    Cores,
}

/// What one thread did at one level.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Lines loaded or stored that were looked up here, because all nearer levels missed. An access that spans lines counts once
    /// for each. Prefetches are not among them.
    pub accesses: u64,
    /// Those that were not here.
    pub misses: u64,
    /// Lines that a prefetch brought here. A later load or store of one is a hit.
    pub prefetched: u64,
    /// Lines this thread's core lost here because another core stored to them.
    pub invalidations: u64,
}

/// A machine that cannot be simulated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HierarchyError {
    /// Nothing to look up.
    #[error("no data cache is described: at least one level is needed")]
    NoLevels,
    /// Levels not ascending by number.
    #[error("level {after} stands after level {before}: levels must ascend")]
    Order {
        /// The level before.
        before: u8,
        /// The level after it.
        after: u8,
    },
    /// An inner level has longer lines than an outer one, so that one fill would be several.
    #[error("level {level} has shorter lines than a level nearer to the core")]
    LineShrinks {
        /// The outer level.
        level: u8,
    },
    /// A private level behind a shared one.
    #[error("level {level} is private, but a level nearer to the core is shared")]
    PrivateBehindShared {
        /// The outer level.
        level: u8,
    },
    /// One of the caches cannot exist.
    #[error(transparent)]
    Geometry(#[from] GeometryError),
}

/// The simulated machine; see the module's text.
#[derive(Clone, Debug)]
pub struct Hierarchy {
    // Fixed.
    levels: Vec<Level>,
    // Levels nearer than this one are private to a role's core, the others shared by all.
    private: usize,
    line_bytes: u64,
    // Changing. Roles get slots in the order they show up; `slots` maps `role_index` to one, `counters` has a row of levels for
    // each, and so has `private_caches`.
    slots: Vec<Option<u16>>,
    counters: Vec<Counters>,
    private_caches: Vec<SetAssociative>,
    shared_caches: Vec<SetAssociative>,
}

impl Hierarchy {
    /// A machine of these levels, nearest first, with empty caches.
    ///
    /// # Errors
    /// [`HierarchyError`] if there are no levels, they do not ascend, lines get shorter, or a private level follows a shared one.
    pub fn new(levels: &[Level], sharing: Sharing) -> Result<Self, HierarchyError> {
        let first = levels.first().ok_or(HierarchyError::NoLevels)?;
        for pair in levels.windows(2) {
            let [inner, outer] = [pair[0], pair[1]];
            if outer.level <= inner.level {
                return Err(HierarchyError::Order {
                    before: inner.level,
                    after: outer.level,
                });
            }
            if outer.geometry.line() < inner.geometry.line() {
                return Err(HierarchyError::LineShrinks { level: outer.level });
            }
            if inner.scope == Scope::Machine && outer.scope == Scope::Core {
                return Err(HierarchyError::PrivateBehindShared { level: outer.level });
            }
        }
        let private = match sharing {
            Sharing::Siblings => 0,
            Sharing::Cores => levels.iter().filter(|level| level.scope == Scope::Core).count(),
        };
        Ok(Self {
            levels: levels.to_vec(),
            private,
            line_bytes: first.geometry.line().0,
            slots: vec![None; ROLES],
            counters: Vec::new(),
            private_caches: Vec::new(),
            shared_caches: levels[private..]
                .iter()
                .map(|level| SetAssociative::new(level.geometry))
                .collect(),
        })
    }

    /// The machine a topology describes, with empty caches; see [`levels_of`].
    ///
    /// # Errors
    /// As [`levels_of`] and [`Hierarchy::new`].
    pub fn of(topology: &Topology, sharing: Sharing) -> Result<Self, HierarchyError> {
        Self::new(&levels_of(topology)?, sharing)
    }

    /// The levels, nearest first.
    pub fn levels(&self) -> &[Level] {
        &self.levels
    }

    /// Replays one access. One of zero bytes touches nothing; one past the end of the address space ends there.
    pub fn event(&mut self, event: &Event) {
        if event.bytes == 0 {
            return;
        }
        let slot = self.slot(event.role);
        let last = event.address.saturating_add(u64::from(event.bytes) - 1);
        let mut address = event.address;
        loop {
            self.line(slot, event.access, address);
            // The last byte of this line; the next line starts behind it.
            let end = address | (self.line_bytes - 1);
            if end >= last {
                break;
            }
            address = end + 1;
        }
    }

    /// A sink for the accesses of one thread, for operators that run while they are simulated.
    pub fn sink(&mut self, role: ThreadRole) -> RoleSink<'_> {
        RoleSink {
            hierarchy: self,
            role,
        }
    }

    /// What a thread did at a level; all zero if it did nothing, `None` if there is no such level.
    pub fn counters(&self, role: ThreadRole, level: u8) -> Option<Counters> {
        let at = self.levels.iter().position(|known| known.level == level)?;
        Some(match self.slots[role_index(role)] {
            Some(slot) => self.counters[usize::from(slot) * self.levels.len() + at],
            None => Counters::default(),
        })
    }

    /// One access within one line of the first level.
    #[inline]
    fn line(&mut self, slot: usize, access: Access, address: u64) {
        let depth = self.levels.len();
        let own = &mut self.private_caches[slot * self.private..(slot + 1) * self.private];
        let counters = &mut self.counters[slot * depth..(slot + 1) * depth];
        for (cache, counters) in own.iter_mut().chain(&mut self.shared_caches).zip(counters) {
            let hit = cache.access(address);
            match access {
                Access::Load | Access::Store => {
                    counters.accesses += 1;
                    counters.misses += u64::from(!hit);
                }
                Access::Prefetch => counters.prefetched += u64::from(!hit),
            }
            if hit {
                break;
            }
        }
        if access == Access::Store && self.private > 0 {
            self.take_away(slot, address);
        }
    }

    /// Drops a line from the private levels of every core but `slot`'s.
    fn take_away(&mut self, slot: usize, address: u64) {
        let depth = self.levels.len();
        for (other, caches) in self.private_caches.chunks_exact_mut(self.private).enumerate() {
            if other == slot {
                continue;
            }
            for (level, cache) in caches.iter_mut().enumerate() {
                self.counters[other * depth + level].invalidations += u64::from(cache.invalidate(address));
            }
        }
    }

    /// The slot of a role; new roles get empty counters and, where cores are their own, empty private caches.
    #[inline]
    fn slot(&mut self, role: ThreadRole) -> usize {
        match self.slots[role_index(role)] {
            Some(slot) => usize::from(slot),
            None => self.new_slot(role),
        }
    }

    #[cold]
    fn new_slot(&mut self, role: ThreadRole) -> usize {
        let slot = self.counters.len() / self.levels.len();
        // At most `ROLES` slots, far below the largest `u16`.
        self.slots[role_index(role)] = Some(slot as u16);
        self.counters
            .resize((slot + 1) * self.levels.len(), Counters::default());
        let private = self.levels[..self.private].iter();
        self.private_caches
            .extend(private.map(|level| SetAssociative::new(level.geometry)));
        slot
    }
}

/// Reports accesses of one thread to a [`Hierarchy`].
#[derive(Debug)]
pub struct RoleSink<'a> {
    hierarchy: &'a mut Hierarchy,
    role: ThreadRole,
}

impl Sink for RoleSink<'_> {
    /// As [`Hierarchy::event`]; more bytes than an event can name are cut to that many.
    fn access(&mut self, access: Access, address: usize, bytes: usize) {
        self.hierarchy.event(&Event {
            role: self.role,
            access,
            address: address as u64,
            bytes: u32::try_from(bytes).unwrap_or(u32::MAX),
        });
    }
}

fn role_index(role: ThreadRole) -> usize {
    match role {
        ThreadRole::Worker(worker) => usize::from(worker),
        ThreadRole::Helper => ROLES - 1,
    }
}

/// The data caches of the first usable CPU, as levels.
///
/// Sizes are the reported ones; where the effective last-level cache is known to be smaller, set that level's
/// [`Level::geometry`] before [`Hierarchy::new`]. What is missing or contradicts itself is filled in so: a line that cannot be
/// is 64 bytes, and none is shorter than that of the level before; ways follow from the number of sets if that is known, else they are 8 (L1, L2) or 16
/// (L3 and beyond), and never more than there are lines; a size that is no whole number of sets is rounded down to one. Caches
/// without a size are left out.
///
/// A third level and beyond is shared by all cores, even where the kernel names several: two sockets are not modelled. A nearer one
/// is shared if the topology lists CPUs of other cores for it.
///
/// # Errors
/// [`HierarchyError::NoLevels`] if no data cache with a size is described for a usable CPU; [`HierarchyError::Geometry`] if one is
/// too large to simulate.
pub fn levels_of(topology: &Topology) -> Result<Vec<Level>, HierarchyError> {
    let cpu = *topology.usable_cpus().first().ok_or(HierarchyError::NoLevels)?;
    let mut levels: Vec<Level> = Vec::new();
    for number in 1..=u8::MAX {
        let Some(cache) = topology.cache_of(cpu, number) else {
            continue;
        };
        let line = match Geometry::new(cache.line, Ways(1), cache.line) {
            Ok(_) => cache.line,
            Err(_) => Bytes(LINE_BYTES_FALLBACK),
        };
        let line = levels
            .last()
            .map_or(line, |inner| line.max(inner.geometry.line()));
        let lines = cache.size.whole_lines(line).0;
        if lines == 0 {
            continue;
        }
        let fallback = if number < 3 {
            WAYS_INNER_FALLBACK
        } else {
            WAYS_OUTER_FALLBACK
        };
        let from_sets = cache
            .sets
            .and_then(|sets| lines.checked_div(u64::from(sets)))
            .filter(|&ways| ways > 0);
        let ways = match cache.ways {
            Some(Ways(ways)) if ways > 0 => u64::from(ways),
            _ => from_sets.unwrap_or(u64::from(fallback)),
        }
        .min(lines);
        let ways = u32::try_from(ways).unwrap_or(u32::MAX);
        let set_bytes = u64::from(ways) * line.0;
        let geometry = Geometry::new(Bytes(cache.size.0 / set_bytes * set_bytes), Ways(ways), line)?;
        let same_core = |other| other == cpu || topology.are_siblings(cpu, other);
        let scope = if number < 3 && cache.shared_cpus.iter().all(|&other| same_core(other)) {
            Scope::Core
        } else {
            Scope::Machine
        };
        levels.push(Level {
            level: number,
            geometry,
            scope,
        });
    }
    if levels.is_empty() {
        return Err(HierarchyError::NoLevels);
    }
    Ok(levels)
}
