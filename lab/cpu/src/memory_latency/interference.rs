//! What the two threads of a work-ahead set do to each other in its array, simulated: events a probe, and the net speed of the main
//! thread by section 4.3's formula and by discrete events.
//!
//! Speeds are stand-ins, since no machine tells them: the helper has less to do and is half as fast again; on one line both are
//! slowed to what a transfer of the line takes, which is about the same for both. So the shape is the result, not the numbers. Not
//! here: machine clears that a PMU counts ([`super::counted`]).

use corun_cachesim::coherence::{Contact, SharedArray};
use corun_exec::stage::Staged;
use corun_exec::stage::work_ahead::WorkAheadSet;
use corun_model::operators::mode::{Direction, Hiding, Mode, Threads, WorkAhead};
use corun_model::operators::placement::Placement;
use corun_model::operators::work_ahead::{Speeds, net_speed};
use corun_model::units::CacheLines;

use super::keys::{ALL_THREADS, Keys, SUITE, Stand};
use lab_core::error::BenchError;
use lab_core::row::Row;
use lab_core::run::Runner;
use lab_core::stats::Spread;

/// The metric of events.
pub const METRIC: &str = "machine_clears_per_probe";

/// The metric of speeds: the main thread's beside the helper, over its speed alone.
pub const NET_SPEED: &str = "net_speed";

/// Entries a second: a main thread of 20 ns and a helper of 13 ns an entry alone; on one line some 100 ns, the latency of a miss the
/// paper compares a machine clear with (section 6).
const MAIN: f64 = 50e6;
const HELPER: f64 = 75e6;
const MAIN_INTERFERING: f64 = 10e6;
const HELPER_INTERFERING: f64 = 10.5e6;
/// By how much the work of entries varies: without, two speeds meet in the same place for ever.
const JITTER: f64 = 0.2;
const SEED: u64 = 7;
const LATENCY_S: f64 = 100e-9;

/// The array of an operator's work-ahead set.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Array {
    /// Bytes of an entry.
    pub entry_bytes: usize,
    /// References a stage asks for at least: a set of `t` lines has `t / m` entries.
    pub references_min: usize,
    /// Entries a probe posts: its stages.
    pub posts_per_probe: f64,
}

/// Bytes of a line of the array.
const LINE_BYTES: usize = 64;

impl Array {
    /// Of an operator's own set.
    pub fn of<'a, const M: usize, O: Staged<'a, M>>(operator: &O) -> Array {
        Array {
            entry_bytes: WorkAheadSet::<O::State, M>::ENTRY_BYTES,
            references_min: O::REFERENCES_MIN,
            posts_per_probe: operator.stages() as f64,
        }
    }

    fn entries_per_line(&self) -> u32 {
        (LINE_BYTES / self.entry_bytes.max(1)).max(1) as u32
    }

    fn lines(&self, set: WorkAhead) -> u32 {
        let entries = (set.lines as usize / self.references_min.max(1)).max(1);
        entries.div_ceil(self.entries_per_line() as usize) as u32
    }

    fn simulated(&self, set: WorkAhead, posts: u64) -> SharedArray {
        let entries_per_line = self.entries_per_line();
        let lines_of = |entries_per_second: f64| entries_per_second / f64::from(entries_per_line);
        SharedArray {
            lines: self.lines(set),
            entries_per_line,
            speeds: Speeds {
                main: lines_of(MAIN),
                main_interfering: lines_of(MAIN_INTERFERING),
                helper: lines_of(HELPER),
                helper_interfering: lines_of(HELPER_INTERFERING),
            },
            direction: set.direction,
            spin: set.spin,
            contact: Contact::SameLine,
            helper_start: 0,
            latency_s: LATENCY_S,
            jitter: JITTER,
            seed: SEED,
            posts,
        }
    }
}

/// The four helpers of the paper's figures 4, 11, 13 and 14.
pub const HELPERS: [(Direction, bool); 4] = [
    (Direction::Forward, false),
    (Direction::Backward, false),
    (Direction::Forward, true),
    (Direction::Backward, true),
];

/// Emits events and speeds for each size and helper.
///
/// # Errors
/// When a size is beyond the simulation.
pub fn simulate(
    stand: Stand,
    array: Array,
    sizes: &[u32],
    runner: &mut Runner<'_>,
) -> Result<(), BenchError> {
    // Enough rounds of the largest set for its mean to stand still.
    let posts = sizes
        .iter()
        .copied()
        .max()
        .map_or(0, |size| u64::from(size) * 8)
        .max(100_000);
    for (direction, spin) in HELPERS {
        for &lines in sizes {
            let set = WorkAhead {
                lines,
                direction,
                spin,
            };
            let shared = array.simulated(set, posts);
            let failed = |error: String| BenchError::Data(format!("{}: {error}", stand.case));
            let outcome = shared.simulate().map_err(|error| failed(error.to_string()))?;
            let formula = net_speed(&shared.speeds, CacheLines(u64::from(shared.lines)), direction)
                .map_err(|error| failed(error.to_string()))?;
            let keys = Keys::of(
                stand,
                Mode::staged(Threads::One, Hiding::WorkAhead(set)),
                Placement::Siblings,
            );
            let mut emit = |metric: &str, unit: &str, value: f64, model: &str| {
                if let Some(spread) = Spread::of(&[value]) {
                    let row = Row::simulated(SUITE, stand.case, metric, unit, spread, true);
                    runner.emit(keys.put(row, ALL_THREADS).with("model", model));
                }
            };
            let events = outcome.interference_events_per_entry * array.posts_per_probe;
            emit(METRIC, "events", events, "discrete_events");
            let alone = shared.speeds.main;
            emit(
                NET_SPEED,
                "share",
                outcome.net_lines_per_second / alone,
                "discrete_events",
            );
            emit(NET_SPEED, "share", formula / alone, "section_4_3");
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use corun_model::progress::Silent;
    use lab_core::run::Plan;

    const STAND: Stand = Stand {
        figure: "4b",
        case: "fig4b_index",
        operator: "index",
        layout: "csb_tree",
        stream: "clustered",
    };

    const ARRAY: Array = Array {
        entry_bytes: 48,
        references_min: 2,
        posts_per_probe: 4.0,
    };

    fn rows() -> Vec<Row> {
        let mut rows = Vec::new();
        let mut emit = |row| rows.push(row);
        let mut runner = Runner::new(Plan::quick(), &mut emit, &Silent);
        simulate(STAND, ARRAY, &[16, 128, 1024], &mut runner).expect("simulated");
        rows
    }

    fn events(rows: &[Row], mode: &str) -> f64 {
        rows.iter()
            .find(|row| row.metric == METRIC && row.text("mode") == mode && row.median().is_some())
            .and_then(Row::median)
            .unwrap_or_else(|| panic!("no events of {mode}"))
    }

    #[test]
    fn the_shape_is_the_papers() {
        let rows = rows();
        let at = |size: u32, helper: &str| events(&rows, &format!("one/staged/workahead{size}-{helper}"));
        // Backward interferes least, waiting forward most, and less in larger sets (section 6.1).
        assert!(at(128, "backward-spin") < at(128, "forward"));
        assert!(at(128, "forward") <= at(128, "forward-spin"));
        assert!(at(1024, "backward") < at(16, "backward"));
    }

    #[test]
    fn nothing_simulated_is_called_measured() {
        let rows = rows();
        assert!(
            rows.iter()
                .all(|row| row.label == lab_core::row::Label::Simulated)
        );
        assert!(rows.iter().all(|row| row.text("placement") == "siblings"));
    }
}
