//! A monitor that says what it is told to: for tests of whatever monitors, on machines without counters.

use std::collections::VecDeque;

use corun_model::pmu::{Counts, Event};

use super::{MonitorError, Monitored};

/// Scripted counts: each [`Monitored::read`] and [`Monitored::stop`] answers with the next entry of the script.
#[derive(Clone, Debug)]
pub struct SimulatedMonitor {
    groups: Vec<Vec<Event>>,
    script: VecDeque<Result<Counts, MonitorError>>,
    counting: bool,
}

impl SimulatedMonitor {
    /// A monitor of these groups. When the script has ended, reading gives [`MonitorError::System`].
    ///
    /// # Panics
    /// When counts of the script are not of these groups.
    pub fn new(
        groups: &[Vec<Event>],
        script: impl IntoIterator<Item = Result<Counts, MonitorError>>,
    ) -> Self {
        let script: VecDeque<_> = script.into_iter().collect();
        for counts in script.iter().flatten() {
            assert_eq!(counts.groups.len(), groups.len(), "one entry a group: {counts:?}");
            for (counted, group) in counts.groups.iter().zip(groups) {
                let counted: Vec<_> = counted.values.iter().map(|(quantity, _)| *quantity).collect();
                let wanted: Vec<_> = group.iter().map(|event| event.quantity).collect();
                assert_eq!(counted, wanted, "one value an event");
            }
        }
        Self {
            groups: groups.to_vec(),
            script,
            counting: false,
        }
    }
}

impl Monitored for SimulatedMonitor {
    fn groups(&self) -> &[Vec<Event>] {
        &self.groups
    }

    fn start(&mut self) -> Result<(), MonitorError> {
        self.counting = true;
        Ok(())
    }

    fn read(&mut self) -> Result<Counts, MonitorError> {
        if !self.counting {
            return Err(MonitorError::NotStarted);
        }
        self.script.pop_front().unwrap_or_else(|| {
            Err(MonitorError::System {
                doing: "read",
                reason: "the script of the simulated monitor has ended".to_owned(),
            })
        })
    }

    fn stop(&mut self) -> Result<Counts, MonitorError> {
        let counts = self.read();
        self.counting = false;
        counts
    }
}

#[cfg(test)]
mod tests {
    use corun_model::pmu::{CpuModel, EventTable, GroupCounts, Quantity};

    use super::*;

    fn groups() -> Vec<Vec<Event>> {
        let table = EventTable::of(&CpuModel::default());
        vec![vec![table.event(Quantity::PageFaults).unwrap()]]
    }

    fn counts(faults: u64) -> Counts {
        Counts {
            groups: vec![GroupCounts {
                values: vec![(Quantity::PageFaults, faults)],
                time_enabled_ns: 10,
                time_running_ns: 5,
            }],
        }
    }

    #[test]
    fn the_script_is_followed() {
        let mut monitor = SimulatedMonitor::new(
            &groups(),
            [Ok(counts(1)), Err(MonitorError::NoCounters), Ok(counts(3))],
        );
        assert_eq!(monitor.read(), Err(MonitorError::NotStarted));
        monitor.start().unwrap();
        let read = monitor.read().unwrap();
        assert_eq!(
            (read.get(Quantity::PageFaults), read.is_estimate()),
            (Some(2.0), true)
        );
        assert_eq!(monitor.read(), Err(MonitorError::NoCounters));
        assert_eq!(monitor.stop().unwrap(), counts(3));
        assert_eq!(monitor.stop(), Err(MonitorError::NotStarted));
        monitor.start().unwrap();
        assert!(matches!(monitor.stop(), Err(MonitorError::System { .. })));
    }

    #[test]
    #[should_panic(expected = "one value an event")]
    fn a_script_that_does_not_fit_is_refused() {
        let mut wrong = counts(1);
        wrong.groups[0].values[0].0 = Quantity::Cycles;
        SimulatedMonitor::new(&groups(), [Ok(wrong)]);
    }
}
