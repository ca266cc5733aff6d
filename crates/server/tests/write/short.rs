//! The short path: statements that run often are compiled, and give the same answers as before; that they are is counted.

use super::harness::wire_client::WireClient;
use super::harness::{Client, PATIENCE, Server, wait};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Barrier};
use std::time::Instant;

/// Statements so far that took the short path.
fn short(server: &Server) -> u64 {
    server.engine().statements().short()
}

/// How many do while `work` runs.
fn counted<R>(server: &Server, work: impl FnOnce() -> R) -> (R, u64) {
    let before = short(server);
    let done = work();
    (done, short(server) - before)
}

/// A hundred accounts with 1000 each.
fn accounts(server: &Server) -> Client {
    let client = server.client();
    client.execute(
        "create table account (id int primary key, branch int not null, balance bigint not null, name varchar(20))",
    );
    client.execute(
        "insert into account select n, n / 10, 1000, 'name ' || n from generate_series(0, 99) as g(n)",
    );
    client
}

#[test]
fn simple_texts_that_differ_in_literals_are_compiled_once() {
    let server = Server::start();
    let client = accounts(&server);
    let ((), count) = counted(&server, || {
        for id in 0..20 {
            let rows = client.lines(&format!("SELECT name, balance FROM account WHERE id = {id}"));
            assert_eq!(rows, [format!("name {id}|1000")]);
        }
    });
    assert_eq!(count, 19, "all but the first");
    let ((), count) = counted(&server, || {
        for id in 0..20 {
            let sign = if id % 2 == 0 { "" } else { "-" };
            let sql = format!("UPDATE account SET balance = balance + {sign}{id} WHERE id = {id};");
            assert_eq!(client.execute(&sql), 1);
        }
    });
    assert_eq!(count, 19);
    for id in [4, 7] {
        let expected = if id % 2 == 0 { 1000 + id } else { 1000 - id };
        assert_eq!(
            client.one(&format!("SELECT balance FROM account WHERE id = {id}")),
            expected.to_string()
        );
    }
    let ((), count) = counted(&server, || {
        for id in 200..220 {
            let sql =
                format!("INSERT INTO account (id, branch, balance, name) VALUES ({id}, 3, -5, 'it''s {id}')");
            assert_eq!(client.execute(&sql), 1);
        }
        for id in 200..220 {
            let sql = format!("DELETE FROM account WHERE id = {id} AND name = 'it''s {id}'");
            assert_eq!(client.execute(&sql), 1, "{sql}");
        }
    });
    assert_eq!(count, 38);
    assert_eq!(
        client.one("select count(*), sum(balance) from account"),
        "100|99990"
    );
}

#[test]
fn prepared_statements_are_compiled() {
    let server = Server::start();
    let client = accounts(&server);
    let statements = [
        "select name from account where id = $1",
        "update account set balance = balance + 1 where id = $1",
        "insert into account values ($1 + 0, 1, 2, 'x')",
        "delete from account where id = $1",
    ];
    let runtime = super::harness::runtime();
    let prepare = |sql| runtime.block_on(client.driver.prepare(sql)).expect(sql);
    let [select, update, _, delete] = statements.map(prepare);
    let ((), count) = counted(&server, || {
        for id in 0..10_i32 {
            let rows = runtime
                .block_on(client.driver.query(&select, &[&id]))
                .expect("rows");
            assert_eq!(rows[0].get::<_, String>(0), format!("name {id}"));
            let updated = runtime.block_on(client.driver.execute(&update, &[&id]));
            assert_eq!(updated.expect("updated"), 1);
            let deleted = runtime.block_on(client.driver.execute(&delete, &[&(id + 50)]));
            assert_eq!(deleted.expect("deleted"), 1);
        }
    });
    assert_eq!(count, 27, "all but the first of each");
    assert_eq!(
        client.one("select count(*), sum(balance) from account"),
        "90|90010"
    );
    // A driver that prepares each time anew.
    let ((), count) = counted(&server, || {
        for id in 0..10_i32 {
            let rows = client.query("select balance from account where id = $1 and branch = 0", &[&id]);
            assert_eq!(rows.expect("rows")[0].get::<_, i64>(0), 1001);
        }
    });
    assert!(count >= 8, "{count}");
    let missing = client.query(
        "select balance from account where id = $1 and branch = 0",
        &[&1000_i32],
    );
    assert!(missing.expect("no rows").is_empty());
}

#[test]
fn ranges_are_read_in_the_order_of_their_index() {
    let server = Server::start();
    let client = server.client();
    client.execute("create table line (o bigint, n int, item text, primary key (o, n))");
    client.execute("insert into line select a.n, b.n, 'item ' || b.n from generate_series(1, 20) a(n), generate_series(1, 10) b(n)");
    let ((), count) = counted(&server, || {
        for order in 1..=20 {
            let sql = format!(
                "select n, item from line where o = {order} and n between 3 and 6 order by n desc limit 2"
            );
            assert_eq!(client.lines(&sql), ["6|item 6", "5|item 5"]);
        }
    });
    assert_eq!(count, 19);
    assert_eq!(
        client.lines("explain select * from line where o = 5")[0],
        "Short: index line_pkey, a range of o"
    );
    let explained = client.lines("explain select item from line where o = 5 and n = 3");
    assert_eq!(explained[0], "Short: index line_pkey, one row by o, n");
    let explained = client.lines("explain select item from line where item = 'x'");
    assert!(!explained[0].starts_with("Short"), "{explained:?}");
}

#[test]
fn values_of_all_types_are_as_before() {
    let server = Server::start();
    let client = server.client();
    client.execute(
        "create table kinds (id int primary key, b boolean, i2 smallint, i8 bigint, r real, d double precision, n numeric(12,3),
           t text, v varchar(10), c char(5), y bytea, da date, ti timestamp, tz timestamptz, u uuid, j json)",
    );
    client.execute(
        "insert into kinds values
           (1, true, -5, 9000000000, 1.5, 2.25, 12.500, 'text', 'varchar', 'ab', '\\x00ff', '2020-02-29', '2020-02-29 12:34:56.789',
            '2020-02-29 12:34:56+02', '12345678-1234-1234-1234-123456789012', '{\"a\": 1}'),
           (2, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null)",
    );
    client.execute("set timezone = 'Asia/Tokyo'");
    // Without an index's help, which no short statement is.
    let long = |id: u32| client.lines(&format!("select * from kinds where id + 0 = {id}"));
    let (first, second) = (long(1), long(2));
    let ((), count) = counted(&server, || {
        for _ in 0..3 {
            assert_eq!(client.lines("select * from kinds where id = 1"), first);
            assert_eq!(client.lines("select * from kinds where id = 2"), second);
        }
    });
    assert_eq!(count, 5);
    let binary = |sql: &str| {
        let rows = client.query(sql, &[&1_i32]).expect(sql);
        let row = &rows[0];
        (
            row.get::<_, bool>("b"),
            row.get::<_, i16>("i2"),
            row.get::<_, i64>("i8"),
            row.get::<_, f32>("r"),
            row.get::<_, f64>("d"),
            row.get::<_, String>("t"),
            row.get::<_, Vec<u8>>("y"),
        )
    };
    let expected = (
        true,
        -5,
        9_000_000_000,
        1.5,
        2.25,
        "text".to_owned(),
        vec![0, 255],
    );
    for _ in 0..4 {
        assert_eq!(binary("select * from kinds where id = $1"), expected);
    }
}

#[test]
fn expressions_and_refusals_are_as_before() {
    let server = Server::start();
    let client = accounts(&server);
    client.execute(
        "create table child (id int primary key, parent int references account, small smallint not null)",
    );
    for round in 0..4 {
        let told = |sql: &str| {
            let (code, message) = client.error(sql);
            (code, message)
        };
        assert_eq!(
            told(&format!("insert into account values ({}, 1, 1, 'x')", round * 3)),
            (
                "23505".to_owned(),
                "duplicate key value violates unique constraint \"account_pkey\"".to_owned()
            )
        );
        assert_eq!(
            told(&format!(
                "insert into child values ({round}, {}, 1)",
                1000 + round
            ))
            .0,
            "23503"
        );
        assert_eq!(
            told(&format!("update account set branch = null where id = {round}")).0,
            "23502"
        );
        assert_eq!(
            told(&format!(
                "update account set name = 'a name that is far too long {round}' where id = 1"
            ))
            .0,
            "22001"
        );
        assert_eq!(
            told(&format!("insert into child values ({}, 1, 70000)", 50 + round)).0,
            "22003"
        );
        assert_eq!(
            told(&format!(
                "select 1 / (balance - 1000) from account where id = {round}"
            ))
            .0,
            "22012"
        );
        assert_eq!(
            client.execute(&format!("insert into child values ({}, {round}, 1)", 100 + round)),
            1
        );
        assert_eq!(
            told(&format!("delete from account where id = {round}")).0,
            "23503"
        );
        assert_eq!(
            client.execute(&format!("update account set name = null where id = {round}")),
            1
        );
        assert_eq!(
            client.execute(&format!(
                "update account set id = {} where id = {}",
                500 + round,
                90 + round
            )),
            1
        );
        assert_eq!(
            client.lines(&format!("select name from account where id = {round}")),
            ["NULL"]
        );
    }
    // A condition on the row.
    for round in 0..4 {
        let sql = format!(
            "update account set balance = 0 where id = {} and balance > {}",
            10 + round,
            999 + round
        );
        assert_eq!(client.execute(&sql), u64::from(round == 0));
    }
    // Literals of other kinds are of other statements.
    for _ in 0..3 {
        assert_eq!(client.lines("select id from account where id = 5"), ["5"]);
        assert_eq!(client.lines("select id from account where id = '5'"), ["5"]);
        assert_eq!(client.lines("select id from account where id = 5.0"), ["5"]);
        assert_eq!(
            client.lines("select id from account where id = 5.5"),
            Vec::<String>::new()
        );
        assert_eq!(
            client.lines("select id from account where id = 99999999999"),
            Vec::<String>::new()
        );
        assert_eq!(
            client.lines("select id from account where id = -5"),
            Vec::<String>::new()
        );
        assert_eq!(client.error("select id from account where id = 'x'").0, "22P02");
    }
}

#[test]
fn definitions_rights_and_settings_count_at_once() {
    let server = Server::start();
    let (client, other) = (accounts(&server), server.client());
    let read = |sql: &str| {
        for _ in 0..2 {
            client.lines(sql);
        }
        client.lines(sql)
    };
    assert_eq!(read("select * from account where id = 3"), ["3|0|1000|name 3"]);
    other.execute("alter table account add column extra int default 7");
    assert_eq!(read("select * from account where id = 3"), ["3|0|1000|name 3|7"]);
    other.execute("drop table account");
    assert_eq!(client.error("select * from account where id = 3").0, "42P01");
    other.execute("create table account (id int primary key, word text)");
    other.execute("insert into account values (3, 'new')");
    assert_eq!(read("select * from account where id = 3"), ["3|new"]);
    // The transaction's own definitions.
    client.execute("begin; alter table account add column more int");
    assert_eq!(read("select * from account where id = 3"), ["3|new|NULL"]);
    client.execute("rollback");
    assert_eq!(read("select * from account where id = 3"), ["3|new"]);
    // Another schema comes first.
    other.execute("create schema apart");
    other.execute("create table apart.account (id int primary key, word text)");
    other.execute("insert into apart.account values (3, 'apart')");
    client.execute("set search_path = apart, public");
    assert_eq!(read("select * from account where id = 3"), ["3|apart"]);
    client.execute("reset search_path");
    assert_eq!(read("select * from account where id = 3"), ["3|new"]);
    // A column that is checked.
    let set = |value: u32| client.try_execute(&format!("update account set word = 'w{value}' where id = 3"));
    for value in 0..3 {
        assert_eq!(set(value), Ok(1));
    }
    other.execute("alter table account add constraint short check (length(word) < 3)");
    assert_eq!(set(9), Ok(1));
    assert_eq!(set(10).map_err(|(code, _)| code), Err("23514".to_owned()));
    client.execute("set default_transaction_read_only = on");
    assert_eq!(set(5).map_err(|(code, _)| code), Err("25006".to_owned()));
}

#[test]
fn a_transaction_sees_its_own_changes_and_takes_them_back() {
    let server = Server::start();
    let (client, other) = (accounts(&server), server.client());
    let balance = |client: &Client| client.one("select balance from account where id = 5");
    for level in ["read committed", "repeatable read", "serializable"] {
        for _ in 0..3 {
            client.execute(&format!("begin isolation level {level}"));
            client.execute("update account set balance = balance + 7 where id = 5");
            assert_eq!(balance(&client), "1007", "{level}");
            client.execute("savepoint s");
            client.execute("update account set balance = balance + 20 where id = 5");
            assert_eq!(balance(&client), "1027");
            client.execute("rollback to s");
            assert_eq!(balance(&client), "1007");
            assert_eq!(balance(&other), "1000", "nothing is committed");
            client.execute("delete from account where id = 5");
            assert!(
                client
                    .lines("select balance from account where id = 5")
                    .is_empty()
            );
            assert_eq!(
                client.execute("update account set balance = balance + 7 where id = 5"),
                0
            );
            client.execute("rollback");
            assert_eq!(balance(&client), "1000");
        }
    }
}

#[test]
fn isolation_is_kept() {
    let server = Server::start();
    let (one, two) = (accounts(&server), server.client());
    for client in [&one, &two] {
        for _ in 0..3 {
            client.execute("update account set balance = balance + 0 where id = 1");
            client.lines("select balance from account where id = 1");
        }
    }
    // The first updater wins.
    one.execute("begin isolation level repeatable read");
    assert_eq!(one.one("select balance from account where id = 1"), "1000");
    two.execute("update account set balance = balance + 5 where id = 1");
    assert_eq!(one.one("select balance from account where id = 1"), "1000");
    let failed = one.error("update account set balance = balance + 1 where id = 1");
    assert_eq!(
        failed,
        (
            "40001".to_owned(),
            "could not serialize access due to concurrent update".to_owned()
        )
    );
    one.execute("rollback");
    // READ COMMITTED goes on with the row as it is once it is free.
    one.execute("begin");
    one.execute("update account set balance = balance + 10 where id = 1");
    let waits = std::thread::spawn(move || {
        two.execute("update account set balance = balance + 100 where id = 1");
        two
    });
    let observer = server.client();
    wait("the other waits", || {
        observer.one(
            "select count(*) from pg_stat_activity where state = 'active' and query like 'update account%'",
        ) == "1"
    });
    one.execute("commit");
    let two = waits.join().expect("it was updated");
    assert_eq!(one.one("select balance from account where id = 1"), "1115");
    // A key that is not there keeps nobody from adding it, but in SERIALIZABLE.
    one.execute("begin; update account set balance = 1 where id = 777");
    two.execute("begin; update account set balance = 1 where id = 777");
    two.execute("insert into account values (777, 1, 1, 'two'); commit");
    assert_eq!(
        one.execute("update account set balance = 2 where id = 777"),
        1,
        "a new snapshot"
    );
    one.execute("commit");
    // No lost update by a read that was not locked.
    one.execute("begin isolation level serializable");
    assert_eq!(one.one("select balance from account where id = 2"), "1000");
    let waits = std::thread::spawn(move || {
        two.execute("update account set balance = balance + 1 where id = 2");
        two
    });
    wait("the other waits", || {
        observer.one(
            "select count(*) from pg_stat_activity where state = 'active' and query like 'update account%'",
        ) == "1"
    });
    one.execute("update account set balance = 5 where id = 2");
    one.execute("commit");
    waits.join().expect("it was updated");
    assert_eq!(one.one("select balance from account where id = 2"), "6");
}

#[test]
fn many_clients_count_right_on_few_rows() {
    const CLIENTS: u64 = 6;
    const UPDATES: u64 = 200;
    let server = Server::start();
    let observer = accounts(&server);
    let barrier = Arc::new(Barrier::new(CLIENTS as usize));
    let threads: Vec<_> = (0..CLIENTS)
        .map(|number| {
            let (client, barrier) = (server.client(), Arc::clone(&barrier));
            std::thread::spawn(move || {
                barrier.wait();
                for at in 0..UPDATES {
                    let (from, to) = ((number + at) % 3, (number + at + 1) % 3);
                    // In one order, so that nobody waits in a ring.
                    let (low, high) = (from.min(to), from.max(to));
                    client.execute("begin");
                    client.execute(&format!(
                        "update account set balance = balance + 1 where id = {low}"
                    ));
                    client.execute(&format!(
                        "update account set balance = balance - 1 where id = {high}"
                    ));
                    client.execute("end");
                    client.execute(&format!(
                        "update account set balance = balance + 1 where id = {}",
                        50 + number
                    ));
                }
            })
        })
        .collect();
    for thread in threads {
        thread.join().expect("no update failed");
    }
    assert_eq!(
        observer.one("select sum(balance) from account where id < 3"),
        "3000"
    );
    assert_eq!(
        observer.one("select sum(balance) from account where id >= 50 and id < 56"),
        (6000 + CLIENTS * UPDATES).to_string()
    );
    assert!(short(&server) > CLIENTS * UPDATES);
}

#[test]
fn who_waits_in_a_ring_or_too_long_or_is_cancelled_is_told() {
    let server = Server::start();
    let (one, two) = (accounts(&server), server.client());
    let update = |client: &Client, id: u32| {
        client.try_execute(&format!("update account set balance = 1 where id = {id}"))
    };
    for client in [&one, &two] {
        for _ in 0..3 {
            update(client, 9).expect("updated");
        }
        client.execute("begin");
    }
    update(&one, 1).expect("updated");
    update(&two, 2).expect("updated");
    let waits = std::thread::spawn(move || {
        let ended = update(&two, 1);
        (two, ended)
    });
    let first = update(&one, 2);
    one.execute("rollback");
    let (two, second) = waits.join().expect("a thread");
    let codes: Vec<String> = [first, second]
        .into_iter()
        .filter_map(|ended| Some(ended.err()?.0))
        .collect();
    assert_eq!(codes, ["40P01"], "one of both gives way");
    two.execute("rollback");
    one.execute("begin");
    update(&one, 3).expect("updated");
    two.execute("set lock_timeout = '50ms'");
    assert_eq!(update(&two, 3).expect_err("it is locked").0, "55P03");
    two.execute("set lock_timeout = 0; set statement_timeout = '50ms'");
    assert_eq!(update(&two, 3).expect_err("it is locked").0, "57014");
    two.execute("set statement_timeout = 0");
    let cancel = two.cancel_token();
    let stopped = Arc::new(AtomicBool::new(false));
    let cancels = {
        let stopped = Arc::clone(&stopped);
        std::thread::spawn(move || {
            let begin = Instant::now();
            while !stopped.load(Ordering::Acquire) && begin.elapsed() < PATIENCE {
                let sent = super::harness::runtime().block_on(cancel.cancel_query(tokio_postgres::NoTls));
                drop(sent);
                std::thread::sleep(std::time::Duration::from_millis(10));
            }
        })
    };
    let cancelled = update(&two, 3).expect_err("it is locked");
    stopped.store(true, Ordering::Release);
    cancels.join().expect("a thread");
    assert_eq!(
        cancelled,
        (
            "57014".to_owned(),
            "canceling statement due to user request".to_owned()
        )
    );
    // Others were served meanwhile, by the same event loop.
    assert_eq!(
        server.client().one("select balance from account where id = 3"),
        "1000"
    );
}

#[test]
fn texts_of_several_statements_and_of_other_kinds_go_the_usual_way() {
    let server = Server::start();
    accounts(&server);
    let mut client: WireClient = server.wire_client();
    for _ in 0..3 {
        let said = client
            .query("select name from account where id = 1; select name from account where id = 2")
            .expect("an answer");
        assert_eq!(
            (said.tags, said.rows.len()),
            (vec!["SELECT 1".to_owned(), "SELECT 1".to_owned()], 2)
        );
        let said = client
            .query("select name from account where id = 1 -- and a comment")
            .expect("an answer");
        assert_eq!((said.error, said.rows.len()), (None, 1));
        let said = client
            .query("select name from account where id = 1")
            .expect("an answer");
        assert_eq!(
            (said.columns, said.tags),
            (vec!["name".to_owned()], vec!["SELECT 1".to_owned()])
        );
        let said = client
            .query("update account set balance = 5 where id = 1")
            .expect("an answer");
        assert_eq!((said.tags, said.state), (vec!["UPDATE 1".to_owned()], 'I'));
        let said = client
            .query("select id from account where branch = 3 order by id limit 2")
            .expect("an answer");
        assert_eq!(said.rows.len(), 2);
        let said = client
            .query("select id + 1, id as two, 3 from account where id = 4")
            .expect("an answer");
        assert_eq!(said.columns, ["?column?", "two", "?column?"]);
    }
    let said = client.query("begin").expect("an answer");
    assert_eq!((said.tags, said.state), (vec!["BEGIN".to_owned()], 'T'));
    let said = client
        .query("select nothing from account where id = 1")
        .expect("an answer");
    assert_eq!(
        (said.error.map(|(code, _)| code), said.state),
        (Some("42703".to_owned()), 'E')
    );
    let said = client
        .query("select name from account where id = 1")
        .expect("an answer");
    assert_eq!(
        (said.error.map(|(code, _)| code), said.state),
        (Some("25P02".to_owned()), 'E')
    );
    let said = client.query("commit").expect("an answer");
    assert_eq!((said.tags, said.state), (vec!["ROLLBACK".to_owned()], 'I'));
}
