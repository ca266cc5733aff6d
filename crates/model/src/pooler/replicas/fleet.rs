//! The hosts of one database: who is primary, who may be read from.
//!
//! Election, after every input: of the hosts that say they take writes, are not banned, belong to this cluster and write
//! the newest timeline seen, the one that is primary already; else the one with the longest log; else the first in the
//! list.
//!
//! ```text
//!              a probe says: not in recovery, newest timeline
//!   no primary ──────────────────────────────────────────────► primary i
//!       ▲  └ writes wait until lost_at + primary_wait_max         │
//!       └──────────────────────────────────────────────────────────┘
//!          banned, or says it is in recovery, or a newer timeline was seen
//! ```

use std::cmp::Reverse;
use std::time::Duration;

use super::host::{Host, Probe, Role};
use super::lag::{History, Lag};
use super::lsn::Lsn;
use super::warning::Warning;

/// How a fleet is judged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// A replica further behind is not read from; `None`: no limit.
    pub lag_max_bytes: Option<u64>,
    /// A replica that shows older data is not read from; `None`: no limit.
    pub lag_max: Option<Duration>,
    /// A replica whose last answer is older is not read from.
    pub answer_age_max: Duration,
    /// How long a replica that failed stays out, at least. Doubles while it fails again soon after.
    pub ban_time: Duration,
    /// So many failures in a row ban a host; at least 1.
    pub failures_before_ban: u32,
    /// So many good probes in a row end a replica's ban, once its time is over.
    pub successes_before_use: u32,
    /// How long writes wait for a new primary after the old one was lost.
    pub primary_wait_max: Duration,
    /// Reads go to the primary where no replica will do.
    pub read_fallback: bool,
    /// The primary takes its share of reads beside the replicas.
    pub primary_reads: bool,
}

impl Default for Settings {
    /// Unmeasured: what a probe a second can tell, and failovers that tools finish within half a minute.
    fn default() -> Self {
        Self {
            lag_max_bytes: Some(16 << 20),
            lag_max: Some(Duration::from_secs(10)),
            answer_age_max: Duration::from_secs(10),
            ban_time: Duration::from_secs(10),
            failures_before_ban: 3,
            successes_before_use: 2,
            primary_wait_max: Duration::from_secs(30),
            read_fallback: true,
            primary_reads: false,
        }
    }
}

/// The hosts of one database. A value: clone it for a snapshot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fleet {
    pub(super) settings: Settings,
    pub(super) hosts: Vec<Host>,
    pub(super) primary: Option<usize>,
    /// The last one, also while there is none.
    pub(super) primary_before: Option<usize>,
    /// Since when there is none.
    pub(super) lost_at: Option<Duration>,
    /// The identity of this cluster: the first that was told.
    system: Option<u64>,
    /// The newest timeline of it that was seen.
    newest: Option<u32>,
    history: History,
}

impl Fleet {
    /// Hosts of which nothing is known yet, one for each weight; see [`Host::weight`].
    pub fn new(settings: Settings, weights: &[u32], now: Duration) -> Self {
        Self {
            settings,
            hosts: weights.iter().map(|&weight| Host::new(weight)).collect(),
            primary: None,
            primary_before: None,
            lost_at: Some(now),
            system: None,
            newest: None,
            history: History::default(),
        }
    }

    /// The hosts, in the order of the configuration.
    pub fn hosts(&self) -> &[Host] {
        &self.hosts
    }

    /// How it is judged.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Judges by other settings from now on; what is known stays.
    pub fn set_settings(&mut self, settings: Settings, now: Duration) {
        self.settings = settings;
        self.elect(now);
    }

    /// The host that writes go to.
    pub fn primary(&self) -> Option<usize> {
        self.primary
    }

    /// Since when there has been no primary; `None` while there is one.
    pub fn lost_at(&self) -> Option<Duration> {
        self.lost_at
    }

    /// The newest timeline seen.
    pub fn newest_timeline(&self) -> Option<u32> {
        self.newest
    }

    /// Takes the answer of a probe of host `index`. Unknown hosts are ignored.
    pub fn probed(&mut self, index: usize, probe: Probe, now: Duration) {
        let Some(host) = self.hosts.get_mut(index) else {
            return;
        };
        host.answered(probe, now, &self.settings);
        self.system = self.system.or(probe.system);
        if self.is_ours(index) {
            self.newest = self.newest.max(self.hosts[index].timeline());
        }
        self.elect(now);
        if self.primary == Some(index)
            && let Some(lsn) = probe.lsn
        {
            self.history.add(probe.sent, lsn);
        }
        let lag = if probe.in_recovery {
            self.history.lag_of(&probe)
        } else {
            Lag {
                bytes: Some(0),
                time: Some(Duration::ZERO),
            }
        };
        self.hosts[index].judged(lag, &self.settings);
    }

    /// Takes that a probe of host `index` failed, or that a connection to it was refused or not answered.
    ///
    /// Not for a connection that worked and broke: an administrator who ends ten of them does not make the host bad.
    pub fn failed(&mut self, index: usize, now: Duration) {
        let Some(host) = self.hosts.get_mut(index) else {
            return;
        };
        host.failed(now, &self.settings);
        self.elect(now);
    }

    /// Takes that a connection to host `index` succeeded. It ends no ban: only a probe tells what the host is now.
    pub fn connected(&mut self, index: usize) {
        if let Some(host) = self.hosts.get_mut(index) {
            host.connected();
        }
    }

    /// Where the primary's log was after `at`, if a probe sent since has told: a replica that replayed it shows all
    /// that was committed by `at`.
    pub fn lsn_after(&self, at: Duration) -> Option<Lsn> {
        self.history.lsn_after(at)
    }

    /// Whether host `index` is, as far as is known, a copy of this cluster.
    pub(super) fn is_ours(&self, index: usize) -> bool {
        match (self.system, self.hosts[index].system()) {
            (Some(ours), Some(its)) => ours == its,
            _ => true,
        }
    }

    /// Whether host `index` is on the newest timeline, as far as is known.
    pub(super) fn is_current(&self, index: usize) -> bool {
        match (self.newest, self.hosts[index].timeline()) {
            (Some(newest), Some(its)) => its >= newest,
            _ => true,
        }
    }

    /// Whether host `index` may be written to, a ban aside.
    pub(super) fn may_write(&self, index: usize) -> bool {
        self.hosts[index].claims_primary() && self.is_ours(index) && self.is_current(index)
    }

    fn elect(&mut self, now: Duration) {
        let elected = (0..self.hosts.len())
            .filter(|&i| self.may_write(i) && !self.hosts[i].is_banned())
            .max_by_key(|&i| {
                let lsn = self.hosts[i].known().and_then(|known| known.probe.lsn);
                (
                    self.hosts[i].timeline(),
                    self.primary_before == Some(i),
                    lsn,
                    Reverse(i),
                )
            });
        if elected.is_some() && elected != self.primary_before {
            // The new primary's log is not a continuation of all of the old one's.
            self.history.clear();
        }
        self.lost_at = match (elected, self.lost_at) {
            (Some(_), _) => None,
            (None, lost) => lost.or(Some(now)),
        };
        self.primary = elected;
        self.primary_before = elected.or(self.primary_before);
    }

    /// What people should know of, in the order of the hosts.
    pub fn warnings(&self) -> Vec<Warning> {
        (0..self.hosts.len()).filter_map(|i| self.warning(i)).collect()
    }

    fn warning(&self, host: usize) -> Option<Warning> {
        if !self.is_ours(host) {
            return Some(Warning::OtherCluster { host });
        }
        let old = (!self.is_current(host))
            .then(|| self.hosts[host].timeline().zip(self.newest))
            .flatten();
        match (self.hosts[host].role(), self.primary, old) {
            (Role::Primary, Some(primary), _) if primary != host => {
                Some(Warning::SplitBrain { primary, other: host })
            }
            (Role::Primary, None, Some((timeline, newest))) => Some(Warning::Superseded {
                host,
                timeline,
                newest,
            }),
            (Role::Replica, _, Some((timeline, newest))) => Some(Warning::OldTimeline {
                host,
                timeline,
                newest,
            }),
            (Role::Replica, _, None) if self.hosts[host].is_lagging() => Some(Warning::Lagging { host }),
            _ => None,
        }
    }
}
