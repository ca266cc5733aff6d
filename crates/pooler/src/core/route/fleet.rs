//! Databases with several hosts, as one event loop sees them: which pool a client goes to, who waits for a primary, and probes.
//!
//! ```text
//!  attach ─► way() ─► the pool of a host ─► enqueue, pair        probes: a pool of its own with one connection a host,
//!                 └─► park: no primary ─► again on each tick              so that a busy pool does not look like a dead host
//!                         and when a loop has found one
//! ```
//!
//! Which host it is, `corun_model::pooler::replicas` decides; what is known of hosts is shared by all loops ([`Hosts`]).

use std::collections::HashMap;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::{Duration, Instant};

use corun_model::pooler::replicas::split::{Place, ReadYourWrites, Rules as SplitRules};
use corun_model::pooler::replicas::{Choice, Missing, Role, Want};
use corun_net::reactor::Reactor;
use ring::rand::SecureRandom;

use crate::config::{Corun, Effective, Endpoint, PoolMode};
use crate::core::classify::batch;
use crate::core::classify::request::Request;
use crate::core::client::Client;
use crate::core::client::wait::WaitsIn;
use crate::core::event_loop::{EventLoop, Todo};
use crate::core::pool::PoolKey;
use crate::core::ranges::Key;
use crate::core::server::Question;
use crate::core::shared::{Message, Shared};
use crate::core::stages::Halt;
use crate::hosts::{Hosts, Order, Pace, ProbeError, Report, Settings, View};
use corun_wire::error::{Refusal, Reported, code};

/// In a pool's host number: it is the pool of the probes.
pub(in crate::core) const PROBE: usize = 1 << 16;

/// In a pool's host number: its servers stream the log to clients that replicate.
pub(in crate::core) const REPLICATION: usize = 1 << 17;

/// Which of the hosts a pool's number means.
fn host_of(key: &PoolKey) -> usize {
    key.host & !(PROBE | REPLICATION)
}

/// One database with several hosts.
pub(in crate::core) struct Fleet {
    pub view: View,
    /// Who probes.
    user: Arc<str>,
}

/// What an event loop knows of hosts.
#[derive(Default)]
pub(in crate::core) struct LoopHosts {
    /// Databases with several hosts that clients of this loop use.
    pub fleets: HashMap<Arc<str>, Fleet>,
    /// Clients (slot, number) for whom there is no host now.
    pub parked: Vec<(usize, u64)>,
    /// How far the clock of all loops is ahead of this loop's.
    pub clock_ahead: Duration,
}

/// Where a client goes.
pub(in crate::core) enum Way {
    /// To this pool.
    Pool(usize),
    /// Nowhere yet.
    Park,
    /// Away.
    Refuse(Refusal),
}

/// The hosts of a database in the order of their numbers. Where there are no replicas, `hosts` are names of one, of which a pool
/// uses the one with this `number`.
pub(in crate::core) fn endpoint(effective: &Effective, host: usize, number: usize) -> Option<&Endpoint> {
    if effective.replicas.is_empty() {
        return effective.hosts.get(number);
    }
    effective
        .hosts
        .iter()
        .chain(&effective.replicas)
        .nth(host & !(PROBE | REPLICATION))
}

/// Shortest time between probes, and for an answer: what `0` in the configuration comes to.
const PROBE_TIME_MIN: Duration = Duration::from_millis(10);

fn settings(effective: &Effective, corun: &Corun) -> Settings {
    let interval = corun.health_check_interval.max(PROBE_TIME_MIN);
    let timeout = corun.health_check_timeout.max(PROBE_TIME_MIN);
    Settings {
        fleet: corun_model::pooler::replicas::Settings {
            lag_max: (!effective.lag_max.is_zero()).then_some(effective.lag_max),
            lag_max_bytes: (effective.lag_bytes_max.0 > 0).then_some(effective.lag_bytes_max.0),
            // An answer that takes as long as it may does not make the one before too old.
            answer_age_max: (interval * 5).max(interval * 2 + timeout),
            ban_time: corun.ban_time,
            failures_before_ban: corun.failures_before_ban,
            read_fallback: corun.read_fallback_to_primary,
            ..corun_model::pooler::replicas::Settings::default()
        },
        pace: Pace { interval, timeout },
    }
}

fn split_rules(effective: &Effective) -> SplitRules {
    SplitRules {
        // A session keeps the server it got first, so that has to take everything.
        split: effective.read_write_split && effective.pool_mode != PoolMode::Session,
        read_your_writes: match effective.read_your_writes {
            true => ReadYourWrites::Log,
            false => ReadYourWrites::Off,
        },
    }
}

impl Shared {
    /// What is known of a database's hosts, by all loops. Changed settings hold from now on; changed hosts begin anew.
    fn hosts(self: &Arc<Self>, database: &Arc<str>, effective: &Effective, corun: &Corun) -> Arc<Hosts> {
        let names: Vec<String> = effective
            .hosts
            .iter()
            .chain(&effective.replicas)
            .map(|endpoint| format!("{}:{}", endpoint.host, endpoint.port))
            .collect();
        let settings = settings(effective, corun);
        let now = self.started.elapsed();
        let mut fleets = self.fleets.lock();
        if let Some(hosts) = fleets.get(database)
            && (0..hosts.len()).map(|host| hosts.name(host)).eq(names.iter())
        {
            hosts.set_settings(&settings, now);
            return Arc::clone(hosts);
        }
        let hosts = Hosts::new(database, names, &[], &settings, now);
        let shared = Arc::downgrade(self);
        hosts.on_primary_change(Box::new(move || {
            if let Some(shared) = shared.upgrade() {
                shared.tell_all(|| Message::Primary);
            }
        }));
        fleets.insert(Arc::clone(database), Arc::clone(&hosts));
        hosts
    }
}

impl<R: Reactor> EventLoop<R> {
    /// The time by the clock all loops share.
    pub(in crate::core) fn fleet_time(&mut self, reactor: &R) -> Duration {
        reactor.now() + self.hosts.clock_ahead
    }

    /// Finds out how far the clock of all loops is ahead of this one's.
    pub(in crate::core) fn set_clock(&mut self, reactor: &R) {
        let ahead = |started: Instant| {
            let own = reactor.now();
            started.elapsed().saturating_sub(own)
        };
        // The least of several: this thread may be interrupted between the two.
        let several = (0..5).map(|_| ahead(self.shared.started));
        self.hosts.clock_ahead = several.min().unwrap_or_default();
    }

    /// Whether a pool is of a database with several hosts.
    fn is_fleet(&self, pool: usize) -> bool {
        self.pools
            .get(pool)
            .is_some_and(|pool| !pool.effective.replicas.is_empty())
    }

    /// Makes sure that the hosts of a pool's database are looked at.
    fn open_fleet(&mut self, reactor: &mut R, pool: usize) {
        let Some(pool) = self.pools.get(pool) else { return };
        if self.hosts.fleets.contains_key(&pool.key.database) {
            return;
        }
        let effective = &pool.effective;
        let database = Arc::clone(&pool.key.database);
        let user = match &effective.auth_user {
            Some(user) => user.as_str().into(),
            None => Arc::clone(&pool.key.user),
        };
        let view = self
            .shared
            .hosts(&database, effective, &self.files.config.corun)
            .view();
        self.hosts
            .fleets
            .insert(Arc::clone(&database), Fleet { view, user });
        self.probe(reactor, &database);
    }

    /// The pool that tells clients on their way in what they are told: the primary's, or a replica's while there is none.
    pub(in crate::core) fn entrance_pool(&mut self, reactor: &mut R, pool: usize) -> Way {
        if !self.is_fleet(pool) {
            return Way::Pool(pool);
        }
        self.open_fleet(reactor, pool);
        let now = self.fleet_time(reactor);
        let Some(key) = self.pools.get(pool).map(|pool| pool.key.clone()) else {
            return Way::Pool(pool);
        };
        let choice = match self.hosts.fleets.get_mut(&key.database) {
            Some(fleet) => match fleet.view.route(Want::Write, now, &[]) {
                Choice::Host(host) => Choice::Host(host),
                // A replica can let it in as well, so that reads go on.
                none => match fleet.view.route(Want::Read { min_lsn: None }, now, &[]) {
                    Choice::Host(host) => Choice::Host(host),
                    _ => none,
                },
            },
            None => return Way::Pool(pool),
        };
        self.chosen(&key, choice)
    }

    /// Where a client's next transaction goes; `bytes` begin with its first message, whose key is `of`.
    fn way(&mut self, reactor: &mut R, request: &mut Request<'_>, of: Option<Key>) -> Way {
        let index = request.client;
        let Some(pool_index) = self.clients.get(index).map(|client| client.pool) else {
            return Way::Pool(usize::MAX);
        };
        if !self.is_fleet(pool_index) {
            return Way::Pool(pool_index);
        }
        self.open_fleet(reactor, pool_index);
        let now = self.fleet_time(reactor);
        let (Some(client), Some(pool)) = (self.clients.get_mut(index), self.pools.get(pool_index)) else {
            return Way::Pool(pool_index);
        };
        let rules = split_rules(&pool.effective);
        let place = match client.place {
            // It was parked, or its queue was dissolved.
            Some(place) => place,
            None => {
                let ask = batch::ask(client, &mut self.classifier, &mut request.first, request.bytes);
                client.split.decide(&rules, &ask)
            }
        };
        client.place = Some(place);
        let key = pool.key.clone();
        let load: Vec<u32> = match place {
            Place::Replica => self.loads_by_key(&key, of),
            _ => Vec::new(),
        };
        let (Some(client), Some(fleet)) = (
            self.clients.get_mut(index),
            self.hosts.fleets.get_mut(&key.database),
        ) else {
            return Way::Pool(pool_index);
        };
        let choice = fleet
            .view
            .choose(&mut client.split, &rules, place, now, &load)
            .unwrap_or_else(|| fleet.view.route(Want::Write, now, &[]));
        self.chosen(&key, choice)
    }

    /// The pool of the host that a request goes to. `Break`: it goes nowhere now.
    pub(in crate::core) fn pool_of_host(
        &mut self,
        reactor: &mut R,
        request: &mut Request<'_>,
        of: Option<Key>,
    ) -> ControlFlow<Halt, usize> {
        let index = request.client;
        match self.way(reactor, request, of) {
            Way::Pool(pool) => ControlFlow::Continue(pool),
            Way::Park => {
                self.park(index);
                ControlFlow::Break(Halt::Wait(0))
            }
            Way::Refuse(refusal) => {
                self.refuse_client(reactor, index, &refusal);
                ControlFlow::Break(Halt::Gone)
            }
        }
    }

    /// Transactions under way and waiting at each host, of this loop and user.
    pub(in crate::core) fn loads(&self, key: &PoolKey) -> Vec<u32> {
        let hosts = self
            .hosts
            .fleets
            .get(&key.database)
            .map_or(0, |fleet| fleet.view.hosts().len());
        let of = |pool: usize| {
            let pool = self.pools.get(pool);
            pool.map_or(0, |pool| pool.servers - pool.idle.len() + pool.waiting.len())
        };
        let load = |host| {
            let key = PoolKey { host, ..key.clone() };
            let first = self.pool_of.get(&key).copied();
            let Some((index, pool)) = first.and_then(|index| Some((index, self.pools.get(index)?))) else {
                return 0;
            };
            if pool.core_pools.is_empty() {
                return of(index) as u32;
            }
            pool.core_pools
                .iter()
                .map(|&core_pool| of(core_pool))
                .sum::<usize>() as u32
        };
        (0..hosts).map(load).collect()
    }

    fn chosen(&mut self, key: &PoolKey, choice: Choice) -> Way {
        match choice {
            Choice::Host(host) => match self.pool(&key.database, &key.user, host | key.host & REPLICATION) {
                Ok(pool) => Way::Pool(pool),
                Err(refusal) => Way::Refuse(refusal),
            },
            Choice::WaitForPrimary(_) => Way::Park,
            // A replica that has not been asked yet may be fit; one that does not answer is banned soon.
            Choice::None(Missing::Replica) if self.hosts_unknown(&key.database) => Way::Park,
            Choice::None(missing) => Way::Refuse(
                Refusal::new(
                    code::CANNOT_CONNECT_NOW,
                    format!("database \"{}\" has no server for this", key.database),
                )
                .detail(missing.to_string()),
            ),
        }
    }

    /// Whether hosts of a database have not told yet what they are.
    fn hosts_unknown(&mut self, database: &str) -> bool {
        let fleet = self.hosts.fleets.get_mut(database);
        fleet.is_some_and(|fleet| {
            let hosts = fleet.view.fleet().hosts();
            hosts.iter().any(|host| host.role() == Role::Unknown)
        })
    }

    /// Lets a client wait for a primary.
    pub(in crate::core) fn park(&mut self, index: usize) {
        let Some(client) = self.clients.get_mut(index) else {
            return;
        };
        let since = *client.wait.from.get_or_insert(self.now);
        client.wait.since = since;
        client.wait.place = WaitsIn::NoHost;
        self.hosts.parked.push((index, client.id));
    }

    /// A client has its server: it waits for nothing more.
    pub(in crate::core) fn arrived(client: &mut Client) {
        client.wait.ends();
        client.place = None;
    }

    /// A client's transaction is over, its server let go.
    pub(in crate::core) fn fleet_finished(&mut self, reactor: &R, index: usize, replica: bool) {
        if self.hosts.fleets.is_empty() {
            return;
        }
        let now = self.fleet_time(reactor);
        if let Some(client) = self.clients.get_mut(index) {
            let wrote = std::mem::take(&mut client.transaction.wrote) && !replica;
            client.split.finished(wrote, now);
        }
    }

    /// Whether a server of this pool is not the primary now.
    pub(in crate::core) fn is_replica(&mut self, pool: usize) -> bool {
        let Some(pool) = self
            .pools
            .get(pool)
            .filter(|pool| !pool.effective.replicas.is_empty())
        else {
            return false;
        };
        let fleet = self.hosts.fleets.get_mut(&pool.key.database);
        fleet.is_some_and(|fleet| fleet.view.fleet().primary() != Some(host_of(&pool.key)))
    }

    /// Tells what happened to a connection of a pool. `true`: the pool is one of several, and who waits for it may find another.
    pub(in crate::core) fn report(&mut self, reactor: &R, pool: usize, report: Report) -> bool {
        if !self.is_fleet(pool) {
            return false;
        }
        let now = self.fleet_time(reactor);
        let Some(key) = self.pools.get(pool).map(|pool| pool.key.clone()) else {
            return false;
        };
        // A probe's own failure is told by its question.
        if key.host & PROBE == 0
            && let Some(fleet) = self.hosts.fleets.get(&key.database)
        {
            fleet.view.hosts().report(host_of(&key), report, now);
        }
        key.host & PROBE == 0
    }

    /// Several times a second: probes that are due, and clients that may find a host now.
    pub(in crate::core) fn fleet_tick(&mut self, reactor: &mut R) {
        if self.hosts.fleets.is_empty() {
            return;
        }
        let used: Vec<Arc<str>> = self
            .hosts
            .fleets
            .keys()
            .filter(|database| {
                self.pools
                    .iter()
                    .any(|(_, pool)| pool.clients > 0 && pool.key.database == **database)
            })
            .cloned()
            .collect();
        for database in used {
            self.probe(reactor, &database);
        }
        let broken: Vec<usize> = self
            .pools
            .iter()
            .filter(|(_, pool)| {
                pool.failed.is_some() && !pool.waiting.is_empty() && !pool.effective.replicas.is_empty()
            })
            .map(|(index, _)| index)
            .collect();
        self.dissolve(&broken);
        self.unpark();
    }

    /// Another host is primary, or none: everybody who waits is sent where things are now.
    pub(in crate::core) fn primary_changed(&mut self) {
        let pools: Vec<usize> = self
            .pools
            .iter_mut()
            .filter(|(_, pool)| !pool.effective.replicas.is_empty())
            .map(|(index, pool)| {
                pool.failed = None;
                // What a replica told is not what the primary tells.
                pool.all.forget_greetings();
                index
            })
            .collect();
        self.dissolve(&pools);
        self.unpark();
        self.hubs_leave();
    }

    /// Sends away those that wait in these queues, to look for a host again.
    fn dissolve(&mut self, pools: &[usize]) {
        for &pool in pools {
            let Some(pool) = self.pools.get_mut(pool) else {
                continue;
            };
            for waiting in pool.waiting.drain() {
                if let Some(client) = self.clients.get_mut(waiting.client) {
                    client.wait.leave();
                    client.wait.from.get_or_insert(client.wait.since);
                    self.park(waiting.client);
                }
            }
        }
    }

    fn unpark(&mut self) {
        for (index, id) in std::mem::take(&mut self.hosts.parked) {
            if let Some(client) = self.clients.get_mut(index)
                && client.id == id
                && client.wait.unpark()
            {
                self.todo.push_back(if client.is_ready() {
                    Todo::Serve(index, id)
                } else {
                    Todo::Enter(index, id)
                });
            }
        }
    }

    fn probe(&mut self, reactor: &mut R, database: &Arc<str>) {
        let now = self.fleet_time(reactor);
        let mut random = [0; 8];
        let _ = self.shared.random.fill(&mut random);
        let random = u64::from_ne_bytes(random);
        while let Some(fleet) = self.hosts.fleets.get(database)
            && let Some(order) = fleet.view.hosts().next_probe(now, random)
        {
            let user = Arc::clone(&fleet.user);
            let question = Question::Health {
                database: Arc::clone(database),
                order,
            };
            if !self.ask_server(
                reactor,
                database,
                &user,
                order.host | PROBE,
                question,
                order.sql().to_owned(),
            ) {
                self.probed(reactor, database, order, &[], Some(Reported::default()));
            }
        }
    }

    /// A probe has its answer.
    pub(in crate::core) fn probed(
        &mut self,
        reactor: &R,
        database: &Arc<str>,
        order: Order,
        rows: &[Vec<Option<String>>],
        error: Option<Reported>,
    ) {
        let now = self.fleet_time(reactor);
        let Some(fleet) = self.hosts.fleets.get(database) else {
            return;
        };
        let columns: Vec<Option<&[u8]>> = rows
            .first()
            .map(|row| {
                row.iter()
                    .map(|column| column.as_deref().map(str::as_bytes))
                    .collect()
            })
            .unwrap_or_default();
        let outcome = match error {
            None => Ok(&columns[..]),
            Some(error) if error.code.is_empty() => Err(ProbeError::Connection(error.message)),
            Some(error) => Err(ProbeError::Server {
                sqlstate: error.code,
                message: error.message,
            }),
        };
        fleet
            .view
            .hosts()
            .probed(&order, outcome, now, now.subsec_nanos().into());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;

    #[test]
    fn every_key_about_hosts_has_its_place() {
        let of = |corun: &str| {
            let text = format!(
                "[proxy]\nauth_type = \"any\"\n[databases.a]\nhost = \"h\"\nuser = \"u\"\nreplicas = [\"r\"]\n[corun]\n{corun}"
            );
            let config = Config::parse(&text, "corun.toml")
                .expect("a configuration")
                .config;
            let effective = config.effective_database("a", "u").expect("a database");
            settings(&effective, &config.corun)
        };
        let usual = of("");
        assert_eq!(usual.fleet.ban_time, Duration::from_secs(30));
        assert_eq!(usual.fleet.failures_before_ban, 3);
        assert!(usual.fleet.read_fallback);
        assert_eq!(usual.pace.timeout, Duration::from_secs(5));
        let own = of(
            "ban_time = 7\nfailures_before_ban = 2\nread_fallback_to_primary = false\nlag_max = 3\n\
                      lag_bytes_max = \"1MB\"\nhealth_check_interval = 1\nhealth_check_timeout = 20",
        );
        assert_eq!(own.fleet.ban_time, Duration::from_secs(7));
        assert_eq!(own.fleet.failures_before_ban, 2);
        assert!(!own.fleet.read_fallback);
        assert_eq!(own.fleet.lag_max, Some(Duration::from_secs(3)));
        assert_eq!(own.fleet.lag_max_bytes, Some(1 << 20));
        assert_eq!(own.pace.interval, Duration::from_secs(1));
        assert_eq!(own.pace.timeout, Duration::from_secs(20));
        assert_eq!(own.fleet.answer_age_max, Duration::from_secs(22));
        let least = of("health_check_interval = 0\nhealth_check_timeout = 0").pace;
        assert_eq!((least.interval, least.timeout), (PROBE_TIME_MIN, PROBE_TIME_MIN));
    }
}
