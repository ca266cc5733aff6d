//! The rows of Figures 1, 2, 4 and 5 and of Table 2, simulated.
//!
//! Where the paper has a number for the same thing it stands beside ours, as `paper`. Not here: Figure 6 and mixes ([`super::order`]).

use corun_model::units::Bytes;

use super::super::keys::{ALONE, Keys, SLOWDOWN};
use super::super::sizes::Sizes;
use super::lab::{Lab, Ran, Traced};
use super::platform::{Platform, lowest};
use super::tpch::{self, Counted};
use super::{PAIRS, TPCH, WAYS};
use crate::traced::counted::CountedBackend;
use lab_core::error::BenchError;
use lab_core::row::Value;
use lab_core::run::Runner;

/// Part of the accesses to the last level that missed, percent.
pub const MISS_RATE: &str = "miss_rate";
/// Cycles an instruction.
pub const CPI: &str = "cycles_per_instruction";
/// Ways of the weak query of Figure 5.
const FEW_WAYS: [u32; 8] = [16, 12, 8, 6, 4, 3, 2, 1];
/// Bytes of the last level of Figure 2, and the paper's values for Q9: its miss rate in percent and its cycles. The paper goes to 512 KiB; a
/// database of a twentieth of its stands to 256 KiB as the paper's to 4 MiB, nearly.
const SIZES: [(Bytes, Option<[f64; 2]>); 5] = [
    (Bytes::mib(4), Some([38.8, 9.66])),
    (Bytes::mib(1), None),
    (Bytes::kib(512), Some([49.3, 11.83])),
    (Bytes::kib(256), None),
    (Bytes::kib(128), None),
];
/// Hash bytes over `C` of the paper's moderate hash join: 1.86 of 4 MB.
pub const MODERATE_OVER: f64 = 0.465;
/// Seconds of that hash join alone (Table 2).
const PAPER_ALONE_S: f64 = 42.19;

/// The traced queries by what the paper uses them for.
pub struct Cast<'t> {
    /// The moderate hash join.
    pub moderate: &'t Traced,
    /// The hash join with the largest table.
    pub weak_hash: &'t Traced,
    /// The index join of the most parts.
    pub weak_index: &'t Traced,
}

impl<'t> Cast<'t> {
    /// Finds them; `None` if not all were traced.
    pub fn of(traced: &'t [Traced], sizes: &Sizes) -> Option<Cast<'t>> {
        let named = |name: &str| traced.iter().find(|query| query.name == name);
        Some(Cast {
            moderate: named(&format!("hash_plq{}", sizes.k_of(MODERATE_OVER)))?,
            weak_hash: named(&format!("hash_plq{}", sizes.k_of(4.0)))?,
            weak_index: traced.iter().rfind(|query| query.name.starts_with("index"))?,
        })
    }
}

/// Emits a simulated value.
pub fn put(
    keys: &Keys,
    (metric, unit, value): (&str, &str, f64),
    more: &[(&str, Value)],
    paper: Option<f64>,
    runner: &mut Runner<'_>,
) {
    let Some(mut row) = keys.simulated(metric, unit, value) else {
        return;
    };
    for (name, value) in more {
        row = row.with(name, value.clone());
    }
    if let Some(paper) = paper {
        row = row.with("paper", paper);
    }
    runner.emit_checked(row);
}

fn keys(
    case: &'static str,
    figure: &'static str,
    query: &Traced,
    corunner: &str,
    platform: &Platform,
) -> Keys {
    Keys {
        query: query.name.clone(),
        corunner: corunner.to_owned(),
        class: query.class.to_string(),
        ..Keys::new(case, figure, platform.cache())
    }
}

fn size(query: &Traced) -> (&'static str, Value) {
    ("hash_bytes", Value::from(query.footprint.bytes().0))
}

/// Figures 1 and 4: alone, beside itself, beside the weak index join (index joins: the weak hash join), beside a scan.
pub fn pairs(
    lab: &Lab,
    traced: &[Traced],
    cast: &Cast<'_>,
    runner: &mut Runner<'_>,
) -> Result<(), BenchError> {
    let scan = traced.iter().find(|query| query.name == "scan");
    runner
        .progress()
        .begin("heavy-queue: simulating pairs", traced.len() as u64);
    for query in traced {
        let alone = lab.alone(query, None)?;
        let is_moderate = query.name == cast.moderate.name;
        let is_index = query.name == cast.weak_index.name;
        let figure = |other: &str| {
            let of_figure_1 = [&cast.moderate.name, &cast.weak_index.name];
            let both = of_figure_1.contains(&&query.name)
                && (other == ALONE || of_figure_1.iter().any(|name| *name == other));
            if both { "fig1" } else { "fig4" }
        };
        let paper_alone = match (is_moderate, is_index) {
            (true, _) => Some(6.03),
            (_, true) => Some(37.47),
            _ if query.name == cast.weak_hash.name => Some(34.82),
            _ => None,
        };
        let own = keys(PAIRS, figure(ALONE), query, ALONE, &lab.platform);
        for (value, paper) in [
            (("ms", "ms", alone.seconds * 1e3), None),
            ((CPI, "cycles", alone.cycles_per_instruction), None),
            ((MISS_RATE, "percent", alone.miss_rate * 100.0), paper_alone),
        ] {
            put(&own, value, &[size(query)], paper, runner);
        }
        let weak = if query.name.starts_with("index") {
            cast.weak_hash
        } else {
            cast.weak_index
        };
        let mut beside = vec![query, weak];
        // Both index joins of Figure 1, and the hash join beside which the moderate one is.
        if is_index {
            beside.push(cast.moderate);
        }
        beside.extend(scan);
        let mut seen: Vec<&str> = Vec::new();
        for other in beside {
            if seen.contains(&other.name.as_str()) {
                continue;
            }
            seen.push(&other.name);
            let [ran, _] = lab.beside([query, other], [None, None])?;
            let paper = match is_moderate {
                true if other.name == query.name => [None, Some(21.3)],
                true if other.name == cast.weak_index.name => [Some(1.56), Some(27.7)],
                _ => [None, None],
            };
            let keys = keys(PAIRS, figure(&other.name), query, &other.name, &lab.platform);
            emit(&keys, query, (&alone, &ran), paper, &[], runner);
        }
        runner.progress().advance(1);
    }
    runner.progress().end();
    Ok(())
}

fn emit(
    keys: &Keys,
    query: &Traced,
    (alone, ran): (&Ran, &Ran),
    paper: [Option<f64>; 2],
    more: &[(&str, Value)],
    runner: &mut Runner<'_>,
) {
    let mut all = vec![size(query)];
    all.extend_from_slice(more);
    let slowdown = (SLOWDOWN, "x", ran.seconds / alone.seconds);
    let miss_rate = (MISS_RATE, "percent", ran.miss_rate * 100.0);
    put(keys, slowdown, &all, paper[0], runner);
    put(keys, miss_rate, &all, paper[1], runner);
}

/// Figure 5 and Table 2: the moderate hash join beside a weak query that fills fewer and fewer ways.
pub fn ways(lab: &Lab, cast: &Cast<'_>, runner: &mut Runner<'_>) -> Result<(), BenchError> {
    let all = lab.platform.ways();
    runner
        .progress()
        .begin("heavy-queue: simulating fewer ways", 2 * FEW_WAYS.len() as u64);
    let moderate = cast.moderate;
    let moderate_alone = lab.alone(moderate, None)?;
    for weak in [cast.weak_hash, cast.weak_index] {
        let weak_alone = lab.alone(weak, None)?;
        let by_index = weak.name == cast.weak_index.name;
        for ways in FEW_WAYS {
            let [first, second] = lab.beside([moderate, weak], [None, Some(lowest(ways))])?;
            let few = [("ways", Value::from(u64::from(ways)))];
            let paper = paper_fig5(by_index, ways, all);
            for (query, other, alone, ran, paper) in [
                (moderate, weak, &moderate_alone, &first, paper),
                (weak, moderate, &weak_alone, &second, [None; 2]),
            ] {
                let keys = Keys {
                    partition: "ways",
                    ..keys(WAYS, "fig5", query, &other.name, &lab.platform)
                };
                emit(&keys, query, (alone, ran), paper, &few, runner);
            }
            runner.progress().advance(1);
        }
    }
    runner.progress().end();
    Ok(())
}

/// What section 7.1 has for the moderate query: its slow-down and its miss rate. An eighth of the cache is its 4 of 32 colours.
fn paper_fig5(by_index: bool, ways: u32, all: u32) -> [Option<f64>; 2] {
    match (by_index, ways == all, ways * 8 == all) {
        (false, true, _) => [Some(54.0 / PAPER_ALONE_S), Some(19.0)],
        (true, true, _) => [Some(66.0 / PAPER_ALONE_S), Some(28.0)],
        (true, _, true) => [Some(66.0 * 0.67 / PAPER_ALONE_S), None],
        _ => [None; 2],
    }
}

/// Figure 2: queries of TPC-H alone in a smaller and smaller last level.
///
/// # Errors
/// When valgrind or PostgreSQL fail, or an answer is wrong.
pub fn tpch(
    backend: &CountedBackend,
    platform: &Platform,
    asked: &[tpch::Asked],
    quick: bool,
    runner: &mut Runner<'_>,
) -> Result<(), BenchError> {
    let sizes = if quick { &SIZES[1..3] } else { &SIZES[..] };
    runner.progress().begin(
        "heavy-queue: TPC-H under cachegrind",
        (sizes.len() * (asked.len() + 1)) as u64,
    );
    for &(cache, paper) in sizes {
        let start = tpch::start(backend, platform, cache)?;
        runner.progress().advance(1);
        for query in asked {
            let counted: Counted = query.counted(backend, platform, cache, &start)?;
            let keys = Keys {
                query: query.name.clone(),
                corunner: ALONE.to_owned(),
                ..Keys::new(TPCH, "fig2", cache)
            };
            let paper = paper.filter(|_| query.name == "tpch_q9");
            let scale = if quick { tpch::SCALE_QUICK } else { tpch::SCALE };
            let mut more = vec![
                ("scale_factor", Value::from(scale)),
                ("simulator", Value::from("cachegrind")),
            ];
            if !query.paper_kind.is_empty() {
                more.push(("paper_kind", Value::from(query.paper_kind)));
            }
            let [miss_rate, cycles] = paper.map_or([None; 2], |paper| paper.map(Some));
            let percent = 100.0 * counted.miss_rate();
            put(&keys, (MISS_RATE, "percent", percent), &more, miss_rate, runner);
            let per_instruction = counted.cycles_per_instruction(platform);
            put(&keys, (CPI, "cycles", per_instruction), &more, cycles, runner);
            runner.progress().advance(1);
        }
    }
    runner.progress().end();
    Ok(())
}
