//! The interactive shell: line editing, history, and Ctrl-C that cancels a statement but not the shell.
//!
//! ```text
//!   read (rustyline) --complete--> run --done or cancelled--> read
//!        | Ctrl-C: drop the line       | Ctrl-C: drop the result stream, which cancels the query
//!        | Ctrl-D, \q: leave           | error: print it, go on
//! ```

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context as _, Result};
use rustyline::completion::Completer;
use rustyline::error::ReadlineError;
use rustyline::highlight::Highlighter;
use rustyline::hint::Hinter;
use rustyline::history::FileHistory;
use rustyline::validate::{ValidationContext, ValidationResult, Validator};
use rustyline::{Config, Context, Editor, Helper};
use tokio::runtime::Runtime;

use super::session::{Next, Session};
use super::statements::split;
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
    let config = Config::builder()
        .max_history_size(HISTORY_LINES)?
        .auto_add_history(true)
        .build();
    let mut editor: Editor<Words, FileHistory> =
        Editor::with_config(config).context("cannot use this terminal")?;
    editor.set_helper(Some(Words { words: Vec::new() }));
    let history = history_file();
    if let Some(file) = &history {
        // The first start has no file yet, and an unreadable one only costs the old lines.
        let _ = editor.load_history(file);
    }
    greet(&session)?;
    let giving_back = GivingBack::after(IDLE).context("cannot start a thread")?;
    loop {
        if let Some(words) = editor.helper_mut() {
            words.words = runtime.block_on(known_words(&session));
        }
        let text = match editor.readline("corun> ") {
            Ok(text) => text,
            Err(ReadlineError::Interrupted) => continue,
            Err(ReadlineError::Eof) => break,
            Err(error) => return Err(error).context("cannot read from the terminal"),
        };
        if let Some(file) = &history {
            let _ = editor.append_history(file);
        }
        if matches!(text.trim().trim_end_matches(';'), "exit" | "quit") {
            break;
        }
        giving_back.begin();
        let ran = runtime.block_on(run_or_cancel(&mut session, &text));
        giving_back.end();
        match ran {
            Ok(Next::Continue) => {}
            Ok(Next::Leave) => break,
            Err(error) if is_broken_pipe(&error) => return Err(error),
            Err(error) => out::error(&Report::of(&error)),
        }
    }
    Ok(())
}

/// Runs the text; Ctrl-C drops it where it stands.
async fn run_or_cancel(session: &mut Session, text: &str) -> Result<Next> {
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

/// Tables and columns the Tab key completes, sorted.
async fn known_words(session: &Session) -> Vec<String> {
    let mut words: Vec<String> = KEYWORDS.iter().map(|word| (*word).to_owned()).collect();
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

/// Completes words, and says whether Enter runs the text or starts a new line.
struct Words {
    words: Vec<String>,
}

impl Validator for Words {
    fn validate(&self, context: &mut ValidationContext) -> rustyline::Result<ValidationResult> {
        let text = context.input();
        let command = text.trim_start().starts_with('\\');
        let word = matches!(text.trim(), "exit" | "quit");
        Ok(match command || word || split(text).rest.is_empty() {
            true => ValidationResult::Valid(None),
            false => ValidationResult::Incomplete,
        })
    }
}

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
            .map_or(0, |at| at + line[at..].chars().next().map_or(1, char::len_utf8));
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
