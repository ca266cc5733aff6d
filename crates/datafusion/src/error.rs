//! The one error type of this crate's facade: a primary line, and where there is more to say a detail and a hint.
//!
//! DataFusion's errors arrive as chains of contexts; `EngineError` keeps the sentence a person needs first and puts
//! the rest behind `detail:`. It is not for embedders who call [`crate::install`]: they keep `DataFusionError`.

use corun_model::explained::Explained;
use datafusion::error::DataFusionError;
use std::fmt;
use std::sync::Arc;

/// What went wrong, in the three parts every corun error has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EngineError {
    /// One line: what failed and where.
    pub primary: String,
    /// The cause as the layer below reported it.
    pub detail: Option<String>,
    /// What to do about it.
    pub hint: Option<String>,
    /// True when a memory limit ended the query (the caller may retry with more memory or fewer clients).
    pub resources_exhausted: bool,
    pub(crate) cause: Cause,
}

/// DataFusion's own error behind one. Two errors that say the same are equal whatever is behind them.
#[derive(Debug, Clone, Default)]
pub(crate) struct Cause(Option<Arc<DataFusionError>>);

impl PartialEq for Cause {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Eq for Cause {}

impl EngineError {
    /// An error that is only its primary line.
    pub fn new(primary: impl Into<String>) -> Self {
        EngineError {
            primary: primary.into(),
            detail: None,
            hint: None,
            resources_exhausted: false,
            cause: Cause::default(),
        }
    }

    /// DataFusion's error that this one was made from, for hosts that tell kinds of errors apart (`corun-server` gives each its SQLSTATE).
    pub fn cause(&self) -> Option<&DataFusionError> {
        self.cause.0.as_deref()
    }

    /// The same error with a `detail:` line.
    pub fn with_detail(mut self, detail: impl Into<String>) -> Self {
        self.detail = Some(detail.into());
        self
    }

    /// The same error with a `hint:` line.
    pub fn with_hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }
}

impl fmt::Display for EngineError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.primary)?;
        if let Some(detail) = &self.detail {
            write!(f, "\ndetail: {detail}")?;
        }
        if let Some(hint) = &self.hint {
            write!(f, "\nhint: {hint}")?;
        }
        Ok(())
    }
}

impl std::error::Error for EngineError {}

impl Explained for EngineError {
    fn primary(&self) -> String {
        self.primary.clone()
    }

    fn detail(&self) -> Option<String> {
        self.detail.clone()
    }

    fn hint(&self) -> Option<String> {
        self.hint.clone()
    }
}

impl From<DataFusionError> for EngineError {
    fn from(error: DataFusionError) -> Self {
        let resources = matches!(error.find_root(), DataFusionError::ResourcesExhausted(_));
        let root = error.find_root();
        let (kind, hint) = match root {
            DataFusionError::SQL(_, _) => ("SQL syntax error", None),
            DataFusionError::Plan(_) | DataFusionError::SchemaError(_, _) => {
                ("cannot plan the statement", None)
            }
            DataFusionError::ResourcesExhausted(_) => (
                "out of memory for this query",
                Some("raise the memory limit, run fewer queries at once, or lower the number of partitions"),
            ),
            DataFusionError::NotImplemented(_) => ("not supported", None),
            DataFusionError::ParquetError(_) => (
                "cannot read a Parquet file",
                Some("check that the file is complete and really is Parquet"),
            ),
            DataFusionError::ObjectStore(_) | DataFusionError::IoError(_) => ("cannot read a file", None),
            DataFusionError::Configuration(_) => ("bad setting", None),
            DataFusionError::Internal(_) => (
                "internal error",
                Some("this is a bug: please report it with the statement that caused it"),
            ),
            _ => ("the query failed", None),
        };
        let text = plain_words(&root.strip_backtrace());
        let (first, rest) = match text.split_once("\n") {
            Some((first, rest)) if !rest.trim().is_empty() => (first.trim(), Some(rest.trim())),
            _ => (text.trim(), None),
        };
        let text = first.to_string();
        let mut out = EngineError::new(format!("{kind}: {text}"));
        if let Some(rest) = rest {
            out.detail = Some(rest.replace('\n', " "));
        }
        if let Some(hint) = hint {
            out.hint = Some(hint.to_string());
        }
        out.resources_exhausted = resources;
        out.cause = Cause(Some(Arc::new(error)));
        out
    }
}

/// DataFusion's own prefixes left out: the primary line names the kind already.
fn plain_words(text: &str) -> String {
    const PREFIXES: [&str; 6] = [
        "External error: ",
        "SQL error: ",
        "Error during planning: ",
        "Schema error: ",
        "Invalid or Unsupported Configuration: ",
        "This feature is not implemented: ",
    ];
    let mut rest = text;
    while let Some(shorter) = PREFIXES.iter().find_map(|prefix| rest.strip_prefix(prefix)) {
        rest = shorter;
    }
    let quoted = rest
        .strip_prefix("ParserError(\"")
        .and_then(|inner| inner.strip_suffix("\")"));
    quoted.map_or_else(|| rest.to_string(), |inner| inner.replace("\\n", " "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefixes_and_quotes_are_dropped() {
        assert_eq!(
            plain_words("SQL error: ParserError(\"Expected: a, found: b\")"),
            "Expected: a, found: b"
        );
        assert_eq!(
            plain_words("Error during planning: table 'x' not found"),
            "table 'x' not found"
        );
        assert_eq!(plain_words("anything else"), "anything else");
    }

    #[test]
    fn a_memory_limit_is_told_apart() {
        let error = EngineError::from(DataFusionError::ResourcesExhausted("no".into()));
        assert!(error.resources_exhausted && error.hint.is_some(), "{error}");
    }
}
