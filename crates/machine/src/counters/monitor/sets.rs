//! Opens what a machine can count of what is wanted, and names the rest.
//!
//! Tables say what a CPU has, only opening it says what this kernel and these rights allow: [`open_sets`] plans, opens, and
//! plans again without what was refused, until something opens or nothing is left.
//!
//! Not here: what is wanted ([`corun_model::pmu::groups::wanted`]).

use corun_model::pmu::groups::{Plan, plan};
use corun_model::pmu::{Absent, EventTable, Quantity};

use super::perf::happens_in_kernel;
use super::{Monitor, MonitorError, Scope, Target};

/// A monitor of what could be opened.
pub struct Opened {
    /// Counts on everything that opened.
    pub monitor: Monitor,
    /// What is not counted, each once, with the reason.
    pub absent: Vec<Absent>,
    /// Sets that did not fit into one group: their ratios are of different stretches of time.
    pub torn: Vec<Vec<Quantity>>,
}

/// Opens counters of these sets of quantities, as many as this machine, its kernel and the caller's rights allow. A set's
/// quantities are counted together where they fit.
///
/// # Errors
/// As [`Monitor::open`], where nothing at all can be counted on the target.
pub fn open_sets(target: Target, sets: &[Vec<Quantity>], scope: Scope) -> Result<Opened, MonitorError> {
    open_with(sets, |plan| Monitor::open(target, &plan.groups, scope))
}

/// The same with anything that opens a plan.
fn open_with(
    sets: &[Vec<Quantity>],
    mut open: impl FnMut(&Plan) -> Result<Monitor, MonitorError>,
) -> Result<Opened, MonitorError> {
    let table = EventTable::of(&crate::counters::this_cpu());
    let mut sets = sets.to_vec();
    let mut counters = table.counters_general();
    let mut refused: Vec<Absent> = Vec::new();
    loop {
        let plan = plan(&table, &sets, counters);
        let error = match open(&plan) {
            Ok(monitor) => {
                refused.extend(plan.absent);
                return Ok(Opened {
                    monitor,
                    absent: refused,
                    torn: plan.torn,
                });
            }
            Err(error) => error,
        };
        // Each turn counts fewer quantities or has fewer counters, so there is an end.
        let before = (plan.quantities().len(), counters);
        let events = plan.groups.iter().flatten();
        let without: Vec<Quantity> = match &error {
            MonitorError::TooMany { .. } if counters > 1 => {
                counters -= 1;
                Vec::new()
            }
            MonitorError::Unsupported { event, .. } => events
                .filter(|known| known.name == event)
                .map(|known| known.quantity)
                .collect(),
            MonitorError::NoCounters => events
                .filter(|event| !event.encoding.is_software())
                .map(|event| event.quantity)
                .collect(),
            // More rights than for the others are needed for what happens in the kernel.
            MonitorError::Paranoid { .. } | MonitorError::Forbidden { .. } => events
                .filter(|event| happens_in_kernel(event.encoding))
                .map(|event| event.quantity)
                .collect(),
            _ => Vec::new(),
        };
        for quantity in &without {
            if !refused.iter().any(|known| known.quantity == *quantity) {
                refused.push(Absent {
                    quantity: *quantity,
                    reason: error.to_string(),
                });
            }
        }
        for set in &mut sets {
            set.retain(|quantity| !without.contains(quantity));
        }
        let left = plan.quantities().len() - plan.quantities().iter().filter(|q| without.contains(q)).count();
        if (left, counters) == before || left == 0 {
            return Err(error);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::Monitored;
    use super::*;

    fn wanted() -> Vec<Vec<Quantity>> {
        vec![
            vec![Quantity::Instructions, Quantity::Cycles, Quantity::Branches],
            vec![
                Quantity::TaskClock,
                Quantity::PageFaults,
                Quantity::ContextSwitches,
            ],
        ]
    }

    fn nothing() -> Monitor {
        Monitor::open(Target::Thread, &[], Scope::User).expect("no event needs no right")
    }

    #[test]
    fn what_is_refused_is_left_out_and_named() {
        let mut seen: Vec<Vec<Quantity>> = Vec::new();
        let opened = open_with(&wanted(), |plan| {
            seen.push(plan.quantities());
            match seen.len() {
                1 => Err(MonitorError::NoCounters),
                2 => Err(MonitorError::Forbidden {
                    who: super::super::Who::Caller,
                    reason: "no".to_owned(),
                    paranoid: None,
                }),
                _ => Ok(nothing()),
            }
        })
        .unwrap();
        assert_eq!(
            seen[1],
            [
                Quantity::TaskClock,
                Quantity::ContextSwitches,
                Quantity::PageFaults
            ]
        );
        assert_eq!(seen[2], [Quantity::TaskClock, Quantity::PageFaults]);
        let mut absent: Vec<Quantity> = opened.absent.iter().map(|absent| absent.quantity).collect();
        absent.sort_unstable();
        assert_eq!(
            absent,
            [
                Quantity::Cycles,
                Quantity::Instructions,
                Quantity::Branches,
                Quantity::ContextSwitches
            ]
        );
    }

    #[test]
    fn what_is_refused_for_good_ends_it() {
        let gone = MonitorError::NoProcess { pid: 7 };
        let mut turns = 0;
        let error = open_with(&wanted(), |_| {
            turns += 1;
            Err(gone.clone())
        });
        assert_eq!((error.err(), turns), (Some(gone), 1));
        // Counters that never suffice, and counters that nobody has.
        let error = open_with(&wanted(), |_| {
            Err(MonitorError::TooMany {
                requested: 2,
                fitting: 1,
            })
        });
        assert!(matches!(error.err(), Some(MonitorError::TooMany { .. })));
        let error = open_with(&wanted()[..1], |_| Err(MonitorError::NoCounters));
        assert_eq!(error.err(), Some(MonitorError::NoCounters));
    }

    #[test]
    fn this_machine_counts_what_it_can() {
        match open_sets(Target::Thread, &wanted(), Scope::User) {
            Ok(opened) => {
                let counted = opened.monitor.groups().iter().flatten();
                let counted: Vec<Quantity> = counted.map(|event| event.quantity).collect();
                for quantity in wanted().into_iter().flatten() {
                    let absent = opened.absent.iter().any(|absent| absent.quantity == quantity);
                    assert_ne!(counted.contains(&quantity), absent, "{quantity}");
                }
            }
            Err(error) => assert!(error.hint().is_some(), "{error:?}"),
        }
    }
}
