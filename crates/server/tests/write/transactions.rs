//! Where transactions begin and end, what stays of them, savepoints, and definitions in transactions.

use super::harness::wire_client::{Said, WireClient};
use super::harness::{Server, wait};

/// A client of its own protocol, with a table `t`.
fn with_table(server: &Server) -> WireClient {
    let mut client = server.wire_client();
    tags(&mut client, "create table t (id int primary key, word text)");
    client
}

fn say(client: &mut WireClient, sql: &str) -> Said {
    client.query(sql).unwrap_or_else(|error| panic!("{sql}: {error}"))
}

/// Tags of a text that must not fail.
#[track_caller]
fn tags(client: &mut WireClient, sql: &str) -> Vec<String> {
    let said = say(client, sql);
    assert_eq!(said.error, None, "{sql}");
    said.tags
}

/// SQLSTATE and message of a text that must fail.
#[track_caller]
fn error(client: &mut WireClient, sql: &str) -> (String, String) {
    let said = say(client, sql);
    said.error
        .unwrap_or_else(|| panic!("{sql}: it does not fail: {:?}", said.tags))
}

/// The numbers in `t`.
#[track_caller]
fn numbers(client: &mut WireClient) -> Vec<String> {
    let said = say(client, "select id from t order by id");
    assert_eq!(said.error, None);
    said.rows
        .into_iter()
        .map(|mut row| row.remove(0).expect("a number"))
        .collect()
}

const ABORTED: &str = "current transaction is aborted, commands ignored until end of transaction block";

#[test]
fn what_is_committed_stays_and_what_is_rolled_back_does_not() {
    let mut server = Server::start();
    let mut client = with_table(&server);
    assert_eq!(tags(&mut client, "insert into t values (1), (2)"), ["INSERT 0 2"]);
    assert_eq!(tags(&mut client, "begin"), ["BEGIN"]);
    assert_eq!(tags(&mut client, "insert into t values (3)"), ["INSERT 0 1"]);
    assert_eq!(client.state, 'T');
    assert_eq!(tags(&mut client, "rollback"), ["ROLLBACK"]);
    assert_eq!(client.state, 'I');
    assert_eq!(numbers(&mut client), ["1", "2"]);
    tags(&mut client, "begin");
    assert_eq!(tags(&mut client, "delete from t where id = 1"), ["DELETE 1"]);
    assert_eq!(tags(&mut client, "update t set id = 5"), ["UPDATE 1"]);
    assert_eq!(tags(&mut client, "commit"), ["COMMIT"]);
    tags(&mut client, "begin; insert into t values (9)");
    server.restart();
    let mut client = server.wire_client();
    assert_eq!(numbers(&mut client), ["5"]);
    tags(&mut client, "insert into t values (6)");
    server.restart();
    assert_eq!(numbers(&mut server.wire_client()), ["5", "6"]);
}

#[test]
fn a_failed_transaction_takes_nothing_but_its_end() {
    let server = Server::start();
    let mut client = with_table(&server);
    for end in ["commit", "rollback", "end", "abort"] {
        tags(&mut client, "begin; insert into t values (1)");
        assert_eq!(error(&mut client, "insert into t values (2), (1)").0, "23505");
        assert_eq!(client.state, 'E');
        for sql in [
            "select 1",
            "insert into t values (3)",
            "savepoint s",
            "begin",
            "create table u (id int)",
        ] {
            assert_eq!(
                error(&mut client, sql),
                ("25P02".to_owned(), ABORTED.to_owned()),
                "{sql}"
            );
        }
        assert_eq!(tags(&mut client, end), ["ROLLBACK"], "{end}");
        assert_eq!(client.state, 'I', "{end}");
        assert_eq!(numbers(&mut client), [""; 0], "{end}");
    }
    // Errors of the parser and the planner, too.
    for wrong in [
        "selec",
        "select * from nowhere",
        "select 1 / 0",
        "update t set id = 'x'",
    ] {
        tags(&mut client, "begin; insert into t values (1)");
        error(&mut client, wrong);
        assert_eq!(client.state, 'E', "{wrong}");
        assert_eq!(tags(&mut client, "commit"), ["ROLLBACK"], "{wrong}");
    }
    assert_eq!(numbers(&mut client), [""; 0]);
}

#[test]
fn a_statement_that_fails_leaves_nothing() {
    let server = Server::start();
    let mut client = with_table(&server);
    tags(&mut client, "insert into t values (10), (20), (30)");
    for sql in [
        "insert into t values (1), (2), (10)",
        "insert into t select id / 10 + 9 from t",
        "update t set id = 20 where id > 10",
        "update t set id = null where id = 30",
    ] {
        let (code, _) = error(&mut client, sql);
        assert!(code.starts_with("23"), "{sql}: {code}");
        assert_eq!(numbers(&mut client), ["10", "20", "30"], "{sql}");
    }
    // With a savepoint the transaction goes on as if it had not been tried.
    tags(&mut client, "begin; insert into t values (40); savepoint s");
    error(&mut client, "insert into t values (1), (2), (10)");
    tags(&mut client, "rollback to s; insert into t values (1); commit");
    assert_eq!(numbers(&mut client), ["1", "10", "20", "30", "40"]);
}

#[test]
fn statements_of_one_text_are_one_transaction() {
    let server = Server::start();
    let mut client = with_table(&server);
    assert_eq!(
        tags(
            &mut client,
            "insert into t values (1); insert into t values (2); select id from t; delete from t where id = 1"
        ),
        ["INSERT 0 1", "INSERT 0 1", "SELECT 2", "DELETE 1"]
    );
    let said = say(
        &mut client,
        "insert into t values (3); delete from t; insert into t values (4), (4); insert into t values (5)",
    );
    assert_eq!(said.tags, ["INSERT 0 1", "DELETE 2"]);
    assert_eq!(said.error.expect("a key twice").0, "23505");
    assert_eq!(client.state, 'I');
    assert_eq!(numbers(&mut client), ["2"]);
    // COMMIT divides a text.
    let said = say(
        &mut client,
        "begin; insert into t values (6); commit; insert into t values (7); insert into t values (6)",
    );
    assert_eq!(said.tags, ["BEGIN", "INSERT 0 1", "COMMIT", "INSERT 0 1"]);
    assert_eq!(said.error.expect("a key twice").0, "23505");
    assert_eq!(numbers(&mut client), ["2", "6"]);
    // BEGIN takes in what stands before it.
    say(
        &mut client,
        "insert into t values (8); begin; insert into t values (9)",
    );
    assert_eq!(client.state, 'T');
    tags(&mut client, "rollback");
    assert_eq!(numbers(&mut client), ["2", "6"]);
}

#[test]
fn savepoints_nest() {
    let server = Server::start();
    let mut client = with_table(&server);
    tags(&mut client, "begin; insert into t values (1)");
    assert_eq!(tags(&mut client, "savepoint a"), ["SAVEPOINT"]);
    tags(
        &mut client,
        "insert into t values (2); savepoint b; insert into t values (3)",
    );
    assert_eq!(tags(&mut client, "rollback to b"), ["ROLLBACK"]);
    assert_eq!(numbers(&mut client), ["1", "2"]);
    // It is still there, and can be gone back to again.
    tags(&mut client, "insert into t values (4); rollback to savepoint b");
    assert_eq!(numbers(&mut client), ["1", "2"]);
    assert_eq!(tags(&mut client, "release b"), ["RELEASE"]);
    tags(&mut client, "insert into t values (5)");
    tags(&mut client, "rollback to a");
    assert_eq!(numbers(&mut client), ["1"]);
    let (code, message) = error(&mut client, "rollback to b");
    assert_eq!(
        (code.as_str(), message.as_str()),
        ("3B001", "savepoint \"b\" does not exist")
    );
    // An error of that kind can be gone back from as well.
    tags(&mut client, "rollback to a; insert into t values (6); commit");
    assert_eq!(numbers(&mut client), ["1", "6"]);
}

#[test]
fn of_savepoints_with_one_name_the_last_counts() {
    let server = Server::start();
    let mut client = with_table(&server);
    tags(
        &mut client,
        "begin; savepoint s; insert into t values (1); savepoint s; insert into t values (2)",
    );
    tags(&mut client, "rollback to s");
    assert_eq!(numbers(&mut client), ["1"]);
    tags(&mut client, "release s; rollback to s");
    assert_eq!(numbers(&mut client), [""; 0]);
    tags(&mut client, "release s");
    assert_eq!(error(&mut client, "release s").0, "3B001");
    tags(&mut client, "rollback");
    // Releasing one releases those after it.
    tags(
        &mut client,
        "begin; savepoint a; insert into t values (1); savepoint b; release a; savepoint a",
    );
    assert_eq!(error(&mut client, "rollback to b").0, "3B001");
    tags(&mut client, "rollback to a; commit");
    assert_eq!(numbers(&mut client), ["1"]);
}

#[test]
fn savepoints_need_a_transaction() {
    let server = Server::start();
    let mut client = with_table(&server);
    for (sql, word) in [
        ("savepoint s", "SAVEPOINT"),
        ("release s", "RELEASE SAVEPOINT"),
        ("rollback to s", "ROLLBACK TO SAVEPOINT"),
    ] {
        let (code, message) = error(&mut client, sql);
        assert_eq!(code, "25P01", "{sql}");
        assert_eq!(
            message,
            format!("{word} can only be used in transaction blocks"),
            "{sql}"
        );
    }
}

#[test]
fn many_savepoints_of_many_rows() {
    let server = Server::start();
    let mut client = with_table(&server);
    tags(&mut client, "begin");
    for at in 0..100 {
        tags(
            &mut client,
            &format!("savepoint s{at}; insert into t values ({at})"),
        );
        if at % 2 == 1 {
            tags(&mut client, &format!("rollback to s{at}"));
        }
    }
    tags(&mut client, "release s50; commit");
    let even: Vec<String> = (0..100).step_by(2).map(|at| at.to_string()).collect();
    assert_eq!(numbers(&mut client), even);
}

#[test]
fn an_error_after_rows_were_locked_and_changed_twice_goes_back_to_the_first() {
    let server = Server::start();
    let mut client = with_table(&server);
    tags(&mut client, "insert into t values (1, 'a')");
    tags(&mut client, "begin; update t set word = 'b'; savepoint s");
    tags(
        &mut client,
        "update t set word = 'c'; delete from t; insert into t values (1, 'd')",
    );
    assert_eq!(error(&mut client, "insert into t values (1, 'e')").0, "23505");
    tags(&mut client, "rollback to s");
    assert_eq!(
        say(&mut client, "select word from t").rows,
        [[Some("b".to_owned())]]
    );
    tags(&mut client, "rollback");
    assert_eq!(
        say(&mut client, "select word from t").rows,
        [[Some("a".to_owned())]]
    );
}

#[test]
fn a_read_only_transaction_writes_nothing() {
    let server = Server::start();
    let mut client = with_table(&server);
    for begin in [
        "begin read only",
        "begin; set transaction read only",
        "begin isolation level serializable, read only, deferrable",
    ] {
        for (sql, what) in [
            ("insert into t values (1)", "INSERT"),
            ("update t set id = 1", "UPDATE"),
            ("delete from t", "DELETE"),
            ("create table u (id int)", "CREATE TABLE"),
            ("drop table t", "DROP TABLE"),
            ("truncate t", "TRUNCATE TABLE"),
            ("select * from t for update", "SELECT FOR UPDATE"),
        ] {
            tags(&mut client, begin);
            let (code, message) = error(&mut client, sql);
            assert_eq!(code, "25006", "{begin}: {sql}");
            assert_eq!(
                message,
                format!("cannot execute {what} in a read-only transaction"),
                "{begin}"
            );
            tags(&mut client, "rollback");
        }
    }
    tags(&mut client, "set default_transaction_read_only = on");
    assert_eq!(error(&mut client, "insert into t values (1)").0, "25006");
    tags(&mut client, "begin read write; insert into t values (1); commit");
    assert_eq!(numbers(&mut client), ["1"]);
}

#[test]
fn a_level_is_set_before_the_first_statement() {
    let server = Server::start();
    let mut client = with_table(&server);
    tags(&mut client, "begin; set transaction isolation level serializable");
    let said = say(&mut client, "show transaction_isolation");
    assert_eq!(said.rows, [[Some("serializable".to_owned())]]);
    tags(&mut client, "rollback; begin; insert into t values (1)");
    let (code, message) = error(&mut client, "set transaction isolation level serializable");
    assert_eq!(code, "25001");
    assert_eq!(
        message,
        "SET TRANSACTION ISOLATION LEVEL must be called before any query"
    );
    tags(&mut client, "rollback");
    assert_eq!(numbers(&mut client), [""; 0]);
    tags(
        &mut client,
        "set default_transaction_isolation = 'repeatable read'",
    );
    tags(&mut client, "begin");
    let said = say(&mut client, "show transaction_isolation");
    assert_eq!(said.rows, [[Some("repeatable read".to_owned())]]);
}

#[test]
fn definitions_go_back_with_their_transaction() {
    let mut server = Server::start();
    let mut client = with_table(&server);
    tags(&mut client, "insert into t values (1, 'a')");
    tags(
        &mut client,
        "begin; create table u (id int primary key, parent int references t); insert into u values (1, 1)",
    );
    assert_eq!(
        say(&mut client, "select parent from u").rows,
        [[Some("1".to_owned())]]
    );
    // Nobody else sees it.
    let mut other = server.wire_client();
    assert_eq!(error(&mut other, "select * from u").0, "42P01");
    tags(&mut client, "rollback");
    assert_eq!(error(&mut client, "select * from u").0, "42P01");

    tags(&mut client, "begin; drop table t");
    assert_eq!(error(&mut client, "select * from t").0, "42P01");
    tags(&mut client, "rollback");
    assert_eq!(numbers(&mut client), ["1"]);

    tags(
        &mut client,
        "begin; alter table t add column more int default 7; insert into t values (2, 'b', 8)",
    );
    assert_eq!(
        say(&mut client, "select sum(more) from t").rows,
        [[Some("15".to_owned())]]
    );
    tags(&mut client, "rollback");
    assert_eq!(error(&mut client, "select more from t").0, "42703");

    tags(&mut client, "begin; truncate t; insert into t values (5)");
    assert_eq!(numbers(&mut client), ["5"]);
    tags(&mut client, "rollback");
    assert_eq!(numbers(&mut client), ["1"]);

    tags(
        &mut client,
        "begin; create unique index by_word on t (word); savepoint s",
    );
    assert_eq!(error(&mut client, "insert into t values (2, 'a')").0, "23505");
    tags(&mut client, "rollback; insert into t values (2, 'a')");

    tags(
        &mut client,
        "begin; create schema other; create table other.u (id int); commit",
    );
    tags(&mut client, "insert into other.u values (3)");
    server.restart();
    let mut client = server.wire_client();
    assert_eq!(
        say(&mut client, "select id from other.u").rows,
        [[Some("3".to_owned())]]
    );
    assert_eq!(numbers(&mut client), ["1", "2"]);
}

#[test]
fn definitions_go_back_to_savepoints() {
    let server = Server::start();
    let mut client = with_table(&server);
    tags(
        &mut client,
        "begin; savepoint a; create table u (id int primary key); insert into u values (1); savepoint b",
    );
    tags(
        &mut client,
        "drop table u; create table u (word text); insert into u values ('x')",
    );
    assert_eq!(say(&mut client, "select * from u").rows, [[Some("x".to_owned())]]);
    tags(&mut client, "rollback to b");
    assert_eq!(say(&mut client, "select * from u").rows, [[Some("1".to_owned())]]);
    tags(&mut client, "rollback to a");
    assert_eq!(error(&mut client, "select * from u").0, "42P01");
    tags(
        &mut client,
        "rollback to a; create table u (n int); commit; insert into u values (4)",
    );
    assert_eq!(say(&mut client, "select n from u").rows, [[Some("4".to_owned())]]);
}

#[test]
fn a_client_that_leaves_takes_its_transaction_with_it() {
    let server = Server::start();
    let mut client = with_table(&server);
    let mut leaving = server.wire_client();
    tags(
        &mut leaving,
        "begin; insert into t values (1); create table u (id int)",
    );
    drop(leaving);
    // Its end may come a moment later.
    wait("the name of the table stays taken", || {
        say(&mut client, "create table u (id int)").error.is_none()
    });
    assert_eq!(numbers(&mut client), [""; 0]);
    tags(&mut client, "insert into t values (1)");
}

#[test]
fn many_rows_come_and_go_as_one() {
    let server = Server::start();
    let mut client = with_table(&server);
    let mut other = server.wire_client();
    tags(&mut client, "begin");
    assert_eq!(
        tags(
            &mut client,
            "insert into t select n, 'w' from generate_series(1, 20000) as g(n)"
        ),
        ["INSERT 0 20000"]
    );
    assert_eq!(tags(&mut client, "update t set id = -id"), ["UPDATE 20000"]);
    assert_eq!(numbers(&mut other), [""; 0]);
    tags(&mut client, "rollback");
    assert_eq!(numbers(&mut client), [""; 0]);
    tags(
        &mut client,
        "insert into t select n, 'w' from generate_series(1, 20000) as g(n)",
    );
    assert_eq!(
        say(&mut other, "select count(*), sum(id), max(word) from t").rows,
        [["20000", "200010000", "w"].map(|text| Some(text.to_owned()))]
    );
    assert_eq!(
        tags(&mut client, "delete from t where id % 2 = 0"),
        ["DELETE 10000"]
    );
    assert_eq!(
        say(&mut other, "select count(*) from t").rows,
        [[Some("10000".to_owned())]]
    );
}

#[test]
fn the_extended_protocol_is_in_the_same_transaction() {
    let server = Server::start();
    let client = server.client();
    client.execute("create table t (id int primary key, word text)");
    client.execute("begin");
    for id in 0..20_i32 {
        let word = (id % 3 != 0).then(|| format!("word {id}"));
        let inserted = client.execute_with("insert into t (id, word) values ($1, $2)", &[&id, &word]);
        assert_eq!(inserted.expect("inserted"), 1);
    }
    let rows = client
        .query(
            "update t set word = $1 where id < $2 returning id, word",
            &[&"new", &3_i32],
        )
        .expect("updated");
    let mut ids: Vec<i32> = rows.iter().map(|row| row.get(0)).collect();
    ids.sort_unstable();
    assert_eq!(ids, [0, 1, 2]);
    assert!(rows.iter().all(|row| row.get::<_, &str>(1) == "new"));
    assert_eq!(client.one("select count(*) from t where word is null"), "6");
    assert_eq!(
        client
            .execute_with("insert into t values ($1, null)", &[&5_i32])
            .expect_err("a key twice")
            .0,
        "23505"
    );
    assert_eq!(
        client
            .execute_with("delete from t where id = $1", &[&5_i32])
            .expect_err("it has failed")
            .0,
        "25P02"
    );
    client.execute("rollback");
    assert_eq!(client.one("select count(*) from t"), "0");
}
