//! One server of a database: what it last said, and whether it may be used.

use std::time::Duration;

use super::fleet::Settings;
use super::lag::Lag;
use super::lsn::Lsn;

/// What a server is to its database.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Role {
    /// It has not answered a probe yet.
    Unknown,
    /// It takes writes.
    Primary,
    /// It replays the log of another.
    Replica,
    /// It is banned: too many failures in a row.
    Down,
}

impl Role {
    /// The word of console rows.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Unknown => "unknown",
            Self::Primary => "primary",
            Self::Replica => "replica",
            Self::Down => "down",
        }
    }
}

/// The answer of a probe. A server that will not tell a field leaves it `None`, and what needs it is not done there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Probe {
    /// When the probe was sent: everything below was true then or later.
    pub sent: Duration,
    /// Whether the server replays the log of another.
    pub in_recovery: bool,
    /// On a primary, how far its log is written; on a replica, how far it has replayed.
    pub lsn: Option<Lsn>,
    /// On a replica, how far it has received the log.
    pub received: Option<Lsn>,
    /// On a replica, the age of the last transaction replayed by its own clock. It grows while nothing is written.
    pub replay_age: Option<Duration>,
    /// The timeline it writes or follows.
    pub timeline: Option<u32>,
    /// The identity of the cluster, equal on a primary and all its copies.
    pub system: Option<u64>,
    /// On a replica, whether replay was paused by hand.
    pub paused: bool,
}

/// The last probe a host answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Known {
    /// What it said; its timeline never goes back while it replays on.
    pub probe: Probe,
    /// When the answer came.
    pub at: Duration,
}

/// A host that failed too often.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Ban {
    /// A replica stays out at least until then.
    pub(super) until: Duration,
}

/// One host of a fleet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Host {
    weight: u32,
    known: Option<Known>,
    lag: Lag,
    lagging: bool,
    failures: u32,
    successes: u32,
    ban: Option<Ban>,
    /// Bans in close succession: each is twice as long as the one before.
    bans: u32,
    released: Option<Duration>,
}

/// A ban is at most `2^BAN_DOUBLINGS_MAX` times the ban time of the settings. Unmeasured.
const BAN_DOUBLINGS_MAX: u32 = 4;
/// A host that was in use for this many ban times starts with a short ban again. Unmeasured.
const FORGIVEN_AFTER: u32 = 10;

impl Host {
    pub(super) fn new(weight: u32) -> Self {
        Self {
            weight,
            known: None,
            lag: Lag::default(),
            lagging: false,
            failures: 0,
            successes: 0,
            ban: None,
            bans: 0,
            released: None,
        }
    }

    /// What it is, as far as is known.
    pub fn role(&self) -> Role {
        match (&self.ban, &self.known) {
            (Some(_), _) => Role::Down,
            (None, None) => Role::Unknown,
            (None, Some(known)) if known.probe.in_recovery => Role::Replica,
            (None, Some(_)) => Role::Primary,
        }
    }

    /// The last probe it answered.
    pub fn known(&self) -> Option<&Known> {
        self.known.as_ref()
    }

    /// How far it was behind the primary when it last answered; nothing on a primary.
    pub fn lag(&self) -> Lag {
        self.lag
    }

    /// Whether it fell behind the limits and has not caught up to half of them since.
    pub fn is_lagging(&self) -> bool {
        self.lagging
    }

    /// Its share of reads, relative to the other hosts' weights. 0: no reads.
    pub fn weight(&self) -> u32 {
        self.weight
    }

    /// Whether it is out of use. A ban ends with good probes, never by time alone.
    pub fn is_banned(&self) -> bool {
        self.ban.is_some()
    }

    /// When its ban may end; `None` if it is not banned.
    pub fn banned_until(&self) -> Option<Duration> {
        self.ban.map(|ban| ban.until)
    }

    /// Failures since the last success.
    pub fn failures(&self) -> u32 {
        self.failures
    }

    /// Whether its last answer said that it takes writes.
    pub(super) fn claims_primary(&self) -> bool {
        self.known.is_some_and(|known| !known.probe.in_recovery)
    }

    /// Whether its last answer said that it does not.
    pub(super) fn in_recovery(&self) -> bool {
        self.known.is_some_and(|known| known.probe.in_recovery)
    }

    pub(super) fn timeline(&self) -> Option<u32> {
        self.known.and_then(|known| known.probe.timeline)
    }

    pub(super) fn system(&self) -> Option<u64> {
        self.known.and_then(|known| known.probe.system)
    }

    /// Keeps an answer; lag is judged by the caller, who knows the primary.
    pub(super) fn answered(&mut self, mut probe: Probe, now: Duration, settings: &Settings) {
        // A replica names its timeline from its receiver, or, while that is away, from its last checkpoint, which may
        // be one timeline older. It cannot have gone back to that one without having lost log.
        if let Some(before) = self.known.map(|known| known.probe)
            && before.in_recovery
            && probe.in_recovery
            && before.system == probe.system
            && before.lsn <= probe.lsn
        {
            probe.timeline = probe.timeline.max(before.timeline);
        }
        self.known = Some(Known { probe, at: now });
        self.failures = 0;
        self.successes = self.successes.saturating_add(1);
        let Some(ban) = self.ban else { return };
        // Nobody else can do what a primary does: keeping it out longer would only make writes wait.
        let steady = now >= ban.until && self.successes >= settings.successes_before_use;
        if !probe.in_recovery || steady {
            self.ban = None;
            self.released = Some(now);
        }
    }

    pub(super) fn failed(&mut self, now: Duration, settings: &Settings) {
        self.successes = 0;
        self.failures = self.failures.saturating_add(1);
        if self.ban.is_none() {
            if self.failures < settings.failures_before_ban.max(1) {
                return;
            }
            let forgiven = self.released.is_none_or(|released| {
                now.saturating_sub(released) >= settings.ban_time.saturating_mul(FORGIVEN_AFTER)
            });
            self.bans = if forgiven { 0 } else { self.bans.saturating_add(1) };
        }
        let doublings = self.bans.min(BAN_DOUBLINGS_MAX);
        let until = now.saturating_add(settings.ban_time.saturating_mul(1 << doublings));
        self.ban = Some(Ban { until });
    }

    pub(super) fn connected(&mut self) {
        if self.ban.is_none() {
            self.failures = 0;
        }
    }

    /// Keeps how far it is behind. Out above the limits, in again at half of them: a host at the limit does not flap.
    pub(super) fn judged(&mut self, lag: Lag, settings: &Settings) {
        self.lag = lag;
        let divisor = if self.lagging { 2 } else { 1 };
        self.lagging = !lag.within(
            settings.lag_max_bytes.map(|bytes| bytes / divisor),
            settings.lag_max.map(|time| time / divisor as u32),
        );
    }
}
