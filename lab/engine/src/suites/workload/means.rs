//! Geometric means over a workload's queries.

use super::{CORUN, DATAFUSION, Pass, SORT_MERGE};
use lab_core::row::Row;
use lab_core::run::Runner;
use lab_core::stats::{Spread, geometric_mean};
use lab_core::suite::Common;

/// How many times as fast as some side corun ran a query.
pub(super) struct Gain<'q> {
    versus: String,
    query: &'q str,
    ratio: f64,
}

pub(super) fn of_query(query: &str, ratios: Vec<(String, f64)>) -> impl Iterator<Item = Gain<'_>> {
    let gain = move |(versus, ratio)| Gain { versus, query, ratio };
    ratios.into_iter().map(gain)
}

/// The ratios of a case that ran before.
pub(super) fn recorded_ratios(common: &Common, case: &str) -> Vec<(String, f64)> {
    let rows = common.recorded.iter().filter(|row| row.case == case);
    let ratios = rows.filter(|row| row.metric == "ratio" && row.parameter("control").is_none());
    ratios
        .filter_map(|row| Some((row.versus.clone()?, row.median()?)))
        .collect()
}

/// Whether each query of a pass has a ratio to a side.
pub(super) fn is_complete(pass: &Pass<'_>, gains: &[Gain<'_>], versus: &str) -> bool {
    gains.iter().filter(|gain| gain.versus == versus).count() == pass.workload.queries.len()
}

/// Rows `geomean_all` and `geomean_join_heavy`, against each side: smallest, geometric mean (as `median`) and largest ratio.
///
/// Only for complete passes: the mean of a selection says nothing about the workload.
pub(super) fn emit_means(pass: &Pass<'_>, gains: &[Gain<'_>], runner: &mut Runner<'_>) {
    let peers = pass.workload.peers.iter().map(|peer| peer.name);
    for versus in [DATAFUSION, SORT_MERGE].into_iter().chain(peers) {
        if !is_complete(pass, gains, versus) {
            continue;
        }
        let gains: Vec<&Gain<'_>> = gains.iter().filter(|gain| gain.versus == versus).collect();
        let is_heavy = |gain: &&&Gain<'_>| pass.workload.join_heavy.contains(&gain.query);
        let all: Vec<f64> = gains.iter().map(|gain| gain.ratio).collect();
        let joins: Vec<f64> = gains.iter().filter(is_heavy).map(|gain| gain.ratio).collect();
        for (name, values) in [("geomean_all", all), ("geomean_join_heavy", joins)] {
            let (Some(spread), Some(mean)) = (Spread::of(&values), geometric_mean(&values)) else {
                continue;
            };
            let spread = Spread {
                median: mean,
                ..spread
            };
            let suite = pass.workload.suite.name();
            let row = Row::measured(suite, &pass.case(name), "ratio", "x", spread, true)
                .versus(versus)
                .with("engine", CORUN)
                .with_all(&pass.parameters(name))
                .with("median_is", "geometric mean over queries");
            runner.emit(row);
        }
    }
}
