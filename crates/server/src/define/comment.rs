//! `COMMENT ON`: those on tables, columns, constraints and indexes are kept in the dictionary; others are taken and not kept.

use super::alter_table::at_of;
use super::error;
use super::index;
use super::seen::{Relation, Seen, shown};
use super::step::{Step, apply, note};
use crate::catalog::folded;
use crate::session::{ClientSession, names};
use crate::write::Property;
use corun_wire::error::{Refusal, code};
use datafusion::sql::sqlparser::ast::{CommentObject, ObjectName};

/// Runs it; a constraint's name is behind that of its table.
///
/// # Errors
/// What is not there.
pub(super) fn run(
    session: &mut ClientSession,
    (object, on_constraint): (&CommentObject, bool),
    name: &ObjectName,
    comment: Option<&str>,
) -> Result<&'static str, Refusal> {
    const TAG: &str = "COMMENT";
    let seen = Seen::of(session)?;
    let (info, of, property) = match object {
        CommentObject::Table => (seen.find_table(&names(name)?)?, String::new(), Property::Comment),
        CommentObject::Column => {
            let mut parts = name.0.clone();
            let column = parts.pop().and_then(|part| part.as_ident().map(folded));
            let column = column.filter(|_| !parts.is_empty());
            let column = column.ok_or_else(|| error::syntax("column name must be qualified"))?;
            let info = seen.find_table(&names(&ObjectName(parts))?)?;
            if on_constraint {
                if !info.has_constraint(&column) {
                    let what = format!(
                        "constraint \"{column}\" for table \"{}\" does not exist",
                        info.name
                    );
                    return Err(Refusal::new(code::UNDEFINED_OBJECT, what));
                }
                (info, column, Property::ConstraintComment)
            } else {
                if info.column(&column).is_none() {
                    return Err(error::no_column(&column, &info.name));
                }
                (info, column, Property::Comment)
            }
        }
        CommentObject::Index => {
            let (info, index) = index::find(&seen, name)?;
            (
                info,
                info.shown_index(&index.name).to_owned(),
                Property::IndexComment,
            )
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
        Some(comment) => note(&at, &of, property, comment),
        None => Step::Forget(at, of, property),
    };
    apply(session, &[step])?;
    Ok(TAG)
}
