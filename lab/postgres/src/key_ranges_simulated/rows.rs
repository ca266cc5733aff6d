//! A [`Study`] as rows: `suite` caric, `figure` simulated.
//!
//! Not here: tables for people, which the program prints.

use corun_cachesim::private_caches::cost::{cycles_per_query, gain_percent, misses_to_save};
use corun_cachesim::private_caches::run::{Counted, Dispatch, Region, Scheduler};
use corun_cachesim::private_caches::study::Side;

use super::{Simulated, Study};
use lab_core::row::Row;
use lab_core::stats::Spread;

const SUITE: &str = "caric";
const CASE: &str = "simulated";
/// The paper's gains, in percent (section 5), on its Intel and its AMD platform.
pub const PAPER_GAINS: [(&str, f64); 2] = [("intel", 12.0), ("amd", 6.0)];

/// The gain that the paper has on this platform; on others, that of its Intel one.
pub fn paper_gain(platform: &str) -> f64 {
    PAPER_GAINS
        .iter()
        .find(|(name, _)| *name == platform)
        .map_or(PAPER_GAINS[0].1, |&(_, gain)| gain)
}

/// The side that others are compared with: the system's dispatch with backends that move, if it was simulated.
pub fn baseline(study: &Study) -> Option<&Simulated> {
    study
        .sides
        .iter()
        .find(|simulated| simulated.side.dispatch == Dispatch::Os(Scheduler::Free))
}

/// The scheduler of a side, for rows.
pub fn scheduler(side: Side) -> &'static str {
    match side.dispatch {
        Dispatch::Os(Scheduler::Free) => "free",
        Dispatch::Os(Scheduler::Sticky) => "sticky",
        _ => "bound",
    }
}

/// Misses of the second level of hundred touches of the recording.
pub fn l2_percent(counted: &Counted) -> f64 {
    let all = counted.all();
    100.0 * all.l2 as f64 / all.touches.max(1) as f64
}

/// All rows of a study.
pub fn rows(study: &Study) -> Vec<Row> {
    let mut rows = Vec::new();
    for simulated in &study.sides {
        for (query, counted) in [
            ("simple", &simulated.outcome.simple),
            ("best_seller_step", &simulated.outcome.step),
            ("best_seller_ends", &simulated.outcome.ends),
        ] {
            if counted.queries > 0.0 {
                rows.extend(side(study, simulated.side, query, counted));
            }
        }
    }
    rows
}

fn side(study: &Study, of: Side, query: &str, counted: &Counted) -> Vec<Row> {
    let setting = &study.setting;
    let keyed = |metric: &str, unit: &str, value: f64| -> Option<Row> {
        // No answer is computed; what is simulated is what a trace of right answers touched.
        let row = Row::simulated(SUITE, CASE, metric, unit, Spread::of(&[value])?, true)
            .with("figure", "simulated")
            .with("platform", setting.platform.name.as_str())
            .with("cores", setting.platform.cores)
            .with("threads", setting.platform.threads())
            .with("l2_bytes", setting.platform.l2.size().0)
            .with("workload", setting.kind.name())
            .with("query", query)
            .with("dispatch", of.dispatch.name())
            .with("scheduler", scheduler(of))
            .with("split", of.split.name())
            .with("parts", setting.parts(of.split))
            .with("clients", setting.clients)
            .with("skew", setting.sizes.skew)
            .with("range_bytes_per_core", study.range_bytes());
        Some(row)
    };
    let all = counted.all();
    let per_query = |count: u64| counted.per_query(count);
    let costs = &setting.platform.costs;
    let mut rows = vec![
        keyed("instructions_per_query", "count", per_query(counted.instructions)),
        keyed("l1_misses_per_query", "count", per_query(all.l1)),
        keyed("l2_misses_per_query", "count", per_query(all.l2)),
        keyed("l2_miss_percent", "percent", l2_percent(counted)),
        keyed("invalidated_per_query", "count", per_query(all.invalidated)),
        keyed("cycles_per_query", "count", cycles_per_query(counted, costs)),
    ];
    for (region, misses) in Region::ALL.iter().zip(counted.regions) {
        let row = keyed("region_l2_misses_per_query", "count", per_query(misses.l2));
        rows.push(row.map(|row| row.with("region", region.name())));
    }
    if let Some(baseline) = baseline(study) {
        let before = match query {
            "simple" => &baseline.outcome.simple,
            "best_seller_step" => &baseline.outcome.step,
            _ => &baseline.outcome.ends,
        };
        if before.queries > 0.0 {
            let gain = keyed("gain_percent", "percent", gain_percent(before, counted, costs));
            rows.push(gain.map(|row| row.versus("os")));
            if baseline.side == of {
                let wanted = paper_gain(&setting.platform.name);
                let needed = misses_to_save(before, costs, wanted);
                let row = keyed("l2_misses_to_save_per_query", "count", needed);
                rows.push(row.map(|row| row.with("for_gain_percent", wanted)));
            }
        }
    }
    rows.into_iter().flatten().collect()
}
