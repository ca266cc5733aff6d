//! Constraints as clients are told of them: keys, NOT NULL, CHECK, foreign keys.

use super::harness::{Client, Server, runtime};

/// SQLSTATE, message and detail of a text that fails.
fn told(client: &Client, sql: &str) -> [String; 3] {
    let error = match runtime().block_on(client.driver.simple_query(sql)) {
        Ok(_) => panic!("{sql}: it does not fail"),
        Err(error) => error,
    };
    let said = error.as_db_error().expect("the server has said it");
    [
        said.code().code().to_owned(),
        said.message().to_owned(),
        said.detail().unwrap_or_default().to_owned(),
    ]
}

#[test]
fn keys_that_are_there_are_named_with_their_values() {
    let server = Server::start();
    let client = server.client();
    client.execute(
        "CREATE TABLE t (id int PRIMARY KEY, name text, day date, price numeric(8,2), CONSTRAINT by_name UNIQUE (name, day),
            UNIQUE (price));
         CREATE TABLE named (id int CONSTRAINT my_key PRIMARY KEY)",
    );
    client.execute("INSERT INTO t VALUES (1, 'it''s', '2020-01-02', 1.5); INSERT INTO named VALUES (1)");
    for (sql, index, detail) in [
        (
            "INSERT INTO t VALUES (1, 'b', NULL, NULL)",
            "t_pkey",
            "Key (id)=(1) already exists.",
        ),
        (
            "INSERT INTO t VALUES (2, 'it''s', '2020-01-02', NULL)",
            "by_name",
            "Key (name, day)=(it's, 2020-01-02) already exists.",
        ),
        (
            "INSERT INTO t VALUES (2, NULL, NULL, 1.5)",
            "t_price_key",
            "Key (price)=(1.50) already exists.",
        ),
        (
            "INSERT INTO named SELECT 1",
            "my_key",
            "Key (id)=(1) already exists.",
        ),
    ] {
        let what = format!("duplicate key value violates unique constraint \"{index}\"");
        assert_eq!(
            told(&client, sql),
            ["23505".to_owned(), what, detail.to_owned()],
            "{sql}"
        );
    }
    // NULL equals no other.
    client.execute("INSERT INTO t VALUES (3, 'c', NULL, NULL), (4, 'c', NULL, NULL)");
    assert_eq!(client.one("SELECT count(*) FROM t"), "3");
}

#[test]
fn checks_come_before_keys_and_null_passes() {
    let server = Server::start();
    let client = server.client();
    client.execute(
        "CREATE TABLE t (id int PRIMARY KEY, n int CHECK (n > 0), m int, CONSTRAINT less CHECK (n < m), name text NOT NULL)",
    );
    client.execute("INSERT INTO t VALUES (1, 1, 2, 'a'), (2, NULL, NULL, 'b')");
    assert_eq!(
        told(&client, "INSERT INTO t VALUES (1, 0, 2, 'c')"),
        [
            "23514",
            "new row for relation \"t\" violates check constraint \"t_n_check\"",
            "Failing row contains (1, 0, 2, c)."
        ]
    );
    assert_eq!(
        told(&client, "INSERT INTO t VALUES (1, 5, 2, 'c')"),
        [
            "23514",
            "new row for relation \"t\" violates check constraint \"less\"",
            "Failing row contains (1, 5, 2, c)."
        ]
    );
    assert_eq!(
        told(&client, "INSERT INTO t VALUES (1, 0, 2, NULL)"),
        [
            "23502",
            "null value in column \"name\" of relation \"t\" violates not-null constraint",
            "Failing row contains (1, 0, 2, null)."
        ]
    );
    assert_eq!(
        client
            .error("INSERT INTO t SELECT 3, 3 - x, 4, 'd' FROM generate_series(1, 3) AS g(x)")
            .0,
        "23514"
    );
    assert_eq!(client.one("SELECT count(*) FROM t"), "2");
    assert_eq!(
        client
            .copy_in("COPY t FROM STDIN", b"5\t1\t2\tx\n6\t-1\t2\ty\n")
            .expect_err("a check")
            .0,
        "23514"
    );
    assert_eq!(client.one("SELECT count(*) FROM t"), "2");
}

#[test]
fn rows_refer_to_rows_that_are_there() {
    let server = Server::start();
    let client = server.client();
    client.execute(
        "CREATE TABLE parent (id int PRIMARY KEY, name text);
         CREATE TABLE child (id int PRIMARY KEY, parent_id int REFERENCES parent (id))",
    );
    client.execute("INSERT INTO parent VALUES (1, 'a')");
    client.execute("INSERT INTO child VALUES (1, 1), (2, NULL)");
    assert_eq!(
        told(&client, "INSERT INTO child VALUES (3, 1), (4, 7)"),
        [
            "23503",
            "insert or update on table \"child\" violates foreign key constraint \"child_parent_id_fkey\"",
            "Key (parent_id)=(7) is not present in table \"parent\"."
        ]
    );
    assert_eq!(client.one("SELECT count(*) FROM child"), "2");
    // Both in one transaction, in the right order.
    client.execute("BEGIN; INSERT INTO parent VALUES (7, 'x'); INSERT INTO child VALUES (4, 7); COMMIT");
    assert_eq!(client.one("SELECT count(*) FROM child"), "3");
    assert_eq!(
        client
            .copy_in("COPY child FROM STDIN", b"8\t99\n")
            .expect_err("no such row")
            .0,
        "23503"
    );
}

#[test]
fn constraints_hold_after_the_server_was_stopped() {
    let mut server = Server::start();
    let client = server.client();
    client.execute(
        "CREATE TABLE t (id int GENERATED ALWAYS AS IDENTITY, n int DEFAULT 5 CHECK (n <> 3), name varchar(3) UNIQUE)",
    );
    client.execute("INSERT INTO t (name) VALUES ('a')");
    drop(client);
    server.restart();
    let client = server.client();
    assert_eq!(client.error("INSERT INTO t (n) VALUES (3)").0, "23514");
    assert_eq!(client.error("INSERT INTO t (name) VALUES ('a')").0, "23505");
    assert_eq!(client.error("INSERT INTO t (name) VALUES ('abcd')").0, "22001");
    assert_eq!(client.error("INSERT INTO t (id) VALUES (1)").0, "428C9");
    client.execute("INSERT INTO t (name) VALUES ('b')");
    assert_eq!(
        client.lines("SELECT n, name FROM t ORDER BY name"),
        ["5|a", "5|b"]
    );
    assert_eq!(client.one("SELECT count(DISTINCT id) FROM t"), "2");
}

#[test]
fn rows_of_a_statement_may_refer_to_each_other() {
    let server = Server::start();
    let client = server.client();
    client.execute("CREATE TABLE employee (id int PRIMARY KEY, boss int REFERENCES employee)");
    client.execute("INSERT INTO employee VALUES (1, 2), (2, 1), (3, NULL)");
    let (code, _) = client.error("INSERT INTO employee VALUES (4, 5), (5, 6)");
    assert_eq!(code, "23503");
    assert_eq!(
        client.rows("SELECT count(*) FROM employee"),
        [[Some("3".to_owned())]]
    );
    // From now on each statement is checked at once again.
    let (code, _) =
        client.error("BEGIN; INSERT INTO employee VALUES (6, 7); INSERT INTO employee VALUES (7, 6)");
    assert_eq!(code, "23503");
}
