//! What a group of counters counted, and how sure that is.
//!
//! A CPU has few counters. When others want them too, the kernel lets groups take turns; a group that ran for half of the
//! time it was enabled saw about half of the events. [`Counts`] scales such values up and says so.
//!
//! Not here: reading counters; both twins hand a [`Reading`] in.

use super::{CountersError, Event};

/// What the counters of one group read, unscaled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reading {
    /// One value an event, in the order of [`super::Counters::events`].
    pub values: Vec<u64>,
    /// How long the thread ran with the group enabled, in nanoseconds.
    pub time_enabled_ns: u64,
    /// How much of that the group really counted, in nanoseconds.
    pub time_running_ns: u64,
}

/// Events of one stretch of work.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Counts {
    /// Scaled already.
    counts: Vec<(Event, u64)>,
    time_enabled_ns: u64,
    time_running_ns: u64,
}

impl Counts {
    /// Scales a reading to the whole time the group was enabled.
    pub(super) fn of(events: &[Event], reading: &Reading) -> Result<Self, CountersError> {
        debug_assert_eq!(events.len(), reading.values.len());
        let (enabled, running) = (reading.time_enabled_ns, reading.time_running_ns);
        if running == 0 {
            return Err(CountersError::NeverCounted {
                time_enabled_ns: enabled,
            });
        }
        let scaled = |value: u64| {
            if running >= enabled {
                return value;
            }
            // In 128 bits: counts and nanoseconds of a minute already overflow 64 when multiplied.
            let whole =
                (u128::from(value) * u128::from(enabled) + u128::from(running) / 2) / u128::from(running);
            u64::try_from(whole).unwrap_or(u64::MAX)
        };
        Ok(Self {
            counts: events
                .iter()
                .zip(&reading.values)
                .map(|(event, value)| (*event, scaled(*value)))
                .collect(),
            time_enabled_ns: enabled,
            time_running_ns: running,
        })
    }

    /// How often the event happened; an estimate where [`Counts::is_estimate`] says so. `None` for an event that was not
    /// asked for.
    pub fn get(&self, event: Event) -> Option<u64> {
        self.counts
            .iter()
            .find(|(counted, _)| *counted == event)
            .map(|(_, count)| *count)
    }

    /// Whether the group shared the counters with others, so that its counts are scaled up from a part of the time.
    pub fn is_estimate(&self) -> bool {
        self.time_running_ns < self.time_enabled_ns
    }

    /// How long the thread ran between start and stop, in nanoseconds; time it slept is not in it.
    pub fn time_enabled_ns(&self) -> u64 {
        self.time_enabled_ns
    }

    /// How much of that was really counted, in nanoseconds.
    pub fn time_running_ns(&self) -> u64 {
        self.time_running_ns
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn counts(value: u64, time_enabled_ns: u64, time_running_ns: u64) -> Result<Counts, CountersError> {
        let reading = Reading {
            values: vec![value],
            time_enabled_ns,
            time_running_ns,
        };
        Counts::of(&[Event::Cycles], &reading)
    }

    #[test]
    fn a_group_that_always_ran_is_not_scaled() {
        let counts = counts(1234, 500, 500).unwrap();
        assert_eq!(counts.get(Event::Cycles), Some(1234));
        assert_eq!(counts.get(Event::L2Misses), None);
        assert!(!counts.is_estimate());
        assert_eq!((counts.time_enabled_ns(), counts.time_running_ns()), (500, 500));
    }

    #[test]
    fn a_group_that_took_turns_is_scaled_and_says_so() {
        let half = counts(1000, 600, 300).unwrap();
        assert_eq!((half.get(Event::Cycles), half.is_estimate()), (Some(2000), true));
        // 10 * 7 / 4 = 17.5
        assert_eq!(counts(10, 7, 4).unwrap().get(Event::Cycles), Some(18));
        assert_eq!(
            counts(u64::MAX, u64::MAX, 1).unwrap().get(Event::Cycles),
            Some(u64::MAX)
        );
    }

    #[test]
    fn a_group_that_never_ran_has_no_counts() {
        for enabled in [0, 900] {
            assert_eq!(
                counts(0, enabled, 0),
                Err(CountersError::NeverCounted {
                    time_enabled_ns: enabled
                })
            );
        }
    }

    proptest! {
        #[test]
        fn scaling_never_loses_events(value: u64, enabled: u64, running in 1u64..) {
            let counts = counts(value, enabled, running).unwrap();
            let scaled = counts.get(Event::Cycles).unwrap();
            prop_assert!(scaled >= value);
            prop_assert!(counts.is_estimate() || scaled == value);
        }
    }
}
