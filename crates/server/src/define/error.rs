//! What is told of definitions that cannot be: PostgreSQL's codes and words.

use crate::session::ClientSession;
use crate::write::DICTIONARY_SCHEMA;
use corun_wire::error::{Refusal, code};

pub(super) const DUPLICATE_TABLE: &str = "42P07";
pub(super) const DUPLICATE_COLUMN: &str = "42701";
pub(super) const DUPLICATE_OBJECT: &str = "42710";
pub(super) const UNDEFINED_TABLE: &str = "42P01";
pub(super) const UNDEFINED_COLUMN: &str = "42703";
pub(super) const WRONG_OBJECT: &str = "42809";
pub(super) const INVALID_TABLE: &str = "42P16";
pub(super) const INVALID_FOREIGN_KEY: &str = "42830";
pub(super) const MISMATCH: &str = "42804";
pub(super) const DEPENDENT: &str = "2BP01";

/// What PostgreSQL has and this server has not.
pub(super) fn unsupported(what: impl std::fmt::Display) -> Refusal {
    Refusal::new(code::NOT_SUPPORTED, format!("{what} is not supported"))
}

pub(super) fn syntax(what: impl Into<String>) -> Refusal {
    Refusal::new(code::SYNTAX_ERROR, what)
}

pub(super) fn exists(name: &str) -> Refusal {
    Refusal::new(DUPLICATE_TABLE, format!("relation \"{name}\" already exists"))
}

pub(super) fn no_relation(name: &str) -> Refusal {
    Refusal::new(UNDEFINED_TABLE, format!("relation \"{name}\" does not exist"))
}

pub(super) fn no_schema(name: &str) -> Refusal {
    Refusal::new("3F000", format!("schema \"{name}\" does not exist"))
}

/// Something that must be there: `table "t" does not exist`.
pub(super) fn missing(what: &str, name: &str) -> Refusal {
    let code = match what {
        "table" | "sequence" => UNDEFINED_TABLE,
        "schema" => "3F000",
        _ => code::UNDEFINED_OBJECT,
    };
    Refusal::new(code, format!("{what} \"{name}\" does not exist"))
}

pub(super) fn not_a(what: &str, name: &str) -> Refusal {
    let article = if what.starts_with('i') { "an" } else { "a" };
    Refusal::new(WRONG_OBJECT, format!("\"{name}\" is not {article} {what}"))
}

pub(super) fn no_column(column: &str, table: &str) -> Refusal {
    let what = format!("column \"{column}\" of relation \"{table}\" does not exist");
    Refusal::new(UNDEFINED_COLUMN, what)
}

pub(super) fn no_constraint(name: &str, table: &str) -> Refusal {
    let what = format!("constraint \"{name}\" of relation \"{table}\" does not exist");
    Refusal::new(code::UNDEFINED_OBJECT, what)
}

pub(super) fn constraint_exists(name: &str, table: &str) -> Refusal {
    let what = format!("constraint \"{name}\" for relation \"{table}\" already exists");
    Refusal::new(DUPLICATE_OBJECT, what)
}

/// Something cannot go, since others need it.
pub(super) fn needed(what: &str, needs: &[String]) -> Refusal {
    let refusal = Refusal::new(
        DEPENDENT,
        format!("cannot drop {what} because other objects depend on it"),
    );
    refusal
        .detail(needs.join("\n"))
        .hint("Use DROP ... CASCADE to drop the dependent objects too.")
}

/// A schema in which clients may make something.
pub(super) fn check_schema(schema: &str) -> Result<(), Refusal> {
    match schema {
        DICTIONARY_SCHEMA | "pg_catalog" | "information_schema" => Err(Refusal::new(
            code::INSUFFICIENT_PRIVILEGE,
            format!("permission denied for schema {schema}"),
        )),
        _ => Ok(()),
    }
}

/// Tells the client something that is no error.
pub(super) fn notice(session: &mut ClientSession, code: &'static str, what: impl Into<String>) {
    session.notice(Refusal::new(code, what));
}

/// `IF EXISTS` of something that is not there.
pub(super) fn skipped(session: &mut ClientSession, what: &str, name: &str) {
    let told = format!("{what} \"{name}\" does not exist, skipping");
    notice(session, code::SUCCESS, told);
}
