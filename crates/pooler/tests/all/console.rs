//! The console of a running proxy in front of a real server: what it shows, and what its orders do.

use crate::common;
use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use crate::common::postgres;
use corun_pooler::{ConfigFiles, Pooler};
use tokio_postgres::{Client, SimpleQueryMessage};

use crate::common::assert_contains;
use crate::common::driver::{block_on, connect};
use crate::common::raw::Login;

/// A running proxy with its file.
struct Console {
    proxy: Pooler,
    file: PathBuf,
    database: String,
    _folder: tempfile::TempDir,
}

/// Starts it; `settings` are more lines of `[proxy]`.
fn start(settings: &str) -> Console {
    let server = postgres::shared();
    let database = postgres::new_database();
    let folder = tempfile::tempdir().expect("a folder");
    fs::write(
        folder.path().join("users.txt"),
        "\"app\" \"\"\n\"boss\" \"\"\n\"guest\" \"\"\n",
    )
    .expect("written");
    let file = folder.path().join("corun.toml");
    let port = common::child::free_port();
    fs::write(
        &file,
        format!(
            "[proxy]\nlisten_addr = \"127.0.0.1\"\nlisten_port = {port}\nunix_socket_dir = \"\"\nauth_type = \"trust\"\n\
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
    let running = start("");
    block_on(async {
        let app = running.client("app", "shop").await;
        let row = app.query_one("select 6 * 7", &[]).await.expect("a row");
        assert_eq!(row.get::<_, i32>(0), 42);
        let console = running.console().await;
        for (show, word) in corun_pooler::admin::SHOWS {
            let outcome = console.simple_query(&format!("SHOW {word}")).await;
            let extended = console.query(&format!("SHOW {word}"), &[]).await;
            if *show == corun_pooler::admin::Show::Fds {
                let error = outcome.expect_err("not shown");
                assert_eq!(error.code().map(|code| code.code()), Some("0A000"));
            } else {
                outcome.unwrap_or_else(|error| panic!("{word}: {error}"));
                extended.unwrap_or_else(|error| panic!("{word}: {error}"));
            }
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
        assert!(console.simple_query("KILL_CLIENT 999999").await.is_err());

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
