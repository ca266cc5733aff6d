//! How results are shown, and where they go: settings that `\x`, `\pset`, `\timing` and `\o` change, and the pager.

use std::fmt;
use std::fs::File;
use std::io::{self, BufWriter, IsTerminal, Stdout, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;

use corun_cli::out;

use super::format::{Format, Style};

/// When rows are written as records, a line a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Expanded {
    /// Never.
    Off,
    /// Always.
    On,
    /// Where the columns do not fit the terminal.
    Auto,
}

/// When a pager shows results.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Paging {
    /// Never.
    Off,
    /// Where they are longer than the screen.
    On,
    /// Always.
    Always,
}

/// How results are shown.
#[derive(Debug, Clone)]
pub struct Display {
    /// How they are written.
    pub format: Format,
    /// As records.
    pub expanded: Expanded,
    /// Through a pager.
    pub paging: Paging,
    /// Characters of a line; 0: as many as the terminal has.
    pub columns: usize,
    /// Whether times are told.
    pub timing: bool,
    /// Where results go instead of the terminal.
    pub file: Option<Arc<File>>,
}

impl Display {
    /// What a new shell has.
    pub fn new(format: Format) -> Display {
        Display {
            format,
            expanded: Expanded::Off,
            paging: Paging::On,
            columns: 0,
            timing: true,
            file: None,
        }
    }

    /// How the next result is written.
    pub fn style(&self) -> Style {
        let terminal = match self.file {
            Some(_) => None,
            None => out::terminal_size().map(|(columns, _)| columns),
        };
        Style {
            format: self.format,
            expanded: self.expanded,
            width: Some(self.columns).filter(|columns| *columns > 0).or(terminal),
        }
    }

    /// Where the next result goes.
    ///
    /// # Errors
    /// None that is known.
    pub fn target(&self) -> Target {
        if let Some(file) = &self.file {
            return Target::File(BufWriter::new(Arc::clone(file)));
        }
        let terminal = out::terminal_size().filter(|_| io::stdin().is_terminal());
        match (self.paging, terminal, pager()) {
            (Paging::Off, ..) | (_, None, _) | (.., None) => Target::Stdout(out::stdout()),
            (paging, Some((columns, rows)), Some(pager)) => Target::Pager(Pager {
                program: pager,
                columns,
                rows: match paging {
                    Paging::Always => 0,
                    Paging::On | Paging::Off => rows,
                },
                held: Vec::new(),
                child: None,
            }),
        }
    }
}

/// Where a result goes.
pub enum Target {
    /// A file, by `\o` or `\g`.
    File(BufWriter<Arc<File>>),
    /// Standard output.
    Stdout(BufWriter<Stdout>),
    /// Standard output, or a pager if it is more than the screen holds.
    Pager(Pager),
}

impl Target {
    /// The file of this name, made anew.
    ///
    /// # Errors
    /// What the system reports.
    pub fn create(path: &Path) -> io::Result<Arc<File>> {
        File::create(path).map(Arc::new)
    }

    /// Writes what is left, and waits until the pager has ended.
    ///
    /// # Errors
    /// A closed pipe; a pager that cannot be run.
    pub fn finish(self) -> io::Result<()> {
        match self {
            Target::File(mut file) => file.flush(),
            Target::Stdout(mut out) => out.flush(),
            Target::Pager(pager) => pager.finish(),
        }
    }

    fn writer(&mut self) -> &mut dyn Write {
        match self {
            Target::File(file) => file,
            Target::Stdout(out) => out,
            Target::Pager(pager) => pager,
        }
    }
}

impl Write for Target {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.writer().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.writer().flush()
    }
}

/// The pager has seen enough: the rest of the result is not wanted.
#[derive(Debug)]
pub struct PagerLeft;

impl fmt::Display for PagerLeft {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the pager was left")
    }
}

impl std::error::Error for PagerLeft {}

impl PagerLeft {
    /// Whether this is why something failed.
    pub fn is(error: &anyhow::Error) -> bool {
        let of_io = |error: &io::Error| error.get_ref().is_some_and(|inner| inner.is::<PagerLeft>());
        error
            .chain()
            .any(|cause| cause.downcast_ref::<io::Error>().is_some_and(of_io))
    }
}

/// A program that shows text a screen at a time.
#[derive(Debug, Clone, PartialEq, Eq)]
enum PagerProgram {
    /// `$PAGER`, a command line of the shell.
    Given(String),
    /// `less`: long lines are not broken, what fits the screen is shown and left, and stays there.
    Less,
}

/// The user's pager, or `less` where it is installed.
fn pager() -> Option<PagerProgram> {
    match std::env::var("PAGER") {
        Ok(command) if command.trim().is_empty() => None,
        Ok(command) => Some(PagerProgram::Given(command)),
        Err(_) => {
            let path = std::env::var_os("PATH")?;
            let found = std::env::split_paths(&path).any(|folder| folder.join("less").is_file());
            found.then_some(PagerProgram::Less)
        }
    }
}

/// Holds a result back until it is more than a screen, and hands it to a pager then.
pub struct Pager {
    program: PagerProgram,
    columns: usize,
    rows: usize,
    held: Vec<u8>,
    child: Option<Child>,
}

impl Pager {
    /// Lines of the screen that what is held takes, and one for the prompt.
    fn lines(&self) -> usize {
        let of = |line: &[u8]| {
            String::from_utf8_lossy(line)
                .chars()
                .count()
                .div_ceil(self.columns.max(1))
                .max(1)
        };
        self.held
            .split_inclusive(|byte| *byte == b'\n')
            .map(of)
            .sum::<usize>()
            + 1
    }

    fn start(&mut self) -> io::Result<()> {
        let mut command = match &self.program {
            PagerProgram::Given(line) => {
                let mut shell = Command::new("sh");
                shell.args(["-c", line]);
                if std::env::var_os("LESS").is_none() {
                    shell.env("LESS", "-SFX");
                }
                shell
            }
            PagerProgram::Less => {
                let mut less = Command::new("less");
                less.args(["-S", "-F", "-X"]);
                less
            }
        };
        self.child = Some(command.stdin(Stdio::piped()).spawn()?);
        let held = std::mem::take(&mut self.held);
        self.send(&held)
    }

    fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        let Some(stdin) = self.child.as_mut().and_then(|child| child.stdin.as_mut()) else {
            return Ok(());
        };
        stdin.write_all(bytes).map_err(|error| match error.kind() {
            io::ErrorKind::BrokenPipe => io::Error::other(PagerLeft),
            _ => error,
        })
    }

    fn finish(mut self) -> io::Result<()> {
        if self.child.is_none() && self.rows > 0 {
            return self.show();
        }
        if self.child.is_none() && !self.held.is_empty() {
            self.start()?;
        }
        match self.wait() {
            Some(Ok(status)) if matches!(status.code(), Some(126 | 127)) => Err(self.not_there()),
            Some(Err(error)) => Err(error),
            _ => Ok(()),
        }
    }

    /// Waits for the pager to be left.
    fn wait(&mut self) -> Option<io::Result<std::process::ExitStatus>> {
        let mut child = self.child.take()?;
        drop(child.stdin.take());
        Some(child.wait())
    }

    /// Writes what is held to the terminal.
    fn show(&mut self) -> io::Result<()> {
        let mut out = io::stdout().lock();
        out.write_all(&std::mem::take(&mut self.held))?;
        out.flush()
    }

    fn not_there(&self) -> io::Error {
        let PagerProgram::Given(line) = &self.program else {
            return io::Error::other("less cannot be run");
        };
        io::Error::other(format!(
            "the pager \"{line}\" cannot be run\nhint: set PAGER to another one, or \\pset pager off"
        ))
    }
}

impl Write for Pager {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.child.is_some() {
            self.send(bytes)?;
            return Ok(bytes.len());
        }
        self.held.extend_from_slice(bytes);
        if self.rows == 0 || (bytes.contains(&b'\n') && self.lines() > self.rows) {
            self.start()?;
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Drop for Pager {
    /// A statement that was cancelled: what there is of its result stays to be looked at.
    fn drop(&mut self) {
        let _ = self.show();
        let _ = self.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_that_are_too_long_take_several() {
        let pager = |text: &str| Pager {
            program: PagerProgram::Given("cat >&2".to_owned()),
            columns: 4,
            rows: 24,
            held: text.as_bytes().to_vec(),
            child: None,
        };
        for (text, lines) in [("", 1), ("a\n", 2), ("\n\n", 3), ("abcdefgh", 3), ("üüü\nü\n", 3)] {
            let mut pager = pager(text);
            assert_eq!(pager.lines(), lines, "{text:?}");
            pager.held.clear();
        }
    }
}
