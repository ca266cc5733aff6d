//! Table 2: what each technique gained in this run, beside what it asks of a system.
//!
//! Gains are geometric means of the ratios of figures 6(a) and 6(b) (rows) and of figure 9 (columns); the rest are properties of the
//! techniques as they are built (sections 3 and 4), which no run measures.

use corun_model::operators::mode::{Mode, Schedule, Threads};
use corun_model::operators::placement::Placement;

use super::modes::{BI, WORK_AHEAD, plain, prefetched};
use super::stands::TABLE2;
use crate::memory_latency::contest::Held;
use crate::memory_latency::keys::{ALL_THREADS, Keys, SUITE};
use lab_core::row::Row;
use lab_core::run::Runner;
use lab_core::stats::{Spread, geometric_mean};

/// A column of the paper's table, and two that it could not have.
struct Technique {
    name: &'static str,
    mode: Mode,
    order_kept: &'static str,
    format_kept: bool,
    cache_controlled: bool,
}

const fn technique(
    name: &'static str,
    mode: Mode,
    order_kept: &'static str,
    format_kept: bool,
    cache_controlled: bool,
) -> Technique {
    Technique {
        name,
        mode,
        order_kept,
        format_kept,
        cache_controlled,
    }
}

const EVEN: &str = "if all tuples have as many stages";
const GROUP: Mode = prefetched(Threads::One, Schedule::Group, 32);
const BI_GROUP: Mode = prefetched(BI, Schedule::Group, 32);

const TECHNIQUES: [Technique; 5] = [
    technique("parallel", plain(Threads::TwoIndependent), "yes", true, false),
    technique("bi_threaded", plain(BI), "no", false, false),
    technique("work_ahead_set", WORK_AHEAD, EVEN, true, true),
    technique("prefetch", GROUP, EVEN, true, true),
    technique("bi_threaded_prefetch", BI_GROUP, "no", false, true),
];

/// Collects what the figures measured.
#[derive(Default)]
pub struct Table2 {
    rows: Vec<Held>,
    columns: Vec<Held>,
}

impl Table2 {
    /// A contest over rows.
    pub fn rows(&mut self, held: &Held) {
        self.rows.push(held.clone());
    }

    /// A contest over columns.
    pub fn columns(&mut self, held: &Held) {
        self.columns.push(held.clone());
    }

    /// One row for each technique and layout.
    pub fn emit(&self, placement: Placement, runner: &mut Runner<'_>) {
        for technique in &TECHNIQUES {
            for (layout, held, figures) in
                [("rows", &self.rows, "6a and 6b"), ("columns", &self.columns, "9")]
            {
                let mut stand = TABLE2;
                stand.layout = layout;
                let gains: Vec<f64> = held.iter().filter_map(|held| held.gain(technique.mode)).collect();
                let row = match (Spread::of(&gains), geometric_mean(&gains)) {
                    (Some(spread), Some(mean)) => {
                        let spread = Spread {
                            median: mean,
                            ..spread
                        };
                        Row::measured(SUITE, stand.case, "ratio", "x", spread, true)
                            .with("median_is", "geometric mean over operators")
                    }
                    _ => {
                        let reason = format!("not run: needs figure {figures}");
                        Row::unavailable(SUITE, stand.case, "ratio", "x", &reason)
                    }
                };
                let row = Keys::of(stand, technique.mode, placement).put(row.versus("serial"), ALL_THREADS);
                runner.emit(
                    row.with("technique", technique.name)
                        .with("order_kept", technique.order_kept)
                        .with("format_kept", technique.format_kept)
                        .with("cache_controlled", technique.cache_controlled),
                );
            }
        }
    }
}
