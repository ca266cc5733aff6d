//! What all event loops know of one database's hosts.
//!
//! The fleet is a value behind an [`Arc`]; each input makes a new one and counts the version up. Loops read through a
//! [`View`], which takes the lock only when the version changed: a few times a second, not once a transaction.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use corun_model::pooler::replicas::{Fleet, Role, Warning};
use parking_lot::Mutex;
use tracing::{info, warn};

use super::probe::{ProbeError, Row, read_row};
use super::schedule::{Order, Pace, Schedule};
use super::view::View;

/// How the hosts of a database are probed and judged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Settings {
    /// Limits of lag, bans, waits.
    pub fleet: corun_model::pooler::replicas::Settings,
    /// How often hosts are probed.
    pub pace: Pace,
}

/// What a pool saw of a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Report {
    /// A connection was made, logged in.
    Connected,
    /// A connection was refused, timed out, or the server would not let anybody in: it counts towards a ban. Not for a
    /// wrong password or an unknown database, which is no fault of the host.
    Refused,
    /// A connection that worked broke, or the server refused a write for being in recovery (SQLSTATE 25006): the host is
    /// probed at once.
    Suspect,
}

/// One host, for the console.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostStatus {
    /// As configured.
    pub name: String,
    /// What it is.
    pub role: Role,
    /// Whether writes go to it.
    pub primary: bool,
    /// What it last said, how far it was behind, how often it failed.
    pub host: corun_model::pooler::replicas::Host,
    /// Why the last probe failed, if it did.
    pub error: Option<String>,
}

/// Called when the primary changes. It must be quick and must not call [`Hosts`]: the lock is held.
pub type Listener = Box<dyn Fn() + Send + Sync>;

/// The hosts of one database, shared. All times handed in are of one clock.
pub struct Hosts {
    database: String,
    names: Vec<String>,
    /// Of the fleet in `state`; written under its lock.
    version: AtomicU64,
    /// When the schedule has something to do, in nanoseconds; written under the lock of `state`, read without.
    wake_at_ns: AtomicU64,
    state: Mutex<State>,
    /// One a loop. Locked while `state` is, never the other way round.
    listeners: Mutex<Vec<Listener>>,
}

impl std::fmt::Debug for Hosts {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Hosts")
            .field("database", &self.database)
            .field("names", &self.names)
            .finish_non_exhaustive()
    }
}

struct State {
    fleet: Arc<Fleet>,
    schedule: Schedule,
    errors: Vec<Option<ProbeError>>,
    warned: Vec<Warning>,
}

impl Hosts {
    /// Hosts of which nothing is known. `names` and `weights` in the order of the configuration; a missing weight is 1.
    pub fn new(
        database: &str,
        names: Vec<String>,
        weights: &[u32],
        settings: &Settings,
        now: Duration,
    ) -> Arc<Self> {
        let weights: Vec<u32> = (0..names.len())
            .map(|i| weights.get(i).copied().unwrap_or(1))
            .collect();
        let hosts = Self {
            database: database.to_owned(),
            version: AtomicU64::new(0),
            wake_at_ns: AtomicU64::new(0),
            state: Mutex::new(State {
                fleet: Arc::new(Fleet::new(settings.fleet, &weights, now)),
                schedule: Schedule::new(names.len(), settings.pace, now),
                errors: vec![None; names.len()],
                warned: Vec::new(),
            }),
            listeners: Mutex::new(Vec::new()),
            names,
        };
        hosts.note_wake(&hosts.state.lock());
        Arc::new(hosts)
    }

    /// How many hosts there are.
    pub fn len(&self) -> usize {
        self.names.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.names.is_empty()
    }

    /// The name of a host, as configured; empty for an unknown one.
    pub fn name(&self, host: usize) -> &str {
        self.names.get(host).map_or("", String::as_str)
    }

    /// A reader for one event loop.
    pub fn view(self: &Arc<Self>) -> View {
        // The version first: a fleet newer than its version is looked at once more, an older one would be kept.
        let version = self.version();
        View::new(Arc::clone(self), version, self.fleet())
    }

    pub(super) fn version(&self) -> u64 {
        self.version.load(Ordering::Acquire)
    }

    /// What is known now.
    pub fn fleet(&self) -> Arc<Fleet> {
        Arc::clone(&self.state.lock().fleet)
    }

    /// Judges by other settings from now on.
    pub fn set_settings(&self, settings: &Settings, now: Duration) {
        self.change(&mut self.state.lock(), now, |fleet, schedule| {
            fleet.set_settings(settings.fleet, now);
            schedule.pace = settings.pace;
        });
    }

    /// Calls `listener` whenever the primary changes or is lost, so that a loop looks after the clients that wait for one.
    pub fn on_primary_change(&self, listener: Listener) {
        self.listeners.lock().push(listener);
    }

    /// When [`Hosts::next_probe`] should be asked next; `None`: never, a single host is not probed.
    pub fn wake_at(&self) -> Option<Duration> {
        let nanos = self.wake_at_ns.load(Ordering::Acquire);
        (self.len() > 1).then_some(Duration::from_nanos(nanos))
    }

    /// The next probe to run, if one is due; ask until there is none. `random` spreads the times of later probes.
    ///
    /// Probes that were not answered in time fail here. Any loop may ask; each probe is given out once.
    pub fn next_probe(&self, now: Duration, random: u64) -> Option<Order> {
        if self.wake_at().is_none_or(|at| now < at) {
            return None;
        }
        while let Some(order) = self.overdue(now) {
            let timeout = ProbeError::Timeout(self.state.lock().schedule.pace.timeout);
            self.probed(&order, Err(timeout), now, random);
        }
        let mut state = self.state.lock();
        let order = state.schedule.next(now);
        self.note_wake(&state);
        order
    }

    fn overdue(&self, now: Duration) -> Option<Order> {
        self.state.lock().schedule.overdue(now)
    }

    /// Takes the outcome of a probe: its only row, or why there is none. An outcome after its time does not count.
    pub fn probed(&self, order: &Order, outcome: Result<&Row<'_>, ProbeError>, now: Duration, random: u64) {
        let outcome = outcome.and_then(|row| read_row(row, order.sent));
        let mut state = self.state.lock();
        let hurry = state.fleet.primary().is_none();
        if !state.schedule.finish(order, hurry, now, random) {
            return;
        }
        state.errors[order.host] = outcome.as_ref().err().cloned();
        self.change(&mut state, now, |fleet, schedule| match outcome {
            Ok(probe) => fleet.probed(order.host, probe, now),
            Err(error) => match order.level.after(&error) {
                Some(level) => {
                    info!(database = self.database, host = self.name(order.host), %error, "the host is asked less");
                    schedule.lower(order.host, level, now);
                }
                None => fleet.failed(order.host, now),
            },
        });
    }

    /// Takes what a pool saw of a host.
    pub fn report(&self, host: usize, report: Report, now: Duration) {
        if host >= self.len() || self.len() < 2 {
            return;
        }
        self.change(&mut self.state.lock(), now, |fleet, schedule| match report {
            Report::Connected => fleet.connected(host),
            Report::Refused => {
                fleet.failed(host, now);
                schedule.hasten(host, now);
            }
            Report::Suspect => schedule.hasten(host, now),
        });
    }

    /// Every host, for the console.
    pub fn status(&self) -> Vec<HostStatus> {
        let state = self.state.lock();
        let host = |(i, host): (usize, &corun_model::pooler::replicas::Host)| HostStatus {
            name: self.names[i].clone(),
            role: host.role(),
            primary: state.fleet.primary() == Some(i),
            host: host.clone(),
            error: state.errors[i].as_ref().map(ToString::to_string),
        };
        state.fleet.hosts().iter().enumerate().map(host).collect()
    }

    /// Replaces the fleet by what `apply` makes of a copy of it.
    fn change(&self, state: &mut State, now: Duration, apply: impl FnOnce(&mut Fleet, &mut Schedule)) {
        let before = Arc::clone(&state.fleet);
        let mut fleet = Fleet::clone(&before);
        apply(&mut fleet, &mut state.schedule);
        if before.primary().is_some() && fleet.primary().is_none() {
            state.schedule.hasten_all(now);
        }
        if fleet != *before {
            state.fleet = Arc::new(fleet);
            self.version.fetch_add(1, Ordering::Release);
            self.log(&before, state);
            if before.primary() != state.fleet.primary() {
                self.listeners.lock().iter().for_each(|tell| tell());
            }
        }
        self.note_wake(state);
    }

    /// Says in the log what people should know, once for each time it begins.
    fn log(&self, before: &Fleet, state: &mut State) {
        let (database, after) = (&self.database, &state.fleet);
        match (before.primary(), after.primary()) {
            (old, Some(new)) if old != Some(new) => {
                info!(
                    database,
                    host = self.name(new),
                    timeline = after.newest_timeline(),
                    "writes go to this primary"
                );
            }
            (Some(old), None) => warn!(
                database,
                host = self.name(old),
                "the primary is lost: writes wait"
            ),
            _ => {}
        }
        for (i, (old, new)) in before.hosts().iter().zip(after.hosts()).enumerate() {
            let (host, error) = (
                self.name(i),
                state.errors[i].as_ref().map(tracing::field::display),
            );
            match (old.is_banned(), new.is_banned()) {
                (false, true) => warn!(database, host, failures = new.failures(), error, "banned"),
                (true, false) => info!(database, host, role = new.role().as_str(), "in use again"),
                _ => {}
            }
        }
        let warnings = after.warnings();
        for warning in warnings.iter().filter(|warning| !state.warned.contains(warning)) {
            warn!(database, hosts = ?self.names, "{warning}");
        }
        state.warned = warnings;
    }

    fn note_wake(&self, state: &State) {
        let at = state.schedule.wake_at().unwrap_or(Duration::MAX);
        let nanos = u64::try_from(at.as_nanos()).unwrap_or(u64::MAX);
        self.wake_at_ns.store(nanos, Ordering::Release);
    }
}
