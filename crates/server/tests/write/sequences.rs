//! Sequences: their numbers, their limits, what a session remembers of them, and that they belong to no transaction.

use crate::harness::{Client, Server};
use std::collections::BTreeSet;

#[track_caller]
fn refused(client: &Client, sql: &str, code: &str, part: &str) {
    let (found, message) = client.error(sql);
    assert!(
        found == code && message.contains(part),
        "{sql}: {found} {message}; wanted {code} {part}"
    );
}

#[test]
fn numbers_are_given_out_once_each() {
    let server = Server::start();
    let client = server.client();
    client.execute("CREATE SEQUENCE s");
    assert_eq!(client.one("SELECT nextval('s')"), "1");
    assert_eq!(
        client
            .one("SELECT nextval('public.s'), currval('s'), lastval()")
            .split('|')
            .next(),
        Some("2")
    );
    client.execute("CREATE TABLE t (a int); INSERT INTO t VALUES (1), (2), (3), (4)");
    let rows = client.lines("SELECT nextval('s') FROM t");
    let numbers: BTreeSet<String> = rows.into_iter().collect();
    assert_eq!(numbers, ["3", "4", "5", "6"].map(str::to_owned).into());
    // A transaction that is rolled back does not give them back.
    client.execute("BEGIN; SELECT nextval('s'); ROLLBACK");
    assert_eq!(client.one("SELECT nextval('s')"), "8");
    client.execute("CREATE SEQUENCE \"Odd\" START 10 INCREMENT -5 MINVALUE -5 MAXVALUE 10");
    assert_eq!(client.one("SELECT nextval('\"Odd\"')"), "10");
    assert_eq!(client.one("SELECT nextval('\"Odd\"'::regclass)"), "5");
    refused(&client, "SELECT nextval('Odd')", "42P01", "Odd");
    refused(&client, "SELECT nextval('t')", "42809", "\"t\" is not a sequence");
}

#[test]
fn a_session_remembers_its_own_numbers() {
    let server = Server::start();
    let (client, other) = (server.client(), server.client());
    client.execute("CREATE SEQUENCE s");
    refused(
        &client,
        "SELECT currval('s')",
        "55000",
        "currval of sequence \"s\" is not yet defined",
    );
    refused(&client, "SELECT lastval()", "55000", "lastval is not yet defined");
    client.execute("SELECT nextval('s')");
    other.execute("SELECT nextval('s')");
    assert_eq!(client.one("SELECT currval('s'), lastval()"), "1|1");
    assert_eq!(other.one("SELECT currval('s'), lastval()"), "2|2");
    assert_eq!(client.one("SELECT setval('s', 40)"), "40");
    assert_eq!(client.one("SELECT currval('s')"), "40");
    assert_eq!(other.one("SELECT nextval('s')"), "41");
    assert_eq!(client.one("SELECT setval('s', 7, false)"), "7");
    assert_eq!(client.one("SELECT currval('s')"), "40");
    assert_eq!(client.one("SELECT nextval('s')"), "7");
}

#[test]
fn limits_hold() {
    let server = Server::start();
    let client = server.client();
    client.execute("CREATE SEQUENCE up MAXVALUE 2; CREATE SEQUENCE round MINVALUE 3 MAXVALUE 4 CYCLE; CREATE SEQUENCE small AS smallint START 32767");
    assert_eq!(client.one("SELECT nextval('up')"), "1");
    assert_eq!(client.one("SELECT nextval('up')"), "2");
    refused(
        &client,
        "SELECT nextval('up')",
        "2200H",
        "reached maximum value of sequence \"up\" (2)",
    );
    refused(
        &client,
        "SELECT setval('up', 3)",
        "22003",
        "out of bounds for sequence \"up\" (1..2)",
    );
    let round: Vec<String> = (0..5).map(|_| client.one("SELECT nextval('round')")).collect();
    assert_eq!(round, ["3", "4", "3", "4", "3"]);
    assert_eq!(client.one("SELECT nextval('small')"), "32767");
    refused(&client, "SELECT nextval('small')", "2200H", "(32767)");
    for (sql, part) in [
        ("CREATE SEQUENCE x INCREMENT 0", "INCREMENT must not be zero"),
        (
            "CREATE SEQUENCE x MINVALUE 5 MAXVALUE 4",
            "must be less than MAXVALUE",
        ),
        ("CREATE SEQUENCE x START 0", "cannot be less than MINVALUE"),
        (
            "CREATE SEQUENCE x AS smallint MAXVALUE 40000",
            "out of range for sequence data type smallint",
        ),
        ("CREATE SEQUENCE x CACHE 0", "must be greater than zero"),
        ("CREATE SEQUENCE x AS text", "smallint, integer, or bigint"),
    ] {
        refused(&client, sql, "22023", part);
    }
}

#[test]
fn sequences_are_altered_renamed_and_dropped() {
    let server = Server::start();
    let client = server.client();
    client.execute("CREATE SEQUENCE s; CREATE SEQUENCE IF NOT EXISTS s");
    refused(
        &client,
        "CREATE SEQUENCE s",
        "42P07",
        "relation \"s\" already exists",
    );
    refused(
        &client,
        "CREATE TABLE s (a int)",
        "42P07",
        "relation \"s\" already exists",
    );
    client.execute("SELECT nextval('s'); ALTER SEQUENCE s INCREMENT BY 10");
    assert_eq!(client.one("SELECT nextval('s')"), "11");
    client.execute("ALTER SEQUENCE s RESTART WITH 100 MAXVALUE 105");
    assert_eq!(client.one("SELECT nextval('s')"), "100");
    refused(&client, "SELECT nextval('s')", "2200H", "(105)");
    refused(
        &client,
        "ALTER SEQUENCE s RESTART WITH 200",
        "22023",
        "RESTART value (200)",
    );
    client.execute("CREATE TABLE t (id int DEFAULT nextval('s')); ALTER SEQUENCE s RESTART; ALTER SEQUENCE s RENAME TO r");
    client.execute("INSERT INTO t DEFAULT VALUES");
    assert_eq!(client.one("SELECT id FROM t"), "1");
    refused(&client, "DROP SEQUENCE r", "2BP01", "cannot drop sequence r");
    client.execute("DROP SEQUENCE r CASCADE; INSERT INTO t DEFAULT VALUES");
    assert_eq!(client.one("SELECT count(*) FROM t WHERE id IS NULL"), "1");
    refused(
        &client,
        "DROP SEQUENCE r",
        "42P01",
        "sequence \"r\" does not exist",
    );
    client.execute("DROP SEQUENCE IF EXISTS r");
    refused(
        &client,
        "ALTER SEQUENCE r RESTART",
        "42P01",
        "relation \"r\" does not exist",
    );
    client.execute("ALTER SEQUENCE IF EXISTS r RESTART");
}

#[test]
fn a_transaction_that_is_rolled_back_leaves_no_sequence_and_takes_none() {
    let server = Server::start();
    let client = server.client();
    client.execute("CREATE SEQUENCE s");
    client.execute("BEGIN; CREATE SEQUENCE gone; SELECT nextval('gone'); DROP SEQUENCE s; CREATE SEQUENCE s START 50; ROLLBACK");
    refused(&client, "SELECT nextval('gone')", "42P01", "gone");
    assert_eq!(client.one("SELECT nextval('s')"), "1");
    client.execute("CREATE TABLE t (id serial)");
    client.execute("BEGIN; DROP TABLE t; ROLLBACK; INSERT INTO t DEFAULT VALUES");
    assert_eq!(client.one("SELECT id FROM t"), "1");
    // Nor does a savepoint that brings a table back.
    client.execute("BEGIN; SAVEPOINT p; DROP TABLE t; ROLLBACK TO p; COMMIT; INSERT INTO t DEFAULT VALUES");
    assert_eq!(client.one("SELECT max(id) FROM t"), "2");
    client.execute(
        "BEGIN; SAVEPOINT p; CREATE SEQUENCE part; ROLLBACK TO p; CREATE SEQUENCE part START 7; COMMIT",
    );
    assert_eq!(client.one("SELECT nextval('part')"), "7");
    client.execute("DROP TABLE t");
    refused(&client, "SELECT nextval('t_id_seq')", "42P01", "t_id_seq");
}

#[test]
fn columns_have_sequences_of_their_own() {
    let server = Server::start();
    let client = server.client();
    client.execute("CREATE TABLE t (id bigserial PRIMARY KEY, n int GENERATED ALWAYS AS IDENTITY (START WITH 10 INCREMENT BY 5), x text)");
    client.execute("INSERT INTO t (x) VALUES ('a'), ('b')");
    assert_eq!(client.lines("SELECT * FROM t ORDER BY id"), ["1|10|a", "2|15|b"]);
    refused(&client, "INSERT INTO t (n) VALUES (1)", "428C9", "\"n\"");
    assert_eq!(
        client.one("SELECT pg_get_serial_sequence('t', 'id')"),
        "public.t_id_seq"
    );
    assert_eq!(
        client.one("SELECT pg_get_serial_sequence('public.t', 'n')"),
        "public.t_n_seq"
    );
    assert_eq!(client.one("SELECT pg_get_serial_sequence('t', 'x')"), "NULL");
    refused(
        &client,
        "SELECT pg_get_serial_sequence('t', 'y')",
        "42703",
        "\"y\"",
    );
    refused(
        &client,
        "DROP SEQUENCE t_n_seq",
        "2BP01",
        "column n of table t requires it",
    );
    refused(
        &client,
        "ALTER TABLE t ALTER n SET DEFAULT 5",
        "42601",
        "identity column",
    );
    refused(
        &client,
        "CREATE TABLE u (a text GENERATED ALWAYS AS IDENTITY)",
        "22023",
        "identity column type",
    );
    refused(
        &client,
        "CREATE TABLE u (a serial DEFAULT 5)",
        "42601",
        "multiple default values",
    );
    client.execute("TRUNCATE t RESTART IDENTITY; INSERT INTO t (x) VALUES ('c')");
    assert_eq!(client.one("SELECT * FROM t"), "1|10|c");
    client.execute(
        "CREATE TABLE t_id_seq1 (a int); DROP TABLE t; CREATE SEQUENCE t_id_seq; CREATE TABLE t (id serial)",
    );
    client.execute("INSERT INTO t DEFAULT VALUES");
    assert_eq!(
        client.one("SELECT pg_get_serial_sequence('t', 'id')"),
        "public.t_id_seq2"
    );
}

#[test]
fn numbers_go_on_behind_those_that_may_have_been_given_out() {
    let mut server = Server::start();
    let client = server.client();
    client.execute("CREATE TABLE t (id serial PRIMARY KEY); INSERT INTO t DEFAULT VALUES");
    drop(client);
    server.restart();
    let client = server.client();
    client.execute("INSERT INTO t DEFAULT VALUES");
    let last: i64 = client.one("SELECT max(id) FROM t").parse().expect("a number");
    assert!(last > 1, "{last}");
}

#[test]
fn sessions_at_once_never_get_the_same_number() {
    let server = Server::start();
    server
        .client()
        .execute("CREATE TABLE t (id serial PRIMARY KEY, who int)");
    std::thread::scope(|scope| {
        for who in 0..4 {
            let client = server.client();
            scope.spawn(move || {
                for _ in 0..25 {
                    client.execute(&format!("INSERT INTO t (who) VALUES ({who})"));
                }
            });
        }
    });
    assert_eq!(server.client().one("SELECT count(DISTINCT id) FROM t"), "100");
}
