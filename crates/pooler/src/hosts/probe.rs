//! What a server is asked, and what its answer means.
//!
//! One read-only statement, for PostgreSQL 10 to 18, that any account may run on a plain server. Names are qualified: the
//! account's search path decides nothing. Managed servers refuse some functions; the statement comes in levels, each asking
//! less than the one before:
//!
//! | level | asks | without it |
//! | --- | --- | --- |
//! | full | everything | |
//! | log | no timeline of replicas, no cluster identity | an old primary is told by the others' timelines only while it is a primary |
//! | role | in recovery or not | limits of lag cannot be judged: replicas are read from only if there are none |

use std::time::Duration;

use corun_model::pooler::replicas::{Lsn, Probe};

/// A row in text format, `None` for NULL.
pub type Row<'a> = [Option<&'a [u8]>];

/// Columns of every level's row.
const COLUMNS: usize = 12;

/// How much a host is asked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Level {
    /// Everything.
    #[default]
    Full,
    /// What needs no control functions.
    Log,
    /// In recovery or not.
    Role,
}

// The places in the log first name the function's branch by what the first column said, so that a promotion between two
// calls is at worst one failed probe.
macro_rules! places {
    () => {
        "CASE WHEN r THEN pg_catalog.pg_last_wal_replay_lsn() ELSE pg_catalog.pg_current_wal_insert_lsn() END, \
         CASE WHEN r THEN pg_catalog.pg_last_wal_receive_lsn() END, \
         pg_catalog.date_part('epoch', pg_catalog.clock_timestamp()), \
         pg_catalog.date_part('epoch', pg_catalog.pg_last_xact_replay_timestamp()), \
         CASE WHEN r THEN NULL ELSE pg_catalog.pg_walfile_name(pg_catalog.pg_current_wal_insert_lsn()) END"
    };
}

macro_rules! sizes {
    () => {
        "pg_catalog.current_setting('wal_block_size'), \
         pg_catalog.pg_size_bytes(pg_catalog.current_setting('wal_segment_size'))"
    };
}

macro_rules! probe {
    ($($column:expr),+) => {
        concat!(
            "SELECT r",
            $(", ", $column,)+
            " FROM (SELECT pg_catalog.pg_is_in_recovery() AS r OFFSET 0) AS corun_probe"
        )
    };
}

const FULL: &str = probe!(
    places!(),
    "(SELECT received_tli FROM pg_catalog.pg_stat_wal_receiver LIMIT 1), \
     (SELECT timeline_id FROM pg_catalog.pg_control_checkpoint()), \
     (SELECT system_identifier FROM pg_catalog.pg_control_system())",
    "CASE WHEN r THEN pg_catalog.pg_is_wal_replay_paused() END",
    sizes!()
);

const LOG: &str = probe!(places!(), "NULL, NULL, NULL", "NULL", sizes!());

const ROLE: &str = probe!("NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL");

/// Why a probe failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProbeError {
    /// The row has another number of columns than was asked for.
    #[error("the probe's row has {found} columns instead of {expected}: is this PostgreSQL 10 or newer?")]
    Columns {
        /// Columns of the row.
        found: usize,
        /// Columns asked for.
        expected: usize,
    },
    /// A column holds what it cannot hold.
    #[error("column {column} of the probe's row holds {value:?}: is this PostgreSQL 10 or newer?")]
    Value {
        /// The column, from 1.
        column: usize,
        /// Its beginning.
        value: String,
    },
    /// The server answered with an error.
    #[error("the server refused the probe: {message} (SQLSTATE {sqlstate})")]
    Server {
        /// The error's code.
        sqlstate: String,
        /// Its primary message.
        message: String,
    },
    /// There was no connection, or it broke.
    #[error("no connection for the probe: {0}")]
    Connection(String),
    /// The answer did not come in time.
    #[error("no response to the probe within {0:?}")]
    Timeout(Duration),
}

impl ProbeError {
    /// Whether a level that asks less may succeed: the server lacks a function, or the account may not call it.
    fn asks_too_much(&self) -> bool {
        // insufficient_privilege, undefined_function, undefined_table, feature_not_supported, undefined_object
        const CODES: [&str; 5] = ["42501", "42883", "42P01", "0A000", "42704"];
        matches!(self, Self::Server { sqlstate, .. } if CODES.contains(&sqlstate.as_str()))
    }
}

impl Level {
    /// The statement of this level.
    pub fn sql(self) -> &'static str {
        match self {
            Self::Full => FULL,
            Self::Log => LOG,
            Self::Role => ROLE,
        }
    }

    /// The level to go on with after `error`; `None` if asking less would not help.
    pub fn after(self, error: &ProbeError) -> Option<Self> {
        match self {
            _ if !error.asks_too_much() => None,
            Self::Full => Some(Self::Log),
            Self::Log => Some(Self::Role),
            Self::Role => None,
        }
    }
}

/// What the row of a probe sent at `sent` says.
///
/// # Errors
/// A row that none of the levels' statements returns.
pub fn read_row(row: &Row<'_>, sent: Duration) -> Result<Probe, ProbeError> {
    let row = Columns::new(row, COLUMNS)?;
    let in_recovery = row.bool(0)?.ok_or_else(|| row.wrong(0))?;
    let lsn = row.lsn(1, (10, 11))?;
    let clocks = row.number::<f64>(3)?.zip(row.number::<f64>(4)?);
    let timeline = match row.timeline_of_file(5)? {
        Some(written) => Some(written),
        None => row.number(6)?.or(row.number(7)?),
    };
    Ok(Probe {
        sent,
        in_recovery,
        lsn,
        received: row.lsn(2, (10, 11))?,
        replay_age: clocks.map(|(now, last)| Duration::try_from_secs_f64(now - last).unwrap_or_default()),
        timeline,
        // Signed in SQL, unsigned on the server; only equality matters.
        system: row.number::<i64>(8)?.map(i64::cast_unsigned),
        paused: row.bool(9)?.unwrap_or(false),
    })
}

struct Columns<'a>(&'a Row<'a>);

impl<'a> Columns<'a> {
    fn new(row: &'a Row<'a>, expected: usize) -> Result<Self, ProbeError> {
        let found = row.len();
        if found == expected {
            Ok(Self(row))
        } else {
            Err(ProbeError::Columns { found, expected })
        }
    }

    fn wrong(&self, column: usize) -> ProbeError {
        let bytes = self.0[column].unwrap_or(b"NULL");
        let value = String::from_utf8_lossy(&bytes[..bytes.len().min(64)]).into_owned();
        ProbeError::Value {
            column: column + 1,
            value,
        }
    }

    /// What `read` makes of a value; `None` for NULL.
    fn value<T>(&self, column: usize, read: impl FnOnce(&str) -> Option<T>) -> Result<Option<T>, ProbeError> {
        let Some(bytes) = self.0[column] else {
            return Ok(None);
        };
        let value = str::from_utf8(bytes).ok().and_then(read);
        value.map(Some).ok_or_else(|| self.wrong(column))
    }

    fn number<T: std::str::FromStr>(&self, column: usize) -> Result<Option<T>, ProbeError> {
        self.value(column, |text| text.parse().ok())
    }

    fn bool(&self, column: usize) -> Result<Option<bool>, ProbeError> {
        self.value(column, |text| match text {
            "t" => Some(true),
            "f" => Some(false),
            _ => None,
        })
    }

    /// A place in the log, with the sizes of its pages and files in the columns `units`.
    fn lsn(&self, column: usize, units: (usize, usize)) -> Result<Option<Lsn>, ProbeError> {
        let page = self.number(units.0)?.unwrap_or(0);
        let segment = self.number(units.1)?.unwrap_or(0);
        let lsn: Option<Lsn> = self.number(column)?;
        Ok(lsn.map(|lsn| lsn.end_of_record(page, segment)))
    }

    /// The timeline in the first 8 digits of the name of a file of the log.
    fn timeline_of_file(&self, column: usize) -> Result<Option<u32>, ProbeError> {
        self.value(column, |name| {
            let digits = name.get(..8).filter(|_| name.len() == 24)?;
            u32::from_str_radix(digits, 16).ok()
        })
    }
}
