//! The reporting module: the only place that opens stdout and stderr for printing.
//!
//! Results go to stdout through [`stdout`] (buffered; the caller sees a closed pipe as an error and passes it up);
//! errors, notes and logs go to stderr.

use std::io::{self, BufWriter, IsTerminal, Write};

use serde::Serialize;
use tracing_subscriber::filter::LevelFilter;

use crate::failure::Report;
use crate::log_lines::Lines;
use crate::plain;

/// A buffered stdout. It is flushed by [`Write::flush`] and on drop, but a drop cannot report a closed pipe: flush.
pub fn stdout() -> BufWriter<io::Stdout> {
    BufWriter::with_capacity(64 * 1024, io::stdout())
}

/// How many characters a line of the terminal has that stdout is; `None` where stdout is none.
pub fn terminal_width() -> Option<usize> {
    terminal_size().map(|(columns, _)| columns)
}

/// Columns and rows of the terminal that stdout is; `None` where stdout is none.
pub fn terminal_size() -> Option<(usize, usize)> {
    let (width, height) = terminal_size::terminal_size_of(io::stdout())?;
    Some((usize::from(width.0), usize::from(height.0)))
}

/// Prints one line to stdout at once.
///
/// # Errors
/// A closed pipe.
pub fn line(text: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    writeln!(out, "{text}")?;
    out.flush()
}

/// Prints one JSON object on one line to stdout at once.
///
/// # Errors
/// A closed pipe.
pub fn json_line(object: &impl Serialize) -> io::Result<()> {
    line(&serde_json::to_string(object).map_err(io::Error::other)?)
}

/// Prints a sentence for people to stderr; it is lost when nobody listens.
pub fn note(text: &str) {
    let _ = writeln!(io::stderr().lock(), "{text}");
}

/// Asks on stderr for what is typed behind it.
pub fn prompt(text: &str) {
    let mut err = io::stderr().lock();
    let _ = err.write_all(text.as_bytes()).and_then(|()| err.flush());
}

/// Prints an error to stderr.
pub fn error(report: &Report) {
    let _ = io::stderr().lock().write_all(report.lines().as_bytes());
}

/// Sends the logs of a server to stderr: with times, as text or one JSON object a line.
pub fn start_server_logging(level: LevelFilter, json: bool) {
    let logs = tracing_subscriber::fmt()
        .with_writer(io::stderr)
        .with_max_level(level)
        .with_target(false);
    if json {
        logs.json().flatten_event(true).init();
    } else {
        logs.with_ansi(false).event_format(Lines).init();
    }
}

/// Sends logs to stderr: warnings by default, more with each `-v`.
pub fn start_logging(verbose: u8) {
    let level = match verbose {
        0 => LevelFilter::WARN,
        1 => LevelFilter::INFO,
        2 => LevelFilter::DEBUG,
        _ => LevelFilter::TRACE,
    };
    tracing_subscriber::fmt()
        .with_writer(io::stderr)
        .with_ansi(io::stderr().is_terminal())
        .with_max_level(level)
        .with_target(verbose > 1)
        .without_time()
        .init();
}

/// Characters a line of a table may have: as many as the terminal has; any number where the output is none.
pub fn line_width() -> usize {
    terminal_width().unwrap_or(usize::MAX)
}

/// Prints a table for people: headings, a rule, rows; the last `numeric_columns` columns are aligned right.
///
/// # Errors
/// A closed pipe.
pub fn table(
    out: &mut impl Write,
    headings: &[&str],
    numeric_columns: usize,
    rows: &[Vec<String>],
) -> io::Result<()> {
    out.write_all(plain::table(headings, numeric_columns, rows).as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_align_text_left_and_numbers_right() {
        let mut text = Vec::new();
        let rows = vec![
            vec!["stock".to_owned(), "1.5".to_owned()],
            vec!["a longer name".to_owned(), "12.25".to_owned()],
        ];
        table(&mut text, &["side", "ms"], 1, &rows).expect("memory does not fail");
        assert_eq!(
            String::from_utf8(text).expect("text"),
            "side              ms\n-------------  -----\nstock            1.5\na longer name  12.25\n"
        );
    }
}
