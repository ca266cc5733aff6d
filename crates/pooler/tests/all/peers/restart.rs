//! A new process takes over from the old one, again and again, under load: no connection attempt fails, and no query does.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::os::unix::fs::FileTypeExt as _;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use crate::common::child::{Folder, free_port};
use crate::common::number_from_environment;
use crate::common::postgres;
use crate::common::process::PoolerProcess;
use crate::common::raw::{Login, Raw};
use crate::common::wait::wait_until;

use super::{PROCESS, configuration};

/// What has gone well, and what has not.
#[derive(Default)]
struct Tally {
    good: AtomicUsize,
    failed: Mutex<Vec<String>>,
}

impl Tally {
    /// Does something again and again until it fails, or told to stop.
    fn repeat(&self, stop: &AtomicBool, what: impl Fn() -> Result<(), String>) {
        while !stop.load(Ordering::Relaxed) {
            match what() {
                Ok(()) => {
                    self.good.fetch_add(1, Ordering::Relaxed);
                }
                Err(error) => return self.failed.lock().expect("no panic").push(error),
            }
        }
    }

    /// Waits until it has gone well a few times more.
    fn wait_for_more(&self) {
        let before = self.good.load(Ordering::Relaxed);
        wait_until("nothing goes well any more", || {
            let more = self.good.load(Ordering::Relaxed) - before;
            more >= 5 || !self.failed.lock().expect("no panic").is_empty()
        });
    }
}

/// A connection, a transaction, and the end of it.
fn visit(login: &Login) -> Result<(), String> {
    let mut client = Raw::connect(login).map_err(|error| error.to_string())?;
    let rows = client.try_rows("begin; select 1; commit")?;
    (rows.len() == 1).then_some(()).ok_or_else(|| format!("{rows:?}"))
}

/// One look at the metrics.
fn scrape(port: u16) -> Result<(), String> {
    let ask = || -> std::io::Result<String> {
        let mut stream = TcpStream::connect(("127.0.0.1", port))?;
        stream.set_read_timeout(Some(crate::common::raw::PATIENCE))?;
        stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        Ok(answer)
    };
    let answer = ask().map_err(|error| format!("metrics: {error}"))?;
    match answer.starts_with("HTTP/1.1 200") && answer.contains("corun_") {
        true => Ok(()),
        false => Err(format!("metrics: {answer:?}")),
    }
}

#[test]
fn nothing_fails_while_processes_take_over_from_each_other() {
    let restarts = number_from_environment("CORUN_TEST_RESTARTS", 3);
    let (folder, port, metrics) = (Folder::new("restart"), free_port(), free_port());
    let database = postgres::new_database();
    let sockets = folder.path().join("s");
    std::fs::create_dir_all(&sockets).expect("a folder");
    let text = configuration(
        folder.path(),
        port,
        &format!("unix_socket_dir = {sockets:?}"),
        &format!("prometheus_listen = \"127.0.0.1:{metrics}\""),
        "",
    );
    let start = |number: u64| PoolerProcess::start(PROCESS, folder.path(), &number.to_string(), &text);
    let tcp = Login::new("127.0.0.1", port, "app").database(&database);
    let mut unix = tcp.clone();
    unix.socket = Some(sockets.clone());
    let (by_tcp, by_unix, scrapes, stop) = (
        Tally::default(),
        Tally::default(),
        Tally::default(),
        AtomicBool::new(false),
    );
    let all = [&by_tcp, &by_unix, &scrapes];
    let mut old = start(0);
    std::thread::scope(|scope| {
        scope.spawn(|| by_tcp.repeat(&stop, || visit(&tcp)));
        scope.spawn(|| by_tcp.repeat(&stop, || visit(&tcp)));
        scope.spawn(|| by_unix.repeat(&stop, || visit(&unix)));
        scope.spawn(|| scrapes.repeat(&stop, || scrape(metrics)));
        let all_go_on = || all.iter().for_each(|tally| tally.wait_for_more());
        let restart = || {
            for number in 1..=restarts {
                all_go_on();
                // These are clients of the old process: there is no other yet.
                let mut console =
                    Raw::connect(&tcp.clone().user("postgres").database("pgbouncer")).expect("console");
                let mut stays = Raw::connect(&unix).expect("connected");
                let new = start(number);
                all_go_on();
                console.send_query("shutdown wait_for_clients");
                console.until_ready();
                drop(console);
                all_go_on();
                // The old process goes on for its client.
                assert_eq!(stays.value("select 1"), "1");
                assert!(!old.has_ended());
                drop(stays);
                old.wait_until_ended();
                old = new;
                all_go_on();
            }
        };
        let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(restart));
        stop.store(true, Ordering::Relaxed);
        if let Err(panic) = result {
            std::panic::resume_unwind(panic);
        }
    });
    for tally in all {
        let failed = tally.failed.lock().expect("no panic");
        let good = tally.good.load(Ordering::Relaxed);
        assert!(failed.is_empty(), "{failed:?} beside {good} that went well");
    }
    // What is left is the last process's socket, and nothing else.
    let left: Vec<_> = std::fs::read_dir(&sockets).expect("a folder").flatten().collect();
    assert_eq!(left.len(), 1, "{left:?}");
    assert!(left[0].file_type().expect("a type").is_socket());
    visit(&unix).expect("the last process listens");
}
