//! [`OperationStatistics`]: how many members enter the teams of an operation, and how many leave them without having gone astray
//! (paper 003, Table 4).

/// Counts of one operation's teams.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OperationStatistics {
    /// The operation, or the one that others were merged into.
    pub operation: u16,
    /// Teams that ran.
    pub teams: u64,
    /// Members that entered a team, over all of them.
    pub in_: u64,
    /// Members that were still in their team when they finished the operation.
    pub out: u64,
    /// Switches at CTX points.
    pub ctx_calls: u64,
}

impl OperationStatistics {
    /// Members that entered a team, on average; 0 without teams.
    pub fn in_average(&self) -> f64 {
        average(self.in_, self.teams)
    }

    /// Members that finished the operation in their team, on average; 0 without teams.
    pub fn out_average(&self) -> f64 {
        average(self.out, self.teams)
    }
}

fn average(sum: u64, count: u64) -> f64 {
    if count == 0 {
        0.0
    } else {
        sum as f64 / count as f64
    }
}
