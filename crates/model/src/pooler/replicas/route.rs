//! Which host a transaction goes to.

use std::fmt;
use std::time::Duration;

use super::fleet::Fleet;
use super::lsn::Lsn;

/// What a transaction needs of its host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Want {
    /// The primary.
    Write,
    /// Any host that shows the log up to here; `None`: any state within the limits of lag.
    Read {
        /// The least place in the log the host must have replayed.
        min_lsn: Option<Lsn>,
    },
}

/// Where it goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Choice {
    /// To this host, a number of the fleet's hosts from 0.
    Host(usize),
    /// Nowhere yet: there is no primary. Ask again at every change, at the latest at this time.
    WaitForPrimary(Duration),
    /// Nowhere.
    None(Missing),
}

/// Why there is no host for a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Missing {
    /// The database has no host.
    Hosts,
    /// No host takes writes, and the time to wait for one is over.
    Primary,
    /// The only host that takes writes was superseded by a newer primary, which does not answer or is not in the list.
    NewerPrimary,
    /// No replica is fit to be read from, and the settings keep reads off the primary.
    Replica,
}

impl fmt::Display for Missing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Hosts => "the database has no hosts",
            Self::Primary => "no host takes writes: promote a replica, or start the primary",
            Self::NewerPrimary => {
                "the only host that takes writes is an old primary: a replica has been promoted since. Add the new \
                 primary to the list of hosts, or start it"
            }
            Self::Replica => "no replica is up and within the limits of lag",
        })
    }
}

impl Fleet {
    /// Where a transaction that wants `want` goes at `now`.
    ///
    /// `load` is how busy each host is, in transactions under way and waiting; missing numbers count as 0. `turn` decides
    /// between equals: a caller counts it up with each call, so that equals take turns by weight.
    ///
    /// A fleet of one host leaves no choice: everything goes there, and the server answers for itself.
    pub fn route(&self, want: Want, now: Duration, load: &[u32], turn: u64) -> Choice {
        match (self.hosts.len(), want) {
            (0, _) => Choice::None(Missing::Hosts),
            (1, _) => Choice::Host(0),
            (_, Want::Write) => self.route_write(now),
            (_, Want::Read { min_lsn }) => self.route_read(min_lsn, now, load, turn),
        }
    }

    fn route_write(&self, now: Duration) -> Choice {
        if let Some(primary) = self.primary {
            return Choice::Host(primary);
        }
        if let Some(host) = self.last_resort() {
            return Choice::Host(host);
        }
        let until = self
            .lost_at
            .unwrap_or(now)
            .saturating_add(self.settings.primary_wait_max);
        if now < until {
            return Choice::WaitForPrimary(until);
        }
        let superseded = self
            .hosts
            .iter()
            .any(|host| host.claims_primary() && !host.is_banned());
        Choice::None(if superseded {
            Missing::NewerPrimary
        } else {
            Missing::Primary
        })
    }

    fn route_read(&self, min_lsn: Option<Lsn>, now: Duration, load: &[u32], turn: u64) -> Choice {
        if let Some(host) = self.least_loaded(|i| self.may_read(i, min_lsn, now), load, turn) {
            return Choice::Host(host);
        }
        // A session's own writes are shown by the primary whatever the settings say of reads: an answer without them
        // would be wrong, not slow.
        let own_writes = || (0..self.hosts.len()).any(|i| self.may_read(i, None, now));
        if self.settings.read_fallback || own_writes() {
            return self.route_write(now);
        }
        match self.last_resort() {
            Some(host) => Choice::Host(host),
            None => Choice::None(Missing::Replica),
        }
    }

    /// When every host is banned, refusing would help nobody: the last primary is tried, and says what is wrong.
    fn last_resort(&self) -> Option<usize> {
        let all_banned = self.hosts.iter().all(|host| host.is_banned());
        self.primary_before
            .filter(|&host| all_banned && self.may_write(host))
    }

    fn may_read(&self, index: usize, min_lsn: Option<Lsn>, now: Duration) -> bool {
        let host = &self.hosts[index];
        if self.primary == Some(index) {
            return self.settings.primary_reads && host.weight() > 0;
        }
        let Some(known) = host.known() else { return false };
        host.weight() > 0
            && host.in_recovery()
            && !host.is_banned()
            && !host.is_lagging()
            && self.is_ours(index)
            && self.is_current(index)
            && now.saturating_sub(known.at) <= self.settings.answer_age_max
            && min_lsn.is_none_or(|min| known.probe.lsn.is_some_and(|replayed| replayed >= min))
    }

    /// The host with the least load for its weight; equals take turns, each as often as its weight says.
    fn least_loaded(&self, fit: impl Fn(usize) -> bool, load: &[u32], turn: u64) -> Option<usize> {
        let load_of = |i: usize| u64::from(load.get(i).copied().unwrap_or(0));
        let weight_of = |i: usize| u64::from(self.hosts[i].weight());
        // a/b < c/d as a*d < c*b: exact, and neither side overflows.
        let lighter = |a: usize, b: usize| load_of(a) * weight_of(b) < load_of(b) * weight_of(a);
        let fits = || (0..self.hosts.len()).filter(|&i| fit(i));
        let best = fits().reduce(|best, i| if lighter(i, best) { i } else { best })?;
        let equals = || fits().filter(|&i| !lighter(best, i));
        let mut place = turn % equals().map(weight_of).sum::<u64>().max(1);
        equals().find(|&i| {
            let here = place < weight_of(i);
            place = place.saturating_sub(weight_of(i));
            here
        })
    }
}
