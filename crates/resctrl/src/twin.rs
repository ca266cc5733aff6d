//! A resctrl that behaves, in memory: the kernel's file tree with its errors, limits and races, for tests on machines
//! without one.
//!
//! A [`Twin`] is handed to a [`super::Client`] in place of the real files. Tests look at and change the machine behind
//! the client's back: [`Twin::fork`], [`Twin::adopt`], [`Twin::exit`], [`Twin::shell`] act as programs and other tools do, and
//! [`Twin::crash_after`], [`Twin::fail`] and [`Twin::before_call`] break things at a chosen moment.
//!
//! # Rules, and where the kernel has them
//!
//! Names of functions are those of `fs/resctrl/` (before Linux 6.16: `arch/x86/kernel/cpu/resctrl/`), sections those of
//! `Documentation/filesystems/resctrl.rst` (before: `Documentation/arch/x86/resctrl.rst`).
//!
//! | rule | kernel |
//! | --- | --- |
//! | a write to `schemata` or `mode` needs a newline at its end, else EINVAL and the old status text stays | `rdtgroup_schemata_write`, `rdtgroup_mode_write` |
//! | one write is taken as a whole or not at all, but with `mba_MBps` bandwidth counts at once | `rdtgroup_schemata_write`, `parse_bw` |
//! | more than a page in one write is E2BIG | `rdtgroup_kf_single_ops.atomic_write_len`, `kernfs_fop_write_iter` |
//! | masks are hexadecimal, within the full mask, in one piece unless sparse, at least so many bits | `cbm_validate`; section "Cache Bit Masks (CBM)" |
//! | bandwidth is decimal, within its range, rounded up to a step | `bw_validate`; section "Memory bandwidth Allocation" |
//! | domains are named by cache id, have gaps, and an unknown one is EINVAL without a word | `parse_line`; section "Cache IDs" |
//! | a domain may be named once in a write | `parse_cbm`, `parse_bw` |
//! | values a write does not name stay | section "Reading/writing the schemata file" |
//! | classes are the fewest of any resource, the root group takes one | `closid_init`; `num_closids` in section "Info directory" |
//! | code and data prioritisation splits a cache in two resources with half the classes | `schemata_list_add` |
//! | names in `schemata` are padded to the longest | `schemata_list_add`, `show_doms` |
//! | a new group may fill all ways that are shareable or unused, its first run where that has holes | `__init_one_rdt_domain`, `cbm_ensure_valid` |
//! | no such ways left: mkdir is ENOSPC, `No space on L3:0` | `__init_one_rdt_domain` |
//! | no class left: mkdir is ENOSPC, `Out of CLOSIDs` | `closid_alloc`, `rdtgroup_mkdir_ctrl_mon` |
//! | no monitoring id left: mkdir is ENOSPC, or EBUSY while freed ones still label cache lines, `Out of RMIDs` | `resctrl_find_free_rmid`; section "max_threshold_occupancy" |
//! | groups are made in the root, monitoring groups in `mon_groups`, else EPERM; in `info` ENODEV | `rdtgroup_mkdir`, `mkdir_rdt_prepare` |
//! | an exclusive group shares no way: its mode and others' masks are checked, code against data too | `rdtgroup_mode_test_exclusive`, `rdtgroup_cbm_overlaps` |
//! | `bit_usage` tells who uses a way | `rdt_bit_usage_show`; section "Info directory" |
//! | rmdir gives tasks back to the parent, frees ids, takes monitoring groups along; else EPERM | `rdtgroup_rmdir`, `rdtgroup_rmdir_ctrl`, `rdtgroup_rmdir_mon` |
//! | `tasks` takes a thread id; a gone one is ESRCH; lists only on newer kernels, up to the first failure | `rdtgroup_tasks_write`, `rdtgroup_move_task` |
//! | a task moved to a group leaves its monitoring group; into a monitoring group it moves within its group only | `__rdtgroup_move_task`; file `tasks` in section "Resource alloc and monitor groups" |
//! | children and threads start in their parent's group | `dup_task_struct` in `kernel/fork.c` copies class and monitoring id |
//! | `info/last_cmd_status` tells about the last mkdir or write, not about rmdir | `rdt_last_cmd_clear` and its callers |
//! | files are writable or not by their mode, for root too (EACCES) | `KERNFS_ROOT_EXTRA_OPEN_PERM_CHECK`, `kernfs_fop_open` |
//! | whoever changes several files takes `flock` on the root folder | section "Locking between applications" |
//! | `cpu_resctrl_groups` of a task names its groups | `proc_resctrl_show` |
//!
//! Not modelled, because corun uses none of it: assignment of CPUs, sizes and counters (`cpus`, `size`, `mon_data`),
//! pseudo-locking, slow memory, renaming of monitoring groups.

mod kernel;
mod schemata;
mod tasks;

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use corun_model::cache::partition::BandwidthUnit;

use super::{Files, Settings};
use kernel::Kernel;

/// Where a twin shows its resctrl.
pub const ROOT: &str = "/sys/fs/resctrl";
/// Where a twin shows its processes.
pub const PROC: &str = "/proc";
/// Where clients of a twin keep their journal; an ordinary file.
const JOURNAL: &str = "/run/corun/partition.json";

/// What the machine behind a twin is made of.
#[derive(Clone, Debug)]
pub struct Spec {
    /// Caches that can be partitioned, outermost first.
    pub caches: Vec<CacheSpec>,
    /// Memory bandwidth, if it can be limited.
    pub bandwidth: Option<BandwidthSpec>,
    /// Monitoring ids; `None` for a machine that cannot monitor.
    pub monitors: Option<u32>,
    /// Whether freed monitoring ids stay unusable until [`Twin::age_monitors`].
    pub limbo: bool,
    /// Whether `tasks` takes several ids in one write, as kernels from 6.7 on do.
    pub task_lists: bool,
    /// Whether `/proc` names the groups of a task (`CONFIG_PROC_CPU_RESCTRL`).
    pub proc_groups: bool,
}

/// One kind of cache.
#[derive(Clone, Debug)]
pub struct CacheSpec {
    /// 2 or 3.
    pub level: u8,
    /// Ways, at most 32.
    pub ways: u32,
    /// `min_cbm_bits`.
    pub ways_min: u32,
    /// `sparse_masks`.
    pub sparse: bool,
    /// `shareable_bits`.
    pub hardware: u32,
    /// Classes of the hardware, before code and data prioritisation halves them.
    pub classes: u32,
    /// Cache ids.
    pub domains: Vec<u32>,
    /// Mounted with `cdp` or `cdpl2`.
    pub code_and_data: bool,
}

/// Memory bandwidth.
#[derive(Clone, Debug)]
pub struct BandwidthSpec {
    /// Percent on Intel; the mount option `mba_MBps` makes it megabytes; AMD is not linear.
    pub unit: BandwidthUnit,
    /// `min_bandwidth`.
    pub minimum: u32,
    /// `bandwidth_gran`.
    pub step: u32,
    /// Classes of the hardware.
    pub classes: u32,
    /// Cache ids.
    pub domains: Vec<u32>,
}

impl Spec {
    /// Two sockets of 11 ways, devices in the upper two, masks in one piece, bandwidth in steps of ten percent.
    pub fn xeon() -> Self {
        Self {
            caches: vec![CacheSpec {
                level: 3,
                ways: 11,
                ways_min: 1,
                sparse: false,
                hardware: 0x600,
                classes: 16,
                domains: vec![0, 1],
                code_and_data: false,
            }],
            bandwidth: Some(BandwidthSpec {
                unit: BandwidthUnit::Percent,
                minimum: 10,
                step: 10,
                classes: 8,
                domains: vec![0, 1],
            }),
            monitors: Some(32),
            limbo: false,
            task_lists: true,
            proc_groups: true,
        }
    }

    /// Many small caches with gaps between their ids, masks with holes, bandwidth in eighths of a gigabyte.
    pub fn epyc() -> Self {
        Self {
            caches: vec![CacheSpec {
                level: 3,
                ways: 16,
                ways_min: 1,
                sparse: true,
                hardware: 0,
                classes: 16,
                domains: vec![0, 1, 4, 9],
                code_and_data: false,
            }],
            bandwidth: Some(BandwidthSpec {
                unit: BandwidthUnit::NonLinear,
                minimum: 0,
                step: 1,
                classes: 16,
                domains: vec![0, 1, 4, 9],
            }),
            monitors: Some(64),
            limbo: false,
            task_lists: true,
            proc_groups: true,
        }
    }

    /// An early part: 20 ways, masks of two ways or more, four classes, no monitoring, an old kernel.
    pub fn haswell() -> Self {
        Self {
            caches: vec![CacheSpec {
                level: 3,
                ways: 20,
                ways_min: 2,
                sparse: false,
                hardware: 0xc0000,
                classes: 4,
                domains: vec![0],
                code_and_data: false,
            }],
            bandwidth: None,
            monitors: None,
            limbo: false,
            task_lists: false,
            proc_groups: false,
        }
    }
}

/// Something that happens on the machine while a client works.
#[derive(Clone, Copy, Debug)]
pub enum Event {
    /// A task ends.
    Exit(u32),
    /// A task starts a thread.
    Thread(u32),
    /// A task forks a process.
    Fork(u32),
}

/// The machine; clones are handles on the same one.
#[derive(Clone, Debug)]
pub struct Twin(Arc<Mutex<State>>);

#[derive(Debug)]
struct State {
    kernel: Kernel,
    /// Files outside the kernel's trees.
    files: BTreeMap<PathBuf, String>,
    /// Holders of the lock on the root folder.
    shared: u32,
    exclusive: bool,
    /// The client's process; locks of an earlier one mean nothing any more.
    incarnation: u32,
    /// Calls and effects of clients so far.
    calls: u64,
    effects: u64,
    crash_at: Option<u64>,
    dead: bool,
    faults: BTreeMap<u64, i32>,
    events: BTreeMap<u64, Vec<Event>>,
}

/// A client's lock on the root folder; dropping releases it.
#[derive(Debug)]
pub struct TwinLock {
    twin: Twin,
    exclusive: bool,
    incarnation: u32,
}

impl Twin {
    /// A freshly booted machine with resctrl mounted. Task 1 is its first process.
    ///
    /// # Panics
    /// When the description is of no machine: no domain, more than 32 ways, a first mask that is not allowed.
    pub fn new(spec: Spec) -> Self {
        Self(Arc::new(Mutex::new(State {
            kernel: Kernel::new(spec),
            files: BTreeMap::new(),
            shared: 0,
            exclusive: false,
            incarnation: 0,
            calls: 0,
            effects: 0,
            crash_at: None,
            dead: false,
            faults: BTreeMap::new(),
            events: BTreeMap::new(),
        })))
    }

    /// Settings for a client of this machine; it does not wait for locks.
    pub fn settings(&self) -> Settings {
        Settings {
            root: ROOT.into(),
            proc: PROC.into(),
            journal: JOURNAL.into(),
            lock_wait: std::time::Duration::ZERO,
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // A failed assertion elsewhere must not hide what the machine looked like.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A task forks: a new process in the same groups. Its id.
    ///
    /// # Panics
    /// When there is no such task.
    pub fn fork(&self, task: u32) -> u32 {
        self.state().kernel.start(task, false).expect("a living task")
    }

    /// A process that has a number already, one of the machine's, say: a child of `parent`, in the same groups. One that is known stays as
    /// it is.
    pub fn adopt(&self, process: u32, parent: u32) {
        self.state().kernel.adopt(process, parent);
    }

    /// A task starts a thread: in the same process, in the same groups. Its id.
    ///
    /// # Panics
    /// When there is no such task.
    pub fn thread(&self, task: u32) -> u32 {
        self.state().kernel.start(task, true).expect("a living task")
    }

    /// A task ends; a process's first task takes its threads along.
    pub fn exit(&self, task: u32) {
        self.state().kernel.exit(task);
    }

    /// Living tasks.
    pub fn tasks(&self) -> BTreeSet<u32> {
        self.state().kernel.tasks.keys().copied().collect()
    }

    /// The group of a living task: empty for the root group, `group`, or `group/mon_groups/name`.
    pub fn group_of(&self, task: u32) -> Option<String> {
        self.state().kernel.group_of(task)
    }

    /// What another tool sees or does, outside of all crashes and counts: reads the file of this path below the root.
    ///
    /// # Errors
    /// As the kernel answers.
    pub fn peek(&self, path: &str) -> io::Result<String> {
        answer(self.state().kernel.read(&parts(path)))
    }

    /// Another tool writes to the file of this path below the root.
    ///
    /// # Errors
    /// As the kernel answers.
    pub fn shell(&self, path: &str, text: &str) -> io::Result<()> {
        answer(self.state().kernel.write(&parts(path), text))
    }

    /// Another tool makes the folder of this path below the root.
    ///
    /// # Errors
    /// As the kernel answers.
    pub fn mkdir(&self, path: &str) -> io::Result<()> {
        answer(self.state().kernel.mkdir(&parts(path)))
    }

    /// Another tool removes the folder of this path below the root.
    ///
    /// # Errors
    /// As the kernel answers.
    pub fn rmdir(&self, path: &str) -> io::Result<()> {
        answer(self.state().kernel.rmdir(&parts(path)))
    }

    /// Folders and files of a folder below the root, folders first.
    ///
    /// # Errors
    /// As the kernel answers.
    pub fn entries(&self, path: &str) -> io::Result<(Vec<String>, Vec<String>)> {
        answer(self.state().kernel.entries(&parts(path)))
    }

    /// Names of all groups but the root group, monitoring groups as `group/mon_groups/name`.
    pub fn groups(&self) -> BTreeSet<String> {
        self.state().kernel.group_names()
    }

    /// Unmounts resctrl: all groups vanish, all limits are lifted. [`Twin::mount`] mounts it afresh.
    pub fn unmount(&self) {
        self.state().kernel.unmount();
    }

    /// Mounts resctrl again.
    pub fn mount(&self) {
        self.state().kernel.mounted = true;
    }

    /// Freed monitoring ids become usable: their cache lines are gone.
    pub fn age_monitors(&self) {
        self.state().kernel.age_monitors();
    }

    /// The last CPU of a cache goes offline, and the domain with it.
    pub fn offline(&self, domain: u32) {
        self.state().kernel.offline(domain);
    }

    /// Checks what must hold of any kernel at any time.
    ///
    /// # Panics
    /// When it does not: the twin itself is at fault.
    pub fn check(&self) {
        self.state().kernel.check();
    }

    /// An ordinary file's text; `None` if there is none.
    pub fn file(&self, path: &Path) -> Option<String> {
        self.state().files.get(path).cloned()
    }

    /// Writes an ordinary file behind the client's back.
    pub fn set_file(&self, path: &Path, text: &str) {
        self.state().files.insert(path.to_owned(), text.to_owned());
    }

    /// Effects of clients so far: writes, folders made or removed, steps of replacing a file.
    pub fn effects(&self) -> u64 {
        self.state().effects
    }

    /// Calls of clients so far, reads included.
    pub fn calls(&self) -> u64 {
        self.state().calls
    }

    /// Kills the client after `effects` more effects: the next one, and every call after it, fails without any effect.
    pub fn crash_after(&self, effects: u64) {
        let mut state = self.state();
        state.crash_at = Some(state.effects + effects);
    }

    /// A new client after a kill: locks of the old one are gone, calls work again. Says whether there was a kill.
    pub fn restart(&self) -> bool {
        let mut state = self.state();
        state.incarnation += 1;
        (state.shared, state.exclusive, state.crash_at) = (0, false, None);
        std::mem::take(&mut state.dead)
    }

    /// Lets the effect after `effects` more fail with this error number, without any effect.
    pub fn fail(&self, effects: u64, errno: i32) {
        let mut state = self.state();
        let at = state.effects + effects;
        state.faults.insert(at, errno);
    }

    /// Forgets failures and events that were set and have not come to pass.
    pub fn calm(&self) {
        let mut state = self.state();
        state.faults.clear();
        state.events.clear();
        state.crash_at = None;
    }

    /// Something happens before the call after `calls` more.
    pub fn before_call(&self, calls: u64, event: Event) {
        let mut state = self.state();
        let at = state.calls + calls;
        state.events.entry(at).or_default().push(event);
    }
}

impl State {
    /// Every call of a client starts here.
    fn call(&mut self) -> io::Result<()> {
        for event in self.events.remove(&self.calls).unwrap_or_default() {
            // Events of tasks that are gone by then come to nothing.
            match event {
                Event::Exit(task) => self.kernel.exit(task),
                Event::Thread(task) => drop(self.kernel.start(task, true)),
                Event::Fork(task) => drop(self.kernel.start(task, false)),
            }
        }
        self.calls += 1;
        if self.dead { Err(killed()) } else { Ok(()) }
    }

    /// Every effect starts here, after [`State::call`].
    fn effect(&mut self) -> io::Result<()> {
        let number = self.effects;
        if self.dead || self.crash_at.is_some_and(|at| number >= at) {
            self.dead = true;
            return Err(killed());
        }
        self.effects += 1;
        match self.faults.remove(&number) {
            Some(errno) => Err(io::Error::from_raw_os_error(errno)),
            None => Ok(()),
        }
    }
}

/// What a killed process would see if it still could.
fn killed() -> io::Error {
    io::Error::other("the process was killed")
}

fn answer<T>(result: Result<T, i32>) -> io::Result<T> {
    result.map_err(io::Error::from_raw_os_error)
}

/// The parts of a path below the root.
fn parts(path: &str) -> Vec<&str> {
    path.split('/').filter(|part| !part.is_empty()).collect()
}

/// A path as the parts below one of the kernel's trees; `None` for ordinary files.
fn below<'a>(tree: &str, path: &'a Path) -> Option<Vec<&'a str>> {
    let path = path.to_str()?.strip_prefix(tree)?;
    (path.is_empty() || path.starts_with('/')).then(|| parts(path))
}

impl Files for Twin {
    type Lock = TwinLock;

    fn read(&self, path: &Path) -> io::Result<String> {
        let mut state = self.state();
        state.call()?;
        if let Some(parts) = below(ROOT, path) {
            answer(state.kernel.read(&parts))
        } else if let Some(parts) = below(PROC, path) {
            answer(state.kernel.read_proc(&parts))
        } else {
            answer(state.files.get(path).cloned().ok_or(libc::ENOENT))
        }
    }

    fn write(&self, path: &Path, text: &str) -> io::Result<()> {
        let mut state = self.state();
        state.call()?;
        state.effect()?;
        match below(ROOT, path) {
            Some(parts) => answer(state.kernel.write(&parts, text)),
            None => Err(io::Error::from_raw_os_error(libc::EACCES)),
        }
    }

    fn check_writable(&self, path: &Path) -> io::Result<()> {
        // Every file that is there can be opened for writing by root, but for those the kernel only shows.
        match path.file_name().and_then(|name| name.to_str()) {
            Some("tasks" | "schemata" | "mode") => self.read(path).map(drop),
            _ => Err(io::Error::from_raw_os_error(libc::EACCES)),
        }
    }

    fn folders(&self, path: &Path) -> io::Result<Vec<String>> {
        let mut state = self.state();
        state.call()?;
        if let Some(parts) = below(ROOT, path) {
            answer(state.kernel.entries(&parts).map(|(folders, _)| folders))
        } else if let Some(parts) = below(PROC, path) {
            answer(state.kernel.folders_proc(&parts))
        } else {
            Err(io::Error::from_raw_os_error(libc::ENOENT))
        }
    }

    fn make_folder(&self, path: &Path) -> io::Result<()> {
        let mut state = self.state();
        state.call()?;
        state.effect()?;
        match below(ROOT, path) {
            Some(parts) => answer(state.kernel.mkdir(&parts)),
            None => Err(io::Error::from_raw_os_error(libc::EACCES)),
        }
    }

    fn remove_folder(&self, path: &Path) -> io::Result<()> {
        let mut state = self.state();
        state.call()?;
        state.effect()?;
        match below(ROOT, path) {
            Some(parts) => answer(state.kernel.rmdir(&parts)),
            None => Err(io::Error::from_raw_os_error(libc::EACCES)),
        }
    }

    fn replace(&self, path: &Path, text: &str) -> io::Result<()> {
        let mut state = self.state();
        state.call()?;
        let unfinished = super::files::unfinished(path);
        // A kill can leave half of the new text beside the old one, or all of it, but never half of it in its place.
        for so_far in [&text[..text.len() / 2], text] {
            state.effect()?;
            state.files.insert(unfinished.clone(), so_far.to_owned());
        }
        state.effect()?;
        let text = state.files.remove(&unfinished).unwrap_or_default();
        state.files.insert(path.to_owned(), text);
        Ok(())
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        let mut state = self.state();
        state.call()?;
        for file in [super::files::unfinished(path), path.to_owned()] {
            if state.files.contains_key(&file) {
                state.effect()?;
                state.files.remove(&file);
            }
        }
        Ok(())
    }

    fn try_lock(&self, folder: &Path, exclusive: bool) -> io::Result<Option<TwinLock>> {
        let mut state = self.state();
        state.call()?;
        if below(ROOT, folder).is_none_or(|parts| !parts.is_empty()) {
            return Err(io::Error::from_raw_os_error(libc::ENOENT));
        }
        if state.exclusive || (exclusive && state.shared > 0) {
            return Ok(None);
        }
        if exclusive {
            state.exclusive = true;
        } else {
            state.shared += 1;
        }
        Ok(Some(TwinLock {
            twin: self.clone(),
            exclusive,
            incarnation: state.incarnation,
        }))
    }
}

impl Drop for TwinLock {
    fn drop(&mut self) {
        let mut state = self.twin.state();
        if state.incarnation != self.incarnation {
            return;
        }
        if self.exclusive {
            state.exclusive = false;
        } else {
            state.shared -= 1;
        }
    }
}
