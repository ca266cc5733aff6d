//! psql.

use std::process::{Command, Output, Stdio};

use corun_server::front::FrontConfig;

use crate::Server;

/// Runs psql with these statements, each as its own `-c`.
pub fn psql(server: &Server, options: &str, statements: &[&str]) -> Output {
    let mut psql = Command::new("psql");
    psql.args(["-XAt", "-v", "ON_ERROR_STOP=1", "-v", "VERBOSITY=verbose"]);
    for statement in statements {
        psql.arg("-c").arg(statement);
    }
    let port = server.port();
    psql.arg(format!(
        "host=127.0.0.1 port={port} dbname=d connect_timeout=30 {options}"
    ));
    psql.env_clear().env("PATH", "/usr/bin:/bin:/usr/local/bin");
    psql.stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    psql.output().expect("psql is installed (scripts/bootstrap)")
}

/// What psql prints where it succeeds.
pub fn printed(server: &Server, options: &str, statements: &[&str]) -> String {
    let output = psql(server, options, statements);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{options} {statements:?}: {errors}");
    String::from_utf8(output.stdout).expect("UTF-8")
}

/// What psql says where it fails.
pub fn failed(server: &Server, options: &str, statements: &[&str]) -> String {
    let output = psql(server, options, statements);
    assert!(!output.status.success(), "{options} {statements:?}");
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn psql_runs_statements_one_and_several() {
    let server = Server::open(FrontConfig::default());
    let ann = "user=ann";
    assert_eq!(printed(&server, ann, &["select 1"]), "1\n");
    assert_eq!(printed(&server, ann, &["select 1; who; select 1"]), "1\nann\n1\n");
    assert_eq!(
        printed(&server, ann, &["begin", "who", "commit"]),
        "BEGIN\nann\nCOMMIT\n"
    );
    assert_eq!(printed(&server, ann, &["", "who"]), "ann\n");
    let told = failed(&server, ann, &["select x"]);
    assert!(
        told.contains("ERROR:  42601: syntax error") && told.contains("LINE 1: select x"),
        "{told}"
    );
    // What ran before the mistake was told.
    let output = psql(&server, ann, &["select 1; nonsense; select 1"]);
    assert_eq!(String::from_utf8_lossy(&output.stdout), "1\n");
}

#[test]
fn many_rows_notices_settings_and_copies() {
    let server = Server::open(FrontConfig::default());
    let rows = printed(&server, "user=ann", &["rows 100000"]);
    assert_eq!(rows.lines().count(), 100_000);
    assert!(rows.ends_with(&format!("100000|{}\n", "x".repeat(100))));
    let output = psql(&server, "user=ann", &["notice"]);
    assert!(String::from_utf8_lossy(&output.stderr).contains("NOTICE:  00000: take note"));
    assert_eq!(printed(&server, "user=ann", &["copy", "set"]), "1\n2\nSET\n");
}

#[test]
fn the_unix_socket() {
    let server = Server::open(FrontConfig::default());
    let folder = server.folder().display().to_string();
    let over = format!("user=ann host={folder}");
    assert_eq!(printed(&server, &over, &["who"]), "ann\n");
}

#[test]
fn several_loops() {
    let config = FrontConfig {
        loops: 3,
        ..FrontConfig::default()
    };
    let server = Server::open(config);
    for _ in 0..5 {
        assert_eq!(printed(&server, "user=ann", &["select 1"]), "1\n");
    }
}

#[test]
fn over_io_uring() {
    if corun_net::reactor::Uring::new().is_err() {
        println!("skipped: this kernel has no io_uring");
        return;
    }
    let config = FrontConfig {
        io: corun_server::front::Io::IoUring,
        loops: 2,
        ..FrontConfig::default()
    };
    let server = Server::open(config);
    assert_eq!(
        printed(&server, "user=ann", &["rows 20000"]).lines().count(),
        20_000
    );
    assert_eq!(printed(&server, "user=ann", &["who"]), "ann\n");
}
