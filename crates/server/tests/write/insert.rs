//! `INSERT`: rows of VALUES, of queries, of defaults; `ON CONFLICT`, `RETURNING`, `OVERRIDING`.

use super::harness::{Client, Server, runtime};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

fn started() -> (Server, Client) {
    let server = Server::start();
    let client = server.client();
    (server, client)
}

/// SQLSTATE, message and detail of a text that fails.
fn told(client: &Client, sql: &str) -> (String, String, String) {
    let error = match runtime().block_on(client.driver.simple_query(sql)) {
        Ok(_) => panic!("{sql}: it does not fail"),
        Err(error) => error,
    };
    let said = error.as_db_error().expect("the server has said it");
    (
        said.code().code().to_owned(),
        said.message().to_owned(),
        said.detail().unwrap_or_default().to_owned(),
    )
}

#[test]
fn literals_become_what_their_columns_are() {
    let (_server, client) = started();
    client.execute(
        "CREATE TABLE t (id int PRIMARY KEY, s smallint, b bigint, x numeric(10,2), f float8, ok boolean, name varchar(10),
            note text, d date, at timestamp, moment timestamptz, u uuid, raw bytea)",
    );
    let rows = client.execute(
        "INSERT INTO t VALUES
            (1, -2, 9000000000, 1.005, 1.5e3, true, 'abc', 'it''s', '2020-02-29', '2020-01-01 10:20:30.5',
                '2020-01-01 00:00+01', 'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11', '\\x0102'),
            (+2, '3', '4', '5.5', '6', 'f', NULL, E'a\\nb', DATE '2021-01-01', TIMESTAMP '2021-01-01 00:00:00',
                '2021-06-01 12:00:00'::timestamptz, null, null),
            (2147483647, (7), 8::bigint, '-9'::numeric, -1, 'yes'::boolean, $$ab$$, 'x'::text, CAST('2022-03-04' AS date),
                NULL, NULL, NULL, NULL)",
    );
    assert_eq!(rows, 3);
    assert_eq!(
        client.lines("SELECT id, s, b, x, f, ok, name, note, d, at FROM t ORDER BY id"),
        [
            "1|-2|9000000000|1.01|1500|t|abc|it's|2020-02-29|2020-01-01 10:20:30.5",
            "2|3|4|5.50|6|f|NULL|a\nb|2021-01-01|2021-01-01 00:00:00",
            "2147483647|7|8|-9.00|-1|t|ab|x|2022-03-04|NULL",
        ]
    );
    assert_eq!(
        client.lines("SELECT moment, u, raw FROM t WHERE id < 3 ORDER BY id"),
        [
            "2019-12-31 23:00:00+00|a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11|\\x0102",
            "2021-06-01 12:00:00+00|NULL|NULL",
        ]
    );
}

#[test]
fn columns_that_are_not_named_have_their_defaults() {
    let (_server, client) = started();
    client.execute(
        "CREATE TABLE t (a int DEFAULT 7, b text DEFAULT 'none', c int, d serial, e timestamptz DEFAULT now())",
    );
    client.execute("INSERT INTO t DEFAULT VALUES");
    client.execute("INSERT INTO t (c, b) VALUES (1, 'x'), (DEFAULT, DEFAULT), (3, NULL)");
    client.execute("INSERT INTO t VALUES (1), (DEFAULT)");
    client.execute("INSERT INTO t (d, a) VALUES (DEFAULT, 1), (100, 2), (DEFAULT, 3)");
    assert_eq!(
        client.lines("SELECT a, b, c, d, e IS NOT NULL FROM t ORDER BY d"),
        [
            "7|none|NULL|1|t",
            "7|x|1|2|t",
            "7|none|NULL|3|t",
            "7|NULL|3|4|t",
            "1|none|NULL|5|t",
            "7|none|NULL|6|t",
            "1|none|NULL|7|t",
            "3|none|NULL|8|t",
            "2|none|NULL|100|t",
        ]
    );
}

#[test]
fn parameters_have_the_types_of_their_columns() {
    let (_server, client) = started();
    client.execute(
        "CREATE TABLE t (id bigint PRIMARY KEY, name varchar(5), price numeric(8,2), day date, ok bool)",
    );
    let sql = "INSERT INTO t (id, name, ok) VALUES ($1, $2, $3), ($1 + 1, upper($2), NOT $3)";
    let statement = runtime()
        .block_on(client.driver.prepare(sql))
        .expect("it is right");
    let names: Vec<&str> = statement
        .params()
        .iter()
        .map(tokio_postgres::types::Type::name)
        .collect();
    assert_eq!(names, ["int8", "varchar", "bool"]);
    assert_eq!(client.execute_with(sql, &[&5_i64, &"ab", &true]), Ok(2));
    assert_eq!(client.execute_with(sql, &[&15_i64, &"cd", &false]), Ok(2));
    assert_eq!(
        client.execute_with(
            "INSERT INTO t (id, price, day) VALUES ($1, $2::text::numeric, $3::text::date)",
            &[&30_i64, &"1.5", &"2020-01-02",]
        ),
        Ok(1)
    );
    assert_eq!(
        client.lines("SELECT id, name, price, day, ok FROM t ORDER BY id"),
        [
            "5|ab|NULL|NULL|t",
            "6|AB|NULL|NULL|f",
            "15|cd|NULL|NULL|f",
            "16|CD|NULL|NULL|t",
            "30|NULL|1.50|2020-01-02|NULL",
        ]
    );
    let failed = client.execute_with("INSERT INTO t (id, name) VALUES ($1, $2)", &[&40_i64, &"abcdef"]);
    assert_eq!(failed.expect_err("it is too long").0, "22001");
    let null: Option<&str> = None;
    let sql = "INSERT INTO t (id, name) SELECT $1, $2 WHERE NOT EXISTS (SELECT 1 FROM t WHERE id = $1)";
    assert_eq!(client.execute_with(sql, &[&50_i64, &null]), Ok(1));
    assert_eq!(client.execute_with(sql, &[&50_i64, &null]), Ok(0));
}

#[test]
fn other_cells_are_computed() {
    let (_server, client) = started();
    client.execute("CREATE TABLE t (id int PRIMARY KEY, name text, at timestamptz)");
    client.execute("CREATE SEQUENCE s");
    client.execute(
        "INSERT INTO t VALUES (1 + 1, lower('ABC') || 'd', now()), (nextval('s'), coalesce(NULL, 'x'), CURRENT_TIMESTAMP),
            ((SELECT 40 + 2), 'y', '2020-01-01'::timestamptz + interval '1 day')",
    );
    assert_eq!(
        client.lines("SELECT id, name, at > '2020-01-02 00:00:00+00' FROM t ORDER BY id"),
        ["1|x|t", "2|abcd|t", "42|y|f"]
    );
    client.execute("INSERT INTO t (id) VALUES ((SELECT max(id) + 1 FROM t)), ((SELECT max(id) + 2 FROM t))");
    assert_eq!(client.one("SELECT count(*) FROM t WHERE id IN (43, 44)"), "2");
}

#[test]
fn what_is_wrong_is_told_as_postgresql_does() {
    let (_server, client) = started();
    client.execute("CREATE TABLE t (id int PRIMARY KEY, name varchar(3), n int NOT NULL DEFAULT 0, ok bool)");
    for (sql, code, message) in [
        (
            "INSERT INTO t VALUES (1, 'a', 2, true, 5)",
            "42601",
            "INSERT has more expressions than target columns",
        ),
        (
            "INSERT INTO t (id) VALUES (1, 2)",
            "42601",
            "INSERT has more expressions than target columns",
        ),
        (
            "INSERT INTO t (id, name) VALUES (1)",
            "42601",
            "INSERT has more target columns than expressions",
        ),
        (
            "INSERT INTO t (id, name) SELECT 1",
            "42601",
            "INSERT has more target columns than expressions",
        ),
        (
            "INSERT INTO t SELECT 1, 'a', 2, true, 5",
            "42601",
            "INSERT has more expressions than target columns",
        ),
        (
            "INSERT INTO t VALUES (1, 'a'), (2)",
            "42601",
            "VALUES lists must all be the same length",
        ),
        (
            "INSERT INTO t (id, x) VALUES (1, 2)",
            "42703",
            "column \"x\" of relation \"t\" does not exist",
        ),
        (
            "INSERT INTO t (id, id) VALUES (1, 2)",
            "42701",
            "column \"id\" specified more than once",
        ),
        (
            "INSERT INTO nowhere VALUES (1)",
            "42P01",
            "relation \"nowhere\" does not exist",
        ),
        (
            "INSERT INTO t VALUES ('x')",
            "22P02",
            "invalid input syntax for type integer: \"x\"",
        ),
        (
            "INSERT INTO t (id, name) VALUES (1, 'abcd')",
            "22001",
            "value too long for type character varying(3)",
        ),
        (
            "INSERT INTO t (id) VALUES (3000000000)",
            "22003",
            "integer out of range",
        ),
        (
            "INSERT INTO t (id, ok) VALUES (1, 1)",
            "42804",
            "column \"ok\" is of type boolean but expression is of type integer",
        ),
        (
            "INSERT INTO t (id, n) VALUES (1, NULL)",
            "23502",
            "null value in column \"n\" of relation \"t\" violates not-null constraint",
        ),
        (
            "INSERT INTO t (name) VALUES ('a')",
            "23502",
            "null value in column \"id\" of relation \"t\" violates not-null constraint",
        ),
        (
            "INSERT INTO t (id) VALUES (1) ON CONFLICT (name) DO NOTHING",
            "42P10",
            "there is no unique or exclusion constraint matching the ON CONFLICT specification",
        ),
        (
            "INSERT INTO t (id) VALUES (1) ON CONFLICT ON CONSTRAINT nothing DO NOTHING",
            "42704",
            "constraint \"nothing\" for table \"t\" does not exist",
        ),
        (
            "INSERT INTO t (id) VALUES (1) ON CONFLICT DO UPDATE SET n = 1",
            "42601",
            "ON CONFLICT DO UPDATE requires inference specification or constraint name",
        ),
        (
            "INSERT INTO t (t.id) VALUES (1)",
            "42703",
            "column \"t\" of relation \"t\" does not exist",
        ),
        (
            "INSERT INTO t (id) VALUES (count(*))",
            "42803",
            "aggregate functions are not allowed in VALUES",
        ),
        (
            "INSERT INTO t (id) VALUES (1) ON CONFLICT (id) DO UPDATE SET n = n + 1",
            "42702",
            "column reference \"n\" is ambiguous",
        ),
        (
            "INSERT INTO t (id) VALUES (1) ON CONFLICT (id) DO UPDATE SET n = 1 WHERE excluded.n",
            "42804",
            "argument of WHERE must be type boolean, not type integer",
        ),
        (
            "INSERT INTO t (id) VALUES (1) RETURNING nothing",
            "42703",
            "column \"nothing\" does not exist",
        ),
    ] {
        assert_eq!(client.error(sql), (code.to_owned(), message.to_owned()), "{sql}");
    }
    assert_eq!(client.one("SELECT count(*) FROM t"), "0");
    let detail = told(&client, "INSERT INTO t (id, name, n) VALUES (1, 'a', NULL)").2;
    assert_eq!(detail, "Failing row contains (1, a, null, null).");
}

#[test]
fn a_statement_is_all_or_nothing() {
    let (server, client) = started();
    client.execute("CREATE TABLE t (id int PRIMARY KEY)");
    assert_eq!(client.error("INSERT INTO t VALUES (1), (2), (1)").0, "23505");
    assert_eq!(client.one("SELECT count(*) FROM t"), "0");
    // More rows than are written together, the last of which is there.
    client.execute("INSERT INTO t VALUES (5000)");
    let rows: Vec<String> = (1..=5000).map(|id| format!("({id})")).collect();
    assert_eq!(
        client
            .error(&format!("INSERT INTO t VALUES {}", rows.join(", ")))
            .0,
        "23505"
    );
    assert_eq!(client.lines("SELECT id FROM t"), ["5000"]);
    assert_eq!(
        client.execute(&format!("INSERT INTO t VALUES {}", rows[..4999].join(", "))),
        4999
    );
    assert_eq!(client.one("SELECT count(*) FROM t"), "5000");
    // What came before in the transaction stays until it is rolled back.
    client.execute("BEGIN");
    client.execute("INSERT INTO t VALUES (6000)");
    client.execute("SAVEPOINT s");
    assert_eq!(client.error("INSERT INTO t VALUES (6001), (6000)").0, "23505");
    client.execute("ROLLBACK TO SAVEPOINT s");
    client.execute("COMMIT");
    assert_eq!(client.lines("SELECT id FROM t WHERE id >= 6000"), ["6000"]);
    let mut wire = server.wire_client();
    let said = wire
        .query("INSERT INTO t VALUES (7000), (7001)")
        .expect("an answer");
    assert_eq!(said.tags, ["INSERT 0 2"]);
}

#[test]
fn a_query_sees_its_target_as_it_was() {
    let (_server, client) = started();
    client.execute("CREATE TABLE t (id int PRIMARY KEY, n bigserial, name text)");
    client.execute("INSERT INTO t (id, name) VALUES (1, 'a'), (2, 'b'), (3, 'c')");
    for rows in [3, 6, 12] {
        assert_eq!(
            client
                .execute("INSERT INTO t (id, name) SELECT id + 100 * (SELECT count(*) FROM t), name FROM t"),
            rows
        );
    }
    assert_eq!(client.one("SELECT count(*) FROM t"), "24");
    // Numbers are given in the order of the query.
    client.execute("CREATE TABLE u (n bigserial, id int)");
    assert_eq!(
        client.execute("INSERT INTO u (id) SELECT id FROM t ORDER BY id DESC"),
        24
    );
    assert_eq!(
        client.one("SELECT count(*) FROM u JOIN u AS v ON u.n < v.n AND u.id < v.id"),
        "0"
    );
    assert_eq!(
        client.execute("INSERT INTO u (id) SELECT x FROM generate_series(1, 20000) AS g(x)"),
        20_000
    );
    assert_eq!(
        client.lines("SELECT count(*), count(DISTINCT n), max(n) FROM u"),
        ["20024|20024|20024"]
    );
    assert_eq!(
        client.execute("INSERT INTO t WITH w AS (SELECT 1000 AS id) SELECT id, 5, 'w' FROM w"),
        1
    );
    assert_eq!(client.execute("INSERT INTO t (id, name) (SELECT 2000, 'p')"), 1);
    assert_eq!(client.execute("INSERT INTO u SELECT * FROM u LIMIT 0"), 0);
    client.execute("CREATE TABLE days (day date, u uuid)");
    client.execute("INSERT INTO days SELECT '2020-01-01', 'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11'");
    client.execute("INSERT INTO days SELECT * FROM days");
    assert_eq!(
        client.lines("SELECT day, u, count(*) FROM days GROUP BY day, u"),
        ["2020-01-01|a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11|2"]
    );
}

#[test]
fn conflicts_do_nothing_or_update() {
    let (_server, client) = started();
    client.execute("CREATE TABLE t (id int PRIMARY KEY, name text UNIQUE, n int DEFAULT 0, CHECK (n < 100))");
    client.execute("INSERT INTO t VALUES (1, 'a', 1), (2, 'b', 2)");
    assert_eq!(
        client.execute("INSERT INTO t VALUES (1, 'x', 5), (3, 'c', 3) ON CONFLICT DO NOTHING"),
        1
    );
    assert_eq!(
        client.execute("INSERT INTO t VALUES (4, 'a', 5), (5, 'd', 3) ON CONFLICT DO NOTHING"),
        1
    );
    assert_eq!(
        client.execute("INSERT INTO t VALUES (6, 'e'), (6, 'f') ON CONFLICT (id) DO NOTHING"),
        1
    );
    assert_eq!(
        client
            .error("INSERT INTO t VALUES (7, 'a') ON CONFLICT (id) DO NOTHING")
            .0,
        "23505"
    );
    assert_eq!(
        client.execute(
            "INSERT INTO t VALUES (1, 'new', 10), (8, 'h', 8) ON CONFLICT (id) DO UPDATE SET n = t.n + excluded.n"
        ),
        2
    );
    assert_eq!(
        client
            .rows(
                "INSERT INTO t AS old (id, name, n) VALUES (2, 'z', 50), (9, 'i', 9), (1, 'q', 3)
                ON CONFLICT (id) DO UPDATE SET (name, n) = (excluded.name, DEFAULT) WHERE old.n < excluded.n
                RETURNING id, name, old.n"
            )
            .len(),
        2
    );
    assert_eq!(
        client.lines("SELECT id, name, n FROM t ORDER BY id"),
        ["1|a|11", "2|z|0", "3|c|3", "5|d|3", "6|e|0", "8|h|8", "9|i|9"]
    );
    client.execute("INSERT INTO t VALUES (10, 'z', 1) ON CONFLICT ON CONSTRAINT t_name_key DO UPDATE SET id = excluded.id");
    client.execute(
        "INSERT INTO t VALUES (1, 'a2') ON CONFLICT ON CONSTRAINT t_pkey DO UPDATE SET name = excluded.name",
    );
    assert_eq!(
        client.lines("SELECT id, name FROM t WHERE id IN (1, 2, 10) ORDER BY id"),
        ["1|a2", "10|z"]
    );
    // The row that was to be inserted is checked, and so is what it becomes.
    let checked = client.error("INSERT INTO t VALUES (1, 'a', 100) ON CONFLICT (id) DO UPDATE SET n = 1");
    assert_eq!(checked.0, "23514");
    let checked =
        client.error("INSERT INTO t VALUES (1, 'a', 99) ON CONFLICT (id) DO UPDATE SET n = t.n + excluded.n");
    assert_eq!(checked.0, "23514");
    let taken = client.error("INSERT INTO t VALUES (1, 'a', 99) ON CONFLICT (id) DO UPDATE SET name = 'c'");
    assert_eq!(
        taken,
        (
            "23505".to_owned(),
            "duplicate key value violates unique constraint \"t_name_key\"".to_owned()
        )
    );
}

#[test]
fn a_row_is_updated_once_by_a_statement() {
    let (_server, client) = started();
    client.execute("CREATE TABLE t (id int PRIMARY KEY, n int)");
    let twice = (
        "21000".to_owned(),
        "ON CONFLICT DO UPDATE command cannot affect row a second time".to_owned(),
    );
    let set = "ON CONFLICT (id) DO UPDATE SET n = excluded.n";
    assert_eq!(
        client.error(&format!("INSERT INTO t VALUES (1, 1), (1, 2) {set}")),
        twice
    );
    client.execute("INSERT INTO t VALUES (1, 1)");
    assert_eq!(
        client.error(&format!("INSERT INTO t VALUES (1, 5), (2, 2), (1, 6) {set}")),
        twice
    );
    // A row that WHERE does not choose was not updated.
    let rows = client.execute(&format!(
        "INSERT INTO t VALUES (1, 0), (1, 7), (1, 3) {set} WHERE t.n = 1 AND excluded.n = 3"
    ));
    assert_eq!(rows, 1);
    // Across the parts in which rows are written.
    let all = format!("INSERT INTO t SELECT x % 3000 + 10, x FROM generate_series(1, 3001) AS g(x) {set}");
    assert_eq!(client.error(&all), twice);
    assert_eq!(client.lines("SELECT id, n FROM t"), ["1|3"]);
    // Keys that the statement itself moves.
    client.execute("INSERT INTO t VALUES (2, 2)");
    client.execute(
        "INSERT INTO t VALUES (2, 5), (4, 7) ON CONFLICT (id) DO UPDATE SET id = t.id + 1, n = excluded.n",
    );
    assert_eq!(
        client.lines("SELECT id, n FROM t ORDER BY id"),
        ["1|3", "3|5", "4|7"]
    );
    assert_eq!(
        client.error("INSERT INTO t VALUES (1, 5), (9, 7), (8, 0) ON CONFLICT (id) DO UPDATE SET id = 9"),
        twice
    );
}

#[test]
fn parameters_of_a_conflict_have_the_types_of_their_columns() {
    let (_server, client) = started();
    client.execute("CREATE TABLE t (id int PRIMARY KEY, n bigint, name text)");
    let sql = "INSERT INTO t (id, n) VALUES ($1, $2) ON CONFLICT (id) DO UPDATE SET n = $3, name = $4 WHERE t.n < $5 RETURNING n + $6 AS more";
    let statement = runtime()
        .block_on(client.driver.prepare(sql))
        .expect("it is right");
    let names: Vec<&str> = statement
        .params()
        .iter()
        .map(tokio_postgres::types::Type::name)
        .collect();
    assert_eq!(names, ["int4", "int8", "int8", "text", "int8", "int8"]);
    let columns: Vec<&str> = statement
        .columns()
        .iter()
        .map(tokio_postgres::Column::name)
        .collect();
    assert_eq!(columns, ["more"]);
    for expected in [Some(12), Some(40), None] {
        let rows = client
            .query(sql, &[&1_i32, &2_i64, &30_i64, &"x", &10_i64, &10_i64])
            .expect("it runs");
        assert_eq!(rows.first().map(|row| row.get::<_, i64>(0)), expected);
    }
    assert_eq!(client.lines("SELECT id, n, name FROM t"), ["1|30|x"]);
}

#[test]
fn clients_that_insert_the_same_keys_lose_nothing() {
    const CLIENTS: u64 = 6;
    const ROUNDS: u64 = 60;
    let (server, client) = started();
    client.execute("CREATE TABLE counts (id int PRIMARY KEY, n bigint NOT NULL)");
    client.execute("CREATE TABLE firsts (id int PRIMARY KEY, who int)");
    let won = Arc::new(AtomicU64::new(0));
    let threads: Vec<_> = (0..CLIENTS)
        .map(|who| {
            let (client, won) = (server.client(), Arc::clone(&won));
            std::thread::spawn(move || {
                for round in 0..ROUNDS {
                    // Each key is new to all at about the same time.
                    client.execute(&format!(
                        "INSERT INTO counts VALUES ({round}, 1) ON CONFLICT (id) DO UPDATE SET n = counts.n + excluded.n"
                    ));
                    let rows =
                        client.execute(&format!("INSERT INTO firsts VALUES ({round}, {who}) ON CONFLICT DO NOTHING"));
                    won.fetch_add(rows, Ordering::Relaxed);
                }
            })
        })
        .collect();
    for thread in threads {
        thread.join().expect("no statement fails");
    }
    assert_eq!(
        client.lines("SELECT count(*), min(n), max(n) FROM counts"),
        [format!("{ROUNDS}|{CLIENTS}|{CLIENTS}")]
    );
    assert_eq!(client.one("SELECT count(*) FROM firsts"), ROUNDS.to_string());
    assert_eq!(won.load(Ordering::Relaxed), ROUNDS);
}

#[test]
fn a_transaction_of_one_moment_updates_no_row_that_it_does_not_see() {
    let (server, client) = started();
    client.execute("CREATE TABLE t (id int PRIMARY KEY, n int)");
    client.execute("INSERT INTO t VALUES (1, 1)");
    let other = server.client();
    other.execute("BEGIN ISOLATION LEVEL REPEATABLE READ");
    assert_eq!(other.one("SELECT count(*) FROM t"), "1");
    client.execute("INSERT INTO t VALUES (2, 2)");
    let set = "ON CONFLICT (id) DO UPDATE SET n = 9";
    assert_eq!(other.execute(&format!("INSERT INTO t VALUES (1, 1) {set}")), 1);
    assert_eq!(
        other.error(&format!("INSERT INTO t VALUES (2, 1) {set}")).0,
        "40001"
    );
    other.execute("ROLLBACK");
    assert_eq!(client.lines("SELECT id, n FROM t ORDER BY id"), ["1|1", "2|2"]);
}

#[test]
fn written_rows_are_returned() {
    let (_server, client) = started();
    client.execute("CREATE TABLE t (id serial PRIMARY KEY, name text DEFAULT 'none', n int)");
    assert_eq!(
        client.lines("INSERT INTO t (n) VALUES (1), (2) RETURNING id, upper(name) AS loud, t.n * 10"),
        ["1|NONE|10", "2|NONE|20"]
    );
    assert_eq!(
        client.lines("INSERT INTO t (name, n) SELECT name || n, n FROM t ORDER BY id RETURNING *"),
        ["3|none1|1", "4|none2|2"]
    );
    assert_eq!(
        client.lines("INSERT INTO t AS x DEFAULT VALUES RETURNING x.id"),
        ["5"]
    );
    assert_eq!(
        client.lines("INSERT INTO t (n) SELECT n FROM t WHERE false RETURNING id"),
        [""; 0]
    );
    let many =
        client.rows("INSERT INTO t (n) SELECT x FROM generate_series(1, 3000) AS g(x) RETURNING id - n");
    assert_eq!(many.len(), 3000);
    assert!(
        many.iter().all(|row| row == &many[0]),
        "numbers are in the order of rows"
    );
}

#[test]
fn identities_are_given_unless_they_are_overridden() {
    let (_server, client) = started();
    client.execute(
        "CREATE TABLE a (id int GENERATED ALWAYS AS IDENTITY PRIMARY KEY, name text);
         CREATE TABLE b (id int GENERATED BY DEFAULT AS IDENTITY PRIMARY KEY, name text)",
    );
    client.execute("INSERT INTO a (name) VALUES ('x'), ('y')");
    client.execute("INSERT INTO a VALUES (DEFAULT, 'z')");
    let refused = told(&client, "INSERT INTO a VALUES (10, 'v')");
    assert_eq!(
        refused,
        (
            "428C9".to_owned(),
            "cannot insert a non-DEFAULT value into column \"id\"".to_owned(),
            "Column \"id\" is an identity column defined as GENERATED ALWAYS.".to_owned()
        )
    );
    assert_eq!(client.error("INSERT INTO a SELECT 10, 'v'").0, "428C9");
    client.execute("INSERT INTO a OVERRIDING SYSTEM VALUE VALUES (10, 'v')");
    client.execute("INSERT INTO a (id, name) OVERRIDING USER VALUE VALUES (20, 'u')");
    client.execute("INSERT INTO a (id, name) OVERRIDING USER VALUE SELECT 20, 's'");
    assert_eq!(
        client.lines("SELECT id, name FROM a ORDER BY id"),
        ["1|x", "2|y", "3|z", "4|u", "5|s", "10|v"]
    );
    client.execute("INSERT INTO b VALUES (10, 'x')");
    client.execute("INSERT INTO b (name) VALUES ('y')");
    client.execute("INSERT INTO b OVERRIDING USER VALUE VALUES (30, 'z')");
    assert_eq!(
        client.lines("SELECT id, name FROM b ORDER BY id"),
        ["1|y", "2|z", "10|x"]
    );
}
