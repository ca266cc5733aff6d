//! Paper 002's figures on PostgreSQL simulated: what it touches is real, the cache is not.
//!
//! ```text
//!   SSB, TPC-H ──▶ data: a server loads them, ends ──▶ traced: the stand-alone backend under lackey ──▶ Filter ──▶ Traced
//!                                                        answers against the generator's                        │
//!   case        figure                what runs                                                                 ▼
//!   sim_pairs   Figures 1 and 4       hash and index joins alone and beside each other           ◀── lab: corun_cachesim::llc on a platform
//!   sim_tpch    Figure 2              queries of TPC-H in fewer and fewer ways
//!   sim_ways    Figure 5, Table 2     a moderate hash join beside a weak query in fewer and fewer ways
//!   sim_order   Figure 6, the mix     corun_model::cache::coschedule on the pairs' slow-downs, undivided and divided
//! ```
//!
//! Order of calls: [`run`], which does all of it for the cases that are asked for. Rows are labelled `simulated`. TPC-H's queries are not
//! traced but counted by cachegrind, which simulates caches itself and so takes a sixtieth of the time.
//!
//! Not here: hardware prefetchers but for a guess which misses they hide, TLBs, memory bandwidth, the kernel. The measured cases of the
//! same suite are [`super::ceiling`] and [`super::cases`].

use std::time::Duration;

use super::keys::{Keys, SLOWDOWN};
use super::sizes::Sizes;
use crate::fixture::PgFixture;
use crate::traced::counted::CountedBackend;
use crate::traced::valgrind;
use lab_core::error::BenchError;
use lab_core::run::Runner;

pub mod data;
pub mod figures;
pub mod lab;
pub mod order;
pub mod platform;
pub mod tpch;
pub mod traced;

/// The paper's shared cache over the simulated one. Lackey writes a million lines of text a second or so, and the traces for this scale are 1.4
/// billion of them; for the paper's 4 MiB they would take hours.
const SCALE: u64 = 16;
/// Millions of orders: each traced hash join probes its table with all of them.
const ORDERS: f64 = 0.03;
/// Longest run of one query under cachegrind.
const WITHIN: Duration = Duration::from_secs(900);

/// Figures 1 and 4.
pub const PAIRS: &str = "sim_pairs";
/// Figure 2.
pub const TPCH: &str = "sim_tpch";
/// Figure 5 and Table 2.
pub const WAYS: &str = "sim_ways";
/// Figure 6 and the mix.
pub const ORDER: &str = "sim_order";
/// All of them.
pub const CASES: [&str; 4] = [PAIRS, TPCH, WAYS, ORDER];

/// Runs the cases that are asked for. A quick run has the one that needs no traces.
///
/// # Errors
/// When a server cannot be set up, a query takes another plan than wanted, or answers wrongly.
pub fn run(
    fixture: &PgFixture,
    cases: &[&'static str],
    quick: bool,
    runner: &mut Runner<'_>,
) -> Result<(), BenchError> {
    let platform = platform::Platform::paper(SCALE)?;
    let sizes = Sizes::of(platform.cache(), ORDERS)?;
    let missing = valgrind().err().map(|error| error.to_string());
    let slow = "traces take tens of minutes: not in a quick run";
    let unavailable = |case: &str| match &missing {
        Some(missing) => Some(missing.as_str()),
        None => (quick && case != TPCH).then_some(slow),
    };
    for &case in cases {
        if let Some(reason) = unavailable(case) {
            let keys = Keys::new(case, "all", platform.cache());
            runner.emit_checked(keys.unavailable(SLOWDOWN, "x", reason));
        }
    }
    let cases: Vec<&str> = cases
        .iter()
        .copied()
        .filter(|case| unavailable(case).is_none())
        .collect();
    if cases.is_empty() {
        return Ok(());
    }
    let wants = |case: &str| cases.contains(&case);
    let with_ssb = cases.iter().any(|case| *case != TPCH);
    let scale_factor = if quick { tpch::SCALE_QUICK } else { tpch::SCALE };
    let tpch = wants(TPCH).then_some(scale_factor);
    let made = data::make(fixture, &sizes, with_ssb, tpch, quick, runner.progress())?;
    if wants(TPCH) {
        let scratch = fixture.folder("sim-tpch")?;
        let (programs, account) = (&fixture.programs, fixture.account);
        let backend = CountedBackend::new(programs, &made.folder, account, &scratch)?.within(WITHIN);
        figures::tpch(&backend, &platform, &made.tpch, quick, runner)?;
    }
    if !with_ssb {
        return Ok(());
    }
    let mut backend = traced::TracedBackend::start(fixture, &made, &platform)?;
    runner
        .progress()
        .begin("heavy-queue: tracing PostgreSQL", made.ssb.len() as u64);
    let mut traced = Vec::with_capacity(made.ssb.len());
    for asked in &made.ssb {
        traced.push(backend.ssb(asked)?);
        runner.progress().advance(1);
    }
    runner.progress().end();
    drop(backend);
    let lab = lab::Lab { platform };
    let cast = figures::Cast::of(&traced, &sizes)
        .ok_or_else(|| BenchError::Data("a query of the figures was not traced".to_owned()))?;
    if wants(PAIRS) {
        figures::pairs(&lab, &traced, &cast, runner)?;
    }
    if wants(WAYS) {
        figures::ways(&lab, &cast, runner)?;
    }
    if wants(ORDER) {
        order::run(&lab, &traced, &sizes, runner)?;
    }
    Ok(())
}
