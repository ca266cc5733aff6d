//! Keys of `corun.toml` at work, in front of a real server: what each changes for clients, servers and the console.

mod clients;
mod console;
mod exhaustion;
mod hosts;
mod memory;
mod pools;
mod servers;

use crate::common;
use std::time::{Duration, Instant};

use crate::common::child::free_port;
use crate::common::postgres;
use crate::common::raw::{Login, Raw};
use corun_pooler::config::Config;
use corun_pooler::{ConfigFiles, Pooler};

/// A running proxy in front of a database of the shared server.
struct Scene {
    port: u16,
    database: String,
    text: String,
    proxy: Pooler,
}

/// Lines of `[proxy]`, of the database and of `[corun]` beside the usual ones.
#[derive(Clone, Copy, Default)]
struct Lines<'a> {
    proxy: &'a str,
    database: &'a str,
    corun: &'a str,
}

impl Scene {
    /// In front of the shared server.
    fn start(lines: Lines<'_>) -> Scene {
        let database = postgres::new_database();
        let place = format!(
            "host = \"127.0.0.1\"\nport = {}\ndbname = \"{database}\"\n{}",
            postgres::shared().port(),
            lines.database
        );
        Scene::at(&place, &database, lines)
    }

    /// In front of what `place` says, lines of the database `app`.
    fn at(place: &str, database: &str, lines: Lines<'_>) -> Scene {
        Scene::of(&format!("user = \"app\"\n{place}"), database, lines)
    }

    /// The same, for the user that the client or `place` names.
    fn of(place: &str, database: &str, lines: Lines<'_>) -> Scene {
        common::log::keep();
        let port = free_port();
        let auth = match lines.proxy.contains("auth_type") {
            true => "",
            false => "auth_type = \"any\"",
        };
        let loops = match lines.corun.contains("event_loops") {
            true => "",
            false => "event_loops = 1",
        };
        let text = format!(
            "[proxy]\nlisten_addr = \"127.0.0.1\"\nlisten_port = {port}\nunix_socket_dir = \"\"\n{auth}\n\
             admin_users = [\"postgres\"]\n{}\n[corun]\n{loops}\n{}\n[databases.app]\n{place}\n",
            lines.proxy, lines.corun
        );
        Scene {
            port,
            database: database.to_owned(),
            proxy: Pooler::start(files(&text)).unwrap_or_else(|error| panic!("{error}")),
            text,
        }
    }

    fn login(&self) -> Login {
        Login::new("127.0.0.1", self.port, "app")
    }

    fn client(&self) -> Raw {
        Raw::connect(&self.login()).unwrap_or_else(|error| panic!("{error}"))
    }

    fn console(&self) -> Raw {
        let login = self.login().user("postgres").database("pgbouncer");
        Raw::connect(&login).unwrap_or_else(|error| panic!("{error}"))
    }
}

fn files(text: &str) -> ConfigFiles {
    let loaded = Config::parse(text, "corun.toml").unwrap_or_else(|error| panic!("{error}\n{text}"));
    ConfigFiles::of(loaded.config).unwrap_or_else(|error| panic!("{error}"))
}

/// Bytes of this row of `SHOW MEM`.
fn held(console: &mut Raw, name: &str) -> usize {
    let rows = console.table("show mem");
    let row = rows.iter().find(|row| row["name"] == name).expect("a row");
    assert_eq!(row["size"], "1");
    row["memtotal"].parse().expect("a number")
}

/// Reads what comes up to the end: how many rows it has.
fn rows_until_ready(client: &mut Raw) -> usize {
    let mut rows = 0;
    loop {
        match client.read().expect("an answer").tag {
            b'D' => rows += 1,
            b'E' => panic!("an error"),
            b'Z' => return rows,
            _ => {}
        }
    }
}

/// Waits until something is there; panics after 20 seconds.
fn wait<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let until = Instant::now() + Duration::from_secs(20);
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(Instant::now() < until, "it does not happen: {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}
