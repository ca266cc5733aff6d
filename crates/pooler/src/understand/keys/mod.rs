//! Which keys of which column a statement touches: what decides on the core it runs on.
//!
//! Order of calls: [`crate::understand::Understood::keys`] is a [`KeyPlan`], made from the parse tree once for each distinct text;
//! [`KeyPlan::resolve`] finds the column to go by, once for each plan and configuration; [`KeyPlan::span`] returns for each run from
//! the values at hand ([`parameters_of_bind`], [`Literals`] or both), without allocating and in well under a microsecond.
//!
//! What is understood: comparisons of a column with a parameter or literal, IN, BETWEEN, `= ANY` of an array, AND, OR, casts that
//! keep the value, columns that an inner join makes equal, values that INSERT lists with their columns. Anything else constrains
//! nothing: NOT, functions, arithmetic, conditions of outer joins, rows, MERGE, COPY, EXECUTE.
//!
//! What it is not: a proof. Names are not looked up, so a view or a temporary table may stand behind one, operators may be the
//! user's. A span may be too wide, or of another query of the same text; it decides where a statement runs, never what it returns.

pub(crate) mod calendar;
mod constants;
mod kind;
mod operands;
mod plan;
mod query;
mod scope;
mod test;

pub use corun_model::pooler::ranges::Kind as KeyKind;
pub use kind::key_of_text;
pub use operands::{Given, Literals, Operands, Values, parameters_of_bind};
pub use plan::{KeyColumn, KeyPlan};
pub(super) use query::plan;

/// Columns of a plan at most; of those that follow nothing is known.
pub const COLUMNS_MAX: usize = 32;

/// Tests and operands of a column at most; of one that has more nothing is known.
pub const NODES_MAX: usize = 256;
