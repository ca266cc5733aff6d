//! How errors become lines and exit codes: one primary line, `detail:` and `hint:` lines, never a backtrace.
//!
//! Errors of other crates whose text already has `detail:`/`hint:` lines keep them; the causes of other errors become
//! the detail.

use std::error::Error;
use std::io;
use std::process::ExitCode;

use corun_model::explained::Explained;

use crate::out;

/// Exit code when something failed.
pub const EXIT_FAILED: u8 = 1;
/// Exit code when the command line was wrong.
pub const EXIT_USAGE: u8 = 2;

/// An error as people see it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Report {
    /// One line: what failed and where.
    pub primary: String,
    /// The cause below it.
    pub detail: Option<String>,
    /// What to do about it.
    pub hint: Option<String>,
}

/// An error that the command line caused: exit code 2 instead of 1.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct Usage(pub String);

/// Work that ran to its end but did not succeed, such as a benchmark with a wrong answer.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct Failed(pub String);

/// What a program knows of one of its errors.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Known {
    /// Its three parts.
    pub report: Report,
    /// Whether the command line caused it.
    pub is_usage: bool,
}

impl Known {
    /// What an error says of itself.
    pub fn of(error: &dyn Explained) -> Known {
        Known {
            report: Report {
                primary: error.primary(),
                detail: error.detail(),
                hint: error.hint(),
            },
            is_usage: error.is_usage(),
        }
    }
}

impl Report {
    /// The parts of an error and its causes.
    pub fn of(error: &anyhow::Error) -> Report {
        let mut report = Report::parse(&error.to_string());
        let causes: Vec<String> = error
            .chain()
            .skip(1)
            .map(|cause| Report::parse(&cause.to_string()))
            .flat_map(|cause| std::iter::once(cause.primary).chain(cause.detail))
            .filter(|cause| !report.primary.contains(cause.as_str()))
            .collect();
        if report.detail.is_none() && !causes.is_empty() {
            report.detail = Some(causes.join(": "));
        }
        if report.hint.is_none() {
            report.hint = error
                .chain()
                .skip(1)
                .find_map(|cause| Report::parse(&cause.to_string()).hint);
        }
        report
    }

    /// Splits a text that may have `detail:` and `hint:` lines; other further lines join the detail.
    pub fn parse(text: &str) -> Report {
        let mut lines = text.lines();
        let primary = lines.next().unwrap_or_default().trim().to_owned();
        let mut detail: Vec<&str> = Vec::new();
        let mut hint: Option<String> = None;
        for line in lines.map(str::trim).filter(|line| !line.is_empty()) {
            match (line.strip_prefix("detail:"), line.strip_prefix("hint:")) {
                (Some(text), _) => detail.push(text.trim()),
                (_, Some(text)) => hint = Some(text.trim().to_owned()),
                _ => detail.push(line),
            }
        }
        Report {
            primary,
            detail: (!detail.is_empty()).then(|| detail.join(" ")),
            hint,
        }
    }

    /// The lines as printed.
    pub fn lines(&self) -> String {
        let mut text = format!("error: {}\n", self.primary);
        for (name, part) in [("detail", &self.detail), ("hint", &self.hint)] {
            if let Some(part) = part {
                text.push_str(&format!("{name}: {part}\n"));
            }
        }
        text
    }
}

/// Prints what went wrong, if anything did, and chooses the exit code.
pub fn finish(result: anyhow::Result<()>) -> ExitCode {
    finish_explained(result, |_| None)
}

/// [`finish`] for a program some of whose errors know their own detail and hint: `explained` finds those.
pub fn finish_explained(
    result: anyhow::Result<()>,
    explained: fn(&(dyn Error + 'static)) -> Option<Known>,
) -> ExitCode {
    match result {
        Ok(()) => ExitCode::SUCCESS,
        // The reader of our output (`corun ... | head`) has enough; that is not an error.
        Err(error) if is_broken_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            out::error(&explained(error.as_ref()).map_or_else(|| Report::of(&error), |known| known.report));
            let usage = error
                .chain()
                .any(|cause| cause.is::<Usage>() || explained(cause).is_some_and(|known| known.is_usage));
            ExitCode::from(if usage { EXIT_USAGE } else { EXIT_FAILED })
        }
    }
}

/// Whether writing failed because nobody reads any more.
pub fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error.chain().any(|cause| {
        cause
            .downcast_ref::<io::Error>()
            .is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe)
    })
}

/// A panic is a bug of ours: one line that asks for a report, and exit code 1, whichever thread it was.
pub fn install_panic_hook() {
    std::panic::set_hook(Box::new(|panic| {
        let message = panic
            .payload_as_str()
            .unwrap_or("no message")
            .lines()
            .next()
            .unwrap_or_default();
        if is_end_of_runtime(message) {
            return;
        }
        let place = panic
            .location()
            .map(|place| format!(" ({}:{})", file_name(place.file()), place.line()));
        out::error(&Report {
            primary: format!("internal error: {message}{}", place.unwrap_or_default()),
            detail: None,
            hint: Some(
                "this is a bug in corun: please report this line with the command that led to it".to_owned(),
            ),
        });
        std::process::exit(i32::from(EXIT_FAILED));
    }));
}

/// For servers, after their logs have begun: a panic is logged and ends what it happened in, one statement or one connection, not the program.
/// Whoever runs that tells what came of it.
pub fn log_panics() {
    std::panic::set_hook(Box::new(|panic| {
        let message = panic.payload_as_str().unwrap_or("no message");
        if is_end_of_runtime(message) {
            return;
        }
        let place = panic
            .location()
            .map(|place| format!("{}:{}", file_name(place.file()), place.line()));
        tracing::error!(place, "internal error: {message}");
    }));
}

/// Whether a panic is one of Tokio's, in a task that waited for others when the runtime ended and cancelled them: `datafusion-distributed`
/// waits so for the tasks of a query. The error that ended the program is told by whoever had it.
fn is_end_of_runtime(message: &str) -> bool {
    let task = message.strip_prefix("task ");
    let number = task.and_then(|task| task.strip_suffix(" was cancelled"));
    number.is_some_and(|number| number.parse::<u64>().is_ok())
}

/// The last two parts of a source path: enough to find it, without the machine the program was built on.
fn file_name(path: &str) -> String {
    let parts: Vec<&str> = path.rsplit('/').take(2).collect();
    parts.into_iter().rev().collect::<Vec<_>>().join("/")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_that_is_logged_ends_its_thread_only() {
        let before = std::panic::take_hook();
        log_panics();
        let ended = std::thread::spawn(|| panic!("injected")).join();
        std::panic::set_hook(before);
        assert!(ended.is_err());
    }
    use anyhow::Context;

    #[test]
    fn parts_of_an_error_are_kept() {
        let report = Report::parse("cannot read x\ndetail: too short\nhint: try y");
        assert_eq!(
            report.lines(),
            "error: cannot read x\ndetail: too short\nhint: try y\n"
        );
    }

    #[test]
    fn causes_become_the_detail_and_keep_their_hint() {
        let cause = anyhow::anyhow!("no such file\nhint: look elsewhere");
        let report = Report::of(&cause.context("cannot open t"));
        assert_eq!(report.primary, "cannot open t");
        assert_eq!(report.detail.as_deref(), Some("no such file"));
        assert_eq!(report.hint.as_deref(), Some("look elsewhere"));
    }

    #[test]
    fn broken_pipes_are_found_below_contexts() {
        let error: anyhow::Result<()> =
            Err(io::Error::from(io::ErrorKind::BrokenPipe)).context("writing the result");
        assert!(is_broken_pipe(&error.expect_err("broken")));
    }

    #[test]
    fn a_task_cancelled_at_the_end_is_no_bug() {
        assert!(is_end_of_runtime("task 26 was cancelled"));
        assert!(!is_end_of_runtime("task 26 panicked"));
        assert!(!is_end_of_runtime("task of x was cancelled"));
    }

    #[test]
    fn source_places_do_not_name_the_machine() {
        assert_eq!(file_name("/a/b/crates/exec/src/table.rs"), "src/table.rs");
        assert_eq!(file_name("lib.rs"), "lib.rs");
    }
}
