//! The benchmark suites by name, and what a suite is: arguments of its own, [`SuiteArgs`], of which [`Common`], [`Rounds`] and [`Threads`]
//! are shared.
//!
//! The suites themselves stand in the crates of their subjects; the program chooses among those it was built with.

use std::str::FromStr;

use clap::Args;
use corun_cli::arguments::positive;
use corun_model::progress::{Progress, Silent};

use crate::error::BenchError;
use crate::order;
use crate::row::Row;
use crate::run::{Outcome, Plan, Runner, Sink};

/// A suite of `corun-lab bench`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Suite {
    /// What the machine gives at random access to memory.
    Floor,
    /// Single joins over sizes, key kinds and hit rates.
    Join,
    /// Groupings by keys of every kind, of ten groups to many millions.
    Aggregate,
    /// The 13 queries of the Star Schema Benchmark.
    Ssb,
    /// The 22 queries of TPC-H.
    Tpch,
    /// The 99 queries of TPC-DS, from Parquet files.
    Tpcds,
    /// The groupings and joins of H2O.ai's db-benchmark.
    H2o,
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
    /// `corun-sql serve` beside DataFusion as it comes, DuckDB and PostgreSQL.
    Serve,
}

impl Suite {
    /// Every suite, in the order of the documentation.
    pub const ALL: [Suite; 15] = [
        Suite::Floor,
        Suite::Join,
        Suite::Aggregate,
        Suite::Ssb,
        Suite::Tpch,
        Suite::Tpcds,
        Suite::H2o,
        Suite::MemoryLatency,
        Suite::Llc,
        Suite::Oltp,
        Suite::InstructionCache,
        Suite::Proxy,
        Suite::KeyRanges,
        Suite::HeavyQueue,
        Suite::Serve,
    ];

    /// The name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Suite::Floor => "floor",
            Suite::Join => "join",
            Suite::Aggregate => "aggregate",
            Suite::Ssb => "ssb",
            Suite::Tpch => "tpch",
            Suite::Tpcds => "tpcds",
            Suite::H2o => "h2o",
            Suite::MemoryLatency => "memory-latency",
            Suite::Llc => "llc",
            Suite::Oltp => "oltp",
            Suite::InstructionCache => "instruction-cache",
            Suite::Proxy => "proxy",
            Suite::KeyRanges => "key-ranges",
            Suite::HeavyQueue => "heavy-queue",
            Suite::Serve => "serve",
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

    /// The paper it repeats, by its number in the manual.
    pub fn paper(self) -> Option<&'static str> {
        match self {
            Suite::MemoryLatency => Some("000"),
            Suite::Llc | Suite::HeavyQueue => Some("002"),
            Suite::InstructionCache => Some("003"),
            Suite::KeyRanges => Some("004"),
            Suite::Floor
            | Suite::Join
            | Suite::Aggregate
            | Suite::Ssb
            | Suite::Tpch
            | Suite::Tpcds
            | Suite::H2o
            | Suite::Oltp
            | Suite::Proxy
            | Suite::Serve => None,
        }
    }

    /// About how long all cases of the plain command take on a virtual machine with two cores, in minutes.
    pub fn minutes(self) -> u32 {
        match self {
            Suite::Floor => 1,
            Suite::Ssb => 2,
            Suite::Tpch => 4,
            Suite::Tpcds => 15,
            Suite::Aggregate | Suite::H2o => 6,
            Suite::MemoryLatency => 10,
            Suite::Join => 20,
            Suite::Llc | Suite::InstructionCache => 30,
            Suite::Oltp | Suite::Proxy => 90,
            Suite::HeavyQueue => 120,
            Suite::KeyRanges => 150,
            Suite::Serve => 400,
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

/// What every suite is told.
#[derive(Clone, Debug, Default, Args)]
pub struct Common {
    /// Only cases whose name contains this text; repeatable.
    #[arg(long, value_name = "NAME")]
    pub case: Vec<String>,

    /// Small data and two repetitions, for checking answers in seconds.
    #[arg(long)]
    pub quick: bool,

    /// Rows of cases that need not run again.
    #[arg(skip)]
    pub recorded: Vec<Row>,
}

impl Common {
    /// A quick run of all cases, or of those whose name contains a text.
    pub fn quick(case: Option<&str>) -> Common {
        Common {
            case: case.map(str::to_owned).into_iter().collect(),
            quick: true,
            ..Common::default()
        }
    }

    /// Whether a case of this name is to run: `--case` is it, or a part of it, or is not given, and it is not recorded already.
    pub fn selects(&self, case: &str) -> bool {
        let wanted = self.case.is_empty() || self.case.iter().any(|wanted| case.contains(wanted));
        wanted && !self.recorded.iter().any(|row| row.case == case)
    }

    /// The error for a `--case` that selected none of `cases`.
    pub fn no_such_case(&self, suite: Suite, cases: impl IntoIterator<Item = String>) -> BenchError {
        BenchError::NoSuchCase {
            suite: suite.name().to_string(),
            case: self.case.join(", "),
            cases: cases.into_iter().collect(),
        }
    }
}

/// How often sides that are compared take turns, and in which order.
#[derive(Clone, Debug, Default, Args)]
pub struct Rounds {
    /// What the order of sides in each round is shuffled from [default: 1].
    #[arg(long, value_name = "SEED")]
    pub order_seed: Option<u64>,

    /// Rounds of every side instead of the suite's own number.
    #[arg(long, value_name = "N", value_parser = positive, allow_negative_numbers = true)]
    pub repetitions: Option<usize>,

    /// Most rounds of two sides that are about as fast [default: 30]; with fewer no side is called slower or not.
    #[arg(long, value_name = "N", value_parser = positive, allow_negative_numbers = true)]
    pub pairs: Option<usize>,
}

impl Rounds {
    /// The plan for a run that is quick or not.
    pub fn plan(&self, quick: bool) -> Plan {
        let plan = Plan::from_arguments(quick, self.repetitions);
        Plan {
            order_seed: self.order_seed.unwrap_or(order::SEED),
            pairs_max: self
                .pairs
                .map_or(plan.pairs_max, |pairs| pairs.max(plan.repetitions)),
            ..plan
        }
    }
}

/// With how many threads.
#[derive(Clone, Debug, Default, Args)]
pub struct Threads {
    /// Numbers of threads, such as 1,2 [default: 1 and all cores; aggregate, ssb, tpch, tpcds and h2o: all cores].
    #[arg(long, value_name = "N,...", value_delimiter = ',', value_parser = positive, allow_negative_numbers = true)]
    pub threads: Vec<usize>,
}

impl Threads {
    /// The numbers of threads to run with, without repeats: those asked for, or one and all cores.
    pub fn counts(&self) -> Vec<usize> {
        let mut counts = if self.threads.is_empty() {
            vec![1, all_cores()]
        } else {
            self.threads.clone()
        };
        counts.sort_unstable();
        counts.dedup();
        counts
    }
}

/// Cores this process may use.
pub fn all_cores() -> usize {
    std::thread::available_parallelism().map_or(1, |count| count.get())
}

/// The arguments of a suite, each of which it uses; what runs by them is the suite.
pub trait SuiteArgs: Args + Clone + Default {
    /// The suite.
    const SUITE: Suite;

    /// What every suite is told.
    fn common(&mut self) -> &mut Common;

    /// How often sides take turns.
    fn plan(&self) -> Plan;

    /// Runs the cases that are selected. Before it sets up anything, it asks [`Common::selects`] for each of its cases, and tells
    /// [`Runner::cases_are_finished`] where all rows so far are of cases that have no more rows.
    ///
    /// # Errors
    /// [`BenchError::NoSuchCase`] if none is; an impossible argument; what cannot be set up.
    fn run(&self, runner: &mut Runner<'_>) -> Result<(), BenchError>;

    /// The names of the suite's cases.
    ///
    /// # Errors
    /// An impossible argument.
    fn cases(&self) -> Result<Vec<String>, BenchError> {
        let mut args = self.clone();
        // No name has it.
        args.common().case = vec!["\n".to_owned()];
        args.common().recorded.clear();
        let mut ignore = |_| {};
        match args.run(&mut Runner::new(self.plan(), &mut ignore, &Silent)) {
            Err(BenchError::NoSuchCase { cases, .. }) => Ok(cases),
            Err(error) => Err(error),
            Ok(()) => Ok(Vec::new()),
        }
    }
}

/// Makes arguments with fields `common` and `rounds` those of a suite, whose cases a function `run` beside them runs.
#[macro_export]
macro_rules! suite_args {
    ($arguments:ty, $suite:ident) => {
        impl $crate::suite::SuiteArgs for $arguments {
            const SUITE: $crate::suite::Suite = $crate::suite::Suite::$suite;

            fn common(&mut self) -> &mut $crate::suite::Common {
                &mut self.common
            }

            fn plan(&self) -> $crate::run::Plan {
                self.rounds.plan(self.common.quick)
            }

            fn run(&self, runner: &mut $crate::run::Runner<'_>) -> Result<(), $crate::BenchError> {
                run(self, runner)
            }
        }
    };
}

/// Runs a suite, handing each row to `sink` as it is known.
///
/// # Errors
/// When the suite could not run at all, or an argument is impossible. A wrong answer or a failing engine is in the
/// [`Outcome`], so that the other cases still run.
pub fn run<A: SuiteArgs>(
    args: &A,
    sink: &mut dyn Sink,
    progress: &dyn Progress,
) -> Result<Outcome, BenchError> {
    let mut runner = Runner::new(args.plan(), sink, progress);
    args.run(&mut runner)?;
    runner.cases_are_finished();
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
                "suites: floor, join, aggregate, ssb, tpch, tpcds, h2o, memory-latency, llc, oltp, instruction-cache, proxy, key-ranges, heavy-queue, serve"
            )
        );
    }

    #[test]
    fn pairs_may_be_as_few_as_rounds() {
        let plan = |repetitions, pairs, quick| {
            let rounds = Rounds {
                repetitions,
                pairs,
                ..Rounds::default()
            };
            let plan = rounds.plan(quick);
            (plan.repetitions, plan.pairs_max, plan.claims())
        };
        assert_eq!(plan(None, None, false), (5, 30, true));
        assert_eq!(plan(Some(1), Some(1), false), (1, 1, false));
        assert_eq!(plan(Some(3), Some(1), false), (3, 3, false));
        assert_eq!(plan(None, Some(60), false), (5, 60, true));
        assert_eq!(plan(None, Some(4), true), (2, 4, false));
    }

    #[test]
    fn numbers_of_threads_are_sorted_and_distinct() {
        let threads = Threads {
            threads: vec![4, 1, 4],
        };
        assert_eq!(threads.counts(), [1, 4]);
        assert_eq!(Threads::default().counts()[0], 1);
    }

    #[test]
    fn a_case_selects_by_part_of_its_name_what_is_not_recorded() {
        let row = Row::unavailable("join", "sparse_16m_x_16m_hit100_t1", "ms", "ms", "made up");
        let common = Common {
            case: vec!["sparse_16m".to_string(), "plan_floor".to_string()],
            recorded: vec![row],
            ..Common::default()
        };
        assert!(common.selects("sparse_16m_x_16m_hit100_t2"));
        assert!(!common.selects("sparse_16m_x_16m_hit100_t1"));
        assert!(common.selects("plan_floor_dense_1m"));
        assert!(!common.selects("dense_16m_x_16m_hit100_t2"));
        assert!(Common::default().selects("anything"));
    }
}
