//! Rows read back from a file. A run that was killed leaves a last line without its end: it is skipped, and [`Rows::cut_off`] says so.

use std::io::Read as _;
use std::path::Path;

use super::{Row, RowError};
use crate::error::BenchError;

/// Largest file of rows that is read: the longest runs write less than a hundredth of it.
pub const BYTES_MAX: u64 = 256 * 1024 * 1024;

/// Rows of a file.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Rows {
    /// In the order in which they were written.
    pub rows: Vec<Row>,
    /// The number, from 1, of a last line that ends before its row does; it is not among the rows.
    pub cut_off: Option<usize>,
}

impl Rows {
    /// The sentence for people about a line that was skipped; `None` if none was.
    pub fn cut_off_text(&self) -> Option<String> {
        let line = self.cut_off?;
        Some(format!(
            "the last line ({line}) ends before its row does and is left out: the run was interrupted while it wrote it"
        ))
    }
}

/// Reads the rows of a file, one JSON object a line.
///
/// # Errors
/// When the file cannot be read or is larger than [`BYTES_MAX`], and where a line is no row: with its number and the key.
pub fn read(path: &Path) -> Result<Rows, BenchError> {
    let failed = |source| BenchError::io(format!("could not read the rows in {}", path.display()), source);
    let file = std::fs::File::open(path).map_err(failed)?;
    let mut bytes = Vec::new();
    file.take(BYTES_MAX + 1).read_to_end(&mut bytes).map_err(failed)?;
    if bytes.len() as u64 > BYTES_MAX {
        return Err(BenchError::BadArgument(format!(
            "{} is larger than {BYTES_MAX} bytes: it holds no rows of a run",
            path.display()
        )));
    }
    parse(&bytes).map_err(|(line, source)| BenchError::Rows {
        place: format!("line {line} of {}", path.display()),
        source,
    })
}

/// The rows of a file's bytes.
///
/// # Errors
/// The number of the line that is none, from 1, and why.
pub fn parse(bytes: &[u8]) -> Result<Rows, (usize, RowError)> {
    let mut rows = Rows::default();
    let lines: Vec<&[u8]> = bytes.split(|byte| *byte == b'\n').collect();
    for (index, line) in lines.iter().enumerate() {
        // What follows the last line feed is a line only if a run was killed while it wrote it.
        let unfinished = index + 1 == lines.len();
        if line.iter().all(u8::is_ascii_whitespace) {
            continue;
        }
        // A character cut in half is replaced: inside a text that does not end either.
        let text = String::from_utf8_lossy(line);
        match Row::parse(&text) {
            Ok(row) => rows.rows.push(row),
            Err(error) if unfinished && error.is_cut_off() => rows.cut_off = Some(index + 1),
            Err(error) => return Err((index + 1, error)),
        }
    }
    Ok(rows)
}
