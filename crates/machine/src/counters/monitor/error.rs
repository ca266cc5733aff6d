//! Why somebody else's events cannot be counted or sampled, in words that say what to do about it.
//!
//! As with the calling thread's own ([`super::super::error`]) the kernel's bare error numbers mean different things in
//! different places; [`diagnose`] is pure, so that each case is tested on a machine that has none of them.

use std::fmt;
use std::io;

use thiserror::Error;

use super::Target;

/// Why events cannot be counted. The text is one line; [`MonitorError::detail`] and [`MonitorError::hint`] say more.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum MonitorError {
    /// The kernel drives no counter unit of the cores: a virtual machine, or a CPU without driver.
    #[error("this machine offers no hardware event counters")]
    NoCounters,
    /// The system call does not exist: not compiled in, or hidden by a sandbox.
    #[error("the kernel offers no performance events")]
    NoPerfEvents,
    /// No such process, or it ended.
    #[error("there is no process {pid}")]
    NoProcess {
        /// Its number.
        pid: u32,
    },
    /// No such CPU, or it is offline.
    #[error("there is no CPU {cpu}")]
    NoCpu {
        /// Its number.
        cpu: u32,
    },
    /// `kernel.perf_event_paranoid` keeps users from this.
    #[error("counting on {who} is not permitted: kernel.perf_event_paranoid is {level}")]
    Paranoid {
        /// Whom.
        who: Who,
        /// The value of the setting.
        level: i32,
        /// The highest value at which it would be permitted.
        needed: i32,
    },
    /// The process is somebody else's, or a sandbox or security module refused.
    #[error("counting on {who} is not permitted")]
    Forbidden {
        /// Whom.
        who: Who,
        /// What the kernel said.
        reason: String,
        /// The value of `kernel.perf_event_paranoid`, where it can be read.
        paranoid: Option<i32>,
    },
    /// This CPU, or the kernel's driver for it, cannot count this event.
    #[error("this CPU cannot count {event}")]
    Unsupported {
        /// Its maker's name.
        event: String,
        /// Why, in words.
        reason: String,
    },
    /// The events of one group can never be counted at once.
    #[error("a group of {requested} events is more than this CPU counts at once")]
    TooMany {
        /// How many.
        requested: usize,
        /// How many of them, from the first on, fit.
        fitting: usize,
    },
    /// More threads than are followed one by one.
    #[error("process {pid} has {threads} threads below it, more than can be counted on")]
    TooManyThreads {
        /// Its number.
        pid: u32,
        /// How many threads it and the processes below it have.
        threads: usize,
    },
    /// Read or stopped without having been started.
    #[error("the counters were read without having been started")]
    NotStarted,
    /// Any other refusal.
    #[error("cannot {doing} event counters")]
    System {
        /// What was tried: a verb.
        doing: &'static str,
        /// What the kernel said.
        reason: String,
    },
}

/// Whom is counted on, in words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Who {
    /// A process.
    Process(u32),
    /// Everybody on a CPU.
    Cpu(u32),
    /// The caller.
    Caller,
}

impl fmt::Display for Who {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Process(pid) => write!(f, "process {pid}"),
            Self::Cpu(cpu) => write!(f, "CPU {cpu}"),
            Self::Caller => f.write_str("this program"),
        }
    }
}

impl From<Target> for Who {
    fn from(target: Target) -> Self {
        match target {
            Target::Process(pid) => Self::Process(pid),
            Target::Cpu(cpu) => Self::Cpu(cpu),
            Target::Thread => Self::Caller,
        }
    }
}

impl MonitorError {
    /// What lies behind it: one line.
    pub fn detail(&self) -> Option<String> {
        Some(match self {
            Self::NoCounters => {
                "the kernel cannot even count cycles; hypervisors often hide the counters from their guests".to_owned()
            }
            Self::NoPerfEvents => {
                "perf_event_open does not exist: a kernel without CONFIG_PERF_EVENTS, or a sandbox that hides it"
                    .to_owned()
            }
            Self::NoProcess { .. } | Self::NotStarted => return None,
            Self::NoCpu { .. } => "no such number, or the CPU is offline".to_owned(),
            Self::Paranoid { needed, .. } => {
                format!("this needs {needed} or less, or CAP_PERFMON")
            }
            Self::Forbidden { reason, paranoid, .. } => match paranoid {
                Some(level) => format!("{reason}; kernel.perf_event_paranoid is {level}"),
                None => format!("{reason}; kernel.perf_event_paranoid cannot be read"),
            },
            Self::Unsupported { reason, .. } | Self::System { reason, .. } => reason.clone(),
            Self::TooMany { fitting, .. } => format!("the first {fitting} of them fit together"),
            Self::TooManyThreads { .. } => "each thread needs counters of its own".to_owned(),
        })
    }

    /// What to do about it: one line.
    pub fn hint(&self) -> Option<String> {
        Some(match self {
            Self::NoCounters => {
                "run on the bare machine, or have the hypervisor show its counters (QEMU: -cpu host,pmu=on); software events \
                 and times work without"
                    .to_owned()
            }
            Self::NoPerfEvents => "run outside the sandbox, or allow perf_event_open in its profile".to_owned(),
            Self::NoProcess { .. } => "look whether the server still runs".to_owned(),
            Self::NoCpu { .. } => "choose one of those in /sys/devices/system/cpu/online".to_owned(),
            Self::Paranoid { needed, .. } => {
                format!("as root: sysctl kernel.perf_event_paranoid={needed}")
            }
            Self::Forbidden { who: Who::Process(_), .. } => {
                "run as the user the server runs as, or as root, and outside containers that forbid it (--cap-add PERFMON)"
                    .to_owned()
            }
            Self::Forbidden { .. } => {
                "run as root, or allow perf_event_open in the sandbox's profile (containers: --cap-add PERFMON)"
                    .to_owned()
            }
            Self::Unsupported { .. } => "leave this event out".to_owned(),
            Self::TooMany { .. } => "count fewer events in a group".to_owned(),
            Self::TooManyThreads { .. } => "count on its CPUs, or on some of its processes".to_owned(),
            Self::System { reason, .. } if reason.contains("(os error 24)") => {
                "raise the number of open files (ulimit -n): each event of each thread is one".to_owned()
            }
            Self::NotStarted | Self::System { .. } => return None,
        })
    }

    /// A refusal that is no matter of events or permissions.
    pub(crate) fn system(doing: &'static str, error: &io::Error) -> Self {
        Self::System {
            doing,
            reason: error.to_string(),
        }
    }
}

/// What was being opened when the kernel refused.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Attempt<'a> {
    /// On whom.
    pub who: Who,
    /// The event's name.
    pub event: &'a str,
    /// How many events the group held already.
    pub opened: usize,
    /// How many it was to hold.
    pub requested: usize,
    /// Whether the kernel's own code is counted too.
    pub kernel: bool,
    /// Whether it needs a counter unit.
    pub hardware: bool,
}

/// What else is known when the kernel refuses.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Facts {
    /// Whether cycles of the caller can be counted.
    pub cycles_open: bool,
    /// Whether the event opens outside the group.
    pub opens_alone: bool,
    /// `kernel.perf_event_paranoid`, where it can be read.
    pub paranoid: Option<i32>,
}

/// The highest `perf_event_paranoid` at which this is permitted to users: 2 for programs' own code, 1 for the kernel's, 0 for
/// everybody on a CPU (Documentation/admin-guide/perf-security.rst).
fn paranoid_needed(attempt: Attempt<'_>) -> i32 {
    match attempt.who {
        Who::Cpu(_) => 0,
        _ if attempt.kernel => 1,
        _ => 2,
    }
}

/// What a refusal of `perf_event_open` means.
pub(crate) fn diagnose(error: &io::Error, attempt: Attempt<'_>, facts: Facts) -> MonitorError {
    let unsupported = |reason: &str| {
        if attempt.hardware && !facts.cycles_open {
            return MonitorError::NoCounters;
        }
        MonitorError::Unsupported {
            event: attempt.event.to_owned(),
            reason: format!("{reason}: {error}"),
        }
    };
    let needed = paranoid_needed(attempt);
    match (error.raw_os_error(), attempt.who) {
        (Some(libc::ENOSYS), _) => MonitorError::NoPerfEvents,
        (Some(libc::ESRCH), Who::Process(pid)) => MonitorError::NoProcess { pid },
        (Some(libc::ENODEV | libc::EINVAL), Who::Cpu(cpu)) if !facts.opens_alone && !attempt.hardware => {
            MonitorError::NoCpu { cpu }
        }
        (Some(libc::EACCES), who) if facts.paranoid.is_some_and(|level| level > needed) => {
            MonitorError::Paranoid {
                who,
                level: facts.paranoid.unwrap_or(needed),
                needed,
            }
        }
        (Some(libc::EACCES | libc::EPERM), who) => MonitorError::Forbidden {
            who,
            reason: error.to_string(),
            paranoid: facts.paranoid,
        },
        (Some(libc::ENOENT | libc::ENODEV | libc::ENXIO | libc::EOPNOTSUPP), _) => {
            unsupported("the kernel has no such event for this CPU")
        }
        (Some(libc::EINVAL), _) => {
            if facts.opens_alone && attempt.opened > 0 {
                MonitorError::TooMany {
                    requested: attempt.requested,
                    fitting: attempt.opened,
                }
            } else {
                unsupported("the kernel rejects its encoding")
            }
        }
        _ => MonitorError::system("open", error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PROCESS: Attempt<'_> = Attempt {
        who: Who::Process(42),
        event: "INST_RETIRED.ANY",
        opened: 0,
        requested: 3,
        kernel: false,
        hardware: true,
    };
    const CPU: Attempt<'_> = Attempt {
        who: Who::Cpu(3),
        ..PROCESS
    };
    const WORKING: Facts = Facts {
        cycles_open: true,
        opens_alone: true,
        paranoid: Some(2),
    };

    fn diagnosed(errno: i32, attempt: Attempt<'_>, facts: Facts) -> MonitorError {
        diagnose(&io::Error::from_raw_os_error(errno), attempt, facts)
    }

    #[test]
    fn the_setting_is_named_with_what_would_do() {
        let kernel = Attempt {
            kernel: true,
            ..PROCESS
        };
        for (attempt, needed) in [(CPU, 0), (kernel, 1)] {
            let error = diagnosed(libc::EACCES, attempt, WORKING);
            let MonitorError::Paranoid {
                needed: told, level, ..
            } = error
            else {
                panic!("{error:?}");
            };
            assert_eq!((told, level), (needed, 2));
            assert!(error.hint().unwrap().ends_with(&format!("={needed}")));
        }
        assert_eq!(
            diagnosed(libc::EACCES, CPU, WORKING).to_string(),
            "counting on CPU 3 is not permitted: kernel.perf_event_paranoid is 2"
        );
        // The setting permits it: then the process is somebody else's.
        let error = diagnosed(libc::EACCES, PROCESS, WORKING);
        assert_eq!(error.to_string(), "counting on process 42 is not permitted");
        assert!(error.hint().unwrap().contains("the user the server runs as"));
    }

    #[test]
    fn missing_things_are_told_apart() {
        assert_eq!(
            diagnosed(libc::ENOSYS, PROCESS, WORKING),
            MonitorError::NoPerfEvents
        );
        assert_eq!(
            diagnosed(libc::ESRCH, PROCESS, WORKING),
            MonitorError::NoProcess { pid: 42 }
        );
        let bare = Facts {
            cycles_open: false,
            opens_alone: false,
            ..WORKING
        };
        assert_eq!(diagnosed(libc::ENOENT, PROCESS, bare), MonitorError::NoCounters);
        let software = Attempt {
            hardware: false,
            event: "page-faults",
            ..CPU
        };
        assert_eq!(
            diagnosed(libc::ENODEV, software, bare),
            MonitorError::NoCpu { cpu: 3 }
        );
        assert_eq!(
            diagnosed(libc::ENOENT, PROCESS, WORKING).to_string(),
            "this CPU cannot count INST_RETIRED.ANY"
        );
    }

    #[test]
    fn a_full_group_is_told_from_a_bad_encoding() {
        let third = Attempt { opened: 2, ..PROCESS };
        assert_eq!(
            diagnosed(libc::EINVAL, third, WORKING),
            MonitorError::TooMany {
                requested: 3,
                fitting: 2
            }
        );
        let alone = Facts {
            opens_alone: false,
            ..WORKING
        };
        assert!(matches!(
            diagnosed(libc::EINVAL, third, alone),
            MonitorError::Unsupported { .. }
        ));
    }

    #[test]
    fn running_out_of_files_says_what_to_raise() {
        let error = diagnosed(libc::EMFILE, PROCESS, WORKING);
        assert_eq!(error.to_string(), "cannot open event counters");
        assert!(
            error.hint().unwrap().contains("ulimit -n"),
            "{:?}",
            error.detail()
        );
    }
}
