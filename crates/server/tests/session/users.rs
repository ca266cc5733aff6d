//! What users may take: memory, time, queries at once; and who waits for whom.

use super::harness::{Collected, Server, coordinator};
use super::limits::queue_empties;
use corun_server::session::{ClientSession, Identity};
use corun_server::users::{LiveUsers, UserTable};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

pub struct Users {
    pub server: Server,
    pub path: PathBuf,
    // Outlives the server.
    _folder: tempfile::TempDir,
}

impl Users {
    /// A server with a file of users.
    pub fn with(file: &str) -> Users {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("users.toml");
        std::fs::write(&path, file).unwrap();
        let users = LiveUsers::new(UserTable::load(&path).unwrap(), Some(path.clone()));
        let server = Server::with(|config| {
            config.coordinator = Some(coordinator());
            config.rights = Arc::new(users);
        });
        Users {
            server,
            path,
            _folder: folder,
        }
    }

    pub fn session(&self, user: &str) -> ClientSession {
        let mut who = Identity {
            user: user.to_owned(),
            database: String::new(),
            pid: 0,
            address: None,
            options: Vec::new(),
        };
        who.pid = super::harness::pid();
        self.server.engine.session(who).expect("a session")
    }
}

const FILE: &str = "[role.reader]\nread = [\"*\"]\n\
    [user.ann]\nroles = [\"reader\"]\nmemory = \"32MB\"\nstatement_timeout = \"1min\"\n\
    [user.bob]\nroles = [\"reader\"]\nqueries = 1\nweight = 20\n\
    [user.eve]\nroles = [\"reader\"]\n";

#[test]
fn memory_of_a_user() {
    let users = Users::with(FILE);
    let server = &users.server;
    let large = "SELECT cardinality(array_agg(value)) FROM generate_series(1, 8000000)";
    let mut ann = users.session("ann");
    let refusal = server.refused(&mut ann, large);
    assert_eq!(refusal.code, "53200");
    assert!(
        refusal
            .detail
            .is_some_and(|detail| detail.contains("user \"ann\""))
    );
    // What can be written to files is, and short statements go on; others have what they had.
    let sorted = "SELECT max(n) FROM (SELECT row_number() OVER (ORDER BY value % 1000) AS n FROM generate_series(1, 1000000))";
    assert_eq!(server.rows(&mut ann, sorted), ["1000000", "=SELECT 1"]);
    assert_eq!(
        server.rows(&mut ann, "SELECT n FROM t WHERE n = 3"),
        ["3", "=SELECT 1"]
    );
    assert_eq!(
        server.rows(&mut users.session("eve"), large),
        ["8000000", "=SELECT 1"]
    );
}

#[test]
fn time_of_a_user() {
    let users = Users::with(&FILE.replace("1min", "300ms"));
    let server = &users.server;
    let mut ann = users.session("ann");
    assert_eq!(
        server.rows(&mut ann, "SHOW statement_timeout"),
        ["300ms", "=SHOW"]
    );
    for sql in [
        "SET statement_timeout = 0",
        "SET statement_timeout = '1h'",
        "SELECT set_config('statement_timeout', '0', false)",
    ] {
        assert!(server.run(&mut ann, sql).is_err(), "{sql}");
    }
    let endless = "SELECT sum(value % 7) FROM generate_series(1, 1000000000000000)";
    assert_eq!(server.refused(&mut ann, endless).code, "57014");
    assert_eq!(
        server.rows(&mut ann, "RESET ALL; SHOW statement_timeout"),
        ["=RESET", "300ms", "=SHOW"]
    );
    assert_eq!(queue_empties(server), ["=SHOW"]);
}

#[test]
fn queries_of_a_user_wait_for_each_other() {
    let users = Users::with(FILE);
    let server = &users.server;
    let endless = "SELECT sum(value % 7) FROM generate_series(1, 1000000000000000)";
    let mut first = users.session("bob");
    let handle = first.cancel_handle();
    let runtime = server.engine.runtime();
    let first = runtime.spawn(async move { first.simple(endless, &mut Collected::default()).await });
    let mut eve = users.session("eve");
    let mut running = Vec::new();
    for _ in 0..500 {
        running = server.rows(&mut eve, "SHOW QUEUE");
        if running.len() > 1 {
            break;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    assert_eq!(running.len(), 2, "{running:?}");
    // The second one has to wait, which its time and a request of its client's end; others do not.
    let mut second = users.session("bob");
    server.rows(&mut second, "SET statement_timeout = 200");
    assert_eq!(server.refused(&mut second, "SELECT n FROM t").code, "57014");
    assert_eq!(
        server.rows(&mut eve, "SELECT n FROM t WHERE n = 3"),
        ["3", "=SELECT 1"]
    );
    handle.cancel();
    assert_eq!(server.block_on(first).unwrap().unwrap_err().code, "57014");
    server.rows(&mut second, "SET statement_timeout = '1min'");
    assert_eq!(
        server.rows(&mut second, "SELECT n FROM t WHERE n = 3"),
        ["3", "=SELECT 1"]
    );
    // A session does not wait for its own cursors.
    let both = "BEGIN; DECLARE c CURSOR FOR SELECT n FROM t ORDER BY n; FETCH 1 FROM c; SELECT n FROM t WHERE n = 3; COMMIT";
    let rows = server.rows(&mut second, both);
    assert_eq!(
        rows.iter().filter(|row| *row == "0" || *row == "3").count(),
        2,
        "{rows:?}"
    );
    assert_eq!(queue_empties(server), ["=SHOW"]);
}
