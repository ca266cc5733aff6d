//! The gate: which statements may touch files, and which files. Every statement goes through it twice, before it is planned (planning opens
//! files to learn their columns) and before it is run. What is not listed here is denied.
//!
//! What can name a file in DataFusion 55, and what becomes of it:
//!
//! | statement | node | here |
//! | --- | --- | --- |
//! | `FROM 'file'`, `FROM "file"` | a table's name, opened by the schema | [`FileRights::read`], allowed folders and buckets |
//! | `CREATE EXTERNAL TABLE` | `Ddl::CreateExternalTable`: locations, options | the same; `UNBOUNDED` opens pipes by itself: denied |
//! | `COPY ... TO 'file'` | `Copy`: output, options, partitions | [`FileRights::write`], folders and buckets to write |
//! | `COPY ... FROM 'file'`, `PROGRAM` | `Statement::Copy` of the parser | denied |
//! | table functions | a relation with arguments | only those that read nothing ([`FUNCTIONS`]) |
//! | `SET`, `RESET` | `datafusion.runtime.temp_directory`, `datafusion.catalog.location`, ... | only settings below [`SETTINGS`] |
//! | `INSERT`, `UPDATE`, `DELETE` into a file's table | `Dml` | denied |
//! | `CREATE TABLE`, `CREATE VIEW`, `SELECT INTO`, `CREATE FUNCTION`, `CREATE DATABASE` | other `Ddl` | denied |
//! | `EXPLAIN`, `PREPARE` | a statement inside | as that statement |
//! | nodes of extensions | `Extension` | denied |

use super::Data;
use super::error::DataError;
use super::folder::is_path;
use super::places::{Access, Places};
use datafusion::common::DataFusionError;
use datafusion::common::tree_node::Transformed;
use datafusion::logical_expr::dml::CopyTo;
use datafusion::logical_expr::{DdlStatement, LogicalPlan, Statement as PlannedStatement};
use datafusion::sql::parser::Statement;
use datafusion::sql::sqlparser::ast::{
    CopySource, CopyTarget, ObjectName, ObjectType, Set, Statement as Sql, TableFactor, Visit, Visitor,
};
use std::collections::HashMap;
use std::ops::ControlFlow;

/// What a user may do with files that statements name. Tables of the catalogs are not meant: they have names of their own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct FileRights {
    /// May name files and objects to read.
    pub read: bool,
    /// May name files and objects to write.
    pub write: bool,
}

/// Table functions that read nothing.
const FUNCTIONS: &[&str] = &["generate_series", "range", "unnest", "pg_get_keywords"];
/// Beginnings of dotted settings that no file hangs on. Settings without a dot are the session's own.
const SETTINGS: &[&str] = &[
    "corun.",
    "datafusion.execution.",
    "datafusion.optimizer.",
    "datafusion.explain.",
    "datafusion.format.",
    "datafusion.sql_parser.",
];
/// Kinds of files that statements read and write.
const FILE_TYPES: &[&str] = &["parquet", "csv", "json", "ndjson", "arrow"];

impl Data {
    /// Whether a statement may be planned.
    ///
    /// # Errors
    /// A kind of statement that is not allowed here, or a file in it that this user may not name.
    pub fn gate(&self, statement: &Statement, rights: FileRights) -> Result<(), DataError> {
        match statement {
            Statement::Statement(sql) => sql_statement(sql, rights),
            Statement::CreateExternalTable(_) => may(rights.read, "name files to read"),
            Statement::CopyTo(copy) => {
                may(rights.write, "name files to write")?;
                match &copy.source {
                    datafusion::sql::parser::CopyToSource::Relation(name) => relation(name, rights),
                    datafusion::sql::parser::CopyToSource::Query(query) => names(query.as_ref(), rights),
                }
            }
            Statement::Explain(explain) => self.gate(&explain.statement, rights),
            Statement::Reset(reset) => match reset {
                datafusion::sql::parser::ResetStatement::Variable(name) => setting(&name.to_string()),
            },
        }
    }

    /// Whether a plan may be run. The plan that comes back is the one to run: the places in it are complete, with links followed.
    ///
    /// # Errors
    /// As [`Data::gate`].
    pub fn gate_plan(&self, plan: LogicalPlan, rights: FileRights) -> Result<LogicalPlan, DataError> {
        let gated = plan.transform_down_with_subqueries(|node| {
            let node = node_allowed(&self.places, node, rights).map_err(DataFusionError::from)?;
            Ok(Transformed::yes(node))
        });
        match gated {
            Ok(gated) => Ok(gated.data),
            Err(DataFusionError::External(error)) => Err(match error.downcast::<DataError>() {
                Ok(error) => *error,
                Err(error) => DataError::new("XX000", error.to_string()),
            }),
            Err(error) => Err(DataError::new("XX000", error.to_string())),
        }
    }
}

fn may(allowed: bool, what: &str) -> Result<(), DataError> {
    match allowed {
        true => Ok(()),
        false => Err(DataError::denied(format!("this user may not {what}"))),
    }
}

fn unsupported(what: &str) -> DataError {
    DataError::new("0A000", format!("{what} is not supported: tables are read only"))
}

fn sql_statement(sql: &Sql, rights: FileRights) -> Result<(), DataError> {
    match sql {
        Sql::Query(_)
        | Sql::ShowTables { .. }
        | Sql::ShowColumns { .. }
        | Sql::ShowVariable { .. }
        | Sql::ShowFunctions { .. }
        | Sql::ShowSchemas { .. }
        | Sql::ShowDatabases { .. }
        | Sql::ExplainTable { .. }
        | Sql::StartTransaction { .. }
        | Sql::Commit { .. }
        | Sql::Rollback { .. }
        | Sql::Execute { .. }
        | Sql::Deallocate { .. } => names(sql, rights),
        Sql::Explain { statement, .. } | Sql::Prepare { statement, .. } => sql_statement(statement, rights),
        Sql::Set(set) => settings(set),
        Sql::Drop {
            object_type: ObjectType::Table,
            ..
        } => names(sql, rights),
        Sql::Copy { source, target, .. } => {
            if !matches!(target, CopyTarget::Stdin | CopyTarget::Stdout) {
                return Err(
                    unsupported("COPY FROM a file or a program").hint("COPY ... TO 'file' writes one")
                );
            }
            match source {
                CopySource::Query(query) => names(query.as_ref(), rights),
                CopySource::Table { table_name, .. } => relation(table_name, rights),
            }
        }
        other => {
            let text = other.to_string();
            let verb: Vec<&str> = text.split_whitespace().take(2).collect();
            Err(unsupported(&verb.join(" ").to_uppercase()))
        }
    }
}

fn settings(set: &Set) -> Result<(), DataError> {
    match set {
        Set::SingleAssignment { variable, .. } => setting(&variable.to_string()),
        Set::ParenthesizedAssignments { variables, .. } => {
            variables.iter().try_for_each(|name| setting(&name.to_string()))
        }
        Set::MultipleAssignments { assignments } => assignments
            .iter()
            .try_for_each(|of| setting(&of.name.to_string())),
        _ => Ok(()),
    }
}

fn setting(name: &str) -> Result<(), DataError> {
    let name = name.replace('"', "").to_ascii_lowercase();
    let dotted = name.contains('.');
    match !dotted || SETTINGS.iter().any(|allowed| name.starts_with(allowed)) {
        true => Ok(()),
        false => Err(DataError::denied(format!(
            "the setting \"{name}\" is the server's, not a session's"
        ))),
    }
}

/// Checks the tables and table functions that a statement names.
fn names(of: &impl Visit, rights: FileRights) -> Result<(), DataError> {
    match of.visit(&mut Names(rights)) {
        ControlFlow::Continue(()) => Ok(()),
        ControlFlow::Break(error) => Err(error),
    }
}

struct Names(FileRights);

impl Visitor for Names {
    type Break = DataError;

    fn pre_visit_relation(&mut self, name: &ObjectName) -> ControlFlow<DataError> {
        match relation(name, self.0) {
            Ok(()) => ControlFlow::Continue(()),
            Err(error) => ControlFlow::Break(error),
        }
    }

    fn pre_visit_table_factor(&mut self, of: &TableFactor) -> ControlFlow<DataError> {
        let function = match of {
            TableFactor::Table {
                name, args: Some(_), ..
            }
            | TableFactor::Function { name, .. } => name,
            _ => return ControlFlow::Continue(()),
        };
        let name = last(function).to_ascii_lowercase();
        match FUNCTIONS.contains(&name.as_str()) {
            true => ControlFlow::Continue(()),
            false => ControlFlow::Break(DataError::new(
                "42883",
                format!("there is no table function {name}"),
            )),
        }
    }
}

fn last(name: &ObjectName) -> String {
    let part = name.0.last().and_then(|part| part.as_ident());
    part.map(|part| part.value.clone()).unwrap_or_default()
}

fn relation(name: &ObjectName, rights: FileRights) -> Result<(), DataError> {
    // Parts with dots in them stand alone when they are quoted; together they may be a path, too.
    let parts = name.0.iter().filter_map(|part| part.as_ident());
    match parts.into_iter().any(|part| is_path(&part.value)) {
        true => may(rights.read, "name files to read"),
        false => Ok(()),
    }
}

fn node_allowed(places: &Places, node: LogicalPlan, rights: FileRights) -> Result<LogicalPlan, DataError> {
    match node {
        LogicalPlan::Copy(copy) => copy_allowed(places, copy, rights),
        LogicalPlan::Ddl(DdlStatement::CreateExternalTable(mut create)) => {
            may(rights.read, "name files to read")?;
            if create.unbounded {
                return Err(unsupported("CREATE UNBOUNDED EXTERNAL TABLE"));
            }
            file_type(&create.file_type)?;
            options(&create.options)?;
            for location in &mut create.locations {
                *location = places.resolve(location, Access::Read)?.to_string();
            }
            Ok(LogicalPlan::Ddl(DdlStatement::CreateExternalTable(create)))
        }
        LogicalPlan::Ddl(DdlStatement::DropTable(_)) => Ok(node),
        LogicalPlan::Ddl(other) => Err(unsupported(&words(other.name()))),
        LogicalPlan::Dml(other) => Err(unsupported(&words(&other.op.to_string()))),
        LogicalPlan::Extension(other) => Err(unsupported(other.node.name())),
        LogicalPlan::TableScan(scan) => match is_path(scan.table_name.table()) {
            true => may(rights.read, "name files to read").map(|()| LogicalPlan::TableScan(scan)),
            false => Ok(LogicalPlan::TableScan(scan)),
        },
        LogicalPlan::Statement(PlannedStatement::SetVariable(set)) => {
            setting(&set.variable)?;
            Ok(LogicalPlan::Statement(PlannedStatement::SetVariable(set)))
        }
        other => Ok(other),
    }
}

fn copy_allowed(places: &Places, copy: CopyTo, rights: FileRights) -> Result<LogicalPlan, DataError> {
    may(rights.write, "name files to write")?;
    file_type(&copy.file_type.get_ext())?;
    options(&copy.options)?;
    let output_url = places.resolve(&copy.output_url, Access::Write)?.to_string();
    Ok(LogicalPlan::Copy(CopyTo { output_url, ..copy }))
}

fn file_type(name: &str) -> Result<(), DataError> {
    match FILE_TYPES.iter().any(|known| known.eq_ignore_ascii_case(name)) {
        true => Ok(()),
        false => Err(unsupported(&format!("the file format {name}")).hint("use PARQUET, CSV, JSON or ARROW")),
    }
}

/// Options about the format only, and none about keys of encrypted files.
fn options(given: &HashMap<String, String>) -> Result<(), DataError> {
    for key in given.keys() {
        let key = key.to_ascii_lowercase();
        if !key.starts_with("format.") || key.contains("crypto") {
            return Err(DataError::denied(format!("the option \"{key}\" is not allowed"))
                .hint("options begin with \"format.\""));
        }
    }
    Ok(())
}

/// `CreateMemoryTable` as `CREATE MEMORY TABLE`.
fn words(name: &str) -> String {
    let mut words = String::new();
    for c in name.chars() {
        if c.is_uppercase() && words.chars().last().is_some_and(char::is_alphanumeric) {
            words.push(' ');
        }
        words.extend(c.to_uppercase());
    }
    words
}
