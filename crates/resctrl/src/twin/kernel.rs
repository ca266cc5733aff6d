//! The state of the kernel's resctrl, its groups and its file tree. Each rule names the function it follows.

use std::collections::{BTreeMap, BTreeSet};

use corun_model::cache::partition::BandwidthUnit;
use libc::{EACCES, EBUSY, EEXIST, EINVAL, EISDIR, ENAMETOOLONG, ENODEV, ENOENT, ENOSPC, ENOTDIR, EPERM};

use super::Spec;
use super::schemata::{Kind, Schema};
use super::tasks::Task;

/// A monitoring id nobody hands out; the root group's.
const ROOT_MONITOR: u32 = 0;
/// `RESCTRL_RESERVED_CLOSID`.
pub(super) const ROOT_CLASS: u32 = 0;
/// The longest name of a folder (`NAME_MAX`).
const NAME_BYTES_MAX: usize = 255;

/// How a group shares its ways.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mode {
    Shareable,
    Exclusive,
}

/// One control group; the first is the root group.
#[derive(Clone, Debug)]
pub(super) struct Group {
    pub(super) name: String,
    pub(super) class: u32,
    pub(super) monitor: u32,
    pub(super) mode: Mode,
    /// Monitoring groups below it, with their ids.
    pub(super) monitors: BTreeMap<String, u32>,
}

#[derive(Debug)]
pub(super) struct Kernel {
    spec: Spec,
    pub(super) mounted: bool,
    /// Lines of schemata, in the kernel's order.
    pub(super) schemas: Vec<Schema>,
    pub(super) groups: Vec<Group>,
    /// `closid_free_map`.
    free_classes: BTreeSet<u32>,
    /// `rmid_free_lru`, oldest first.
    free_monitors: Vec<u32>,
    /// Freed ids that still label cache lines.
    limbo: Vec<u32>,
    pub(super) status: String,
    pub(super) tasks: BTreeMap<u32, Task>,
    pub(super) next_task: u32,
}

/// What a path below the root means.
enum Place<'a> {
    Root,
    Info,
    /// A schema's folder, by its place in the list.
    InfoOf(usize),
    InfoMonitor,
    Group(&'a str),
    Monitors(&'a str),
    Monitor(&'a str, &'a str),
}

impl Kernel {
    pub(super) fn new(spec: Spec) -> Self {
        let mut kernel = Self {
            schemas: Schema::list(&spec),
            spec,
            mounted: true,
            groups: vec![],
            free_classes: BTreeSet::new(),
            free_monitors: vec![],
            limbo: vec![],
            status: String::new(),
            tasks: BTreeMap::from([(1, Task::first())]),
            next_task: 2,
        };
        kernel.fresh();
        kernel.check();
        kernel
    }

    /// As after mounting.
    fn fresh(&mut self) {
        self.groups = vec![Group {
            name: String::new(),
            class: ROOT_CLASS,
            monitor: ROOT_MONITOR,
            mode: Mode::Shareable,
            monitors: BTreeMap::new(),
        }];
        // `closid_init`: the fewest of all resources, of which the root group's is taken.
        let classes = self.schemas.iter().map(|schema| schema.classes).min();
        self.free_classes = (1..classes.unwrap_or(1)).collect();
        self.free_monitors = (1..self.spec.monitors.unwrap_or(1)).collect();
        self.limbo.clear();
        self.status.clear();
        for schema in &mut self.schemas {
            schema.reset();
        }
    }

    /// `rdt_kill_sb`, `rmdir_all_sub`.
    pub(super) fn unmount(&mut self) {
        self.mounted = false;
        for task in self.tasks.values_mut() {
            (task.class, task.monitor) = (ROOT_CLASS, ROOT_MONITOR);
        }
        self.fresh();
    }

    pub(super) fn age_monitors(&mut self) {
        self.free_monitors.append(&mut self.limbo);
    }

    pub(super) fn offline(&mut self, domain: u32) {
        for schema in &mut self.schemas {
            schema.domains.remove(&domain);
        }
    }

    /// `resctrl_arch_alloc_capable`.
    pub(super) fn can_allocate(&self) -> bool {
        !self.schemas.is_empty()
    }

    /// `resctrl_arch_mon_capable`.
    pub(super) fn can_monitor(&self) -> bool {
        self.spec.monitors.is_some()
    }

    /// Bandwidth is in megabytes: mounted with `mba_MBps`.
    pub(super) fn mount_options(&self) -> String {
        let mut options = "rw,relatime".to_owned();
        for cache in self.spec.caches.iter().filter(|cache| cache.code_and_data) {
            options += if cache.level == 3 { ",cdp" } else { ",cdpl2" };
        }
        let unit = self.spec.bandwidth.as_ref().map(|bandwidth| bandwidth.unit);
        if unit == Some(BandwidthUnit::Megabytes) {
            options += ",mba_MBps";
        }
        options
    }

    pub(super) fn can_list_tasks(&self) -> bool {
        self.spec.task_lists
    }

    pub(super) fn shows_groups_in_proc(&self) -> bool {
        self.spec.proc_groups
    }

    pub(super) fn group(&self, name: &str) -> Option<&Group> {
        self.groups.iter().find(|group| group.name == name)
    }

    /// `rdtgroup_mode_by_closid`: the mode of the group a class belongs to, if it belongs to one.
    pub(super) fn mode_of(&self, class: u32) -> Option<Mode> {
        self.groups
            .iter()
            .find(|group| group.class == class)
            .map(|group| group.mode)
    }

    /// Classes in use, the root group's included.
    pub(super) fn classes(&self) -> impl Iterator<Item = u32> {
        self.groups.iter().map(|group| group.class)
    }

    pub(super) fn group_names(&self) -> BTreeSet<String> {
        let mut names = BTreeSet::new();
        for group in &self.groups {
            if !group.name.is_empty() {
                names.insert(group.name.clone());
            }
            names.extend(group.monitors.keys().map(|name| group.monitor_path(name)));
        }
        names
    }

    /// What a path means; ENOENT where there is nothing.
    fn place<'a>(&self, parts: &[&'a str]) -> Result<Place<'a>, i32> {
        let missing = |there: bool| if there { Ok(()) } else { Err(ENOENT) };
        missing(self.mounted || parts.is_empty())?;
        Ok(match *parts {
            [] => Place::Root,
            ["info"] => Place::Info,
            ["info", "L3_MON"] if self.can_monitor() => Place::InfoMonitor,
            ["info", name] => {
                let schema = self.schemas.iter().position(|schema| schema.name == name);
                Place::InfoOf(schema.ok_or(ENOENT)?)
            }
            ["mon_groups"] if self.can_monitor() => Place::Monitors(""),
            ["mon_groups", monitor] => {
                missing(self.groups[0].monitors.contains_key(monitor))?;
                Place::Monitor("", monitor)
            }
            [group] => {
                missing(self.group(group).is_some())?;
                Place::Group(group)
            }
            [group, "mon_groups"] if self.can_monitor() => {
                missing(self.group(group).is_some())?;
                Place::Monitors(group)
            }
            [group, "mon_groups", monitor] => {
                missing(
                    self.group(group)
                        .is_some_and(|g| g.monitors.contains_key(monitor)),
                )?;
                Place::Monitor(group, monitor)
            }
            _ => return Err(ENOENT),
        })
    }

    /// Folders and files of a folder.
    pub(super) fn entries(&self, parts: &[&str]) -> Result<(Vec<String>, Vec<String>), i32> {
        let owned = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        let group_files = || {
            if self.can_allocate() {
                owned(&["mode", "schemata", "tasks"])
            } else {
                owned(&["tasks"])
            }
        };
        let below_group = || {
            if self.can_monitor() {
                owned(&["mon_groups"])
            } else {
                vec![]
            }
        };
        let place = match self.place(parts) {
            Err(ENOENT) if self.read(parts).is_ok() => return Err(ENOTDIR),
            place => place?,
        };
        Ok(match place {
            // An unmounted file system leaves an empty folder behind.
            Place::Root if !self.mounted => (vec![], vec![]),
            Place::Root => {
                let mut folders = below_group();
                folders.push("info".to_owned());
                folders.extend(self.groups.iter().skip(1).map(|group| group.name.clone()));
                (folders, group_files())
            }
            Place::Info => {
                let mut folders: Vec<String> =
                    self.schemas.iter().map(|schema| schema.name.clone()).collect();
                if self.can_monitor() {
                    folders.push("L3_MON".to_owned());
                }
                (folders, owned(&["last_cmd_status"]))
            }
            Place::InfoOf(schema) => (vec![], owned(self.schemas[schema].info_files())),
            Place::InfoMonitor => (vec![], owned(&["num_rmids"])),
            Place::Group(_) => (below_group(), group_files()),
            Place::Monitors(group) => {
                let monitors = &self.group(group).ok_or(ENOENT)?.monitors;
                (monitors.keys().cloned().collect(), vec![])
            }
            Place::Monitor(..) => (vec![], owned(&["tasks"])),
        })
    }

    pub(super) fn read(&self, parts: &[&str]) -> Result<String, i32> {
        let Some((&file, folder)) = parts.split_last() else {
            return Err(EISDIR);
        };
        if self.place(parts).is_ok() {
            return Err(EISDIR);
        }
        match (self.place(folder)?, file) {
            // `rdt_last_cmd_status_show`
            (Place::Info, "last_cmd_status") if self.status.is_empty() => Ok("ok\n".to_owned()),
            (Place::Info, "last_cmd_status") => Ok(self.status.clone()),
            (Place::InfoOf(schema), file) => self.schemas[schema].info(file, self).ok_or(ENOENT),
            (Place::InfoMonitor, "num_rmids") => Ok(format!("{}\n", self.spec.monitors.unwrap_or(0))),
            (Place::Root, file) => self.read_group("", file),
            (Place::Group(name), file) => self.read_group(name, file),
            (Place::Monitor(group, monitor), "tasks") => {
                let id = self.group(group).ok_or(ENOENT)?.monitors[monitor];
                Ok(self.show_tasks(|task| task.monitor == id))
            }
            _ => Err(ENOENT),
        }
    }

    fn read_group(&self, name: &str, file: &str) -> Result<String, i32> {
        let group = self.group(name).ok_or(ENOENT)?;
        match file {
            // `show_rdt_tasks`, `is_closid_match`
            "tasks" => Ok(self.show_tasks(|task| self.can_allocate() && task.class == group.class)),
            "schemata" if self.can_allocate() => Ok(self.show_schemata(group.class)),
            "mode" if self.can_allocate() => Ok(match group.mode {
                Mode::Shareable => "shareable\n".to_owned(),
                Mode::Exclusive => "exclusive\n".to_owned(),
            }),
            _ => Err(ENOENT),
        }
    }

    pub(super) fn write(&mut self, parts: &[&str], text: &str) -> Result<(), i32> {
        let Some((&file, folder)) = parts.split_last() else {
            return Err(EISDIR);
        };
        // The file must be there to be opened, and writable (`kernfs_fop_open`).
        self.read(parts)?;
        let place = self.place(folder)?;
        if text.len() > 4096 && !matches!(place, Place::Info | Place::InfoOf(_) | Place::InfoMonitor) {
            return Err(libc::E2BIG);
        }
        match (place, file) {
            (Place::Root, file) => self.write_group("", file, text),
            (Place::Group(name), file) => self.write_group(name, file, text),
            (Place::Monitor(group, monitor), "tasks") => {
                let group = self.group(group).ok_or(ENOENT)?;
                let (class, monitor) = (group.class, group.monitors[monitor]);
                self.write_tasks(text, class, monitor, true)
            }
            _ => Err(EACCES),
        }
    }

    fn write_group(&mut self, name: &str, file: &str, text: &str) -> Result<(), i32> {
        let at = self
            .groups
            .iter()
            .position(|group| group.name == name)
            .ok_or(ENOENT)?;
        let (class, monitor) = (self.groups[at].class, self.groups[at].monitor);
        match file {
            "tasks" => self.write_tasks(text, class, monitor, false),
            "schemata" => self.write_schemata(text, class),
            "mode" => self.write_mode(text, at),
            _ => Err(EACCES),
        }
    }

    /// `rdtgroup_mode_write`
    fn write_mode(&mut self, text: &str, at: usize) -> Result<(), i32> {
        let text = text.strip_suffix('\n').ok_or(EINVAL)?;
        self.status.clear();
        match text {
            "shareable" => self.groups[at].mode = Mode::Shareable,
            "exclusive" if self.groups[at].mode == Mode::Exclusive => {}
            "exclusive" => {
                self.test_exclusive(self.groups[at].class)?;
                self.groups[at].mode = Mode::Exclusive;
            }
            _ => return self.say(EINVAL, "Unknown or unsupported mode\n"),
        }
        Ok(())
    }

    /// `rdtgroup_mode_test_exclusive`
    fn test_exclusive(&mut self, class: u32) -> Result<(), i32> {
        let mut has_cache = false;
        for (at, schema) in self.schemas.iter().enumerate() {
            if !matches!(schema.kind, Kind::Cache { .. }) {
                continue;
            }
            has_cache = true;
            for (&domain, values) in &schema.domains {
                if self.overlaps(at, domain, values[class as usize], class, false) {
                    return self.say(EINVAL, "Schemata overlaps\n");
                }
            }
        }
        if has_cache {
            Ok(())
        } else {
            self.say(EINVAL, "Cannot be exclusive without CAT/CDP\n")
        }
    }

    /// Fails with a text for `last_cmd_status`.
    pub(super) fn say<T>(&mut self, errno: i32, text: &str) -> Result<T, i32> {
        self.status.push_str(text);
        Err(errno)
    }

    /// `rdtgroup_mkdir`
    pub(super) fn mkdir(&mut self, parts: &[&str]) -> Result<(), i32> {
        let Some((&name, parent)) = parts.split_last() else {
            return Err(EEXIST);
        };
        let place = self.place(parent)?;
        // These the file system layer answers before resctrl hears of it.
        if !self.mounted {
            return Err(EPERM);
        }
        if self.place(parts).is_ok() || self.read(parts).is_ok() {
            return Err(EEXIST);
        }
        if name.len() > NAME_BYTES_MAX {
            return Err(ENAMETOOLONG);
        }
        if name.contains('\n') {
            return Err(EINVAL);
        }
        match place {
            Place::Root if self.can_allocate() => self.mkdir_control(name),
            _ if !self.can_monitor() => Err(EPERM),
            Place::Info | Place::InfoOf(_) | Place::InfoMonitor => Err(ENODEV),
            Place::Monitors(group) if name != "mon_groups" => {
                self.status.clear();
                let monitor = self.take_monitor()?;
                let group = self.groups.iter_mut().find(|g| g.name == group).ok_or(ENOENT)?;
                group.monitors.insert(name.to_owned(), monitor);
                Ok(())
            }
            // `mkdir_rdt_prepare`
            _ => {
                self.status.clear();
                Err(EPERM)
            }
        }
    }

    /// `rdtgroup_mkdir_ctrl_mon`
    fn mkdir_control(&mut self, name: &str) -> Result<(), i32> {
        self.status.clear();
        let Some(class) = self.free_classes.pop_first() else {
            return self.say(ENOSPC, "Out of CLOSIDs\n");
        };
        let monitor = match self.take_monitor() {
            Ok(monitor) => monitor,
            Err(errno) => {
                self.free_classes.insert(class);
                return Err(errno);
            }
        };
        if let Err(errno) = self.initial_schemata(class) {
            self.free_monitor(monitor);
            self.free_classes.insert(class);
            return Err(errno);
        }
        self.groups.push(Group {
            name: name.to_owned(),
            class,
            monitor,
            mode: Mode::Shareable,
            monitors: BTreeMap::new(),
        });
        Ok(())
    }

    /// `mkdir_rdt_prepare_rmid_alloc`, `resctrl_find_free_rmid`
    fn take_monitor(&mut self) -> Result<u32, i32> {
        if !self.can_monitor() {
            return Ok(ROOT_MONITOR);
        }
        if self.free_monitors.is_empty() {
            let errno = if self.limbo.is_empty() { ENOSPC } else { EBUSY };
            return self.say(errno, "Out of RMIDs\n");
        }
        Ok(self.free_monitors.remove(0))
    }

    /// `free_rmid`, `add_rmid_to_limbo`
    fn free_monitor(&mut self, monitor: u32) {
        if monitor == ROOT_MONITOR {
        } else if self.spec.limbo {
            self.limbo.push(monitor);
        } else {
            self.free_monitors.push(monitor);
        }
    }

    /// `rdtgroup_rmdir`
    pub(super) fn rmdir(&mut self, parts: &[&str]) -> Result<(), i32> {
        match self.place(parts) {
            Err(ENOENT) if self.read(parts).is_ok() => Err(ENOTDIR),
            Err(errno) => Err(errno),
            // The file system layer does not let go of a mount point.
            Ok(Place::Root) => Err(EBUSY),
            Ok(Place::Group(name)) => {
                let at = self
                    .groups
                    .iter()
                    .position(|group| group.name == name)
                    .ok_or(ENOENT)?;
                let group = self.groups.remove(at);
                // `rdtgroup_rmdir_ctrl`: tasks of monitoring groups below have its class too.
                for task in self.tasks.values_mut().filter(|task| task.class == group.class) {
                    (task.class, task.monitor) = (ROOT_CLASS, ROOT_MONITOR);
                }
                self.free_classes.insert(group.class);
                self.free_monitor(group.monitor);
                for monitor in group.monitors.into_values() {
                    self.free_monitor(monitor);
                }
                Ok(())
            }
            Ok(Place::Monitor(name, monitor)) => {
                let group = self.groups.iter_mut().find(|g| g.name == name).ok_or(ENOENT)?;
                let id = group.monitors.remove(monitor).ok_or(ENOENT)?;
                let parent = group.monitor;
                // `rdtgroup_rmdir_mon`
                for task in self.tasks.values_mut().filter(|task| task.monitor == id) {
                    task.monitor = parent;
                }
                self.free_monitor(id);
                Ok(())
            }
            Ok(_) => Err(EPERM),
        }
    }

    /// What must hold at any time.
    pub(super) fn check(&self) {
        let classes: BTreeSet<u32> = self.classes().collect();
        assert_eq!(classes.len(), self.groups.len(), "a class serves two groups");
        assert!(classes.is_disjoint(&self.free_classes), "a class in use is free");
        let mut monitors: Vec<u32> = self.free_monitors.iter().chain(&self.limbo).copied().collect();
        for group in &self.groups {
            monitors.extend(group.monitors.values());
            if self.can_monitor() {
                monitors.push(group.monitor);
            }
        }
        monitors.sort_unstable();
        let all: Vec<u32> = (0..self.spec.monitors.unwrap_or(0)).collect();
        assert_eq!(monitors, all, "monitoring ids got lost or doubled");
        for (id, task) in &self.tasks {
            let group = self.groups.iter().find(|group| group.class == task.class);
            let group = group.unwrap_or_else(|| panic!("task {id} has the class of no group"));
            assert!(
                task.monitor == group.monitor || group.monitors.values().any(|m| *m == task.monitor),
                "task {id} has a monitoring id of another group"
            );
        }
        self.check_schemata();
    }
}

impl Group {
    /// The path of a monitoring group below this one.
    pub(super) fn monitor_path(&self, monitor: &str) -> String {
        if self.name.is_empty() {
            format!("mon_groups/{monitor}")
        } else {
            format!("{}/mon_groups/{monitor}", self.name)
        }
    }
}
