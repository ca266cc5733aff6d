//! Runs statements and backslash commands, and writes their results; the same for scripts and for the shell.

use std::io::Write;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use corun_datafusion::Engine;
use futures::StreamExt;

use super::commands;
use super::display::{Display, PagerLeft, Target};
use super::format::{Format, ResultWriter, Style, Written};
use super::statements::{Piece, split};

/// What comes after a text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Next {
    /// More input is welcome.
    Continue,
    /// `\q`.
    Leave,
    /// `\e`: this is to be edited.
    Edit(String),
}

/// An engine, and how its results are shown.
pub struct Session {
    pub(super) engine: Engine,
    pub(super) display: Display,
    /// The last statement that was run, for `\g` and `\watch`.
    pub(super) last: String,
    /// How many files are being read, one from within the other.
    pub(super) files: usize,
    /// Whether somebody types.
    pub(super) interactive: bool,
}

impl Session {
    /// A session that shows times in table format.
    pub fn new(engine: Engine, format: Format) -> Session {
        Session {
            engine,
            display: Display::new(format),
            last: String::new(),
            files: 0,
            interactive: false,
        }
    }

    /// The same, for somebody who types.
    pub fn interactive(self) -> Session {
        Session {
            interactive: true,
            ..self
        }
    }

    /// The engine.
    pub fn engine(&self) -> &Engine {
        &self.engine
    }

    /// Runs a script: statements and backslash commands. A last statement needs no `;`.
    ///
    /// # Errors
    /// The first statement that fails; those before it have run.
    pub async fn run_text(&mut self, text: &str) -> Result<Next> {
        let parts = split(text);
        let rest = (!parts.rest.is_empty()).then_some(Piece::Statement(parts.rest));
        for piece in parts.pieces.into_iter().chain(rest) {
            match piece {
                Piece::Statement(statement) => {
                    statement.clone_into(&mut self.last);
                    self.run_statement(statement).await?;
                }
                Piece::Command { command, statement } => {
                    let next = commands::run(self, command, statement).await?;
                    if next != Next::Continue {
                        return Ok(next);
                    }
                }
            }
        }
        Ok(Next::Continue)
    }

    /// Runs one statement and writes its rows as they come, and how many they were.
    ///
    /// # Errors
    /// Whatever the engine reports; a closed pipe.
    pub async fn run_statement(&self, sql: &str) -> Result<()> {
        self.run_shown(sql, &self.display).await
    }

    /// [`Session::run_statement`] for what a command asks for: nobody wants to know how long that took.
    ///
    /// # Errors
    /// As there.
    pub async fn show(&self, sql: &str) -> Result<()> {
        let display = Display {
            timing: false,
            ..self.display.clone()
        };
        self.run_shown(sql, &display).await
    }

    /// [`Session::run_statement`] with its result shown in another way.
    ///
    /// # Errors
    /// As there.
    pub async fn run_shown(&self, sql: &str, display: &Display) -> Result<()> {
        let start = Instant::now();
        let mut target = display.target();
        let written = match self.write_result(sql, display.style(), &mut target).await {
            Ok(written) => written,
            Err(error) if PagerLeft::is(&error) => return Ok(target.finish()?),
            // What arrived before an error or a closed pipe is still shown; the first error counts.
            Err(error) => {
                let _ = target.finish();
                return Err(error);
            }
        };
        if display.format == Format::Table {
            let elapsed = display.timing.then(|| start.elapsed());
            writeln!(target, "({})", summary(written, elapsed))?;
        }
        Ok(target.finish()?)
    }

    /// Streams a result to `out`.
    async fn write_result(&self, sql: &str, style: Style, out: &mut impl Write) -> Result<Written> {
        let (schema, mut stream) = self.engine.stream(sql).await?;
        let mut writer = ResultWriter::new(out, style, schema)?;
        while let Some(batch) = stream.next().await {
            match batch {
                Ok(batch) => writer.write(&batch)?,
                Err(error) => {
                    writer.abandon()?;
                    return Err(error.into());
                }
            }
        }
        writer.finish()
    }

    /// Rows of a query, as texts.
    ///
    /// # Errors
    /// Whatever the engine reports.
    pub async fn texts(&self, sql: &str) -> Result<Vec<Vec<String>>> {
        let output = self.engine.query(sql).await?;
        Ok(corun_workloads::answers::rows(&output.batches))
    }

    /// The display with a file, made anew, as the place of results.
    ///
    /// # Errors
    /// A file that cannot be made.
    pub(super) fn with_file(&self, path: &str) -> Result<Display> {
        match Target::create(path.as_ref()) {
            Ok(file) => Ok(Display {
                file: Some(file),
                ..self.display.clone()
            }),
            Err(error) => bail!("cannot write {path}\ndetail: {error}"),
        }
    }
}

/// `3 rows, 12 ms`, and what of the rows was not shown.
fn summary(written: Written, elapsed: Option<Duration>) -> String {
    let mut text = match written.columns {
        0 => "done".to_owned(),
        _ => format!("{} row{}", written.rows, if written.rows == 1 { "" } else { "s" }),
    };
    if let Some(elapsed) = elapsed {
        let time = corun_cli::number::milliseconds(elapsed.as_secs_f64() * 1000.0);
        text.push_str(&format!(", {time}"));
    }
    match written.cut_to {
        Some(shown) if shown < written.columns => {
            let of = written.columns;
            text.push_str(&format!(", {shown} of {of} columns; \\x auto shows all"));
        }
        Some(_) => text.push_str(", cells cut; \\x auto shows them whole"),
        None => {}
    }
    text
}
