//! Clients of the proxy in front of a primary and two streaming replicas: where their statements run, what they see of their own
//! writes, and what a failover costs them.

use std::collections::BTreeSet;
use std::time::Duration;

use crate::common::assert_contains;
use crate::common::child::signal;
use crate::common::driver::{block_on, connect};
use crate::common::fixture::received;
use crate::common::raw::Raw;
use crate::common::replicated::{FILL, PLACE, Replicated};
use crate::common::wait::{wait, wait_for, wait_until};

/// The port of the server a read runs on, by a view of the tests' own: what tells servers apart by its name runs on the primary.
const WHERE: &str = "select port from place";

/// Starts all, and a client whose reads run on both replicas.
fn start(corun: &str) -> (Replicated, Raw) {
    let corun = format!("bind_backends = \"off\"\n{corun}");
    let replicated = Replicated::start(&["create table t (a int, b text)", PLACE], &corun, "");
    let mut client = replicated.client();
    replicated.wait_reads(&mut client, &[1, 2]);
    (replicated, client)
}

impl Replicated {
    /// Which server has this port.
    fn index(&self, port: &str) -> usize {
        self.index_of(port)
            .unwrap_or_else(|| panic!("no server has port {port}"))
    }

    /// The servers that a client's reads run on.
    fn reads(&self, client: &mut Raw) -> BTreeSet<usize> {
        (0..24).map(|_| self.index(&client.value(WHERE))).collect()
    }

    /// Waits until a client's reads run on these servers and no others.
    fn wait_reads(&self, client: &mut Raw, expected: &[usize]) {
        wait_for(expected.iter().copied().collect(), || self.reads(client));
    }

    /// Both replicas stop replaying, or go on.
    fn replay(&self, how: &str) {
        for replica in &self.servers[1..] {
            replica.sql(&format!("select pg_wal_replay_{how}()"));
        }
    }
}

fn insert(client: &mut Raw, a: u32) -> String {
    client.value(&format!(
        "insert into t values ({a}, 'x') returning inet_server_port()"
    ))
}

#[test]
fn reads_run_on_replicas_and_everything_else_on_the_primary() {
    let (replicated, mut client) = start("read_your_writes = false");
    for n in 0..10 {
        let port = insert(&mut client, n);
        assert_eq!(replicated.index(&port), 0);
    }
    // A transaction stays where it began.
    client.rows("begin");
    assert_eq!(replicated.reads(&mut client), BTreeSet::from([0]));
    client.rows("commit");
    client.rows("begin read only");
    assert_eq!(replicated.reads(&mut client).len(), 1);
    assert!(replicated.reads(&mut client).is_disjoint(&BTreeSet::from([0])));
    client.rows("commit");
    // What a replica would refuse, or what nobody knows.
    for (sql, expected) in [
        ("select port from place, t limit 1 for update of t", 0),
        ("/* corun: primary */ select port from place", 0),
        ("select inet_server_port()", 0),
        ("select 1; select port from place", 0),
    ] {
        let port = client.value(sql);
        assert_eq!(replicated.index(&port), expected, "{sql}");
    }
    client.rows("set default_transaction_isolation = 'serializable'");
    assert_eq!(replicated.reads(&mut client), BTreeSet::from([0]));
    client.rows("reset default_transaction_isolation; set default_transaction_read_only = on");
    client.rows("begin");
    assert!(replicated.reads(&mut client).is_disjoint(&BTreeSet::from([0])));
    client.rows("commit");
}

#[test]
fn prepared_statements_and_pipelines_are_split_too() {
    let (replicated, _) = start("");
    block_on(async {
        let client = connect(&replicated.login()).await.expect("connects");
        let prepare = async |text| client.prepare(text).await.expect("prepares");
        let read = prepare("select port from place where $1::int > 0").await;
        let write = prepare("insert into t values ($1, 'p') returning inet_server_port()").await;
        let count = prepare("select count(*) from t where a >= $1").await;
        let port = |row: &tokio_postgres::Row| replicated.index(&row.get::<_, i32>(0).to_string());
        for n in 1..20 {
            // Sent without waiting for one another.
            let parameters: [&(dyn tokio_postgres::types::ToSql + Sync); 1] = [&n];
            let (before, wrote, counted) = tokio::join!(
                client.query_one(&read, &parameters),
                client.query_one(&write, &parameters),
                client.query_one(&count, &[&1]),
            );
            assert!(port(&before.expect("reads")) < 3);
            assert_eq!(port(&wrote.expect("writes")), 0);
            let counted: i64 = counted.expect("counts").get(0);
            assert_eq!(counted, i64::from(n), "its own writes");
        }
    });
}

#[test]
fn sessions_see_their_own_writes_however_far_replicas_are_behind() {
    let (replicated, mut client) = start("");
    let mut other = replicated.client();
    replicated.replay("pause");
    for n in 0..40 {
        insert(&mut client, n);
        let seen = client.value("select count(*) from t");
        assert_eq!(seen, (n + 1).to_string());
        std::thread::sleep(Duration::from_millis(10));
    }
    // Who wrote nothing reads what replicas show.
    assert_eq!(other.value("select count(*) from t"), "0");
    assert_eq!(replicated.reads(&mut client), BTreeSet::from([0]));
    replicated.replay("resume");
    replicated.wait_reads(&mut client, &[1, 2]);
    assert_eq!(client.value("select count(*) from t"), "40");
}

#[test]
fn replicas_behind_the_limit_answer_nothing_until_they_have_caught_up() {
    let (replicated, mut client) = start("lag_bytes_max = \"64kB\"");
    replicated.servers[1].sql("select pg_wal_replay_pause()");
    replicated.servers[0].sql(FILL);
    replicated.servers[2].wait_replayed(&replicated.servers[0]);
    replicated.wait_reads(&mut client, &[2]);
    assert_eq!(client.value("select count(*) from t"), "1000");
    replicated.servers[1].sql("select pg_wal_replay_resume()");
    replicated.wait_reads(&mut client, &[1, 2]);
}

#[test]
fn writes_wait_for_the_promotion_and_no_committed_write_is_lost() {
    let (mut replicated, mut client) = start("");
    for n in 0..10 {
        insert(&mut client, n);
    }
    for replica in [1, 2] {
        replicated.servers[replica].wait_replayed(&replicated.servers[0]);
    }
    replicated.wait_reads(&mut client, &[1, 2]);
    replicated.servers[0].kill();
    // Reads go on, also of clients that come only now.
    let mut reader = replicated.client();
    assert_eq!(reader.value("select count(*) from t"), "10");
    let mut console = replicated.pooler.console();
    let before = received(&mut console, "app");
    let writer = std::thread::spawn(move || {
        let port = insert(&mut client, 10);
        (port, client.value("select count(*) from t"))
    });
    // The write has come, and its host is known to be gone.
    wait_until("the write is sent", || received(&mut console, "app") > before);
    wait_state(&replicated, &mut console, 0, "banned");
    wait_until("the writer is seen to wait", || {
        let clients = console.table("show clients");
        let pools = console.table("show pools");
        clients
            .iter()
            .any(|row| row["database"] == "app" && row["state"] == "waiting")
            && pools
                .iter()
                .any(|row| row["database"] == "app" && row["cl_waiting"] == "1")
    });
    assert!(!writer.is_finished(), "no primary could have taken it");
    replicated.servers[1].sql("select pg_promote()");
    let (port, seen) = writer.join().expect("the write is answered");
    assert_eq!(replicated.index(&port), 1);
    assert_eq!(seen, "11");
    let kept = replicated.servers[1].value("select count(distinct a) from t");
    assert_eq!(kept, "11");
    // The old primary comes back as if nothing had happened, and gets nothing.
    replicated.servers[0].start_again();
    for n in 11..40 {
        let port = insert(&mut reader, n);
        assert_eq!(replicated.index(&port), 1);
        std::thread::sleep(Duration::from_millis(20));
    }
    assert_eq!(replicated.servers[0].value("select count(*) from t"), "10");
}

#[test]
fn a_stopped_replica_costs_no_read() {
    let (mut replicated, mut client) = start("");
    replicated.servers[2].stop();
    for _ in 0..100 {
        client.value(WHERE);
        std::thread::sleep(Duration::from_millis(5));
    }
    replicated.wait_reads(&mut client, &[1]);
    replicated.servers[2].start_again();
    replicated.wait_reads(&mut client, &[1, 2]);
}

/// The column of a server's row in `SHOW HOSTS`.
fn host_column(replicated: &Replicated, console: &mut Raw, server: usize, name: &str) -> String {
    let port = replicated.servers[server].port().to_string();
    let rows = console.table("show hosts");
    let row = rows.iter().find(|row| row["port"] == port);
    row.expect("a row for the host")[name].clone()
}

/// Processes that are stopped, until this is dropped.
struct Stopped(Vec<u32>);

impl Stopped {
    fn new(pids: Vec<u32>) -> Stopped {
        pids.iter().for_each(|&pid| signal(pid, "STOP"));
        Stopped(pids)
    }
}

impl Drop for Stopped {
    fn drop(&mut self) {
        self.0.iter().for_each(|&pid| signal(pid, "CONT"));
    }
}

fn wait_state(replicated: &Replicated, console: &mut Raw, server: usize, expected: &str) {
    wait_for(expected.to_owned(), || {
        host_column(replicated, console, server, "state")
    });
}

#[test]
fn a_host_that_does_not_answer_in_time_is_left_alone_until_it_does() {
    let (replicated, mut client) = start("health_check_timeout = \"300ms\"\nfailures_before_ban = 2");
    let mut console = replicated.pooler.console();
    let hung = &replicated.servers[2];
    // It accepts nothing and answers nothing, and its connections stay open.
    let mut pids: Vec<u32> = hung
        .sql("select pid from pg_stat_activity where backend_type = 'client backend' and pid <> pg_backend_pid()")
        .into_iter()
        .filter_map(|row| row[0].as_deref()?.parse().ok())
        .collect();
    assert!(!pids.is_empty(), "the proxy is connected");
    pids.push(hung.process());
    let stopped = Stopped::new(pids);
    wait_state(&replicated, &mut console, 2, "banned");
    assert!(host_column(&replicated, &mut console, 2, "error").contains("the probe"));
    replicated.wait_reads(&mut client, &[1]);
    drop(stopped);
    wait_state(&replicated, &mut console, 2, "up");
    // Every server but the primary has answered reads.
    for server in [1, 2] {
        let queries = host_column(&replicated, &mut console, server, "query_count");
        assert!(
            queries.parse::<u64>().is_ok_and(|queries| queries > 0),
            "{server}: {queries}"
        );
    }
    replicated.wait_reads(&mut client, &[1, 2]);
}

#[test]
fn reads_are_refused_where_they_may_not_go_to_the_primary() {
    let (replicated, mut client) = start("lag_bytes_max = \"64kB\"\nread_fallback_to_primary = false");
    replicated.replay("pause");
    replicated.servers[0].sql(FILL);
    let error = wait(|| match client.try_rows(WHERE) {
        Err(error) => Ok(error),
        Ok(rows) => {
            assert_ne!(rows[0][0], Some(replicated.servers[0].port().to_string()));
            Err("replicas take reads")
        }
    });
    assert_contains(&error, "has no server for this");
    // Writes, and who reads its own, are served.
    let mut writer = replicated.client();
    assert_eq!(replicated.index(&insert(&mut writer, 1)), 0);
    assert_eq!(writer.value("select count(*) from t"), "1001");
}
