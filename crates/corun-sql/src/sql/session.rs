//! Runs statements and backslash commands, and writes their results; the same for scripts and for the shell.

use std::io::Write;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use arrow::datatypes::Schema;
use corun_datafusion::Engine;
use futures::StreamExt;

use super::format::{Format, ResultWriter};
use super::statements::split;
use corun_cli::out;

/// What the backslash commands are, for `\?`.
const COMMANDS: &str = "\
\\d            list tables
\\d NAME       columns of a table
\\timing       switch the time after each result on or off
\\?            this list
\\q            leave (also Ctrl-D)

Statements end with `;` and may span lines. Ctrl-C cancels the running statement.
EXPLAIN shows a plan, EXPLAIN ANALYZE runs it and shows its metrics, SET corun.join = 'off' turns corun's joins off.";

/// Whether the user wants to go on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Next {
    /// More input is welcome.
    Continue,
    /// `\q`.
    Leave,
}

/// An engine, and how its results are shown.
pub struct Session {
    engine: Engine,
    format: Format,
    timing: bool,
}

impl Session {
    /// A session that shows times in table format.
    pub fn new(engine: Engine, format: Format) -> Session {
        Session {
            engine,
            format,
            timing: true,
        }
    }

    /// The engine.
    pub fn engine(&self) -> &Engine {
        &self.engine
    }

    /// Runs a script: statements, and lines that begin with a backslash between them. A last statement needs no `;`.
    ///
    /// # Errors
    /// The first statement that fails; those before it have run.
    pub async fn run_text(&mut self, text: &str) -> Result<Next> {
        let mut pending = String::new();
        for line in text.split_inclusive('\n') {
            if line.starts_with('\\') && split(&pending).rest.is_empty() {
                if self.run_statements(&std::mem::take(&mut pending)).await? == Next::Leave
                    || self.run_command(line.trim()).await? == Next::Leave
                {
                    return Ok(Next::Leave);
                }
                continue;
            }
            pending.push_str(line);
        }
        self.run_statements(&pending).await
    }

    async fn run_statements(&mut self, text: &str) -> Result<Next> {
        let parts = split(text);
        for statement in parts
            .statements
            .into_iter()
            .chain((!parts.rest.is_empty()).then_some(parts.rest))
        {
            self.run_statement(statement).await?;
        }
        Ok(Next::Continue)
    }

    /// Runs one statement and writes its rows as they come.
    async fn run_statement(&self, sql: &str) -> Result<()> {
        let start = Instant::now();
        let mut out = out::stdout();
        let written = self.write_result(sql, &mut out).await;
        // What arrived before an error or a closed pipe is still shown; the first error counts.
        let (columns, rows) = match written {
            Ok(counts) => counts,
            Err(error) => {
                let _ = out.flush();
                return Err(error);
            }
        };
        if self.format == Format::Table {
            let elapsed = match self.timing {
                true => format!(", {}", time_text(start.elapsed())),
                false => String::new(),
            };
            match columns {
                0 => writeln!(out, "(done{elapsed})")?,
                _ => writeln!(out, "({rows} row{}{elapsed})", if rows == 1 { "" } else { "s" })?,
            }
        }
        Ok(out.flush()?)
    }

    /// Streams a result to `out`; returns the numbers of its columns and rows.
    async fn write_result(&self, sql: &str, out: &mut impl Write) -> Result<(usize, u64)> {
        let (schema, mut stream) = self.engine.stream(sql).await?;
        let columns = schema.fields().len();
        let mut writer = ResultWriter::new(out, self.format, schema)?;
        while let Some(batch) = stream.next().await {
            match batch {
                Ok(batch) => writer.write(&batch)?,
                Err(error) => {
                    writer.abandon()?;
                    return Err(error.into());
                }
            }
        }
        Ok((columns, writer.finish()?))
    }

    /// Runs a backslash command.
    async fn run_command(&mut self, line: &str) -> Result<Next> {
        let mut words = line.split_whitespace();
        let command = words.next().unwrap_or_default();
        let argument = words.next().map(|word| word.trim_end_matches(';'));
        match (command.trim_end_matches(';'), argument) {
            ("\\q" | "\\quit", _) => return Ok(Next::Leave),
            ("\\?" | "\\h" | "\\help", _) => out::line(COMMANDS)?,
            ("\\d" | "\\dt", None) => self.list_tables().await?,
            ("\\d", Some(name)) => self.list_columns(name).await?,
            ("\\timing", argument) => {
                self.timing = match argument {
                    Some("on") => true,
                    Some("off") => false,
                    Some(other) => bail!("\\timing takes on or off, not \"{other}\""),
                    None => !self.timing,
                };
                out::line(if self.timing {
                    "timing is on"
                } else {
                    "timing is off"
                })?;
            }
            (other, _) => bail!("unknown command {other}\nhint: \\? lists the commands"),
        }
        Ok(Next::Continue)
    }

    async fn list_tables(&self) -> Result<()> {
        let mut rows = Vec::new();
        for table in self.engine.tables() {
            let columns = self
                .engine
                .table_schema(&table)
                .await
                .map_or(0, |schema| schema.fields().len());
            rows.push(vec![table, columns.to_string()]);
        }
        let mut out = out::stdout();
        out::table(&mut out, &["table", "columns"], 1, &rows)?;
        Ok(out.flush()?)
    }

    async fn list_columns(&self, name: &str) -> Result<()> {
        let name = match name.strip_prefix('"').and_then(|name| name.strip_suffix('"')) {
            Some(quoted) => quoted.to_owned(),
            None => name.to_lowercase(),
        };
        if !self.engine.tables().contains(&name) {
            bail!("there is no table \"{name}\"\nhint: \\d lists the tables");
        }
        let schema = self.engine.table_schema(&name).await?;
        let mut out = out::stdout();
        out::table(
            &mut out,
            &["column", "type", "nullable"],
            0,
            &column_rows(&schema),
        )?;
        Ok(out.flush()?)
    }
}

fn column_rows(schema: &Schema) -> Vec<Vec<String>> {
    let yes_no = |yes: bool| if yes { "yes" } else { "no" };
    schema
        .fields()
        .iter()
        .map(|field| {
            vec![
                field.name().clone(),
                field.data_type().to_string(),
                yes_no(field.is_nullable()).to_owned(),
            ]
        })
        .collect()
}

/// A time as people read it.
fn time_text(elapsed: Duration) -> String {
    corun_cli::number::milliseconds(elapsed.as_secs_f64() * 1000.0)
}
