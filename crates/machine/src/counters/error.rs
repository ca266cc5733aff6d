//! Why events cannot be counted, in words that say what to do about it.
//!
//! The kernel answers with a bare error number that means different things in different places. [`diagnose`] tells them
//! apart from what else can be found out: whether cycles can be counted at all, whether the event opens alone, and how
//! `perf_event_paranoid` is set. It is a pure function, so that each case is tested on a machine that has none of them.
//!
//! Not here: asking for those facts; see [`super::perf`].

use std::io;

use thiserror::Error;

use super::Event;

/// The highest `perf_event_paranoid` at which the kernel lets users count their own threads in user space.
const PARANOID_MAX: i32 = 2;

/// Why events cannot be counted. The text is one line; [`CountersError::detail`] and [`CountersError::hint`] say more.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum CountersError {
    /// The kernel drives no counter unit of the cores: a virtual machine, or a CPU without driver.
    #[error("this machine offers no hardware event counters")]
    NoCounters,
    /// The system call does not exist: not compiled in, or hidden by a sandbox.
    #[error("the kernel offers no performance events")]
    NoPerfEvents,
    /// `kernel.perf_event_paranoid` keeps users from counting even their own threads.
    #[error("counting hardware events is not permitted: kernel.perf_event_paranoid is {level}")]
    Paranoid {
        /// The value of the setting.
        level: i32,
    },
    /// Something else than `kernel.perf_event_paranoid` refused: a sandbox (seccomp) or a security module.
    #[error("counting hardware events is not permitted: a sandbox or security module refused")]
    Forbidden {
        /// What the kernel said.
        reason: String,
        /// The value of `kernel.perf_event_paranoid`, where it can be read.
        paranoid: Option<i32>,
    },
    /// This CPU, or the kernel's driver for it, cannot count this event.
    #[error("this CPU cannot count {event}")]
    Unsupported {
        /// The event.
        event: Event,
        /// Why, in words.
        reason: String,
    },
    /// Each event can be counted, but not all of them at once.
    #[error("{requested} events are more than this CPU counts at once")]
    TooMany {
        /// How many events were asked for.
        requested: usize,
        /// How many of them, from the first on, fit.
        fitting: usize,
    },
    /// The group was enabled, but the kernel never found the counters free for it.
    #[error("the events were never counted")]
    NeverCounted {
        /// How long the thread ran meanwhile, in nanoseconds.
        time_enabled_ns: u64,
    },
    /// Stopped without having been started.
    #[error("the counters were stopped without having been started")]
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

impl CountersError {
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
            Self::Paranoid { .. } => {
                format!("counting one's own threads in user space needs {PARANOID_MAX} or less, or CAP_PERFMON")
            }
            Self::Forbidden { reason, paranoid } => match paranoid {
                Some(level) => format!("{reason}; kernel.perf_event_paranoid is {level}"),
                None => format!("{reason}; kernel.perf_event_paranoid cannot be read"),
            },
            Self::Unsupported { reason, .. } | Self::System { reason, .. } => reason.clone(),
            Self::TooMany { fitting, .. } => format!("the first {fitting} of them fit together"),
            Self::NeverCounted { time_enabled_ns } => format!(
                "the thread ran for {time_enabled_ns} ns; others held the counters, or it ran on a core that cannot \
                 count these events"
            ),
            Self::NotStarted => return None,
        })
    }

    /// What to do about it: one line.
    pub fn hint(&self) -> Option<String> {
        Some(match self {
            Self::NoCounters => {
                "run on the bare machine, or have the hypervisor show its counters (QEMU: -cpu host,pmu=on)"
                    .to_owned()
            }
            Self::NoPerfEvents => {
                "run outside the sandbox, or allow perf_event_open in its profile".to_owned()
            }
            Self::Paranoid { .. } => format!("as root: sysctl kernel.perf_event_paranoid={PARANOID_MAX}"),
            Self::Forbidden { paranoid, .. } => {
                let allow = "allow perf_event_open in the sandbox's profile (containers: --cap-add PERFMON)";
                match paranoid {
                    Some(level) if *level > PARANOID_MAX => {
                        format!(
                            "{allow}; without CAP_PERFMON also: sysctl kernel.perf_event_paranoid={PARANOID_MAX}"
                        )
                    }
                    _ => allow.to_owned(),
                }
            }
            Self::Unsupported { .. } => "leave this event out".to_owned(),
            Self::TooMany { .. } => {
                "count fewer events at a time, and repeat the work for the others".to_owned()
            }
            Self::NeverCounted { .. } => {
                "count fewer events, end other profilers, free the watchdog's counter (as root: sysctl \
                 kernel.nmi_watchdog=0), or pin the thread to another kind of core"
                    .to_owned()
            }
            Self::NotStarted | Self::System { .. } => return None,
        })
    }

    /// A refusal that is no matter of events or permissions.
    pub(super) fn system(doing: &'static str, error: &io::Error) -> Self {
        Self::System {
            doing,
            reason: error.to_string(),
        }
    }
}

/// What was being opened when the kernel refused.
#[derive(Clone, Copy, Debug)]
pub(super) struct Attempt {
    /// The event; `None` for the group itself.
    pub(super) event: Option<Event>,
    /// How many events the group held already.
    pub(super) opened: usize,
    /// How many it was to hold.
    pub(super) requested: usize,
}

/// What else is known when the kernel refuses.
#[derive(Clone, Copy, Debug)]
pub(super) struct Facts {
    /// Whether cycles can be counted.
    pub(super) cycles_open: bool,
    /// Whether the event opens outside the group.
    pub(super) opens_alone: bool,
    /// `kernel.perf_event_paranoid`, where it can be read.
    pub(super) paranoid: Option<i32>,
}

/// What a refusal of `perf_event_open` means.
pub(super) fn diagnose(error: &io::Error, attempt: Attempt, facts: Facts) -> CountersError {
    let unsupported = |reason: &str| match attempt.event {
        Some(event) if facts.cycles_open => CountersError::Unsupported {
            event,
            reason: format!("{reason}: {error}"),
        },
        _ => CountersError::NoCounters,
    };
    match (error.raw_os_error(), facts.paranoid) {
        (Some(libc::ENOSYS), _) => CountersError::NoPerfEvents,
        // The setting always shows as EACCES; security modules may answer the same.
        (Some(libc::EACCES), Some(level)) if level > PARANOID_MAX => CountersError::Paranoid { level },
        // seccomp filters usually answer EPERM, whatever the setting is.
        (Some(libc::EACCES | libc::EPERM), paranoid) => CountersError::Forbidden {
            reason: error.to_string(),
            paranoid,
        },
        (Some(libc::ENOENT | libc::ENODEV | libc::ENXIO | libc::EOPNOTSUPP), _) => {
            unsupported("the kernel has no such event for this CPU")
        }
        // The kernel checks whether a growing group can ever be counted as one, and answers EINVAL where it cannot. An
        // encoding it does not like gets the same answer.
        (Some(libc::EINVAL), _) if attempt.event.is_some() => {
            if facts.opens_alone && attempt.opened > 0 {
                CountersError::TooMany {
                    requested: attempt.requested,
                    fitting: attempt.opened,
                }
            } else {
                unsupported("the kernel rejects its encoding")
            }
        }
        _ => CountersError::system("open", error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIRST: Attempt = Attempt {
        event: Some(Event::L2Misses),
        opened: 0,
        requested: 6,
    };
    const FIFTH: Attempt = Attempt { opened: 4, ..FIRST };
    const GROUP: Attempt = Attempt { event: None, ..FIRST };
    /// A machine on which counting works.
    const WORKING: Facts = Facts {
        cycles_open: true,
        opens_alone: true,
        paranoid: Some(2),
    };
    /// A machine without counters.
    const BARE: Facts = Facts {
        cycles_open: false,
        opens_alone: false,
        paranoid: Some(2),
    };

    fn diagnosed(errno: i32, attempt: Attempt, facts: Facts) -> CountersError {
        diagnose(&io::Error::from_raw_os_error(errno), attempt, facts)
    }

    /// Primary, detail and hint as a person sees them.
    fn text(error: &CountersError) -> String {
        let lines = [
            Some(error.to_string()),
            error.detail().map(|text| format!("detail: {text}")),
            error.hint().map(|text| format!("hint: {text}")),
        ];
        let lines: Vec<String> = lines.into_iter().flatten().collect();
        assert!(
            lines
                .iter()
                .all(|line| !line.contains('\n') && !line.contains("  "))
        );
        lines.join("\n")
    }

    #[test]
    fn no_counter_unit_is_told_from_one_that_lacks_the_event() {
        for errno in [libc::ENOENT, libc::ENODEV, libc::ENXIO, libc::EOPNOTSUPP] {
            for attempt in [FIRST, FIFTH, GROUP] {
                assert_eq!(diagnosed(errno, attempt, BARE), CountersError::NoCounters);
            }
            let error = diagnosed(errno, FIFTH, WORKING);
            assert!(
                matches!(
                    error,
                    CountersError::Unsupported {
                        event: Event::L2Misses,
                        ..
                    }
                ),
                "{error:?}"
            );
        }
        assert_eq!(
            text(&diagnosed(libc::ENOENT, FIRST, WORKING)),
            "this CPU cannot count L2 cache misses\n\
             detail: the kernel has no such event for this CPU: No such file or directory (os error 2)\n\
             hint: leave this event out"
        );
        assert_eq!(
            text(&CountersError::NoCounters),
            "this machine offers no hardware event counters\n\
             detail: the kernel cannot even count cycles; hypervisors often hide the counters from their guests\n\
             hint: run on the bare machine, or have the hypervisor show its counters (QEMU: -cpu host,pmu=on)"
        );
    }

    #[test]
    fn the_setting_is_named_with_its_value() {
        let strict = Facts {
            paranoid: Some(4),
            ..BARE
        };
        let error = diagnosed(libc::EACCES, FIRST, strict);
        assert_eq!(error, CountersError::Paranoid { level: 4 });
        assert_eq!(
            text(&error),
            "counting hardware events is not permitted: kernel.perf_event_paranoid is 4\n\
             detail: counting one's own threads in user space needs 2 or less, or CAP_PERFMON\n\
             hint: as root: sysctl kernel.perf_event_paranoid=2"
        );
    }

    #[test]
    fn a_sandbox_is_not_blamed_on_the_setting() {
        // The setting permits, yet the answer is no; or the answer is not the one the setting gives.
        for (errno, paranoid) in [
            (libc::EACCES, Some(2)),
            (libc::EACCES, Some(-1)),
            (libc::EACCES, None),
            (libc::EPERM, Some(1)),
            (libc::EPERM, Some(4)),
            (libc::EPERM, None),
        ] {
            let error = diagnosed(errno, GROUP, Facts { paranoid, ..BARE });
            let CountersError::Forbidden { paranoid: told, .. } = &error else {
                panic!("{error:?}");
            };
            assert_eq!(*told, paranoid);
            assert_eq!(
                error
                    .hint()
                    .unwrap()
                    .contains("sysctl kernel.perf_event_paranoid=2"),
                paranoid == Some(4)
            );
        }
        let facts = Facts {
            paranoid: Some(1),
            ..BARE
        };
        assert_eq!(
            text(&diagnosed(libc::EPERM, FIRST, facts)),
            "counting hardware events is not permitted: a sandbox or security module refused\n\
             detail: Operation not permitted (os error 1); kernel.perf_event_paranoid is 1\n\
             hint: allow perf_event_open in the sandbox's profile (containers: --cap-add PERFMON)"
        );
        assert_eq!(diagnosed(libc::ENOSYS, GROUP, BARE), CountersError::NoPerfEvents);
    }

    #[test]
    fn a_full_group_is_told_from_a_bad_encoding() {
        let error = diagnosed(libc::EINVAL, FIFTH, WORKING);
        assert_eq!(
            error,
            CountersError::TooMany {
                requested: 6,
                fitting: 4
            }
        );
        assert_eq!(
            text(&error),
            "6 events are more than this CPU counts at once\n\
             detail: the first 4 of them fit together\n\
             hint: count fewer events at a time, and repeat the work for the others"
        );
        let refused_alone = Facts {
            opens_alone: false,
            ..WORKING
        };
        for (attempt, facts) in [(FIFTH, refused_alone), (FIRST, refused_alone)] {
            let error = diagnosed(libc::EINVAL, attempt, facts);
            assert!(matches!(error, CountersError::Unsupported { .. }), "{error:?}");
        }
    }

    #[test]
    fn anything_else_keeps_the_words_of_the_kernel() {
        for (errno, attempt) in [(libc::EMFILE, FIRST), (libc::EBUSY, FIFTH), (libc::EINVAL, GROUP)] {
            let error = diagnosed(errno, attempt, WORKING);
            assert_eq!(error.to_string(), "cannot open event counters");
            assert_eq!(
                error.detail(),
                Some(io::Error::from_raw_os_error(errno).to_string())
            );
        }
    }

    #[test]
    fn the_other_errors_say_what_to_do() {
        let never = text(&CountersError::NeverCounted { time_enabled_ns: 70 });
        assert!(
            never.contains("70 ns") && never.contains("nmi_watchdog"),
            "{never}"
        );
        let hidden = text(&CountersError::NoPerfEvents);
        assert!(
            hidden.contains("CONFIG_PERF_EVENTS") && hidden.contains("profile"),
            "{hidden}"
        );
    }
}
