//! [`Job`]: what the subject is told to run, and [`Done`]: what it says of it. Both travel as JSON between the suite and the traced
//! copy of the program.

use serde::{Deserialize, Serialize};

/// A database and what is run on it, one pass after the other.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Job {
    /// What is run.
    pub workload: Workload,
    /// How, in this order.
    pub passes: Vec<Pass>,
    /// Whether lock waits have minutes: under a tracer everything takes a hundred times as long.
    pub patient: bool,
}

/// What is run on which database.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Workload {
    /// One operation of the store on a table like the paper's (section 3.4: 25 integers a row).
    Operation {
        /// Which.
        operation: Operation,
        /// Rows of the table.
        rows: u32,
        /// Rows of the table that every other member works on instead; 0: all work on the one table.
        other_rows: u32,
    },
    /// TPC-C, ten clients a warehouse.
    Tpcc {
        /// Which transactions.
        mix: Mix,
        /// Warehouses.
        warehouses: i16,
        /// Customers, orders and items are divided by it.
        divisor: i32,
    },
}

/// Transactions of TPC-C.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Mix {
    /// Payment alone (Figure 13).
    Payment,
    /// The standard mix without Delivery (Figure 14).
    NoDelivery,
}

impl Mix {
    /// The name in rows.
    pub fn name(self) -> &'static str {
        match self {
            Mix::Payment => "payment",
            Mix::NoDelivery => "no_delivery",
        }
    }
}

/// An operation of the store (Table 2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Operation {
    /// Begins a transaction.
    Begin,
    /// Reads one row by its key, locked.
    Fetch,
    /// Reads ten rows by a range of keys, locked.
    Scan,
    /// Changes one column of a row that is locked.
    Update,
    /// Adds a row.
    Insert,
    /// Takes a row away.
    Delete,
    /// Commits a transaction that changed a row.
    Commit,
}

impl Operation {
    /// All of them, in the order a transaction could run them.
    pub const ALL: [Operation; 7] = [
        Operation::Begin,
        Operation::Fetch,
        Operation::Scan,
        Operation::Update,
        Operation::Insert,
        Operation::Delete,
        Operation::Commit,
    ];

    /// The name in rows.
    pub fn name(self) -> &'static str {
        match self {
            Operation::Begin => "begin",
            Operation::Fetch => "index_fetch",
            Operation::Scan => "scan",
            Operation::Update => "update",
            Operation::Insert => "insert",
            Operation::Delete => "delete",
            Operation::Commit => "commit",
        }
    }
}

/// How members take turns.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    /// One client after the other on an ordinary thread: no scheduler at all.
    Serial,
    /// Members of a scheduler whose CTX points do nothing: each runs its operation to the end.
    ToCompletion,
    /// Members that switch at CTX points.
    Team,
    /// A team that stays together: all its operations are index fetches of one transaction a member, without the code that forms teams,
    /// as in the paper's microbenchmarks.
    Held,
}

impl Mode {
    /// The name in rows.
    pub fn name(self) -> &'static str {
        match self {
            Mode::Serial => "serial",
            Mode::ToCompletion => "to_completion",
            Mode::Team => "team",
            Mode::Held => "held_team",
        }
    }
}

/// Which CTX points are on.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Points {
    /// Those that carry a prefetch, which is what a program without a profile has.
    Default,
    /// All that are compiled in.
    All,
    /// Those of a profile, as text.
    Profile(String),
}

/// One way of running the workload.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pass {
    /// How members take turns.
    pub mode: Mode,
    /// How many there are.
    pub members: usize,
    /// Which points are on.
    pub points: Points,
    /// How often each member runs the operation, or transactions of all members together in TPC-C.
    pub rounds: usize,
    /// How much of that is run before what is between markers.
    pub warm_up: usize,
    /// Whether a switch also saves the floating-point registers.
    pub float: bool,
    /// Whether it is to be traced: then there are markers, and gates that hold members together around them.
    pub marked: bool,
}

impl Pass {
    /// A pass to be traced: so many rounds, behind those that warm it up.
    pub fn traced(mode: Mode, members: usize, points: &Points, (warm_up, rounds): (usize, usize)) -> Pass {
        Pass {
            mode,
            members,
            points: points.clone(),
            rounds,
            warm_up,
            float: false,
            marked: true,
        }
    }

    /// A pass to be timed.
    pub fn timed(mode: Mode, members: usize, points: &Points, rounds: (usize, usize)) -> Pass {
        Pass {
            marked: false,
            ..Pass::traced(mode, members, points, rounds)
        }
    }
}

/// What came of a pass.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Done {
    /// Operations (TPC-C: transactions) between markers.
    pub operations: u64,
    /// What they took, in seconds, markers and all; of no meaning under a tracer.
    pub seconds: f64,
    /// What of all that must hold does not, one sentence each.
    pub wrong: Vec<String>,
    /// Who entered and left which team.
    pub teams: Vec<TeamLine>,
    /// Average number of members ready to run, where it was counted.
    pub ready: Option<f64>,
}

/// A line of Table 4.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TeamLine {
    /// The operation, such as `fetch customer.primary`.
    pub operation: String,
    /// Teams that ran.
    pub teams: u64,
    /// Members that entered one.
    pub entered: u64,
    /// Members that left one without having become stray.
    pub left: u64,
}
