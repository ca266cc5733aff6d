//! Why resctrl does not do what it should, by the kernel's error number and its own words.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use corun_model::cache::partition::{PlanError, Schemata};
use thiserror::Error;

/// Why a partition could not be read, made or removed. The text is one line; [`ResctrlError::detail`] and
/// [`ResctrlError::hint`] say more.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ResctrlError {
    /// The machine or its kernel has none.
    #[error("cache partitioning is unavailable on this machine")]
    Unavailable {
        /// What is missing.
        reason: String,
    },
    /// The kernel has it, but it is not mounted where it is looked for.
    #[error("resctrl is not mounted at {}", root.display())]
    NotMounted {
        /// Where it was looked for.
        root: PathBuf,
        /// Where it is mounted instead.
        mounted: Option<PathBuf>,
    },
    /// The wishes do not fit the machine.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// Another tool holds the lock.
    #[error("another tool holds the lock on {}", root.display())]
    Locked {
        /// The folder.
        root: PathBuf,
        /// How long was waited.
        waited: Duration,
    },
    /// There is a group of corun's name that no journal knows.
    #[error("there is already a group {}", path.display())]
    ForeignGroup {
        /// The group.
        path: PathBuf,
    },
    /// No class of service is left.
    #[error("no class of service is left for another group")]
    OutOfClasses,
    /// No monitoring id is left.
    #[error("no monitoring id is left for another group")]
    OutOfMonitors,
    /// Monitoring ids are free, but still label lines in the cache.
    #[error("no monitoring id can be used again yet")]
    MonitorsBusy,
    /// Other groups hold all ways exclusively.
    #[error("no ways are left for another group")]
    OutOfWays {
        /// The kernel's words.
        status: String,
    },
    /// The kernel did not take a value.
    #[error("the kernel refused `{}`", wrote.trim_end().replace('\n', " "))]
    Refused {
        /// The file.
        path: PathBuf,
        /// What was written.
        wrote: String,
        /// Its words, if it had any.
        status: Option<String>,
    },
    /// The kernel took a value, but shows another one.
    #[error("{} does not show what was written", path.display())]
    NotAsWritten {
        /// The file.
        path: PathBuf,
        /// What was written.
        wrote: String,
        /// What it shows.
        found: String,
    },
    /// Tasks were to enter a class that was not set up.
    #[error("the cache is not partitioned: there is no complete group {}", path.display())]
    NotApplied {
        /// The group.
        path: PathBuf,
    },
    /// Somebody changed a group of corun's.
    #[error("somebody changed {}", path.display())]
    Changed {
        /// The file.
        path: PathBuf,
        /// What was planned.
        planned: Schemata,
        /// What it shows.
        found: Schemata,
    },
    /// The task or process to move is gone.
    #[error("there is no task {task}")]
    NoSuchTask {
        /// The task.
        task: u32,
    },
    /// The task belongs to another tool's group.
    #[error("task {task} is in another tool's group, {group}")]
    ForeignTask {
        /// The task.
        task: u32,
        /// The group, as a path below the root.
        group: String,
    },
    /// The journal cannot be used.
    #[error("the journal {} cannot be used", path.display())]
    Journal {
        /// The journal.
        path: PathBuf,
        /// Why.
        reason: String,
    },
    /// A permission is missing.
    #[error("cannot {doing} {}: permission denied", path.display())]
    Forbidden {
        /// A verb.
        doing: &'static str,
        /// The file or folder.
        path: PathBuf,
        /// The system's or the kernel's words.
        reason: String,
    },
    /// A change failed, and so did taking back what was done before it.
    #[error("{error}; and taking back what was done failed: {undo}")]
    Undo {
        /// What failed first.
        error: Box<Self>,
        /// What failed then.
        undo: Box<Self>,
    },
    /// Any other failure.
    #[error("cannot {doing} {}", path.display())]
    System {
        /// A verb.
        doing: &'static str,
        /// The file or folder.
        path: PathBuf,
        /// The system's words.
        reason: String,
    },
}

impl ResctrlError {
    /// What lies behind it: one line.
    pub fn detail(&self) -> Option<String> {
        Some(match self {
            Self::Plan(error) => return error.detail(),
            Self::Unavailable { reason } | Self::Journal { reason, .. } => reason.clone(),
            Self::NotMounted { mounted, .. } => match mounted {
                Some(mounted) => format!("resctrl is mounted at {}", mounted.display()),
                None => "the kernel has resctrl, but nobody mounted it".to_owned(),
            },
            Self::Locked { waited, .. } => format!(
                "another process held the lock for {} ms or more",
                waited.as_millis()
            ),
            Self::ForeignGroup { .. } => {
                "the group has corun's name, but no journal says that corun made it".to_owned()
            }
            Self::OutOfClasses => "the kernel says: Out of CLOSIDs".to_owned(),
            Self::OutOfMonitors => "the kernel says: Out of RMIDs".to_owned(),
            Self::MonitorsBusy => "the lines of groups that were removed are still in the cache".to_owned(),
            Self::OutOfWays { status } => format!("the kernel says: {status}"),
            Self::Refused { path, status, .. } => match status {
                Some(status) => format!("{}: {status}", path.display()),
                None => format!(
                    "{}: the kernel gave no reason; a cache may have gone offline",
                    path.display()
                ),
            },
            Self::NotAsWritten { wrote, found, .. } => {
                format!("wrote `{}`, found `{}`", one_line(wrote), one_line(found))
            }
            Self::Changed { planned, found, .. } => format!(
                "planned `{}`, found `{}`",
                one_line(&planned.to_string()),
                one_line(&found.to_string())
            ),
            Self::ForeignTask { .. } => {
                "moving it would end what that tool set up, and could not be undone".to_owned()
            }
            Self::NotApplied { .. } | Self::NoSuchTask { .. } => return None,
            Self::Forbidden { reason, .. } | Self::System { reason, .. } => reason.clone(),
            Self::Undo { error, undo } => {
                let details = [error.detail(), undo.detail()];
                let details: Vec<String> = details.into_iter().flatten().collect();
                if details.is_empty() {
                    return None;
                }
                details.join("; ")
            }
        })
    }

    /// What to do about it: one line.
    pub fn hint(&self) -> Option<String> {
        Some(match self {
            Self::Plan(error) => return error.hint(),
            Self::Unavailable { .. } => {
                "rely on co-scheduling and streaming; `corun topology` shows what is there".to_owned()
            }
            Self::ForeignTask { .. } => {
                "start it outside of that group, or rely on co-scheduling and streaming".to_owned()
            }
            Self::NotMounted { root, mounted } => match mounted {
                Some(mounted) => format!("use {} as the root folder", mounted.display()),
                None => format!("as root: mount -t resctrl resctrl {}", root.display()),
            },
            Self::Locked { .. } => "try again when it is done; `lslocks` names it".to_owned(),
            Self::ForeignGroup { path } => format!("if nobody needs it, as root: rmdir {}", path.display()),
            Self::OutOfClasses => "end a tool that holds a group, or remove its group".to_owned(),
            Self::OutOfMonitors => "remove monitoring groups nobody reads (rmdir)".to_owned(),
            Self::MonitorsBusy => {
                "try again in some seconds, or raise info/L3_MON/max_threshold_occupancy".to_owned()
            }
            Self::OutOfWays { .. } => {
                "end the tool that holds ways exclusively (mode `exclusive` in its group)".to_owned()
            }
            Self::Refused { .. } => "make a new plan: the machine changed since this one".to_owned(),
            Self::NotAsWritten { .. } => "please report this with the kernel's version".to_owned(),
            Self::NotApplied { .. } => "apply a plan first".to_owned(),
            Self::Changed { .. } => "apply a plan again, or clear".to_owned(),
            Self::NoSuchTask { .. } => "it may have ended; give a living process or thread".to_owned(),
            Self::Journal { path, .. } => format!(
                "as root: rmdir corun's groups (corun-weak, corun-default), then rm {}",
                path.display()
            ),
            Self::Forbidden { .. } => "run as root".to_owned(),
            Self::Undo { .. } => "when the cause is gone: clear".to_owned(),
            Self::System { .. } => return None,
        })
    }

    /// Any failure of the system, told apart only by permission.
    pub(super) fn system(doing: &'static str, path: &Path, error: &io::Error) -> Self {
        let (path, reason) = (path.to_owned(), error.to_string());
        match error.raw_os_error() {
            Some(libc::EACCES | libc::EPERM | libc::EROFS) => Self::Forbidden { doing, path, reason },
            _ => Self::System { doing, path, reason },
        }
    }

    /// A refused write; `status` is what `info/last_cmd_status` says right after it.
    pub(super) fn write(path: &Path, wrote: &str, error: &io::Error, status: Option<String>) -> Self {
        match error.raw_os_error() {
            Some(libc::EINVAL) => Self::Refused {
                path: path.to_owned(),
                wrote: wrote.to_owned(),
                status,
            },
            Some(libc::EPERM) => Self::Forbidden {
                doing: "write",
                path: path.to_owned(),
                reason: status.unwrap_or_else(|| error.to_string()),
            },
            _ => Self::system("write", path, error),
        }
    }

    /// A group that could not be made. ENOSPC has several causes, which only the status text tells apart.
    pub(super) fn make_group(path: &Path, error: &io::Error, status: Option<String>) -> Self {
        let says = |word: &str| status.as_ref().is_some_and(|status| status.contains(word));
        match error.raw_os_error() {
            Some(libc::ENOSPC) if says("CLOSID") => Self::OutOfClasses,
            Some(libc::ENOSPC) if says("RMID") => Self::OutOfMonitors,
            Some(libc::EBUSY) if says("RMID") => Self::MonitorsBusy,
            Some(libc::ENOSPC) if says("No space on") => Self::OutOfWays {
                status: status.unwrap_or_default(),
            },
            Some(libc::EEXIST) => Self::ForeignGroup {
                path: path.to_owned(),
            },
            _ => Self::system("make", path, error),
        }
    }
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}
