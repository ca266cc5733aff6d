//! PgBouncer's files as `corun.toml`: what is carried over, what is said of the rest, and that the result passes the check.

use std::path::Path;
use std::time::Duration;

use corun_pooler::config::import::{Imported, import_pgbouncer};
use corun_pooler::config::{AuthType, Config, PoolMode, Severity};
use corun_wire::tls::TlsProtocols;
use proptest::prelude::*;

const INI: &str = "\
; Main file
[databases]
; the shop
foodb =
bardb = host=localhost dbname=bazdb
forcedb = host=127.0.0.1 port=300 user=baz password='f''oo' client_encoding=UNICODE datestyle=ISO connect_query='SELECT 1'
nondefaultdb = pool_size=50 reserve_pool=10 pool_mode=statement
\"strange \"\"name\" = host=h1,h2 load_balance_hosts=disable
authdb = auth_user=bar auth_query='SELECT a, b FROM f($1)' query_wait_timeout=-1
* = host=testserver

[users]
user1 = pool_mode=transaction max_user_connections=10

[pgbouncer]
logfile = /var/log/pgbouncer.log
pidfile = /var/run/pgbouncer.pid
listen_addr = 127.0.0.1, ::1
listen_port = 6543
unix_socket_dir = /var/run/postgresql
unix_socket_mode = 0770
# any, trust, plain, md5, cert, hba, pam
auth_type = scram-sha-256
auth_file = userlist.txt
admin_users = user2, someadmin
pool_mode = transaction
server_lifetime = 1200.5
server_reset_query = DISCARD ALL
max_client_conn = 500
query_timeout = 0.25
client_tls_protocols = tlsv1.1,tlsv1.2
tcp_user_timeout = 5000
server_check_query = select 1
so_reuseport = 1
peer_id = 2
pkt_buf = 4096
ignore_startup_parameters = extra_float_digits

[peers]
1 = host=/var/run/pooler1
; that is this one
2 = host=pooler2 port=6433 pool_size=7
";

fn import(text: &str) -> Imported {
    import_pgbouncer(text, "dir/pgbouncer.ini", Path::new("/etc/pgbouncer"), None)
}

fn config(imported: &Imported) -> Config {
    match Config::parse(&imported.toml, "corun.toml") {
        Ok(loaded) => loaded.config,
        Err(error) => panic!("{error}\n{}", imported.toml),
    }
}

/// Findings that begin with each text, in this order, and no others.
fn assert_findings(imported: &Imported, expected: &[&str]) {
    let found: Vec<String> = imported
        .findings
        .iter()
        .map(|finding| format!("{}: {}", finding.line, finding.what))
        .collect();
    assert_eq!(found.len(), expected.len(), "{found:#?}");
    for (found, expected) in found.iter().zip(expected) {
        assert!(found.starts_with(expected), "{found:?} is not {expected:?}");
    }
    assert!(imported.findings.iter().all(|finding| finding.hint.is_some()));
}

#[test]
fn what_has_a_counterpart_is_carried_over() {
    let imported = import(INI);
    let config = config(&imported);
    let proxy = &config.proxy;
    assert_eq!(proxy.listen_addr, ["127.0.0.1", "::1"]);
    assert_eq!((proxy.listen_port, proxy.unix_socket_mode.0), (6543, 0o770));
    assert_eq!(proxy.auth_type, AuthType::Scram);
    let users = Path::new("/etc/pgbouncer/userlist.txt");
    assert_eq!(proxy.auth_file.as_deref(), Some(users));
    assert_eq!(proxy.admin_users, ["user2", "someadmin"]);
    assert_eq!(proxy.pool_mode, PoolMode::Transaction);
    assert_eq!(proxy.server_lifetime, Duration::from_millis(1_200_500));
    assert_eq!(proxy.query_timeout, Duration::from_millis(250));
    assert_eq!((proxy.tcp_user_timeout, proxy.so_reuseport), (5000, true));
    assert_eq!(proxy.peer_id, 2);
    let peers: Vec<_> = config
        .peers
        .iter()
        .map(|(id, peer)| (&**id, &*peer.host, peer.port, peer.pool_size))
        .collect();
    assert_eq!(
        peers,
        [
            ("1", "/var/run/pooler1", 6432, None),
            ("2", "pooler2", 6433, Some(7))
        ]
    );
    assert_eq!(proxy.client_tls_protocols, TlsProtocols::Tls12);
    assert_eq!(proxy.server_check_query, "select 1");

    let force = config.effective_database("forcedb", "someone").expect("there");
    assert_eq!((force.user.as_str(), force.hosts[0].port), ("baz", 300));
    let password = force.password.as_ref().map(|password| password.reveal());
    assert_eq!(password, Some("f'oo"));
    assert_eq!(force.parameters[0], ("client_encoding", "UNICODE".to_owned()));
    assert_eq!(force.connect_query.as_deref(), Some("SELECT 1"));
    let bar = config.effective_database("bardb", "user1").expect("there");
    assert_eq!((bar.dbname.as_str(), bar.max_user_connections), ("bazdb", 10));
    let other = config.effective_database("nondefaultdb", "x").expect("there");
    let sizes = (other.pool_size, other.reserve_pool_size);
    assert_eq!((sizes, other.pool_mode), ((50, 10), PoolMode::Statement));
    let strange = config.effective_database("strange \"name", "x").expect("there");
    assert_eq!(strange.hosts.len(), 2);
    let auth = config.effective_database("authdb", "x").expect("there");
    assert_eq!(auth.auth_query, "SELECT a, b FROM f($1)");
    assert_eq!(auth.query_wait_timeout, Duration::from_secs(120));
    let any = config.effective_database("whatever", "x").expect("there");
    assert_eq!(any.hosts[0].to_string(), "testserver:5432");
    assert!(any.wildcard);
    let foo = config.effective_database("foodb", "x").expect("there");
    assert_eq!(foo.hosts[0].to_string(), "/var/run/postgresql:5432");

    assert_findings(
        &imported,
        &[
            "16: `logfile` has no counterpart",
            "17: `pidfile` has no counterpart",
            "31: `client_tls_protocols`: TLS 1.0 and 1.1 are not spoken",
            "36: `pkt_buf` has no counterpart",
        ],
    );
    for line in [
        "# Made from pgbouncer.ini by `corun proxy import`.",
        "# the shop\n[databases.foodb]",
        "# any, trust, plain, md5, cert, hba, pam\nauth_type = \"scram-sha-256\"",
        "server_lifetime = \"1200500ms\"",
        "max_client_conn = 500",
        "listen_addr = [\"127.0.0.1\", \"::1\"]",
    ] {
        assert!(imported.toml.contains(line), "{line:?} not in\n{}", imported.toml);
    }
    assert!(!format!("{:?}", imported.findings).contains("f'oo"));
}

#[test]
fn what_cannot_be_carried_over_is_said() {
    let text = "\
stray = 1
[pgbouncer]
auth_type = pam
pool_mod = session
default_pool_size = 0
listen_port = many
frobnicate = 1
nonsense
%include missing.ini
unix_socket_mode = 750
[databases]
pgbouncer = host=a
a = host=a target_session_attrs=primary nonsense=1 port=0
b = host
[peers]
1 = host=a nonsense=1
";
    let imported = import(text);
    assert_findings(
        &imported,
        &[
            "8: neither a section nor `key = value`",
            "9: cannot include /etc/pgbouncer/missing.ini",
            "1: `stray` stands in []",
            "3: `auth_type = pam` has no counterpart",
            "4: `pool_mod` is not known",
            "5: `default_pool_size` takes a value from 1",
            "6: `listen_port` takes a whole number",
            "7: `frobnicate` is not known",
            "10: `unix_socket_mode = 750` was a decimal number",
            "12: no database can be called `pgbouncer`",
            "13: `target_session_attrs` has no counterpart",
            "13: `nonsense` is not known",
            "13: `port` of [databases.a] takes a value from 1",
            "14: `b`: the connection string is not made of",
            "16: `nonsense` is not known",
            // The check's word on the result.
            "3: no user could log in",
            "12: [peers.ID] are not used",
        ],
    );
    let hint = imported.findings[4].hint.as_deref();
    assert_eq!(hint, Some("did you mean `pool_mode`?"));
    // What PgBouncer would not start with, and what nobody could use.
    let errors: Vec<usize> = imported
        .findings
        .iter()
        .filter(|finding| finding.severity == Severity::Error)
        .map(|finding| finding.line)
        .collect();
    assert_eq!(errors, [8, 9, 1, 4, 5, 6, 7, 13, 13, 14, 16, 3]);
}

#[test]
fn included_files_and_userlist() {
    let folder = tempfile::tempdir().expect("a folder");
    for (name, text) in [
        ("more.ini", "pool_mode = transaction\n[databases]\nx = host=a\n"),
        ("loop.ini", "%include loop.ini\n"),
    ] {
        std::fs::write(folder.path().join(name), text).expect("written");
    }
    let text =
        "[pgbouncer]\npool_mode = session\n%include more.ini\ny = host=b\nx = host=c\n%include loop.ini\n";
    let imported = import_pgbouncer(text, "p.ini", folder.path(), Some(Path::new("/srv/userlist.txt")));
    assert_findings(&imported, &["1: %include is nested more than 10 deep"]);
    let config = config(&imported);
    // What comes later replaces what came before, and the section goes on behind the file.
    assert_eq!(config.proxy.pool_mode, PoolMode::Transaction);
    assert_eq!(config.databases.keys().collect::<Vec<_>>(), ["x", "y"]);
    assert_eq!(config.databases["x"].host[0].to_string(), "c");
    // PgBouncer's default is kept.
    assert_eq!(config.proxy.auth_type, AuthType::Md5);
    let users = Path::new("/srv/userlist.txt");
    assert_eq!(config.proxy.auth_file.as_deref(), Some(users));
}

#[test]
fn debians_own_file_passes() {
    // The settings of the package's file that are not commented out.
    let text = "[databases]\n\n[users]\n\n[pgbouncer]\nlogfile = /var/log/postgresql/pgbouncer.log\npidfile = /var/run/postgresql/pgbouncer.pid\n\
        listen_addr = localhost\nlisten_port = 6432\nunix_socket_dir = /var/run/postgresql\nauth_type = md5\nauth_file = /etc/pgbouncer/userlist.txt\n";
    let imported = import(text);
    assert_findings(
        &imported,
        &[
            "6: `logfile`",
            "7: `pidfile`",
            "0: there is no database to connect to",
        ],
    );
    assert_eq!(config(&imported).proxy.unix_socket_dir, "/var/run/postgresql");
}

proptest! {
    #[test]
    fn any_file_gives_a_result_that_is_toml(
        lines in prop::collection::vec(
            prop_oneof![
                Just("[databases]".to_owned()), Just("[users]".to_owned()), Just("[pgbouncer]".to_owned()),
                "[a-z_\"* ]{1,10} ?= ?[a-z0-9'\"\\\\= ]{0,20}",
                "(host|port|pool_mode|auth_type|auth_file|listen_addr|pool_size) ?= ?\\PC{0,10}",
                "[a-z]{1,3} = (host|port|password|user|pool_size)='?[a-z0-9'\"\\\\/]{0,8}'?",
                "[;#]\\PC{0,10}",
                "\\PC{0,20}",
            ],
            0..20,
        ),
    ) {
        let imported = import(&format!("[pgbouncer]\nauth_file = u\n{}", lines.join("\n")));
        // Only what the check may say of any file, never that it is not TOML or that a key or a value is unknown.
        for finding in imported.findings.iter().filter(|finding| finding.file == "corun.toml") {
            prop_assert!(
                !finding.what.contains("unknown") && !finding.what.contains(" takes ") && finding.hint.as_deref().is_none_or(|hint| !hint.contains("toml.io")),
                "{finding}\n{}", imported.toml
            );
        }
    }
}
