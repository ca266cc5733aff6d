//! What `preflight` says of real servers: that all is well, and each thing that is not.

use crate::common;
use std::time::Duration;

use crate::common::assert_contains;
use crate::common::pooler;
use crate::common::postgres::{self, Options, PASSWORD, Postgres};
use corun_pooler::ConfigFiles;
use corun_pooler::preflight::{self, Level, Line};

/// The files of a configuration; `proxy` are lines of `[proxy]`, `rest` what follows.
fn files(proxy: &str, rest: &str) -> ConfigFiles {
    pooler::files(&format!("[proxy]\nunix_socket_dir = \"/tmp\"\n{proxy}\n{rest}"))
}

/// All lines, and the worst level.
fn lines_of(files: &ConfigFiles) -> (Vec<Line>, Level) {
    let mut lines = Vec::new();
    let options = preflight::Options {
        limit: Some(Duration::from_secs(10)),
        ..preflight::Options::default()
    };
    let worst = preflight::run(files, &options, &mut |line| lines.push(line));
    assert_eq!(
        lines.iter().map(|line| line.level).max(),
        Some(worst),
        "{lines:#?}"
    );
    (lines, worst)
}

fn lines(proxy: &str, rest: &str) -> (Vec<Line>, Level) {
    lines_of(&files(proxy, rest))
}

/// The only line of a check.
fn the<'a>(lines: &'a [Line], check: &str) -> &'a Line {
    let found: Vec<&Line> = lines.iter().filter(|line| line.check == check).collect();
    assert_eq!(found.len(), 1, "{check}: {lines:#?}");
    found[0]
}

/// Asserts that the hint of a line contains a text.
#[track_caller]
fn assert_hint(line: &Line, part: &str) {
    assert_contains(line.hint.as_deref().unwrap_or("no hint"), part);
}

/// Checks that failed.
fn failed(lines: &[Line]) -> Vec<&'static str> {
    lines
        .iter()
        .filter(|line| line.level == Level::Fail)
        .map(|line| line.check)
        .collect()
}

/// `[databases.app]` at a port.
fn database(port: u16, more: &str) -> String {
    format!("[databases.app]\nhost = \"127.0.0.1\"\nport = {port}\n{more}\n")
}

/// `[users.NAME]` with the usual password.
fn user(name: &str) -> String {
    format!("[users.{name}]\npassword = \"{PASSWORD}\"\n")
}

#[test]
fn a_server_as_it_should_be() {
    let server = postgres::shared();
    let rest = user("app_scram") + &database(server.port(), "");
    let (lines, _) = lines("default_pool_size = 10", &rest);
    assert_eq!(failed(&lines), [""; 0], "{lines:#?}");
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
        assert_eq!(the(&lines, check).level, Level::Ok, "{lines:#?}");
    }
    assert_eq!(
        the(&lines, "login").text,
        "app_scram to database app: scram-sha-256"
    );
    assert_eq!(the(&lines, "role").text, "primary");
    assert!(
        the(&lines, "version").text.starts_with("PostgreSQL "),
        "{lines:#?}"
    );
    // Here the server's processes are ours, or we are root: where neither, the line says why.
    let binding = the(&lines, "binding");
    assert!(
        binding.level == Level::Ok || binding.hint.is_some(),
        "{binding:?}"
    );
    assert!(!format!("{lines:?}").contains(PASSWORD));
}

#[test]
fn nothing_is_left_on_the_server() {
    let server = Postgres::start();
    let alone = "select count(*) = 1 from pg_stat_activity where backend_type = 'client backend'";
    let state = "select (select count(*) from pg_class) || ' ' || (select sum(n_tup_ins + n_tup_upd + n_tup_del) from \
                 pg_stat_all_tables)";
    server.wait_until(alone);
    let before = server.value(state);
    let (lines, _) = lines("", &(user("app_scram") + &database(server.port(), "")));
    assert_eq!(failed(&lines), [""; 0], "{lines:#?}");
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
    let (lines, _) = lines("", &rest);
    assert_eq!(failed(&lines), [""; 0], "{lines:#?}");
    assert_eq!(the(&lines, "login").text, "app to database app: no password");
}

#[test]
fn a_wrong_password() {
    let rest =
        "[users.app_scram]\npassword = \"not it\"\n".to_owned() + &database(postgres::shared().port(), "");
    let (lines, worst) = lines("", &rest);
    assert_eq!(
        (failed(&lines), worst),
        (vec!["login"], Level::Fail),
        "{lines:#?}"
    );
    let line = the(&lines, "login");
    assert_contains(&line.text, "28P01");
    assert_hint(line, "auth_file");
    assert!(!format!("{lines:?}").contains("not it"));
    // One who runs the console need not be known to the server.
    let (lines, worst) = self::lines("admin_users = [\"app_scram\"]", &rest);
    assert_eq!(
        (the(&lines, "login").level, worst),
        (Level::Warn, Level::Warn),
        "{lines:#?}"
    );
}

#[test]
fn a_secret_that_lets_others_in_but_not_us() {
    let verifier = postgres::shared().value("select rolpassword from pg_authid where rolname = 'app_scram'");
    let rest =
        format!("[users.app_scram]\npassword = \"{verifier}\"\n") + &database(postgres::shared().port(), "");
    let (lines, worst) = lines("", &rest);
    assert_eq!((failed(&lines), worst), (vec![], Level::Warn), "{lines:#?}");
    let line = the(&lines, "login");
    assert_hint(line, "once a client");
    assert!(!format!("{lines:?}").contains(&verifier));
}

#[test]
fn a_server_that_is_down() {
    let port = common::child::free_port();
    let (lines, _) = lines("", &(user("a") + &user("b") + &database(port, "")));
    assert_eq!(failed(&lines), ["reachable"], "{lines:#?}");
    let line = the(&lines, "reachable");
    assert!(
        line.text.contains(&format!("127.0.0.1:{port}")) && line.hint.is_some(),
        "{line:?}"
    );
}

#[test]
fn nobody_to_log_in_as() {
    let mut files = files("", &(user("a") + &database(postgres::shared().port(), "")));
    files.config.users.clear();
    let (found, worst) = lines_of(&files);
    assert_eq!(
        (the(&found, "login").level, worst),
        (Level::Warn, Level::Warn),
        "{found:#?}"
    );
    assert_eq!(the(&found, "reachable").level, Level::Ok);
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
    let (lines, _) = lines(
        "server_tls_sslmode = \"disable\"",
        &(user("a") + &database(port, "")),
    );
    assert_eq!(failed(&lines), ["reachable"], "{lines:#?}");
    talker.join().expect("the other side has gone");
}

#[test]
fn too_few_connections() {
    let server = Postgres::start_with(Options {
        settings: vec!["max_connections = 13".to_owned()],
        ..Options::default()
    });
    let judged = |pool: u32| {
        let (lines, _) = lines(
            &format!("default_pool_size = {pool}\n"),
            &(user("app_scram") + &database(server.port(), "") + "[corun]\nevent_loops = 1\n"),
        );
        the(&lines, "connections").clone()
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
    let (lines, _) = lines(
        "default_pool_size = 4",
        &(user("app_scram") + &database(server.port(), "") + "[corun]\nevent_loops = 1\n"),
    );
    assert_eq!(failed(&lines), ["login"], "{lines:#?}");
    assert_contains(&the(&lines, "login").text, "role is limited to 3");
}

#[test]
fn pg_hba_does_not_let_us_in() {
    let server = Postgres::start_with(Options {
        hba: vec!["host all app_scram 127.0.0.1/32 reject".to_owned()],
        ..Options::default()
    });
    let (lines, _) = lines("", &(user("app_scram") + &database(server.port(), "")));
    let line = the(&lines, "login");
    assert_eq!(
        (line.level, failed(&lines)),
        (Level::Fail, vec!["login"]),
        "{lines:#?}"
    );
    assert_contains(&line.text, "28000");
    assert_hint(line, "host app app_scram");
}

#[test]
fn a_database_that_is_not_there() {
    let rest = user("app_scram") + &database(postgres::shared().port(), "dbname = \"nowhere\"");
    let (lines, _) = lines("", &rest);
    let line = the(&lines, "login");
    assert!(
        line.level == Level::Fail && line.text.contains("3D000"),
        "{line:?}"
    );
}

#[test]
fn tls_where_it_is_and_where_it_is_not() {
    let rest = user("app_scram") + &database(postgres::shared().port(), "");
    let (found, _) = lines("server_tls_sslmode = \"require\"", &rest);
    assert_eq!(failed(&found), ["tls"], "{found:#?}");
    let key = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).expect("a certificate");
    let server = Postgres::start_with(Options {
        certificate: Some((key.cert.pem(), key.signing_key.serialize_pem())),
        ..Options::default()
    });
    let rest = user("app_scram") + &database(server.port(), "");
    let (found, _) = lines("server_tls_sslmode = \"require\"", &rest);
    assert_eq!(failed(&found), [""; 0], "{found:#?}");
    assert!(the(&found, "tls").text.starts_with("TLSv1."), "{found:#?}");
}

#[test]
fn auth_query_finds_secrets_or_says_why_not() {
    let server = postgres::shared();
    let judged = |auth_user: &str| {
        let users = format!("[users.{auth_user}]\npassword = \"{PASSWORD}\"\n");
        let more = format!("auth_user = \"{auth_user}\"");
        let (lines, _) = lines("", &(users + &database(server.port(), &more)));
        the(&lines, "auth_query").clone()
    };
    let line = judged("app_scram");
    assert_eq!(line.level, Level::Fail);
    assert_contains(&line.text, "42501");
    assert_hint(&line, "SECURITY DEFINER");
    server.sql("create or replace function public.corun_secret(text) returns table(name text, secret text) language sql \
                security definer as 'select rolname::text, rolpassword from pg_authid where rolname = $1'");
    let users = user("app_scram");
    let more = "auth_user = \"app_scram\"\nauth_query = \"select * from public.corun_secret($1)\"";
    let (found, _) = lines("", &(users + &database(server.port(), more)));
    let line = the(&found, "auth_query");
    assert_eq!(line.level, Level::Ok, "{line:?}");
    assert!(!format!("{found:?}").contains("SCRAM-SHA-256$"));
    // The superuser may read the catalog, and has no password.
    assert_eq!(judged("postgres").level, Level::Warn);
}

#[test]
fn a_primary_and_its_replica() {
    let primary = Postgres::start();
    let replica = primary.replica();
    let group = |more: &str| {
        format!(
            "[users.app]\npassword = \"unused\"\n[databases.app]\nhost = \"127.0.0.1\"\nport = {}\nreplicas = [\"127.0.0.1:{}\"]\n{more}",
            primary.port(),
            replica.port()
        )
    };
    let (found, _) = lines("", &group(""));
    assert_eq!(failed(&found), [""; 0], "{found:#?}");
    let roles: Vec<&str> = found
        .iter()
        .filter(|line| line.check == "role")
        .map(|line| line.text.as_str())
        .collect();
    assert_eq!(roles, ["primary", "replica"]);
    assert_eq!(
        the(&found, "group").text,
        format!(
            "primary 127.0.0.1:{}, replicas: 127.0.0.1:{}",
            primary.port(),
            replica.port()
        )
    );
    assert!(
        found
            .iter()
            .filter(|line| line.check == "lag")
            .all(|line| line.level == Level::Ok),
        "{found:#?}"
    );
    // A replica alone takes no writes.
    let (found, worst) = lines(
        "",
        &("[users.app]\npassword = \"unused\"\n".to_owned() + &database(replica.port(), "")),
    );
    assert_eq!(
        (the(&found, "role").level, worst),
        (Level::Warn, Level::Warn),
        "{found:#?}"
    );
    drop(primary);
    let group = format!(
        "[users.app]\npassword = \"unused\"\n[databases.app]\nhost = \"127.0.0.1\"\nport = {}\nreplicas = [\"127.0.0.1:{}\"]\n",
        common::child::free_port(),
        replica.port()
    );
    let (found, _) = lines("", &group);
    assert_eq!(failed(&found), ["reachable", "group"], "{found:#?}");
}
