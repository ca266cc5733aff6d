//! The `serve` suite: `corun-sql serve` beside DataFusion as it comes behind the same front, DuckDB and PostgreSQL.
//!
//! Not here: what is asked ([`crate::serve::case`]), what answers ([`crate::serve::targets`]), how targets take turns
//! ([`crate::serve::contest`]).

use clap::Args;
use corun_cli::arguments::positive_number;

use crate::fixture::cluster::Cluster;
use crate::serve::case::{Case, Workload, cases};
use crate::serve::streams::Prepared;
use crate::serve::targets::{Fixture, Target};
use crate::serve::{SUITE, beside, constant, fetch, idle, streams, tables, transactions};
use lab_core::error::BenchError;
use lab_core::row::Row;
use lab_core::run::{Plan, Runner};
use lab_core::suite::{Common, Rounds, Suite, SuiteArgs};
use lab_engine::suites::{ssb, tpcds, tpch};

/// Scale factor unless `--scale` says otherwise.
const SCALE_FACTOR: f64 = 1.0;
/// Scale factor of `--quick`: one with recorded answers.
const SCALE_FACTOR_QUICK: f64 = 0.01;
/// Why TPC-DS does not run on PostgreSQL.
const NO_TPCDS: &str = "several queries of TPC-DS take minutes each on PostgreSQL";

/// Arguments of `corun-lab bench serve`.
#[derive(Clone, Debug, Default, Args)]
pub struct ServeArgs {
    /// What every suite is told.
    #[command(flatten)]
    pub common: Common,

    /// How often sides take turns.
    #[command(flatten)]
    pub rounds: Rounds,

    /// Scale factor of the workloads [default: 1].
    #[arg(long, value_name = "SCALE", value_parser = positive_number, allow_negative_numbers = true)]
    pub scale: Option<f64>,

    /// Leave DuckDB and PostgreSQL out of the workloads.
    #[arg(long)]
    pub no_peers: bool,
}

impl SuiteArgs for ServeArgs {
    const SUITE: Suite = Suite::Serve;

    fn common(&mut self) -> &mut Common {
        &mut self.common
    }

    fn plan(&self) -> Plan {
        self.rounds.plan(self.common.quick)
    }

    fn run(&self, runner: &mut Runner<'_>) -> Result<(), BenchError> {
        run(self, runner)
    }
}

/// Runs the selected cases. Programs that are missing have rows that say so.
fn run(args: &ServeArgs, runner: &mut Runner<'_>) -> Result<(), BenchError> {
    let all = cases(args.common.quick);
    let selected = all
        .iter()
        .copied()
        .filter(|case| args.common.selects(&case.name()));
    let selected: Vec<Case> = selected.collect();
    if selected.is_empty() {
        return Err(args
            .common
            .no_such_case(Suite::Serve, all.iter().map(|case| case.name())));
    }
    let fixture = Fixture::new()?;
    for reason in [fixture.program.as_ref().err(), fixture.pg.as_ref().err()]
        .into_iter()
        .flatten()
    {
        runner.progress().note(reason);
    }
    for workload in Workload::ALL {
        let of = |case: &Case| match case {
            Case::Streams(its, _) => *its == workload,
            Case::Beside(..) => workload == Workload::Tpch,
            _ => false,
        };
        let cases: Vec<Case> = selected.iter().copied().filter(of).collect();
        if !cases.is_empty() {
            run_workload(workload, &cases, &fixture, args, runner)?;
        }
    }
    run_plain(&selected, &fixture, args, runner)
}

/// The cases over the tables of a workload.
fn run_workload(
    workload: Workload,
    cases: &[Case],
    fixture: &Fixture,
    args: &ServeArgs,
    runner: &mut Runner<'_>,
) -> Result<(), BenchError> {
    let scale = args.scale.unwrap_or(match args.common.quick {
        true => SCALE_FACTOR_QUICK,
        false => SCALE_FACTOR,
    });
    let offered = match workload {
        Workload::Tpch => tpch::offered(scale, runner.progress()),
        Workload::Tpcds => tpcds::offered(scale, runner.progress()),
        Workload::Ssb => ssb::offered(scale, runner.progress()),
    };
    let offered = match offered {
        // A generator that is not installed.
        Err(error @ BenchError::Peer { .. }) => {
            runner.progress().note(&error.to_string());
            for case in cases {
                let row = Row::unavailable(SUITE, &case.name(), "queries_per_s", "1/s", &error.to_string());
                runner.emit(
                    row.with("target", Target::Corun.name())
                        .with_all(&case.parameters()),
                );
            }
            return Ok(());
        }
        offered => offered?,
    };
    let cluster = match (workload, args.no_peers) {
        (_, true) => Err("left out by --no-peers".to_owned()),
        (Workload::Tpcds, _) => Err(NO_TPCDS.to_owned()),
        _ => fixture
            .cluster(workload.name(), scale)
            .map_err(|error| error.in_one_line()),
    };
    if let Ok(cluster) = &cluster {
        tables::fill(&cluster.address, workload, &offered, runner.progress())?;
    }
    let prepared = Prepared {
        fixture,
        offered: &offered,
        cluster,
        scale,
        peers: !args.no_peers,
    };
    for &case in cases {
        match case {
            Case::Streams(_, count) => streams::run(case, count, &prepared, runner),
            Case::Beside(short, count) => {
                beside::run(case, (short, count), &prepared, args.common.quick, runner);
            }
            _ => {}
        }
    }
    Ok(())
}

/// The cases without a workload.
fn run_plain(
    selected: &[Case],
    fixture: &Fixture,
    args: &ServeArgs,
    runner: &mut Runner<'_>,
) -> Result<(), BenchError> {
    let quick = args.common.quick;
    let has = |wanted: fn(&Case) -> bool| selected.iter().any(wanted);
    let constants = has(|case| matches!(case, Case::Constant(..)));
    let fetches = has(|case| matches!(case, Case::Fetch { .. }));
    if constants || fetches {
        let cluster: Result<Cluster, String> =
            fixture.cluster("plain", 1.0).map_err(|error| error.in_one_line());
        if constants {
            let servers = constant::Servers::start(fixture, &cluster);
            for &case in selected {
                if let Case::Constant(protocol, clients) = case {
                    constant::run(case, protocol, clients, &servers, quick, runner)?;
                }
            }
        }
        if fetches {
            runner.progress().begin("serve: making rows", 1);
            let data = fetch::Data::new(fixture, &cluster, quick);
            runner.progress().end();
            let data = data?;
            for &case in selected {
                if let Case::Fetch { binary } = case {
                    fetch::run(case, binary, &data, runner);
                }
            }
        }
    }
    for &case in selected {
        if let Case::Idle(clients) = case {
            idle::run(case, clients, fixture, runner)?;
        }
    }
    if has(|case| matches!(case, Case::Pgbench(..))) {
        runner.progress().begin("serve: pgbench's tables", 1);
        let servers = transactions::Servers::start(fixture, quick);
        runner.progress().end();
        for &case in selected {
            if let Case::Pgbench(what, protocol, clients) = case {
                transactions::run(case, (what, protocol, clients), &servers, quick, runner);
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_case_that_there_is_not_is_an_error() {
        let mut args = ServeArgs::default();
        args.common.case = vec!["tpce".to_owned()];
        let mut ignore = |_| {};
        let mut runner = Runner::new(args.plan(), &mut ignore, &corun_model::progress::Silent);
        assert!(run(&args, &mut runner).is_err_and(|error| error.is_usage()));
        assert_eq!(ServeArgs::default().cases().expect("names").len(), 38);
    }
}
