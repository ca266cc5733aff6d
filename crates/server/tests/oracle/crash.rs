//! `kill -9` while clients run transactions of TPC-B's kind with durable commits: the store opens, nothing that was acknowledged is lost,
//! nothing is half there.
//!
//! ```text
//!   server (a process) ◄── clients, which note what they ask for and what they are told
//!     killed ─► a new server ─► history, sums, definitions are compared with the notes ─► load ─► killed ─► ...
//! ```
//!
//! The process is this test program, told by its environment to be a server. `CORUN_TEST_KILLS=1000` kills it so often; a kill now and
//! then meets it while it recovers.

use super::harness::wire_client::{Said, WireClient};
use super::harness::{Server, number_from_environment, wait};
use super::random::Random;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};

/// Names the folder of a process that is to be a server.
const FOLDER: &str = "CORUN_TEST_SERVER";
const CLIENTS: u64 = 4;
const BRANCHES: u64 = 2;
const TELLERS: u64 = 10;
const ACCOUNTS: u64 = 100;
/// Rows of the history after which it begins again.
const HISTORY: usize = 20_000;

/// Is a server where the environment says so, until it is killed; otherwise does nothing.
#[test]
fn a_server_if_told() {
    let Some(folder) = std::env::var_os(FOLDER) else {
        return;
    };
    let folder = PathBuf::from(folder);
    let server = Server::open(&folder.join("store"), |_| {});
    let made = folder.join("port.new");
    std::fs::write(&made, server.port().to_string()).expect("a file");
    std::fs::rename(made, folder.join("port")).expect("a file of that name");
    loop {
        std::thread::park();
    }
}

/// A server in a process of its own.
struct Process {
    child: Child,
    port: PathBuf,
    log: PathBuf,
}

impl Process {
    /// Does not wait for it.
    fn spawn(folder: &Path) -> Process {
        let port = folder.join("port");
        _ = std::fs::remove_file(&port);
        let log = folder.join("log");
        let file = std::fs::File::create(&log).expect("a log");
        let child = Command::new("setpriv")
            .args(["--pdeathsig", "KILL", "--"])
            .arg(std::env::current_exe().expect("a test knows where it is"))
            .args(["crash::a_server_if_told", "--exact", "--nocapture"])
            .env(FOLDER, folder)
            .stdin(Stdio::null())
            .stdout(file.try_clone().expect("a second descriptor"))
            .stderr(file)
            .spawn()
            .expect("the test program starts");
        Process { child, port, log }
    }

    /// Its port, once it serves.
    fn port(&mut self) -> u16 {
        let mut port = None;
        wait("the server does not start", || {
            let ended = self.child.try_wait().expect("its state");
            let said = || std::fs::read_to_string(&self.log).unwrap_or_default();
            assert!(ended.is_none(), "the server has ended: {ended:?}\n{}", said());
            port = std::fs::read_to_string(&self.port)
                .ok()
                .and_then(|text| text.parse().ok());
            port.is_some()
        });
        port.expect("it was waited for")
    }

    fn kill(&mut self) {
        self.child.kill().expect("it is killed");
        self.child.wait().expect("it has ended");
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        _ = self.child.kill();
        _ = self.child.wait();
    }
}

/// What clients know. Transactions are numbers.
#[derive(Default)]
struct Notes {
    /// Acknowledged, or found after a kill.
    there: BTreeSet<u64>,
    /// Asked for since the last look, without an answer.
    open: BTreeSet<u64>,
    /// Tables, in the same way.
    tables: BTreeSet<u64>,
    open_tables: BTreeSet<u64>,
}

fn must(client: &mut WireClient, sql: &str) -> Said {
    let said = client.query(sql).unwrap_or_else(|error| panic!("{sql}: {error}"));
    assert_eq!(said.error, None, "{sql}");
    said
}

fn numbers(client: &mut WireClient, sql: &str) -> Vec<i64> {
    let rows = must(client, sql).rows;
    let fields = rows.iter().flatten().flatten();
    fields.map(|field| field.parse().expect("a number")).collect()
}

fn set_up(client: &mut WireClient) {
    must(
        client,
        "create table branches (bid int primary key, balance bigint not null);
         create table tellers (tid int primary key, bid int not null references branches, balance bigint not null);
         create table accounts (aid int primary key, balance bigint not null check (balance > -1000000000));
         create table history (number bigint primary key, tid int, bid int, aid int, delta bigint not null);
         create index history_by_account on history (aid)",
    );
    for (table, rows) in [
        ("branches", BRANCHES),
        ("tellers", TELLERS),
        ("accounts", ACCOUNTS),
    ] {
        let of = |id: u64| match table {
            "tellers" => format!("({id}, {}, 0)", id % BRANCHES),
            _ => format!("({id}, 0)"),
        };
        let rows: Vec<String> = (0..rows).map(of).collect();
        must(client, &format!("insert into {table} values {}", rows.join(", ")));
    }
}

/// Compares what is there with what was noted, and notes it.
fn look(client: &mut WireClient, notes: &mut Notes) {
    let found: BTreeSet<u64> = numbers(client, "select number from history")
        .into_iter()
        .map(|number| u64::try_from(number).expect("no negative number"))
        .collect();
    let lost: Vec<&u64> = notes.there.difference(&found).collect();
    assert!(lost.is_empty(), "acknowledged and lost: {lost:?}");
    let known: BTreeSet<u64> = notes.there.union(&notes.open).copied().collect();
    let strange: Vec<&u64> = found.difference(&known).collect();
    assert!(strange.is_empty(), "never asked for, or taken back: {strange:?}");
    (notes.there, notes.open) = (found, BTreeSet::new());
    // Sums, and each account and teller by itself.
    let sums = "select coalesce((select sum(delta) from history), 0)::bigint, \
                (select sum(balance) from branches)::bigint, (select sum(balance) from tellers)::bigint, \
                (select sum(balance) from accounts)::bigint";
    let sums = numbers(client, sums);
    assert!(sums.iter().all(|sum| *sum == sums[0]), "sums: {sums:?}");
    for (table, key) in [("accounts", "aid"), ("tellers", "tid"), ("branches", "bid")] {
        let sql = format!(
            "select t.{key} from {table} t left join (select {key}, sum(delta) as delta from history group by {key}) h \
             on t.{key} = h.{key} where t.balance <> coalesce(h.delta, 0)"
        );
        assert_eq!(numbers(client, &sql), [0; 0], "{table} and history differ");
    }
    for number in std::mem::take(&mut notes.open_tables) {
        let said = client
            .query(&format!("select count(*) from made{number}"))
            .expect("an answer");
        match said.error {
            None => _ = notes.tables.insert(number),
            Some((code, message)) => assert_eq!(code, "42P01", "{message}"),
        }
    }
    for number in std::mem::take(&mut notes.tables) {
        let rows = numbers(client, &format!("select id from made{number}"));
        assert_eq!(rows, [7], "the table made{number}");
        must(client, &format!("drop table made{number}"));
    }
    if notes.there.len() > HISTORY {
        must(
            client,
            "begin; truncate history; update branches set balance = 0; update tellers set balance = 0; \
             update accounts set balance = 0; commit",
        );
        notes.there.clear();
    }
}

/// Transactions of one client until its connection ends.
fn load(port: u16, seed: u64, next: &AtomicU64, acknowledged: &AtomicU64) -> Notes {
    let mut notes = Notes::default();
    let mut random = Random::new(seed);
    let Ok(mut client) = WireClient::connect(port, "ada", "shop") else {
        return notes;
    };
    loop {
        let number = next.fetch_add(1, Ordering::Relaxed);
        if random.percent(2) {
            notes.open_tables.insert(number);
            let sql = format!(
                "begin; create table made{number} (id int primary key); insert into made{number} values (7); commit"
            );
            match client.query(&sql) {
                Ok(said) => assert_eq!(said.error, None, "{sql}"),
                Err(_) => return notes,
            }
            notes.open_tables.remove(&number);
            notes.tables.insert(number);
            continue;
        }
        let (tid, aid) = (random.below(TELLERS as usize), random.below(ACCOUNTS as usize));
        let (bid, delta) = (tid as u64 % BRANCHES, random.below(10_000) as i64 - 5000);
        let mut statements = vec![
            format!("update accounts set balance = balance + {delta} where aid = {aid}"),
            format!("select balance from accounts where aid = {aid}"),
            format!("update tellers set balance = balance + {delta} where tid = {tid}"),
            format!("update branches set balance = balance + {delta} where bid = {bid}"),
            format!("insert into history values ({number}, {tid}, {bid}, {aid}, {delta})"),
        ];
        // One text is one transaction.
        let (alone, commits) = (random.percent(30), random.percent(95));
        if !alone || !commits {
            statements.insert(0, "begin".to_owned());
            statements.push(if commits { "commit" } else { "rollback" }.to_owned());
        }
        let texts = match alone || random.percent(30) {
            true => vec![statements.join("; ")],
            false => statements,
        };
        if commits {
            notes.open.insert(number);
        }
        for text in texts {
            match client.query(&text) {
                Ok(said) => assert_eq!(said.error, None, "{text}"),
                Err(_) => return notes,
            }
        }
        if commits {
            notes.open.remove(&number);
            notes.there.insert(number);
            acknowledged.fetch_add(1, Ordering::Relaxed);
        }
    }
}

#[test]
fn nothing_that_was_acknowledged_is_lost() {
    let kills = number_from_environment("CORUN_TEST_KILLS", 4);
    let seed = number_from_environment("CORUN_TEST_SEED", 1);
    let folder = tempfile::tempdir().expect("a folder");
    let mut random = Random::new(seed);
    let mut notes = Notes::default();
    let next = AtomicU64::new(1);
    let (mut total, mut in_recovery) = (0, 0);
    let mut server = Process::spawn(folder.path());
    let port = server.port();
    set_up(&mut WireClient::connect(port, "ada", "shop").expect("let in"));
    for kill in 0..=kills {
        let port = server.port();
        let mut client = WireClient::connect(port, "ada", "shop").expect("let in");
        look(&mut client, &mut notes);
        drop(client);
        if kill == kills {
            break;
        }
        let acknowledged = AtomicU64::new(0);
        let enough = 20 + random.below(150) as u64;
        let ended: Vec<Notes> = std::thread::scope(|scope| {
            let clients: Vec<_> = (0..CLIENTS)
                .map(|client| {
                    let (next, acknowledged) = (&next, &acknowledged);
                    let seed = seed ^ (kill * CLIENTS + client) << 20;
                    scope.spawn(move || load(port, seed, next, acknowledged))
                })
                .collect();
            wait("transactions do not go on", || {
                acknowledged.load(Ordering::Relaxed) >= enough
                    || clients.iter().any(|client| client.is_finished())
            });
            server.kill();
            clients
                .into_iter()
                .map(|client| client.join().expect("a client whose statements are right"))
                .collect()
        });
        for mut of in ended {
            notes.there.append(&mut of.there);
            notes.open.append(&mut of.open);
            notes.tables.append(&mut of.tables);
            notes.open_tables.append(&mut of.open_tables);
        }
        total += acknowledged.into_inner();
        server = Process::spawn(folder.path());
        while random.percent(25) {
            // How far it has come does not matter.
            std::thread::sleep(std::time::Duration::from_millis(random.below(60) as u64));
            server.kill();
            in_recovery += 1;
            server = Process::spawn(folder.path());
        }
    }
    assert!(total > 0, "no transaction was acknowledged");
    eprintln!(
        "{kills} kills, {in_recovery} more while it started, {total} transactions acknowledged, none lost"
    );
}
