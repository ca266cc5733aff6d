//! The `tpcds` suite: the 99 queries of TPC-DS over Parquet files, on corun, on DataFusion and on DuckDB.
//!
//! Tables and texts come from the generator of DuckDB's extension, which `scripts/bootstrap --peers` installs; they are made once a
//! scale factor and kept beside the peers. `geomean_join_heavy` is left out: nearly all of these queries join.

use super::workload::streams::{Choice, Dashboard, Values};
use super::workload::{self, Files, Offered, Source, Workload, WorkloadArgs, offer};
use crate::peers::sql::DUCKDB;
use clap::Args;
use corun_model::progress::Progress;
use lab_core::error::BenchError;
use lab_core::peers;
use lab_core::run::{Plan, Runner};
use lab_core::suite::{Common, Suite, SuiteArgs};
use std::path::PathBuf;
use std::process::{Command, Stdio};

/// Makes the tables and texts; run by the interpreter that has the generator.
const GENERATOR: &str = include_str!("../peers/tpcds_data.py");

const MANAGERS: Values = Values::Numbers(1, 100);

/// Queries with what a user would choose in them: by manufacturer, by manager, by customers' marriage and education, by hour.
const DASHBOARDS: &[Dashboard] = &[
    Dashboard {
        query: "q03",
        choices: &[Choice::new("i_manufact_id = ", "128", Values::Numbers(1, 1000))],
    },
    Dashboard {
        query: "q07",
        choices: PEOPLE,
    },
    Dashboard {
        query: "q19",
        choices: &[Choice::new("i_manager_id=", "8", MANAGERS)],
    },
    Dashboard {
        query: "q26",
        choices: PEOPLE,
    },
    Dashboard {
        query: "q42",
        choices: &[Choice::new("i_manager_id = ", "1", MANAGERS)],
    },
    Dashboard {
        query: "q52",
        choices: &[Choice::new("i_manager_id = ", "1", MANAGERS)],
    },
    Dashboard {
        query: "q55",
        choices: &[Choice::new("i_manager_id=", "28", MANAGERS)],
    },
    Dashboard {
        query: "q96",
        choices: &[
            Choice::new("hd_dep_count = ", "7", Values::Numbers(0, 9)),
            Choice::new("t_hour = ", "20", Values::Numbers(8, 20)),
        ],
    },
];

const PEOPLE: &[Choice] = &[
    Choice::new(
        "cd_education_status = '",
        "College",
        Values::Words(&[
            "College",
            "Primary",
            "Secondary",
            "2 yr Degree",
            "4 yr Degree",
            "Advanced Degree",
            "Unknown",
        ]),
    ),
    Choice::new(
        "cd_marital_status = '",
        "S",
        Values::Words(&["S", "M", "D", "W", "U"]),
    ),
    Choice::new("cd_gender = '", "M", Values::Words(&["M", "F"])),
];

/// Queries there are.
const QUERIES: usize = 99;

/// Arguments of `corun-lab bench tpcds`.
#[derive(Clone, Debug, Default, Args)]
pub struct TpcdsArgs {
    /// Those of all workloads.
    #[command(flatten)]
    pub workload: WorkloadArgs,
}

impl SuiteArgs for TpcdsArgs {
    const SUITE: Suite = Suite::Tpcds;

    fn common(&mut self) -> &mut Common {
        &mut self.workload.common
    }

    fn plan(&self) -> Plan {
        self.workload.rounds.plan(self.workload.common.quick)
    }

    fn run(&self, runner: &mut Runner<'_>) -> Result<(), BenchError> {
        workload::run(
            &workload(),
            &[Source::Parquet, Source::ParquetKept],
            &self.workload,
            runner,
        )
    }
}

fn workload() -> Workload {
    Workload {
        suite: Suite::Tpcds,
        queries: (1..=QUERIES).map(|number| format!("q{number:02}")).collect(),
        sql,
        dashboards: DASHBOARDS,
        join_heavy: &[],
        // Many of its orders leave ties that LIMIT cuts.
        order_by: |_| &[],
        recorded: |_, _| None,
        generate: None,
        peers: &[&DUCKDB],
        files,
    }
}

/// TPC-DS's files, queries and answers at a scale factor, for suites that ask servers.
///
/// # Errors
/// No generator, an impossible scale factor, files that cannot be written.
pub fn offered(scale_factor: f64, progress: &dyn Progress) -> Result<Offered, BenchError> {
    offer(&workload(), scale_factor, progress)
}

/// The interpreter with the generator.
fn interpreter() -> Result<PathBuf, BenchError> {
    let here = peers::places("tpcds-python")
        .into_iter()
        .find(|path| path.exists());
    here.ok_or_else(|| BenchError::Peer {
        peer: "tpcds",
        reason: "its generator is not here; scripts/bootstrap --peers installs it below target/peers"
            .to_owned(),
    })
}

/// Where tables and texts of a scale factor are.
fn folder(scale_factor: f64) -> Result<PathBuf, BenchError> {
    let interpreter = interpreter()?;
    let peers = interpreter
        .ancestors()
        .nth(2)
        .map(PathBuf::from)
        .unwrap_or_default();
    Ok(peers.join("tpcds-data").join(format!("sf{scale_factor}")))
}

fn sql(scale_factor: f64, query: &str) -> Result<String, BenchError> {
    let path = folder(scale_factor)?.join("queries").join(format!("{query}.sql"));
    std::fs::read_to_string(&path)
        .map_err(|source| BenchError::io(format!("cannot read {}", path.display()), source))
}

/// The tables, made if they are not there; another run that makes them at the same time makes its own, and the first one stays.
fn files(scale_factor: f64, _files: usize, progress: &dyn Progress) -> Result<Files, BenchError> {
    let folder = folder(scale_factor)?;
    if !folder.join("complete").exists() {
        progress.note(&format!(
            "TPC-DS at scale factor {scale_factor} is generated into {}",
            folder.display()
        ));
        let unwritable = |source| BenchError::io(format!("cannot write {}", folder.display()), source);
        let parent = folder.parent().unwrap_or(&folder);
        std::fs::create_dir_all(parent).map_err(unwritable)?;
        let scratch = tempfile::tempdir_in(parent).map_err(unwritable)?;
        let made = Command::new(interpreter()?)
            .args(["-c", GENERATOR])
            .arg(scratch.path())
            .arg(scale_factor.to_string())
            .stdin(Stdio::null())
            .output()
            .map_err(|source| BenchError::io("cannot start the generator of TPC-DS", source))?;
        if !made.status.success() {
            let text = String::from_utf8_lossy(&made.stderr);
            return Err(BenchError::Peer {
                peer: "tpcds",
                reason: text.lines().last().unwrap_or("its generator failed").to_owned(),
            });
        }
        let made = std::fs::rename(scratch.keep(), &folder);
        if !folder.join("complete").exists() {
            made.map_err(unwritable)?;
        }
    }
    Ok(Files {
        tables: folder.join("tables"),
        scratch: None,
    })
}
