//! Keys of `corun.toml` at work, in front of a real server: what each changes for clients, servers and the console.

mod clients;
mod console;
mod exhaustion;
mod hosts;
mod memory;
mod pools;
mod servers;

use std::ops::Deref;

use crate::common::child::free_port;
use crate::common::pooler::TestPooler;
use crate::common::postgres;
use crate::common::raw::{Login, Raw, number};

/// A running pooler and its database `app`.
struct KeysFixture {
    pooler: TestPooler,
    /// The database on the server.
    database: String,
}

/// Lines of `[proxy]`, of the database and of `[corun]` beside the usual ones.
#[derive(Clone, Copy, Default)]
struct Lines<'a> {
    proxy: &'a str,
    database: &'a str,
    corun: &'a str,
}

impl Deref for KeysFixture {
    type Target = TestPooler;

    fn deref(&self) -> &TestPooler {
        &self.pooler
    }
}

impl KeysFixture {
    /// In front of a new database of the shared server.
    fn start(lines: Lines<'_>) -> KeysFixture {
        let database = postgres::new_database();
        let settings = format!(
            "host = \"127.0.0.1\"\nport = {}\ndbname = \"{database}\"\n{}",
            postgres::shared().port(),
            lines.database
        );
        KeysFixture::at(&settings, &database, lines)
    }

    /// The same with these lines of `[proxy]` and no others.
    fn with_proxy(proxy: &str) -> KeysFixture {
        KeysFixture::start(Lines {
            proxy,
            ..Lines::default()
        })
    }

    /// The same with these lines of `[proxy]` and `[corun]`.
    fn with(proxy: &str, corun: &str) -> KeysFixture {
        KeysFixture::start(Lines {
            proxy,
            corun,
            ..Lines::default()
        })
    }

    /// In front of what `settings` say, lines of the database `app`.
    fn at(settings: &str, database: &str, lines: Lines<'_>) -> KeysFixture {
        KeysFixture::of(&format!("user = \"app\"\n{settings}"), database, lines)
    }

    /// The same, for the user that the client or `settings` name.
    fn of(settings: &str, database: &str, lines: Lines<'_>) -> KeysFixture {
        let port = free_port();
        let unless = |lines: &str, key: &str, line: &'static str| match lines.contains(key) {
            true => "",
            false => line,
        };
        let auth = unless(lines.proxy, "auth_type", "auth_type = \"any\"");
        let folder = unless(lines.proxy, "unix_socket_dir", "unix_socket_dir = \"\"");
        let loops = unless(lines.corun, "event_loops", "event_loops = 1");
        let text = format!(
            "[proxy]\nlisten_addr = \"127.0.0.1\"\nlisten_port = {port}\n{folder}\n{auth}\n\
             admin_users = [\"postgres\"]\n{}\n[corun]\n{loops}\n{}\n[databases.app]\n{settings}\n",
            lines.proxy, lines.corun
        );
        KeysFixture {
            pooler: TestPooler::start(port, text),
            database: database.to_owned(),
        }
    }

    fn login(&self) -> Login {
        self.pooler.login("app")
    }

    fn client(&self) -> Raw {
        self.client_as(&self.login())
    }

    /// So many clients at once.
    fn clients(&self, count: usize) -> Vec<Raw> {
        (0..count).map(|_| self.client()).collect()
    }

    /// What a client hears that may not log in, or an error if it may.
    fn refused(&self) -> Result<String, String> {
        match Raw::connect(&self.login()) {
            Ok(_) => Err("it logs in".to_owned()),
            Err(error) => Ok(error.to_string()),
        }
    }
}

/// Bytes of this row of `SHOW MEM`.
fn held(console: &mut Raw, name: &str) -> usize {
    let rows = console.table("show mem");
    let row = rows.iter().find(|row| row["name"] == name).expect("a row");
    assert_eq!(row["size"], "1");
    number(row, "memtotal")
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
