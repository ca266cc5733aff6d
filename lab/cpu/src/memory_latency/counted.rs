//! Hardware events of the main thread in each mode, where the machine counts them; elsewhere one row that says why not.
//!
//! Counters belong to the thread that opens them, so these are the main thread's events alone: those of a helper or a partner are
//! only simulated ([`super::misses`]).

use corun_machine::counters::{Counters, CountersError, Event};
use corun_model::operators::mode::Mode;
use corun_model::operators::placement::Placement;

use super::keys::{Keys, SUITE, Stand};
use super::subject::RIGHT;
use lab_core::error::BenchError;
use lab_core::row::Row;
use lab_core::run::{Runner, Sample};
use lab_core::stats::Spread;

/// What to count, and the metric of the rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Count {
    /// The event.
    pub event: Event,
    /// The metric: events a probe.
    pub metric: &'static str,
}

/// Misses of the second level.
pub const L2_MISSES: Count = Count {
    event: Event::L2Misses,
    metric: super::misses::METRIC,
};

/// Memory-order machine clears.
pub const MACHINE_CLEARS: Count = Count {
    event: Event::MemoryOrderMachineClears,
    metric: super::interference::METRIC,
};

/// What is counted where.
pub struct Census<'m> {
    /// The case.
    pub stand: Stand,
    /// The event.
    pub count: Count,
    /// The modes, each run once.
    pub modes: &'m [Mode],
    /// Where the second thread runs.
    pub placement: Placement,
    /// Tuples of a run.
    pub probes: usize,
}

impl Census<'_> {
    /// Runs the modes and emits what `counters` counted meanwhile.
    ///
    /// # Errors
    /// When a run fails.
    pub fn take(
        &self,
        counters: Result<&mut dyn Counters, CountersError>,
        run: &mut dyn FnMut(Mode) -> Result<Sample, BenchError>,
        runner: &mut Runner<'_>,
    ) -> Result<(), BenchError> {
        let Census {
            stand,
            placement,
            probes,
            ..
        } = *self;
        let Count { event, metric } = self.count;
        let unavailable = |mode: Mode, reason: &str| {
            let row = Row::unavailable(SUITE, stand.case, metric, "events", reason);
            Keys::of(stand, mode, placement).put(row, MAIN)
        };
        let counters = match counters {
            Ok(counters) => counters,
            Err(error) => {
                runner.emit(unavailable(Mode::PLAIN, &error.to_string()));
                return Ok(());
            }
        };
        for &mode in self.modes {
            let counted = counters.start().map(|()| run(mode));
            let (counted, sample) = match counted {
                Ok(sample) => (counters.stop(), sample?),
                Err(error) => {
                    runner.emit(unavailable(mode, &error.to_string()));
                    continue;
                }
            };
            let ok = sample.answer == RIGHT;
            if !ok {
                runner.fail(format!(
                    "{SUITE} {}: {mode}, counted: {}",
                    stand.case, sample.answer
                ));
            }
            let events = counted.map(|counts| (counts.get(event).unwrap_or(0), counts.is_estimate()));
            match events {
                Ok((events, estimate)) => {
                    let value = events as f64 / probes.max(1) as f64;
                    let Some(spread) = Spread::of(&[value]) else {
                        continue;
                    };
                    let row = Row::measured(SUITE, stand.case, metric, "events", spread, ok);
                    let row = Keys::of(stand, mode, placement).put(row, MAIN);
                    runner.emit_checked(row.with("probes", probes).with("estimate", estimate));
                }
                Err(error) => runner.emit(unavailable(mode, &error.to_string())),
            }
        }
        Ok(())
    }
}

/// The only role that is counted.
const MAIN: &str = "main";

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use corun_machine::counters::{Reading, SimulatedCounters};

    use super::*;
    use corun_model::progress::Silent;
    use lab_core::row::Label;
    use lab_core::run::Plan;

    const STAND: Stand = Stand {
        figure: "4b",
        case: "fig4b_index",
        operator: "index",
        layout: "csb_tree",
        stream: "clustered",
    };

    fn rows(counters: Result<&mut dyn Counters, CountersError>, answer: &str) -> (Vec<Row>, usize) {
        let mut rows = Vec::new();
        let mut emit = |row| rows.push(row);
        let mut runner = Runner::new(Plan::quick(), &mut emit, &Silent);
        let mut run = |_| {
            Ok(Sample {
                elapsed: Duration::ZERO,
                answer: answer.to_string(),
                peak_bytes: None,
            })
        };
        let modes = [Mode::PLAIN; 2];
        let census = Census {
            stand: STAND,
            count: MACHINE_CLEARS,
            modes: &modes,
            placement: Placement::Cores,
            probes: 100,
        };
        census.take(counters, &mut run, &mut runner).expect("runs");
        let failures = runner.finish().failures.len();
        (rows, failures)
    }

    #[test]
    fn counted_events_are_measured_and_a_refusal_in_between_is_told() {
        let reading = Reading {
            values: vec![250],
            time_enabled_ns: 10,
            time_running_ns: 10,
        };
        let refused = CountersError::NeverCounted { time_enabled_ns: 10 };
        let mut counters = SimulatedCounters::new(&[MACHINE_CLEARS.event], [Ok(reading), Err(refused)]);
        let (rows, failures) = rows(Ok(&mut counters), RIGHT);
        assert_eq!(failures, 0);
        assert_eq!((rows[0].label, rows[0].median()), (Label::Measured, Some(2.5)));
        assert_eq!(rows[0].text("thread_role"), "main");
        assert_eq!((rows[1].label, rows[1].median()), (Label::Unavailable, None));
    }

    #[test]
    fn without_counters_one_row_says_why() {
        let (rows, _) = rows(Err(CountersError::NoCounters), RIGHT);
        assert_eq!(rows.len(), 1);
        assert_eq!(rows[0].text("reason"), CountersError::NoCounters.to_string());
    }

    #[test]
    fn a_wrong_answer_fails_the_run() {
        let reading = Reading {
            values: vec![1],
            time_enabled_ns: 1,
            time_running_ns: 1,
        };
        let script = [Ok(reading.clone()), Ok(reading)];
        let mut counters = SimulatedCounters::new(&[MACHINE_CLEARS.event], script);
        assert_eq!(rows(Ok(&mut counters), "other").1, 2);
    }
}
