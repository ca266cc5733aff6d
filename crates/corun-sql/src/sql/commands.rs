//! Backslash commands. Names and meanings are psql's; [`COMMANDS`] lists them, [`run`] does what they say.

use std::path::Path;
use std::process::Command as Process;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use corun_cli::arguments::positive_number;
use corun_cli::out;
use corun_datafusion::nearest;

use super::catalog;
use super::display::{Display, Expanded, Paging};
use super::format::Format;
use super::session::{Next, Session};

/// Files read one from within the other.
const FILES_MAX: usize = 16;

/// A command, its arguments, and what it does.
const COMMANDS: &[(&str, &str, &str)] = &[
    ("\\d", "[NAME]", "list tables, or the columns of one"),
    ("\\dt", "[PATTERN]", "list tables; * stands for any characters"),
    ("\\dn", "", "list schemas"),
    ("\\l", "", "list catalogs (databases)"),
    ("\\df", "[PATTERN]", "list functions"),
    (
        "\\g",
        "[FILE]",
        "run what stands before it, or the last; into a file",
    ),
    ("\\gx", "", "the same, rows as records"),
    (
        "\\watch",
        "[SECONDS] [c=TIMES]",
        "run it again and again, every 2 seconds",
    ),
    ("\\e", "", "edit the last statement in $EDITOR"),
    ("\\i", "FILE", "run a file"),
    (
        "\\o",
        "[FILE]",
        "write results into a file, or to the terminal again",
    ),
    (
        "\\x",
        "[on|off|auto]",
        "rows as records; auto: where they do not fit",
    ),
    ("\\timing", "[on|off]", "tell the time of each statement"),
    (
        "\\pset",
        "[OPTION [VALUE]]",
        "pager on|off|always, format table|csv|json, columns",
    ),
    ("\\echo", "TEXT", "write a text"),
    ("\\!", "COMMAND", "run a command of the system's shell"),
    ("\\?", "", "this list"),
    ("\\q", "", "leave (also Ctrl-D)"),
];

/// Other names of commands.
const ALIASES: &[(&str, &str)] = &[
    ("\\quit", "\\q"),
    ("\\h", "\\?"),
    ("\\help", "\\?"),
    ("\\dv", "\\dt"),
    ("\\list", "\\l"),
    ("\\include", "\\i"),
    ("\\out", "\\o"),
    ("\\edit", "\\e"),
    ("\\exec", "\\g"),
];

/// Commands of other shells, and what to do here.
const ELSEWHERE: &[(&str, &str)] = &[
    (
        "\\c",
        "there is one database: the tables of this command line; schema.table names others",
    ),
    (
        "\\copy",
        "COPY (SELECT ...) TO 'file.parquet' writes a file; --table NAME=PATH reads one",
    ),
    (
        "\\set",
        "SET KEY = VALUE; select name, value from information_schema.df_settings lists the keys",
    ),
    ("\\di", "EXPLAIN shows where an index is used"),
    (
        "\\du",
        "corun-sql user list shows the users of a server; here there are none",
    ),
    (
        "\\conninfo",
        "the tables are in this process; there is no connection",
    ),
    (".tables", "\\dt lists tables"),
    (".schema", "\\d NAME lists columns"),
    (".mode", "\\pset format table|csv|json"),
    (".timer", "\\timing"),
    (".read", "\\i FILE"),
    (".output", "\\o FILE"),
    (".help", "\\? lists the commands"),
    (".exit", "\\q"),
    (".quit", "\\q"),
];

const AFTER: &str = "
Statements end with `;` and may span lines. Ctrl-C cancels the running one.
EXPLAIN shows a plan, EXPLAIN ANALYZE runs it and shows its metrics,
SET corun.join = 'off' turns corun's joins off.";

/// Names of all commands, sorted as they are listed.
pub fn names() -> impl Iterator<Item = &'static str> {
    COMMANDS.iter().map(|(name, ..)| *name)
}

/// What a line is meant to be that looks like a command of DuckDB or SQLite; `None` for others.
pub fn of_other_shell(line: &str) -> Option<&'static str> {
    let word = line
        .split_whitespace()
        .next()
        .filter(|word| word.starts_with('.'))?;
    let known = ELSEWHERE
        .iter()
        .find(|(name, _)| *name == word.trim_end_matches(';'));
    known.map(|(_, hint)| *hint)
}

/// Whether a command, with its arguments or without, runs the statement before it.
pub fn takes_statement(line: &str) -> bool {
    let name = line
        .split_whitespace()
        .next()
        .unwrap_or_default()
        .trim_end_matches(';');
    matches!(name, "\\g" | "\\gx" | "\\watch" | "\\e" | "\\exec" | "\\edit")
}

/// Runs a command with its arguments. `statement` stands before it on its line.
///
/// # Errors
/// An unknown command or argument; whatever fails.
pub async fn run(session: &mut Session, line: &str, statement: &str) -> Result<Next> {
    let line = line.trim_end_matches(|c: char| c == ';' || c.is_whitespace());
    let (typed, rest) = match line.split_once(char::is_whitespace) {
        Some((typed, rest)) => (typed, rest.trim()),
        None => (line, ""),
    };
    let known = ALIASES.iter().find(|(alias, _)| *alias == typed);
    let name = known.map_or(typed, |(_, name)| *name);
    let name = match COMMANDS.iter().any(|(known, ..)| *known == name) {
        true => name,
        // psql's `\d+` says more; here there is no more.
        false => name.trim_end_matches('+'),
    };
    if !statement.is_empty() {
        if !takes_statement(name) {
            bail!("{typed} stands within a statement\nhint: end the statement with ; or \\g before");
        }
        statement.clone_into(&mut session.last);
    }
    if takes_statement(name) && session.last.is_empty() && name != "\\e" {
        bail!("there is no statement for {typed}\nhint: write one before it");
    }
    match (name, Some(rest).filter(|rest| !rest.is_empty())) {
        ("\\q", _) => return Ok(Next::Leave),
        ("\\?", _) => out::line(&help())?,
        ("\\d", Some(name)) => catalog::columns(session, name).await?,
        ("\\d", None) => catalog::tables(session, None).await?,
        ("\\dt", pattern) => catalog::tables(session, pattern).await?,
        ("\\dn", _) => catalog::schemas(session).await?,
        ("\\l", _) => catalog::catalogs(session).await?,
        ("\\df", pattern) => catalog::functions(session, pattern).await?,
        ("\\g", file) => again(session, file).await?,
        ("\\gx", _) => {
            let display = Display {
                expanded: Expanded::On,
                ..session.display.clone()
            };
            session.run_shown(&session.last, &display).await?;
        }
        ("\\watch", arguments) => watch(session, arguments.unwrap_or_default()).await?,
        ("\\e", _) => return edit(session),
        ("\\i", Some(file)) => return include(session, file).await,
        ("\\o", file) => {
            session.display.file = match file {
                Some(file) => session.with_file(unquoted(file))?.file,
                None => None,
            };
        }
        ("\\x", value) => expanded(session, value)?,
        ("\\timing", value) => {
            session.display.timing = match value {
                Some("on") => true,
                Some("off") => false,
                Some(other) => bail!("\\timing takes on or off, not \"{other}\""),
                None => !session.display.timing,
            };
            said(&format!("timing is {}", on_off(session.display.timing)))?;
        }
        ("\\pset", arguments) => pset(session, arguments.unwrap_or_default())?,
        ("\\echo", text) => out::line(unquoted(text.unwrap_or_default()))?,
        ("\\!", command) => system(command.unwrap_or("exec \"${SHELL:-sh}\""))?,
        ("\\i", None) => bail!("\\i takes a file"),
        _ => return unknown(typed),
    }
    Ok(Next::Continue)
}

fn help() -> String {
    let mut text = String::new();
    for (name, arguments, what) in COMMANDS {
        let usage = format!("{name} {arguments}");
        text.push_str(&format!("{usage:<28}{what}\n"));
    }
    text + AFTER
}

fn unknown(typed: &str) -> Result<Next> {
    if let Some((_, hint)) = ELSEWHERE.iter().find(|(name, _)| *name == typed) {
        bail!("there is no {typed} here\nhint: {hint}");
    }
    let known: Vec<&str> = names().collect();
    match nearest(typed, &known).filter(|_| typed.len() > 3) {
        Some(near) => bail!("unknown command {typed}\nhint: did you mean {near}? \\? lists the commands"),
        None => bail!("unknown command {typed}\nhint: \\? lists the commands"),
    }
}

/// A word that may stand in single quotes, as file names do.
fn unquoted(word: &str) -> &str {
    let inner = word.strip_prefix('\'').and_then(|word| word.strip_suffix('\''));
    inner.unwrap_or(word)
}

fn on_off(on: bool) -> &'static str {
    if on { "on" } else { "off" }
}

/// Confirms a setting.
fn said(text: &str) -> Result<()> {
    Ok(out::line(text)?)
}

/// `\g`: runs the last statement, into a file if one is named.
async fn again(session: &Session, file: Option<&str>) -> Result<()> {
    match file {
        Some(file) => {
            session
                .run_shown(&session.last, &session.with_file(unquoted(file))?)
                .await
        }
        None => session.run_statement(&session.last).await,
    }
}

/// `\watch`: psql's arguments, of which the interval is in seconds.
async fn watch(session: &Session, arguments: &str) -> Result<()> {
    let mut every = 2.0;
    let mut times = usize::MAX;
    for argument in arguments.split_whitespace() {
        let (key, value) = argument.split_once('=').unwrap_or(("i", argument));
        let wrong = |what: &str| {
            format!("\\watch {argument}: {what}\nhint: \\watch [SECONDS] [c=TIMES], such as \\watch 5 c=10")
        };
        match key {
            "i" | "interval" => {
                every = positive_number(value).map_err(|error| anyhow::anyhow!(wrong(&error)))?
            }
            "c" | "count" => {
                times =
                    corun_cli::arguments::positive(value).map_err(|error| anyhow::anyhow!(wrong(&error)))?;
            }
            _ => bail!(wrong("is unknown")),
        }
    }
    let pause = Duration::try_from_secs_f64(every).unwrap_or(Duration::MAX);
    for run in 1..=times {
        out::line(&format!("run {run}, every {every} s"))?;
        session.run_statement(&session.last).await?;
        if run < times {
            tokio::time::sleep(pause).await;
        }
    }
    Ok(())
}

/// `\e`: what the editor leaves goes back to the line that is typed.
fn edit(session: &Session) -> Result<Next> {
    if !session.interactive {
        bail!("\\e needs a terminal");
    }
    let file = tempfile::Builder::new()
        .prefix("corun-sql-")
        .suffix(".sql")
        .tempfile()
        .context("cannot make a file to edit")?;
    std::fs::write(
        file.path(),
        format!("{};\n", session.last).trim_start_matches(';'),
    )
    .context("cannot write it")?;
    let editor = ["VISUAL", "EDITOR"]
        .into_iter()
        .find_map(|name| std::env::var(name).ok());
    let editor = editor
        .filter(|editor| !editor.trim().is_empty())
        .unwrap_or_else(|| "vi".to_owned());
    let status = Process::new("sh")
        .args(["-c", &format!("{editor} \"$1\""), "sh"])
        .arg(file.path())
        .status()
        .context("cannot run a shell")?;
    if !status.success() {
        bail!("the editor \"{editor}\" failed\ndetail: {status}\nhint: set EDITOR to another one");
    }
    let text = std::fs::read_to_string(file.path()).context("cannot read what was edited")?;
    Ok(Next::Edit(text.trim().to_owned()))
}

/// `\i`: runs a file.
async fn include(session: &mut Session, file: &str) -> Result<Next> {
    let file = unquoted(file);
    if session.files == FILES_MAX {
        bail!("{file} is not read: {FILES_MAX} files read each other\nhint: does a file run itself?");
    }
    let text = super::read_script(Path::new(file))?;
    session.files += 1;
    let ran = Box::pin(session.run_text(&text)).await;
    session.files -= 1;
    ran
}

fn expanded(session: &mut Session, value: Option<&str>) -> Result<()> {
    let display = &mut session.display;
    display.expanded = match value {
        Some("on") => Expanded::On,
        Some("off") => Expanded::Off,
        Some("auto") => Expanded::Auto,
        Some(other) => bail!("\\x takes on, off or auto, not \"{other}\""),
        None if display.expanded == Expanded::Off => Expanded::On,
        None => Expanded::Off,
    };
    said(match display.expanded {
        Expanded::Off => "rows are shown as a table",
        Expanded::On => "rows are shown as records",
        Expanded::Auto => "rows are shown as records where they do not fit",
    })
}

fn pset(session: &mut Session, arguments: &str) -> Result<()> {
    let (option, value) = match arguments.split_once(char::is_whitespace) {
        Some((option, value)) => (option, Some(value.trim())),
        None => (arguments, None),
    };
    if matches!(option, "x" | "expanded") {
        return expanded(session, value);
    }
    let display = &mut session.display;
    match (option, value) {
        ("", _) => {}
        ("pager", _) => {
            display.paging = match value {
                Some("on") => Paging::On,
                Some("off") => Paging::Off,
                Some("always") => Paging::Always,
                None if display.paging == Paging::Off => Paging::On,
                None => Paging::Off,
                Some(other) => bail!("pager is on, off or always, not \"{other}\""),
            };
        }
        ("format", Some("table" | "aligned")) => display.format = Format::Table,
        ("format", Some("csv")) => display.format = Format::Csv,
        ("format", Some("json")) => display.format = Format::Json,
        ("format", _) => bail!("format is table, csv or json"),
        ("columns", value) => {
            let columns = value.and_then(|value| value.parse().ok());
            display.columns = columns.context("columns is a number of characters; 0: as the terminal has")?;
        }
        (other, _) => {
            bail!("unknown option \"{other}\"\nhint: there are pager, format, columns and expanded")
        }
    }
    let paging = match display.paging {
        Paging::Off => "off",
        Paging::On => "on",
        Paging::Always => "always",
    };
    let format = match display.format {
        Format::Table => "table",
        Format::Csv => "csv",
        Format::Json => "json",
    };
    said(&format!(
        "pager {paging}, format {format}, columns {}",
        display.columns
    ))
}

/// `\!`: its output goes where ours goes.
fn system(command: &str) -> Result<()> {
    let status = Process::new("sh")
        .args(["-c", command])
        .status()
        .context("cannot run a shell")?;
    if !status.success() {
        bail!("the command failed\ndetail: {status}");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_other_name_leads_somewhere() {
        for (alias, name) in ALIASES {
            assert!(names().any(|known| known == *name), "{alias}");
        }
        for line in help().lines() {
            assert!(line.chars().count() <= 80, "{line}");
        }
        assert_eq!(of_other_shell(".tables"), Some("\\dt lists tables"));
        assert_eq!(of_other_shell("select .5"), None);
    }
}
