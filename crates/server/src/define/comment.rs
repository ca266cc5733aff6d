//! `COMMENT ON`: those on tables and columns are kept in the dictionary; others are taken and not kept.

use super::alter_table::at_of;
use super::error;
use super::index;
use super::seen::{Relation, Seen, shown};
use super::step::{Step, apply, note};
use crate::catalog::folded;
use crate::session::{ClientSession, names};
use crate::write::Property;
use corun_wire::error::Refusal;
use datafusion::sql::sqlparser::ast::{CommentObject, ObjectName};

/// Runs it.
///
/// # Errors
/// What is not there.
pub(super) fn run(
    session: &mut ClientSession,
    object: &CommentObject,
    name: &ObjectName,
    comment: Option<&str>,
) -> Result<&'static str, Refusal> {
    const TAG: &str = "COMMENT";
    let seen = Seen::of(session)?;
    let (info, column) = match object {
        CommentObject::Table => (seen.find_table(&names(name)?)?, String::new()),
        CommentObject::Column => {
            let mut parts = name.0.clone();
            let column = parts.pop().and_then(|part| part.as_ident().map(folded));
            let column = column.filter(|_| !parts.is_empty());
            let column = column.ok_or_else(|| error::syntax("column name must be qualified"))?;
            let info = seen.find_table(&names(&ObjectName(parts))?)?;
            if info.column(&column).is_none() {
                return Err(error::no_column(&column, &info.name));
            }
            (info, column)
        }
        CommentObject::Index => {
            index::check_there(&seen, name)?;
            return Ok(TAG);
        }
        CommentObject::Sequence => {
            let name = names(name)?;
            return match seen.find(&name) {
                Some((_, Relation::Sequence)) => Ok(TAG),
                Some(_) => Err(error::not_a("sequence", &name.1)),
                None => Err(error::no_relation(&shown(&name))),
            };
        }
        CommentObject::Schema => {
            let (_, name) = names(name)?;
            return match seen.has_schema(&name) || error::check_schema(&name).is_err() {
                true => Ok(TAG),
                false => Err(error::no_schema(&name)),
            };
        }
        CommentObject::Database | CommentObject::Extension | CommentObject::Role => return Ok(TAG),
        other => return Err(error::unsupported(format!("COMMENT ON {other}"))),
    };
    super::check_may_define(session, info)?;
    let at = at_of(info);
    let step = match comment.filter(|comment| !comment.is_empty()) {
        Some(comment) => note(&at, &column, Property::Comment, comment),
        None => Step::Forget(at, column, Property::Comment),
    };
    apply(session, &[step])?;
    Ok(TAG)
}
