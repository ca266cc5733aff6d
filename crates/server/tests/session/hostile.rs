//! Statements that are too deep, too long or would make too much: each is refused, and the session goes on.

use super::harness::{Collected, Server, coordinator, shown};
use corun_server::session::ClientSession;

fn goes_on(server: &Server, session: &mut ClientSession) {
    assert_eq!(
        server.rows(session, "SELECT n FROM t WHERE n = 3"),
        ["3", "=SELECT 1"]
    );
}

fn many(of: &str, count: usize) -> String {
    vec![of; count].concat()
}

#[test]
fn nesting_without_end() {
    let server = Server::new();
    let mut session = server.session();
    // With a parenthesis to each of these, and no more than there may be words.
    let million = 400_000;
    for (sql, code) in [
        (format!("SELECT {}1", many("(", million)), "42601"),
        (
            format!("SELECT {}1{}", many("(", million / 2), many(")", million / 2)),
            "42601",
        ),
        (many("(", million), "42601"),
        (
            format!("SELECT {}1{}", many("(SELECT ", 100_000), many(")", 100_000)),
            "42601",
        ),
        (
            format!("SELECT {}1{}", many("abs(", 100_000), many(")", 100_000)),
            "42601",
        ),
        (
            format!("SELECT {}1{}", many("[", 200_000), many("]", 200_000)),
            "54001",
        ),
        (format!("SELECT {}1", many("NOT ", 200_000)), "54001"),
        (format!("SELECT {}1", many("- ", 400_000)), "54001"),
        (format!("SELECT {}1", many("1 + ", 200_000)), "54001"),
        (format!("SELECT 1{}", many("::int", 200_000)), "54001"),
        (
            format!("SELECT 1 {}", many("UNION ALL SELECT 1 ", 100_000)),
            "54001",
        ),
        (
            format!("SELECT n FROM t WHERE {}true", many("n = 1 OR ", 50_000)),
            "54001",
        ),
        (
            format!("SELECT count(*) FROM t {}", many("NATURAL JOIN t ", 100_000)),
            "54001",
        ),
        (
            format!("SELECT count(*) FROM t {}", many(", t", 100_000)),
            "54001",
        ),
        (
            format!("SELECT CASE {} END", many("WHEN n = 1 THEN CASE ", 70_000)),
            "54001",
        ),
        (many("EXPLAIN ", 400_000), "54001"),
        (many("PREPARE p AS ", 100_000), "54001"),
        (many("DECLARE c CURSOR FOR ", 100_000), "54001"),
        (many("COPY ", 400_000), "54001"),
        (format!("SELECT {}1", many("INTERVAL ", 100_000)), "54001"),
        (format!("SELECT {}1", many("1 XOR ", 200_000)), "54001"),
        (format!("SELECT {}1", many("1 OPERATOR(+) ", 90_000)), "54001"),
        (format!("SELECT 1 {}", many("MINUS SELECT 1 ", 100_000)), "54001"),
        (
            format!("SELECT x{} FROM (SELECT 1 AS x) s", many(".a", 200_000)),
            "54001",
        ),
        (
            format!("SELECT 1 FROM (SELECT 1) a {}", many(", (SELECT 1) a", 600)),
            "54001",
        ),
        (format!("SELECT {}1", many("1,", 1_700)), "54011"),
        (many("SELECT 1;", 100_001), "54000"),
        (
            format!("SELECT n FROM t WHERE n IN ({}1)", many("1234567, ", 1_200_000)),
            "54000",
        ),
    ] {
        let refusal = server.refused(&mut session, &sql);
        let begins: String = sql.chars().take(40).collect();
        assert_eq!(refusal.code, code, "{begins}: {}", refusal.message);
        assert!(refusal.message.len() < 1000, "{begins}");
        goes_on(&server, &mut session);
    }
}

/// What is let in is walked by parser, planner and operators without the end of a stack, in each kind of thread.
#[test]
fn the_deepest_that_is_let_in() {
    for with_coordinator in [true, false] {
        let server = Server::with(|config| config.coordinator = with_coordinator.then(coordinator));
        for (sql, last) in [
            (format!("SELECT sum({}n) FROM t", many("n + ", 900)), "40545"),
            (
                format!("SELECT count(*) FROM t WHERE {}n = 3", many("n = 77 OR ", 480)),
                "1",
            ),
            (
                format!("SELECT count(*) FROM t WHERE {}n = 3", many("n <> 77 AND ", 480)),
                "1",
            ),
            (
                format!("SELECT length({}word) FROM t WHERE n = 1", many("word || ", 400)),
                "2005",
            ),
            (
                format!("SELECT n{} FROM t WHERE n = 1", many("::bigint::int", 45)),
                "1",
            ),
            (
                format!(
                    "SELECT count(*) FROM t WHERE n IN ({}3)",
                    many("123456, ", 50_000)
                ),
                "1",
            ),
        ] {
            let begins: String = sql.chars().take(40).collect();
            // On a thread of the engine's: this one has a stack of its own.
            let mut session = server.session();
            let run = server.engine.runtime().spawn(async move {
                let mut sink = Collected::default();
                session.simple(&sql, &mut sink).await.map(|_| shown(&sink.0))
            });
            let rows = server.block_on(run).unwrap().unwrap();
            assert_eq!(rows.first().map(String::as_str), Some(last), "{begins}");
        }
        goes_on(&server, &mut server.session());
    }
}

#[test]
fn values_without_end() {
    let server = Server::new();
    let mut session = server.session();
    for sql in [
        "SELECT repeat('x', 1000000000)",
        "SELECT length(repeat('x', 1000000000))",
        "SELECT repeat(repeat('x', 100000), 100000)",
        "SELECT repeat(word, 2000000000) FROM t",
        "SELECT sum(length(repeat(word, 10000000))) FROM t",
        "SELECT lpad('x', 2000000000), rpad('x', 2000000000, 'y')",
        "SELECT range(1, 1000000000000)",
        "SELECT unnest(generate_series(1, 1000000000000))",
        "SELECT generate_series(-9223372036854775807, 9223372036854775807)",
        "SELECT range(n, 1000000000) FROM t",
        "SELECT generate_series(DATE '1000-01-01', DATE '9999-01-01', INTERVAL '1' DAY)",
        "SELECT range(TIMESTAMP '1970-01-01', TIMESTAMP '2026-01-01', INTERVAL '1' SECOND)",
        "SELECT array_repeat(array_repeat(1, 10000), 10000)",
        "SELECT array_resize([1], 1000000000, 0)",
        "SELECT replace(repeat('x', 1000000), 'x', repeat('y', 1000))",
        "SELECT regexp_replace(repeat('x', 1000000), '.', repeat('y', 1000), 'g')",
        "SELECT arrow_cast(NULL, 'FixedSizeBinary(2000000000)')",
        "SELECT n, range(1, 100000) FROM t",
        "SELECT repeat('a', 60000000), repeat('b', 60000000), repeat('c', 60000000), repeat('d', 60000000), repeat('e', 60000000)",
        "SELECT n, repeat('a', 60000000) < repeat('b', 60000000), repeat('c', 60000000) < repeat('d', 60000000) FROM t",
        "SELECT levenshtein(repeat('a', 1000000), repeat('b', 1000000))",
        "SELECT sum(levenshtein(repeat(word, 10000), repeat(word, 20000))) FROM t",
    ] {
        let refusal = server.refused(&mut session, sql);
        assert_eq!(refusal.code, "54000", "{sql}: {refusal:?}");
        goes_on(&server, &mut session);
    }
    // What is asked for in earnest is made.
    for (sql, rows) in [
        ("SELECT length(repeat('ab', 1000000))", "2000000"),
        ("SELECT repeat(word, 2) FROM t WHERE n = 1", "row 1row 1"),
        ("SELECT lpad('7', 3, '0')", "007"),
        ("SELECT cardinality(range(1, 1001))", "1000"),
        ("SELECT range(1, 10, 3)", "{1,4,7}"),
        (
            "SELECT cardinality(generate_series(DATE '2020-01-01', DATE '2020-12-31', INTERVAL '1' DAY))",
            "366",
        ),
        ("SELECT array_repeat(n, 2) FROM t WHERE n = 1", "{1,1}"),
        ("SELECT replace('a-b-c', '-', '+')", "a+b+c"),
        ("SELECT regexp_replace('a1b2', '[0-9]', 'x', 'g')", "axbx"),
        ("SELECT count(*) FROM generate_series(1, 1000000)", "1000000"),
        ("SELECT levenshtein('kitten', 'sitting')", "3"),
    ] {
        let shown = server.rows(&mut session, sql);
        assert_eq!(shown.first().map(String::as_str), Some(rows), "{sql}");
    }
}

#[test]
fn settings_have_bounds() {
    let server = Server::new();
    let mut session = server.session();
    for (sql, code) in [
        ("SET datafusion.execution.batch_size = 1000000000000", "22023"),
        ("SET datafusion.execution.batch_size = '1000000000000'", "22023"),
        ("SET datafusion.execution.target_partitions = 1000000", "22023"),
        ("SET datafusion.sql_parser.recursion_limit = 1000000000", "22023"),
        (
            "SET datafusion.execution.max_spill_file_size_bytes = 1000000",
            "55P02",
        ),
        (
            "SET datafusion.execution.sort_spill_reservation_bytes = 999999999999",
            "22023",
        ),
        ("SET datafusion.optimizer.skip_failed_rules = true", "55P02"),
        ("SET datafusion.runtime.memory_limit = '100G'", "42501"),
        ("SET datafusion.runtime.temp_directory = '/tmp'", "42501"),
        ("SET corun.join_memory_bytes = 18446744073709551615", "22023"),
    ] {
        assert_eq!(server.refused(&mut session, sql).code, code, "{sql}");
    }
    server.rows(
        &mut session,
        "SET datafusion.execution.batch_size = 1024; SET corun.join = 'off'",
    );
    goes_on(&server, &mut session);
}

/// What a session keeps has names and texts of some length, and not more.
#[test]
fn what_is_kept_has_bounds() {
    let server = Server::new();
    let mut session = server.session();
    let (name, text) = (many("n", 64), many("x", 17 << 20));
    for (sql, code) in [
        (format!("SET \"a.{name}\" = 1"), "42602"),
        (format!("BEGIN; SAVEPOINT {name}"), "42622"),
        (format!("ROLLBACK; PREPARE {name} AS SELECT 1"), "42622"),
        (format!("PREPARE p AS SELECT '{text}'"), "54000"),
        (format!("DECLARE c CURSOR WITH HOLD FOR SELECT '{text}'"), "54000"),
        (
            "PREPARE p(bigint) AS SELECT $1; EXECUTE p(value FROM generate_series(1, 100000000000))"
                .to_owned(),
            "0A000",
        ),
        ("EXECUTE p((SELECT max(n) FROM t))".to_owned(), "0A000"),
    ] {
        let begins: String = sql.chars().take(60).collect();
        assert_eq!(server.refused(&mut session, &sql).code, code, "{begins}");
    }
    assert_eq!(server.rows(&mut session, "EXECUTE p(2 + 3)"), ["5", "=SELECT 1"]);
    goes_on(&server, &mut session);
}

/// Every way to name a file that is in no folder of the server's, by a user who may name files.
#[test]
fn files_outside_by_every_statement() {
    let server = Server::new();
    let outside = tempfile::tempdir().unwrap();
    let secret = outside.path().join("secret.csv");
    std::fs::write(&secret, "line\nclassified\n").unwrap();
    let folder = server.folder.path();
    std::os::unix::fs::symlink(&secret, folder.join("link.csv")).unwrap();
    std::os::unix::fs::symlink(outside.path(), folder.join("linked")).unwrap();
    let up = format!("{}/..{}", folder.display(), "/..".repeat(20));
    let names = [
        secret.display().to_string(),
        format!("file://{}", secret.display()),
        format!("{up}{}", secret.display()),
        format!("{}/link.csv", folder.display()),
        format!("{}/linked/secret.csv", folder.display()),
        format!("{}/linked/", folder.display()),
        format!("{}/*.csv", outside.path().display()),
        format!("{}/?ecret.csv", outside.path().display()),
        format!("{}/[s]ecret.csv", outside.path().display()),
        secret.display().to_string().replace("secret", "%73ecret"),
        "/etc/passwd".to_owned(),
        "/proc/self/environ".to_owned(),
        "/proc/self/root/etc/passwd".to_owned(),
        "/dev/stdin".to_owned(),
        "s3://bucket/secret.csv".to_owned(),
        "gs://bucket/secret.csv".to_owned(),
        "https://127.0.0.1/secret.csv".to_owned(),
        "memory:///secret.csv".to_owned(),
    ];
    let forms = [
        "SELECT * FROM '{}'",
        "SELECT count(*) FROM \"{}\"",
        "SELECT (SELECT count(*) FROM '{}')",
        "WITH w AS (SELECT * FROM '{}') SELECT * FROM w",
        "SELECT * FROM t WHERE EXISTS (SELECT 1 FROM '{}')",
        "TABLE '{}'",
        "EXPLAIN SELECT * FROM '{}'",
        "EXPLAIN ANALYZE SELECT * FROM '{}'",
        "PREPARE p AS SELECT * FROM '{}'",
        "BEGIN; DECLARE c CURSOR FOR SELECT * FROM '{}'; FETCH ALL FROM c",
        "COPY (SELECT * FROM '{}') TO STDOUT",
        "COPY '{}' TO STDOUT",
        "COPY t FROM '{}'",
        "COPY t FROM PROGRAM 'cat {}'",
        "COPY (SELECT 1) TO PROGRAM 'cat > {}'",
        "COPY (SELECT 1) TO '{}'",
        "COPY (SELECT 1) TO '{}' STORED AS CSV",
        "CREATE EXTERNAL TABLE x STORED AS CSV LOCATION '{}'",
        "CREATE EXTERNAL TABLE x (line varchar) STORED AS CSV LOCATION '{}'",
        "CREATE EXTERNAL TABLE x STORED AS PARQUET LOCATION '{}'",
        "CREATE TABLE x AS SELECT * FROM '{}'",
        "SELECT * INTO x FROM '{}'",
        "INSERT INTO t SELECT * FROM '{}'",
        "SELECT * FROM read_csv('{}')",
        "SELECT * FROM read_parquet('{}')",
        "SELECT * FROM parquet_metadata('{}')",
        "SELECT * FROM read_text('{}')",
        "SELECT pg_read_file('{}')",
        "SELECT pg_read_binary_file('{}')",
        "SELECT * FROM pg_ls_dir('{}')",
        "SELECT lo_import('{}')",
        "LOAD '{}'",
        "DESCRIBE '{}'",
        "SET datafusion.runtime.temp_directory = '{}'",
        "SET datafusion.catalog.location = '{}'",
    ];
    let mut session = server.session();
    for name in &names {
        for form in forms {
            let sql = form.replace("{}", name);
            let answer = server.run(&mut session, &sql);
            let shown = format!("{answer:?}");
            assert!(answer.is_err(), "{sql}: {shown}");
            assert!(
                !shown.contains("classified") && !shown.contains("root:"),
                "{sql}: {shown}"
            );
            let _ = server.run(&mut session, "ROLLBACK; DEALLOCATE ALL");
        }
    }
    assert_eq!(std::fs::read_to_string(&secret).unwrap(), "line\nclassified\n");
    goes_on(&server, &mut session);
}
