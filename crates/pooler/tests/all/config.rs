//! The configuration file: what is read, what is refused and how, what holds for one database and user.

use crate::common::assert_contains;
use crate::common::cases::cases;
use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

use corun_pooler::config::{
    AuthType, AutoCount, AutoPrepare, Bytes, Config, ConfigError, Endpoint, FileMode, Finding, Host, Loaded,
    PoolMode, Raw, Section, Setting, Severity, Switch, keys,
};
use corun_wire::tls::TlsMode;
use proptest::prelude::*;

/// The least a file needs.
const USERS: &str = "[users.alice]\npassword = \"wonderland\"\n";

fn good(text: &str) -> Config {
    let Loaded { config, warnings } = loaded(text);
    assert_eq!(warnings, [], "unexpected warnings");
    config
}

fn loaded(text: &str) -> Loaded {
    match Config::parse(text, "corun.toml") {
        Ok(loaded) => loaded,
        Err(error) => panic!("{error}\nin:\n{text}"),
    }
}

fn wrong(text: &str) -> Vec<Finding> {
    match Config::parse(text, "corun.toml") {
        Err(ConfigError::Wrong { findings }) => findings,
        Err(error) => panic!("{error}"),
        Ok(_) => panic!("accepted:\n{text}"),
    }
}

/// Severity, line and text of each finding.
fn brief(findings: &[Finding]) -> Vec<String> {
    findings
        .iter()
        .map(|finding| {
            let hint = finding.hint.as_deref().unwrap_or("-");
            format!("{}:{} {} | {hint}", finding.line, finding.column, finding.what)
        })
        .collect()
}

#[test]
fn every_kind_of_value_is_read() {
    let config = good(
        r#"
        [proxy]
        listen_addr = ["127.0.0.1", "::1"]
        listen_port = 7000
        pool_mode = "transaction"
        auth_type = "md5"
        server_idle_timeout = 2.5
        server_lifetime = "90min"
        query_wait_timeout = "250ms"
        max_packet_size = "16MB"
        ignore_startup_parameters = "extra_float_digits, search_path"
        unix_socket_mode = "0770"
        log_stats = 0

        [databases.shop]
        host = "db1"
        port = 5433
        user = "shop"
        password = "s3cret"
        replicas = ["db2", "db3:5544", "[2001:db8::1]:5432", "/run/pg:5999"]
        read_write_split = true
        cohorts = "off"

        [databases."*"]
        host = "/run/postgresql"

        [users.alice]
        pool_size = 7

        [users."Bob Q"]
        password = "SCRAM-SHA-256$4096:c2FsdA==$a:b"

        [corun]
        event_loops = 4
        auto_prepare = "exact"
        cohorts = true
        prometheus_listen = "127.0.0.1:9127"
        "#,
    );
    assert_eq!(config.proxy.listen_addr, ["127.0.0.1", "::1"]);
    assert_eq!(config.proxy.listen_port, 7000);
    assert_eq!(config.proxy.pool_mode, PoolMode::Transaction);
    assert_eq!(config.proxy.auth_type, AuthType::Md5);
    assert_eq!(config.proxy.server_idle_timeout, Duration::from_millis(2500));
    assert_eq!(config.proxy.server_lifetime, Duration::from_secs(5400));
    assert_eq!(config.proxy.query_wait_timeout, Duration::from_millis(250));
    assert_eq!(config.proxy.max_packet_size, Bytes(16 << 20));
    assert_eq!(
        config.proxy.ignore_startup_parameters,
        ["extra_float_digits", "search_path"]
    );
    assert_eq!(config.proxy.unix_socket_mode, FileMode(0o770));
    assert!(!config.proxy.log_stats);
    assert_eq!(config.corun.event_loops, AutoCount::Count(4));
    assert_eq!(config.corun.auto_prepare, AutoPrepare::Exact);
    assert_eq!(config.corun.cohorts, Switch::On);
    assert_eq!(config.corun.prometheus_listen, "127.0.0.1:9127".parse().ok());
    assert_eq!(
        config.users["Bob Q"].password.as_ref().map(|p| p.reveal()),
        Some("SCRAM-SHA-256$4096:c2FsdA==$a:b")
    );

    let shop = config.effective_database("shop", "alice").expect("there");
    assert_eq!(
        shop.hosts,
        [Endpoint {
            host: Host::Name("db1".to_owned()),
            port: 5433
        }]
    );
    let replicas: Vec<String> = shop.replicas.iter().map(Endpoint::to_string).collect();
    assert_eq!(
        replicas,
        ["db2:5433", "db3:5544", "[2001:db8::1]:5432", "/run/pg:5999"]
    );
    assert_eq!(
        shop.replicas[3].socket(),
        Some(PathBuf::from("/run/pg/.s.PGSQL.5999"))
    );
}

#[test]
fn everything_wrong_is_said_at_once_with_its_place() {
    let text = "\
[proxy]
pool_mod = \"session\"
listen_port = 0
pool_mode = \"sesion\"
query_timeout = \"soon\"
logfile = \"/tmp/x\"
pool_size = 3
cohorts = \"on\"

[pgbouncer]
x = 1

[database.shop]
host = \"a\"

[databases.shop]
host = \"a b\"
port = \"x\"
auth_query = \"select 1\"

[databases.pgbouncer]
[databases.corun]
[users]
carl = \"x\"
";
    let findings = wrong(text);
    // Nobody can be found by such a query, which may be meant.
    let doubtful = findings
        .iter()
        .filter(|finding| finding.severity != Severity::Error);
    assert_eq!(doubtful.map(|finding| finding.line).collect::<Vec<_>>(), [19]);
    let expected = [
        "2:1 unknown key `pool_mod` in [proxy] | did you mean `pool_mode`?",
        "3:15 `listen_port` takes a value from 1 to 65535",
        "4:13 `pool_mode` takes one of \"session\", \"transaction\", \"statement\"",
        "5:17 `query_timeout` takes a number of seconds, or a duration",
        "6:1 unknown key `logfile` in [proxy] | log lines go to the standard error stream",
        "7:1 unknown key `pool_size` in [proxy] | the key belongs below [databases.NAME] or [users.NAME]",
        "8:1 unknown key `cohorts` in [proxy] | the key belongs below [databases.NAME] or [corun]",
        "10:2 unknown table [pgbouncer] | corun calls this table [proxy]",
        "13:2 unknown table [database] | did you mean [databases]?",
        "17:8 `host` takes a host name, an IP address, or the folder of a Unix socket",
        "18:8 `port` takes a whole number from 0 to 65535",
        "19:1 `auth_query` has no `$1`",
        "21:12 no database can be called `pgbouncer`",
        "22:12 no database can be called `corun` | clients reach the console under this name",
        "24:1 `users.carl` is not a table",
    ];
    let found = brief(&findings);
    for line in expected {
        assert!(
            found.iter().any(|finding| finding.starts_with(line)),
            "no {line:?} in\n{found:#?}"
        );
    }
    // And that nobody can log in.
    assert_eq!(found.len(), expected.len() + 1, "{found:#?}");
    let lines: Vec<usize> = findings.iter().map(|finding| finding.line).collect();
    assert!(lines.is_sorted(), "{lines:?}");
    let first = findings.iter().find(|finding| finding.line == 2).expect("there");
    assert_eq!(
        first.to_string(),
        "corun.toml:2:1: error: unknown key `pool_mod` in [proxy]\nhint: did you mean `pool_mode`?"
    );
}

#[test]
fn text_that_is_not_toml_does_not_hide_other_errors() {
    let text = format!("[proxy]\npool_mode = session\nlisten_port = 70000\nlisten_port = 5\n{USERS}");
    let found = brief(&wrong(&text));
    let found = format!("\n{}\n", found.join("\n"));
    // The second is a key that stands there twice.
    for part in ["\n2:", "\n4:", "listen_port` takes"] {
        assert_contains(&found, part);
    }
}

const CONTRADICTIONS: &str = r#"
    [proxy]¶unix_socket_dir = ""¶auth_file = "u" => nobody could connect
    [proxy]¶unix_socket_dir = "tmp"¶auth_file = "u" => not an absolute path
    [proxy]¶pool_mode = "session" => no user could log in
    [proxy]¶auth_type = "any"¶[databases.a] => needs a `user`
    [proxy]¶auth_type = "hba"¶auth_file = "u" => needs `auth_hba_file`
    [proxy]¶auth_type = "cert"¶auth_file = "u" => would let anybody in
    [proxy]¶client_tls_sslmode = "require"¶auth_file = "u" => needs `client_tls_key_file`
    [proxy]¶server_tls_sslmode = "verify-full"¶auth_file = "u" => needs `server_tls_ca_file`
    [proxy]¶server_tls_key_file = "k"¶auth_file = "u" => go together
    [proxy]¶unix_socket_dir = ""¶listen_addr = "*"¶auth_file = "u"¶[databases.a] => has no `host`
"#;

#[test]
fn settings_that_contradict_each_other_are_refused() {
    for (text, expected) in cases(CONTRADICTIONS) {
        let found = brief(&wrong(&text));
        assert_contains(&found.join("\n"), expected);
    }
}

const DOUBTFUL: &str = r#"
     => no database
    [databases.a]¶password = "x" => `password` without `user`
    [databases.a]¶min_pool_size = 30 => more than the pool's 20
    [databases.a]¶max_db_connections = 5 => never fit
    [databases.a]¶read_write_split = true => no `replicas`
    [databases.a]¶replicas = ["b"] => get no reads
    [databases."*"]¶dbname = "x" => this one database
    [databases.a]¶[proxy]¶auth_type = "plain" => clear text
    [databases.a]¶[proxy]¶auth_type = "trust"¶listen_addr = "*" => lets everybody in
    [databases.a]¶[proxy]¶auth_hba_file = "x" => is not used
    [databases.a]¶auth_query = "select 1" => has no `$1`
    [databases.a]¶[proxy]¶auth_dbname = "pgbouncer" => cannot use the reserved "pgbouncer" database
    [databases.a]¶[corun]¶heavy_queue = "on"¶heavy_queue_min = "1ms" => run past the queue
    [databases.a]¶heavy_queue = "auto"¶[corun]¶heavy_queue_min = "100us" => is 100µs
"#;

#[test]
fn doubtful_settings_are_warned_of() {
    for (text, expected) in cases(DOUBTFUL) {
        let warnings = loaded(&format!("{text}\n{USERS}")).warnings;
        assert_eq!(warnings.len(), 1, "{text}: {warnings:#?}");
        assert_eq!(warnings[0].severity, Severity::Warning);
        assert_contains(&warnings[0].what, expected);
    }
}

#[test]
fn what_holds_comes_from_user_then_database_then_proxy() {
    let config = good(
        r#"
        [proxy]
        default_pool_size = 11
        min_pool_size = 2
        query_timeout = 9
        query_wait_timeout = 8
        max_user_client_connections = 3
        auth_file = "users.txt"
        auth_user = "asker"
        [corun]
        auto_prepare = "exact"
        [databases.shop]
        host = "10.0.0.1"
        user = "owner"
        password = "p1"
        pool_size = 5
        query_wait_timeout = 7
        auto_prepare = "off"
        timezone = "UTC"
        [databases."*"]
        [users.owner]
        pool_mode = "transaction"
        query_timeout = 1
        [users.alice]
        pool_mode = "statement"
        query_timeout = 4
        query_wait_timeout = 6
        "#,
    );
    let shop = config.effective_database("shop", "alice").expect("there");
    // The pool is the server's user's, the limits are the client's.
    assert_eq!((shop.user.as_str(), shop.forced_user), ("owner", true));
    assert_eq!(shop.password.as_ref().map(|p| p.reveal()), Some("p1"));
    assert_eq!(shop.pool_mode, PoolMode::Transaction);
    assert_eq!((shop.pool_size, shop.min_pool_size), (5, 2));
    assert_eq!(shop.query_timeout, Duration::from_secs(4));
    assert_eq!(shop.query_wait_timeout, Duration::from_secs(6));
    assert_eq!(shop.max_user_client_connections, 3);
    assert_eq!(shop.auto_prepare, AutoPrepare::Off);
    assert_eq!(shop.auth_user.as_deref(), Some("asker"));
    assert_eq!(shop.parameters, [("timezone", "UTC".to_owned())]);
    assert_eq!(shop.hosts[0].host, Host::Ip(IpAddr::from([10, 0, 0, 1])));
    assert!(!shop.wildcard);

    let other = config.effective_database("shop", "bob").expect("there");
    assert_eq!(other.query_wait_timeout, Duration::from_secs(7));
    assert_eq!(other.query_timeout, Duration::from_secs(9));

    let any = config.effective_database("library", "alice").expect("wildcard");
    assert_eq!((any.dbname.as_str(), any.user.as_str()), ("library", "alice"));
    assert_eq!((any.pool_mode, any.pool_size), (PoolMode::Statement, 11));
    assert_eq!(any.auto_prepare, AutoPrepare::Exact);
    assert!(any.wildcard && !any.forced_user);
    assert_eq!(any.hosts[0].socket(), Some(PathBuf::from("/tmp/.s.PGSQL.5432")));

    assert_eq!(config.effective_database("pgbouncer", "alice"), None);
    assert_eq!(config.effective_database("*", "alice"), None);
    let strict = good(&format!("[databases.a]\n{USERS}"));
    assert_eq!(strict.effective_database("b", "alice"), None);
}

#[test]
fn connections_move_when_they_lead_elsewhere_and_not_for_limits() {
    let of = |settings: &str| {
        let config = good(&format!(
            "[databases.a]\nhost = \"h\"\nuser = \"u\"\n{settings}\n{USERS}"
        ));
        config.effective_database("a", "alice").expect("there")
    };
    let plain = of("");
    assert!(!plain.moves(&of("")));
    for same in [
        "pool_size = 3",
        "pool_mode = \"statement\"",
        "query_wait_timeout = 1",
    ] {
        assert!(!of(same).moves(&plain), "{same}");
    }
    for other in [
        "port = 5433",
        "dbname = \"b\"",
        "password = \"p\"",
        "connect_query = \"select 1\"",
        "timezone = \"UTC\"",
        "replicas = [\"r\"]\nread_write_split = true",
    ] {
        assert!(of(other).moves(&plain), "{other}");
    }
}

#[test]
fn secrets_are_never_shown() {
    let config =
        good("[databases.a]\nuser = \"u\"\npassword = \"hush-1\"\n[users.b]\npassword = \"hush-2\"\n");
    let effective = config.effective_database("a", "b").expect("there");
    let shown = format!(
        "{config:?} {effective:?} {:?} {:?} {}",
        config.databases["a"].show(),
        config.users["b"].show(),
        effective.password.as_ref().expect("there")
    );
    assert!(!shown.contains("hush"), "{shown}");
    assert!(shown.contains("****"));
    // Neither when the value is wrong.
    for text in [
        "[users.b]\npassword = 8675309",
        "[users.b]\npassword = hush",
        "[users.b]\npassword = \"hush",
    ] {
        let findings = wrong(text);
        let shown = format!("{findings:?}");
        assert!(!shown.contains("hush") && !shown.contains("8675309"), "{shown}");
    }
}

#[test]
fn set_changes_what_may_change_and_nothing_else() {
    let mut config = good(&format!("[databases.a]\n{USERS}"));
    let before = config.clone();
    config.set("query_timeout", "3s").expect("fits");
    assert_eq!(config.proxy.query_timeout, Duration::from_secs(3));
    config.set("cohort_length_max", "5").expect("fits");
    assert_eq!(config.corun.cohort_length_max, 5);
    config.set("query_timeout", "0").expect("fits");
    config.set("cohort_length_max", "16").expect("fits");
    for (key, value, expected) in [
        ("query_timeot", "1", "did you mean query_timeout?"),
        ("listen_port", "1", "restart"),
        ("pool_mode", "x", "one of \"session\""),
        ("default_pool_size", "0", "from 1 to"),
        ("auth_type", "hba", "needs `auth_hba_file`"),
        ("client_tls_sslmode", "require", "needs `client_tls_key_file`"),
    ] {
        let error = config.set(key, value).expect_err(key);
        assert!(error.contains(expected), "{key}: {error}");
    }
    assert_eq!(config, before);

    let mut other = before.clone();
    other.proxy.listen_port = 1;
    other.proxy.query_timeout = Duration::from_secs(1);
    other.corun.pin = true;
    assert_eq!(before.restart_needed(&other), ["listen_port", "pin"]);
    assert_eq!(before.restart_needed(&before), Vec::<&str>::new());
}

#[test]
fn load_resolves_paths_and_looks_at_the_files() {
    use std::os::unix::fs::PermissionsExt;
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("corun.toml");
    std::fs::write(
        &file,
        "[proxy]\nauth_file = \"users.txt\"\nauth_type = \"hba\"\nauth_hba_file = \"hba\"\n[databases.a]\n",
    )
    .expect("written");
    std::fs::write(folder.path().join("users.txt"), "\"a\" \"b\"\n").expect("written");
    let error = Config::load(&file).expect_err("no hba file").to_string();
    assert_contains(&error, "corun.toml:4:1: error: `auth_hba_file`: cannot read");
    std::fs::write(folder.path().join("hba"), "").expect("written");
    let loaded = Config::load(&file).expect("loads");
    assert_eq!(loaded.warnings, []);
    assert_eq!(
        loaded.config.proxy.auth_file,
        Some(folder.path().join("users.txt"))
    );

    std::fs::write(&file, format!("[databases.a]\n{USERS}")).expect("written");
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o644)).expect("set");
    let warnings = Config::load(&file).expect("loads").warnings;
    assert_eq!(warnings.len(), 1);
    assert_contains(&warnings[0].what, "every user of this machine can read the file");
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o640)).expect("set");
    assert_eq!(Config::load(&file).expect("loads").warnings, []);

    let missing = Config::load(&folder.path().join("nothing")).expect_err("missing");
    assert!(matches!(missing, ConfigError::Unreadable { .. }));
    assert_contains(&missing.to_string(), "cannot read");
}

#[test]
fn each_default_is_a_value_its_key_accepts() {
    let mut tried = 0;
    for key in keys() {
        let text = Raw::Text(key.default.clone());
        let mut config = Config::default();
        let name = "a".to_owned();
        let outcome = match key.section {
            Section::Proxy => config.proxy.set(key.name, &text),
            Section::Corun => config.corun.set(key.name, &text),
            Section::Database => config.databases.entry(name).or_default().set(key.name, &text),
            Section::User => config.users.entry(name).or_default().set(key.name, &text),
            Section::Range => config.ranges.entry(name).or_default().set(key.name, &text),
            Section::Split => config.splits.entry(name).or_default().set(key.name, &text),
            Section::Peer => config.peers.entry(name).or_default().set(key.name, &text),
        };
        assert_eq!(outcome, Some(Ok(())), "{key:?}");
        let plain = Config::default();
        assert_eq!(config.proxy, plain.proxy, "{key:?}");
        assert_eq!(config.corun, plain.corun, "{key:?}");
        tried += 1;
    }
    assert!(tried > 120, "{tried} keys");
}

#[test]
fn durations_and_sizes() {
    let time = |text: &str| Duration::read(&Raw::Text(text.to_owned()));
    for (text, seconds) in [
        ("5", 5.0),
        ("5s", 5.0),
        ("1.5 ms", 0.0015),
        ("2min", 120.0),
        ("1d", 86_400.0),
    ] {
        assert_eq!(time(text), Ok(Duration::from_secs_f64(seconds)), "{text}");
    }
    for bad in ["", "s", "5 weeks", "-1", "nan", "inf", "1e300", "5m"] {
        assert!(time(bad).is_err(), "{bad}");
    }
    assert!(Duration::read(&Raw::Float(f64::NAN)).is_err());
    let size = |text: &str| Bytes::read(&Raw::Text(text.to_owned()));
    assert_eq!(size("16MB"), Ok(Bytes(16 << 20)));
    assert_eq!(size("8 kB"), Ok(Bytes(8192)));
    assert_eq!(size("512"), Ok(Bytes(512)));
    for bad in ["", "MB", "16 XB", "-1", "1.5MB", "99999999999999TB"] {
        assert!(size(bad).is_err(), "{bad}");
    }
    assert!(Bytes::read(&Raw::Integer(-1)).is_err());
    assert_eq!(
        TlsMode::read(&Raw::Text("Verify-Full".to_owned())),
        Ok(TlsMode::VerifyFull)
    );
}

proptest! {
    #[test]
    fn what_is_shown_reads_back(micros in 0u64..10_000_000_000, bytes in any::<u64>(), port in 1u16.., name in "[a-z][a-z0-9.-]{0,20}") {
        let time = Duration::from_micros(micros);
        prop_assert_eq!(Duration::read(&Raw::Text(time.show())), Ok(time));
        let size = Bytes(bytes >> 1);
        prop_assert_eq!(Bytes::read(&Raw::Text(size.show())), Ok(size));
        let host = corun_pooler::config::HostPort::parse(&format!("{name}:{port}")).expect("a host");
        prop_assert_eq!(host.to_string(), format!("{name}:{port}"));
    }

    #[test]
    fn no_text_makes_the_reader_panic(text in "(\\[(proxy|databases|users|corun)(\\.[a-z*\"]{1,3})?\\]\n|[a-z_]{1,12} ?= ?[\"'a-z0-9.\\[\\]{}]{0,8}\n|\\PC{0,12}\n){0,12}") {
        let _ = Config::parse(&text, "x");
    }
}

/// Run with CORUN_WRITE_DOCS=1 to bring the page up to date.
#[test]
fn the_documentation_lists_every_key() {
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/src/pooler/reference.md");
    let tables = corun_pooler::config::documentation();
    let text = std::fs::read_to_string(page).expect("the page");
    let start = text.find("## `[proxy]`").expect("the tables");
    if std::env::var_os("CORUN_WRITE_DOCS").is_some() {
        std::fs::write(page, format!("{}{tables}", &text[..start])).expect("written");
    } else {
        assert!(
            text[start..] == tables,
            "the page is not what the tables say: run this test with CORUN_WRITE_DOCS=1"
        );
    }
    for key in keys() {
        assert!(tables.contains(&format!("| `{}` |", key.name)), "{}", key.name);
        // A bar or a line break would end its cell.
        let cells = format!("{}{}{}", key.kind, key.default, key.meaning);
        assert!(!cells.contains(['|', '\n']), "{key:?}");
        assert!(key.meaning.ends_with(['.', '`', ')']), "{key:?}");
    }
}

const WRONG_TABLES: &str = r#"
    [ranges.a]¶columns = ["t.a"]¶splits = [1] => `database` is missing
    [ranges.a]¶database = "shp"¶columns = ["t.a"]¶splits = [1] => there is no database `shp`
    [ranges.a]¶database = "shop"¶splits = [1] => `columns` is missing
    [ranges.a]¶database = "shop"¶columns = ["a"]¶splits = [1] => names no column
    [ranges.a]¶database = "shop"¶columns = ["t.a"] => say where to cut
    [ranges.a]¶database = "shop"¶columns = ["t.a"]¶splits = [2, 1] => ascend
    [ranges.a]¶database = "shop"¶columns = ["t.a"]¶minimum = 5¶maximum = 5 => not below
    [ranges.a]¶database = "shop"¶columns = ["t.a"]¶key_type = "date"¶splits = ["x"] => no key of type date
    [ranges.a]¶database = "shop"¶columns = ["t.a"]¶splits = [1]¶[ranges.b]¶database = "shop"¶columns = ["t.a"]¶splits = [1] => stands in [ranges.a] as well
    [ranges.a]¶databse = "shop" => unknown key `databse`
    [splits.a]¶database = "shop"¶key = "t.a"¶splits = [1] => `query` is missing
    [splits.a]¶database = "shop"¶query = "select 1"¶splits = [1] => names no column
    [splits.a]¶database = "shop"¶query = "select 1"¶key = "t.a" => say where to cut
    [peers.a]¶host = "h" => `a` is no number from 1 to 65535
    [peers.01]¶host = "h" => `01` is no number from 1 to 65535
    [peers.65536]¶host = "h" => `65536` is no number from 1 to 65535
    [peers.1]¶port = 6432 => `host` is missing
    [peers.1]¶host = "a b" => `host` takes a host name
    [peers.1]¶host = "h"¶pool_size = 0 => `pool_size` takes a value from 1
"#;

#[test]
fn ranges_and_splits_say_what_is_wrong_with_them() {
    let parse = |tables: &str| {
        let text = format!(
            "[proxy]\nauth_type = \"any\"\n[databases.shop]\nhost = \"h\"\nuser = \"u\"\npool_mode = \"transaction\"\n{tables}"
        );
        Config::parse(&text, "corun.toml")
    };
    let good = parse(
        "[ranges.customer]\ndatabase = \"shop\"\ncolumns = [\"customer.c_id\", \"public.orders.o_c_id\"]\nminimum = 1\nmaximum = 1000\n\
         [ranges.day]\ndatabase = \"shop\"\ncolumns = [\"orders.o_date\"]\nkey_type = \"date\"\nsplits = [\"2026-01-01\", \"2026-07-01\"]\n\
         [splits.best]\ndatabase = \"shop\"\nquery = \"select 1\"\nkey = \"item.i_id\"\nsplits = [100, 200]\n",
    )
    .expect("a configuration");
    let of_ranges = |found: &Finding| found.what.contains("range");
    assert!(!good.warnings.iter().any(of_ranges), "{:?}", good.warnings);
    assert_eq!(good.config.ranges["day"].splits.len(), 2);
    for (tables, what) in cases(WRONG_TABLES) {
        let error = parse(&tables).expect_err(&tables).to_string();
        assert!(error.contains(what), "{tables}: {error}");
    }
}
