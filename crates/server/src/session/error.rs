//! What clients are told of DataFusion's errors: a SQLSTATE, PostgreSQL's words where there are some, the place in the text.

use super::statement::byte_of;
use super::store_error::refusal_of;
use crate::catalog::{shown, shown_in};
use crate::data::{DataError, WITH_ROW_NUMBERS};
use arrow::error::ArrowError;
use corun_datafusion::{EngineError, nearest};
use corun_store::StoreError;
use corun_wire::error::{Refusal, code};
use datafusion::common::{DataFusionError, SchemaError};
use datafusion::sql::sqlparser::tokenizer::Location;

/// SQLSTATEs that the crate of the protocol does not name.
pub(super) mod more {
    pub(crate) const UNDEFINED_TABLE: &str = "42P01";
    pub(crate) const UNDEFINED_COLUMN: &str = "42703";
    pub(crate) const UNDEFINED_FUNCTION: &str = "42883";
    pub(crate) const AMBIGUOUS_COLUMN: &str = "42702";
    pub(crate) const DUPLICATE_COLUMN: &str = "42701";
    pub(crate) const DATATYPE_MISMATCH: &str = "42804";
    pub(crate) const GROUPING: &str = "42803";
    pub(crate) const DIVISION_BY_ZERO: &str = "22012";
    pub(crate) const IO_ERROR: &str = "58030";
    pub(crate) const UNDEFINED_SCHEMA: &str = "3F000";
    pub(crate) const READ_ONLY: &str = "25006";
    pub(crate) const NO_TRANSACTION: &str = "25P01";
    pub(crate) const ACTIVE_TRANSACTION: &str = "25001";
}
use more::*;

/// A refusal for an error of planning or running `text`.
pub(crate) fn refusal(error: &DataFusionError, text: &str) -> Refusal {
    let mut place = None;
    let root = root(error, &mut place);
    let mut refusal = of_root(root, text);
    refusal.message.retain(|c| c != WITH_ROW_NUMBERS);
    match place {
        Some(at) if refusal.position.is_none() && !text.is_empty() => refusal.at(text, byte_of(text, at)),
        _ => refusal,
    }
}

/// The same for an error that has come through the coordinator.
pub(super) fn of_engine(error: &EngineError, text: &str) -> Refusal {
    if let Some(cause) = error.cause() {
        return Refusal {
            position: None,
            ..refusal(cause, text)
        };
    }
    let code = match error.resources_exhausted {
        true => code::OUT_OF_MEMORY,
        // The queue of the coordinator.
        false if error.primary.contains("queue") || error.primary.contains("wait") => "53400",
        false => code::INTERNAL_ERROR,
    };
    Refusal {
        code,
        message: error.primary.clone(),
        detail: error.detail.clone(),
        hint: error.hint.clone(),
        position: None,
    }
}

impl From<Refusal> for DataError {
    fn from(refusal: Refusal) -> Self {
        DataError {
            code: refusal.code,
            primary: refusal.message,
            detail: refusal.detail,
            hint: refusal.hint,
        }
    }
}

impl From<DataError> for Refusal {
    fn from(error: DataError) -> Self {
        Refusal {
            code: error.code,
            message: error.primary,
            detail: error.detail,
            hint: error.hint,
            position: None,
        }
    }
}

/// The innermost error, and the place that stands beside one on the way.
fn root<'e>(error: &'e DataFusionError, place: &mut Option<Location>) -> &'e DataFusionError {
    match error {
        DataFusionError::Context(_, inner) => root(inner, place),
        DataFusionError::Diagnostic(diagnostic, inner) => {
            if let Some(span) = diagnostic.span {
                *place = Some(Location {
                    line: span.start.line,
                    column: span.start.column,
                });
            }
            root(inner, place)
        }
        DataFusionError::Shared(inner) => root(inner, place),
        DataFusionError::Collection(errors) if !errors.is_empty() => root(&errors[0], place),
        DataFusionError::External(inner) => match inner.downcast_ref::<DataFusionError>() {
            Some(inner) => root(inner, place),
            None => match inner.downcast_ref::<ArrowError>() {
                Some(ArrowError::ExternalError(inner)) => match inner.downcast_ref::<DataFusionError>() {
                    Some(inner) => root(inner, place),
                    None => error,
                },
                _ => error,
            },
        },
        DataFusionError::ArrowError(inner, _) => match inner.as_ref() {
            ArrowError::ExternalError(inner) => match inner.downcast_ref::<DataFusionError>() {
                Some(inner) => root(inner, place),
                None => error,
            },
            _ => error,
        },
        other => other,
    }
}

fn of_root(error: &DataFusionError, text: &str) -> Refusal {
    let plain = |code, what: &str| Refusal::new(code, clean(what));
    match error {
        DataFusionError::SQL(error, _) => syntax(&error.to_string(), text),
        DataFusionError::SchemaError(error, _) => of_schema(error),
        DataFusionError::Plan(what) => of_plan(&clean(what)),
        DataFusionError::NotImplemented(what) => plain(code::NOT_SUPPORTED, what),
        DataFusionError::ResourcesExhausted(what) => {
            let refusal = Refusal::new(code::OUT_OF_MEMORY, "out of memory").detail(clean(what));
            refusal.hint("The server's memory limit was reached; try again with fewer queries at once, or raise the limit.")
        }
        DataFusionError::ArrowError(error, _) => of_arrow(error),
        DataFusionError::Execution(what) => of_execution(&clean(what)),
        DataFusionError::Configuration(what) => plain(code::INVALID_PARAMETER_VALUE, what),
        DataFusionError::IoError(error) => plain(IO_ERROR, &format!("cannot read a file: {error}")),
        DataFusionError::ObjectStore(error) => of_objects(error),
        DataFusionError::ParquetError(error) => {
            plain(IO_ERROR, &format!("cannot read a Parquet file: {error}"))
        }
        DataFusionError::External(inner) => match inner.downcast_ref::<DataError>() {
            Some(error) => Refusal::from(error.clone()),
            None => match inner.downcast_ref::<ArrowError>() {
                Some(error) => of_arrow(error),
                None => match inner.downcast_ref::<StoreError>() {
                    Some(error) => refusal_of(error),
                    None => plain(code::INTERNAL_ERROR, &inner.to_string()),
                },
            },
        },
        DataFusionError::Internal(what) => {
            let what = clean(what);
            plain(
                code::INTERNAL_ERROR,
                &format!("the engine cannot run this statement: {what}"),
            )
        }
        other => plain(code::INTERNAL_ERROR, &other.strip_backtrace()),
    }
}

fn of_objects(error: &object_store::Error) -> Refusal {
    if let object_store::Error::PermissionDenied { source, .. } = error {
        if let Some(error) = source.downcast_ref::<DataError>() {
            return Refusal::from(error.clone());
        }
        return Refusal::new(
            code::INSUFFICIENT_PRIVILEGE,
            format!("permission denied: {source}"),
        );
    }
    Refusal::new(IO_ERROR, clean(&format!("cannot read a file: {error}")))
}

/// Without what is meant for DataFusion's authors.
fn clean(what: &str) -> String {
    const ENDS: &[&str] = &[
        "\nThis issue was likely caused by",
        ".\nThis issue was likely",
        "\n\nbacktrace:",
        "\nbacktrace:",
    ];
    let end = ENDS
        .iter()
        .filter_map(|end| what.find(end))
        .min()
        .unwrap_or(what.len());
    let mut what = what.get(..end).unwrap_or(what).trim();
    for prefix in [
        "Error during planning: ",
        "Execution error: ",
        "Arrow error: ",
        "External error: ",
        "Internal error: ",
    ] {
        what = what.strip_prefix(prefix).unwrap_or(what);
    }
    shown_in(what).replace("DataFusion", "the engine")
}

/// What a parser says, with the place that stands at the end: `... at Line: 1, Column: 8`.
pub(super) fn syntax(what: &str, text: &str) -> Refusal {
    let what = what.trim_start_matches("sql parser error: ");
    let (message, place) = match what.rsplit_once(" at Line: ") {
        Some((message, place)) => (message, place),
        None => (what, ""),
    };
    let mut numbers = place
        .split(", Column: ")
        .map(|number| number.trim().parse::<u64>().ok());
    let message = message.trim_end_matches(',');
    let near = message.rsplit_once("found: ").map(|(_, found)| found.trim());
    let said = match near {
        Some("EOF" | ";") => "syntax error at end of input".to_owned(),
        Some(near) => format!("syntax error at or near \"{near}\""),
        None => format!("syntax error: {message}"),
    };
    let mut refusal = Refusal::new(code::SYNTAX_ERROR, said);
    if near.is_some() {
        refusal = refusal.detail(message.to_owned());
    }
    match (numbers.next().flatten(), numbers.next().flatten()) {
        (Some(line), Some(column)) if line > 0 => refusal.at(text, byte_of(text, Location { line, column })),
        _ => refusal,
    }
}

fn of_schema(error: &SchemaError) -> Refusal {
    match error {
        SchemaError::FieldNotFound { field, valid_fields } => {
            let name = field.flat_name().replace('"', "");
            // A name that is neither a table here nor a structure.
            if let Some(relation) = &field.relation
                && !valid_fields.is_empty()
                && !valid_fields.iter().any(|valid| {
                    let of = valid.relation.as_ref();
                    of.is_some_and(|of| of.table() == relation.table()) || valid.name == relation.table()
                })
            {
                let what = format!("missing FROM-clause entry for table \"{}\"", relation.table());
                return Refusal::new(UNDEFINED_TABLE, what);
            }
            let refusal = match &field.relation {
                Some(_) => Refusal::new(UNDEFINED_COLUMN, format!("column {name} does not exist")),
                None => Refusal::new(UNDEFINED_COLUMN, format!("column \"{name}\" does not exist")),
            };
            let known: Vec<&str> = valid_fields.iter().map(|field| shown(field.name())).collect();
            match nearest(field.name(), &known) {
                Some(near) => {
                    let of = valid_fields.iter().find(|field| field.name() == near);
                    let full = of.map_or_else(|| near.to_owned(), |of| short(&of.flat_name()));
                    refusal.hint(format!("Perhaps you meant to reference the column \"{full}\"."))
                }
                None => refusal,
            }
        }
        SchemaError::AmbiguousReference { field } => Refusal::new(
            AMBIGUOUS_COLUMN,
            format!("column reference \"{}\" is ambiguous", field.name()),
        ),
        SchemaError::DuplicateQualifiedField { name, .. }
        | SchemaError::DuplicateUnqualifiedField { name } => Refusal::new(
            DUPLICATE_COLUMN,
            format!("column \"{name}\" is there more than once"),
        )
        .hint("Give the columns names with AS."),
    }
}

/// `corun.public.t.a` as `t.a`.
fn short(name: &str) -> String {
    let parts: Vec<&str> = name.split('.').collect();
    let from = parts.len().saturating_sub(2);
    parts[from..].join(".").replace('"', "")
}

/// What stands between a beginning and an end.
fn between<'t>(what: &'t str, begin: &str, end: char) -> Option<&'t str> {
    let (_, rest) = what.split_once(begin)?;
    rest.split(end).next()
}

fn of_plan(what: &str) -> Refusal {
    let lower = what.to_ascii_lowercase();
    let table = between(what, "table '", '\'')
        .or_else(|| between(what, "Table '", '\''))
        .or_else(|| between(what, "No table named '", '\''));
    if let Some(name) = table.filter(|_| {
        lower.contains("not found") || lower.contains("no table named") || lower.contains("doesn't exist")
    }) {
        let parts: Vec<&str> = name.split('.').collect();
        let shown = match parts.as_slice() {
            [_, "public", table] => (*table).to_owned(),
            [_, schema, table] => format!("{schema}.{table}"),
            other => other.join("."),
        };
        return Refusal::new(UNDEFINED_TABLE, format!("relation \"{shown}\" does not exist"));
    }
    if lower.contains("failed to resolve schema") || lower.contains("schema provider") {
        return Refusal::new("3F000", what);
    }
    let conditions = [
        (
            "Cannot create filter with non-boolean predicate",
            "returning ",
            "WHERE",
        ),
        ("Join condition must be boolean type", "but got ", "JOIN/ON"),
    ];
    for (says, before, clause) in conditions {
        if what.starts_with(says)
            && let Some((_, of)) = what.rsplit_once(before)
        {
            let of = type_name(of).unwrap_or(of);
            let what = format!("argument of {clause} must be type boolean, not type {of}");
            return Refusal::new(DATATYPE_MISMATCH, what);
        }
    }
    if let Some(name) = between(what, "Invalid function '", '\'') {
        let refusal = Refusal::new(UNDEFINED_FUNCTION, format!("function {name} does not exist"));
        return match between(what, "Did you mean '", '\'') {
            Some(near) => refusal.hint(format!("Perhaps you meant the function \"{near}\".")),
            None => refusal,
        };
    }
    let code = if lower.contains("function")
        && (lower.contains("signature") || lower.contains("argument") || lower.contains("candidate"))
    {
        UNDEFINED_FUNCTION
    } else if lower.contains("group by") || lower.contains("aggregate") {
        GROUPING
    } else if lower.contains("coerc") || lower.contains("type") || lower.contains("cannot infer common") {
        DATATYPE_MISMATCH
    } else if lower.contains("not supported")
        || lower.contains("not implemented")
        || lower.contains("unsupported")
    {
        code::NOT_SUPPORTED
    } else {
        code::SYNTAX_ERROR
    };
    Refusal::new(code, what)
}

fn of_arrow(error: &ArrowError) -> Refusal {
    let plain = |code, what: &str| Refusal::new(code, clean(what));
    match error {
        ArrowError::DivideByZero => plain(DIVISION_BY_ZERO, "division by zero"),
        ArrowError::ArithmeticOverflow(what) => plain(code::NUMERIC_VALUE_OUT_OF_RANGE, what),
        ArrowError::CastError(what) | ArrowError::ParseError(what) => {
            let range = what.contains("out of range")
                || what.contains("Overflow")
                || what.contains("overflow")
                || what.contains("Can't cast value");
            let code = if range {
                code::NUMERIC_VALUE_OUT_OF_RANGE
            } else {
                code::INVALID_TEXT_REPRESENTATION
            };
            match cast(what) {
                Some((of, value)) if !range => {
                    plain(code, &format!("invalid input syntax for type {of}: \"{value}\""))
                }
                _ => plain(code, what),
            }
        }
        ArrowError::ComputeError(what) if what.to_ascii_lowercase().contains("overflow") => {
            plain(code::NUMERIC_VALUE_OUT_OF_RANGE, what)
        }
        ArrowError::NotYetImplemented(what) => plain(code::NOT_SUPPORTED, what),
        ArrowError::InvalidArgumentError(what) => plain(code::INVALID_PARAMETER_VALUE, what),
        ArrowError::MemoryError(what) => plain(code::OUT_OF_MEMORY, what),
        ArrowError::IoError(what, _) => plain(IO_ERROR, what),
        ArrowError::CsvError(what) | ArrowError::JsonError(what) | ArrowError::ParquetError(what) => {
            plain(IO_ERROR, &format!("cannot read a file: {what}"))
        }
        other => plain(code::INTERNAL_ERROR, &other.to_string()),
    }
}

/// PostgreSQL's name of the type, and the value, of Arrow's `Cannot cast string 'x' to value of Int32 type`.
fn cast(what: &str) -> Option<(&'static str, &str)> {
    let value = between(what, "string '", '\'')?;
    let of = between(what, "to value of ", ' ')?;
    Some((type_name(of)?, value))
}

/// PostgreSQL's name of a type that Arrow writes so.
fn type_name(of: &str) -> Option<&'static str> {
    Some(match of {
        "Int8" | "Int16" => "smallint",
        "Int32" => "integer",
        "Int64" => "bigint",
        "Float32" => "real",
        "Float64" => "double precision",
        "Boolean" => "boolean",
        "Date32" | "Date64" => "date",
        "Utf8" | "Utf8View" | "LargeUtf8" => "text",
        "Binary" | "BinaryView" => "bytea",
        of if of.starts_with("Decimal") => "numeric",
        of if of.starts_with("Timestamp") && of.ends_with("None)") => "timestamp without time zone",
        of if of.starts_with("Timestamp") => "timestamp with time zone",
        _ => return None,
    })
}

fn of_execution(what: &str) -> Refusal {
    let lower = what.to_ascii_lowercase();
    let code = if lower.contains("divi") && lower.contains("by zero") {
        return Refusal::new(DIVISION_BY_ZERO, "division by zero");
    } else if lower.contains("scalar subquery returned more than one row") {
        let what = "more than one row returned by a subquery used as an expression";
        return Refusal::new("21000", what);
    } else if lower.contains("unrecognized configuration parameter") {
        code::UNDEFINED_OBJECT
    } else if lower.contains("invalid value for parameter") {
        code::INVALID_PARAMETER_VALUE
    } else if lower.contains("permission denied") {
        code::INSUFFICIENT_PRIVILEGE
    } else if lower.contains("already exists") {
        "42P07"
    } else if lower.contains("doesn't exist") || lower.contains("does not exist") {
        UNDEFINED_TABLE
    } else if lower.contains("overflow") {
        code::NUMERIC_VALUE_OUT_OF_RANGE
    } else if lower.contains("pars") || lower.contains("invalid") {
        code::INVALID_PARAMETER_VALUE
    } else {
        code::INTERNAL_ERROR
    };
    Refusal::new(code, what)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_of_the_parser_are_characters() {
        let text = "SELECT 'é',\n FORM t";
        let refusal = syntax(
            "sql parser error: Expected: an expression, found: FORM at Line: 2, Column: 2",
            text,
        );
        assert_eq!((refusal.code, refusal.position), ("42601", Some(14)));
        assert_eq!(refusal.message, "syntax error at or near \"FORM\"");
        assert_eq!(
            syntax("Expected: x, found: EOF", text).message,
            "syntax error at end of input"
        );
    }

    #[test]
    fn nobody_is_sent_to_datafusion_s_authors() {
        let error = DataFusionError::Internal("x broke".to_owned());
        let refusal = refusal(&error, "select 1");
        assert_eq!(refusal.code, "XX000");
        let all = format!("{refusal:?}");
        assert!(!all.contains("bug") && !all.contains("DataFusion"), "{all}");
    }

    #[test]
    fn tables_and_columns_have_postgresql_s_words() {
        let plan = |what: &str| of_plan(what);
        assert_eq!(
            plan("table 'corun.public.t' not found").message,
            "relation \"t\" does not exist"
        );
        assert_eq!(
            plan("table 'corun.sales.t' not found").message,
            "relation \"sales.t\" does not exist"
        );
        let function = plan("Invalid function 'flor'.\nDid you mean 'floor'?");
        assert_eq!(
            (function.code, function.hint.as_deref()),
            ("42883", Some("Perhaps you meant the function \"floor\"."))
        );
        assert_eq!(of_arrow(&ArrowError::DivideByZero).code, "22012");
        let cast = of_arrow(&ArrowError::CastError(
            "Cannot cast string 'x' to value of Int32 type".to_owned(),
        ));
        assert_eq!(
            (cast.code, cast.message.as_str()),
            ("22P02", "invalid input syntax for type integer: \"x\"")
        );
    }
}
