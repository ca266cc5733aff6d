//! Programs that must not outlive the tests: each is killed when its owner is dropped (also by a panic), and by the kernel when the
//! test program dies without dropping anything.

use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Mutex, OnceLock};
use std::time::{Duration, Instant};

type Order = (Command, Sender<std::io::Result<Child>>);

/// The kernel's promise (`PR_SET_PDEATHSIG`) holds for the thread that started the child, and each test has a thread of its own
/// that ends with it. So one thread, which lives as long as the test program, starts them all.
fn spawner() -> &'static Mutex<Sender<Order>> {
    static SPAWNER: OnceLock<Mutex<Sender<Order>>> = OnceLock::new();
    SPAWNER.get_or_init(|| {
        let (sender, orders) = channel::<Order>();
        std::thread::spawn(move || {
            while let Ok((mut command, answer)) = orders.recv() {
                let _ = answer.send(command.spawn());
            }
        });
        Mutex::new(sender)
    })
}

/// Whether the tests run as root, under which the servers refuse to run.
pub fn is_root() -> bool {
    static ROOT: OnceLock<bool> = OnceLock::new();
    *ROOT.get_or_init(|| {
        let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
        status
            .lines()
            .find_map(|line| line.strip_prefix("Uid:"))
            .and_then(|ids| ids.split_whitespace().nth(1))
            == Some("0")
    })
}

/// A command that runs as the user `postgres` where the tests run as root, and gets `signal` when the tests end.
pub fn command(program: impl AsRef<Path>, signal: &str) -> Command {
    let mut command = Command::new("setpriv");
    command.args(["--pdeathsig", signal]);
    if is_root() {
        command.args([
            "--reuid=postgres",
            "--regid=postgres",
            "--init-groups",
            "--reset-env",
        ]);
    }
    command.arg("--").arg(program.as_ref()).current_dir("/");
    command
}

/// Runs a command to its end; panics with its output if it fails.
pub fn run(mut command: Command) -> String {
    let output = command
        .stdin(Stdio::null())
        .output()
        .unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let text = format!(
        "{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    assert!(output.status.success(), "{command:?}:\n{text}");
    text
}

/// A running program.
pub struct Running {
    child: Child,
    stop_signal: &'static str,
}

impl Running {
    /// Starts a command made by [`command`]; output goes to the file `log`.
    pub fn start(mut command: Command, log: &Path, stop_signal: &'static str) -> Running {
        let file = std::fs::OpenOptions::new()
            .create(true)
            .append(true)
            .open(log)
            .expect("log file");
        command
            .stdin(Stdio::null())
            .stdout(file.try_clone().expect("log file"))
            .stderr(file);
        let (sender, answer) = channel();
        spawner()
            .lock()
            .expect("spawner")
            .send((command, sender))
            .expect("spawner runs");
        let child = answer.recv().expect("spawner answers").expect("program starts");
        Running { child, stop_signal }
    }

    /// Its process.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Whether it has ended by itself.
    pub fn has_ended(&mut self) -> bool {
        self.child.try_wait().map_or(true, |status| status.is_some())
    }

    /// Whether the process runs.
    pub fn is_there(&self) -> bool {
        let status = std::fs::read_to_string(format!("/proc/{}/stat", self.pid())).unwrap_or_default();
        !status.is_empty() && !status.contains(") Z ")
    }

    /// Sends a signal by name.
    pub fn signal(&self, name: &str) {
        signal(self.pid(), name);
    }

    /// Sends a signal and waits for the end; after 30 seconds it is killed.
    pub fn stop(&mut self, name: &str) {
        self.signal(name);
        let until = Instant::now() + Duration::from_secs(30);
        while !self.has_ended() {
            if Instant::now() > until {
                let _ = self.child.kill();
                let _ = self.child.wait();
                return;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if !self.has_ended() {
            self.stop(self.stop_signal);
        }
    }
}

/// Sends a signal by name to a process; it does not matter if it is gone.
pub fn signal(pid: u32, name: &str) {
    let _ = Command::new("kill")
        .args([format!("-{name}"), pid.to_string()])
        .stderr(Stdio::null())
        .status();
}

/// A folder for one server, owned by the user it runs as; removed when dropped, or by [`janitor`].
pub struct Folder(PathBuf);

impl Folder {
    /// Makes one.
    pub fn new(name: &str) -> Folder {
        static NUMBER: Mutex<u32> = Mutex::new(0);
        janitor();
        let number = {
            let mut number = NUMBER.lock().unwrap_or_else(|broken| broken.into_inner());
            *number += 1;
            *number
        };
        // Short: the path of a socket may have 107 bytes.
        let path = PathBuf::from(format!("{}-{number}-{name}", prefix()));
        std::fs::create_dir_all(&path).expect("folder of a server");
        give(&path);
        Folder(path)
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Hands a file or folder over to the user the servers run as.
pub fn give(path: &Path) {
    if is_root() {
        let mut command = Command::new("chown");
        command.arg("-R").arg("postgres:").arg(path);
        run(command);
    }
}

/// How the paths of all folders of this test program begin.
fn prefix() -> String {
    let name = format!("corun-pg-{}", std::process::id());
    std::env::temp_dir().join(name).display().to_string()
}

/// Removes the folders when the test program has ended, however it did: a server that all tests of a program share is never dropped.
fn janitor() {
    static JANITOR: OnceLock<Option<Child>> = OnceLock::new();
    JANITOR.get_or_init(|| {
        // It waits for the end of a pipe that nobody writes to; in a session of its own, so that an interrupt does not reach it.
        Command::new("setsid")
            .args(["sh", "-c", r#"cat >/dev/null; sleep 2; rm -rf "$0"-*"#, &prefix()])
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .ok()
    });
}

/// A port nobody listens on, below those the system gives to outgoing connections; another one at each call, since a server takes a while
/// to listen there.
pub fn free_port() -> u16 {
    const PORTS: Range<u32> = 15_000..30_000;
    static GIVEN: AtomicU32 = AtomicU32::new(0);
    let span = PORTS.end - PORTS.start;
    // Programs that run at the same time look in different places first.
    let first = std::process::id().wrapping_mul(97) % span;
    for _ in 0..span {
        let port = PORTS.start + (first + GIVEN.fetch_add(1, Ordering::Relaxed)) % span;
        let port = u16::try_from(port).expect("a port");
        if std::net::TcpListener::bind(("127.0.0.1", port)).is_ok() {
            return port;
        }
    }
    panic!("no free port between {} and {}", PORTS.start, PORTS.end);
}

#[test]
fn no_port_is_given_twice() {
    let mut ports: Vec<u16> = (0..500).map(|_| free_port()).collect();
    ports.sort_unstable();
    ports.dedup();
    assert_eq!(ports.len(), 500);
}
