//! A primary and two streaming replicas of real PostgreSQL: what probes of them make of a fleet, through lag, a stopped
//! replica, a crash of the primary, a promotion and the old primary's return.
//!
//! The proxy's time is played: a round of probes is a second. PostgreSQL's own time passes as it likes, and every
//! step waits for the state it needs.

use std::sync::Arc;
use std::time::Duration;

use crate::common::driver::{block_on, connect};
use crate::common::postgres::Postgres;
use crate::common::replicated::{self, FILL};
use corun_model::pooler::replicas::split::{Place, ReadYourWrites, Rules, Session};
use corun_model::pooler::replicas::{Choice, Lsn, Role, Want, Warning};
use corun_pooler::hosts::{Hosts, Order, Pace, ProbeError, Settings, View, probe};
use tokio_postgres::SimpleQueryMessage;

const READ: Want = Want::Read { min_lsn: None };
const RULES: Rules = Rules {
    split: true,
    read_your_writes: ReadYourWrites::Log,
};

/// Runs one statement on a connection of its own; its only row as text.
fn query(server: &Postgres, user: &str, sql: &str) -> Result<Vec<Option<String>>, ProbeError> {
    let login = server.login(user);
    let work = async {
        let connection = |error: tokio_postgres::Error| ProbeError::Connection(error.to_string());
        let client = connect(&login).await.map_err(connection)?;
        let messages = client
            .simple_query(sql)
            .await
            .map_err(|error| match error.as_db_error() {
                Some(refused) => ProbeError::Server {
                    sqlstate: refused.code().code().to_owned(),
                    message: refused.message().to_owned(),
                },
                None => connection(error),
            })?;
        let row = messages.into_iter().find_map(|message| match message {
            SimpleQueryMessage::Row(row) => {
                Some((0..row.len()).map(|i| row.get(i).map(str::to_owned)).collect())
            }
            _ => None,
        });
        Ok(row.unwrap_or_default())
    };
    block_on(work)
}

fn columns(row: &[Option<String>]) -> Vec<Option<&[u8]>> {
    row.iter()
        .map(|column| column.as_deref().map(str::as_bytes))
        .collect()
}

struct ProbedHosts {
    servers: Vec<Postgres>,
    hosts: Arc<Hosts>,
    view: View,
    now: Duration,
}

impl ProbedHosts {
    fn start() -> ProbedHosts {
        let servers = replicated::servers(&["create table t (a int, b text); grant all on t to public"]);
        let settings = Settings {
            fleet: corun_model::pooler::replicas::Settings {
                lag_max_bytes: Some(64 << 10),
                lag_max: Some(Duration::from_secs(5)),
                ban_time: Duration::from_secs(2),
                failures_before_ban: 2,
                ..corun_model::pooler::replicas::Settings::default()
            },
            pace: Pace::default(),
        };
        let names = servers
            .iter()
            .map(|server| format!("127.0.0.1:{}", server.port()))
            .collect();
        let hosts = Hosts::new("app", names, &[], &settings, Duration::ZERO);
        let view = hosts.view();
        ProbedHosts {
            servers,
            hosts,
            view,
            now: Duration::ZERO,
        }
    }

    fn run(&self, order: &Order) -> Result<Vec<Option<String>>, ProbeError> {
        query(&self.servers[order.host], "postgres", order.sql())
    }

    /// A second passes and every host is asked.
    fn round(&mut self) {
        self.now += Duration::from_millis(1200);
        while let Some(order) = self.hosts.next_probe(self.now, 0) {
            let row = self.run(&order);
            let row = row.as_ref().map(|row| columns(row)).map_err(Clone::clone);
            self.hosts
                .probed(&order, row.as_deref().map_err(Clone::clone), self.now, 0);
        }
    }

    fn rounds(&mut self, count: usize) {
        (0..count).for_each(|_| self.round());
    }

    fn write(&mut self) -> Choice {
        self.view.route(Want::Write, self.now, &[])
    }

    /// A write waits for a primary.
    fn assert_waits(&mut self) {
        let choice = self.write();
        assert!(matches!(choice, Choice::WaitForPrimary(_)), "{choice:?}");
    }

    /// Every host that reads go to, in turns.
    fn reads(&mut self) -> Vec<usize> {
        let mut hosts: Vec<usize> = (0..12)
            .map(|_| match self.view.route(READ, self.now, &[]) {
                Choice::Host(host) => host,
                other => panic!("{other:?}: {:#?}", self.hosts.status()),
            })
            .collect();
        hosts.sort_unstable();
        hosts.dedup();
        hosts
    }

    fn warnings(&self) -> Vec<Warning> {
        self.hosts.fleet().warnings()
    }

    /// The end of the log of server `host`, a primary.
    fn log_end(&self, host: usize) -> String {
        self.servers[host].value("select pg_current_wal_lsn()")
    }

    fn wait_replayed(&self, host: usize, lsn: &str) {
        self.servers[host].wait_until(&format!("select pg_last_wal_replay_lsn() >= '{lsn}'"));
    }

    /// A hundred kilobytes and more.
    fn fill(&self, host: usize) {
        self.servers[host].sql(FILL);
    }
}

#[test]
fn a_fleet_through_lag_stops_promotion_and_an_old_primarys_return() {
    let mut probed = ProbedHosts::start();
    probed.assert_waits();
    probed.rounds(2);
    assert_eq!(probed.write(), Choice::Host(0));
    assert_eq!(probed.reads(), [1, 2]);
    assert_eq!(probed.warnings(), []);
    for status in probed.hosts.status() {
        let known = *status.host.known().expect("answered");
        assert_eq!(known.probe.timeline, Some(1));
        assert_eq!(status.host.lag().bytes, Some(0), "{status:?}");
        let role = if status.primary {
            Role::Primary
        } else {
            Role::Replica
        };
        assert_eq!(status.role, role);
    }

    // Replica 1 stops replaying; it goes on receiving.
    probed.servers[1].sql("select pg_wal_replay_pause()");
    probed.fill(0);
    let end = probed.log_end(0);
    probed.wait_replayed(2, &end);
    probed.servers[1].wait_until(&format!("select pg_last_wal_receive_lsn() >= '{end}'"));
    probed.rounds(2);
    assert_eq!(probed.warnings(), [Warning::Lagging { host: 1 }]);
    assert_eq!(probed.reads(), [2]);
    let paused = &probed.hosts.status()[1].host;
    assert!(paused.known().is_some_and(|known| known.probe.paused));
    assert!(paused.lag().bytes > Some(64 << 10), "{paused:?}");

    // A session's write is shown by replica 2, and by the primary alone as long as that is not known.
    let mut session = Session::new();
    session.wrote(probed.now);
    let choose = |probed: &mut ProbedHosts, session: &mut Session| {
        probed
            .view
            .choose(session, &RULES, Place::Replica, probed.now, &[])
            .expect("a choice")
    };
    assert_eq!(choose(&mut probed, &mut session), Choice::Host(0));
    let row = query(&probed.servers[0], "app", probe::Level::Log.sql()).expect("the end of the log");
    let own = probe::read_row(&columns(&row), Duration::ZERO).expect("a probe's row");
    let own = own.lsn.expect("a place in the log");
    assert_eq!(
        Ok(own),
        end.parse::<Lsn>().map(|end| end.max(own)),
        "it is not before the end of the write"
    );
    probed.wait_replayed(2, &own.to_string());
    probed.round();
    session.learnt(own);
    for _ in 0..6 {
        assert_eq!(choose(&mut probed, &mut session), Choice::Host(2));
    }

    probed.servers[1].sql("select pg_wal_replay_resume()");
    probed.wait_replayed(1, &end);
    probed.rounds(2);
    assert_eq!(probed.reads(), [1, 2]);

    // Replica 2 is stopped, found out, and used again when it has been back for a while.
    probed.servers[2].stop();
    probed.rounds(3);
    assert_eq!(probed.hosts.status()[2].role, Role::Down);
    assert_eq!(probed.reads(), [1]);
    probed.servers[2].start_again();
    probed.wait_replayed(2, &end);
    probed.rounds(8);
    assert_eq!(probed.reads(), [1, 2]);

    // The primary crashes: writes wait, reads go on, and writes follow the promotion.
    probed.servers[0].kill();
    probed.rounds(3);
    probed.assert_waits();
    assert_eq!(probed.reads(), [1, 2]);
    probed.servers[1].sql("select pg_promote()");
    probed.servers[1].wait_until("select not pg_is_in_recovery()");
    probed.round();
    assert_eq!(probed.write(), Choice::Host(1));
    assert_eq!(probed.hosts.fleet().newest_timeline(), Some(2));
    // Replica 2 is still on the old timeline, so it might show what the new primary never had.
    assert_eq!(probed.reads(), [1]);
    let own = Lsn(u64::MAX);
    let newer = probed
        .view
        .route(Want::Read { min_lsn: Some(own) }, probed.now, &[]);
    assert_eq!(newer, Choice::Host(1));

    // It follows the new primary.
    probed.servers[2].sql(&format!(
        "alter system set primary_conninfo = 'host=127.0.0.1 port={} user=postgres'",
        probed.servers[1].port()
    ));
    probed.servers[2].sql("select pg_reload_conf()");
    probed.fill(1);
    probed.wait_replayed(2, &probed.log_end(1));
    probed.servers[2].wait_until("select received_tli = 2 from pg_stat_wal_receiver");
    probed.rounds(4);
    assert_eq!(probed.reads(), [2]);
    assert_eq!(probed.warnings(), []);

    // The old primary comes back as if nothing had happened. It gets nothing, not even when it is the last one that
    // takes writes.
    probed.servers[0].start_again();
    probed.rounds(4);
    assert_eq!(probed.warnings(), [Warning::SplitBrain { primary: 1, other: 0 }]);
    assert_eq!(probed.write(), Choice::Host(1));
    assert_eq!(probed.reads(), [2]);
    probed.servers[1].kill();
    probed.rounds(4);
    probed.assert_waits();
    let (host, timeline, newest) = (0, 1, 2);
    let superseded = Warning::Superseded {
        host,
        timeline,
        newest,
    };
    assert_eq!(probed.warnings(), [superseded]);
    probed.rounds(40);
    assert!(matches!(probed.write(), Choice::None(_)), "{:?}", probed.write());
    assert_eq!(probed.reads(), [2]);
}

/// What each level asks can be asked by an account without any rights, of a primary and of a replica, and says the same.
#[test]
fn any_account_may_ask_on_both_sides() {
    let primary = Postgres::start();
    let replica = primary.replica();
    replica.wait_replayed(&primary);
    let mut systems = Vec::new();
    for (server, in_recovery) in [(&primary, false), (&replica, true)] {
        for level in [probe::Level::Full, probe::Level::Log, probe::Level::Role] {
            let row = query(server, "app", level.sql()).expect("allowed");
            let told = probe::read_row(&columns(&row), Duration::ZERO).expect("a probe's row");
            assert_eq!(told.in_recovery, in_recovery);
            assert_eq!(told.lsn.is_some(), level != probe::Level::Role);
            if level == probe::Level::Full {
                assert_eq!(told.timeline, Some(1));
                systems.push(told.system.expect("an identity"));
            }
        }
    }
    assert_eq!(systems[0], systems[1]);
}

/// A log switched to a new file is not lag: the primary names the place behind the header of a file with nothing in it.
#[test]
fn an_idle_replica_is_not_behind_after_a_switch_of_the_log() {
    let mut probed = ProbedHosts::start();
    for _ in 0..3 {
        probed.servers[0].sql("create table if not exists u (); drop table u; select pg_switch_wal()");
        let end = probed.log_end(0);
        probed.wait_replayed(1, &end);
        probed.wait_replayed(2, &end);
        probed.rounds(2);
        for status in probed.hosts.status() {
            assert_eq!(status.host.lag().bytes, Some(0), "{status:?}");
        }
    }
}
