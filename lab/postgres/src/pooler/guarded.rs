//! [`Guarded`]: a server of the fixture as a child process that ends with its owner, however the owner ends.
//!
//! Dropped, it is asked to end and then killed. When this process is killed nothing of it runs any more; so each child is started by
//! `setpriv`, which asks the kernel for a signal at the parent's death, and which changes the account on the way.
//!
//! Each is in a session of its own, as a daemon is. Where the scheduler shares out CPU time by sessions (`sched_autogroup_enabled`), a
//! pooler in the load generator's session would have to share that one's part with it, while each backend of PostgreSQL has its own.

use std::ffi::OsStr;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use super::account::Account;
use super::failed;
use lab_core::cpu_time::{TICKS_PER_SECOND, ticks};
use lab_core::error::BenchError;

/// How long a child may take to end when asked.
const END_WITHIN: Duration = Duration::from_secs(20);
/// How often something that is waited for is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(5);

/// How a child is asked to end. A number would do for `kill`; `setpriv` takes names too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signal {
    /// Ends PostgreSQL and corun at once. Killed, PostgreSQL would leave its shared memory behind.
    Quit,
    /// Ends other programs.
    Terminate,
}

impl Signal {
    fn name(self) -> &'static str {
        match self {
            Signal::Quit => "QUIT",
            Signal::Terminate => "TERM",
        }
    }
}

/// A child process.
pub struct Guarded {
    child: Child,
    name: &'static str,
    signal: Signal,
    words: PathBuf,
}

/// A command that runs as `account`, in a session of its own, and dies with the thread that starts it. The process started is the
/// program itself in the end: none of those on the way forks.
pub fn command(program: impl AsRef<OsStr>, account: Option<Account>, signal: Signal) -> Command {
    let mut command = Command::new("setsid");
    command.args(["setpriv", "--pdeathsig", signal.name()]);
    if let Some(Account { user, group }) = account {
        command.args([
            "--reuid",
            &user.to_string(),
            "--regid",
            &group.to_string(),
            "--clear-groups",
        ]);
    }
    command.arg("--").arg(program);
    without_settings(&mut command);
    command
}

/// The same command in a control group: whoever runs it first writes its own number into the group's file `procs`, before it becomes the
/// program and before it changes its account.
pub fn in_group(command: Command, procs: Option<&Path>) -> Command {
    let Some(procs) = procs else {
        return command;
    };
    let mut outer = Command::new("sh");
    outer.args(["-c", "echo $$ >\"$0\" && exec \"$@\""]);
    outer
        .arg(procs)
        .arg(command.get_program())
        .args(command.get_args());
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => outer.env(name, value),
            None => outer.env_remove(name),
        };
    }
    outer
}

/// Removes what the caller's surroundings may say to PostgreSQL's programs.
pub fn without_settings(command: &mut Command) {
    for (name, _) in std::env::vars_os() {
        if name.as_encoded_bytes().starts_with(b"PG") {
            command.env_remove(name);
        }
    }
}

/// Gives back what [`command`] has removed, for a server that its user knows how to reach.
pub fn with_settings(command: &mut Command) -> &mut Command {
    let settings = std::env::vars_os().filter(|(name, _)| name.as_encoded_bytes().starts_with(b"PG"));
    command.envs(settings)
}

impl Guarded {
    /// Starts it, its words going to the file `words`.
    ///
    /// # Errors
    /// When it cannot be started.
    pub fn start(
        mut command: Command,
        name: &'static str,
        signal: Signal,
        words: PathBuf,
    ) -> Result<Guarded, BenchError> {
        let open = || File::options().create(true).append(true).open(&words);
        let (out, errors) = open()
            .and_then(|out| Ok((out, open()?)))
            .map_err(|source| BenchError::io(format!("could not write {}", words.display()), source))?;
        let child = command
            .stdin(Stdio::null())
            .stdout(out)
            .stderr(errors)
            .spawn()
            .map_err(|error| failed(name, format!("could not be started by setsid: {error}")))?;
        Ok(Guarded {
            child,
            name,
            signal,
            words,
        })
    }

    /// Waits until it ends.
    ///
    /// # Errors
    /// When it is still there after `within`; it is ended then.
    pub fn wait(&mut self, within: Duration) -> Result<ExitStatus, BenchError> {
        let end = Instant::now() + within;
        loop {
            if let Some(status) = self.status()? {
                return Ok(status);
            }
            if Instant::now() >= end {
                self.end();
                return Err(failed(
                    self.name,
                    format!("did not end within {} s{}", within.as_secs(), self.last_words()),
                ));
            }
            std::thread::sleep(LOOK_EVERY);
        }
    }

    /// Waits until `ready` says so.
    ///
    /// # Errors
    /// When it ends before, or is not ready after `within`.
    pub fn until(
        &mut self,
        within: Duration,
        mut ready: impl FnMut() -> Result<(), BenchError>,
    ) -> Result<(), BenchError> {
        let end = Instant::now() + within;
        loop {
            self.alive()?;
            let why = match ready() {
                Ok(()) => return Ok(()),
                Err(error) => error.in_one_line(),
            };
            if Instant::now() >= end {
                let reason = format!(
                    "does not answer after {} s: {why}{}",
                    within.as_secs(),
                    self.last_words()
                );
                return Err(failed(self.name, reason));
            }
            std::thread::sleep(LOOK_EVERY);
        }
    }

    /// That it still runs.
    ///
    /// # Errors
    /// When it has ended: its last words.
    pub fn alive(&mut self) -> Result<(), BenchError> {
        match self.status()? {
            None => Ok(()),
            Some(status) => Err(failed(
                self.name,
                format!("ended with {status}{}", self.last_words()),
            )),
        }
    }

    fn status(&mut self) -> Result<Option<ExitStatus>, BenchError> {
        let status = self.child.try_wait();
        status.map_err(|source| BenchError::io(format!("could not look at {}", self.name), source))
    }

    /// Its process.
    pub fn process(&self) -> u32 {
        self.child.id()
    }

    /// CPU time it has used so far, user and system, in microseconds.
    pub fn cpu_us(&self) -> Option<f64> {
        ticks(self.process()).map(|ticks| ticks as f64 / TICKS_PER_SECOND * 1e6)
    }

    /// Its resident memory in bytes, pages it shares with others included.
    pub fn resident_bytes(&self) -> Option<u64> {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.process())).ok()?;
        resident(&status)
    }

    /// The end of what it said, for an error.
    fn last_words(&self) -> String {
        let words = last_line(&self.words);
        if words.is_empty() {
            return String::new();
        }
        format!(": {words}")
    }

    fn end(&mut self) {
        if !matches!(self.child.try_wait(), Ok(None)) {
            return;
        }
        let process = self.child.id().to_string();
        let asked = Command::new("kill")
            .args(["-s", self.signal.name(), &process])
            .stderr(Stdio::null())
            .status();
        let end = Instant::now() + END_WITHIN;
        while asked.is_ok() && Instant::now() < end {
            if !matches!(self.child.try_wait(), Ok(None)) {
                return;
            }
            std::thread::sleep(LOOK_EVERY);
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for Guarded {
    fn drop(&mut self) {
        self.end();
    }
}

/// The last line of a file that is not empty, cut at a few hundred characters.
pub fn last_line(file: &Path) -> String {
    let words = std::fs::read(file).unwrap_or_default();
    let words = String::from_utf8_lossy(&words);
    let line = words.lines().rfind(|line| !line.trim().is_empty());
    line.unwrap_or_default().trim().chars().take(400).collect()
}

/// `VmRSS` of `/proc/PID/status`, which is in kibibytes.
fn resident(status: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kibibytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kibibytes << 10)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str, words: &Path) -> Guarded {
        let mut command = command("sh", None, Signal::Terminate);
        command.args(["-c", script]);
        Guarded::start(command, "sh", Signal::Terminate, words.to_path_buf()).expect("a shell")
    }

    #[test]
    fn a_child_goes_with_its_owner() {
        let folder = tempfile::tempdir().expect("a folder");
        let child = shell("exec sleep 600", &folder.path().join("words"));
        let process = child.process();
        assert!(child.resident_bytes() > Some(0) && child.cpu_us().is_some());
        drop(child);
        assert!(!Path::new(&format!("/proc/{process}")).exists());
    }

    #[test]
    fn a_child_dies_with_the_thread_that_started_it() {
        let folder = tempfile::tempdir().expect("a folder");
        let words = folder.path().join("words");
        let mut child = std::thread::scope(|scope| {
            let started = scope.spawn(|| {
                let child = shell("echo up; exec sleep 600", &words);
                // The wish to die with the parent is the child's own doing, so it must have got that far.
                while last_line(&words) != "up" {
                    std::thread::sleep(LOOK_EVERY);
                }
                child
            });
            started.join().expect("no panic")
        });
        let status = child.wait(Duration::from_secs(60)).expect("it ends");
        assert!(!status.success());
    }

    #[test]
    fn a_child_that_ends_says_why() {
        let folder = tempfile::tempdir().expect("a folder");
        let mut child = shell(
            "echo; echo no such port >&2; echo; exit 3",
            &folder.path().join("words"),
        );
        let error = child
            .until(Duration::from_secs(60), || Err(failed("sh", "not yet")))
            .expect_err("it ended")
            .to_string();
        assert!(error.contains("no such port") && error.contains('3'), "{error}");
        let mut child = shell("exec sleep 600", &folder.path().join("other"));
        let error = child.wait(Duration::ZERO).expect_err("it sleeps").to_string();
        assert!(error.contains("did not end"), "{error}");
    }

    #[test]
    fn a_command_joins_its_group_before_it_becomes_the_program() {
        let folder = tempfile::tempdir().expect("a folder");
        let (procs, words) = (folder.path().join("procs"), folder.path().join("words"));
        let mut inner = command("sh", None, Signal::Terminate);
        inner.args(["-c", "echo $$"]);
        let mut child = Guarded::start(
            in_group(inner, Some(&procs)),
            "sh",
            Signal::Terminate,
            words.clone(),
        )
        .expect("a shell");
        assert!(child.wait(Duration::from_secs(60)).expect("it ends").success());
        assert_eq!(last_line(&procs), last_line(&words));
    }

    #[test]
    fn resident_memory_is_read_in_bytes() {
        assert_eq!(
            resident("Name:\tx\nVmRSS:\t    12 kB\nVmData: 1 kB"),
            Some(12 << 10)
        );
        assert_eq!(resident("VmRSS: much"), None);
    }
}
