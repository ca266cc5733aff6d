//! Private caches simulated (paper 004): rows of `corun-lab simulate private-caches`, and fresh recordings from the PostgreSQL that is here.
//!
//! ```text
//!   kept recording, or record() ──▶ Study::run: each side of a Setting (corun_cachesim::private_caches) ──▶ Side outcomes ──▶ rows
//!                      └ database, relations, trace, crate::traced
//! ```
//!
//! The simulation itself is `corun_cachesim::private_caches`; here it is run, side beside side, and turned into rows. Whatever comes from here is labelled
//! `simulated`.
//!
//! Not here: measured runs of the proxy, which are the suite's.

pub mod database;
pub mod relations;
pub mod rows;
pub mod trace;

use corun_cachesim::private_caches::recording::Recording;
use corun_cachesim::private_caches::run::Outcome;
use corun_cachesim::private_caches::study::{Setting, Side};
use corun_cachesim::private_caches::workload::Workload;

use corun_model::progress::{Progress, Silent};
use corun_workloads::parallel::run_jobs;
use lab_core::error::BenchError;

pub use rows::rows;
pub use trace::record;

/// One side and what came out.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Simulated {
    /// Which side.
    pub side: Side,
    /// Its misses.
    pub outcome: Outcome,
}

/// One setting and all its sides.
#[derive(Clone, Debug)]
pub struct Study {
    /// What was simulated.
    pub setting: Setting,
    /// Bytes of the relations that keys lead to.
    pub database_bytes: u64,
    /// The sides.
    pub sides: Vec<Simulated>,
}

/// The workload of a setting, over the kept recording or another.
///
/// # Errors
/// [`BenchError::Data`] if the kept recording cannot be read, which a test excludes.
pub fn workload(setting: &Setting, recording: Option<&Recording>) -> Result<Workload, BenchError> {
    match recording {
        Some(recording) => Ok(Workload::new(setting.kind, setting.sizes, recording.clone())),
        None => {
            Workload::kept(setting.kind, setting.sizes).map_err(|error| BenchError::Data(error.to_string()))
        }
    }
}

impl Study {
    /// Simulates these sides, as many at once as there are processors. Equal arguments give equal outcomes.
    pub fn run(
        setting: Setting,
        sides: &[Side],
        recording: Option<&Recording>,
        progress: &dyn Progress,
    ) -> Result<Study, BenchError> {
        let workload = workload(&setting, recording)?;
        let together = std::thread::available_parallelism().map_or(1, usize::from);
        let simulate = |number: usize| {
            let side = sides[number];
            let outcome = setting.plan(side).run(&workload);
            progress.advance(1);
            Simulated { side, outcome }
        };
        let simulated = run_jobs("simulating", sides.len(), together, &Silent, simulate);
        Ok(Study {
            database_bytes: workload.bytes(),
            setting,
            sides: simulated,
        })
    }

    /// Bytes of the relations that keys lead to, for each core's range.
    pub fn range_bytes(&self) -> u64 {
        self.database_bytes / self.setting.platform.cores.max(1) as u64
    }
}
