//! A process that writes a word to a file as soon as the program that started it closes a pipe or is gone.
//!
//! A shell does it: forking without starting another program is not safe in a program of several threads, and this program's
//! own file may be gone or be another when it is needed.

use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};

use super::SmtError;

/// Says that it watches, waits for the end of its input, and writes. The terminal's signals, and those services are stopped
/// with, are not for it: they end the program it watches, and that is when it acts.
const SCRIPT: &str =
    "trap '' INT TERM HUP QUIT; echo watching; while read -r line; do :; done; printf %s \"$1\" > \"$2\"";

/// A watching process.
#[derive(Debug)]
pub(super) struct Watcher {
    child: Child,
    /// Closing it is the sign; the kernel closes it where the program cannot.
    sign: Option<ChildStdin>,
}

impl Watcher {
    /// Starts it, and waits until it watches.
    pub fn start(path: &Path, word: &str) -> Result<Self, SmtError> {
        let failed = |reason: String| SmtError::NoWatcher { reason };
        let mut child = Command::new("sh")
            .args(["-c", SCRIPT, "sh", word])
            .arg(path)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            // Not in the group the terminal sends its signals to.
            .process_group(0)
            .spawn()
            .map_err(|error| failed(format!("sh: {error}")))?;
        let sign = child.stdin.take();
        let mut line = String::new();
        let said = child
            .stdout
            .take()
            .map(|stdout| BufReader::new(stdout).read_line(&mut line));
        let watcher = Self { child, sign };
        match said {
            Some(Ok(_)) if line == "watching\n" => Ok(watcher),
            _ => {
                // Nothing was switched yet, so what it writes changes nothing.
                watcher.finish();
                Err(failed(format!("it said {line:?}")))
            }
        }
    }

    /// Lets it write, and waits until it has.
    pub fn finish(mut self) {
        drop(self.sign.take());
        // It may have been killed; whoever asks looks at the file.
        let _ = self.child.wait();
    }
}
