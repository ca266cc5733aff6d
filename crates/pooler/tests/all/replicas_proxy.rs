//! Clients of the proxy in front of a primary and two streaming replicas: where their statements run, what they see of their own
//! writes, and what a failover costs them.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use crate::common::child::{free_port, signal};
use crate::common::postgres::Postgres;
use crate::common::raw::{Login, Raw};
use corun_pooler::config::Config;
use corun_pooler::{ConfigFiles, Pooler};

/// The port of the server a read runs on, by a view of the tests' own: what tells servers apart by its name runs on the primary.
const WHERE: &str = "select port from place";

struct Scene {
    /// The primary and its replicas.
    servers: Vec<Postgres>,
    port: u16,
    // Dropped before the servers: it ends the connections to them.
    _proxy: Pooler,
}

impl Scene {
    fn start(more: &str) -> Scene {
        let primary = Postgres::start();
        primary.sql("create table t (a int, b text); create view place as select setting::int as port from pg_settings where name = 'port'");
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
            bind_backends = "off"
            health_check_interval = "100ms"
            ban_time = "500ms"
            read_write_split = true
            {more}
            [databases.app]
            host = "127.0.0.1"
            port = {}
            user = "postgres"
            replicas = ["127.0.0.1:{}", "127.0.0.1:{}"]
            "#,
            servers[0].port(),
            servers[1].port(),
            servers[2].port(),
        );
        let loaded = Config::parse(&text, "corun.toml").unwrap_or_else(|error| panic!("{error}"));
        let files = ConfigFiles::of(loaded.config).unwrap_or_else(|error| panic!("{error}"));
        let proxy = Pooler::start(files).unwrap_or_else(|error| panic!("{error}"));
        let scene = Scene {
            servers,
            port,
            _proxy: proxy,
        };
        for replica in [1, 2] {
            scene.wait_replayed(0, replica);
        }
        scene
    }

    fn login(&self) -> Login {
        Login::new("127.0.0.1", self.port, "postgres")
    }

    fn connect(&self) -> Raw {
        Raw::connect(&self.login()).unwrap_or_else(|error| panic!("{error}"))
    }

    /// Which server has this port.
    fn index(&self, port: &str) -> usize {
        let found = self
            .servers
            .iter()
            .position(|server| server.port().to_string() == port);
        found.unwrap_or_else(|| panic!("no server has port {port}"))
    }

    fn wait_replayed(&self, primary: usize, replica: usize) {
        let end = self.servers[primary].value("select pg_current_wal_lsn()");
        self.servers[replica].wait_until(&format!("select pg_last_wal_replay_lsn() >= '{end}'"));
    }

    /// The servers that a client's reads run on.
    fn reads(&self, client: &mut Raw) -> BTreeSet<usize> {
        (0..24).map(|_| self.index(&value(client, WHERE))).collect()
    }

    /// Waits until a client's reads run on these servers and no others.
    fn wait_reads(&self, client: &mut Raw, expected: &[usize]) {
        let until = Instant::now() + Duration::from_secs(20);
        loop {
            let reads = self.reads(client);
            if reads.iter().eq(expected) {
                return;
            }
            assert!(
                Instant::now() < until,
                "reads run on {reads:?}, not on {expected:?}"
            );
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}

/// The only value of the last row.
fn value(client: &mut Raw, sql: &str) -> String {
    let rows = client.rows(sql);
    let last = rows
        .into_iter()
        .next_back()
        .and_then(|row| row.into_iter().next().flatten());
    last.unwrap_or_else(|| panic!("no value: {sql}"))
}

fn insert(client: &mut Raw, a: u32) -> String {
    value(
        client,
        &format!("insert into t values ({a}, 'x') returning inet_server_port()"),
    )
}

#[test]
fn reads_run_on_replicas_and_everything_else_on_the_primary() {
    let scene = Scene::start("read_your_writes = false");
    let mut client = scene.connect();
    scene.wait_reads(&mut client, &[1, 2]);
    for n in 0..10 {
        let port = insert(&mut client, n);
        assert_eq!(scene.index(&port), 0);
    }
    // A transaction stays where it began.
    client.rows("begin");
    assert_eq!(scene.reads(&mut client), BTreeSet::from([0]));
    client.rows("commit");
    client.rows("begin read only");
    assert_eq!(scene.reads(&mut client).len(), 1);
    assert!(scene.reads(&mut client).is_disjoint(&BTreeSet::from([0])));
    client.rows("commit");
    // What a replica would refuse, or what nobody knows.
    for (sql, expected) in [
        ("select port from place, t limit 1 for update of t", 0),
        ("/* corun: primary */ select port from place", 0),
        ("select inet_server_port()", 0),
        ("select 1; select port from place", 0),
    ] {
        let port = value(&mut client, sql);
        assert_eq!(scene.index(&port), expected, "{sql}");
    }
    client.rows("set default_transaction_isolation = 'serializable'");
    assert_eq!(scene.reads(&mut client), BTreeSet::from([0]));
    client.rows("reset default_transaction_isolation; set default_transaction_read_only = on");
    client.rows("begin");
    assert!(scene.reads(&mut client).is_disjoint(&BTreeSet::from([0])));
    client.rows("commit");
}

#[test]
fn prepared_statements_and_pipelines_are_split_too() {
    let scene = Scene::start("");
    let mut warm = scene.connect();
    scene.wait_reads(&mut warm, &[1, 2]);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime");
    runtime.block_on(async {
        let (client, io) = tokio_postgres::connect(&scene.login().for_driver(), tokio_postgres::NoTls)
            .await
            .expect("connects");
        tokio::spawn(io);
        let read = client
            .prepare("select port from place where $1::int > 0")
            .await
            .expect("prepares");
        let write = client
            .prepare("insert into t values ($1, 'p') returning inet_server_port()")
            .await
            .expect("prepares");
        let count = client
            .prepare("select count(*) from t where a >= $1")
            .await
            .expect("prepares");
        let port = |row: &tokio_postgres::Row| scene.index(&row.get::<_, i32>(0).to_string());
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
            assert_eq!(
                counted.expect("counts").get::<_, i64>(0),
                i64::from(n),
                "its own writes"
            );
        }
    });
}

#[test]
fn sessions_see_their_own_writes_however_far_replicas_are_behind() {
    let scene = Scene::start("");
    let mut client = scene.connect();
    let mut other = scene.connect();
    scene.wait_reads(&mut client, &[1, 2]);
    for replica in [1, 2] {
        scene.servers[replica].sql("select pg_wal_replay_pause()");
    }
    for n in 0..40 {
        insert(&mut client, n);
        let seen = value(&mut client, "select count(*) from t");
        assert_eq!(seen, (n + 1).to_string());
        std::thread::sleep(Duration::from_millis(10));
    }
    // Who wrote nothing reads what replicas show.
    assert_eq!(value(&mut other, "select count(*) from t"), "0");
    assert_eq!(scene.reads(&mut client), BTreeSet::from([0]));
    for replica in [1, 2] {
        scene.servers[replica].sql("select pg_wal_replay_resume()");
    }
    scene.wait_reads(&mut client, &[1, 2]);
    assert_eq!(value(&mut client, "select count(*) from t"), "40");
}

#[test]
fn replicas_behind_the_limit_answer_nothing_until_they_have_caught_up() {
    let scene = Scene::start("lag_bytes_max = \"64kB\"");
    let mut client = scene.connect();
    scene.wait_reads(&mut client, &[1, 2]);
    scene.servers[1].sql("select pg_wal_replay_pause()");
    scene.servers[0].sql("insert into t select n, repeat('x', 200) from generate_series(1, 1000) n");
    scene.wait_replayed(0, 2);
    scene.wait_reads(&mut client, &[2]);
    assert_eq!(value(&mut client, "select count(*) from t"), "1000");
    scene.servers[1].sql("select pg_wal_replay_resume()");
    scene.wait_reads(&mut client, &[1, 2]);
}

#[test]
fn writes_wait_for_the_promotion_and_no_committed_write_is_lost() {
    let mut scene = Scene::start("");
    let mut client = scene.connect();
    scene.wait_reads(&mut client, &[1, 2]);
    for n in 0..10 {
        insert(&mut client, n);
    }
    for replica in [1, 2] {
        scene.wait_replayed(0, replica);
    }
    scene.wait_reads(&mut client, &[1, 2]);
    scene.servers[0].kill();
    // Reads go on, also of clients that come only now.
    let login = scene.login();
    let mut reader = Raw::connect(&login).expect("gets in without a primary");
    assert_eq!(value(&mut reader, "select count(*) from t"), "10");
    let writer = std::thread::spawn(move || {
        let port = insert(&mut client, 10);
        (port, value(&mut client, "select count(*) from t"))
    });
    std::thread::sleep(Duration::from_millis(700));
    assert!(
        !writer.is_finished(),
        "there is no primary that could have taken it"
    );
    scene.servers[1].sql("select pg_promote()");
    let (port, seen) = writer.join().expect("the write is answered");
    assert_eq!(scene.index(&port), 1);
    assert_eq!(seen, "11");
    assert_eq!(scene.servers[1].value("select count(distinct a) from t"), "11");
    // The old primary comes back as if nothing had happened, and gets nothing.
    scene.servers[0].start_again();
    for n in 11..40 {
        let port = insert(&mut reader, n);
        assert_eq!(scene.index(&port), 1);
        std::thread::sleep(Duration::from_millis(20));
    }
    assert_eq!(scene.servers[0].value("select count(*) from t"), "10");
}

#[test]
fn a_stopped_replica_costs_no_read() {
    let mut scene = Scene::start("");
    let mut client = scene.connect();
    scene.wait_reads(&mut client, &[1, 2]);
    scene.servers[2].stop();
    for _ in 0..100 {
        value(&mut client, WHERE);
        std::thread::sleep(Duration::from_millis(5));
    }
    scene.wait_reads(&mut client, &[1]);
    scene.servers[2].start_again();
    scene.wait_reads(&mut client, &[1, 2]);
}

/// The column of a server's row in `SHOW HOSTS`.
fn host_column(scene: &Scene, console: &mut Raw, server: usize, name: &str) -> String {
    let port = scene.servers[server].port().to_string();
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

fn wait_state(scene: &Scene, console: &mut Raw, server: usize, expected: &str) {
    let until = Instant::now() + Duration::from_secs(20);
    loop {
        let state = host_column(scene, console, server, "state");
        if state == expected {
            return;
        }
        assert!(Instant::now() < until, "the host is {state}, not {expected}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn a_host_that_does_not_answer_in_time_is_left_alone_until_it_does() {
    let scene = Scene::start("health_check_timeout = \"300ms\"\nfailures_before_ban = 2");
    let mut client = scene.connect();
    let mut console = Raw::connect(&scene.login().database("pgbouncer")).expect("the console");
    scene.wait_reads(&mut client, &[1, 2]);
    let hung = &scene.servers[2];
    // It accepts nothing and answers nothing, and its connections stay open.
    let mut pids: Vec<u32> = hung
        .sql("select pid from pg_stat_activity where backend_type = 'client backend' and pid <> pg_backend_pid()")
        .into_iter()
        .filter_map(|row| row[0].as_deref()?.parse().ok())
        .collect();
    assert!(!pids.is_empty(), "the proxy is connected");
    pids.push(hung.process());
    let stopped = Stopped::new(pids);
    wait_state(&scene, &mut console, 2, "banned");
    assert!(host_column(&scene, &mut console, 2, "error").contains("the probe"));
    scene.wait_reads(&mut client, &[1]);
    drop(stopped);
    wait_state(&scene, &mut console, 2, "up");
    // Every server but the primary has answered reads.
    for server in [1, 2] {
        let queries = host_column(&scene, &mut console, server, "query_count");
        assert!(
            queries.parse::<u64>().is_ok_and(|queries| queries > 0),
            "{server}: {queries}"
        );
    }
    scene.wait_reads(&mut client, &[1, 2]);
}

#[test]
fn reads_are_refused_where_they_may_not_go_to_the_primary() {
    let scene = Scene::start("lag_bytes_max = \"64kB\"\nread_fallback_to_primary = false");
    let mut client = scene.connect();
    scene.wait_reads(&mut client, &[1, 2]);
    for replica in [1, 2] {
        scene.servers[replica].sql("select pg_wal_replay_pause()");
    }
    scene.servers[0].sql("insert into t select n, repeat('x', 200) from generate_series(1, 1000) n");
    let until = Instant::now() + Duration::from_secs(20);
    let error = loop {
        match client.try_rows(WHERE) {
            Err(error) => break error,
            Ok(rows) => assert_ne!(rows[0][0], Some(scene.servers[0].port().to_string())),
        }
        assert!(Instant::now() < until, "no replica is within its limits");
    };
    assert!(error.contains("has no server for this"), "{error}");
    // Writes, and who reads its own, are served.
    let mut writer = scene.connect();
    assert_eq!(scene.index(&insert(&mut writer, 1)), 0);
    assert_eq!(value(&mut writer, "select count(*) from t"), "1001");
}
