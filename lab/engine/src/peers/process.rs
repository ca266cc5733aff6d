//! [`LineProcess`]: a peer's process, which is asked and answers in lines over standard input and output.

use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread::JoinHandle;
use std::time::Duration;

/// A running process. Dropped, it is ended.
pub(super) struct LineProcess {
    child: Child,
    input: Option<ChildStdin>,
    lines: Receiver<String>,
    errors: Option<JoinHandle<String>>,
    patience: Duration,
}

/// Why there is no line.
pub(super) enum NoLine {
    /// None came in time.
    Timeout,
    /// The process takes no more requests, or has ended.
    Ended,
}

impl LineProcess {
    /// Starts a process that may take `patience` for any line.
    pub(super) fn spawn(mut command: Command, patience: Duration) -> std::io::Result<LineProcess> {
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()?;
        let input = child.stdin.take();
        let (output, errors) = (child.stdout.take(), child.stderr.take());
        let (sender, lines) = channel();
        std::thread::spawn(move || {
            let Some(output) = output else { return };
            for line in BufReader::new(output).lines().map_while(Result::ok) {
                if sender.send(line).is_err() {
                    break;
                }
            }
        });
        let errors = std::thread::spawn(move || {
            let mut text = String::new();
            // What cannot be read is not needed: it would only explain a failure.
            let _ = errors.map(|mut errors| errors.read_to_string(&mut text));
            text
        });
        Ok(LineProcess {
            child,
            input,
            lines,
            errors: Some(errors),
            patience,
        })
    }

    /// The process.
    pub(super) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Sends a line.
    pub(super) fn send(&mut self, line: &str) -> Result<(), NoLine> {
        let input = self.input.as_mut().ok_or(NoLine::Ended)?;
        let sent = writeln!(input, "{line}").and_then(|()| input.flush());
        sent.map_err(|_| NoLine::Ended)
    }

    /// Ends its input.
    pub(super) fn close(&mut self) {
        self.input = None;
    }

    /// The next line.
    pub(super) fn line(&mut self) -> Result<String, NoLine> {
        let line = self.lines.recv_timeout(self.patience);
        line.map_err(|error| match error {
            RecvTimeoutError::Timeout => NoLine::Timeout,
            RecvTimeoutError::Disconnected => NoLine::Ended,
        })
    }

    /// The first line of what it said of its end, which is waited for.
    pub(super) fn last_words(&mut self) -> Option<String> {
        self.input = None;
        let _ = self.child.wait();
        let words = self.errors.take().and_then(|errors| errors.join().ok())?;
        words.lines().next().map(str::to_owned)
    }
}

impl Drop for LineProcess {
    fn drop(&mut self) {
        // The end of its input would end it, unless it hangs or has work left that nobody waits for.
        self.input = None;
        if matches!(self.child.try_wait(), Ok(None)) {
            let _ = self.child.kill();
        }
        let _ = self.child.wait();
    }
}
