//! Errors: SQLSTATE, PostgreSQL's words, the place, and what to do.

use super::harness::{Server, files};
use corun_server::catalog::RoleFact;
use corun_server::data::FileRights;
use corun_server::session::Rights;
use std::sync::Arc;

#[test]
fn each_has_its_code() {
    let server = Server::new();
    let mut session = server.session();
    let mut wrong = Vec::new();
    for (sql, code) in [
        ("SELECT * FROM nowhere", "42P01"),
        ("SELECT nothing FROM t", "42703"),
        ("SELECT t.nothing FROM t", "42703"),
        ("SELEC 1", "42601"),
        ("SELECT 1 +", "42601"),
        ("SELECT 'open", "42601"),
        ("SELECT floot(1)", "42883"),
        ("SELECT 1 / (n - n) FROM t", "22012"),
        ("SELECT CAST(word AS INT) FROM t", "22P02"),
        ("SELECT n FROM t a JOIN t b ON true", "42702"),
        ("INSERT INTO t VALUES (1, 'a')", "25006"),
        ("UPDATE t SET n = 1", "25006"),
        ("DELETE FROM t", "25006"),
        ("CREATE TABLE x (a int)", "25006"),
        ("TRUNCATE t", "25006"),
        ("LISTEN x", "0A000"),
        ("SELECT * FROM '/etc/passwd'", "42501"),
        ("SELECT * FROM \"/etc/passwd\"", "42501"),
        ("SET no_such = 1", "42704"),
        ("SHOW no_such", "42704"),
        ("SET datafusion.runtime.memory_limit = '1K'", "42501"),
        ("SELECT $1", "42P02"),
        ("EXPLAIN INSERT INTO t VALUES (1)", "25006"),
        ("FETCH nothing", "34000"),
    ] {
        let refusal = server.refused(&mut session, sql);
        if refusal.code != code {
            wrong.push(format!("{sql}: {code} is expected: {refusal:?}"));
        }
        let all = format!("{refusal:?}").to_lowercase();
        assert!(
            !all.contains("bug report") && !all.contains("datafusion'"),
            "{sql}: {refusal:?}"
        );
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    // The session is as good as before.
    assert_eq!(server.rows(&mut session, "SELECT 1"), ["1", "=SELECT 1"]);
}

#[test]
fn words_places_and_hints() {
    let server = Server::new();
    let mut session = server.session();
    let refusal = server.refused(&mut session, "SELECT * FROM tt");
    assert_eq!(refusal.message, "relation \"tt\" does not exist");
    assert_eq!(
        (refusal.position, refusal.hint.as_deref()),
        (Some(15), Some("Perhaps you meant the table \"t\"."))
    );
    let refusal = server.refused(&mut session, "SELECT * FROM q1");
    assert_eq!(
        refusal.hint.as_deref(),
        Some("Perhaps you meant the table \"sales.q1\".")
    );
    let refusal = server.refused(&mut session, "SELECT wird FROM t");
    assert_eq!(refusal.message, "column \"wird\" does not exist");
    assert_eq!(
        (refusal.position, refusal.hint.as_deref()),
        (
            Some(8),
            Some("Perhaps you meant to reference the column \"t.word\".")
        )
    );
    // What was done before the mistake was told.
    let mut sink = super::harness::Collected::default();
    assert!(
        server
            .block_on(session.simple("SELECT 7; SELECT nothing FROM t", &mut sink))
            .is_err()
    );
    assert_eq!(super::harness::shown(&sink.0), ["7", "=SELECT 1"]);
    // Characters count, not bytes, and from the start of the whole text.
    let refusal = server.refused(&mut session, "SELECT 'é';\nSELECT n FORM t t");
    assert_eq!(
        (refusal.code, refusal.position),
        ("42601", Some(27)),
        "{refusal:?}"
    );
    let refusal = server.refused(&mut session, "SELECT 'é';\nSELECT * FROM nowhere");
    assert_eq!(
        (refusal.code, refusal.position),
        ("42P01", Some(27)),
        "{refusal:?}"
    );
    let refusal = server.refused(&mut session, "SET search_pat = a");
    assert_eq!(
        refusal.hint.as_deref(),
        Some("Perhaps you meant \"search_path\".")
    );
}

#[test]
fn a_text_is_parsed_whole_before_it_runs() {
    let server = Server::new();
    let mut session = server.session();
    assert_eq!(
        server
            .refused(&mut session, "SET application_name = 'x'; SELEC 1")
            .code,
        "42601"
    );
    assert_eq!(server.rows(&mut session, "SHOW application_name"), ["", "=SHOW"]);
}

/// Nobody may read `q1`, nor name files.
#[derive(Debug)]
struct Few;

impl Rights for Few {
    fn files(&self, _: &str) -> FileRights {
        FileRights::default()
    }

    fn may_read(&self, _: &str, schema: &str, table: &str) -> bool {
        (schema, table) != ("sales", "q1")
    }

    fn is_superuser(&self, _: &str) -> bool {
        false
    }

    fn roles(&self) -> Vec<RoleFact> {
        Vec::new()
    }
}

#[test]
fn rights_are_asked_for_every_table() {
    let server = Server::with(|config| config.rights = Arc::new(Few));
    let mut session = server.session();
    for sql in [
        "SELECT * FROM sales.q1",
        "SELECT count(*) FROM t WHERE n IN (SELECT amount FROM sales.q1)",
        "WITH w AS (SELECT * FROM sales.q1) SELECT * FROM w",
        "COPY sales.q1 TO STDOUT",
        "EXPLAIN SELECT * FROM sales.q1",
    ] {
        let refusal = server.refused(&mut session, sql);
        assert_eq!(
            (refusal.code, refusal.message.as_str()),
            ("42501", "permission denied for table q1"),
            "{sql}"
        );
    }
    assert_eq!(server.refused(&mut session, "COPY t TO 'x.csv'").code, "42501");
    assert_eq!(
        server.rows(&mut session, "SELECT count(*) FROM sales.q2"),
        ["1", "=SELECT 1"]
    );
}

#[test]
fn other_databases_are_not_read() {
    let other = tempfile::tempdir().unwrap();
    files(other.path());
    let server = Server::with(|config| {
        let catalog = ("other".to_owned(), other.path().to_owned());
        config.data.catalogs.push(catalog);
    });
    let mut session = server.session();
    let own = "SELECT count(*) FROM corun.public.t";
    assert_eq!(server.rows(&mut session, own), ["10", "=SELECT 1"]);
    for sql in [
        "SELECT count(*) FROM other.public.t",
        "SELECT (SELECT count(*) FROM other.sales.q1)",
        "EXPLAIN SELECT * FROM other.public.t",
    ] {
        assert_eq!(server.refused(&mut session, sql).code, "0A000", "{sql}");
    }
}

#[test]
fn databases_are_folders() {
    let server = Server::with(|_| {});
    let mut who = corun_server::session::Identity {
        user: "ada".to_owned(),
        database: "nowhere".to_owned(),
        pid: 1,
        address: None,
        options: Vec::new(),
    };
    let refusal = server.engine.session(who.clone()).unwrap_err();
    assert_eq!(
        (refusal.code, refusal.hint.as_deref()),
        ("3D000", Some("Databases here: corun."))
    );
    who.database = "corun".to_owned();
    assert!(server.engine.session(who).is_ok());
    // Rules of who gets in are asked about this.
    for (user, asked, database) in [
        ("ada", "", Some("corun")),
        ("ada", "ada", Some("corun")),
        ("corun", "", Some("corun")),
        ("ada", "corun", Some("corun")),
        ("ada", "bob", None),
    ] {
        assert_eq!(server.engine.database(user, asked), database, "{user} {asked}");
    }
}
