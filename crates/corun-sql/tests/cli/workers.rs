//! `corun-sql worker` and `corun-sql sql --workers`: real processes, on the loopback interface.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::program::{Run, check_error, corun, corun_in};
use crate::skipped::skipped;

/// How long anything here may take before it counts as hanging.
const LONG: Duration = Duration::from_secs(120);

/// A worker that ends with its test.
pub(crate) struct Worker {
    child: Child,
    pub(crate) address: String,
}

impl Worker {
    pub(crate) fn start(arguments: &[&str], folder: &Path) -> Worker {
        let program = Command::new(crate::PROGRAM);
        Worker::start_by(
            program,
            &[&["--listen", "127.0.0.1:0"], arguments].concat(),
            folder,
        )
    }

    pub(crate) fn start_by(mut program: Command, arguments: &[&str], folder: &Path) -> Worker {
        let mut child = program
            .arg("worker")
            .args(arguments)
            .arg(folder)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("the worker starts");
        let mut line = String::new();
        BufReader::new(child.stdout.as_mut().expect("piped"))
            .read_line(&mut line)
            .expect("a line");
        let address = line.trim().strip_prefix("listening on ").expect("an address");
        Worker {
            address: address.to_owned(),
            child,
        }
    }

    fn signal(&self, name: &str) {
        let sent = Command::new("kill")
            .args([format!("-{name}"), self.child.id().to_string()])
            .status();
        assert!(sent.expect("kill runs").success());
    }

    /// Processor time that it has used.
    fn ticks(&self) -> u64 {
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.child.id())).expect("it runs");
        let fields: Vec<&str> = stat
            .rsplit(')')
            .next()
            .expect("a name")
            .split_whitespace()
            .collect();
        [11, 12]
            .iter()
            .map(|&field| fields[field].parse::<u64>().expect("ticks"))
            .sum()
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn addresses(workers: &[Worker]) -> String {
    let addresses: Vec<&str> = workers.iter().map(|worker| worker.address.as_str()).collect();
    addresses.join(",")
}

/// A folder with two tables of TPC-H in files.
fn data() -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().expect("a folder");
    for table in ["lineitem", "orders"] {
        let copy = format!("copy (select * from {table}) to '{table}.parquet'");
        let run = corun_in(folder.path(), &["sql", "--tpch", "0.02", "-c", &copy], "");
        assert_eq!(run.code, 0, "{run:?}");
    }
    let path = folder.path().to_owned();
    (folder, path)
}

/// Runs SQL over the two tables, here or on workers, whose stages are as small as can be.
fn sql(folder: &Path, workers: Option<&str>, arguments: &[&str]) -> Run {
    let mut all = vec!["sql", "lineitem.parquet", "orders.parquet", "--partitions", "2"];
    if let Some(workers) = workers {
        all.extend([
            "--workers",
            workers,
            "--set",
            "distributed.file_scan_config_bytes_per_partition=1",
        ]);
    }
    all.extend(arguments);
    corun_in(folder, &all, "")
}

const JOIN: &str = "select o_orderpriority, count(*) as lines, sum(l_quantity) as quantity from lineitem join orders \
                    on l_orderkey = o_orderkey where o_orderdate < date '1995-01-01' group by 1 order by 1";

#[test]
fn statements_over_files_run_on_workers() {
    let (_folder, data) = data();
    let workers = [Worker::start(&[], &data), Worker::start(&[], &data)];
    let workers = addresses(&workers);
    let queries = [
        JOIN,
        "select count(*) from lineitem",
        "select o_orderkey from orders left join lineitem on l_orderkey = o_orderkey and l_quantity > 49 \
         where l_orderkey is null order by 1 limit 5",
        "select o_custkey, sum(l_extendedprice) from orders, lineitem where o_orderkey = l_orderkey group by 1 \
         order by 2 desc, 1 limit 7",
        "select count(*) from orders where o_orderkey not in (select l_orderkey from lineitem where l_tax > 0.07)",
    ];
    for query in queries {
        let here = sql(&data, None, &["--json", "-c", query]);
        let there = sql(&data, Some(&workers), &["--json", "-c", query]);
        assert_eq!((here.code, here.err.as_str()), (0, ""), "{query}");
        assert_eq!((there.code, there.err.as_str()), (0, ""), "{query}");
        assert_eq!(here.out, there.out, "{query}");
        assert!(!here.out.is_empty(), "{query}");
    }
    // Which operators ran there, and for how many rows.
    let analyzed = sql(
        &data,
        Some(&workers),
        &["--format", "csv", "-c", &format!("explain analyze {JOIN}")],
    );
    assert_eq!(analyzed.code, 0, "{analyzed:?}");
    assert!(analyzed.out.contains("CorunJoinExec="), "{}", analyzed.out);
    assert!(analyzed.out.contains("NetworkShuffleExec") || analyzed.out.contains("NetworkBroadcastExec"));
    let stock = [
        "--stock",
        "--format",
        "csv",
        "-c",
        &format!("explain analyze {JOIN}"),
    ];
    let stock = sql(&data, Some(&workers), &stock);
    assert!(
        stock.code == 0 && !stock.out.contains("CorunJoinExec"),
        "{}",
        stock.out
    );
    // Rows that workers made are written by the shell.
    let copy = format!("copy ({JOIN}) to 'made.parquet'");
    let run = sql(&data, Some(&workers), &["--json", "-c", &copy]);
    assert_eq!((run.code, run.out.as_str()), (0, "{\"count\":5}\n"), "{run:?}");
    let lines = "select count(*) as n from lineitem join orders on l_orderkey = o_orderkey where o_orderdate < date '1995-01-01'";
    let made = corun_in(
        &data,
        &[
            "sql",
            "made.parquet",
            "--json",
            "-c",
            "select sum(lines) as n from made",
        ],
        "",
    );
    assert_eq!(made.out, sql(&data, None, &["--json", "-c", lines]).out);
    // What is only here, stays here.
    let mixed =
        "create table few as values (1), (2); select count(*) from few join orders on column1 = o_orderkey";
    let run = sql(&data, Some(&workers), &["--json", "-c", mixed]);
    assert_eq!((run.code, run.out.as_str()), (0, "{\"count(*)\":2}\n"), "{run:?}");
}

#[test]
fn workers_read_files_of_their_folders_only() {
    let (_folder, data) = data();
    let other = tempfile::tempdir().expect("a folder");
    let workers = [Worker::start(&[], other.path()), Worker::start(&[], other.path())];
    let run = sql(&data, Some(&addresses(&workers)), &["-c", JOIN]);
    check_error(&run, 1, "in none of the folders that this worker reads", "");
    // A link does not lead out of a folder.
    std::os::unix::fs::symlink(&data, other.path().join("link")).expect("a link");
    let linked = other.path().join("link/lineitem.parquet");
    let linked = linked.to_str().expect("text");
    let setting = "distributed.file_scan_config_bytes_per_partition=1";
    let arguments = [
        "sql",
        "--workers",
        &addresses(&workers),
        "--set",
        setting,
        linked,
        "-c",
        "select sum(l_tax) from lineitem group by l_tax",
    ];
    check_error(
        &corun(&arguments),
        1,
        "in none of the folders that this worker reads",
        "",
    );
}

#[test]
fn what_is_wrong_with_a_worker_is_said_before_anything_runs() {
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path().to_str().expect("text");
    let with = |workers: &str| corun(&["sql", "--workers", workers, "-c", "select 1"]);
    check_error(
        &with("here"),
        2,
        "\"here\" is not the address of a worker",
        "HOST:PORT",
    );
    check_error(
        &with("127.0.0.1:1"),
        1,
        "cannot use worker 127.0.0.1:1",
        "refused",
    );
    check_error(
        &with("127.0.0.1:2,127.0.0.1:2"),
        1,
        "a worker is named twice",
        "each address once",
    );
    let silent = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let silent = silent.local_addr().expect("an address").to_string();
    check_error(&with(&silent), 1, "cannot use worker", "does not answer");

    let worker = |arguments: &[&str]| corun(&[&["worker"], arguments].concat());
    check_error(
        &worker(&["--listen", "0.0.0.0:7600", folder]),
        2,
        "others reach 0.0.0.0:7600",
        "--tls-certificate",
    );
    check_error(
        &worker(&["/no/such/folder"]),
        1,
        "cannot read the folder /no/such/folder",
        "",
    );
    check_error(&worker(&[]), 2, "FOLDER", "");
    let key = [
        "--tls-certificate",
        "/c",
        "--tls-key",
        "/k",
        "--tls-authority",
        "/a",
        folder,
    ];
    check_error(&worker(&key), 1, "cannot read /k", "");
}

#[test]
fn a_worker_that_ends_is_done_without() {
    let (_folder, data) = data();
    let expected = sql(&data, None, &["--json", "-c", JOIN]).out;
    let start = || vec![Worker::start(&[], &data), Worker::start(&[], &data)];
    for signal in ["KILL", "TERM", "STOP"] {
        let workers = start();
        let mut many = Many::start(&data, &workers, 30);
        assert_eq!(many.answer(), expected);
        workers[1].signal(signal);
        for number in 1..30 {
            assert_eq!(many.answer(), expected, "{signal}: answer {number}");
        }
        let (code, error) = many.end();
        assert_eq!(code, 0, "{signal}: {error}");
        assert!(error.contains("goes on without a worker"), "{signal}: {error}");
    }
    // Without any, there is an error.
    let workers = start();
    let mut many = Many::start(&data, &workers, 2000);
    assert_eq!(many.answer(), expected);
    drop(workers);
    let (code, error) = many.end();
    let says = error.contains("lost worker") || error.contains("none of the 2 workers answers");
    assert!(code == 1 && says, "{code}: {error}");
}

#[test]
fn nothing_runs_on_when_its_client_is_gone() {
    let (_folder, data) = data();
    let workers = vec![Worker::start(&[], &data), Worker::start(&[], &data)];
    // Far more rows than anybody waits for.
    let long = "select count(*), max(a.l_tax + b.l_tax) from lineitem a join lineitem b on a.l_linenumber = b.l_linenumber \
                join orders on a.l_orderkey = o_orderkey where a.l_quantity + b.l_quantity + o_totalprice > 0";
    let mut client = start(Command::new(crate::PROGRAM), &data, &workers, &["-c", long]);
    let waited = Instant::now();
    while !is_busy(&workers, 10) {
        assert!(waited.elapsed() < LONG, "the statement does not begin");
    }
    client.kill().expect("it runs");
    client.wait().expect("it ends");
    wait_until_idle(&workers);
}

#[test]
fn a_network_that_is_cut_is_a_lost_worker() {
    let Some(network) = Network::make() else {
        skipped("network namespaces need a superuser, and ip");
        return;
    };
    let (_folder, data) = data();
    let expected = sql(&data, None, &["--json", "-c", JOIN]).out;
    let worker = |side: usize| {
        let listen = format!("10.77.0.{}:7600", side + 1);
        Worker::start_by(network.command(side), &["--insecure", "--listen", &listen], &data)
    };
    let workers = vec![worker(0), worker(1)];
    let mut many = Many::start_by(network.command(0), &data, &workers, 20);
    assert_eq!(many.answer(), expected);
    network.cut();
    for number in 1..20 {
        assert_eq!(many.answer(), expected, "answer {number}");
    }
    let (code, error) = many.end();
    assert_eq!(code, 0, "{error}");
    assert!(error.contains("goes on without a worker"), "{error}");
    wait_until_idle(&workers);
}

/// Whether a worker used at least so many hundredths of a second in one.
fn is_busy(workers: &[Worker], least: u64) -> bool {
    let before: Vec<u64> = workers.iter().map(Worker::ticks).collect();
    std::thread::sleep(Duration::from_secs(1));
    let mut both = workers.iter().zip(before);
    both.any(|(worker, before)| worker.ticks() - before >= least)
}

fn wait_until_idle(workers: &[Worker]) {
    let waited = Instant::now();
    while is_busy(workers, 3) {
        assert!(waited.elapsed() < LONG, "a statement runs on");
    }
}

/// Two network namespaces with a cable between them.
struct Network {
    names: [String; 2],
}

impl Network {
    /// `None` where that is not allowed.
    fn make() -> Option<Network> {
        let id = std::process::id();
        let network = Network {
            names: ["a", "b"].map(|side| format!("corun-{id}-{side}")),
        };
        let [a, b] = &network.names;
        let made = ip(&["netns", "add", a])
            && ip(&["netns", "add", b])
            && ip(&[
                "-n", a, "link", "add", "cable", "type", "veth", "peer", "name", "cable", "netns", b,
            ]);
        if !made {
            return None;
        }
        for (number, name) in network.names.iter().enumerate() {
            let address = format!("10.77.0.{}/24", number + 1);
            assert!(ip(&["-n", name, "address", "add", &address, "dev", "cable"]));
            assert!(ip(&["-n", name, "link", "set", "cable", "up"]));
            assert!(ip(&["-n", name, "link", "set", "lo", "up"]));
        }
        Some(network)
    }

    /// The program, on one side.
    fn command(&self, side: usize) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.names[side], crate::PROGRAM]);
        command
    }

    fn cut(&self) {
        assert!(ip(&["-n", &self.names[1], "link", "set", "cable", "down"]));
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        for name in &self.names {
            ip(&["netns", "delete", name]);
        }
    }
}

fn ip(arguments: &[&str]) -> bool {
    let run = Command::new("ip").args(arguments).stderr(Stdio::null()).status();
    run.is_ok_and(|status| status.success())
}

/// Starts a client over the two tables.
fn start(mut program: Command, folder: &Path, workers: &[Worker], arguments: &[&str]) -> Child {
    program
        .args([
            "sql",
            "lineitem.parquet",
            "orders.parquet",
            "--partitions",
            "2",
            "--json",
        ])
        .args(["--set", "distributed.file_scan_config_bytes_per_partition=1"])
        .args(["--workers", &addresses(workers)])
        .args(arguments)
        .current_dir(folder)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program starts")
}

/// A client that asks for the same join many times.
struct Many {
    child: Child,
    out: BufReader<std::process::ChildStdout>,
}

impl Many {
    fn start(folder: &Path, workers: &[Worker], count: usize) -> Many {
        Many::start_by(Command::new(crate::PROGRAM), folder, workers, count)
    }

    fn start_by(program: Command, folder: &Path, workers: &[Worker], count: usize) -> Many {
        let statements: Vec<&str> = (0..count).flat_map(|_| ["-c", JOIN]).collect();
        let mut child = start(program, folder, workers, &statements);
        let out = BufReader::new(child.stdout.take().expect("piped"));
        Many { child, out }
    }

    /// The rows of the next answer: one for each of the five priorities.
    fn answer(&mut self) -> String {
        let mut rows = String::new();
        for _ in 0..5 {
            self.out.read_line(&mut rows).expect("a row");
        }
        rows
    }

    /// Its exit code and what it said.
    fn end(mut self) -> (i32, String) {
        std::io::copy(&mut self.out, &mut std::io::sink()).expect("rows");
        let output = self.child.wait_with_output().expect("it ends");
        let said = String::from_utf8(output.stderr).expect("text");
        (output.status.code().expect("it was not killed"), said)
    }
}
