//! `CREATE ROLE`, `ALTER ROLE`, `DROP ROLE`, `GRANT` and `REVOKE`: what they make of the file, of sessions that there are, and of the system
//! tables.

use super::harness::{Collected, Server};
use super::users::Users;
use corun_wire::server::ResultFormats;
use std::os::unix::fs::PermissionsExt as _;

const FILE: &str = "# the only one so far\n[user.root]\nsuperuser = true\n[user.eve]\n";

#[test]
fn rights_are_in_force_at_once() {
    let users = Users::with(FILE);
    let server = &users.server;
    let (mut root, mut eve) = (users.session("root"), users.session("eve"));
    let denied = |session: &mut _, sql: &str| assert_eq!(server.refused(session, sql).code, "42501", "{sql}");
    denied(&mut eve, "SELECT n FROM t");
    for (sql, tag) in [
        ("CREATE ROLE analyst", "=CREATE ROLE"),
        ("GRANT SELECT ON t, sales.q1 TO analyst", "=GRANT"),
        ("GRANT USAGE ON SCHEMA sales TO analyst", "=GRANT"),
        ("GRANT USAGE, SELECT ON SEQUENCE s, sales.q TO analyst", "=GRANT"),
        ("GRANT ALL ON ALL SEQUENCES IN SCHEMA sales TO analyst", "=GRANT"),
        ("GRANT analyst TO eve", "=GRANT ROLE"),
    ] {
        assert_eq!(server.rows(&mut root, sql), [tag], "{sql}");
    }
    // A session that was there before, too.
    assert_eq!(
        server.rows(&mut eve, "SELECT count(*) FROM t, sales.q1"),
        ["20", "=SELECT 1"]
    );
    denied(&mut eve, "SELECT * FROM sales.q2");
    // By whatever name, and however the schema is found.
    server.rows(&mut root, "GRANT SELECT ON ALL TABLES IN SCHEMA public TO eve");
    server.rows(&mut eve, "SET search_path = sales");
    denied(&mut eve, "SELECT * FROM q2");
    server.rows(&mut eve, "SET search_path = public, sales");
    denied(&mut eve, "SELECT * FROM q2");
    server.rows(&mut eve, "RESET search_path");
    server.rows(&mut root, "REVOKE SELECT ON ALL TABLES IN SCHEMA public FROM eve");
    // Functions are everyone's.
    assert_eq!(
        server.rows(
            &mut eve,
            "SELECT count(*) FROM generate_series(1, 3) s, range(2) r"
        ),
        ["6", "=SELECT 1"]
    );
    server.rows(&mut root, "GRANT SELECT ON ALL TABLES IN SCHEMA sales TO eve");
    server.rows(&mut eve, "SELECT * FROM sales.q2");
    server.rows(&mut root, "REVOKE SELECT ON ALL TABLES IN SCHEMA sales FROM eve");
    denied(&mut eve, "SELECT * FROM sales.q2");
    server.rows(&mut root, "REVOKE analyst FROM eve CASCADE");
    denied(&mut eve, "SELECT n FROM t");
    // What the file says is what another server would read.
    let text = std::fs::read_to_string(&users.path).unwrap();
    assert!(
        text.starts_with("# the only one so far\n") && text.contains("\"sales.q1\""),
        "{text}"
    );
    let mode = std::fs::metadata(&users.path).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    corun_server::users::UserTable::load(&users.path).unwrap();
}

/// A statement that was prepared, or a cursor that was declared, before the right went.
#[test]
fn a_right_that_is_gone_is_gone_for_what_was_prepared() {
    let users = Users::with(FILE);
    let server = &users.server;
    let (mut root, mut eve) = (users.session("root"), users.session("eve"));
    server.rows(&mut root, "GRANT SELECT ON t TO eve");
    server.rows(
        &mut eve,
        "PREPARE p AS SELECT n FROM t; DECLARE c CURSOR WITH HOLD FOR SELECT n FROM t",
    );
    let statement = eve.one("SELECT n FROM t").unwrap();
    let prepared = server.block_on(eve.prepare(statement, &[])).unwrap();
    server.rows(&mut root, "REVOKE SELECT ON t FROM eve");
    for sql in ["EXECUTE p", "FETCH 1 FROM c"] {
        assert_eq!(server.refused(&mut eve, sql).code, "42501", "{sql}");
    }
    let mut portal = eve.bind(&prepared, std::iter::empty()).unwrap();
    let mut sink = Collected::default();
    let formats = ResultFormats::default();
    let ran = eve.run(&mut portal, &formats, None, &mut sink);
    assert_eq!(server.block_on(ran).unwrap_err().code, "42501");
    // What reads no table is everyone's.
    assert_eq!(
        server.rows(&mut eve, "SELECT count(*) > 100 FROM pg_get_keywords()"),
        ["t", "=SELECT 1"]
    );
}

#[test]
fn system_tables_say_what_is_so() {
    let users = Users::with(FILE);
    let server = &users.server;
    let mut root = users.session("root");
    for sql in [
        "CREATE ROLE analyst",
        "CREATE USER ann WITH PASSWORD 'pw' CONNECTION LIMIT 3 VALID UNTIL '2037-01-01 00:00:00+00' IN ROLE analyst",
        "GRANT SELECT ON sales.q1 TO analyst",
        "ALTER ROLE ann SET memory = '64MB'",
    ] {
        server.rows(&mut root, sql);
    }
    let mut one = |sql: &str| server.rows(&mut root, sql).remove(0);
    assert_eq!(
        one("SELECT rolcanlogin, rolsuper, rolconnlimit, rolvaliduntil FROM pg_roles WHERE rolname = 'ann'"),
        "t|f|3|2037-01-01 00:00:00+00"
    );
    assert_eq!(
        one("SELECT rolcanlogin FROM pg_roles WHERE rolname = 'analyst'"),
        "f"
    );
    assert_eq!(
        one("SELECT rolconfig FROM pg_roles WHERE rolname = 'ann'"),
        "{memory=67108864B}"
    );
    assert_eq!(
        one(
            "SELECT r.rolname, m.rolname FROM pg_auth_members a JOIN pg_roles r ON r.oid = a.roleid JOIN pg_roles m ON m.oid = a.member"
        ),
        "analyst|ann"
    );
    assert_eq!(
        one("SELECT relacl FROM pg_class WHERE relname = 'q1'"),
        "{analyst=r/postgres}"
    );
    for (sql, says) in [
        ("has_table_privilege('ann', 'sales.q1', 'SELECT')", "t"),
        ("has_table_privilege('ann', 'sales.q2', 'SELECT')", "f"),
        ("has_table_privilege('ann', 'sales.q1', 'INSERT')", "f"),
        ("has_table_privilege('ann', 'sales.q1', 'INSERT, SELECT')", "t"),
        ("has_schema_privilege('ann', 'sales', 'USAGE')", "t"),
        ("has_schema_privilege('ann', 'public', 'USAGE')", "f"),
        ("has_schema_privilege('ann', 'sales', 'CREATE')", "f"),
        ("pg_has_role('ann', 'analyst', 'MEMBER')", "t"),
        ("pg_has_role('analyst', 'ann', 'MEMBER')", "f"),
    ] {
        assert_eq!(one(&format!("SELECT {sql}")), says, "{sql}");
    }
}

/// Of tables that nobody writes to, too: the file keeps what is granted.
#[test]
fn rights_to_write_are_granted_and_shown() {
    let users = Users::with(FILE);
    let server = &users.server;
    let mut root = users.session("root");
    for sql in [
        "CREATE ROLE writer",
        "GRANT INSERT, UPDATE ON TABLE sales.q1 TO writer",
        "GRANT ALL PRIVILEGES ON ALL TABLES IN SCHEMA public TO eve",
        "GRANT CREATE ON SCHEMA sales TO eve",
        "REVOKE UPDATE ON sales.q1 FROM writer",
    ] {
        server.rows(&mut root, sql);
    }
    let mut one = |sql: &str| server.rows(&mut root, sql).remove(0);
    assert_eq!(
        one("SELECT relacl FROM pg_class WHERE relname = 'q1'"),
        "{eve=arwdD/postgres,writer=a/postgres}"
    );
    assert_eq!(
        one("SELECT nspacl FROM pg_namespace WHERE nspname = 'sales'"),
        "{eve=UC/postgres,writer=U/postgres}"
    );
    for (sql, says) in [
        ("has_table_privilege('writer', 'sales.q1', 'INSERT')", "t"),
        ("has_table_privilege('writer', 'sales.q1', 'UPDATE')", "f"),
        ("has_table_privilege('eve', 'public.t', 'TRUNCATE')", "t"),
        ("has_table_privilege('root', 'public.t', 'DELETE')", "t"),
        ("has_schema_privilege('eve', 'sales', 'CREATE')", "t"),
        ("has_schema_privilege('eve', 'public', 'CREATE')", "f"),
    ] {
        assert_eq!(one(&format!("SELECT {sql}")), says, "{sql}");
    }
    let text = std::fs::read_to_string(&users.path).unwrap();
    assert!(
        text.contains("truncate = [\"public.*\"]") && text.contains("create = [\"sales\"]"),
        "{text}"
    );
    let refusal = server.refused(&mut root, "REVOKE DELETE ON t FROM eve");
    assert!(
        refusal.code == "0A000"
            && refusal
                .hint
                .is_some_and(|hint| hint.contains("REVOKE DELETE ON ALL TABLES"))
    );
    server.rows(&mut root, "REVOKE ALL ON ALL TABLES IN SCHEMA public FROM eve");
    assert_eq!(
        server
            .rows(
                &mut root,
                "SELECT has_table_privilege('eve', 'public.t', 'INSERT')"
            )
            .remove(0),
        "f"
    );
}

#[test]
fn passwords_are_shown_to_nobody() {
    let users = Users::with(FILE);
    let server = &users.server;
    let (mut root, mut eve) = (users.session("root"), users.session("eve"));
    server.rows(&mut root, "ALTER ROLE eve PASSWORD 'a long secret'");
    let text = std::fs::read_to_string(&users.path).unwrap();
    assert!(
        text.contains("SCRAM-SHA-256$4096:") && !text.contains("secret\""),
        "{text}"
    );
    let asked = "SELECT query FROM pg_stat_activity WHERE usename = 'root' AND query NOT LIKE 'SELECT%'";
    let shown = server.rows(&mut users.session("root"), asked);
    assert_eq!(shown.first().map(String::as_str), Some("ALTER ROLE eve ..."));
    let shown = server.rows(&mut eve, asked);
    assert_eq!(
        shown.first().map(String::as_str),
        Some("<insufficient privilege>")
    );
    // Of its own everyone may have another.
    server.rows(&mut eve, "ALTER USER eve WITH ENCRYPTED PASSWORD 'another'");
    assert_ne!(std::fs::read_to_string(&users.path).unwrap(), text);
    for sql in [
        "ALTER ROLE root PASSWORD 'mine'",
        "ALTER ROLE eve SUPERUSER",
        "ALTER ROLE eve PASSWORD 'x' SUPERUSER",
        "ALTER ROLE eve SET memory = '1TB'",
        "CREATE ROLE other",
        "DROP ROLE root",
        "GRANT SELECT ON t TO eve",
    ] {
        assert_eq!(server.refused(&mut eve, sql).code, "42501", "{sql}");
    }
    let refusal = server.refused(&mut root, "ALTER ROLE eve PASSWORD = 'hidden'");
    assert!(!refusal.message.contains("hidden"), "{refusal:?}");
    let refusal = server.refused(&mut root, "ALTER ROLE eve 'hidden'");
    assert!(!format!("{refusal:?}").contains("hidden"), "{refusal:?}");
}

#[test]
fn what_cannot_be_is_refused() {
    let users = Users::with(FILE);
    let server = &users.server;
    let mut root = users.session("root");
    for (sql, code) in [
        ("CREATE ROLE eve", "42710"),
        ("CREATE USER pg_x", "42939"),
        ("ALTER ROLE nobody LOGIN", "42704"),
        ("DROP ROLE nobody", "42704"),
        ("DROP ROLE root", "55006"),
        ("GRANT SELECT ON t TO nobody", "42704"),
        ("GRANT nobody TO eve", "42704"),
        ("GRANT SELECT ON nothing TO eve", "42P01"),
        ("GRANT SELECT ON nowhere.t TO eve", "3F000"),
        ("GRANT USAGE ON SCHEMA nowhere TO eve", "3F000"),
        ("GRANT REFERENCES ON t TO eve", "0A000"),
        ("GRANT INSERT ON SCHEMA sales TO eve", "0A000"),
        ("GRANT USAGE ON t TO eve", "0A000"),
        ("GRANT SELECT (n) ON t TO eve", "0A000"),
        ("GRANT SELECT ON t TO PUBLIC", "0A000"),
        ("GRANT SELECT ON t TO eve WITH GRANT OPTION", "0A000"),
        ("GRANT CONNECT ON DATABASE corun TO eve", "0A000"),
        ("CREATE ROLE r PASSWORD 'x'", "0A000"),
        ("CREATE USER u CREATEDB", "0A000"),
        ("CREATE USER u VALID UNTIL 'soon'", "22007"),
        ("CREATE USER u CONNECTION LIMIT 0", "22023"),
        ("ALTER ROLE eve SET weight = 1000", "22023"),
        ("ALTER ROLE eve SET work_mem = '1GB'", "42704"),
        ("GRANT SELECT t TO eve", "42601"),
        ("GRANT SELECT ON t eve", "42601"),
        ("CREATE USER", "42601"),
        ("BEGIN; GRANT SELECT ON t TO eve", "25001"),
    ] {
        let refusal = server.refused(&mut root, sql);
        assert_eq!(refusal.code, code, "{sql}: {refusal:?}");
        server.rows(&mut root, "ROLLBACK");
    }
    assert_eq!(
        std::fs::read_to_string(&users.path).unwrap(),
        FILE,
        "nothing was written"
    );
    server.rows(
        &mut root,
        "CREATE USER u NOSUPERUSER NOCREATEDB INHERIT LOGIN; DROP USER IF EXISTS u, nobody",
    );
    // Without a file there is nowhere to write to.
    let server = Server::new();
    let refusal = server.refused(&mut server.session(), "CREATE ROLE r");
    assert_eq!(
        (
            refusal.code,
            refusal.hint.is_some_and(|hint| hint.contains("--users"))
        ),
        ("0A000", true)
    );
}

/// What somebody has written into the file meanwhile stays, and is in force with the next change.
#[test]
fn changes_by_others_are_not_lost() {
    let users = Users::with(FILE);
    let server = &users.server;
    let mut root = users.session("root");
    let random = ring::rand::SystemRandom::new();
    corun_server::users::add_user(&users.path, "tom", b"pw", false, &random).unwrap();
    server.rows(&mut root, "GRANT SELECT ON t TO tom");
    server.rows(&mut users.session("tom"), "SELECT n FROM t");
    // A file that is broken is left as it is.
    std::fs::write(&users.path, "[user.root\n").unwrap();
    assert!(server.run(&mut root, "CREATE ROLE r").is_err());
    assert_eq!(std::fs::read_to_string(&users.path).unwrap(), "[user.root\n");
    server.rows(&mut users.session("tom"), "SELECT n FROM t");
}
