//! In what the server is known to differ from PostgreSQL: statements that would meet it are not written, unless `CORUN_TEST_STRICT=1`.
//!
//! What is mended is taken out of [`KNOWN`]; the list is empty when nothing is left.

use std::sync::OnceLock;

/// A difference.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Known {
    /// `START TRANSACTION` has the tag `BEGIN`.
    StartTransaction,
    /// `setval` runs in a transaction that only reads.
    SetvalReadOnly,
    /// A text without a type, compared with a boolean, `bytea`, `uuid` or number, is not read as a value of that type.
    UntypedLiterals,
    /// Numbers with a fraction are doubles.
    Fractions,
    /// Functions and expressions over `char(n)`, `uuid` and `bytea` have other types.
    ExpressionTypes,
    /// `NULL NOT IN (SELECT ...)` below an OR is taken as true.
    NotIn,
    /// Constants that cannot be put into their columns are refused when a row gets them, not when the statement is planned.
    LateConstants,
    /// Conditions of `MERGE` and of `DO UPDATE` have no subqueries.
    ConditionSubqueries,
    /// An integer constant is `bigint`.
    BigConstants,
    /// Arithmetic of integers wraps.
    Overflow,
    /// Spaces at the end of a text too long for its `varchar(n)` are kept in some statements.
    Spaces,
    /// `DO UPDATE` that changes the key it has met, twice, or meets a row of its own statement in a snapshot: 40001, not 21000.
    ConflictKey,
    /// `WHERE` of another type than boolean: 42601.
    FilterType,
    /// `ON CONFLICT` without such a key is refused before what is wrong with its values.
    ConflictTarget,
}

const KNOWN: &[Known] = &[
    Known::StartTransaction,
    Known::SetvalReadOnly,
    Known::UntypedLiterals,
    Known::Fractions,
    Known::ExpressionTypes,
    Known::NotIn,
    Known::LateConstants,
    Known::ConditionSubqueries,
    Known::BigConstants,
    Known::Overflow,
    Known::Spaces,
    Known::ConflictKey,
    Known::FilterType,
    Known::ConflictTarget,
];

impl Known {
    /// Whether statements that would meet it are left out.
    pub fn is_avoided(self) -> bool {
        static STRICT: OnceLock<bool> = OnceLock::new();
        let strict = STRICT.get_or_init(|| std::env::var_os("CORUN_TEST_STRICT").is_some());
        !strict && KNOWN.contains(&self)
    }
}
