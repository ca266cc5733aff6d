//! One event loop's view of the hosts of a database.

use std::sync::Arc;
use std::time::Duration;

use corun_model::pooler::replicas::split::{Place, Rules, Session};
use corun_model::pooler::replicas::{Choice, Fleet, Want};

use super::shared::Hosts;

/// Reads what is known of the hosts without a lock, unless it changed since the last look.
#[derive(Debug)]
pub struct View {
    hosts: Arc<Hosts>,
    version: u64,
    fleet: Arc<Fleet>,
    turn: u64,
}

impl View {
    pub(super) fn new(hosts: Arc<Hosts>, version: u64, fleet: Arc<Fleet>) -> Self {
        Self {
            hosts,
            version,
            fleet,
            turn: 0,
        }
    }

    /// The shared state behind it.
    pub fn hosts(&self) -> &Arc<Hosts> {
        &self.hosts
    }

    /// What is known now.
    pub fn fleet(&mut self) -> &Fleet {
        let version = self.hosts.version();
        if version != self.version {
            self.fleet = self.hosts.fleet();
            self.version = version;
        }
        &self.fleet
    }

    /// Where a transaction that wants `want` goes; `load` is how busy each host is, in transactions under way and waiting.
    pub fn route(&mut self, want: Want, now: Duration, load: &[u32]) -> Choice {
        self.turn = self.turn.wrapping_add(1);
        let turn = self.turn;
        self.fleet().route(want, now, load, turn)
    }

    /// Where the text of a session goes, after [`Session::decide`] said `place`; `None`: to the server it holds.
    pub fn choose(
        &mut self,
        session: &mut Session,
        rules: &Rules,
        place: Place,
        now: Duration,
        load: &[u32],
    ) -> Option<Choice> {
        let want = session.want(rules, place, self.fleet(), now)?;
        Some(self.route(want, now, load))
    }
}
