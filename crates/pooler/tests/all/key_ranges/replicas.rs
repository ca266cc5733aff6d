//! Reads by key on streaming replicas: each key's reads on the replica of its range, as long as that one is there.

use std::collections::{BTreeMap, BTreeSet};

use corun_pooler::config::Config;
use corun_pooler::{ConfigFiles, Pooler};

use super::fixture::wait;
use crate::common::child::free_port;
use crate::common::postgres::Postgres;
use crate::common::raw::{Login, Raw};

/// Keys that are asked for, spread over the ranges.
const KEYS: [i32; 10] = [1, 111, 222, 333, 444, 555, 666, 777, 888, 1000];

struct Scene {
    /// The primary and its replicas.
    servers: Vec<Postgres>,
    port: u16,
    // Dropped before the servers.
    _proxy: Pooler,
}

impl Scene {
    fn start(more: &str) -> Scene {
        let primary = Postgres::start();
        for statement in [
            "create view place as select setting::int as port from pg_settings where name = 'port'",
            "create table t (k int primary key, v text)",
            "insert into t select i, 'x' from generate_series(1, 1000) i",
            "create table tick (n int)",
            "insert into tick select i from generate_series(1, 6000) i",
        ] {
            primary.sql(statement);
        }
        let replicas = [primary.replica(), primary.replica()];
        let servers: Vec<Postgres> = std::iter::once(primary).chain(replicas).collect();
        let port = free_port();
        let text = format!(
            r#"
            [proxy]
            listen_addr = "127.0.0.1"
            listen_port = {port}
            unix_socket_dir = ""
            auth_type = "any"
            admin_users = ["postgres"]
            pool_mode = "transaction"
            default_pool_size = 4
            server_login_retry = 1
            [corun]
            event_loops = 2
            health_check_interval = "100ms"
            ban_time = "500ms"
            read_write_split = true
            read_your_writes = false
            dispatch = "range"
            replica_dispatch = "range"
            {more}
            [databases.app]
            host = "127.0.0.1"
            port = {}
            user = "postgres"
            replicas = ["127.0.0.1:{}", "127.0.0.1:{}"]
            [ranges.keys]
            database = "app"
            columns = ["t.k"]
            minimum = 1
            maximum = 1000
            "#,
            servers[0].port(),
            servers[1].port(),
            servers[2].port(),
        );
        let loaded = Config::parse(&text, "corun.toml").unwrap_or_else(|error| panic!("{error}"));
        let files = ConfigFiles::of(loaded.config).unwrap_or_else(|error| panic!("{error}"));
        let proxy = Pooler::start(files).unwrap_or_else(|error| panic!("{error}"));
        Scene {
            servers,
            port,
            _proxy: proxy,
        }
    }

    fn connect(&self) -> Raw {
        let login = Login::new("127.0.0.1", self.port, "postgres");
        Raw::connect(&login).unwrap_or_else(|error| panic!("{error}"))
    }

    /// Which server a key's reads run on now.
    fn place(&self, client: &mut Raw, key: i32) -> Result<usize, String> {
        let rows = client.try_rows(&format!("select port from place, t where k = {key}"))?;
        let port = rows.first().and_then(|row| row[0].clone()).unwrap_or_default();
        let found = self
            .servers
            .iter()
            .position(|server| server.port().to_string() == port);
        found.ok_or_else(|| format!("no server has port {port}"))
    }

    /// Where the reads of each key run, if each stays where it is.
    fn places(&self, client: &mut Raw) -> Result<BTreeMap<i32, usize>, String> {
        let mut places = BTreeMap::new();
        for _ in 0..3 {
            for key in KEYS {
                let place = self.place(client, key)?;
                match places.insert(key, place) {
                    Some(before) if before != place => return Err(format!("{key} on {before} and {place}")),
                    _ => {}
                }
            }
        }
        Ok(places)
    }

    /// Waits until reads run so.
    fn until(&self, client: &mut Raw, right: impl Fn(&BTreeMap<i32, usize>) -> bool) -> BTreeMap<i32, usize> {
        let mut found = BTreeMap::new();
        wait(|| match self.places(client) {
            Ok(places) if right(&places) => {
                found = places;
                Ok(())
            }
            Ok(places) => Err(format!("{places:?}")),
            Err(error) => Err(error),
        });
        found
    }
}

/// Whether these servers and no others have keys, and in order: what is below a boundary on one, what is above it on another.
fn only(places: &BTreeMap<i32, usize>, servers: &[usize]) -> bool {
    let used: BTreeSet<usize> = places.values().copied().collect();
    let changes = places
        .values()
        .zip(places.values().skip(1))
        .filter(|(one, next)| one != next)
        .count();
    used.iter().eq(servers) && changes < servers.len()
}

#[test]
fn each_key_is_read_where_its_range_is() {
    let scene = Scene::start("");
    let mut client = scene.connect();
    let places = scene.until(&mut client, |places| only(places, &[1, 2]));
    // Other clients, of other loops, the same.
    for _ in 0..4 {
        let mut other = scene.connect();
        assert_eq!(scene.places(&mut other), Ok(places.clone()));
    }
    // Writes, and transactions that may write, on the primary.
    client.rows("update t set v = 'y' where k = 1");
    client.rows("begin");
    assert_eq!(scene.place(&mut client, 1), Ok(0));
    client.rows("commit");
    // A transaction that only reads, where its first key is.
    client.rows("begin read only");
    let first = scene.place(&mut client, 1000);
    assert_eq!(first, Ok(places[&1000]));
    assert_eq!(scene.place(&mut client, 1), first);
    client.rows("commit");
}

#[test]
fn a_replica_that_stops_is_replaced_until_it_is_back() {
    let mut scene = Scene::start("");
    let mut client = scene.connect();
    let before = scene.until(&mut client, |places| only(places, &[1, 2]));
    for stopped in [2, 1] {
        let key = *before
            .iter()
            .find(|(_, place)| **place == stopped)
            .expect("a key")
            .0;
        let mut reader = scene.connect();
        // In the middle of a read.
        let slow = format!("select count(*) from t, tick b, tick c where k = {key} and b.n <> c.n + k");
        reader.send(&crate::common::message::query(&slow)).expect("sent");
        scene.servers[stopped].wait_until("select count(*) = 1 from pg_stat_activity where state = 'active' and query like '%tick%' and pid <> pg_backend_pid()");
        scene.servers[stopped].stop();
        let mut errors = 0;
        while let Ok(message) = reader.read() {
            errors += usize::from(message.tag == b'E');
            if message.tag == b'Z' {
                break;
            }
        }
        assert_eq!(errors, 1, "the reader is told once");
        let other = 3 - stopped;
        let mut client = scene.connect();
        scene.until(&mut client, |places| only(places, &[other]));
        scene.servers[stopped].start_again();
        // Its range is its own again.
        scene.until(&mut client, |places| *places == before);
    }
}

#[test]
fn a_replica_that_lags_answers_no_key() {
    let scene = Scene::start("lag_bytes_max = \"64kB\"");
    let mut client = scene.connect();
    let before = scene.until(&mut client, |places| only(places, &[1, 2]));
    scene.servers[1].sql("select pg_wal_replay_pause()");
    scene.servers[0].sql("insert into t select n, repeat('x', 200) from generate_series(1001, 3000) n");
    scene.until(&mut client, |places| only(places, &[2]));
    scene.servers[1].sql("select pg_wal_replay_resume()");
    scene.until(&mut client, |places| *places == before);
}
