//! The interactive shell: line editing, history, and Ctrl-C that cancels a statement but not the shell.
//!
//! ```text
//!   read (rustyline) --complete--> run --done or cancelled--> read
//!    ^   | Ctrl-C: drop the text       | Ctrl-C: drop the result stream, which cancels the query
//!    |   | Ctrl-D, \q: leave           | error: print it, go on
//!    +---+ not complete: one line more
//! ```

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context as _, Result};
use rustyline::completion::Completer;
use rustyline::error::ReadlineError;
use rustyline::highlight::Highlighter;
use rustyline::hint::Hinter;
use rustyline::history::FileHistory;
use rustyline::validate::Validator;
use rustyline::{Config, Context, Editor, Helper};
use tokio::runtime::Runtime;

use super::commands;
use super::session::{Next, Session};
use super::statements::{Piece, split};
use corun_cli::failure::{Report, is_broken_pipe};
use corun_cli::out;
use corun_exec::allocator::GivingBack;

/// Lines kept in the history file.
const HISTORY_LINES: usize = 2000;

/// A shell that waits so long for its user gives free memory back.
const IDLE: Duration = Duration::from_secs(10);

/// Reads and runs until the user leaves.
///
/// # Errors
/// A terminal that cannot be used, or a closed stdout; failing statements are printed instead.
pub fn run(runtime: &Runtime, mut session: Session) -> Result<()> {
    let config = Config::builder().max_history_size(HISTORY_LINES)?.build();
    let mut editor: Editor<Words, FileHistory> =
        Editor::with_config(config).context("cannot use this terminal")?;
    let functions = runtime.block_on(functions(&session));
    editor.set_helper(Some(Words { words: Vec::new() }));
    let history = history_file();
    if let Some(file) = &history {
        // The first start has no file yet, and an unreadable one only costs the old lines.
        let _ = editor.load_history(file);
    }
    greet(&session)?;
    let giving_back = GivingBack::after(IDLE).context("cannot start a thread")?;
    let mut text = String::new();
    let mut edited = String::new();
    loop {
        if let Some(words) = editor.helper_mut() {
            words.words = runtime.block_on(known_words(&session, &functions));
        }
        let prompt = if text.is_empty() { "corun> " } else { "corun-> " };
        let initial = std::mem::take(&mut edited);
        match editor.readline_with_initial(prompt, (&initial, "")) {
            Ok(line) => text.push_str(&line),
            Err(ReadlineError::Interrupted) => {
                text.clear();
                continue;
            }
            Err(ReadlineError::Eof) => break,
            Err(error) => return Err(error).context("cannot read from the terminal"),
        }
        if !text.contains('\n')
            && let Some(hint) = commands::of_other_shell(&text)
        {
            let typed = std::mem::take(&mut text);
            out::error(&Report::parse(&format!(
                "there is no {} here\nhint: {hint}",
                typed.trim()
            )));
            continue;
        }
        let word = text.trim().trim_end_matches(';');
        if matches!(word, "exit" | "quit") {
            break;
        }
        if word == "help" {
            text = "\\?".to_owned();
        }
        if !split(&text).rest.is_empty() {
            text.push('\n');
            continue;
        }
        let whole = match split(&text).pieces.as_slice() {
            // A command within a statement, which goes on after it.
            [Piece::Command { command, statement }]
                if !statement.is_empty() && !commands::takes_statement(command) =>
            {
                let command = (*command).to_owned();
                text = format!("{statement}\n");
                command
            }
            _ => std::mem::take(&mut text),
        };
        if whole.trim().is_empty() {
            continue;
        }
        let _ = editor.add_history_entry(whole.trim_end());
        if let Some(file) = &history {
            let _ = editor.append_history(file);
        }
        giving_back.begin();
        let ran = runtime.block_on(run_or_cancel(&mut session, &whole));
        giving_back.end();
        match ran {
            Ok(Next::Continue) => {}
            Ok(Next::Leave) => break,
            Ok(Next::Edit(text)) => edited = text,
            Err(error) if is_broken_pipe(&error) => return Err(error),
            Err(error) => out::error(&Report::of(&error)),
        }
    }
    Ok(())
}

/// Runs the text; Ctrl-C drops it where it stands.
async fn run_or_cancel(session: &mut Session, text: &str) -> Result<Next> {
    session.files = 0;
    tokio::select! {
        result = session.run_text(text) => result,
        _ = tokio::signal::ctrl_c() => {
            out::note("\ncancelled");
            Ok(Next::Continue)
        }
    }
}

fn greet(session: &Session) -> std::io::Result<()> {
    let tables = session.engine().tables();
    let listed = match tables.len() {
        0 => "no tables yet; create one, or start with --ssb 1 or a file".to_owned(),
        _ => format!("tables: {}", tables.join(", ")),
    };
    out::line(&format!(
        "corun {}, \\? for help; {listed}",
        env!("CARGO_PKG_VERSION")
    ))
}

/// `$XDG_STATE_HOME/corun/sql_history`, or below `~/.local/state`; `None` (no history) without a home.
fn history_file() -> Option<PathBuf> {
    let state = match std::env::var_os("XDG_STATE_HOME").filter(|folder| !folder.is_empty()) {
        Some(folder) => PathBuf::from(folder),
        None => PathBuf::from(std::env::var_os("HOME").filter(|home| !home.is_empty())?).join(".local/state"),
    };
    let folder = state.join("corun");
    std::fs::create_dir_all(&folder).ok()?;
    Some(folder.join("sql_history"))
}

/// Functions by name; they stay the same.
async fn functions(session: &Session) -> Vec<String> {
    let sql = "select distinct routine_name from information_schema.routines";
    let rows = session.texts(sql).await.unwrap_or_default();
    rows.into_iter().flatten().collect()
}

/// Tables, columns, functions and commands that the Tab key completes, sorted.
async fn known_words(session: &Session, functions: &[String]) -> Vec<String> {
    let mut words: Vec<String> = KEYWORDS.iter().map(|word| (*word).to_owned()).collect();
    words.extend(commands::names().map(str::to_owned));
    words.extend(functions.iter().cloned());
    for table in session.engine().tables() {
        if let Ok(schema) = session.engine().table_schema(&table).await {
            words.extend(schema.fields().iter().map(|field| field.name().clone()));
        }
        words.push(table);
    }
    words.sort();
    words.dedup();
    words
}

const KEYWORDS: &[&str] = &[
    "analyze",
    "between",
    "count",
    "create",
    "distinct",
    "explain",
    "from",
    "group by",
    "having",
    "inner join",
    "left join",
    "limit",
    "order by",
    "select",
    "sum",
    "union all",
    "where",
];

/// Completes words.
struct Words {
    words: Vec<String>,
}

impl Validator for Words {}

impl Completer for Words {
    type Candidate = String;

    fn complete(
        &self,
        line: &str,
        position: usize,
        _: &Context<'_>,
    ) -> rustyline::Result<(usize, Vec<String>)> {
        let start = line[..position]
            .rfind(|c: char| !(c.is_alphanumeric() || c == '_'))
            .map_or(0, |at| match line[at..].chars().next() {
                // The first character of a command.
                Some('\\') | None => at,
                Some(before) => at + before.len_utf8(),
            });
        let typed = &line[start..position];
        if typed.is_empty() {
            return Ok((start, Vec::new()));
        }
        let matching = self
            .words
            .iter()
            .filter(|word| word.starts_with(&typed.to_lowercase()));
        Ok((start, matching.cloned().collect()))
    }
}

impl Hinter for Words {
    type Hint = String;
}

impl Highlighter for Words {}

impl Helper for Words {}
