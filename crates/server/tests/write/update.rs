//! UPDATE and DELETE through the protocol.

use crate::harness::{Client, Server};

/// A table of four accounts.
fn accounts() -> (Server, Client) {
    let server = Server::start();
    let client = server.client();
    client.execute(
        "CREATE TABLE account (id int PRIMARY KEY, owner text NOT NULL, balance numeric(12, 2) DEFAULT 10, \
         seen date, CHECK (balance >= 0))",
    );
    client.execute(
        "INSERT INTO account VALUES (1, 'ada', 100, '2024-01-01'), (2, 'bob', 50.5, NULL), \
         (3, 'eve', 0, '2024-03-01'), (4, 'dan', NULL, NULL)",
    );
    (server, client)
}

#[test]
fn rows_change_where_the_condition_holds() {
    let (_server, client) = accounts();
    assert_eq!(
        client.execute("UPDATE account SET balance = balance + 1 WHERE id <= 2"),
        2
    );
    assert_eq!(client.execute("UPDATE account SET owner = 'x' WHERE id = 77"), 0);
    assert_eq!(
        client.lines("SELECT id, balance FROM account ORDER BY id"),
        ["1|101.00", "2|51.50", "3|0.00", "4|NULL"]
    );
    assert_eq!(client.execute("UPDATE account SET owner = upper(owner)"), 4);
    assert_eq!(
        client.lines("SELECT owner FROM account ORDER BY id"),
        ["ADA", "BOB", "EVE", "DAN"]
    );
}

#[test]
fn a_row_that_meets_the_condition_again_is_not_changed_again() {
    let (_server, client) = accounts();
    // Each row would go on for ever if the statement saw what it writes.
    assert_eq!(
        client.execute("UPDATE account SET balance = balance + 1 WHERE balance < 1000"),
        3
    );
    assert_eq!(client.one("SELECT sum(balance) FROM account"), "153.50");
}

#[test]
fn set_knows_defaults_lists_and_subqueries() {
    let (_server, client) = accounts();
    client.execute("UPDATE account SET balance = DEFAULT, seen = DEFAULT WHERE id = 1");
    client.execute("UPDATE account SET (owner, seen) = ('bert', '2025-12-31') WHERE id = 2");
    client.execute(
        "UPDATE account SET (owner, balance) = (SELECT 'rich', max(balance) FROM account) WHERE id = 3",
    );
    client.execute(
        "UPDATE account a SET balance = (SELECT max(b.id) FROM account b WHERE b.owner = a.owner) WHERE a.id = 4",
    );
    assert_eq!(
        client.lines("SELECT * FROM account ORDER BY id"),
        [
            "1|ada|10.00|NULL",
            "2|bert|50.50|2025-12-31",
            "3|rich|50.50|2024-03-01",
            "4|dan|4.00|NULL"
        ]
    );
}

#[test]
fn from_joins_other_tables_and_the_first_match_counts() {
    let (_server, client) = accounts();
    client.execute("CREATE TABLE gift (who int, amount int)");
    client.execute("INSERT INTO gift VALUES (1, 5), (2, 7), (2, 7), (9, 1)");
    assert_eq!(
        client
            .execute("UPDATE account SET balance = balance + g.amount FROM gift g WHERE g.who = account.id"),
        2
    );
    assert_eq!(
        client.lines("SELECT id, balance FROM account WHERE id < 3 ORDER BY id"),
        ["1|105.00", "2|57.50"]
    );
    assert_eq!(
        client.lines(
            "UPDATE account AS a SET owner = a.owner || g.who::text FROM gift g JOIN gift h ON h.who = g.who \
             WHERE g.who = a.id AND a.id = 1 RETURNING a.id, owner, g.amount, h.amount * 2 AS twice"
        ),
        ["1|ada1|5|10"]
    );
    assert_eq!(
        client.lines("UPDATE account SET owner = 'z' FROM gift WHERE who = id AND id = 1 RETURNING *"),
        ["1|z|105.00|2024-01-01|1|5"]
    );
}

#[test]
fn returning_shows_the_new_rows() {
    let (_server, client) = accounts();
    assert_eq!(
        client.lines("UPDATE account SET balance = balance * 2 WHERE id = 1 RETURNING *, (balance / 2)::int AS half, now() IS NULL"),
        ["1|ada|200.00|2024-01-01|100|f"]
    );
    assert_eq!(
        client.lines("DELETE FROM account WHERE id = 2 RETURNING id, upper(owner)"),
        ["2|BOB"]
    );
    let rows = client
        .query(
            "UPDATE account SET owner = $1, balance = $2::int WHERE id = $3 RETURNING owner, id + $4::int AS more",
            &[&"new", &7_i32, &3_i32, &40_i32],
        )
        .expect("it runs");
    assert_eq!(
        (rows[0].get::<_, String>(0), rows[0].get::<_, i32>(1)),
        ("new".to_owned(), 43)
    );
    assert_eq!(client.one("SELECT balance FROM account WHERE id = 3"), "7.00");
}

#[test]
fn parameters_have_the_types_of_their_columns() {
    let (_server, client) = accounts();
    let date = "2025-05-05";
    let changed = client.execute_with(
        "UPDATE account SET owner = $1 WHERE seen > $2::text::date OR id = $3",
        &[&"p", &date, &4_i32],
    );
    assert_eq!(changed, Ok(1));
    assert_eq!(client.lines("SELECT id FROM account WHERE owner = 'p'"), ["4"]);
}

#[test]
fn what_is_wrong_is_told_as_postgresql_does() {
    let (_server, client) = accounts();
    let code = |sql: &str| client.error(sql).0;
    let message = |sql: &str| client.error(sql).1;
    assert_eq!(code("UPDATE nothing SET a = 1"), "42P01");
    assert_eq!(code("UPDATE account SET nothing = 1"), "42703");
    assert_eq!(
        message("UPDATE account SET nothing = 1"),
        "column \"nothing\" of relation \"account\" does not exist"
    );
    assert_eq!(code("UPDATE account SET account.owner = 'x'"), "42703");
    assert_eq!(code("UPDATE account SET owner = 'x', owner = 'y'"), "42601");
    assert_eq!(code("UPDATE account SET (owner, id) = ('x')"), "42601");
    assert_eq!(code("UPDATE account SET owner = nothing"), "42703");
    assert_eq!(code("UPDATE account SET seen = owner"), "42804");
    assert_eq!(code("UPDATE account SET seen = 'x'"), "22007");
    assert_eq!(code("UPDATE account SET id = 'x'"), "22P02");
    assert_eq!(code("UPDATE account SET id = 1 / 0"), "22012");
    assert_eq!(
        code("UPDATE account AS a SET owner = 'x' WHERE account.id = 1"),
        "42P01"
    );
    assert_eq!(
        client.error("UPDATE account SET owner = NULL WHERE id = 1"),
        (
            "23502".to_owned(),
            "null value in column \"owner\" of relation \"account\" violates not-null constraint".to_owned()
        )
    );
    assert_eq!(
        client.error("UPDATE account SET balance = balance - 1 WHERE id < 4"),
        (
            "23514".to_owned(),
            "new row for relation \"account\" violates check constraint \"account_balance_check\"".to_owned()
        )
    );
    assert_eq!(
        client.error("UPDATE account SET id = 2 WHERE id = 1"),
        (
            "23505".to_owned(),
            "duplicate key value violates unique constraint \"account_pkey\"".to_owned()
        )
    );
    // Nothing of what fails stays.
    assert_eq!(client.one("SELECT sum(balance) FROM account"), "150.50");
}

#[test]
fn delete_finds_its_rows_by_other_tables() {
    let (_server, client) = accounts();
    client.execute("CREATE TABLE gone (who int)");
    client.execute("INSERT INTO gone VALUES (1), (1), (3)");
    assert_eq!(
        client.lines(
            "DELETE FROM account a USING gone g WHERE g.who = a.id AND a.id = 1 RETURNING a.id, g.who"
        ),
        ["1|1"]
    );
    assert_eq!(
        client.execute("DELETE FROM account WHERE id IN (SELECT who FROM gone)"),
        1
    );
    assert_eq!(client.lines("SELECT id FROM account ORDER BY id"), ["2", "4"]);
    assert_eq!(
        client.execute("DELETE FROM account WHERE NOT EXISTS (SELECT 1 FROM gone WHERE who = account.id)"),
        2
    );
    assert_eq!(client.execute("DELETE FROM account"), 0);
}

#[test]
fn rows_that_refer_to_each_other_go_together() {
    let server = Server::start();
    let client = server.client();
    client.execute("CREATE TABLE part (id int PRIMARY KEY, whole int REFERENCES part)");
    client.execute("INSERT INTO part VALUES (1, NULL), (2, 1), (3, 2)");
    assert_eq!(client.error("DELETE FROM part WHERE id = 1").0, "23503");
    // Keys move along with what refers to them.
    assert_eq!(
        client.execute("UPDATE part SET id = id + 10, whole = whole + 10"),
        3
    );
    assert_eq!(
        client.lines("SELECT * FROM part ORDER BY id"),
        ["11|NULL", "12|11", "13|12"]
    );
    assert_eq!(client.execute("DELETE FROM part"), 3);
}

#[test]
fn with_stands_before_what_writes() {
    let (_server, client) = accounts();
    assert_eq!(
        client
            .lines(
                "WITH rich AS (SELECT id FROM account WHERE balance > 40) \
             UPDATE account a SET owner = 'rich' FROM rich WHERE rich.id = a.id RETURNING a.id"
            )
            .len(),
        2
    );
    assert_eq!(
        client.execute("WITH poor AS (SELECT id FROM account WHERE balance < 40) DELETE FROM account WHERE id IN (SELECT id FROM poor)"),
        1
    );
}

#[test]
fn errors_point_into_what_the_client_wrote() {
    let (server, client) = accounts();
    for (sql, at) in [
        (
            "UPDATE account SET owner = upper(nothing) WHERE id = 1",
            "nothing",
        ),
        ("UPDATE account SET owner = 'é', nothing = 1", "nothing"),
        (
            "DELETE FROM account a WHERE a.id = 1 AND a.nothing = 2",
            "a.nothing",
        ),
        ("UPDATE account SET id = 1 RETURNING nothing", "nothing"),
    ] {
        let output = server.psql(&["-c", sql]);
        assert!(!output.success, "{output:?}");
        let caret = output.err.lines().find(|line| line.trim() == "^");
        let caret = caret.unwrap_or_else(|| panic!("{sql}: {}", output.err));
        let column = caret.chars().count() - 1 - "LINE 1: ".len();
        let place = sql.chars().take(column).collect::<String>().len();
        assert!(sql[place..].starts_with(at), "{sql}: {}", output.err);
    }
    drop(client);
}

#[test]
fn long_statements_are_written_in_parts_and_undone_as_a_whole() {
    let server = Server::start();
    let client = server.client();
    client.execute("CREATE TABLE many (id int PRIMARY KEY, next int, CHECK (next < 20001))");
    client.execute("INSERT INTO many SELECT i, i FROM generate_series(1, 10000) AS g(i)");
    assert_eq!(
        client
            .lines("UPDATE many SET next = next + 1 RETURNING id, next")
            .len(),
        10_000
    );
    assert_eq!(client.one("SELECT sum(next - id) FROM many"), "10000");
    // The last row of the last part fails.
    client.execute("UPDATE many SET next = 20000 WHERE id = 10000");
    assert_eq!(client.error("UPDATE many SET next = next + 1").0, "23514");
    assert_eq!(
        client.one("SELECT sum(next - id) FROM many WHERE id < 10000"),
        "9999"
    );
    assert_eq!(client.lines("SELECT id FROM many FOR UPDATE").len(), 10_000);
    assert_eq!(client.lines("DELETE FROM many RETURNING id").len(), 10_000);
    assert_eq!(client.one("SELECT count(*) FROM many"), "0");
}

#[test]
fn statements_that_write_in_a_with_give_their_rows_to_the_rest() {
    let (_server, client) = accounts();
    client.execute("CREATE TABLE closed (id int, owner text)");
    assert_eq!(
        client.execute(
            "WITH gone AS (DELETE FROM account WHERE id < 3 RETURNING id, owner) \
             INSERT INTO closed SELECT id, upper(owner) FROM gone"
        ),
        2
    );
    assert_eq!(
        client.lines("SELECT * FROM closed ORDER BY id"),
        ["1|ADA", "2|BOB"]
    );
    assert_eq!(client.one("SELECT count(*) FROM account"), "2");
    assert_eq!(
        client.lines(
            "WITH a AS (UPDATE account SET owner = 'n' WHERE id = 3 RETURNING id), b AS (DELETE FROM closed) \
             SELECT id + 1 AS next FROM a"
        ),
        ["4"]
    );
    assert_eq!(client.one("SELECT count(*) FROM closed"), "0");
    let rows = client
        .query(
            "WITH up AS (UPDATE account SET owner = $2 WHERE id = $1 RETURNING id) SELECT id, $3::int AS n FROM up",
            &[&4_i32, &"four", &7_i32],
        )
        .expect("it runs");
    assert_eq!((rows[0].get::<_, i32>(0), rows[0].get::<_, i32>(1)), (4, 7));
    assert_eq!(client.one("SELECT owner FROM account WHERE id = 4"), "four");
    // All of a statement reads one moment for PostgreSQL; here it would see the part's rows gone.
    assert_eq!(
        client
            .error("WITH gone AS (DELETE FROM account RETURNING id) SELECT count(*) FROM account")
            .0,
        "0A000"
    );
    assert_eq!(client.one("SELECT count(*) FROM account"), "2");
}
