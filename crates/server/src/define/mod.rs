//! Definitions: `CREATE`, `ALTER`, `DROP`, `TRUNCATE`, `COMMENT`, in the client's transaction.
//!
//! ```text
//!   statement ─► what there is (seen) ─► what is to be done, in PostgreSQL's words where it cannot be (create_table, alter_table, ...)
//!             ─► steps (step): the store's definitions and the dictionary's entries, in one transaction
//!   sequences ─► at once, and undone if the transaction is rolled back (sequence)
//! ```
//!
//! Order of calls: [`parsed`] before the parser, [`run`] for each statement. What it is not: rows ([`crate::write`]), external tables over
//! files, which are DataFusion's, and roles ([`crate::users`]).

mod alter_table;
mod columns;
mod comment;
mod constraints;
mod create_table;
mod drop;
mod error;
mod expression;
mod index;
mod seen;
mod sequence;
mod step;
mod syntax;

pub(crate) use expression::AGGREGATES;
pub(crate) use syntax::parsed;

use crate::catalog::folded;
use crate::session::ClientSession;
use crate::users::WriteRight;
use crate::write::TableInfo;
use corun_wire::error::{Refusal, code};
use datafusion::sql::sqlparser::ast::{AlterIndexOperation, ObjectType, Statement};

/// Runs a definition; its tag.
///
/// # Errors
/// What speaks against it: nothing of it is left then.
pub(crate) async fn run(
    session: &mut ClientSession,
    statement: &Statement,
    text: &str,
) -> Result<&'static str, Refusal> {
    match statement {
        Statement::CreateTable(of) => create_table::run(session, of).await,
        Statement::AlterTable(of) => alter_table::run(session, of).await,
        Statement::CreateIndex(of) => index::create(session, of),
        Statement::AlterIndex {
            name,
            operation: AlterIndexOperation::RenameIndex { index_name },
        } => alter_table::rename_index(session, name, index_name),
        Statement::Truncate(of) => drop::truncate(session, of),
        Statement::CreateSchema {
            schema_name,
            if_not_exists,
            ..
        } => drop::create_schema(session, schema_name, *if_not_exists),
        Statement::CreateSequence {
            temporary,
            if_not_exists,
            name,
            data_type,
            sequence_options,
            owned_by,
        } => sequence::run_create(
            session,
            name,
            (*temporary, *if_not_exists),
            data_type.as_ref(),
            sequence_options,
            owned_by.as_ref(),
        ),
        Statement::Comment {
            object_type,
            object_name,
            comment,
            if_exists,
        } => comment::run(
            session,
            (object_type, *if_exists),
            object_name,
            comment.as_deref(),
        ),
        Statement::Drop {
            object_type,
            if_exists,
            names,
            cascade,
            ..
        } => match object_type {
            ObjectType::Table => drop::tables(session, names, *if_exists, *cascade),
            ObjectType::Index => index::drop(session, names, *if_exists),
            ObjectType::Schema => drop::schemas(session, names, *if_exists, *cascade),
            ObjectType::Sequence => sequence::run_drop(session, names, *if_exists, *cascade),
            // There are none, whatever their name.
            ObjectType::View | ObjectType::MaterializedView | ObjectType::Type if *if_exists => {
                let what = object_type.to_string();
                for name in names {
                    let (_, name) = crate::session::names(name)?;
                    error::skipped(session, &what.to_lowercase(), &name);
                }
                Ok(match object_type {
                    ObjectType::View => "DROP VIEW",
                    ObjectType::Type => "DROP TYPE",
                    _ => "DROP MATERIALIZED VIEW",
                })
            }
            other => Err(error::unsupported(format!("DROP {other}"))),
        },
        Statement::CreateExtension(of) => extension(&folded(&of.name), of.if_not_exists),
        _ => {
            let mut words = text.split_whitespace().take(2).map(str::to_uppercase);
            let first = words.next().unwrap_or_default();
            let second = words.next().unwrap_or_default();
            Err(error::unsupported(format!("{first} {second}").trim_end()))
        }
    }
}

/// Extensions whose functions are there anyway.
const EXTENSIONS: &[&str] = &["plpgsql", "pgcrypto"];

fn extension(name: &str, if_not_exists: bool) -> Result<&'static str, Refusal> {
    if !EXTENSIONS.contains(&name) {
        let what = format!("extension \"{name}\" is not available");
        return Err(Refusal::new(code::NOT_SUPPORTED, what));
    }
    match if_not_exists {
        true => Ok("CREATE EXTENSION"),
        false => {
            let what = format!("extension \"{name}\" already exists");
            Err(Refusal::new("42710", what))
        }
    }
}

/// Whether the client may do with a table what its owner may.
fn check_may_define(session: &ClientSession, info: &TableInfo) -> Result<(), Refusal> {
    session.check_may_write(WriteRight::Define, info)
}

/// Runs what waits for the disk: others of the runtime's thread go on meanwhile.
fn blocking<R>(work: impl FnOnce() -> R) -> R {
    tokio::task::block_in_place(work)
}
