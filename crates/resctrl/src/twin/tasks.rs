//! Tasks of a twin, their groups, and what `/proc` says of them.

use libc::{EINVAL, ENOENT, ESRCH};

use super::kernel::{Kernel, ROOT_CLASS};
use super::{PROC, ROOT};

/// One thread.
#[derive(Clone, Debug)]
pub(super) struct Task {
    /// The first task of its process.
    process: u32,
    /// The process that started its process.
    parent: u32,
    pub(super) class: u32,
    pub(super) monitor: u32,
}

impl Task {
    /// Task 1, which nobody started.
    pub(super) fn first() -> Self {
        Self {
            process: 1,
            parent: 0,
            class: ROOT_CLASS,
            monitor: 0,
        }
    }
}

/// `kstrtoint` with base 0: decimal, `0x` hexadecimal, a leading zero octal.
fn integer(text: &str) -> Option<i32> {
    let (sign, digits) = match text.strip_prefix('-') {
        Some(digits) => (-1, digits),
        None => (1, text.strip_prefix('+').unwrap_or(text)),
    };
    let (digits, base) = match digits.strip_prefix("0x") {
        Some(digits) => (digits, 16),
        None if digits.len() > 1 && digits.starts_with('0') => (&digits[1..], 8),
        None => (digits, 10),
    };
    if !digits.chars().all(|c| c.is_digit(base)) {
        return None;
    }
    i32::try_from(sign * i64::from_str_radix(digits, base).ok()?).ok()
}

impl Kernel {
    /// A task starts a thread or a process, which inherits its groups.
    pub(super) fn start(&mut self, task: u32, thread: bool) -> Option<u32> {
        let starter = self.tasks.get(&task)?.clone();
        let id = self.next_task;
        self.next_task += 1;
        let child = if thread {
            starter
        } else {
            Task {
                process: id,
                parent: starter.process,
                ..starter
            }
        };
        self.tasks.insert(id, child);
        Some(id)
    }

    /// A process with a number of its own choice, started by another; in the root group where that is not known.
    pub(super) fn adopt(&mut self, id: u32, parent: u32) {
        let starter = self.tasks.get(&parent);
        let child = Task {
            process: id,
            parent: starter.map_or(1, |starter| starter.process),
            class: starter.map_or(ROOT_CLASS, |starter| starter.class),
            monitor: starter.map_or(0, |starter| starter.monitor),
        };
        self.tasks.entry(id).or_insert(child);
        self.next_task = self.next_task.max(id.saturating_add(1));
    }

    /// A task ends. With a process's first task the whole process does; its children go to task 1.
    pub(super) fn exit(&mut self, id: u32) {
        let Some(task) = self.tasks.remove(&id) else {
            return;
        };
        if task.process == id {
            self.tasks.retain(|_, other| other.process != id);
            for orphan in self.tasks.values_mut().filter(|other| other.parent == id) {
                orphan.parent = 1;
            }
        }
    }

    pub(super) fn group_of(&self, id: u32) -> Option<String> {
        let task = self.tasks.get(&id)?;
        let group = self.groups.iter().find(|group| group.class == task.class)?;
        let monitor = group
            .monitors
            .iter()
            .find(|(_, monitor)| **monitor == task.monitor);
        Some(monitor.map_or_else(|| group.name.clone(), |(name, _)| group.monitor_path(name)))
    }

    /// `show_rdt_tasks`
    pub(super) fn show_tasks(&self, belongs: impl Fn(&Task) -> bool) -> String {
        let ids = self.tasks.iter().filter(|(_, task)| belongs(task));
        ids.map(|(id, _)| format!("{id}\n")).collect()
    }

    /// `rdtgroup_tasks_write`; `monitoring` says whether the file is a monitoring group's.
    pub(super) fn write_tasks(
        &mut self,
        text: &str,
        class: u32,
        monitor: u32,
        monitoring: bool,
    ) -> Result<(), i32> {
        if !self.can_list_tasks() {
            // Older kernels parse before they clear the status.
            let id = integer(text.trim()).filter(|id| *id >= 0).ok_or(EINVAL)?;
            self.status.clear();
            return self.move_task(id as u32, class, monitor, monitoring);
        }
        self.status.clear();
        let text = text.split('\0').next().unwrap_or_default();
        let mut rest = Some(text);
        while let Some(list) = rest.filter(|list| !list.is_empty() && !list.starts_with('\n')) {
            let (id, after) = match list.split_once(',') {
                Some((id, after)) => (id.trim(), Some(after)),
                None => (list.trim(), None),
            };
            rest = after;
            let Some(number) = integer(id) else {
                return self.say(EINVAL, &format!("Task list parsing error pid {id}\n"));
            };
            let Ok(number) = u32::try_from(number) else {
                return self.say(EINVAL, &format!("Invalid pid {number}\n"));
            };
            if let Err(errno) = self.move_task(number, class, monitor, monitoring) {
                return self.say(errno, &format!("Error while processing task {number}\n"));
            }
        }
        Ok(())
    }

    /// `rdtgroup_move_task`, `__rdtgroup_move_task`
    fn move_task(&mut self, id: u32, class: u32, monitor: u32, monitoring: bool) -> Result<(), i32> {
        // 0 is the writer itself; here that is task 1.
        let id = if id == 0 { 1 } else { id };
        let Some(task) = self.tasks.get_mut(&id) else {
            return self.say(ESRCH, &format!("No task {id}\n"));
        };
        if monitoring && task.class != class {
            return self.say(EINVAL, "Can't move task to different control group\n");
        }
        (task.class, task.monitor) = (class, monitor);
        Ok(())
    }

    /// Folders below `/proc`: processes, and threads of a process.
    pub(super) fn folders_proc(&self, parts: &[&str]) -> Result<Vec<String>, i32> {
        let ids = |process: Option<u32>| {
            let tasks = self.tasks.iter();
            let ids = tasks.filter(|(id, task)| process.map_or(task.process == **id, |p| task.process == p));
            ids.map(|(id, _)| id.to_string()).collect()
        };
        match *parts {
            [] => Ok(ids(None)),
            // Any thread's number leads to its process, though only first ones are listed.
            [id] => self.task(id).map(|_| vec!["task".to_owned()]),
            [process, "task", id] if self.task(process)?.process == self.task(id)?.process => Ok(vec![]),
            [id, "task"] => Ok(ids(Some(self.task(id)?.process))),
            _ => Err(ENOENT),
        }
    }

    pub(super) fn read_proc(&self, parts: &[&str]) -> Result<String, i32> {
        match *parts {
            ["filesystems"] => Ok("nodev\tsysfs\nnodev\tresctrl\n\text4\n".to_owned()),
            ["cpuinfo"] => Ok("processor\t: 0\nflags\t\t: fpu rdt_a cat_l3 cdp_l3 mba\n".to_owned()),
            ["mounts"] if self.mounted => Ok(format!(
                "proc {PROC} proc rw 0 0\nresctrl {ROOT} resctrl {} 0 0\n",
                self.mount_options()
            )),
            ["mounts"] => Ok(format!("proc {PROC} proc rw 0 0\n")),
            [id, "stat"] => {
                let task = self.task(id)?;
                // A name may hold anything, parentheses and spaces included.
                Ok(format!(
                    "{id} (a) S 7 (x) S {} {} 0 0 -1\n",
                    task.parent, task.process
                ))
            }
            [process, "task", id, "cpu_resctrl_groups"] if self.shows_groups_in_proc() => {
                let task = self.task(id)?;
                if self.task(process)?.process != task.process {
                    return Err(ENOENT);
                }
                // `proc_resctrl_show`
                if !self.mounted {
                    return Ok("res:\nmon:\n".to_owned());
                }
                let group = self
                    .groups
                    .iter()
                    .find(|group| group.class == task.class)
                    .ok_or(ENOENT)?;
                let monitor = group
                    .monitors
                    .iter()
                    .find(|(_, monitor)| **monitor == task.monitor);
                let name = if group.name.is_empty() { "/" } else { &group.name };
                Ok(format!(
                    "res:{name}\nmon:{}\n",
                    monitor.map_or("", |(name, _)| name)
                ))
            }
            _ => Err(ENOENT),
        }
    }

    fn task(&self, id: &str) -> Result<&Task, i32> {
        let id: u32 = id.parse().map_err(|_| ENOENT)?;
        self.tasks.get(&id).ok_or(ENOENT)
    }
}
