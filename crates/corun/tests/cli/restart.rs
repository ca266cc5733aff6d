//! Processes that take over from each other, each ended by a signal: no attempt to connect fails, be it by TCP, by the Unix socket, or for
//! the metrics.

use std::fs::File;
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use crate::proxy::free_port;

const PATIENCE: Duration = Duration::from_secs(60);

/// A pooler that is killed when dropped.
struct Process(Child);

impl Process {
    /// Starts it in a folder, and waits until it listens everywhere.
    fn start(folder: &Path) -> Process {
        let log = folder.join("log");
        let file = File::create(&log).expect("a log");
        let child = Command::new(crate::PROGRAM)
            .args(["proxy", "--config", "corun.toml"])
            .current_dir(folder)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(file)
            .spawn()
            .expect("the program starts");
        let mut process = Process(child);
        let until = Instant::now() + PATIENCE;
        let said = || std::fs::read_to_string(&log).expect("a log");
        while !said().contains("metrics at") {
            let ended = process.0.try_wait().expect("our child");
            assert!(ended.is_none() && Instant::now() < until, "{ended:?} {}", said());
            std::thread::sleep(Duration::from_millis(10));
        }
        process
    }

    /// Ends it by the signal that supervisors send.
    fn end(mut self) {
        let pid = self.0.id().to_string();
        let sent = Command::new("kill").args(["-TERM", &pid]).status();
        assert!(sent.expect("kill runs").success());
        let until = Instant::now() + PATIENCE;
        while self.0.try_wait().expect("our child").is_none() {
            assert!(Instant::now() < until, "it does not end");
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Says something, and returns how the answer begins.
fn ask(mut stream: impl Read + Write, words: &[u8]) -> io::Result<Vec<u8>> {
    stream.write_all(words)?;
    let mut answer = vec![0; 12];
    let read = stream.read(&mut answer)?;
    answer.truncate(read);
    Ok(answer)
}

fn startup() -> Vec<u8> {
    let parameters = b"user\0boss\0database\0shop\0\0";
    let length = (8 + parameters.len() as u32).to_be_bytes();
    [&length[..], &[0, 3, 0, 0], parameters].concat()
}

#[test]
fn no_attempt_to_connect_fails_while_processes_take_over() {
    let folder = tempfile::tempdir().expect("a folder");
    let (port, metrics) = (free_port(), free_port());
    let text = format!(
        "[proxy]\nlisten_addr = \"127.0.0.1\"\nlisten_port = {port}\nso_reuseport = true\nunix_socket_dir = {:?}\n\
         [databases.shop]\nhost = \"127.0.0.1\"\n[users.boss]\npassword = \"secret\"\n\
         [corun]\nevent_loops = 2\nprometheus_listen = \"127.0.0.1:{metrics}\"\n",
        folder.path()
    );
    std::fs::write(folder.path().join("corun.toml"), text).expect("written");
    let socket = folder.path().join(format!(".s.PGSQL.{port}"));
    // A client that may log in is asked for its password.
    let by_tcp = || ask(TcpStream::connect(("127.0.0.1", port))?, &startup());
    let by_socket = || ask(UnixStream::connect(&socket)?, &startup());
    let scrape = || {
        ask(
            TcpStream::connect(("127.0.0.1", metrics))?,
            b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n",
        )
    };
    type Attempt<'a> = (&'a (dyn Fn() -> io::Result<Vec<u8>> + Sync), &'a [u8]);
    let attempts: [Attempt<'_>; 3] = [(&by_tcp, b"R"), (&by_socket, b"R"), (&scrape, b"HTTP/1.1 200")];
    let good = [const { AtomicUsize::new(0) }; 3];
    let failed = Mutex::new(Vec::new());
    let stop = AtomicBool::new(false);
    let wait_for_more = || {
        let count = || good.each_ref().map(|count| count.load(Ordering::Relaxed));
        let (before, until) = (count(), Instant::now() + PATIENCE);
        while count().iter().zip(before).any(|(now, before)| now - before < 5) {
            let failed = failed.lock().expect("no panic");
            assert!(failed.is_empty() && Instant::now() < until, "{failed:?}");
            drop(failed);
            std::thread::sleep(Duration::from_millis(5));
        }
    };
    let mut old = Process::start(folder.path());
    std::thread::scope(|scope| {
        for ((attempt, expected), good) in attempts.iter().zip(&good) {
            let (failed, stop) = (&failed, &stop);
            scope.spawn(move || {
                while !stop.load(Ordering::Relaxed) {
                    match attempt() {
                        Ok(answer) if answer.starts_with(expected) => {
                            good.fetch_add(1, Ordering::Relaxed);
                        }
                        other => return failed.lock().expect("no panic").push(format!("{other:?}")),
                    }
                }
            });
        }
        let restarts = || {
            for _ in 0..4 {
                wait_for_more();
                let new = Process::start(folder.path());
                wait_for_more();
                std::mem::replace(&mut old, new).end();
                wait_for_more();
            }
        };
        let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(restarts));
        stop.store(true, Ordering::Relaxed);
        if let Err(panic) = result {
            std::panic::resume_unwind(panic);
        }
    });
    let failed = failed.into_inner().expect("no panic");
    assert!(failed.is_empty(), "{failed:?}");
    // The last process removes its own socket.
    assert!(socket.exists());
    old.end();
    assert!(!socket.exists());
}
