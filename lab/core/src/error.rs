//! The one error of this crate, in the parts the command line prints: primary, detail, hint.

use corun_model::explained::Explained;

use crate::row::RowError;

/// Why a suite could not run. A wrong answer is not an error of this kind: see [`crate::run::Outcome`].
#[derive(Debug, thiserror::Error)]
pub enum BenchError {
    /// The SQL engine, a simulation or a generator refused, and says why in its own parts.
    #[error("{}", .0.primary())]
    Explained(Box<dyn Explained>),
    /// No suite of that name.
    #[error("there is no benchmark suite \"{0}\"")]
    UnknownSuite(String),
    /// `--case` matches nothing.
    #[error("suite {suite} has no case matching \"{case}\"")]
    NoSuchCase {
        /// The suite asked.
        suite: String,
        /// The text that matched nothing.
        case: String,
        /// The names that exist.
        cases: Vec<String>,
    },
    /// An argument that makes no sense.
    #[error("{0}")]
    BadArgument(String),
    /// A peer could not be started or failed.
    #[error("{peer}: {reason}")]
    Peer {
        /// The peer's name.
        peer: &'static str,
        /// What went wrong.
        reason: String,
    },
    /// A file could not be written or read.
    #[error("{what}")]
    Io {
        /// What was attempted, with the path.
        what: String,
        /// The operating system's answer.
        #[source]
        source: std::io::Error,
    },
    /// A file of rows holds something else.
    #[error("{place} is no row: {source}")]
    Rows {
        /// The file and the line.
        place: String,
        /// What is wrong with the line.
        #[source]
        source: RowError,
    },
    /// Generated data could not be turned into Arrow batches or Parquet files.
    #[error("data generation failed: {0}")]
    Data(String),
    /// The transactional store failed.
    #[error("corun's store: {0}")]
    Store(String),
    /// A measurement of the machine failed.
    #[error("{0}")]
    Machine(String),
    /// Somebody has asked to stop.
    #[error("stopped before its end, as asked")]
    Interrupted,
}

impl BenchError {
    /// Data that could not be generated, read or compared.
    pub fn data(error: impl std::fmt::Display) -> BenchError {
        BenchError::Data(error.to_string())
    }

    /// What corun's store, or a client of it, says.
    pub fn store(error: impl std::fmt::Display) -> BenchError {
        BenchError::Store(error.to_string())
    }

    /// What the machine refuses, or does not say.
    pub fn machine(error: impl std::fmt::Display) -> BenchError {
        BenchError::Machine(error.to_string())
    }

    /// Wraps an I/O error with what was attempted.
    pub fn io(what: impl Into<String>, source: std::io::Error) -> BenchError {
        BenchError::Io {
            what: what.into(),
            source,
        }
    }

    /// The second line for people, if there is one.
    pub fn detail(&self) -> Option<String> {
        match self {
            BenchError::Explained(error) => error.detail(),
            BenchError::Io { source, .. } => Some(source.to_string()),
            _ => None,
        }
    }

    /// The error and its detail in one line: why a row has no number.
    pub fn in_one_line(&self) -> String {
        let parts = [Some(self.to_string()), self.detail()];
        let parts: Vec<String> = parts.into_iter().flatten().collect();
        parts.join("; ")
    }

    /// What to do about it, if that is known.
    pub fn hint(&self) -> Option<String> {
        match self {
            BenchError::Explained(error) => error.hint(),
            BenchError::UnknownSuite(_) => {
                Some(format!("suites: {}", crate::suite::Suite::names().join(", ")))
            }
            BenchError::Rows { .. } => Some(
                "every line must be one row, as corun writes them with --json and into rows.jsonl"
                    .to_string(),
            ),
            BenchError::NoSuchCase { suite, cases, .. } => Some(format!(
                "cases: {} ...; `corun-lab bench list {suite}` has all",
                cases[..cases.len().min(4)].join(", ")
            )),
            _ => None,
        }
    }

    /// Whether the caller asked for something impossible (exit code 2) rather than something failing (1).
    pub fn is_usage(&self) -> bool {
        if let BenchError::Explained(error) = self {
            return error.is_usage();
        }
        matches!(
            self,
            BenchError::UnknownSuite(_) | BenchError::NoSuchCase { .. } | BenchError::BadArgument(_)
        )
    }
}

impl<E: Explained> From<E> for BenchError {
    fn from(error: E) -> Self {
        BenchError::Explained(Box::new(error))
    }
}
