//! What is wrong or doubtful in a file: where, what, and what to do.

use std::fmt;

/// How bad it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// The file works, perhaps not as meant.
    Warning,
    /// The file is refused.
    Error,
}

/// One thing found in a file. Never contains a value that may be secret.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct Finding {
    /// How bad it is.
    pub severity: Severity,
    /// The file's name as the user gave it.
    pub file: String,
    /// Line, counted from 1; 0 when it is about the file as a whole.
    pub line: usize,
    /// Column in characters, counted from 1; 0 when it is about the line or the file as a whole.
    pub column: usize,
    /// What is wrong, in one line.
    pub what: String,
    /// What to do about it.
    pub hint: Option<String>,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.file)?;
        if self.line > 0 {
            write!(f, ":{}", self.line)?;
            if self.column > 0 {
                write!(f, ":{}", self.column)?;
            }
        }
        let severity = match self.severity {
            Severity::Warning => "warning",
            Severity::Error => "error",
        };
        write!(f, ": {severity}: {}", self.what)?;
        if let Some(hint) = &self.hint {
            write!(f, "\nhint: {hint}")?;
        }
        Ok(())
    }
}

/// Line and column, both from 1, of a byte of a text.
pub(super) fn place(text: &str, byte: usize) -> (usize, usize) {
    let before = text.get(..byte.min(text.len())).unwrap_or(text);
    let line_start = before.rfind('\n').map_or(0, |at| at + 1);
    let line = before.matches('\n').count() + 1;
    (line, before[line_start..].chars().count() + 1)
}
