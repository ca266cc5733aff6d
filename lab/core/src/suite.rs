//! The benchmark suites by name, and what one is told: [`SuiteArgs`].
//!
//! The suites themselves stand in the crates of their subjects; the program chooses among those it was built with.

use std::path::PathBuf;
use std::str::FromStr;

use corun_model::operators::placement::Placement;
use corun_model::progress::Progress;
use corun_model::units::Bytes;

use crate::error::BenchError;
use crate::order;
use crate::row::Row;
use crate::run::{Outcome, Plan, Runner};

/// A suite of `corun-lab bench`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Suite {
    /// What the machine gives at random access to memory.
    Floor,
    /// Single joins over sizes, key kinds and hit rates.
    Join,
    /// The 13 queries of the Star Schema Benchmark.
    Ssb,
    /// The 22 queries of TPC-H.
    Tpch,
    /// Every figure of paper 000: operators in all modes of threads, staging and latency hiding.
    MemoryLatency,
    /// Paper 002's co-running experiments: queries beside each other in one last-level cache.
    Llc,
    /// TPC-C and YCSB on the transactional store, beside other engines.
    Oltp,
    /// Paper 003's experiments: teams of transactions that share instructions, misses simulated, time measured.
    InstructionCache,
    /// PostgreSQL directly, through PgBouncer and through corun's proxy.
    Proxy,
    /// Paper 004's experiments: queries sent to the core, or the copy, that has their data, and complex ones split.
    KeyRanges,
    /// Paper 002's experiments on PostgreSQL: who runs beside whom, chosen by the pooler's heavy queue.
    HeavyQueue,
}

impl Suite {
    /// Every suite, in the order of the documentation.
    pub const ALL: [Suite; 11] = [
        Suite::Floor,
        Suite::Join,
        Suite::Ssb,
        Suite::Tpch,
        Suite::MemoryLatency,
        Suite::Llc,
        Suite::Oltp,
        Suite::InstructionCache,
        Suite::Proxy,
        Suite::KeyRanges,
        Suite::HeavyQueue,
    ];

    /// The name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Suite::Floor => "floor",
            Suite::Join => "join",
            Suite::Ssb => "ssb",
            Suite::Tpch => "tpch",
            Suite::MemoryLatency => "memory-latency",
            Suite::Llc => "llc",
            Suite::Oltp => "oltp",
            Suite::InstructionCache => "instruction-cache",
            Suite::Proxy => "proxy",
            Suite::KeyRanges => "key-ranges",
            Suite::HeavyQueue => "heavy-queue",
        }
    }

    /// The value of the key `suite` in its rows, and a second name on the command line. Rows keep the name they were first recorded
    /// under, so that old and new ones compare.
    pub fn row_name(self) -> &'static str {
        match self {
            Suite::MemoryLatency => "smt",
            Suite::InstructionCache => "steps",
            Suite::KeyRanges => "caric",
            Suite::HeavyQueue => "mcc",
            other => other.name(),
        }
    }

    /// All names.
    pub fn names() -> Vec<&'static str> {
        Suite::ALL.iter().map(|suite| suite.name()).collect()
    }
}

impl FromStr for Suite {
    type Err = BenchError;

    fn from_str(name: &str) -> Result<Suite, BenchError> {
        Suite::ALL
            .into_iter()
            .find(|suite| suite.name() == name || suite.row_name() == name)
            .ok_or_else(|| BenchError::UnknownSuite(name.to_string()))
    }
}

/// What to run. Fields a suite has no use for are ignored by it.
#[derive(Clone, Debug)]
pub struct SuiteArgs {
    /// The suite.
    pub suite: Suite,
    /// Only cases of this name, or containing this text.
    pub case: Option<String>,
    /// Small data and two repetitions: checks answers in seconds, claims nothing about time.
    pub quick: bool,
    /// Every case instead of the representative ones.
    pub full: bool,
    /// What the orders of sides are shuffled from.
    pub order_seed: u64,
    /// Rounds of every side instead of the plan's.
    pub repetitions: Option<usize>,
    /// Thread counts to run with; empty: one, and all cores.
    pub threads: Vec<usize>,
    /// Scale factor of `ssb` and `tpch`, warehouses of `oltp`, pgbench's scale in `proxy`, all sizes of `key-ranges`, orders of `heavy-queue`.
    pub scale: Option<f64>,
    /// Whether to run peers outside this process, such as DuckDB, SQLite or PgBouncer.
    pub peers: bool,
    /// Rows of the larger side of `join` instead of 16 million.
    pub probe_rows: Option<usize>,
    /// Where the second thread of `memory-latency` runs.
    pub placement: Placement,
    /// Whether `memory-latency` uses the paper's sizes instead of the machine's.
    pub paper_sizes: bool,
    /// The effective last-level cache that `llc` and `heavy-queue` size their tables by, instead of the machine's.
    pub llc: Option<Bytes>,
    /// Records of the YCSB cases of `oltp` instead of a million.
    pub records: Option<usize>,
    /// Where `oltp` keeps its files instead of the system's temporary folder.
    pub folder: Option<PathBuf>,
    /// The program that `instruction-cache` traces, instead of a copy of this one; it must have the subcommand [`lab_cpu::instruction_cache::SUBCOMMAND`]. The
    /// one whose pooler `proxy`, `key-ranges` and `heavy-queue` measure.
    pub program: Option<PathBuf>,
    /// An earlier program of corun that `proxy` compares with this one.
    pub before: Option<PathBuf>,
}

impl SuiteArgs {
    /// The defaults of a suite.
    pub fn new(suite: Suite) -> SuiteArgs {
        SuiteArgs {
            suite,
            case: None,
            quick: false,
            full: false,
            order_seed: order::SEED,
            repetitions: None,
            threads: Vec::new(),
            scale: None,
            peers: true,
            probe_rows: None,
            placement: Placement::Auto,
            paper_sizes: false,
            llc: None,
            records: None,
            folder: None,
            program: None,
            before: None,
        }
    }

    /// The thread counts to run with, without repeats: those asked for, or one and all cores.
    pub fn thread_counts(&self) -> Vec<usize> {
        let mut counts = if self.threads.is_empty() {
            vec![1, all_cores()]
        } else {
            self.threads.clone()
        };
        counts.retain(|&count| count > 0);
        counts.sort_unstable();
        counts.dedup();
        counts
    }

    /// Whether `--case` selects a case of this name: it is the name, or a part of it; without `--case` every case is.
    pub fn selects(&self, case: &str) -> bool {
        self.case.as_deref().is_none_or(|wanted| case.contains(wanted))
    }

    /// How often every side runs, and in which orders.
    ///
    /// # Errors
    /// [`BenchError::BadArgument`] for no thread, or no repetition.
    pub fn plan(&self) -> Result<Plan, BenchError> {
        let nothing = |what| BenchError::BadArgument(format!("a benchmark needs at least one {what}"));
        if self.threads.contains(&0) {
            return Err(nothing("thread"));
        }
        if self.repetitions == Some(0) {
            return Err(nothing("repetition"));
        }
        Ok(Plan {
            order_seed: self.order_seed,
            ..Plan::from_arguments(self.quick, self.repetitions)
        })
    }

    /// The error for a `--case` that selected none of `cases`.
    pub fn no_such_case(&self, cases: impl IntoIterator<Item = String>) -> BenchError {
        BenchError::NoSuchCase {
            suite: self.suite.name().to_string(),
            case: self.case.clone().unwrap_or_default(),
            examples: cases.into_iter().take(4).collect(),
        }
    }
}

/// Cores this process may use.
pub fn all_cores() -> usize {
    std::thread::available_parallelism().map_or(1, |count| count.get())
}

/// What a suite is to whoever runs it.
pub type RunSuite = fn(&SuiteArgs, &mut Runner<'_>) -> Result<(), BenchError>;

/// Runs a suite, handing each row to `emit` as it is known.
///
/// # Errors
/// When the suite could not run at all, or an argument is impossible. A wrong answer or a failing engine is in the
/// [`Outcome`], so that the other cases still run.
pub fn run(
    suite: RunSuite,
    args: &SuiteArgs,
    emit: &mut dyn FnMut(Row),
    progress: &dyn Progress,
) -> Result<Outcome, BenchError> {
    let mut runner = Runner::new(args.plan()?, emit, progress);
    suite(args, &mut runner)?;
    Ok(runner.finish())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_round_trip() {
        for suite in Suite::ALL {
            assert_eq!(suite.name().parse::<Suite>().ok(), Some(suite));
            assert_eq!(suite.row_name().parse::<Suite>().ok(), Some(suite));
        }
        let error = "jion".parse::<Suite>().expect_err("no such suite");
        assert!(error.is_usage());
        assert_eq!(
            error.hint().as_deref(),
            Some(
                "suites: floor, join, ssb, tpch, memory-latency, llc, oltp, instruction-cache, proxy, key-ranges, heavy-queue"
            )
        );
    }

    #[test]
    fn thread_counts_are_sorted_and_distinct() {
        let args = SuiteArgs {
            threads: vec![4, 1, 4],
            ..SuiteArgs::new(Suite::Join)
        };
        assert_eq!(args.thread_counts(), [1, 4]);
        assert_eq!(SuiteArgs::new(Suite::Join).thread_counts()[0], 1);
    }

    #[test]
    fn impossible_arguments_are_usage_errors() {
        let zero_threads = SuiteArgs {
            threads: vec![0],
            ..SuiteArgs::new(Suite::Floor)
        };
        let zero_rounds = SuiteArgs {
            repetitions: Some(0),
            ..SuiteArgs::new(Suite::Floor)
        };
        for args in [zero_threads, zero_rounds] {
            let error = args.plan().expect_err("impossible");
            assert!(error.is_usage(), "{error}");
        }
    }

    #[test]
    fn a_case_selects_by_part_of_its_name() {
        let args = SuiteArgs {
            case: Some("sparse_16m".to_string()),
            ..SuiteArgs::new(Suite::Join)
        };
        assert!(args.selects("sparse_16m_x_16m_hit100_t2"));
        assert!(!args.selects("dense_16m_x_16m_hit100_t2"));
        assert!(SuiteArgs::new(Suite::Join).selects("anything"));
    }
}
