//! A program at a terminal: a pseudo-terminal of a size, by `script` of util-linux, what is typed there, and what it shows.

use std::io::{Read as _, Write as _};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// How long anything here may take before it counts as hanging.
const LONG: Duration = Duration::from_secs(60);

/// A program that runs at a terminal. It ends with its test.
pub struct Terminal {
    child: Child,
    keys: Option<ChildStdin>,
    shown: Arc<Mutex<Vec<u8>>>,
    /// Up to where what is shown was waited for.
    seen: usize,
}

impl Terminal {
    /// Starts the program in `folder` with these arguments, at a terminal of so many columns and rows.
    pub fn start(
        (columns, rows): (u16, u16),
        folder: &Path,
        environment: &[(&str, &str)],
        arguments: &str,
    ) -> Terminal {
        let line = format!(
            "stty cols {columns} rows {rows}; exec {} {arguments}",
            crate::PROGRAM
        );
        let mut child = Command::new("script")
            .args(["-qefc", &line, "/dev/null"])
            .current_dir(folder)
            .env_remove("PAGER")
            .env_remove("LESS")
            .env("TERM", "xterm")
            .env("LC_ALL", "C.UTF-8")
            .env("SHELL", "/bin/sh")
            .env("HOME", folder)
            .env_remove("XDG_STATE_HOME")
            .envs(environment.iter().copied())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("util-linux has script");
        let shown = Arc::new(Mutex::new(Vec::new()));
        let mut out = child.stdout.take().expect("piped");
        let into = Arc::clone(&shown);
        std::thread::spawn(move || {
            let mut bytes = [0; 4096];
            while let Ok(length) = out.read(&mut bytes) {
                if length == 0 {
                    return;
                }
                into.lock()
                    .expect("not poisoned")
                    .extend_from_slice(&bytes[..length]);
            }
        });
        Terminal {
            keys: child.stdin.take(),
            child,
            shown,
            seen: 0,
        }
    }

    /// Types these keys.
    pub fn type_keys(&mut self, keys: &str) {
        let stdin = self.keys.as_mut().expect("open");
        stdin.write_all(keys.as_bytes()).expect("typed");
        stdin.flush().expect("typed");
    }

    /// Waits until these words are shown after what was waited for before; what was shown up to their end.
    pub fn wait_for(&mut self, words: &str) -> String {
        let begin = Instant::now();
        loop {
            let shown = self.shown.lock().expect("not poisoned")[self.seen..].to_vec();
            let at = shown
                .windows(words.len())
                .position(|window| window == words.as_bytes());
            if let Some(at) = at {
                self.seen += at + words.len();
                return String::from_utf8_lossy(&shown[..at + words.len()]).into_owned();
            }
            let text = String::from_utf8_lossy(&shown);
            assert!(begin.elapsed() < LONG, "{words:?} is not shown: {text:?}");
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// Waits for the program to end; its exit code.
    pub fn end(mut self) -> Option<i32> {
        let begin = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait().expect("a child") {
                return status.code();
            }
            assert!(begin.elapsed() < LONG, "it does not end");
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        // Its terminal goes, and with it what runs there.
        drop(self.keys.take());
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
