//! [`DataError`]: what a client is told of data that it cannot have.

use corun_datafusion::nearest;
use datafusion::error::DataFusionError;
use std::fmt;

/// An error as PostgreSQL's protocol tells it: code, message, detail and hint.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DataError {
    /// SQLSTATE.
    pub code: &'static str,
    /// What is wrong, in one line.
    pub primary: String,
    /// More about it.
    pub detail: Option<String>,
    /// What to do.
    pub hint: Option<String>,
}

impl DataError {
    pub(crate) fn new(code: &'static str, primary: impl Into<String>) -> Self {
        DataError {
            code,
            primary: primary.into(),
            detail: None,
            hint: None,
        }
    }

    /// The statement is not one that this user may run here.
    pub(crate) fn denied(primary: impl Into<String>) -> Self {
        DataError::new("42501", primary)
    }

    /// The configuration or a file beside the data says something that cannot be.
    pub(crate) fn config(primary: impl Into<String>) -> Self {
        DataError::new("F0000", primary)
    }

    /// A file cannot be read as what it seems to be.
    pub(crate) fn unreadable(primary: impl Into<String>) -> Self {
        DataError::new("58030", primary)
    }

    /// A key that a file should not have, with the nearest that it may have.
    pub(crate) fn unknown_key(key: &str, known: &[&str]) -> Self {
        DataError::config(format!("unknown key \"{key}\"")).nearest(key, known)
    }

    /// The same with a hint at the nearest name.
    pub(crate) fn nearest(self, given: &str, known: &[&str]) -> Self {
        match nearest(given, known) {
            Some(nearest) => self.hint(format!("did you mean \"{nearest}\"?")),
            None => self.hint(format!("there are {}", known.join(", "))),
        }
    }

    pub(crate) fn detail(mut self, detail: impl Into<String>) -> Self {
        self.detail = Some(detail.into());
        self
    }

    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }
}

impl fmt::Display for DataError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.primary)?;
        if let Some(detail) = &self.detail {
            write!(f, ": {detail}")?;
        }
        if let Some(hint) = &self.hint {
            write!(f, " ({hint})")?;
        }
        Ok(())
    }
}

impl std::error::Error for DataError {}

impl From<DataError> for DataFusionError {
    fn from(error: DataError) -> Self {
        DataFusionError::External(Box::new(error))
    }
}
