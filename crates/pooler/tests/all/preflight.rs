//! What `preflight` says of real servers: that all is well, and each thing that is not.

use crate::common;
use std::time::Duration;

use crate::common::assert_contains;
use crate::common::configuration;
use crate::common::postgres::{self, Options, PASSWORD, Postgres};
use corun_pooler::ConfigFiles;
use corun_pooler::preflight::{self, Level, Line};
use corun_wire::auth::scram::{ITERATIONS_DEFAULT, Verifier};

/// The files of a configuration; `proxy` are lines of `[proxy]`, `rest` what follows.
fn files(proxy: &str, rest: &str) -> ConfigFiles {
    configuration::files(&format!("[proxy]\nunix_socket_dir = \"/tmp\"\n{proxy}\n{rest}"))
}

/// What it said of a configuration.
#[derive(Debug)]
struct Report {
    lines: Vec<Line>,
    worst: Level,
}

fn report_of(files: &ConfigFiles) -> Report {
    report_with(files, None)
}

/// The same with a password given, whoever it is for.
fn report_with(files: &ConfigFiles, password: Option<&str>) -> Report {
    let mut lines = Vec::new();
    let options = preflight::Options {
        limit: Some(Duration::from_secs(10)),
        ..preflight::Options::default()
    };
    let mut ask = |_: &str| password.map(str::to_owned);
    let mut passwords = preflight::Passwords::new(&mut ask);
    let worst = preflight::run(files, &options, &mut passwords, &mut |line| lines.push(line));
    let report = Report { lines, worst };
    let levels = report.lines.iter().map(|line| line.level);
    assert_eq!(levels.max(), Some(worst), "{report:#?}");
    report
}

fn report(proxy: &str, rest: &str) -> Report {
    report_of(&files(proxy, rest))
}

impl Report {
    /// The lines of a check.
    fn all(&self, check: &str) -> impl Iterator<Item = &Line> {
        self.lines.iter().filter(move |line| line.check == check)
    }

    /// The only line of a check.
    #[track_caller]
    fn the(&self, check: &str) -> &Line {
        assert_eq!(self.all(check).count(), 1, "{check}: {self:#?}");
        self.all(check).next().expect("a line")
    }

    /// These checks failed and no others.
    #[track_caller]
    fn assert_failed(&self, checks: &[&str]) {
        let failed = self.lines.iter().filter(|line| line.level == Level::Fail);
        let failed: Vec<&str> = failed.map(|line| line.check).collect();
        assert_eq!(failed, checks, "{self:#?}");
    }

    /// Nothing is worse than the warning of this check.
    #[track_caller]
    fn assert_warned(&self, check: &str) {
        assert_eq!(
            (self.the(check).level, self.worst),
            (Level::Warn, Level::Warn),
            "{self:#?}"
        );
    }

    /// A secret is not shown.
    #[track_caller]
    fn assert_hides(&self, secret: &str) {
        assert!(!format!("{self:?}").contains(secret));
    }
}

/// Asserts that the hint of a line contains a text.
#[track_caller]
fn assert_hint(line: &Line, part: &str) {
    assert_contains(line.hint.as_deref().unwrap_or("no hint"), part);
}

/// `[databases.app]` at a port.
fn database(port: u16, more: &str) -> String {
    format!("[databases.app]\nhost = \"127.0.0.1\"\nport = {port}\n{more}\n")
}

/// `[users.NAME]` with a password.
fn user(name: &str, password: &str) -> String {
    format!("[users.{name}]\npassword = \"{password}\"\n")
}

/// A user whom the server knows, and the database at a port.
fn known(port: u16, more: &str) -> String {
    user("app_scram", PASSWORD) + &database(port, more)
}

#[test]
fn a_server_as_it_should_be() {
    let report = report("default_pool_size = 10", &known(postgres::shared().port(), ""));
    report.assert_failed(&[]);
    for check in [
        "reachable",
        "tls",
        "login",
        "version",
        "role",
        "connections",
        "direct",
        "reset",
        "activity",
        "clock",
    ] {
        assert_eq!(report.the(check).level, Level::Ok, "{report:#?}");
    }
    let login = &report.the("login").text;
    assert_eq!(login, "app_scram to database app: scram-sha-256");
    assert_eq!(report.the("role").text, "primary");
    assert_contains(&report.the("version").text, "PostgreSQL ");
    // Here the server's processes are ours, or we are root: where neither, the line says why.
    let binding = report.the("binding");
    assert!(
        binding.level == Level::Ok || binding.hint.is_some(),
        "{binding:?}"
    );
    report.assert_hides(PASSWORD);
}

#[test]
fn nothing_is_left_on_the_server() {
    let server = Postgres::start();
    let alone = "select count(*) = 1 from pg_stat_activity where backend_type = 'client backend'";
    let state = "select (select count(*) from pg_class) || ' ' || (select sum(n_tup_ins + n_tup_upd + n_tup_del) from \
                 pg_stat_all_tables)";
    server.wait_until(alone);
    let before = server.value(state);
    report("", &known(server.port(), "")).assert_failed(&[]);
    server.wait_until(alone);
    assert_eq!(server.value(state), before);
    assert!(!server.log().contains("unexpected EOF"), "{}", server.log());
}

#[test]
fn the_server_is_asked_over_its_unix_socket() {
    let server = postgres::shared();
    let rest = format!(
        "[users.app]\npassword = \"unused\"\n[databases.app]\nhost = \"{}\"\nport = {}\n",
        server.socket_folder().display(),
        server.port()
    );
    let report = report("", &rest);
    report.assert_failed(&[]);
    assert_eq!(report.the("login").text, "app to database app: no password");
}

#[test]
fn a_wrong_password() {
    let rest = user("app_scram", "not it") + &database(postgres::shared().port(), "");
    let found = report("", &rest);
    found.assert_failed(&["login"]);
    assert_eq!(found.worst, Level::Fail);
    assert_contains(&found.the("login").text, "28P01");
    assert_hint(found.the("login"), "auth_file");
    found.assert_hides("not it");
    // One who runs the console need not be known to the server.
    report("admin_users = [\"app_scram\"]", &rest).assert_warned("login");
}

#[test]
fn a_secret_that_lets_others_in_but_not_us() {
    let verifier = postgres::shared().value("select rolpassword from pg_authid where rolname = 'app_scram'");
    let rest = user("app_scram", &verifier) + &database(postgres::shared().port(), "");
    let report = report("", &rest);
    report.assert_failed(&[]);
    assert_eq!(report.worst, Level::Warn);
    assert_hint(report.the("login"), "once a client");
    assert_hint(report.the("login"), "set PGPASSWORD");
    report.assert_hides(&verifier);
}

#[test]
fn a_given_password_gets_in_where_files_have_a_secret() {
    let server = postgres::shared();
    let verifier = server.value("select rolpassword from pg_authid where rolname = 'app_scram'");
    let files_with = |secret: &str| files("", &(user("app_scram", secret) + &database(server.port(), "")));
    let found = report_with(&files_with(&verifier), Some(PASSWORD));
    found.assert_failed(&[]);
    let login = found.the("login");
    assert_eq!(login.level, Level::Ok, "{login:?}");
    assert_eq!(
        login.text,
        "app_scram to database app: scram-sha-256, with the password given here"
    );
    assert_eq!(found.the("role").text, "primary");
    found.assert_hides(&verifier);
    // Another one's password is not even tried.
    let found = report_with(&files_with(&verifier), Some("another"));
    found.assert_warned("login");
    assert_hint(found.the("login"), "not this account's");
    // Of the same password there are other secrets, with which the pooler does not get in.
    let other = Verifier::derive(PASSWORD.as_bytes(), b"salt", ITERATIONS_DEFAULT).to_secret_text();
    let found = report_with(&files_with(&other), Some(PASSWORD));
    found.assert_failed(&[]);
    assert_eq!(found.the("login").level, Level::Warn);
    assert_contains(&found.the("login").text, "not the server's");
    assert_hint(found.the("login"), "rolpassword");
    assert_eq!(found.the("role").text, "primary");
}

#[test]
fn every_database_that_the_wildcard_stands_for_is_looked_at() {
    let server = Postgres::start();
    for statement in ["create database shop", "create database closed"] {
        server.sql(statement);
    }
    server.sql("revoke connect on database closed from public");
    let wildcard = format!(
        "[databases.\"*\"]\nhost = \"127.0.0.1\"\nport = {}\n",
        server.port()
    );
    let found = report("", &(user("app_scram", PASSWORD) + &wildcard));
    let logins: Vec<&str> = found.all("login").map(|line| line.text.as_str()).collect();
    for name in ["app", "postgres", "shop"] {
        let text = format!("app_scram to database {name}: scram-sha-256");
        assert!(logins.contains(&text.as_str()), "{text} not in {logins:?}");
    }
    assert_eq!(logins.len(), 3, "{found:#?}");
    let left_out = found.the("databases");
    assert_eq!((left_out.level, left_out.about.as_str()), (Level::Warn, "closed"));
    assert_hint(left_out, "GRANT CONNECT ON DATABASE \"closed\" TO \"app_scram\"");
    // Where it is named, the server says the same.
    let named = known(server.port(), "dbname = \"closed\"");
    let line = report("", &named).the("login").clone();
    assert_eq!(line.level, Level::Fail);
    assert_hint(&line, "GRANT CONNECT ON DATABASE \"closed\" TO \"app_scram\"");
}

#[test]
fn a_server_that_is_down() {
    let port = common::child::free_port();
    let report = report(
        "",
        &(user("a", PASSWORD) + &user("b", PASSWORD) + &database(port, "")),
    );
    report.assert_failed(&["reachable"]);
    let line = report.the("reachable");
    assert_contains(&line.text, &format!("127.0.0.1:{port}"));
    assert!(line.hint.is_some(), "{line:?}");
}

#[test]
fn nobody_to_log_in_as() {
    let mut files = files("", &known(postgres::shared().port(), ""));
    files.config.users.clear();
    let report = report_of(&files);
    report.assert_warned("login");
    assert_eq!(report.the("reachable").level, Level::Ok);
}

#[test]
fn something_that_is_no_server() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("an address").port();
    let talker = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().expect("a client");
        std::io::Write::write_all(&mut stream, b"SSH-2.0-nothing\r\n").expect("written");
        // Until the other side has had enough.
        let _ = std::io::Read::read_to_end(&mut stream, &mut Vec::new());
    });
    let rest = user("a", PASSWORD) + &database(port, "");
    report("server_tls_sslmode = \"disable\"", &rest).assert_failed(&["reachable"]);
    talker.join().expect("the other side has gone");
}

#[test]
fn too_few_connections() {
    let server = Postgres::start_with(Options {
        settings: vec!["max_connections = 13".to_owned()],
        ..Options::default()
    });
    let judged = |pool: u32| {
        let rest = known(server.port(), "[corun]\nevent_loops = 1");
        let report = report(&format!("default_pool_size = {pool}"), &rest);
        report.the("connections").clone()
    };
    // 13 less 3 reserved.
    assert_eq!(judged(10).level, Level::Ok);
    let line = judged(11);
    assert_eq!(line.level, Level::Fail);
    assert_contains(&line.text, "11 connections, and the server has 10");
    assert_hint(&line, "default_pool_size");
    let _others: Vec<_> = (0..3)
        .map(|_| common::raw::Raw::connect(&server.login("app")).expect("a connection"))
        .collect();
    assert_eq!(judged(9).level, Level::Warn);
}

#[test]
fn a_limit_of_the_role() {
    let server = Postgres::start();
    server.sql("alter role app_scram connection limit 3");
    let rest = known(server.port(), "[corun]\nevent_loops = 1");
    let report = report("default_pool_size = 4", &rest);
    report.assert_failed(&["login"]);
    assert_contains(&report.the("login").text, "role is limited to 3");
}

#[test]
fn pg_hba_does_not_let_us_in() {
    let server = Postgres::start_with(Options {
        hba: vec!["host all app_scram 127.0.0.1/32 reject".to_owned()],
        ..Options::default()
    });
    let report = report("", &known(server.port(), ""));
    report.assert_failed(&["login"]);
    assert_contains(&report.the("login").text, "28000");
    assert_hint(report.the("login"), "host app app_scram");
}

#[test]
fn a_database_that_is_not_there() {
    let rest = known(postgres::shared().port(), "dbname = \"nowhere\"");
    let report = report("", &rest);
    let line = report.the("login");
    assert_eq!(line.level, Level::Fail, "{line:?}");
    assert_contains(&line.text, "3D000");
}

#[test]
fn tls_where_it_is_and_where_it_is_not() {
    let required = |server: &Postgres| report("server_tls_sslmode = \"require\"", &known(server.port(), ""));
    required(postgres::shared()).assert_failed(&["tls"]);
    let key = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).expect("a certificate");
    let server = Postgres::start_with(Options {
        certificate: Some((key.cert.pem(), key.signing_key.serialize_pem())),
        ..Options::default()
    });
    let found = required(&server);
    found.assert_failed(&[]);
    assert_contains(&found.the("tls").text, "TLSv1.");
}

#[test]
fn auth_query_finds_secrets_or_says_why_not() {
    let server = postgres::shared();
    let judged = |auth_user: &str| {
        let more = format!("auth_user = \"{auth_user}\"");
        let rest = user(auth_user, PASSWORD) + &database(server.port(), &more);
        report("", &rest).the("auth_query").clone()
    };
    let line = judged("app_scram");
    assert_eq!(line.level, Level::Fail);
    assert_contains(&line.text, "42501");
    assert_hint(&line, "SECURITY DEFINER");
    server.sql("create or replace function public.corun_secret(text) returns table(name text, secret text) language sql \
                security definer as 'select rolname::text, rolpassword from pg_authid where rolname = $1'");
    let more = "auth_user = \"app_scram\"\nauth_query = \"select * from public.corun_secret($1)\"";
    let found = report("", &known(server.port(), more));
    assert_eq!(found.the("auth_query").level, Level::Ok, "{found:#?}");
    found.assert_hides("SCRAM-SHA-256$");
    // The superuser may read the catalog, and has no password.
    assert_eq!(judged("postgres").level, Level::Warn);
}

#[test]
fn a_primary_and_its_replica() {
    let primary = Postgres::start();
    let replica = primary.replica();
    let at = |port: u16, more: &str| user("app", "unused") + &database(port, more);
    let replicas = format!("replicas = [\"127.0.0.1:{}\"]", replica.port());
    let found = report("", &at(primary.port(), &replicas));
    found.assert_failed(&[]);
    let roles: Vec<&str> = found.all("role").map(|line| line.text.as_str()).collect();
    assert_eq!(roles, ["primary", "replica"]);
    let (one, other) = (primary.port(), replica.port());
    let group = format!("primary 127.0.0.1:{one}, replicas: 127.0.0.1:{other}");
    assert_eq!(found.the("group").text, group);
    assert!(found.all("lag").all(|line| line.level == Level::Ok), "{found:#?}");
    // A replica alone takes no writes.
    report("", &at(replica.port(), "")).assert_warned("role");
    drop(primary);
    report("", &at(common::child::free_port(), &replicas)).assert_failed(&["reachable", "group"]);
}
