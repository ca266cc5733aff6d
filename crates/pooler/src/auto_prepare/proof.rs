//! What the server must have described for a lifted text to be equal to the text it came from.

use super::lifted::{Lifted, LiteralKind, Slot, Use};
use crate::understand::oid::*;

/// Types whose values a column takes as they are, whatever its type modifier (which may round, never refuse). Not among them:
/// `interval`, which reads a string by its modifier.
const TAKEN_AS_IT_IS: &[u32] = &[
    BOOL,
    BYTEA,
    INT8,
    INT2,
    INT4,
    TEXT,
    JSON,
    CIDR,
    FLOAT4,
    FLOAT8,
    MACADDR,
    INET,
    INT4_ARRAY,
    TEXT_ARRAY,
    INT8_ARRAY,
    DATE,
    TIME,
    TIMESTAMP,
    TIMESTAMPTZ,
    TIMETZ,
    UUID,
    JSONB,
];

/// Whether the lifted statement is equal to the one it came from, by the types the server described for its parameters and by
/// the row descriptions of both (their bytes; empty for statements without rows).
///
/// Why that suffices, for each use of a literal:
/// - *Compared, in arithmetic*: a number is declared as what PostgreSQL makes of the literal, so the operator is found by the same
///   types. A string is of unknown type both as literal and as parameter, and operators are found by the same rule for both;
///   its value is then read by the same input function.
/// - *Cast*: likewise; types of users may be domains, whose checks would come at another time, and are refused.
/// - *Inserted, updated*: the parameter gets the column's type, the literal had to be converted to it. For a number both give the
///   same value only in some types. Where a modifier of the column may refuse a value (`varchar(3)`, `numeric(5,2)`), the literal is
///   refused even if no row is updated, the parameter is not: only INSERT, which evaluates its rows in any case, allows these.
pub fn proven(lifted: &Lifted, described: &[u32], original_rows: &[u8], lifted_rows: &[u8]) -> bool {
    let slots = lifted.shape.slots();
    slots.len() == described.len()
        && original_rows == lifted_rows
        && slots.iter().zip(described).all(|(slot, oid)| same(slot, *oid))
}

fn same(slot: &Slot, oid: u32) -> bool {
    use LiteralKind::{Decimal, Int4, Int8, String};
    match (slot.used, slot.kind) {
        (Use::Compared, String) => !is_pseudo(oid),
        (Use::Cast, String) => !is_pseudo(oid) && oid < FIRST_OF_USERS,
        (Use::Arithmetic, String) => false,
        (Use::Compared | Use::Arithmetic | Use::Cast, _) => oid == slot.declared(),
        (Use::Inserted, String) => TAKEN_AS_IT_IS.contains(&oid) || modifier_may_refuse(oid),
        (Use::Updated, String) => TAKEN_AS_IT_IS.contains(&oid),
        (used, kind) => {
            let exact: &[u32] = match kind {
                Int4 => &[INT4, INT8, FLOAT4, FLOAT8],
                Int8 => &[INT8, FLOAT4, FLOAT8],
                Decimal => &[FLOAT4, FLOAT8],
                String => &[],
            };
            exact.contains(&oid) || used == Use::Inserted && oid == NUMERIC
        }
    }
}

/// Types whose modifier may refuse a value.
pub(super) fn modifier_may_refuse(oid: u32) -> bool {
    [BPCHAR, VARCHAR, NUMERIC].contains(&oid)
}

/// Types no value has: `unknown`, `record`, `any` and its kin.
fn is_pseudo(oid: u32) -> bool {
    matches!(oid, 0 | 705 | 2249 | 2275..=2283 | 2287 | 2776 | 3500 | 3831 | 4537 | 4538 | 5077..=5080)
}

pub(super) fn input_cannot_fail(slot: &Slot, oid: u32) -> bool {
    match (slot.used, slot.kind) {
        (Use::Inserted, _) if modifier_may_refuse(oid) => false,
        (_, LiteralKind::String) => [TEXT, VARCHAR, BPCHAR].contains(&oid),
        _ => [INT4, INT8, FLOAT4, FLOAT8, NUMERIC].contains(&oid),
    }
}
