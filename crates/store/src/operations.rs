//! The operations by which user-level threads form teams (paper 003, Table 2), by number and by name.
//!
//! ```text
//! commit, update, scan                  one for the whole store: their code does not depend on the table
//! fetch TABLE.INDEX, get TABLE          the way down differs from index to index
//! insert TABLE, enter TABLE, delete TABLE   the record, the indexes if teams are split there, the end of the record
//! ```
//!
//! The same name has the same number in the whole process, since a scheduler knows only numbers: several stores with the same
//! tables form teams together. Numbers are never given back, so there are at most [`OPERATIONS_MAX`]; what comes later shares
//! one of its kind.
//!
//! What it is not: the teams themselves, see [`corun_exec::teams`]. An operation on a plain thread is nothing but its code.

use corun_exec::teams::{self, Operation};
use parking_lot::Mutex;

use crate::error::{Result, StoreError};

/// Operations with names of their own.
pub const OPERATIONS_MAX: usize = 1024;

/// Bytes of stack an operation may need, checked at its start. `the_stack_an_operation_needs` measures what they take.
pub const STACK_BYTES_MIN: usize = 24 << 10;

pub(crate) const COMMIT: Operation = Operation(0);
pub(crate) const UPDATE: Operation = Operation(1);
pub(crate) const SCAN: Operation = Operation(2);
const OTHER_FETCH: Operation = Operation(3);
const OTHER_GET: Operation = Operation(4);
const OTHER_INSERT: Operation = Operation(5);
const OTHER_ENTER: Operation = Operation(6);
const OTHER_DELETE: Operation = Operation(7);
const FIXED: [&str; 8] = [
    "commit",
    "update",
    "scan",
    "fetch others",
    "get others",
    "insert others",
    "enter others",
    "delete others",
];

/// Names of the numbers behind the fixed ones.
static NAMES: Mutex<Vec<String>> = Mutex::new(Vec::new());

/// What an operation is called, as in `fetch usertable.primary`; none of a number the store does not know.
pub fn operation_name(operation: Operation) -> Option<String> {
    let number = usize::from(operation.0);
    match FIXED.get(number) {
        Some(name) => Some((*name).to_owned()),
        None => NAMES.lock().get(number - FIXED.len()).cloned(),
    }
}

/// The number of a name, a new one if it has none yet.
fn named(name: String, other: Operation) -> Operation {
    let mut names = NAMES.lock();
    let at = names.iter().position(|known| *known == name);
    let at = at.unwrap_or_else(|| {
        if names.len() < OPERATIONS_MAX {
            names.push(name);
            names.len() - 1
        } else {
            usize::MAX
        }
    });
    u16::try_from(at).map_or(other, |at| Operation(at + FIXED.len() as u16))
}

/// The operations of one table.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TableOperations {
    /// A row by its number.
    pub(crate) get: Operation,
    pub(crate) insert: Operation,
    /// The index entries of an insert.
    pub(crate) enter: Operation,
    pub(crate) delete: Operation,
}

impl TableOperations {
    pub(crate) fn of(table: &str) -> TableOperations {
        TableOperations {
            get: named(format!("get {table}"), OTHER_GET),
            insert: named(format!("insert {table}"), OTHER_INSERT),
            enter: named(format!("enter {table}"), OTHER_ENTER),
            delete: named(format!("delete {table}"), OTHER_DELETE),
        }
    }
}

/// Fetching through an index.
pub(crate) fn fetch(table: &str, index: &str) -> Operation {
    named(format!("fetch {table}.{index}"), OTHER_FETCH)
}

/// Whether the stack suffices for an operation, of a user-level thread.
///
/// # Errors
/// [`StoreError::Stack`].
#[inline]
pub(crate) fn check_stack() -> Result<()> {
    match teams::stack_left() {
        Some(left) if left < STACK_BYTES_MIN => Err(StoreError::Stack {
            left,
            needed: STACK_BYTES_MIN,
        }),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_has_one_number_and_the_fixed_ones_stay() {
        let one = fetch("operations_test", "primary");
        assert_eq!(fetch("operations_test", "primary"), one);
        assert_eq!(
            operation_name(one).as_deref(),
            Some("fetch operations_test.primary")
        );
        assert_ne!(fetch("operations_test", "by_name"), one);
        assert_eq!(operation_name(COMMIT).as_deref(), Some("commit"));
        assert_eq!(operation_name(OTHER_DELETE).as_deref(), Some("delete others"));
        assert_eq!(operation_name(Operation(u16::MAX)), None);
    }
}
