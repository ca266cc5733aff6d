//! Workers in this process, on the loopback interface: who may use them, and what of a statement's errors arrives.

use std::fs;
use std::net::SocketAddr;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;

use corun_datafusion::{Engine, EngineError, EngineOptions, QueryOutput};
use corun_distributed::{Address, Cluster, Scheme, Tls, TlsFiles, VERSION, Worker, WorkerOptions};
use tokio::net::TcpListener;
use tonic::transport::Server;
use tonic::transport::server::TcpIncoming;

mod authority;
use authority::Authority;

/// Starts a worker that reads files of `folder`.
async fn start(folder: &Path, memory_limit_bytes: Option<usize>, tls: Option<Tls>) -> SocketAddr {
    let options = WorkerOptions {
        folders: vec![folder.to_owned()],
        memory_limit_bytes,
        tls,
    };
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address");
    let worker = Worker::new(&options).expect("a worker");
    tokio::spawn(worker.serve(listener, std::future::pending()));
    address
}

async fn connect(workers: &[SocketAddr], tls: Option<Tls>) -> Result<Cluster, EngineError> {
    let scheme = if tls.is_some() { Scheme::Tls } else { Scheme::Plain };
    let addresses = workers
        .iter()
        .map(|worker| Address::parse(&worker.to_string(), scheme));
    Cluster::connect(addresses.collect::<Result<_, _>>()?, tls).await
}

/// Writes four files of so many rows each.
async fn write(engine: &Engine, folder: &Path, rows: u32) {
    for file in 0..4 {
        let path = folder.join(format!("{file}.parquet"));
        let (first, last) = (file * rows, (file + 1) * rows - 1);
        let columns = "value as n, value % 100 as few, cast(value as varchar) as text";
        let copy = format!(
            "copy (select {columns} from generate_series({first}, {last})) to '{}'",
            path.display()
        );
        engine.query(&copy).await.expect("written");
    }
}

/// An engine over 200,000 rows in 4 files, whose stages are as small as can be.
async fn engine(cluster: &Cluster, folder: &Path) -> Engine {
    let writer = Engine::new(&EngineOptions::default()).expect("an engine");
    write(&writer, &folder.join("rows"), 50_000).await;
    let engine = cluster
        .engine(&EngineOptions {
            partitions: 2,
            settings: vec![(
                "distributed.file_scan_config_bytes_per_partition".to_owned(),
                "1".to_owned(),
            )],
            ..EngineOptions::default()
        })
        .expect("an engine");
    engine
        .register_path("rows", &folder.join("rows"))
        .await
        .expect("a table");
    engine
}

/// An engine over two workers in the clear.
async fn engine_on_two(folder: &Path) -> Engine {
    let workers = [start(folder, None, None).await, start(folder, None, None).await];
    let cluster = connect(&workers, None).await.expect("two workers");
    engine(&cluster, folder).await
}

fn text(output: &QueryOutput) -> String {
    output
        .batches
        .iter()
        .map(|batch| format!("{:?}", batch.columns()))
        .collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn grouping_sets_are_made_on_workers() {
    let folder = tempfile::tempdir().expect("a folder");
    let engine = engine_on_two(folder.path()).await;
    let both = "(select n, few from rows union all select n + 1, few + 1 from rows)";
    let groups = "count(*), sum(n), min(few), approx_distinct(n) > 0, grouping(few)";
    let plan = engine
        .query(&format!(
            "explain select few, {groups} from {both} group by rollup (few)"
        ))
        .await
        .expect("a plan");
    let plan = text(&plan);
    assert!(
        plan.contains("ClusterExec") && plan.contains("CorunExpandExec"),
        "{plan}"
    );
    for (n_max, groups_max) in [(i64::MAX, 102), (10, 12), (-1, 1)] {
        let query = format!(
            "select few, n % 3, {groups} from {both} where n <= {n_max} and few < {groups_max} group by rollup (few, n % 3) order by 1, 2, 3"
        );
        let here = format!("explain {query}");
        assert!(text(&engine.query(&here).await.expect("a plan")).contains("ClusterExec"));
        let there = text(&engine.query(&query).await.expect("rows"));
        engine.query("set corun.join = 'off'").await.expect("set");
        let stock = text(&engine.query(&query).await.expect("rows"));
        engine.query("set corun.join = 'auto'").await.expect("set");
        assert_eq!(there, stock);
        assert!(there.len() > 60, "{there}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn windows_by_constants_are_right() {
    let folder = tempfile::tempdir().expect("a folder");
    let engine = engine_on_two(folder.path()).await;
    let sums = "select few, n % 3 as part, sum(n) as n from rows group by 1, 2";
    for (window, is_sent) in [
        ("avg(n) over (partition by few, part)", false),
        ("sum(n) over (partition by few, part order by n)", false),
        ("avg(n) over (partition by few)", true),
    ] {
        let query =
            format!("select sum(w), count(*) from (select {window} as w from ({sums}) where part = 1)");
        let plan = engine.query(&format!("explain {query}")).await.expect("a plan");
        assert_eq!(text(&plan).contains("ClusterExec"), is_sent, "{window}");
        let answer = text(&engine.query(&query).await.expect(window));
        assert!(
            answer.contains("6666700000") && answer.contains("100,"),
            "{window}: {answer}"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_filters_may_leave_whole_is_not_sent_to_every_worker() {
    let folder = tempfile::tempdir().expect("a folder");
    let engine = engine_on_two(folder.path()).await;
    write(&engine, &folder.path().join("more"), 300_000).await;
    engine
        .register_path("more", &folder.path().join("more"))
        .await
        .expect("a table");
    for set in ["_rows = 20000", " = 1000"] {
        let set = format!("set datafusion.optimizer.hash_join_single_partition_threshold{set}");
        engine.query(&set).await.expect("set");
    }
    // Conditions that leave all: the smaller side, as far as anybody can tell before.
    let query = "select count(*) from rows a join more b on a.n = b.n \
                 where b.text <> 'x' and length(b.text) < 100 and b.few + 1 < 200 and b.n + b.few >= 0";
    let plan = text(&engine.query(&format!("explain {query}")).await.expect("a plan"));
    assert!(
        plan.contains("mode=Partitioned") && !plan.contains("CollectLeft"),
        "{plan}"
    );
    assert!(text(&engine.query(query).await.expect("rows")).contains("200000"));
}

const JOIN: &str = "select count(*), sum(a.n) from rows a join rows b on a.n = b.n where b.few < 50";

#[tokio::test(flavor = "multi_thread")]
async fn certificates_of_one_authority_are_wanted_on_both_sides() {
    let folder = tempfile::tempdir().expect("a folder");
    let authority = Authority::new(folder.path(), "ours");
    let other = Authority::new(folder.path(), "other");
    let ours = certificate(&authority, "localhost");
    let worker = start(folder.path(), None, Some(ours.clone())).await;
    let workers = [worker, start(folder.path(), None, Some(ours.clone())).await];

    let cluster = connect(&workers, Some(ours)).await.expect("one authority");
    let rows = engine(&cluster, folder.path())
        .await
        .query(JOIN)
        .await
        .expect("rows");
    assert!(text(&rows).contains("100000"), "{}", text(&rows));

    let refused = |who: &'static str, tls: Option<Tls>| async move {
        let error = connect(&[worker], tls).await.expect_err(who);
        assert!(error.primary.starts_with("cannot use worker"), "{who}: {error}");
        assert!(error.detail.is_some() && error.hint.is_some(), "{who}: {error}");
        error.to_string()
    };
    refused("without a certificate", None).await;
    refused("of another authority", Some(certificate(&other, "localhost"))).await;
    let stranger = start(folder.path(), None, Some(certificate(&authority, "elsewhere"))).await;
    let error = connect(&[stranger], Some(certificate(&authority, "localhost"))).await;
    let error = error.expect_err("a certificate of another host").to_string();
    assert!(error.contains("certificate"), "{error}");
    let plain = start(folder.path(), None, None).await;
    let error = connect(&[plain], Some(certificate(&authority, "localhost"))).await;
    assert!(
        error.is_err(),
        "a worker in the clear is no worker with certificates"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn keys_that_others_read_are_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let files = Authority::new(folder.path(), "ours").files("localhost");
    let readable_by = |mode| {
        fs::set_permissions(&files.key, fs::Permissions::from_mode(mode)).expect("permissions");
        files.read()
    };
    for mode in [0o644, 0o620, 0o601] {
        let error = readable_by(mode).expect_err("others may use the key");
        assert!(error.hint.is_some_and(|hint| hint.starts_with("chmod 600")));
    }
    // Containers mount keys as root's, with a group that may read them.
    let is_roots = fs::metadata(&files.key).expect("a key").uid() == 0;
    assert_eq!(readable_by(0o640).is_ok(), is_roots);
    let swapped = TlsFiles {
        certificate: files.authority.clone(),
        key: files.certificate.clone(),
        authority: files.authority,
    };
    fs::set_permissions(&swapped.key, fs::Permissions::from_mode(0o600)).expect("permissions");
    let error = swapped.read().expect_err("a certificate is no key");
    assert!(
        error.primary.contains("has no private key in PEM form"),
        "{error}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn workers_of_another_version_are_not_used() {
    for (version, said) in [("corun 0.0.9", "corun 0.0.9"), ("", "another program")] {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address");
        let worker = datafusion_distributed::Worker::default().with_version(version);
        let serving = Server::builder()
            .add_service(worker.into_worker_server())
            .serve_with_incoming(TcpIncoming::from(listener));
        tokio::spawn(serving);
        let error = connect(&[address], None)
            .await
            .expect_err("another version")
            .to_string();
        assert!(error.contains(said) && error.contains(VERSION), "{error}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn errors_say_on_which_worker() {
    let folder = tempfile::tempdir().expect("a folder");
    let small = start(folder.path(), Some(1 << 20), None).await;
    let cluster = connect(&[small, start(folder.path(), None, None).await], None)
        .await
        .expect("workers");
    let engine = engine(&cluster, folder.path()).await;
    let sorted = "select text, count(*) over (partition by text order by n) from rows order by 2, 1";
    let error = engine.query(sorted).await.expect_err("a megabyte is not enough");
    assert!(error.resources_exhausted, "{error}");
    assert!(error.to_string().contains(&small.to_string()), "{error}");
    // An error of a value is one of the statement, on whatever worker.
    let error = engine
        .query("select sum(cast(text || 'x' as int)) from rows")
        .await
        .expect_err("no number");
    assert!(
        error.to_string().contains("0x") || error.to_string().contains('x'),
        "{error}"
    );
    // The workers are as good as before.
    let small = engine
        .query("select few, count(*) from rows where few < 7 group by few")
        .await
        .expect("little memory is enough");
    assert_eq!(small.num_rows(), 7);
}

#[tokio::test(flavor = "multi_thread")]
async fn settings_of_the_session_hold_on_workers() {
    let folder = tempfile::tempdir().expect("a folder");
    let worker = start(folder.path(), None, None).await;
    let cluster = connect(&[worker, start(folder.path(), None, None).await], None)
        .await
        .expect("workers");
    let engine = engine(&cluster, folder.path()).await;
    let analyzed = format!("explain analyze {JOIN}");
    let with = engine.query(&analyzed).await.expect("rows");
    assert!(text(&with).contains("CorunJoinExec="), "{}", text(&with));
    engine.query("set corun.join = 'off'").await.expect("set");
    let without = engine.query(&analyzed).await.expect("rows");
    assert!(!text(&without).contains("CorunJoinExec"), "{}", text(&without));
}

fn certificate(authority: &Authority, host: &str) -> Tls {
    authority.files(host).read().expect("certificates")
}
