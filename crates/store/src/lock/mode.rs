//! [`RowMode`], [`TableMode`]: what a lock allows, and which of them go together.

/// Names a row: its table's number and its RID. Two rows of a store never share a name, and one word has one name only.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct RowName {
    /// The table's number.
    pub table: u32,
    /// The row's number in its table.
    pub rid: u32,
}

impl RowName {
    pub(super) fn key(self) -> u64 {
        u64::from(self.table) << 32 | u64::from(self.rid)
    }

    pub(super) fn of_key(key: u64) -> Self {
        RowName {
            table: (key >> 32) as u32,
            rid: key as u32,
        }
    }
}

/// Modes of a row lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RowMode {
    /// Shared: to read.
    S,
    /// Exclusive: to write.
    X,
}

impl RowMode {
    pub(super) fn name(self) -> &'static str {
        match self {
            RowMode::S => "S",
            RowMode::X => "X",
        }
    }
}

/// Modes of a table lock.
///
/// ```text
///   goes together   IS   IX   S    SIX  X            stronger
///   IS              yes  yes  yes  yes  -                X
///   IX              yes  yes  -    -    -               SIX
///   S               yes  -    yes  -    -              S   IX
///   SIX             yes  -    -    -    -                IS
///   X               -    -    -    -    -
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TableMode {
    /// Intention to read rows, each under its own S.
    IS,
    /// Intention to write rows, each under its own X.
    IX,
    /// Reads the whole table.
    S,
    /// Reads the whole table and writes rows of it, each under its own X.
    SIX,
    /// Writes the whole table.
    X,
}

impl TableMode {
    /// Every mode, weaker before stronger.
    pub const ALL: [TableMode; 5] = [
        TableMode::IS,
        TableMode::IX,
        TableMode::S,
        TableMode::SIX,
        TableMode::X,
    ];

    /// Whether two transactions may hold these at once.
    pub fn goes_with(self, other: TableMode) -> bool {
        use TableMode::{IS, IX, S, X};
        match (self, other) {
            (X, _) | (_, X) => false,
            (IS, _) | (_, IS) => true,
            (IX, IX) | (S, S) => true,
            _ => false,
        }
    }

    /// The weakest mode that allows what either allows: what a transaction holds after it asked for both.
    pub fn with(self, other: TableMode) -> TableMode {
        use TableMode::{IS, IX, S, SIX, X};
        match (self, other) {
            (a, b) if a == b => a,
            (X, _) | (_, X) => X,
            (IS, other) | (other, IS) => other,
            (SIX, _) | (_, SIX) => SIX,
            (IX, S) | (S, IX) => SIX,
            (a, _) => a,
        }
    }

    /// Whether holders of this mode are only counted.
    pub(super) fn is_intention(self) -> bool {
        matches!(self, TableMode::IS | TableMode::IX)
    }

    pub(super) fn name(self) -> &'static str {
        match self {
            TableMode::IS => "IS",
            TableMode::IX => "IX",
            TableMode::S => "S",
            TableMode::SIX => "SIX",
            TableMode::X => "X",
        }
    }
}

/// How a lock that was asked for came about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Got {
    /// The transaction did not have it before.
    New,
    /// The transaction already had it, or a stronger one.
    Held,
    /// The transaction had a weaker one.
    Upgraded,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modes_are_symmetric_and_a_stronger_one_goes_with_less() {
        for a in TableMode::ALL {
            for b in TableMode::ALL {
                assert_eq!(a.goes_with(b), b.goes_with(a), "{a:?} {b:?}");
                assert_eq!(a.with(b), b.with(a), "{a:?} {b:?}");
                for c in TableMode::ALL {
                    assert_eq!(
                        a.with(b).goes_with(c),
                        a.goes_with(c) && b.goes_with(c),
                        "{a:?} and {b:?} beside {c:?}"
                    );
                }
            }
        }
    }

    #[test]
    fn a_name_survives_its_key() {
        for name in [
            RowName { table: 0, rid: 0 },
            RowName {
                table: u32::MAX,
                rid: 7,
            },
            RowName {
                table: 3,
                rid: u32::MAX,
            },
        ] {
            assert_eq!(RowName::of_key(name.key()), name);
        }
    }
}
