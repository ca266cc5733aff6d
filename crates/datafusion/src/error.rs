//! The one error type of this crate's facade: a primary line, and where there is more to say a detail and a hint.
//!
//! DataFusion's errors arrive as chains of contexts; `EngineError` keeps the sentence a person needs first and puts
//! the rest behind `detail:`. It is not for embedders who call [`crate::install`]: they keep `DataFusionError`.

use crate::nearest::nearest;
use corun_model::explained::Explained;
use datafusion::common::SchemaError;
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

impl EngineError {
    /// The name of the table that this error says is not there, with its schema unless that is `public`.
    pub(crate) fn unknown_table(&self) -> Option<String> {
        match self.cause()?.find_root() {
            DataFusionError::Plan(text) | DataFusionError::Execution(text) => unknown_table(text),
            _ => None,
        }
    }
}

impl From<DataFusionError> for EngineError {
    fn from(error: DataFusionError) -> Self {
        let root = error.find_root();
        let resources = matches!(root, DataFusionError::ResourcesExhausted(_));
        let mut out = unknown_name(root).unwrap_or_else(|| in_words(root));
        out.resources_exhausted = resources;
        out.cause = Cause(Some(Arc::new(error)));
        out
    }
}

/// An error about a name that is not there; `None` for all others.
fn unknown_name(root: &DataFusionError) -> Option<EngineError> {
    let unknown = |what: &str, name: &str, known: &[&str]| {
        let error = EngineError::new(format!("{what} \"{name}\" does not exist"));
        match nearest(name, known) {
            Some(near) => error.with_hint(format!("did you mean \"{near}\"?")),
            None => error,
        }
    };
    match root {
        DataFusionError::SchemaError(error, _) => {
            let SchemaError::FieldNotFound { field, valid_fields } = error.as_ref() else {
                return None;
            };
            let names: Vec<String> = match &field.relation {
                Some(_) => valid_fields
                    .iter()
                    .map(|known| short(&known.flat_name()))
                    .collect(),
                None => valid_fields.iter().map(|known| known.name().to_owned()).collect(),
            };
            let known: Vec<&str> = names.iter().map(String::as_str).collect();
            let error = unknown("column", &short(&field.flat_name()), &known);
            Some(match known.is_empty() || error.hint.is_some() {
                true => error,
                false => error.with_detail(format!("there are {}", listed(&known))),
            })
        }
        DataFusionError::Plan(text) | DataFusionError::Execution(text) => {
            if let Some(name) = unknown_table(text) {
                return Some(unknown("table", &name, &[]));
            }
            let name = between(text, "Invalid function '", "'")?;
            let proposed = between(text, "Did you mean '", "'");
            Some(unknown("function", name, proposed.as_slice()))
        }
        _ => None,
    }
}

/// `catalog.public.t` as `t`, `catalog.schema.t` as `schema.t`, without quotes.
fn short(name: &str) -> String {
    let name = name.replace('"', "");
    let parts: Vec<&str> = name.split('.').collect();
    let from = parts.len().saturating_sub(2);
    let parts = &parts[from..];
    parts.strip_prefix(&["public"]).unwrap_or(parts).join(".")
}

/// The first of some names, as many as a line may have.
fn listed(names: &[&str]) -> String {
    const MAX: usize = 12;
    let shown = names.get(..MAX).unwrap_or(names).join(", ");
    match names.len() > MAX {
        true => format!("{shown} and {} more", names.len() - MAX),
        false => shown,
    }
}

/// What stands between a beginning and an end.
fn between<'t>(text: &'t str, begin: &str, end: &str) -> Option<&'t str> {
    let (_, rest) = text.split_once(begin)?;
    Some(rest.split_once(end)?.0)
}

/// The table of DataFusion's `table 'catalog.public.t' not found` and `Table 't' doesn't exist.`
fn unknown_table(text: &str) -> Option<String> {
    let found = between(text, "table '", "' not found")
        .or_else(|| between(text, "Table '", "' doesn't exist"))
        .or_else(|| between(text, "No table named '", "'"))?;
    (!found.contains('\'')).then(|| short(found))
}

/// Any other error: what kind it is, and DataFusion's words for it.
fn in_words(root: &DataFusionError) -> EngineError {
    let (kind, hint) = match root {
        DataFusionError::SQL(_, _) => ("SQL syntax error", None),
        DataFusionError::Plan(_) | DataFusionError::SchemaError(_, _) => ("cannot plan the statement", None),
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
            "the engine cannot run this statement",
            Some("the engine should have refused it earlier or run it; written differently, it may run"),
        ),
        _ => ("the query failed", None),
    };
    let text = plain_words(&root.strip_backtrace());
    let (first, rest) = match text.split_once('\n') {
        Some((first, rest)) if !rest.trim().is_empty() => (first.trim(), Some(rest.trim())),
        _ => (text.trim(), None),
    };
    let mut out = EngineError::new(format!("{kind}: {first}"));
    out.detail = rest.map(|rest| rest.replace('\n', " "));
    out.hint = hint.map(str::to_owned);
    out
}

/// Without DataFusion's prefixes, whose place the kind takes, and without what it asks people to report.
fn plain_words(text: &str) -> String {
    const PREFIXES: [&str; 9] = [
        "External error: ",
        "SQL error: ",
        "Error during planning: ",
        "Schema error: ",
        "Invalid or Unsupported Configuration: ",
        "This feature is not implemented: ",
        "Internal error: ",
        "Execution error: ",
        "Arrow error: ",
    ];
    let text = text
        .split("\nThis issue was likely caused by")
        .next()
        .unwrap_or(text);
    let mut rest = text
        .strip_suffix('.')
        .filter(|_| text.starts_with("Internal error: "))
        .unwrap_or(text);
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
    use datafusion::common::Column;

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
    fn nobody_is_sent_to_the_authors_of_datafusion() {
        let error = EngineError::from(DataFusionError::Internal("x broke".into()));
        assert_eq!(error.primary, "the engine cannot run this statement: x broke");
        let all = error.to_string();
        assert!(!all.contains("bug") && !all.contains("DataFusion"), "{all}");
    }

    #[test]
    fn names_that_are_not_there_are_told_in_one_way() {
        let plan = |text: &str| EngineError::from(DataFusionError::Plan(text.to_owned()));
        let table = plan("table 'datafusion.public.ordrs' not found");
        assert_eq!(table.primary, "table \"ordrs\" does not exist");
        assert_eq!(table.unknown_table().as_deref(), Some("ordrs"));
        let table = plan("table 'datafusion.sales.ordrs' not found");
        assert_eq!(table.unknown_table().as_deref(), Some("sales.ordrs"));
        let function = plan("Invalid function 'flor'.\nDid you mean 'floor'?");
        assert_eq!(function.primary, "function \"flor\" does not exist");
        assert_eq!(function.hint.as_deref(), Some("did you mean \"floor\"?"));
        let far = plan("Invalid function 'qqqqqqqq'.\nDid you mean 'now'?");
        assert_eq!(far.hint, None);
        let field = |relation: Option<&str>, name: &str| Column::new(relation, name);
        let column = EngineError::from(DataFusionError::SchemaError(
            Box::new(SchemaError::FieldNotFound {
                field: Box::new(field(None, "pric")),
                valid_fields: vec![field(Some("t"), "price"), field(Some("t"), "name")],
            }),
            Box::new(None),
        ));
        assert_eq!(column.primary, "column \"pric\" does not exist");
        assert_eq!(column.hint.as_deref(), Some("did you mean \"price\"?"));
    }

    #[test]
    fn a_memory_limit_is_told_apart() {
        let error = EngineError::from(DataFusionError::ResourcesExhausted("no".into()));
        assert!(error.resources_exhausted && error.hint.is_some(), "{error}");
    }
}
