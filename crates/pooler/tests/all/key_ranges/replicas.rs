//! Reads by key on streaming replicas: each key's reads on the replica of its range, as long as that one is there.

use std::collections::{BTreeMap, BTreeSet};

use crate::common::raw::Raw;
use crate::common::replicated::{PLACE, Replicated};
use crate::common::wait::wait;

/// Keys that are asked for, spread over the ranges.
const KEYS: [i32; 10] = [1, 111, 222, 333, 444, 555, 666, 777, 888, 1000];

const RANGES: &str = r#"
    [ranges.keys]
    database = "app"
    columns = ["t.k"]
    minimum = 1
    maximum = 1000
"#;

fn start(corun: &str) -> Replicated {
    Replicated::start(
        &[
            PLACE,
            "create table t (k int primary key, v text)",
            "insert into t select i, 'x' from generate_series(1, 1000) i",
            "create table tick (n int)",
            "insert into tick select i from generate_series(1, 6000) i",
        ],
        &format!("read_your_writes = false\ndispatch = \"range\"\nreplica_dispatch = \"range\"\n{corun}"),
        RANGES,
    )
}

impl Replicated {
    /// Which server a key's reads run on now.
    fn place(&self, client: &mut Raw, key: i32) -> Result<usize, String> {
        let rows = client.try_rows(&format!("select port from place, t where k = {key}"))?;
        let port = rows.first().and_then(|row| row[0].clone()).unwrap_or_default();
        self.index_of(&port)
            .ok_or_else(|| format!("no server has port {port}"))
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
        wait(|| match self.places(client)? {
            places if right(&places) => Ok(places),
            places => Err(format!("{places:?}")),
        })
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
    let replicated = start("");
    let mut client = replicated.client();
    let places = replicated.until(&mut client, |places| only(places, &[1, 2]));
    // Other clients, of other loops, the same.
    for _ in 0..4 {
        let mut other = replicated.client();
        assert_eq!(replicated.places(&mut other), Ok(places.clone()));
    }
    // Writes, and transactions that may write, on the primary.
    client.rows("update t set v = 'y' where k = 1");
    client.rows("begin");
    assert_eq!(replicated.place(&mut client, 1), Ok(0));
    client.rows("commit");
    // A transaction that only reads, where its first key is.
    client.rows("begin read only");
    let first = replicated.place(&mut client, 1000);
    assert_eq!(first, Ok(places[&1000]));
    assert_eq!(replicated.place(&mut client, 1), first);
    client.rows("commit");
}

#[test]
fn a_replica_that_stops_is_replaced_until_it_is_back() {
    let mut replicated = start("");
    let mut client = replicated.client();
    let before = replicated.until(&mut client, |places| only(places, &[1, 2]));
    for stopped in [2, 1] {
        let key = *before
            .iter()
            .find(|(_, place)| **place == stopped)
            .expect("a key")
            .0;
        let mut reader = replicated.client();
        // In the middle of a read.
        let slow = format!("select count(*) from t, tick b, tick c where k = {key} and b.n <> c.n + k");
        reader.send_query(&slow);
        replicated.servers[stopped].wait_until("select count(*) = 1 from pg_stat_activity where state = 'active' and query like '%tick%' and pid <> pg_backend_pid()");
        replicated.servers[stopped].stop();
        let mut errors = 0;
        while let Ok(message) = reader.read() {
            errors += usize::from(message.tag == b'E');
            if message.tag == b'Z' {
                break;
            }
        }
        assert_eq!(errors, 1, "the reader is told once");
        let other = 3 - stopped;
        let mut client = replicated.client();
        replicated.until(&mut client, |places| only(places, &[other]));
        replicated.servers[stopped].start_again();
        // Its range is its own again.
        replicated.until(&mut client, |places| *places == before);
    }
}

#[test]
fn a_replica_that_lags_answers_no_key() {
    let replicated = start("lag_bytes_max = \"64kB\"");
    let mut client = replicated.client();
    let before = replicated.until(&mut client, |places| only(places, &[1, 2]));
    replicated.servers[1].sql("select pg_wal_replay_pause()");
    replicated.servers[0].sql("insert into t select n, repeat('x', 200) from generate_series(1001, 3000) n");
    replicated.until(&mut client, |places| only(places, &[2]));
    replicated.servers[1].sql("select pg_wal_replay_resume()");
    replicated.until(&mut client, |places| *places == before);
}
