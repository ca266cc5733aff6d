//! What PostgreSQL refuses when it plans a statement that writes, before it looks at any row: SQLSTATEs and their order are PostgreSQL 15's.

use super::harness::{Client, Server};

fn tables() -> (Server, Client) {
    let server = Server::start();
    let client = server.client();
    client.execute(
        "CREATE TABLE t (k int PRIMARY KEY, n int, s varchar(5), ts timestamp, b bool, d numeric(8,2));
         CREATE TABLE u (k serial UNIQUE, c text);
         CREATE TABLE idt (i int GENERATED ALWAYS AS IDENTITY, x int);
         INSERT INTO t (k, n) VALUES (1, 1), (2, 2);
         INSERT INTO u (c) VALUES ('a'), ('b'), ('c'), ('d'), ('e')",
    );
    (server, client)
}

#[test]
fn constants_are_checked_before_any_row() {
    let (_server, client) = tables();
    for (sql, code) in [
        ("UPDATE t SET n = '1.5' WHERE false", "22P02"),
        ("UPDATE t SET n = 'x' WHERE false", "22P02"),
        ("UPDATE t SET b = 'x' WHERE false", "22P02"),
        ("UPDATE t SET ts = 'x' WHERE false", "22007"),
        ("UPDATE t SET n = 3000000000 WHERE false", "22003"),
        ("UPDATE t SET d = 999999999.999 WHERE false", "22003"),
        ("UPDATE t SET d = '999999999.999' WHERE false", "22003"),
        ("UPDATE t SET s = 'abcdef' WHERE false", "22001"),
        ("UPDATE t SET n = true WHERE false", "42804"),
        ("UPDATE t SET ts = 1 WHERE false", "42804"),
        ("UPDATE t SET n = 'x', d = true WHERE false", "22P02"),
        ("UPDATE t SET n = 3000000000, d = true WHERE false", "42804"),
        // The first rows have keys that are there.
        ("INSERT INTO t (k, ts) VALUES (1, now()), (2, 1)", "42804"),
        ("INSERT INTO t (k, ts) VALUES (1, now()), (2, 'x')", "22007"),
        ("INSERT INTO t (k, n) VALUES (1, 3), (2, true)", "42804"),
        ("INSERT INTO t (k, n) VALUES (1, 3), (2, 3000000000)", "22003"),
        ("INSERT INTO t (k, n) VALUES (1, 3), (2, -3000000000)", "22003"),
        ("INSERT INTO t (k, d) VALUES (1, 3), (2, 9999999999)", "22003"),
        ("INSERT INTO t (k, s) VALUES (1, 'a'), (2, 'abcdef')", "22001"),
        ("INSERT INTO t (k, n) VALUES (NULL, 3), (2, 'x')", "22P02"),
        ("INSERT INTO t (k, n) VALUES (1, '5'::text)", "42804"),
        ("INSERT INTO t (k, n) VALUES (1, 'a' || 'b')", "42804"),
        ("INSERT INTO t (k, n) SELECT 1, 'x' WHERE false", "22P02"),
        ("INSERT INTO t (k, n) SELECT 1, true WHERE false", "42804"),
        ("INSERT INTO t (k, ts) SELECT 1, 1 WHERE false", "42804"),
        ("INSERT INTO t (k, ts) SELECT 1, n FROM t WHERE false", "42804"),
        (
            "MERGE INTO t USING u ON t.k = u.k WHEN MATCHED AND t.k > 1000 THEN UPDATE SET n = 'x'",
            "22P02",
        ),
        (
            "MERGE INTO t USING u ON t.k = u.k WHEN MATCHED AND t.k > 1000 THEN UPDATE SET n = true",
            "42804",
        ),
        (
            "MERGE INTO t USING u ON t.k = u.k WHEN NOT MATCHED AND u.k > 1000 THEN INSERT (k, n) VALUES (1, 3000000000)",
            "22003",
        ),
        (
            "MERGE INTO t USING u ON t.k = u.k WHEN NOT MATCHED AND u.k > 1000 THEN INSERT (k, n) VALUES (1, true)",
            "42804",
        ),
        (
            "INSERT INTO t (k, n) VALUES (100, 1) ON CONFLICT (k) DO UPDATE SET n = true",
            "42804",
        ),
        (
            "INSERT INTO t (k, n) VALUES (100, 1) ON CONFLICT (k) DO UPDATE SET n = 'x'",
            "22P02",
        ),
        (
            "INSERT INTO t (k, n) VALUES (100, 1) ON CONFLICT (k) DO UPDATE SET n = 3000000000",
            "22003",
        ),
    ] {
        assert_eq!(client.error(sql).0, code, "{sql}");
    }
    assert_eq!(
        client.lines("SELECT k, n, d FROM t ORDER BY k"),
        ["1|1|NULL", "2|2|NULL"]
    );
    // What is right is taken as before.
    client.execute("INSERT INTO t (k, d, s) VALUES (3, '1e2', 'abcde   '), (4, 1e2, -5), (5, -1, true)");
    client.execute("UPDATE t SET n = '7', d = 1, s = 'abc', ts = '2020-01-02' WHERE k = 1");
    assert_eq!(
        client.lines("SELECT k, n, d, s, ts FROM t WHERE k <> 2 ORDER BY k"),
        [
            "1|7|1.00|abc|2020-01-02 00:00:00",
            "3|NULL|100.00|abcde|NULL",
            "4|NULL|100.00|-5|NULL",
            "5|NULL|-1.00|true|NULL"
        ]
    );
}

#[test]
fn what_is_wrong_with_the_words_comes_before_what_is_wrong_with_values() {
    let (_server, client) = tables();
    for (sql, code) in [
        (
            "INSERT INTO t (k, ts) VALUES (1, 1) ON CONFLICT (s) DO NOTHING",
            "42804",
        ),
        (
            "INSERT INTO t (k, n) VALUES (3000000000, 1) ON CONFLICT (n) DO NOTHING",
            "22003",
        ),
        (
            "INSERT INTO t (k, n) VALUES (1, 1) ON CONFLICT (n) DO NOTHING",
            "42P10",
        ),
        (
            "INSERT INTO t (k, n) VALUES (1, 1) ON CONFLICT (nothing) DO NOTHING",
            "42703",
        ),
        ("INSERT INTO idt (i) VALUES (1) RETURNING nothing", "42703"),
        (
            "INSERT INTO idt (i) VALUES (1) ON CONFLICT (x) DO NOTHING",
            "428C9",
        ),
        ("UPDATE t SET n = 3 WHERE n", "42804"),
        ("DELETE FROM t WHERE s", "42804"),
        ("SELECT * FROM t WHERE d", "42804"),
    ] {
        assert_eq!(client.error(sql).0, code, "{sql}");
    }
    let said = client.error("UPDATE t SET n = 3 WHERE n").1;
    assert_eq!(said, "argument of WHERE must be type boolean, not type integer");
}

#[test]
fn prepared_constants_are_converted_once_and_stay_right() {
    let (_server, client) = tables();
    for k in [20, 21] {
        let sql = "INSERT INTO t (k, n, s, ts, d) VALUES ($1, '5', 7, '2020-01-02 03:04:05', 1.005)";
        assert_eq!(client.execute_with(sql, &[&k]), Ok(1));
    }
    assert_eq!(
        client.lines("SELECT n, s, ts, d FROM t WHERE k >= 20"),
        ["5|7|2020-01-02 03:04:05|1.01", "5|7|2020-01-02 03:04:05|1.01"]
    );
}

#[test]
fn blanks_beyond_a_length_are_cut_in_each_of_several_rows() {
    let (_server, client) = tables();
    client.execute("CREATE TABLE w (a varchar(5), b varchar(5))");
    client.execute("INSERT INTO w VALUES ('abcde', ''), ('b', 'b'), ('abcd    ', 'abcde')");
    client.execute("INSERT INTO w SELECT 'abcd    ', 'x' UNION ALL SELECT 'abcd     ', 'y'");
    client.execute("UPDATE w SET a = 'ab      ' WHERE b = 'b'");
    assert_eq!(
        client.execute_with("INSERT INTO w VALUES ('c', $1), ($1, 'c')", &[&"abc   "]),
        Ok(2)
    );
    assert_eq!(
        client.lines("SELECT a || '|', length(a) FROM w ORDER BY a"),
        [
            "ab   ||5", "abc  ||5", "abcd ||5", "abcd ||5", "abcd ||5", "abcde||5", "c||1"
        ]
    );
}

#[test]
fn a_row_is_affected_once_whatever_the_transaction_reads() {
    let (_server, client) = tables();
    for level in ["READ COMMITTED", "REPEATABLE READ", "SERIALIZABLE"] {
        client.execute(&format!("BEGIN ISOLATION LEVEL {level}"));
        let sql = "INSERT INTO t (k, n) VALUES (11, 1), (11, 2) ON CONFLICT (k) DO UPDATE SET n = excluded.n";
        assert_eq!(client.error(sql).0, "21000", "{level}");
        client.execute("ROLLBACK");
        client.execute(&format!("BEGIN ISOLATION LEVEL {level}"));
        // The row that is met first gets the key of the next.
        client.execute("DELETE FROM t WHERE k = 2");
        let sql = "INSERT INTO t (k, n) VALUES (1, 1), (2, 2) ON CONFLICT (k) DO UPDATE SET k = t.k * 2";
        assert_eq!(client.error(sql).0, "21000", "{level}");
        client.execute("ROLLBACK");
    }
    client.execute("CREATE TABLE v (k int REFERENCES t (k), x int UNIQUE)");
    let sql = "INSERT INTO v VALUES (77, 1), (78, 1) ON CONFLICT (x) DO UPDATE SET k = 3";
    assert_eq!(client.error(sql).0, "21000");
}

#[test]
fn merge_asks_whether_queries_have_rows() {
    let (_server, client) = tables();
    let merge = "MERGE INTO t USING u ON t.k = u.k";
    client.execute(&format!(
        "{merge} WHEN MATCHED AND t.k IN (SELECT k FROM u WHERE k > 1) THEN UPDATE SET n = 10
           WHEN MATCHED AND NOT EXISTS (SELECT 1 FROM u x WHERE x.k = t.k AND x.c = 'b') THEN UPDATE SET n = 20
           WHEN NOT MATCHED AND u.k IN (SELECT 3) THEN INSERT (k, n) VALUES (u.k, 30)
           WHEN NOT MATCHED AND u.c = 'd' THEN INSERT (k, s) VALUES (u.k, u.c)"
    ));
    assert_eq!(
        client.lines("SELECT k, n, s FROM t ORDER BY k"),
        ["1|20|NULL", "2|10|NULL", "3|30|NULL", "4|NULL|d"]
    );
    client.execute(&format!(
        "{merge} WHEN MATCHED AND EXISTS (SELECT 1 FROM u x WHERE x.k = t.k AND x.k > 2) THEN DELETE"
    ));
    assert_eq!(client.lines("SELECT k FROM t ORDER BY k"), ["1", "2"]);
}

#[test]
fn transactions_that_read_only_take_no_numbers_and_merge_nothing() {
    let (_server, client) = tables();
    for (sql, said) in [
        (
            "SELECT setval('u_k_seq', 5)",
            "cannot execute setval() in a read-only transaction",
        ),
        (
            "SELECT nextval('u_k_seq')",
            "cannot execute nextval() in a read-only transaction",
        ),
        (
            "SELECT * FROM t FOR UPDATE",
            "cannot execute SELECT FOR UPDATE in a read-only transaction",
        ),
    ] {
        client.execute("BEGIN READ ONLY");
        assert_eq!(client.error(sql), ("25006".to_owned(), said.to_owned()));
        client.execute("ROLLBACK");
    }
    client.execute("BEGIN READ ONLY; MERGE INTO t USING u ON t.k = u.k WHEN MATCHED THEN DO NOTHING; COMMIT");
    client.execute("SET default_transaction_read_only = on");
    assert_eq!(client.error("SELECT nextval('u_k_seq')").0, "25006");
    client.execute("SET default_transaction_read_only = off");
    assert_eq!(client.one("SELECT nextval('u_k_seq')"), "6");
}

#[test]
fn start_transaction_has_its_own_tag() {
    let server = Server::start();
    let mut client = server.wire_client();
    let mut tag = |sql: &str| client.query(sql).expect("an answer").tags;
    assert_eq!(
        tag("START TRANSACTION ISOLATION LEVEL REPEATABLE READ"),
        ["START TRANSACTION"]
    );
    assert_eq!(tag("COMMIT"), ["COMMIT"]);
    assert_eq!(tag("START TRANSACTION"), ["START TRANSACTION"]);
    assert_eq!(tag("ROLLBACK"), ["ROLLBACK"]);
    assert_eq!(tag("BEGIN"), ["BEGIN"]);
}
