//! What is no query: settings, transactions, cursors, COPY, EXPLAIN, and statements with names.

use super::harness::Server;
use corun_server::session::Effect;
use corun_wire::TransactionStatus;

#[test]
fn settings_are_shown_set_and_told() {
    let server = Server::with(|_| {});
    let mut session = server
        .session_as(&[("application_name", "psql"), ("client_encoding", "utf8")])
        .unwrap();
    let mut show = |sql: &str| server.rows(&mut session, sql);
    assert_eq!(show("SHOW application_name"), ["psql", "=SHOW"]);
    assert_eq!(
        show("SET statement_timeout = '2min'; SHOW statement_timeout"),
        ["=SET", "2min", "=SHOW"]
    );
    assert_eq!(
        show("SET SESSION TimeZone TO 'europe/rome'; SHOW TIME ZONE"),
        ["=SET", "Europe/Rome", "=SHOW"]
    );
    assert_eq!(
        show("SELECT current_setting('timezone')"),
        ["Europe/Rome", "=SELECT 1"]
    );
    assert_eq!(
        show("SELECT set_config('application_name', 'x', false)"),
        ["x", "=SELECT 1"]
    );
    assert_eq!(
        show("RESET statement_timeout; SHOW statement_timeout"),
        ["=RESET", "0", "=SHOW"]
    );
    assert_eq!(
        show("SHOW TRANSACTION ISOLATION LEVEL"),
        ["read committed", "=SHOW"]
    );
    assert_eq!(
        show("SET datafusion.execution.batch_size = 100; SHOW datafusion.execution.batch_size"),
        ["=SET", "100", "=SHOW"]
    );
    assert_eq!(
        show("SET corun.share_work = off; SHOW corun.share_work"),
        ["=SET", "off", "=SHOW"]
    );
    assert!(
        show("SHOW ALL")
            .iter()
            .any(|row| row.starts_with("DateStyle|ISO, MDY|"))
    );
    let effects = session.take_effects();
    assert!(
        effects.contains(&Effect::Changed("application_name".to_owned(), "x".to_owned())),
        "{effects:?}"
    );
    assert!(
        effects.contains(&Effect::Changed("TimeZone".to_owned(), "Europe/Rome".to_owned())),
        "{effects:?}"
    );
    assert_eq!(session.take_effects(), []);
    assert_eq!(
        server
            .session_as(&[("client_encoding", "latin1")])
            .unwrap_err()
            .code,
        "22023"
    );
}

#[test]
fn names_of_with_are_not_tables_of_the_search_path() {
    let server = Server::new();
    let mut session = server.session();
    server.rows(&mut session, "SET search_path = sales, public");
    for (sql, count) in [
        (
            "WITH t AS (SELECT * FROM t WHERE n < 3) SELECT count(*) FROM t",
            "3",
        ),
        (
            "WITH x AS (WITH t AS (SELECT 1 AS n) SELECT * FROM t) SELECT count(*) FROM x, t",
            "10",
        ),
        (
            "WITH RECURSIVE t AS (SELECT 1 AS n UNION ALL SELECT n + 1 FROM t WHERE n < 4) SELECT count(*) FROM t",
            "4",
        ),
        (
            "SELECT (WITH t AS (SELECT 1 AS n) SELECT count(*) FROM t) + count(*) FROM t",
            "11",
        ),
    ] {
        assert_eq!(server.rows(&mut session, sql), [count, "=SELECT 1"], "{sql}");
    }
}

#[test]
fn functions_know_the_time_zone_of_before_a_transaction() {
    let server = Server::new();
    let mut session = server.session();
    let sql = "SELECT arrow_typeof(to_timestamp('2024-01-01 00:00:00')), to_timestamp('2024-01-01 00:00:00')";
    let before = server.rows(&mut session, sql);
    server.rows(&mut session, "BEGIN; SET TIME ZONE 'Asia/Tokyo'");
    let within = server.rows(&mut session, sql);
    server.rows(&mut session, "ROLLBACK");
    assert_ne!(before, within);
    assert_eq!(server.rows(&mut session, sql), before);
}

#[test]
fn names_are_looked_for_along_the_search_path() {
    let server = Server::with(|_| {});
    let mut session = server.session();
    assert_eq!(server.refused(&mut session, "SELECT * FROM q2").code, "42P01");
    server.rows(&mut session, "SET search_path = public, sales");
    assert_eq!(
        server.rows(&mut session, "SELECT * FROM q2"),
        ["west|3", "=SELECT 1"]
    );
    assert_eq!(
        server.rows(&mut session, "SELECT count(*) FROM t JOIN q1 ON true"),
        ["20", "=SELECT 1"]
    );
    server.rows(&mut session, "SET search_path TO sales");
    assert_eq!(server.refused(&mut session, "SELECT * FROM t").code, "42P01");
    assert_eq!(
        server.rows(&mut session, "SELECT current_schema()"),
        ["sales", "=SELECT 1"]
    );
}

#[test]
fn texts_of_the_search_path_are_names() {
    let server = Server::with(|config| {
        for schema in ["Sales", "my schema", "a, b"] {
            let folder = config.data.catalogs[0].1.join(schema);
            std::fs::create_dir(&folder).unwrap();
            std::fs::write(folder.join("mine.csv"), format!("s,n\n\"{schema}\",1\n")).unwrap();
        }
    });
    let mut session = server.session();
    for (path, shown, schema) in [
        ("'Sales'", "\"Sales\"", "Sales"),
        ("'my schema', public", "\"my schema\", public", "my schema"),
        ("'a, b'", "\"a, b\"", "a, b"),
        ("\"Sales\"", "\"Sales\"", "Sales"),
    ] {
        let rows = server.rows(
            &mut session,
            &format!("SET search_path = {path}; SHOW search_path"),
        );
        assert_eq!(rows, ["=SET", shown, "=SHOW"], "{path}");
        let rows = server.rows(&mut session, "SELECT current_schema(); SELECT s FROM mine");
        assert_eq!(rows, [schema, "=SELECT 1", schema, "=SELECT 1"], "{path}");
    }
    assert_eq!(
        server.rows(
            &mut session,
            "SET search_path TO '$user', 'sales', PUBLIC; SHOW search_path; SELECT count(*) FROM q2"
        ),
        ["=SET", "\"$user\", sales, public", "=SHOW", "1", "=SELECT 1"]
    );
    // None at all.
    assert_eq!(
        server.rows(&mut session, "SET search_path = ''; SHOW search_path"),
        ["=SET", "\"\"", "=SHOW"]
    );
}

#[test]
fn a_transaction_that_fails_takes_only_its_end() {
    let server = Server::with(|_| {});
    let mut session = server.session();
    assert_eq!(
        server.rows(&mut session, "BEGIN READ ONLY; SAVEPOINT a"),
        ["=BEGIN", "=SAVEPOINT"]
    );
    assert_eq!(session.transaction(), TransactionStatus::Open);
    assert_eq!(
        server.refused(&mut session, "SELECT nothing FROM t").code,
        "42703"
    );
    assert_eq!(session.transaction(), TransactionStatus::Failed);
    assert_eq!(server.refused(&mut session, "SELECT 1").code, "25P02");
    assert_eq!(
        server.rows(&mut session, "ROLLBACK TO a; SELECT 1"),
        ["=ROLLBACK", "1", "=SELECT 1"]
    );
    assert_eq!(server.refused(&mut session, "RELEASE b").code, "3B001");
    assert_eq!(server.rows(&mut session, "COMMIT"), ["=ROLLBACK"]);
    assert_eq!(session.transaction(), TransactionStatus::Idle);
    assert_eq!(server.rows(&mut session, "COMMIT"), ["=COMMIT"]);
    assert!(
        matches!(session.take_effects().as_slice(), [Effect::Warning(warning)] if warning.code == "25P01")
    );
    // Settings end with it, those of DataFusion too.
    server.rows(
        &mut session,
        "BEGIN; SET LOCAL application_name = 'a'; SET datafusion.execution.batch_size = 77; ROLLBACK",
    );
    assert_eq!(server.rows(&mut session, "SHOW application_name"), ["", "=SHOW"]);
    assert_ne!(
        server.rows(&mut session, "SHOW datafusion.execution.batch_size")[0],
        "77"
    );
}

#[test]
fn cursors_go_forward() {
    let server = Server::new();
    let mut session = server.session();
    assert_eq!(
        server
            .refused(&mut session, "DECLARE c CURSOR FOR SELECT n FROM t")
            .code,
        "25P01"
    );
    server.rows(
        &mut session,
        "BEGIN; DECLARE c NO SCROLL CURSOR WITHOUT HOLD FOR SELECT n FROM t ORDER BY n",
    );
    assert_eq!(
        server.rows(&mut session, "FETCH 3 FROM c"),
        ["0", "1", "2", "=FETCH 3"]
    );
    assert_eq!(server.rows(&mut session, "FETCH NEXT FROM c"), ["3", "=FETCH 1"]);
    assert_eq!(
        server.rows(&mut session, "FETCH FORWARD ALL IN c"),
        ["4", "5", "6", "7", "8", "9", "=FETCH 6"]
    );
    assert_eq!(
        server.rows(&mut session, "FETCH 1 FROM c; CLOSE c"),
        ["=FETCH 0", "=CLOSE CURSOR"]
    );
    assert_eq!(server.refused(&mut session, "FETCH c").code, "34000");
    server.rows(&mut session, "ROLLBACK; DECLARE h CURSOR WITH HOLD FOR SELECT 1");
    assert_eq!(
        server.rows(&mut session, "FETCH h; CLOSE ALL"),
        ["1", "=FETCH 1", "=CLOSE CURSOR ALL"]
    );
    assert_eq!(server.refused(&mut session, "FETCH PRIOR FROM h").code, "55000");
}

#[test]
fn statements_with_names() {
    let server = Server::new();
    let mut session = server.session();
    assert_eq!(
        server.rows(&mut session, "PREPARE p (int, text) AS SELECT n FROM t WHERE n = $1 OR word = $2 ORDER BY n; EXECUTE p(1 + 1, 'row 7')"),
        ["=PREPARE", "2", "7", "=SELECT 2"]
    );
    assert_eq!(
        server.rows(&mut session, "EXECUTE p(3, NULL)"),
        ["3", "=SELECT 1"]
    );
    assert_eq!(server.refused(&mut session, "EXECUTE p(3)").code, "42601");
    assert_eq!(
        server.refused(&mut session, "PREPARE p AS SELECT 1").code,
        "42P05"
    );
    assert_eq!(server.rows(&mut session, "DEALLOCATE p"), ["=DEALLOCATE"]);
    assert_eq!(server.refused(&mut session, "EXECUTE p(3, '')").code, "26000");
    session.take_effects();
    assert_eq!(
        server.rows(&mut session, "DEALLOCATE other; DISCARD ALL"),
        ["=DEALLOCATE", "=DISCARD ALL"]
    );
    assert_eq!(
        session.take_effects(),
        [Effect::Deallocate("other".to_owned()), Effect::DeallocateAll]
    );
}

#[test]
fn copies_to_the_client() {
    let server = Server::new();
    let mut session = server.session();
    assert_eq!(
        server.rows(
            &mut session,
            "COPY (SELECT * FROM sales.q1 ORDER BY region) TO STDOUT"
        ),
        ["H", ">north\t1.5", ">south\t\\N", "c", "=COPY 2"]
    );
    assert_eq!(
        server.rows(
            &mut session,
            "COPY sales.q1 (amount, region) TO STDOUT WITH (FORMAT csv, HEADER, DELIMITER ';', NULL '-')"
        ),
        ["H", ">amount;region", ">1.5;north", ">-;south", "c", "=COPY 2"]
    );
    let binary = server.rows(&mut session, "COPY (SELECT 1) TO STDOUT (FORMAT binary)");
    assert_eq!(
        (binary[0].as_str(), binary.last().unwrap().as_str()),
        ("H", "=COPY 1")
    );
    assert!(binary[1].starts_with(">PGCOPY"));
    assert_eq!(server.refused(&mut session, "COPY t FROM STDIN").code, "25006");
    assert_eq!(
        server.refused(&mut session, "COPY t TO STDOUT (FORMAT xml)").code,
        "22023"
    );
}

#[test]
fn copies_to_files_and_external_tables_pass_the_gate() {
    let server = Server::new();
    let mut session = server.session();
    let file = server.folder.path().join("copied.parquet");
    let sql = format!("COPY (SELECT * FROM t) TO '{}' STORED AS PARQUET", file.display());
    assert_eq!(server.rows(&mut session, &sql), ["=COPY 10"]);
    let sql = format!(
        "CREATE EXTERNAL TABLE again STORED AS PARQUET LOCATION '{}'",
        file.display()
    );
    assert_eq!(server.rows(&mut session, &sql), ["=CREATE TABLE"]);
    assert_eq!(
        server.rows(&mut session, "SELECT max(n) FROM again; DROP TABLE again"),
        ["9", "=SELECT 1", "=DROP TABLE"]
    );
    assert_eq!(
        server
            .refused(&mut session, "COPY t TO '/tmp/no.parquet' STORED AS PARQUET")
            .code,
        "42501"
    );
}

#[test]
fn explain_says_what_would_be_decided() {
    let server = Server::new();
    let mut session = server.session();
    let text = server
        .rows(&mut session, "EXPLAIN SELECT count(*) FROM t")
        .join("\n");
    assert!(text.contains("plan:") && text.contains("class"), "{text}");
    let text = server
        .rows(
            &mut session,
            "EXPLAIN (ANALYZE, VERBOSE off) SELECT count(*) FROM t",
        )
        .join("\n");
    assert!(text.contains("rows: 1") && text.contains("waited: "), "{text}");
    let queue = server.rows(&mut session, "SHOW QUEUE");
    assert_eq!(queue, ["=SHOW"]);
    let activity = server.rows(
        &mut session,
        "SELECT usename, state, query LIKE '%activity%' FROM pg_stat_activity",
    );
    assert_eq!(activity, ["ada|active|t", "=SELECT 1"]);
}
