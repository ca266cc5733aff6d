//! What is wrong or doubtful in a file: where, what, and what to do.

use std::collections::BTreeMap;
use std::fmt;

use super::ConfigError;

/// Findings past this number are not collected.
const FINDINGS_MAX: usize = 200;

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

/// What was found so far, and where in the file each key stands.
#[derive(Default)]
pub(super) struct Findings {
    all: Vec<Finding>,
    /// Name of the file.
    file: String,
    /// Line and column of each key, `databases.NAME` and `databases.NAME.KEY` included.
    places: BTreeMap<String, (usize, usize)>,
}

impl Findings {
    /// Nothing found yet.
    pub fn of(file: &str) -> Findings {
        let file = file.to_owned();
        Findings {
            file,
            ..Findings::default()
        }
    }

    /// Notes where a key stands.
    pub fn stands(&mut self, key: &str, place: (usize, usize)) {
        self.places.insert(key.to_owned(), place);
    }

    /// Adds an error about a key, or about the nearest thing that stands in the file.
    pub fn error(&mut self, key: &str, what: impl Into<String>, hint: &str) {
        let hint = Some(hint.to_owned());
        self.add(Severity::Error, self.place_of(key), what.into(), hint);
    }

    /// Adds a warning about a key, or about the nearest thing that stands in the file.
    pub fn warning(&mut self, key: &str, what: impl Into<String>, hint: &str) {
        let hint = Some(hint.to_owned());
        self.add(Severity::Warning, self.place_of(key), what.into(), hint);
    }

    /// Adds an error about a place in the file.
    pub fn error_at(&mut self, place: (usize, usize), what: String, hint: Option<String>) {
        self.add(Severity::Error, place, what, hint);
    }

    fn place_of(&self, key: &str) -> (usize, usize) {
        let tables = std::iter::successors(Some(key), |path| Some(path.rsplit_once('.')?.0));
        let mut known = tables.filter_map(|path| self.places.get(path));
        known.next().copied().unwrap_or_default()
    }

    fn add(&mut self, severity: Severity, place: (usize, usize), what: String, hint: Option<String>) {
        if self.all.len() < FINDINGS_MAX {
            let file = self.file.clone();
            let (line, column) = place;
            self.all.push(Finding {
                severity,
                file,
                line,
                column,
                what,
                hint,
            });
        }
    }

    /// The text was made from another one: no place in it means anything. What was found in the other comes first.
    pub fn came_from(&mut self, other: Vec<Finding>) {
        for finding in &mut self.all {
            (finding.line, finding.column) = (0, 0);
        }
        self.all.splice(0..0, other);
    }

    /// What is wrong, one line each, if something is.
    pub fn errors(self) -> Result<(), String> {
        let errors = self
            .all
            .iter()
            .filter(|finding| finding.severity == Severity::Error);
        let lines: Vec<&str> = errors.map(|finding| finding.what.as_str()).collect();
        if lines.is_empty() {
            Ok(())
        } else {
            Err(lines.join("; "))
        }
    }

    /// The warnings, or everything if something is an error.
    pub fn finish(mut self) -> Result<Vec<Finding>, ConfigError> {
        self.all.sort_by_key(|finding| (finding.line, finding.column));
        if self.all.iter().any(|finding| finding.severity == Severity::Error) {
            return Err(ConfigError::Wrong { findings: self.all });
        }
        Ok(self.all)
    }
}

/// Line and column, both from 1, of a byte of a text.
pub(super) fn place(text: &str, byte: usize) -> (usize, usize) {
    let before = text.get(..byte.min(text.len())).unwrap_or(text);
    let line_start = before.rfind('\n').map_or(0, |at| at + 1);
    let line = before.matches('\n').count() + 1;
    (line, before[line_start..].chars().count() + 1)
}
