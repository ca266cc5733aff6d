//! The case `ceiling`: what choosing who runs beside whom can gain on this machine at all, with no product code.
//!
//! ```text
//!   pinned backends ──▶ beside: alone, alone again, every pair ──▶ rows of Figs. 1 and 4, the matrix
//!   matrix ──▶ order: best, worst, by chance, by policy            (simulated: arithmetic on measured slow-downs)
//!                └──▶ the best, the worst and chance, really run on two pinned backends (measured)
//! ```
//!
//! Two of each kind are the mix. What no order can gain, no scheduler can.

use std::sync::Mutex;
use std::time::Instant;

use corun_model::cache::coschedule::PolicyName;
use corun_model::cache::locality::{Footprint, Locality};
use corun_model::units::CpuId;

use super::SUITE;
use super::backend::Backend;
use super::beside::measure;
use super::data::Oracle;
use super::keys::{Keys, MIX_SECONDS, footprint};
use super::matrix::{self, Known};
use super::order::{Matrix, Orders, drawn, orders, played_by};
use super::query::{Form, Query};
use super::sizes::Sizes;
use crate::fixture::address::Address;
use crate::fixture::joined;
use lab_core::error::BenchError;
use lab_core::run::Runner;
use lab_core::stats::{Noise, Spread, pair_ratios};

/// The case.
pub const CASE: &str = "ceiling";
/// Hash bytes over `C`.
const OVER_CACHE: [f64; 5] = [0.2, 0.5, 1.0, 2.0, 4.0];
/// The same of a quick run.
const OVER_CACHE_QUICK: [f64; 2] = [0.5, 1.0];
/// Parts of the index join over those of a hash table as large as `C`: both then take about as long.
const INDEX_OVER_CACHE: f64 = 1.0;
/// Of each kind in the mix.
const OF_EACH: usize = 2;
/// Orders of arrival that a policy is simulated with.
const ARRIVALS: u64 = 40;
/// Runs of each side of a pair that count.
const RUNS: usize = 2;

/// What is put side by side, from strong to weak.
fn kinds(sizes: &Sizes, oracle: &Oracle, quick: bool) -> Vec<Query> {
    let over: &[f64] = if quick { &OVER_CACHE_QUICK } else { &OVER_CACHE };
    let hashes = over
        .iter()
        .map(|&over| Query::plq(sizes.k_of(over), Form::Hash, oracle));
    let index = Query::plq(sizes.k_of(INDEX_OVER_CACHE), Form::Index, oracle);
    hashes.chain([Query::scan(oracle), index]).collect()
}

/// Figure 1 is of one hash join, about as large as the cache, and the index join.
fn figure(queries: [&Query; 2], sizes: &Sizes) -> &'static str {
    let moderate = sizes.k_of(1.0);
    let in_one = |query: &Query| query.form == Form::Index || query.k == Some(moderate);
    if queries.into_iter().all(in_one) {
        "fig1"
    } else {
        "fig4"
    }
}

/// Runs the case on two CPUs that share a last-level cache.
pub fn run(
    server: &Address,
    cpus: [CpuId; 2],
    sizes: &Sizes,
    oracle: &Oracle,
    quick: bool,
    runner: &mut Runner<'_>,
) -> Result<(), BenchError> {
    let mut backends = Backend::pair(server, cpus)?;
    let queries = kinds(sizes, oracle, quick);
    let known = Known::ask(&mut backends[0], queries)?;
    let rounds = runner.plan().repetitions;
    let runs = if quick { 1 } else { RUNS };
    let measured = measure(
        &mut backends,
        &known.queries,
        (rounds, runner.plan().order_seed),
        runs,
        runner.progress(),
    )?;
    matrix::emit(
        CASE,
        &|pair| figure(pair, sizes),
        &known,
        &measured,
        sizes,
        runner,
    );
    let all = 0..known.queries.len();
    let matrix = matrix::of(&measured, known.queries.len());
    let mix: Vec<usize> = all.flat_map(|kind| [kind; OF_EACH]).collect();
    let found = orders(&matrix, &mix);
    simulated_rows(&known, &matrix, &mix, &found, sizes, runner);
    played_rows(&mut backends, &known, &mix, &found, sizes, runner)
}

/// What orders and policies would take by the matrix.
fn simulated_rows(
    known: &Known,
    matrix: &Matrix,
    mix: &[usize],
    found: &Orders,
    sizes: &Sizes,
    runner: &mut Runner<'_>,
) {
    let footprints: Vec<Footprint> = known.tables.iter().map(|tables| footprint(tables)).collect();
    // A partitioned cache as good as one can be: weak queries hurt nobody else.
    let mut protected = matrix.clone();
    let is_weak = |kind: usize| sizes.class(footprints[kind]) == Locality::Weak;
    for kind in (0..footprints.len()).filter(|&kind| !is_weak(kind)) {
        for other in (0..footprints.len()).filter(|&other| is_weak(other)) {
            protected.slowdown[kind][other] = protected.slowdown[kind][other].min(1.0);
        }
    }
    let by = |policy, partitioner| {
        let matrix = if partitioner { &protected } else { matrix };
        let takes = |number| {
            let order = drawn(mix, number);
            let played = played_by(matrix, &order, &footprints, sizes.cache, policy, partitioner)?;
            Some(played.seconds)
        };
        let all: Option<Vec<f64>> = (0..ARRIVALS).map(takes).collect();
        Spread::of(&all?).map(|spread| spread.median)
    };
    let all = [
        ("fifo", Some(found.fifo)),
        ("best", Some(found.best.0)),
        ("worst", Some(found.worst.0)),
        ("same_class", Some(found.same)),
        ("mixed", Some(found.mixed)),
        ("sls", by(PolicyName::Sls, false)),
        ("learned", by(PolicyName::Learned, false)),
        ("auto", by(PolicyName::Auto, false)),
        ("mls", by(PolicyName::Mls, true)),
    ];
    for (policy, seconds) in all {
        let Some(seconds) = seconds else { continue };
        let keys = Keys {
            policy: policy.to_owned(),
            partition: if policy == "mls" { "assumed" } else { "none" },
            ..Keys::new(CASE, CASE, sizes.cache)
        };
        for (metric, unit, value, versus) in [
            (MIX_SECONDS, "s", seconds, None),
            ("ratio", "x", found.fifo / seconds, Some("fifo")),
        ] {
            let row = keys.simulated(metric, unit, value);
            let Some(row) = row.map(|row| row.with("from", "measured slow-downs")) else {
                continue;
            };
            runner.emit_checked(match versus {
                Some(versus) => row.versus(versus),
                None => row,
            });
        }
    }
}

/// Lets two backends take queries from a list, each the next when it is free: seconds to the end of the last, and what was wrong.
fn play(
    backends: &mut [Backend; 2],
    queries: &[Query],
    order: &[usize],
) -> Result<(f64, Option<String>), BenchError> {
    let list = Mutex::new(order.iter());
    let next = || match list.lock() {
        Ok(mut list) => list.next().copied(),
        Err(_) => None,
    };
    let side = |backend: &mut Backend| -> Result<Option<String>, BenchError> {
        let mut first_wrong = None;
        while let Some(kind) = next() {
            let (_, wrong) = backend.time(&queries[kind])?;
            first_wrong = first_wrong.or(wrong);
        }
        Ok(first_wrong)
    };
    let [first, second] = backends;
    let start = Instant::now();
    let (own, other) = std::thread::scope(|scope| {
        let side = &side;
        let other = scope.spawn(move || side(second));
        let own = side(first);
        (own, joined(other))
    });
    let seconds = start.elapsed().as_secs_f64();
    Ok((seconds, own?.or(other?)))
}

/// The orders really run, in turns: chance, the best, the worst, and chance again.
fn played_rows(
    backends: &mut [Backend; 2],
    known: &Known,
    mix: &[usize],
    found: &Orders,
    sizes: &Sizes,
    runner: &mut Runner<'_>,
) -> Result<(), BenchError> {
    const NAMES: [&str; 4] = ["fifo", "best", "worst", "fifo"];
    let rounds = runner.plan().repetitions;
    let mut seconds: [Vec<f64>; 4] = Default::default();
    let mut wrongs = Vec::new();
    runner
        .progress()
        .begin(&format!("{SUITE} {CASE}: orders of the mix"), rounds as u64);
    for round in 0..rounds {
        let chance = drawn(mix, round as u64);
        let lists: [&[usize]; 4] = [&chance, &found.best.1, &found.worst.1, &chance];
        for turn in 0..4 {
            let place = (turn + round) % 4;
            let (took, wrong) = play(backends, &known.queries, lists[place])?;
            seconds[place].push(took);
            wrongs.extend(wrong);
        }
        runner.progress().advance(1);
    }
    runner.progress().end();
    for wrong in &wrongs {
        runner.fail(format!("{SUITE} {CASE}: {wrong}"));
    }
    let ok = wrongs.is_empty();
    let noise = pair_ratios(&seconds[3], &seconds[0]);
    for (place, policy) in NAMES.into_iter().enumerate() {
        let keys = Keys {
            policy: policy.to_owned(),
            ..Keys::new(CASE, CASE, sizes.cache)
        };
        let control = place == 3;
        if let Some(row) = keys.measured(MIX_SECONDS, "s", &seconds[place], ok)
            && !control
        {
            runner.emit_checked(row);
        }
        let ratios = pair_ratios(&seconds[place], &seconds[0]);
        let row = keys.measured("ratio", "x", &ratios, ok);
        let (Some(row), Some(Noise { low, high })) = (row, Noise::of(&noise)) else {
            continue;
        };
        let row = row.versus("fifo").with("noise_low", low).with("noise_high", high);
        match (place, control) {
            (0, _) => {}
            (_, true) => runner.emit_checked(row.with("control", "a/a")),
            _ => runner.emit_checked(row),
        }
    }
    Ok(())
}
