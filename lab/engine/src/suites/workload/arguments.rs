//! What the suites of workloads are told on the command line.

use super::Source;
use clap::Args;
use corun_cli::arguments::{byte_size, positive, positive_number};
use lab_core::suite::{Common, Rounds, Threads};

/// Arguments of `corun-lab bench ssb`, `tpch`, `tpcds` and `h2o`.
#[derive(Clone, Debug, Default, Args)]
pub struct WorkloadArgs {
    /// What every suite is told.
    #[command(flatten)]
    pub common: Common,

    /// How often sides take turns.
    #[command(flatten)]
    pub rounds: Rounds,

    /// With how many threads.
    #[command(flatten)]
    pub threads: Threads,

    /// Scale factor [default: 1].
    #[arg(long, value_name = "SCALE", value_parser = positive_number, allow_negative_numbers = true)]
    pub scale: Option<f64>,

    /// Instead of one query at a time, so many clients at once, from Parquet files; repeatable.
    #[arg(long, value_name = "N", value_delimiter = ',', value_parser = positive, allow_negative_numbers = true)]
    pub clients: Vec<usize>,

    /// From files alone, with so much memory for the joins, groups and sorts of a query, such as 512MiB, beside DataFusion's hash joins and its
    /// sort-merge joins; repeatable.
    #[arg(long, value_name = "SIZE", value_delimiter = ',', value_parser = byte_size, conflicts_with = "clients")]
    pub memory: Vec<usize>,

    /// From files alone, on so many processes (`corun-sql worker`) of this machine, beside the same processes with DataFusion's joins;
    /// repeatable.
    #[arg(long, value_name = "N", value_delimiter = ',', value_parser = positive, conflicts_with_all = ["clients", "memory"],
        allow_negative_numbers = true)]
    pub workers: Vec<usize>,

    /// Without other systems beside the runs from files.
    #[arg(long)]
    pub no_peers: bool,
}

/// Makes the arguments of a suite whose queries a function `workload` beside them tells.
macro_rules! workload_args {
    ($(#[$what:meta])* $arguments:ident, $suite:ident) => {
        $(#[$what])*
        #[derive(Clone, Debug, Default, clap::Args)]
        pub struct $arguments {
            /// Those of all workloads.
            #[command(flatten)]
            pub workload: $crate::suites::workload::WorkloadArgs,

            /// From Parquet files, too.
            #[arg(long, conflicts_with = "quick")]
            pub full: bool,
        }

        impl lab_core::suite::SuiteArgs for $arguments {
            const SUITE: lab_core::suite::Suite = lab_core::suite::Suite::$suite;

            fn common(&mut self) -> &mut lab_core::suite::Common {
                &mut self.workload.common
            }

            fn plan(&self) -> lab_core::run::Plan {
                self.workload.rounds.plan(self.workload.common.quick)
            }

            fn run(&self, runner: &mut lab_core::run::Runner<'_>) -> Result<(), lab_core::BenchError> {
                use $crate::suites::workload::{Source, run};
                run(&workload(), Source::of(self.full), &self.workload, runner)
            }
        }
    };
}

pub(in crate::suites) use workload_args;

impl WorkloadArgs {
    /// Where the queries read from, with how much memory, and on how many workers.
    pub(super) fn kinds(&self, sources: &[Source]) -> Vec<(Source, Option<usize>, Option<usize>)> {
        let files = Source::Parquet;
        if !self.workers.is_empty() {
            return self
                .workers
                .iter()
                .map(|&count| (files, None, Some(count)))
                .collect();
        }
        if !self.memory.is_empty() {
            return self
                .memory
                .iter()
                .map(|&bytes| (files, Some(bytes), None))
                .collect();
        }
        sources.iter().map(|&source| (source, None, None)).collect()
    }
}
