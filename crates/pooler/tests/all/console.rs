//! The console of a running proxy in front of a real server: what it shows, and what its orders do.

use crate::common;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::time::Duration;

use crate::common::postgres;
use corun_pooler::{ConfigFiles, Pooler};
use tokio_postgres::{Client, SimpleQueryMessage};

use crate::common::assert_contains;
use crate::common::driver::{block_on, connect};
use crate::common::raw::{Login, Raw};

/// A running proxy with its file.
struct Console {
    proxy: Pooler,
    file: PathBuf,
    database: String,
    _folder: tempfile::TempDir,
}

/// Starts it; `settings` are more lines of `[proxy]`, and tables behind it.
fn start(settings: &str) -> Console {
    let server = postgres::shared();
    let database = postgres::new_database();
    let folder = tempfile::tempdir().expect("a folder");
    fs::write(
        folder.path().join("users.txt"),
        "\"app\" \"\"\n\"boss\" \"secret\"\n\"guest\" \"secret\"\n",
    )
    .expect("written");
    let file = folder.path().join("corun.toml");
    let port = common::child::free_port();
    let settings = settings.replace("{server}", &server.port().to_string());
    let auth = match settings.contains("auth_type") {
        true => "",
        false => "auth_type = \"trust\"\n",
    };
    fs::write(
        &file,
        format!(
            "[proxy]\nlisten_addr = \"127.0.0.1\"\nlisten_port = {port}\nunix_socket_dir = \"\"\n{auth}\
             auth_file = \"users.txt\"\npool_mode = \"transaction\"\nadmin_users = [\"boss\"]\nstats_users = [\"guest\"]\n{settings}\n\
             [databases.shop]\nhost = \"127.0.0.1\"\nport = {}\ndbname = \"{database}\"\n\
             [corun]\nevent_loops = 2\n",
            server.port()
        ),
    )
    .expect("written");
    let (files, _) = ConfigFiles::load(&file).expect("a configuration");
    let proxy = Pooler::start(files).expect("started");
    Console {
        proxy,
        file,
        database,
        _folder: folder,
    }
}

impl Console {
    fn login(&self, user: &str, database: &str) -> Login {
        let port = self.proxy.addresses()[0].port();
        Login::new("127.0.0.1", port, user)
            .database(database)
            .parameter("application_name", "test")
    }

    async fn client(&self, user: &str, database: &str) -> Client {
        connect(&self.login(user, database)).await.expect("connected")
    }

    async fn console(&self) -> Client {
        self.client("boss", "pgbouncer").await
    }

    /// The console, message by message.
    fn raw(&self) -> Raw {
        let login = self.login("boss", "pgbouncer");
        Raw::connect(&login).expect("connected")
    }
}

/// Runs a command that must succeed.
async fn run(client: &Client, command: &str) -> Vec<SimpleQueryMessage> {
    let done = client.simple_query(command).await;
    done.unwrap_or_else(|error| panic!("{command}: {error}"))
}

/// The column of every row.
async fn column(console: &Client, command: &str, column: &str) -> Vec<String> {
    let messages = run(console, command).await;
    messages
        .iter()
        .filter_map(|message| match message {
            SimpleQueryMessage::Row(row) => Some(row.get(column).unwrap_or_default().to_owned()),
            _ => None,
        })
        .collect()
}

/// The column of the row whose `key` is `value`.
async fn cell(console: &Client, command: &str, (key, value): (&str, &str), wanted: &str) -> String {
    let keys = column(console, command, key).await;
    let at = keys.iter().position(|found| found == value);
    let at = at.unwrap_or_else(|| panic!("{command}: no {key} {value} in {keys:?}"));
    column(console, command, wanted).await.swap_remove(at)
}

#[test]
fn every_table_is_shown_and_says_what_is_there() {
    // Whatever the pooler asks the server itself goes over the same connection.
    let running = start("default_pool_size = 1");
    block_on(async {
        let app = running.client("app", "shop").await;
        let row = app.query_one("select 6 * 7", &[]).await.expect("a row");
        assert_eq!(row.get::<_, i32>(0), 42);
        let console = running.console().await;
        for (_, word) in corun_pooler::admin::SHOWS {
            let outcome = console.simple_query(&format!("SHOW {word}")).await;
            let extended = console.query(&format!("SHOW {word}"), &[]).await;
            outcome.unwrap_or_else(|error| panic!("{word}: {error}"));
            extended.unwrap_or_else(|error| panic!("{word}: {error}"));
        }
        for (show, key, value, column, expected) in [
            ("SHOW POOLS", "database", "shop", "cl_active", "1"),
            ("SHOW CLIENTS", "user", "app", "application_name", "test"),
            ("SHOW SERVERS", "database", "shop", "user", "app"),
            ("SHOW DATABASES", "name", "shop", "database", &running.database),
            (
                "SHOW DATABASES",
                "name",
                "shop",
                "current_client_connections",
                "1",
            ),
            ("SHOW LISTS", "list", "used_clients", "items", "2"),
            ("SHOW HOSTS", "database", "shop", "servers", "1"),
        ] {
            let found = cell(&console, show, (key, value), column).await;
            assert_eq!(found, expected, "{show}: {column}");
        }
        let counted = cell(&console, "SHOW STATS", ("database", "shop"), "total_query_count").await;
        assert_ne!(counted, "0");
        assert_eq!(column(&console, "SHOW CORES", "core").await, ["0", "1"]);
        // The pid is the backend's.
        let pid = cell(&console, "SHOW SERVERS", ("database", "shop"), "remote_pid").await;
        let row = app.query_one("select pg_backend_pid()", &[]).await;
        let row = row.expect("a row");
        assert_eq!(row.get::<_, i32>(0).to_string(), pid);
    });
}

/// PgBouncer 1.24's columns.
const COLUMNS: &[(&str, &str)] = &[
    (
        "USERS",
        "name pool_size reserve_pool_size pool_mode max_user_connections current_connections max_user_client_connections \
         current_client_connections",
    ),
    ("PEERS", "peer_id host port pool_size"),
    (
        "PEER_POOLS",
        "peer_id cl_active_cancel_req cl_waiting_cancel_req sv_active_cancel sv_login",
    ),
    ("DNS_HOSTS", "hostname ttl addrs"),
    ("DNS_ZONES", "zonename serial count"),
    ("SOCKETS", SOCKETS),
    ("ACTIVE_SOCKETS", SOCKETS),
    ("STATE", "key value"),
    ("MEM", "name size used free memtotal"),
    ("LISTS", "list items"),
    ("TOTALS", "name value"),
    (
        "STATS_TOTALS",
        "database server_assignment_count xact_count query_count bytes_received bytes_sent xact_time query_time wait_time \
         client_parse_count server_parse_count bind_count",
    ),
    (
        "STATS_AVERAGES",
        "database server_assignment_count xact_count query_count bytes_received bytes_sent xact_time query_time wait_time \
         avg_client_parse_count avg_server_parse_count avg_bind_count",
    ),
];

const SOCKETS: &str = "type user database replication state addr port local_addr local_port connect_time request_time wait wait_us \
     close_needed ptr link remote_pid tls application_name prepared_statements id recv_pos pkt_pos pkt_remain send_pos send_remain \
     pkt_avail send_avail";

#[test]
fn tables_have_the_columns_of_pgbouncer() {
    let running = start("");
    let mut console = running.raw();
    for (word, columns) in COLUMNS {
        console.send_query(&format!("SHOW {word}"));
        let messages = console.until_ready();
        let described = messages.iter().find(|message| message.tag == b'T');
        let found = described
            .unwrap_or_else(|| panic!("{word}: {messages:?}"))
            .column_names();
        // Ours come last.
        let expected: Vec<&str> = columns.split(' ').collect();
        assert_eq!(found[..expected.len().min(found.len())], expected, "{word}");
    }
    let rows = |console: &mut Raw, command: &str, column: &str| -> Vec<String> {
        let rows = console.table(command);
        rows.into_iter()
            .map(|mut row| row.remove(column).expect("a column"))
            .collect()
    };
    assert_eq!(
        rows(&mut console, "show lists", "list").join(" "),
        "databases users peers pools peer_pools free_clients used_clients login_clients free_servers used_servers dns_names \
         dns_zones dns_queries dns_pending"
    );
    let totals = rows(&mut console, "show totals", "name");
    for name in [
        "total_xact_count",
        "total_ps_bind_count",
        "avg_ps_client_parse_count",
    ] {
        assert!(totals.iter().any(|known| known == name), "{name} in {totals:?}");
    }
    assert_eq!(
        rows(&mut console, "show state", "key").join(" "),
        "active paused suspended"
    );
}

#[test]
fn users_are_those_of_the_files_of_auth_query_and_of_clients() {
    let server = postgres::shared();
    server.sql("create or replace function public.corun_known(text) returns table(name text, secret text) language sql \
                security definer as 'select rolname::text, rolpassword from pg_authid where rolname = $1'");
    let running = start(
        "auth_type = \"scram-sha-256\"\nauth_user = \"app\"\nauth_dbname = \"lookup\"\nmax_user_client_connections = 7\n\
         default_pool_size = 1\n\
         auth_query = \"select * from public.corun_known($1)\"\n\
         [databases.lookup]\nhost = \"127.0.0.1\"\nport = {server}\ndbname = \"app\"\n\
         [users.own]\npool_mode = \"session\"\npool_size = 3\nmax_user_client_connections = 2\n",
    );
    let mut console = running.raw();
    let users = |console: &mut Raw| -> String {
        let rows = console.table("show users");
        let names: Vec<&str> = rows.iter().map(|row| row["name"].as_str()).collect();
        names.join(" ")
    };
    assert_eq!(users(&mut console), "app boss guest own");
    let nobody = running.login("nobody", "shop");
    assert!(Raw::connect(&nobody).is_err());
    let login = running.login("app_scram", "shop");
    assert!(Raw::connect(&login.clone().password("wrong")).is_err());
    let mut client = Raw::connect(&login).expect("connected");
    assert_eq!(client.value("select 1"), "1");
    assert_eq!(users(&mut console), "app app_scram boss guest own");
    let rows = console.table("show users");
    let shown = |name: &str| {
        let row = rows.iter().find(|row| row["name"] == name).expect(name);
        [
            "pool_size",
            "reserve_pool_size",
            "pool_mode",
            "max_user_connections",
            "current_connections",
            "max_user_client_connections",
            "current_client_connections",
        ]
        .map(|column| row[column].as_str())
        .join(",")
    };
    assert_eq!(shown("own"), "3,,session,0,0,2,0");
    assert_eq!(shown("app_scram"), ",,,0,1,7,1");
    let lists = console.table("show lists");
    let count = lists.iter().find(|row| row["list"] == "users").expect("a row");
    assert_eq!(count["items"], "5");
}

#[test]
fn hosts_of_every_database_are_listed() {
    let running = start(
        "default_pool_size = 1\n\
         [databases.\"*\"]\nhost = \"127.0.0.1\"\nport = {server}\n\
         [databases.two]\nhost = \"db1, db2\"\n",
    );
    let mut console = running.raw();
    let hosts = |console: &mut Raw| -> Vec<String> {
        let rows = console.table("show hosts");
        let shown = rows
            .iter()
            .map(|row| format!("{} {} {}", row["database"], row["host"], row["servers"]));
        shown.collect()
    };
    let known = ["* 127.0.0.1 0", "shop 127.0.0.1 0", "two db1 0", "two db2 0"];
    assert_eq!(hosts(&mut console), known);
    let login = running.login("app", "postgres");
    let mut client = Raw::connect(&login).expect("connected");
    client.value("select 1");
    let found = hosts(&mut console);
    assert_eq!(found.len(), known.len() + 1, "{found:?}");
    assert_eq!(found[1], "postgres 127.0.0.1 1");
}

#[test]
fn commands_of_the_console_count_as_queries_and_transactions() {
    let running = start("");
    let mut console = running.raw();
    let mut totals = || {
        let rows = console.table("show totals");
        let value = |name: &str| -> u64 {
            let row = rows.iter().find(|row| row["name"] == name).expect(name);
            row["value"].parse().expect("a number")
        };
        (value("total_query_count"), value("total_xact_count"))
    };
    assert_eq!(totals(), (1, 1));
    assert_eq!(totals(), (2, 2));
    let rows = console.table("show stats");
    let own = rows
        .iter()
        .find(|row| row["database"] == "pgbouncer")
        .expect("a row");
    assert_eq!(own["total_query_count"], "3");
}

#[test]
fn a_reload_says_what_waits_for_the_next_start_and_what_the_files_warn_of() {
    let running = start("listen_backlog = 64");
    let mut console = running.raw();
    let mut reload = || -> Vec<String> {
        console.send_query("RELOAD");
        let messages = console.until_ready();
        let notices = messages.iter().filter(|message| message.tag == b'N');
        notices.filter_map(|message| message.field(b'M')).collect()
    };
    let users = running.file.with_file_name("users.txt");
    let allow = |mode| fs::set_permissions(&users, fs::Permissions::from_mode(mode)).expect("changed");
    allow(0o600);
    let always = reload();
    assert_eq!(always.len(), 1, "{always:?}");
    assert_contains(&always[0], "lets everybody in");
    let text = fs::read_to_string(&running.file).expect("the file");
    let text = text.replace(
        "listen_backlog = 64",
        "listen_backlog = 65\nstats_period = \"30s\"",
    );
    fs::write(&running.file, text.replace("event_loops = 2", "event_loops = 3")).expect("written");
    allow(0o644);
    let mut found = reload();
    found.retain(|line| !always.contains(line));
    assert_eq!(found.len(), 3, "{found:#?}");
    assert_contains(&found[0], "may be read by every user");
    let changed = |key: &str| format!("\"{key}\" changed, takes effect at the next start");
    assert_eq!(found[1..], [changed("listen_backlog"), changed("event_loops")]);
}

#[test]
fn pause_waits_for_transactions_and_resume_lets_clients_go_on() {
    let running = start("");
    block_on(async {
        let app = running.client("app", "shop").await;
        let (console, other) = (running.console().await, running.console().await);
        app.batch_execute("begin; select 1").await.expect("begun");
        let mut pause = std::pin::pin!(console.simple_query("PAUSE shop"));
        // The transaction is open, so it cannot be over; that it is under way, the other console sees.
        while cell(&other, "SHOW DATABASES", ("name", "shop"), "paused").await != "1" {
            let _ = tokio::time::timeout(Duration::from_millis(20), &mut pause)
                .await
                .map_err(drop)
                .map(|done| panic!("{done:?}"));
        }
        app.batch_execute("commit").await.expect("committed");
        pause.await.expect("paused");
        assert_eq!(column(&other, "SHOW SERVERS", "id").await.len(), 0);

        let mut waiting = std::pin::pin!(app.simple_query("select 2"));
        while cell(&other, "SHOW POOLS", ("database", "shop"), "cl_waiting").await != "1" {
            let early = tokio::time::timeout(Duration::from_millis(20), &mut waiting).await;
            assert!(early.is_err(), "served while paused");
        }
        // A second console is refused, a client of another user waits, too.
        let error = other.simple_query("PAUSE shop").await.expect_err("already");
        assert_eq!(error.code().map(|code| code.code()), Some("55000"));
        other.simple_query("RESUME shop").await.expect("resumed");
        waiting.await.expect("served");
        assert!(other.simple_query("RESUME shop").await.is_err());
        assert!(other.simple_query("PAUSE nosuch").await.is_err());
    });
}

#[test]
fn disable_kill_and_kill_client() {
    let running = start("");
    block_on(async {
        let console = running.console().await;
        // Before there is a pool of this name.
        console.simple_query("DISABLE shop").await.expect("disabled");
        assert!(connect(&running.login("app", "shop")).await.is_err());
        console.simple_query("ENABLE shop").await.expect("enabled");
        let (one, two) = (
            running.client("app", "shop").await,
            running.client("app", "shop").await,
        );
        for app in [&one, &two] {
            app.batch_execute("select 1").await.expect("served");
        }
        let ids = column(&console, "SHOW CLIENTS", "id").await;
        let databases = column(&console, "SHOW CLIENTS", "database").await;
        let at = databases.iter().position(|database| database == "shop");
        run(&console, &format!("KILL_CLIENT {}", ids[at.expect("there")])).await;
        let alive = [
            one.batch_execute("select 1").await.is_ok(),
            two.batch_execute("select 1").await.is_ok(),
        ];
        assert_eq!(alive.iter().filter(|alive| **alive).count(), 1, "{alive:?}");
        for (text, message) in [
            ("KILL_CLIENT 999999", "client not found"),
            ("KILL_CLIENT abc", "invalid client pointer supplied"),
            ("KILL_CLIENT", "invalid client pointer supplied"),
        ] {
            for error in [
                console.simple_query(text).await.expect_err(text),
                console.execute(text, &[]).await.expect_err(text),
            ] {
                let error = error.as_db_error().expect("of the console");
                assert_eq!(
                    (error.code().code(), error.message()),
                    ("08P01", message),
                    "{text}"
                );
                assert_contains(error.hint().unwrap_or_default(), "SHOW CLIENTS");
            }
        }
        run(&console, "SHOW VERSION").await;

        console.simple_query("KILL shop").await.expect("killed");
        assert!(one.batch_execute("select 1").await.is_err() && two.batch_execute("select 1").await.is_err());
        console.simple_query("RESUME shop").await.expect("resumed");
        run(&running.client("app", "shop").await, "select 1").await;
    });
}

#[test]
fn reload_and_set_change_settings_and_errors_change_nothing() {
    let running = start("default_pool_size = 3");
    block_on(async {
        let console = running.console().await;
        let size = async || cell(&console, "SHOW CONFIG", ("key", "default_pool_size"), "value").await;
        assert_eq!(size().await, "3");
        let text = fs::read_to_string(&running.file).expect("the file");
        let write = |size: &str| {
            let text = text.replace("default_pool_size = 3", &format!("default_pool_size = {size}"));
            fs::write(&running.file, text).expect("written");
        };
        write("4");
        console.simple_query("RELOAD").await.expect("reloaded");
        while size().await != "4" {}
        write("\"x\"");
        let error = console.simple_query("RELOAD").await.expect_err("a wrong file");
        let error = error.as_db_error().expect("of the console");
        assert_contains(error.detail().unwrap_or_default(), "default_pool_size");
        run(&console, "SET default_pool_size = 5").await;
        while size().await != "5" {}
        assert!(console.simple_query("SET default_pool_size = 0").await.is_err());
        assert!(console.simple_query("SET listen_port = 1").await.is_err());
        console.simple_query("RECONNECT").await.expect("reconnected");
        console.simple_query("WAIT_CLOSE").await.expect("closed");
        assert_eq!(size().await, "5");
    });
}

#[test]
fn who_gets_into_the_console() {
    let running = start("");
    block_on(async {
        let guest = running.client("guest", "pgbouncer").await;
        guest.simple_query("SHOW POOLS").await.expect("shown");
        let error = guest.simple_query("PAUSE").await.expect_err("not allowed");
        assert_eq!(error.code().map(|code| code.code()), Some("42501"));
        for user in ["app", "nobody"] {
            let connected = connect(&running.login(user, "pgbouncer")).await;
            assert!(connected.is_err(), "{user}");
        }
        let console = running.console().await;
        // The connection may end before its answer.
        let _ = console.simple_query("SHUTDOWN").await;
        while !running.proxy.has_ended() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    });
}
