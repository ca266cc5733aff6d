//! What is wrong with a fleet that people should know of.

use std::fmt;

/// Something an administrator should see. Hosts are numbers of the fleet's hosts, from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Warning {
    /// Two servers take writes at once.
    SplitBrain {
        /// The one that writes go to.
        primary: usize,
        /// The one whose writes, by whatever way they come, are in no other server.
        other: usize,
    },
    /// It takes writes, but another has been promoted since.
    Superseded {
        /// The old primary.
        host: usize,
        /// The timeline it writes.
        timeline: u32,
        /// The newest timeline seen.
        newest: u32,
    },
    /// It is a copy of another cluster.
    OtherCluster {
        /// The host.
        host: usize,
    },
    /// It does not follow the newest timeline, or its last checkpoint was before the promotion and the account may not
    /// see more.
    OldTimeline {
        /// The replica.
        host: usize,
        /// The timeline it follows.
        timeline: u32,
        /// The newest timeline seen.
        newest: u32,
    },
    /// It is too far behind to be read from.
    Lagging {
        /// The replica.
        host: usize,
    },
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::SplitBrain { primary, other } => write!(
                f,
                "split brain: host {primary} and host {other} both take writes; corun writes to host {primary}. Stop \
                 host {other} and rebuild it (pg_rewind, pg_basebackup)"
            ),
            Self::Superseded {
                host,
                timeline,
                newest,
            } => write!(
                f,
                "host {host} takes writes on timeline {timeline}, but timeline {newest} exists: it is not written to. \
                 Stop it and rebuild it from the new primary"
            ),
            Self::OtherCluster { host } => write!(
                f,
                "host {host} belongs to another cluster (its system identifier differs): it is not used. Correct the \
                 list of hosts, or restart corun if the whole cluster was rebuilt"
            ),
            Self::OldTimeline {
                host,
                timeline,
                newest,
            } => write!(
                f,
                "replica {host} is on timeline {timeline}, the newest is {newest}: it is not read from. Let it follow \
                 the new primary; if it does, it will say so after its next restart point, or at once to an account \
                 with pg_monitor"
            ),
            Self::Lagging { host } => {
                write!(
                    f,
                    "replica {host} is behind the limits of lag: it is not read from until it has caught up"
                )
            }
        }
    }
}
