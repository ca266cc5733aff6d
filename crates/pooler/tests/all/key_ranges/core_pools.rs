//! Dispatch of every kind, with several event loops: whatever core pool a statement gets, its answer is the same.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use crate::common::fixture::Fixture;
use crate::common::message::{all, copy_data, copy_done, errors, queries, query, shown, statement, sync};
use crate::common::postgres::{new_database, shared};
use crate::common::random::Random;
use crate::common::raw::{Raw, number};
use crate::common::target::{Mode, Pooling};
use crate::common::wait::{PATIENCE, wait, wait_for, wait_until};

const RANGES: &str = "[ranges.account]\ndatabase = \"{database}\"\ncolumns = [\"account.id\", \"entry.account_id\"]\nminimum = 1\nmaximum = 1000\n";

const TABLES: &str = "create table account (id int primary key, balance int);
    create table entry (id int, account_id int, amount int);
    insert into account select i, 0 from generate_series(1, 1000) i";

fn start(dispatch: &str, change: impl FnOnce(Pooling) -> Pooling) -> Fixture {
    let lines = format!("dispatch = \"{dispatch}\"\n{RANGES}");
    let pooling = Pooling::new(Mode::Transaction, 6).corun("event_loops = 2");
    let fixture = Fixture::start(&change(pooling).ours(&lines));
    make_tables(&mut fixture.direct());
    fixture
}

fn make_tables(owner: &mut Raw) {
    for statement in TABLES.split(';') {
        owner.rows(statement);
    }
}

/// Requests of many forms. What a client gets is compared with what the server says directly.
fn requests(random: &mut Random, own: usize) -> Vec<Vec<u8>> {
    // Each client has accounts of its own, all over the ranges.
    let mut id = || (1 + random.below(100) * 10 + own).to_string();
    let (a, b) = (id(), id());
    let update = "update account set balance = balance + 1 where id = $1 returning balance";
    let read = "select balance from account where id = $1";
    let insert = "insert into entry values (1, $1, 2)";
    let entries = format!("select count(*), sum(amount) from entry where account_id = {a}");
    match random.below(11) {
        // As JDBC begins.
        0 => vec![
            [statement("BEGIN", &[]), statement(update, &[Some(&a)]), sync()].concat(),
            [statement(update, &[Some(&b)]), sync()].concat(),
            [statement("COMMIT", &[]), sync()].concat(),
        ],
        // All in one batch.
        1 => vec![
            [
                statement("begin", &[]),
                statement(insert, &[Some(&a)]),
                statement(read, &[Some(&b)]),
                statement("commit", &[]),
                sync(),
            ]
            .concat(),
        ],
        2 => queries(&[
            "begin",
            "set local work_mem to '3MB'",
            &format!("update account set balance = balance + 2 where id = {a} returning balance"),
            "show work_mem",
            "commit",
            "show work_mem",
        ]),
        3 => queries(&[
            "begin isolation level repeatable read",
            "savepoint s",
            &format!("insert into entry values (2, {a}, 7)"),
            "rollback to s",
            &entries,
            "end",
        ]),
        // COPY begins a transaction's work.
        4 => vec![
            query("begin"),
            [
                query("copy entry from stdin"),
                copy_data(format!("3\t{a}\t5\n").as_bytes()),
                copy_done(),
            ]
            .concat(),
            query(&entries),
            query("rollback"),
        ],
        5 => vec![query(&format!(
            "select balance from account where id = {a}; update account set balance = 0 where id = {b}; {entries}"
        ))],
        6 => queries(&["begin", "select 1 / 0", &entries, "rollback", &entries]),
        7 => queries(&["begin", "begin", "commit", "commit"]),
        8 => vec![
            query("begin"),
            sync(),
            query("prepare transaction 'x'"),
            query("rollback"),
        ],
        // Empty texts, and an error before anything ran.
        9 => queries(&[
            "begin",
            "",
            "selekt",
            "commit",
            "begin read only",
            &format!("delete from entry where account_id = {a}"),
            "abort",
        ]),
        _ => vec![
            [
                statement(read, &[Some(&a)]),
                sync(),
                statement(update, &[Some(&b)]),
                sync(),
                statement(&entries, &[]),
                sync(),
            ]
            .concat(),
        ],
    }
}

/// How many times a request is answered by ReadyForQuery.
fn ends(request: &[u8]) -> usize {
    let messages = all(request);
    let ends = messages
        .iter()
        .filter(|message| matches!(message.tag, b'Q' | b'S'));
    ends.count()
}

fn ask(client: &mut Raw, request: &[u8]) -> Vec<String> {
    client.send(request);
    let ends = ends(request);
    let messages = client.until(|seen| seen.iter().filter(|message| message.tag == b'Z').count() == ends);
    shown(&messages)
}

#[test]
fn every_dispatch_answers_as_the_server_does() {
    for dispatch in ["range", "random", "auto", "off"] {
        let fixture = start(dispatch, |pooling| pooling);
        let copy = new_database();
        make_tables(&mut shared().client("app", &copy));
        std::thread::scope(|scope| {
            for own in 1..=4 {
                let (fixture, copy) = (&fixture, &copy);
                scope.spawn(move || {
                    let mut random = Random::new(own as u64 * 1000 + dispatch.len() as u64);
                    let mut client = fixture.client();
                    let mut direct = shared().client("app", copy);
                    for round in 0..60 {
                        for request in requests(&mut random, own) {
                            let expected = ask(&mut direct, &request);
                            assert_eq!(
                                ask(&mut client, &request),
                                expected,
                                "{dispatch}, {own}, {round}: {}",
                                String::from_utf8_lossy(&request)
                            );
                        }
                    }
                });
            }
        });
        let sums = "select (select sum(balance) from account), (select sum(amount) from entry)";
        assert_eq!(fixture.sql(sums), shared().sql_in(&copy, sums));
        fixture.wait_for_no_server("state like 'idle in%'");
    }
}

#[test]
fn limits_hold_for_a_transaction_that_has_not_begun_on_a_server() {
    for (limit, code) in [
        ("idle_transaction_timeout", "25P03"),
        ("transaction_timeout", "57014"),
    ] {
        let fixture = start("range", |pooling| pooling.set(limit, "1"));
        let mut client = fixture.client();
        client.rows("select balance from account where id = 1");
        client.rows("begin");
        let messages = client.until_closed();
        assert_eq!(errors(&messages), [code], "{limit}: {messages:?}");
        // One that has a server by then, as ever.
        let mut client = fixture.client();
        client.rows("begin");
        client.rows("update account set balance = 7 where id = 1");
        let messages = client.until_closed();
        assert_eq!(errors(&messages), [code], "{limit}: {messages:?}");
        let mut client = fixture.client();
        assert_eq!(client.value("select balance from account where id = 1"), "0");
    }
}

#[test]
fn clients_that_leave_before_their_transaction_began_leave_nothing() {
    let fixture = start("range", |pooling| pooling);
    for round in 0..20 {
        let mut client = fixture.client();
        client.rows("begin");
        if round % 2 == 0 {
            client.send_query("update account set balance = 5 where id = 500");
        }
    }
    let mut client = fixture.client();
    wait(|| client.try_rows("select 1"));
    fixture.wait_for_no_server("usename = 'app' and state <> 'idle'");
    assert_eq!(client.value("select balance from account where id = 500"), "0");
}

#[test]
fn ranges_and_pools_change_while_clients_run() {
    let fixture = start("range", |pooling| pooling);
    let (stop, statements) = (AtomicBool::new(false), AtomicUsize::new(0));
    let all = 6;
    std::thread::scope(|scope| {
        let (fixture, stop, statements) = (&fixture, &stop, &statements);
        let clients: Vec<_> = (0..all)
            .map(|own| {
                scope.spawn(move || {
                    let mut random = Random::new(own);
                    let mut client = fixture.client();
                    client.rows(&format!("set app.mine to '{own}'"));
                    let (mut updates, mut rounds) = (0, 0);
                    // However soon the other has changed everything.
                    while !stop.load(Ordering::Relaxed) || rounds <= 10 {
                        let id = 1 + random.below(1000);
                        rounds += 1;
                        statements.fetch_add(1, Ordering::Relaxed);
                        if random.percent(50) {
                            let row = client.rows(&format!(
                                "select id, current_setting('app.mine') from account where id = {id}"
                            ));
                            assert_eq!(row, [[Some(id.to_string()), Some(own.to_string())]]);
                            continue;
                        }
                        client.rows("begin");
                        client.rows(&format!(
                            "update account set balance = balance + 1 where id = {id}"
                        ));
                        client.rows("commit");
                        updates += 1;
                    }
                    assert!(rounds > 10, "{own} ran {rounds} times");
                    updates
                })
            })
            .collect();
        let domain = "[ranges.account]";
        for _ in 0..4 {
            for change in [
                // Changed, removed, added again; more and fewer servers; another dispatch.
                &[("maximum = 1000", "maximum = 100")][..],
                &[("\"account.id\", ", "")],
                &[
                    ("dispatch = \"range\"", "dispatch = \"random\""),
                    ("default_pool_size = 6", "default_pool_size = 9"),
                ],
                &[("default_pool_size = 6", "default_pool_size = 1")],
                &[("default_pool_size = 6", "default_pool_size = 2")],
                &[("dispatch = \"range\"", "dispatch = \"off\"")],
                &[
                    (domain, "[ranges.other]"),
                    ("maximum = 1000", "splits = [10, 20, 30]"),
                    ("minimum = 1\n", ""),
                ],
                &[],
            ] {
                fixture.target.reload_with(change);
                let before = statements.load(Ordering::Relaxed);
                wait_until("clients go on under it", || {
                    statements.load(Ordering::Relaxed) >= before + 20 * all as usize
                });
            }
        }
        stop.store(true, Ordering::Relaxed);
        let updates: i64 = clients
            .into_iter()
            .map(|client| client.join().expect("a client"))
            .sum();
        assert_eq!(
            fixture.sql("select sum(balance) from account"),
            [[Some(updates.to_string())]]
        );
    });
    // No core pool is left over, and no server.
    wait_for(true, || {
        let servers = fixture.console().table("show servers");
        let own = servers.iter().filter(|row| row["database"] == fixture.database);
        own.count() <= 6
    });
    let mut clients: Vec<Raw> = (0..6).map(|_| fixture.client()).collect();
    for client in &mut clients {
        client.set_patience(PATIENCE);
        client.rows("begin");
        client.rows("select balance from account where id = 3");
    }
    for client in &mut clients {
        client.rows("commit");
    }
}

#[test]
fn ranges_are_counted_on_all_loops() {
    let fixture = start("range", |pooling| pooling);
    let mut clients: Vec<Raw> = (0..4).map(|_| fixture.client()).collect();
    for id in 0..50 {
        for client in &mut clients {
            client.rows(&format!("select balance from account where id = {}", 1 + id * 20));
        }
    }
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    wait_for((cores, 200), || {
        let mut rows = fixture.console().table("show ranges");
        rows.retain(|row| row["database"] == fixture.database);
        let counted = rows.iter().map(|row| number::<u64>(row, "query_count"));
        (rows.len(), counted.sum())
    });
}

#[test]
fn the_connection_that_listens_takes_no_core_pools_share() {
    let fixture = start("range", |pooling| Pooling {
        pool_size: 2,
        corun: "event_loops = 1\n".to_owned(),
        ..pooling
    });
    let (mut a, mut b) = fixture.two();
    a.rows("listen news");
    let mut console = fixture.console();
    // The connection that listens for all, and the others.
    let mut servers = || {
        let mut rows = console.table("show servers");
        rows.retain(|row| row["database"] == fixture.database);
        rows.into_iter()
            .partition::<Vec<_>, _>(|row| row["state"] == "listen")
    };
    // The client's own connection listens for it until then.
    wait_until("its channels have been handed over", || {
        let (listening, others) = servers();
        !listening.is_empty() && others.iter().all(|row| row["state"] == "idle")
    });
    // What is left is the connection that listens, and its core pool has no other.
    for row in servers().1 {
        fixture.sql(&format!("select pg_terminate_backend({})", row["remote_pid"]));
    }
    wait_until("the others have gone", || servers().1.is_empty());
    a.rows("begin; select 1");
    b.rows("begin; select 1");
    a.rows("commit");
    b.rows("commit");
}
