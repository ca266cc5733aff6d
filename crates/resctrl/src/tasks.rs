//! Moving tasks into a class.
//!
//! The kernel takes one thread id a write. Threads and children start in the group of whoever starts them, so once all
//! threads of a process are in a class, whatever they start is too; what started meanwhile is found by listing again.
//! PostgreSQL's parallel workers are children of the postmaster, not of the backend they work for: hand in their process
//! ids one by one (`pg_stat_activity.leader_pid`).
//!
//! Only fills are limited: lines a task brought in before the move stay where they are until evicted.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use corun_model::cache::partition::Class;
use serde::Serialize;

use super::capabilities::NOT_GROUPS;
use super::{Client, Files, ResctrlError, is_missing};

/// How often tasks are listed again for those that started meanwhile.
const ROUNDS_MAX: usize = 8;

/// Which tasks to move.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Who {
    /// One thread, by its own id.
    Thread(u32),
    /// All threads of a process.
    Process(u32),
    /// All threads of a process and of the processes it started, and they, and so on.
    Tree(u32),
}

/// What became of the tasks.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Assigned {
    /// Tasks that were moved.
    pub moved: usize,
    /// Tasks that were in the class already.
    pub already: usize,
    /// Tasks that ended before they could be moved; nothing is wrong with that.
    pub vanished: usize,
    /// Tasks left where they are, because they are in groups of other tools: the task and its group.
    pub foreign: Vec<(u32, String)>,
    /// False if tasks started faster than they could be moved.
    pub settled: bool,
}

/// Where a task is.
enum Origin {
    Gone,
    /// The root group, unmonitored.
    Root,
    Class(Class),
    /// Another tool's group, for control or for monitoring, as a path below the root.
    Foreign(String),
}

impl<F: Files> Client<F> {
    /// Moves tasks into a class. Tasks of other tools' groups stay there, monitoring groups included: moving them would
    /// end what the other tool set up, and could not be undone by the kernel.
    ///
    /// # Errors
    /// When the class has no complete group, somebody changed it, there is no such task, or the kernel refuses. Tasks
    /// moved before a failure stay in the class, until cleared.
    pub fn assign(&self, class: Class, who: Who) -> Result<Assigned, ResctrlError> {
        self.mounted()?;
        // Moving tasks does not change the tree of groups; the lock keeps `clear` from doing so meanwhile.
        let _lock = self.lock(false)?;
        self.check_applied(class)?;
        let mut assigned = Assigned::default();
        let mut seen = BTreeSet::new();
        for _ in 0..ROUNDS_MAX {
            let mut new = self.tasks(who)?;
            new.retain(|task| seen.insert(*task));
            if new.is_empty() {
                assigned.settled = true;
                break;
            }
            for task in new {
                self.assign_one(class, task, &mut assigned)?;
            }
        }
        if seen.is_empty() {
            let (Who::Thread(task) | Who::Process(task) | Who::Tree(task)) = who;
            return Err(ResctrlError::NoSuchTask { task });
        }
        Ok(assigned)
    }

    /// Whether [`Client::assign`] would move this task into the class now. Changes nothing.
    ///
    /// # Errors
    /// When the class has no complete group, somebody changed it, there is no such task, it belongs to another tool, or
    /// tasks may not be moved.
    pub fn check_assign(&self, class: Class, task: u32) -> Result<(), ResctrlError> {
        self.mounted()?;
        let _lock = self.lock(false)?;
        self.check_applied(class)?;
        match self.origin(task)? {
            Origin::Gone => return Err(ResctrlError::NoSuchTask { task }),
            Origin::Foreign(group) => return Err(ResctrlError::ForeignTask { task, group }),
            Origin::Root | Origin::Class(_) => {}
        }
        let tasks = self.folder(class).join("tasks");
        let writable = self.files.check_writable(&tasks);
        writable.map_err(|error| ResctrlError::system("write", &tasks, &error))
    }

    /// Schemata come before tasks: a group without a finished plan takes none.
    fn check_applied(&self, class: Class) -> Result<(), ResctrlError> {
        let journal = self.journal()?.filter(|journal| journal.complete);
        let entry = journal.as_ref().and_then(|journal| journal.entry(class));
        let Some(entry) = entry.filter(|_| self.exists(class).is_ok_and(|there| there)) else {
            return Err(ResctrlError::NotApplied {
                path: self.folder(class),
            });
        };
        let path = self.folder(class).join("schemata");
        let (planned, found) = (entry.planned(), self.schemata(&path)?);
        if planned.is_part_of(&found) {
            Ok(())
        } else {
            Err(ResctrlError::Changed { path, planned, found })
        }
    }

    fn assign_one(&self, class: Class, task: u32, assigned: &mut Assigned) -> Result<(), ResctrlError> {
        match self.origin(task)? {
            Origin::Gone => assigned.vanished += 1,
            Origin::Class(there) if there == class => assigned.already += 1,
            Origin::Foreign(group) => assigned.foreign.push((task, group)),
            Origin::Root | Origin::Class(_) => {
                let path = self.folder(class).join("tasks");
                let text = format!("{task}\n");
                match self.files.write(&path, &text) {
                    Ok(()) => {}
                    Err(error) if error.raw_os_error() == Some(libc::ESRCH) => {
                        assigned.vanished += 1;
                        return Ok(());
                    }
                    Err(error) => return Err(ResctrlError::write(&path, &text, &error, self.last_status())),
                }
                match self.origin(task)? {
                    Origin::Gone => assigned.vanished += 1,
                    Origin::Class(there) if there == class => assigned.moved += 1,
                    other => {
                        return Err(ResctrlError::NotAsWritten {
                            path,
                            wrote: text,
                            found: other.name(),
                        });
                    }
                }
            }
        }
        Ok(())
    }

    /// The group a task is in.
    fn origin(&self, task: u32) -> Result<Origin, ResctrlError> {
        let folder = self.settings.proc.join(format!("{task}/task/{task}"));
        if let Some(text) = self.read_if_there(&folder.join("cpu_resctrl_groups"))? {
            let field = |name: &str| {
                let line = text.lines().find_map(|line| line.strip_prefix(name));
                line.unwrap_or_default().trim()
            };
            let monitor = field("mon:");
            return Ok(match field("res:").trim_start_matches('/') {
                "" if monitor.is_empty() => Origin::Root,
                "" => Origin::Foreign(format!("mon_groups/{monitor}")),
                group => Origin::of_group(group, (!monitor.is_empty()).then_some(monitor)),
            });
        }
        // Kernels without CONFIG_PROC_CPU_RESCTRL: ask every group.
        if !self.lives(task)? {
            return Ok(Origin::Gone);
        }
        let root = &self.settings.root;
        for monitor in self.monitors(root)? {
            if self.has_task(&root.join("mon_groups").join(&monitor), task)? {
                return Ok(Origin::Foreign(format!("mon_groups/{monitor}")));
            }
        }
        for group in self.folders(root)?.unwrap_or_default() {
            let folder = root.join(&group);
            if NOT_GROUPS.contains(&group.as_str()) || !self.has_task(&folder, task)? {
                continue;
            }
            for monitor in self.monitors(&folder)? {
                if self.has_task(&folder.join("mon_groups").join(&monitor), task)? {
                    return Ok(Origin::of_group(&group, Some(&monitor)));
                }
            }
            return Ok(Origin::of_group(&group, None));
        }
        // In no group but the root's, or gone while they were asked.
        Ok(if self.lives(task)? {
            Origin::Root
        } else {
            Origin::Gone
        })
    }

    fn monitors(&self, group: &Path) -> Result<Vec<String>, ResctrlError> {
        Ok(self.folders(&group.join("mon_groups"))?.unwrap_or_default())
    }

    fn has_task(&self, group: &Path, task: u32) -> Result<bool, ResctrlError> {
        let tasks = self.read_if_there(&group.join("tasks"))?.unwrap_or_default();
        Ok(tasks.lines().any(|line| line.trim().parse() == Ok(task)))
    }

    /// Whether a group's name is that of another tool's.
    pub(super) fn is_foreign(&self, name: &str) -> bool {
        !NOT_GROUPS.contains(&name) && Class::of_group(name).is_none()
    }

    fn process_folder(&self, task: u32) -> PathBuf {
        self.settings.proc.join(format!("{task}/task"))
    }

    fn lives(&self, task: u32) -> Result<bool, ResctrlError> {
        Ok(self.folders(&self.process_folder(task))?.is_some())
    }

    /// Ids of the living tasks meant.
    fn tasks(&self, who: Who) -> Result<Vec<u32>, ResctrlError> {
        let processes = match who {
            Who::Thread(task) => return Ok(if self.lives(task)? { vec![task] } else { vec![] }),
            Who::Process(process) => vec![process],
            Who::Tree(process) => self.descendants(process)?,
        };
        let mut tasks = Vec::new();
        for process in processes {
            let threads = self.folders(&self.process_folder(process))?.unwrap_or_default();
            tasks.extend(threads.iter().filter_map(|id| id.parse::<u32>().ok()));
        }
        Ok(tasks)
    }

    /// A process and all it started, directly or not, parents first.
    fn descendants(&self, process: u32) -> Result<Vec<u32>, ResctrlError> {
        let proc = &self.settings.proc;
        let mut children: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
        for id in self.folders(proc)?.unwrap_or_default() {
            let Ok(id) = id.parse::<u32>() else {
                continue;
            };
            let stat = match self.files.read(&proc.join(format!("{id}/stat"))) {
                Ok(stat) => stat,
                Err(error) if is_missing(&error) => continue,
                Err(error) => {
                    return Err(ResctrlError::system(
                        "read",
                        &proc.join(format!("{id}/stat")),
                        &error,
                    ));
                }
            };
            // `id (name) state parent ...`, and the name may hold parentheses.
            let after_name = stat.rsplit_once(')').map(|(_, rest)| rest).unwrap_or_default();
            if let Some(Ok(parent)) = after_name.split_whitespace().nth(1).map(str::parse) {
                children.entry(parent).or_default().push(id);
            }
        }
        let mut all = vec![process];
        let mut next = 0;
        while let Some(parent) = all.get(next) {
            // Each id has one parent, but listing takes time: an id used again must not lead in a circle.
            let new = children.remove(parent).unwrap_or_default();
            all.extend(new);
            next += 1;
        }
        Ok(all)
    }
}

impl Origin {
    fn of_group(group: &str, monitor: Option<&str>) -> Self {
        match (Class::of_group(group), monitor) {
            // Somebody watching a part of corun's own class loses it when the class is cleared in any case.
            (Some(class), _) => Self::Class(class),
            (None, Some(monitor)) => Self::Foreign(format!("{group}/mon_groups/{monitor}")),
            (None, None) => Self::Foreign(group.to_owned()),
        }
    }

    fn name(&self) -> String {
        match self {
            Self::Gone => "no task".to_owned(),
            Self::Root => "the root group".to_owned(),
            Self::Class(class) => class.group().to_owned(),
            Self::Foreign(group) => group.clone(),
        }
    }
}
