//! [`ServerStatus`]: what a SQL server says of itself, as `corun-sql serve` sends it (`/status.json`) and `corun top` reads it.
//!
//! What a reader does not find it takes as empty, so that servers and readers of other versions understand each other.

use serde::{Deserialize, Serialize};

use crate::cache::locality::Locality;

/// A server at one moment. Times are seconds.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ServerStatus {
    /// The program: `corun-sql`.
    pub program: String,
    /// Its version.
    pub version: String,
    /// Time since the start.
    pub uptime_s: f64,
    /// Whether it ends.
    pub is_stopping: bool,
    /// Connections and logins.
    pub connections: Connections,
    /// Statements since the start.
    pub statements: StatementTotals,
    /// What the process takes.
    pub memory: MemoryUse,
    /// Who is connected.
    pub sessions: Vec<SessionStatus>,
    /// Queries by the coordinator; `None`: each runs at once.
    pub queue: Option<QueueStatus>,
    /// What statements make for each other.
    pub shared: SharedUse,
    /// The machine's caches, from the nearest to memory.
    pub caches: Vec<CacheStatus>,
    /// The last statements that took long, the newest first.
    pub slow: Vec<SlowStatement>,
}

/// Connections and logins.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Connections {
    /// Sessions there are.
    pub sessions: u64,
    /// Sessions there may be.
    pub sessions_max: u64,
    /// Connections since the start, refused ones included.
    pub accepted: u64,
    /// Those for which there was no room.
    pub refused: u64,
    /// Logins.
    pub logins: u64,
    /// Logins that were refused.
    pub logins_refused: u64,
}

/// Statements since the start. An Execute with a row limit counts by itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct StatementTotals {
    /// That returned all they were asked for.
    pub completed: u64,
    /// That failed.
    pub failed: u64,
    /// That were cancelled, by clients, time limits or lost connections.
    pub cancelled: u64,
    /// Time of all.
    pub seconds: f64,
    /// Of these, time in the queue.
    pub waited_s: f64,
    /// Rows sent.
    pub rows: u64,
    /// Bytes of rows and answers sent.
    pub bytes: u64,
    /// Scheduled queries by class: strong, moderate, weak.
    pub by_class: [u64; 3],
}

/// Memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct MemoryUse {
    /// Of the process.
    pub resident_bytes: u64,
    /// That queries and what is kept for them hold.
    pub pool_bytes: u64,
    /// That they may hold; `None`: no limit.
    pub pool_bytes_max: Option<u64>,
}

/// A session.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct SessionStatus {
    /// Its number.
    pub pid: i32,
    /// Who.
    pub user: String,
    /// Where.
    pub database: String,
    /// `application_name`.
    pub application: String,
    /// From where; `None`: over the Unix socket.
    pub address: Option<String>,
    /// `active`, `idle`, ...
    pub state: String,
    /// Since when it is connected.
    pub connected_s: f64,
    /// How long its statement runs, or how long ago the last one began.
    pub statement_s: Option<f64>,
    /// Its statement's number at the coordinator, while it has one.
    pub query: Option<u64>,
    /// Its statement, or the last one.
    pub statement: String,
}

/// The coordinator.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct QueueStatus {
    /// Which of the waiting queries is started next.
    pub policy: String,
    /// How the last-level cache is divided; empty: it is not.
    pub partition: String,
    /// Who waits, who runs.
    pub queries: Vec<QueuedQuery>,
    /// What classes were learnt to do to each other.
    pub slowdowns: Vec<Slowdown>,
}

impl QueueStatus {
    /// How many are in this state.
    pub fn count(&self, state: QueryState) -> usize {
        self.queries.iter().filter(|query| query.state == state).count()
    }
}

/// Where a query is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum QueryState {
    /// It will be started.
    #[default]
    Waiting,
    /// On CPUs of its own.
    Running,
    /// So short that it runs beside those.
    Short,
    /// Its client does not read: it stands still and has no CPU.
    Unread,
    /// No query.
    Statement,
}

impl QueryState {
    /// All.
    pub const ALL: [QueryState; 5] = [
        QueryState::Waiting,
        QueryState::Running,
        QueryState::Short,
        QueryState::Unread,
        QueryState::Statement,
    ];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            QueryState::Waiting => "waiting",
            QueryState::Running => "running",
            QueryState::Short => "short",
            QueryState::Unread => "unread",
            QueryState::Statement => "statement",
        }
    }
}

/// A query at the coordinator.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct QueuedQuery {
    /// Its number.
    pub id: u64,
    /// Where it is.
    pub state: QueryState,
    /// Its locality.
    pub class: Option<Locality>,
    /// Its CPUs, as a list such as `0-1,4`.
    pub cpus: String,
    /// How long it has been there.
    pub seconds: Option<f64>,
    /// How many that came later were started before it.
    pub overtaken: u32,
    /// Why it was started.
    pub why: String,
    /// Its session.
    pub pid: Option<i32>,
}

/// What one class does to another.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Slowdown {
    /// Who is slowed down.
    pub victim: Locality,
    /// By whom.
    pub corunner: Locality,
    /// How many times as long the victim takes beside it.
    pub factor: f64,
}

/// What statements make for each other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct SharedUse {
    /// Parts of statements that run, or are kept.
    pub parts: u64,
    /// Results that are kept.
    pub results: u64,
    /// Their bytes.
    pub result_bytes: u64,
    /// Columns of row groups that are kept.
    pub columns: u64,
    /// Their bytes.
    pub column_bytes: u64,
    /// Parts run since the start.
    pub parts_run: u64,
    /// Statements that read along with one that ran the part.
    pub parts_joined: u64,
    /// Statements that took a result which was kept.
    pub results_reused: u64,
    /// Columns that scans asked for.
    pub columns_asked: u64,
    /// Of these, how many were kept.
    pub columns_reused: u64,
}

/// A level of the memory hierarchy, and what serves it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct CacheStatus {
    /// `L1d`, `L2`, `L3`, `memory`.
    pub name: String,
    /// Its size; `None`: unknown.
    pub bytes: Option<u64>,
    /// How many of them there are.
    pub count: usize,
    /// How many CPUs share one.
    pub cpus: usize,
    /// What serves it here.
    pub mechanism: String,
}

/// A statement that took long.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct SlowStatement {
    /// How long ago it ended.
    pub ago_s: f64,
    /// Who.
    pub user: String,
    /// Where.
    pub database: String,
    /// The whole time.
    pub seconds: f64,
    /// Of this, time in the queue; `None`: it was in none.
    pub waited_s: Option<f64>,
    /// Its locality.
    pub class: Option<Locality>,
    /// Its CPUs.
    pub cpus: String,
    /// Rows sent.
    pub rows: u64,
    /// Bytes sent.
    pub bytes: u64,
    /// Of the error, if it failed.
    pub sqlstate: Option<String>,
    /// Its text.
    pub statement: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_versions_are_read() {
        // `serde_json` is not among this crate's libraries: any format with names does.
        let empty: ServerStatus = from([("program", "corun-sql"), ("later", "unknown")]);
        assert_eq!((empty.program.as_str(), empty.sessions.len()), ("corun-sql", 0));
        let queue = QueueStatus {
            queries: vec![QueuedQuery::default()],
            ..QueueStatus::default()
        };
        assert_eq!(
            (queue.count(QueryState::Waiting), queue.count(QueryState::Short)),
            (1, 0)
        );
    }

    fn from<const N: usize>(fields: [(&str, &str); N]) -> ServerStatus {
        let map = serde::de::value::MapDeserializer::<_, serde::de::value::Error>::new(fields.into_iter());
        ServerStatus::deserialize(map).expect("read")
    }
}
