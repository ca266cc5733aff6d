//! A database whose queries run in parts as slowly as a test wants, and what must be true of the proxy after anything went wrong.

use std::ops::Deref;
use std::time::{Duration, Instant};

use super::{splits, until_split};
use crate::common::fixture::Fixture;
use crate::common::postgres::Postgres;
use crate::common::raw::{Raw, Row, number};
use crate::common::target::{Mode, Pooling};
use crate::common::wait::{wait, wait_for};

/// How long a query is watched for its parts before it begins again.
const BEGIN: Duration = Duration::from_secs(5);

/// Servers a database may have.
pub const POOL_SIZE: usize = 5;

/// The tables: `spread` has keys in both parts, `tick` makes joins slow, `ratio` fails at one key, `wide` has much to tell.
const TABLES: &str = "create table spread (k int primary key, v int);
    create table tick (n int);
    create table ratio (k int primary key, v int);
    create table wide (k int primary key, t text);
    insert into spread select i, i % 7 from generate_series(1, 1000, 10) i;
    insert into tick select i from generate_series(1, 6000) i;
    insert into ratio select i, case when i = 900 then 0 else 1 + i % 9 end from generate_series(1, 1000) i;
    insert into wide select i, repeat('x', 200) || i from generate_series(1, 1000) i;
    analyze";

/// The targets, two parts each: keys up to 500, and from 501.
const SPLITS: &str = "split = \"on\"
    [splits.slow]\ndatabase = \"{database}\"\nquery = \"\"\"{slow}\"\"\"\nkey = \"spread.k\"\nminimum = 1\nmaximum = 1000\nparts = 2
    [splits.ratio]\ndatabase = \"{database}\"\nquery = \"\"\"{ratio}\"\"\"\nkey = \"ratio.k\"\nminimum = 1\nmaximum = 1000\nparts = 2
    [splits.wide]\ndatabase = \"{database}\"\nquery = \"\"\"{wide}\"\"\"\nkey = \"wide.k\"\nminimum = 1\nmaximum = 1000\nparts = 2";

pub const RATIO: &str = "select k, 100 / v from ratio where k > 0 order by k";
pub const WIDE: &str = "select k, t from wide where k > 0 order by k desc";

/// A query whose time goes with the square of `n`, over keys from `from` to `to`. 6,000 is minutes, 10 is nothing.
pub fn slow(n: usize, from: usize, to: usize) -> String {
    format!(
        "select count(*), sum(a.k) from spread a, tick b, tick c \
         where b.n <= {n} and c.n <= {n} and b.n <> c.n + a.k and a.k >= {from} and a.k <= {to}"
    )
}

/// The same over all keys.
pub fn all(n: usize) -> String {
    slow(n, 1, 1000)
}

pub struct SplitFixture(Fixture);

impl Deref for SplitFixture {
    type Target = Fixture;

    fn deref(&self) -> &Fixture {
        &self.0
    }
}

impl SplitFixture {
    pub fn start() -> SplitFixture {
        SplitFixture::with(None, |pooling| pooling)
    }

    pub fn with(own: Option<Postgres>, change: impl FnOnce(Pooling) -> Pooling) -> SplitFixture {
        let lines = SPLITS
            .replace("{slow}", &all(1))
            .replace("{ratio}", RATIO)
            .replace("{wide}", WIDE);
        let pooling = change(Pooling::new(Mode::Transaction, POOL_SIZE)).ours(&lines);
        let fixture = SplitFixture(Fixture::start_on(own, &pooling));
        for statement in TABLES.split(';') {
            fixture.direct().rows(statement);
        }
        fixture
    }

    /// Runs a quick query until it ran in parts: once there are servers for them, and what it is is known.
    pub fn warm(&self, client: &mut Raw) {
        let expected = self.direct().rows(&all(10));
        until_split(self, "slow", 2, || assert_eq!(client.rows(&all(10)), expected));
    }

    /// A client that has a session of its own, its servers there and its query known.
    pub fn warm_client(&self) -> Raw {
        let mut client = self.client();
        for setting in [
            "set datestyle to 'German'",
            "set work_mem to '5MB'",
            "set app.mine to 'yes'",
        ] {
            client.rows(setting);
        }
        self.warm(&mut client);
        client
    }

    /// Starts a query of a client that takes minutes, and waits until both parts run.
    pub fn start_slow(&self, client: &mut Raw) {
        self.begin(client, &all(6000));
    }

    /// Starts a query, and waits until both parts run. Where no other server is free at the moment it begins, it runs whole, and a fast one
    /// may end before anybody looks: then it begins again.
    pub fn begin(&self, client: &mut Raw, sql: &str) {
        let running = "select count(*) from pg_stat_activity where datname = current_database() and usename = 'app' and state = 'active' \
                       and query like '%tick%'";
        wait(|| {
            self.quiet();
            client.send_query(sql);
            let until = Instant::now() + BEGIN;
            while Instant::now() < until {
                if self.value(running) == "2" {
                    return Ok(());
                }
            }
            self.cancel(client);
            client.until_ready();
            Err(format!("it did not run in two parts: {}", splits(self, "slow").2))
        });
    }

    /// Servers that run something: process, and whether a client is behind it.
    pub fn active(&self) -> Vec<(u32, bool)> {
        let all = self.servers().into_iter();
        let active = all.filter(|row| !row["link"].is_empty() || row["state"] == "active");
        active
            .map(|row| (number(&row, "remote_pid"), !row["link"].is_empty()))
            .collect()
    }

    /// The process of the part without a client, or of the leader.
    pub fn member(&self, leads: bool) -> u32 {
        let running = self.sql("select pid from pg_stat_activity where datname = current_database() and usename = 'app' and state = 'active' and query like '%tick%'");
        let pids = running.iter().filter_map(|row| row[0].as_deref()?.parse().ok());
        let running: Vec<u32> = pids.collect();
        let linked = self.active().into_iter().filter(|(_, linked)| *linked);
        let linked: Vec<u32> = linked.map(|(pid, _)| pid).collect();
        let found = running.iter().find(|pid| linked.contains(pid) == leads);
        *found.unwrap_or_else(|| panic!("running {running:?}, with a client {linked:?}"))
    }

    pub fn servers(&self) -> Vec<Row> {
        let mut rows = self.console().table("show servers");
        rows.retain(|row| row["database"] == self.database);
        rows
    }

    /// Nothing is left of what ran: no server works or is in a transaction, here and there.
    pub fn quiet(&self) {
        self.wait_for_no_server("usename = 'app' and state <> 'idle'");
        wait_for(Vec::new(), || {
            let mut busy = self.servers();
            busy.retain(|row| !row["link"].is_empty() || !["idle", "used"].contains(&row["state"].as_str()));
            busy
        });
        assert!(self.servers().len() <= POOL_SIZE, "{:#?}", self.servers());
        let pools = self.console().table("show pools");
        for pool in pools.iter().filter(|pool| pool["database"] == self.database) {
            for column in ["cl_waiting", "sv_active", "sv_active_cancel"] {
                assert_eq!(pool[column], "0", "{column}: {pool:#?}");
            }
        }
    }

    /// Every server answers, each to one client at a time.
    pub fn all_serve(&self) {
        let mut clients: Vec<Raw> = (0..POOL_SIZE).map(|_| self.client()).collect();
        let mut pids: Vec<String> = clients
            .iter_mut()
            .map(|client| {
                client.rows("begin");
                client.value("select pg_backend_pid()")
            })
            .collect();
        for client in &mut clients {
            client.rows("rollback");
        }
        pids.sort();
        pids.dedup();
        assert_eq!(pids.len(), POOL_SIZE, "each had a server of its own");
    }

    /// All that must hold after something went wrong; the client's session as [`SplitFixture::warm_client`] made it.
    pub fn all_is_well(&self, client: &mut Raw) {
        for (name, value) in [
            ("datestyle", "German, DMY"),
            ("work_mem", "5MB"),
            ("app.mine", "yes"),
        ] {
            assert_eq!(client.value(&format!("show {name}")), value);
        }
        self.quiet();
        self.all_serve();
        self.warm(client);
        assert_eq!(client.rows(WIDE), self.direct().rows(WIDE));
        self.quiet();
    }
}
