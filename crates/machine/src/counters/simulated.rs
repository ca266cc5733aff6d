//! Counters that say what they are told to: for tests of whatever counts, on machines without a counter unit.
//!
//! They go through the same states and the same scaling as the kernel's. Code to be tested takes `&mut dyn Counters`, or a
//! function that opens them where refusals of [`super::open`] matter too.
//!
//! Not here: simulated caches; nothing is computed from accesses.

use std::collections::VecDeque;

use super::{Counters, CountersError, Counts, Event, Reading};

/// Scripted counters: each [`Counters::stop`] answers with the next entry of the script.
///
/// ```
/// use corun_machine::counters::{Counters, Event, Reading, SimulatedCounters};
///
/// let half_of_the_time = Reading {
///     values: vec![100],
///     time_enabled_ns: 2_000,
///     time_running_ns: 1_000,
/// };
/// let mut counters = SimulatedCounters::new(&[Event::L2Misses], [Ok(half_of_the_time)]);
/// counters.start()?;
/// let counts = counters.stop()?;
/// assert_eq!((counts.get(Event::L2Misses), counts.is_estimate()), (Some(200), true));
/// # Ok::<(), corun_machine::counters::CountersError>(())
/// ```
#[derive(Clone, Debug)]
pub struct SimulatedCounters {
    events: Vec<Event>,
    script: VecDeque<Result<Reading, CountersError>>,
    counting: bool,
}

impl SimulatedCounters {
    /// Counters of these events that read what the script says, one entry for each start and stop. When it has ended,
    /// stopping gives [`CountersError::System`].
    ///
    /// # Panics
    /// When a reading of the script has not one value for each event.
    pub fn new(events: &[Event], script: impl IntoIterator<Item = Result<Reading, CountersError>>) -> Self {
        let script: VecDeque<_> = script.into_iter().collect();
        for reading in script.iter().flatten() {
            assert_eq!(
                reading.values.len(),
                events.len(),
                "one value for each event: {reading:?}"
            );
        }
        Self {
            events: events.to_vec(),
            script,
            counting: false,
        }
    }
}

impl Counters for SimulatedCounters {
    fn events(&self) -> &[Event] {
        &self.events
    }

    fn start(&mut self) -> Result<(), CountersError> {
        self.counting = true;
        Ok(())
    }

    fn stop(&mut self) -> Result<Counts, CountersError> {
        if !std::mem::take(&mut self.counting) {
            return Err(CountersError::NotStarted);
        }
        let reading = self.script.pop_front().unwrap_or_else(|| {
            Err(CountersError::System {
                doing: "stop",
                reason: "the script of the simulated counters has ended".to_owned(),
            })
        })?;
        Counts::of(&self.events, &reading)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reading(values: &[u64], time_running_ns: u64) -> Reading {
        Reading {
            values: values.to_vec(),
            time_enabled_ns: 1_000,
            time_running_ns,
        }
    }

    /// Starts and stops, as code that measures does.
    fn once(counters: &mut dyn Counters) -> Result<Counts, CountersError> {
        counters.start()?;
        counters.stop()
    }

    #[test]
    fn the_script_is_followed_entry_by_entry() {
        let events = [Event::LlcMisses, Event::Instructions];
        let busy = CountersError::System {
            doing: "stop",
            reason: "busy".to_owned(),
        };
        let script = [
            Ok(reading(&[3, 40], 1_000)),
            Err(busy.clone()),
            Ok(reading(&[3, 40], 250)),
            Ok(reading(&[0, 0], 0)),
        ];
        let mut counters = SimulatedCounters::new(&events, script);
        assert_eq!(counters.events(), events);

        let whole = once(&mut counters).unwrap();
        assert_eq!(events.map(|event| whole.get(event)), [Some(3), Some(40)]);
        assert!(!whole.is_estimate());
        assert_eq!(once(&mut counters), Err(busy));
        let quarter = once(&mut counters).unwrap();
        assert_eq!(events.map(|event| quarter.get(event)), [Some(12), Some(160)]);
        assert!(quarter.is_estimate());
        assert_eq!(
            once(&mut counters),
            Err(CountersError::NeverCounted {
                time_enabled_ns: 1_000
            })
        );
        let ended = once(&mut counters).unwrap_err();
        assert!(ended.detail().unwrap().contains("script"), "{ended:?}");
    }

    #[test]
    fn stopping_needs_a_start_and_uses_it_up() {
        let mut counters = SimulatedCounters::new(&[Event::Cycles], [Ok(reading(&[7], 1_000))]);
        assert_eq!(counters.stop(), Err(CountersError::NotStarted));
        assert_eq!(once(&mut counters).unwrap().get(Event::Cycles), Some(7));
        assert_eq!(counters.stop(), Err(CountersError::NotStarted));
    }

    #[test]
    #[should_panic(expected = "one value for each event")]
    fn a_script_that_does_not_fit_the_events_is_refused() {
        SimulatedCounters::new(&[Event::Cycles], [Ok(reading(&[1, 2], 1_000))]);
    }
}
