//! [`ChunkName`]: which rows a chunk of a checkpoint is about, and how it stands to the chunks before it.
//!
//! What it is not: the rows. How they are written the module does not know.

/// What a chunk does to what earlier ones say of its range.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Role {
    /// It is all of the range: nothing before it counts.
    Whole,
    /// It is what has changed since the chunk before it.
    Delta,
    /// It is what has changed since the newest [`Role::Whole`]: deltas before it do not count.
    DeltaToWhole,
}

/// A chunk's rows by the numbers of their table and of their range there.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct ChunkName {
    /// Number of the table.
    pub table: u32,
    /// Number of the range of rows.
    pub range: u32,
    /// How it stands to earlier chunks of the same range.
    pub role: Role,
}

impl Role {
    pub(super) fn number(self) -> u32 {
        match self {
            Role::Whole => 0,
            Role::Delta => 1,
            Role::DeltaToWhole => 2,
        }
    }

    pub(super) fn of_number(number: u32) -> Option<Role> {
        [Role::Whole, Role::Delta, Role::DeltaToWhole]
            .into_iter()
            .find(|role| role.number() == number)
    }
}
