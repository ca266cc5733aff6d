//! What was counted, group by group.
//!
//! Events of one group were counted over the same stretches of time, so their ratio is sound even where the groups took
//! turns; events of different groups are estimates of different stretches. [`Counts::together`] takes a ratio's values from
//! one group where there is one.
//!
//! Not here: reading counters.

use serde::{Deserialize, Serialize};

use super::quantity::Quantity;

/// One group's counts, unscaled.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct GroupCounts {
    /// Events and how often they happened while the group counted.
    pub values: Vec<(Quantity, u64)>,
    /// How long what is counted ran with the group enabled, in nanoseconds.
    pub time_enabled_ns: u64,
    /// How much of that the group really counted, in nanoseconds.
    pub time_running_ns: u64,
}

impl GroupCounts {
    /// What one unit of a count stands for: 1 where the group always counted.
    fn scale(&self) -> f64 {
        if self.time_running_ns == 0 || self.time_running_ns >= self.time_enabled_ns {
            1.0
        } else {
            self.time_enabled_ns as f64 / self.time_running_ns as f64
        }
    }

    /// The count of a quantity, scaled to the whole time; `None` if it is not in the group or the group never counted.
    pub fn get(&self, quantity: Quantity) -> Option<f64> {
        // A group of something that never ran has no times at all: its zeros are true.
        if self.time_running_ns == 0 && self.time_enabled_ns > 0 {
            return None;
        }
        self.values
            .iter()
            .find(|(counted, _)| *counted == quantity)
            .map(|(_, value)| *value as f64 * self.scale())
    }
}

/// What a set of groups counted of one thing: a process with its children, a CPU, or a sum of those.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counts {
    /// The groups, in the order of the plan they came from.
    pub groups: Vec<GroupCounts>,
}

impl Counts {
    /// Counts that are exact, of one group: for what was simulated or read elsewhere.
    pub fn exact(values: &[(Quantity, u64)]) -> Self {
        Self {
            groups: vec![GroupCounts {
                values: values.to_vec(),
                time_enabled_ns: 1,
                time_running_ns: 1,
            }],
        }
    }

    /// The count of a quantity, scaled where its group took turns; `None` if nothing counted it.
    pub fn get(&self, quantity: Quantity) -> Option<f64> {
        self.groups.iter().find_map(|group| group.get(quantity))
    }

    /// The counts of several quantities, all from one group if any has them all, else each from the first that has it.
    /// `None` if one of them was not counted.
    pub fn together<const N: usize>(&self, quantities: [Quantity; N]) -> Option<[f64; N]> {
        let of_group = |group: &GroupCounts| -> Option<Vec<f64>> {
            quantities.iter().map(|quantity| group.get(*quantity)).collect()
        };
        let values = self.groups.iter().find_map(of_group).or_else(|| {
            quantities
                .iter()
                .map(|quantity| self.get(*quantity))
                .collect::<Option<Vec<f64>>>()
        });
        values?.try_into().ok()
    }

    /// One quantity divided by another; `None` if one of them was not counted or there is nothing to divide by.
    pub fn ratio(&self, of: Quantity, to: Quantity) -> Option<f64> {
        let [of, to] = self.together([of, to])?;
        (to > 0.0).then_some(of / to)
    }

    /// Whether any group shared the counters with others, so that its counts are scaled up from a part of the time.
    pub fn is_estimate(&self) -> bool {
        self.groups
            .iter()
            .any(|group| group.time_running_ns < group.time_enabled_ns)
    }

    /// Adds what the same groups counted of something else. Groups the other does not have stay as they are, and the other's
    /// further groups are added.
    pub fn add(&mut self, other: &Self) {
        for (at, theirs) in other.groups.iter().enumerate() {
            let Some(ours) = self.groups.get_mut(at) else {
                self.groups.push(theirs.clone());
                continue;
            };
            ours.time_enabled_ns = ours.time_enabled_ns.saturating_add(theirs.time_enabled_ns);
            ours.time_running_ns = ours.time_running_ns.saturating_add(theirs.time_running_ns);
            for (quantity, value) in &theirs.values {
                match ours.values.iter_mut().find(|(counted, _)| counted == quantity) {
                    Some((_, sum)) => *sum = sum.saturating_add(*value),
                    None => ours.values.push((*quantity, *value)),
                }
            }
        }
    }

    /// What was counted since an earlier reading of the same groups.
    pub fn since(&self, earlier: &Self) -> Self {
        let groups = self.groups.iter().enumerate().map(|(at, now)| {
            let Some(then) = earlier.groups.get(at) else {
                return now.clone();
            };
            let before = |quantity: Quantity| {
                then.values
                    .iter()
                    .find(|(counted, _)| *counted == quantity)
                    .map_or(0, |(_, value)| *value)
            };
            GroupCounts {
                values: now
                    .values
                    .iter()
                    .map(|(quantity, value)| (*quantity, value.saturating_sub(before(*quantity))))
                    .collect(),
                time_enabled_ns: now.time_enabled_ns.saturating_sub(then.time_enabled_ns),
                time_running_ns: now.time_running_ns.saturating_sub(then.time_running_ns),
            }
        });
        Self {
            groups: groups.collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn group(values: &[(Quantity, u64)], enabled: u64, running: u64) -> GroupCounts {
        GroupCounts {
            values: values.to_vec(),
            time_enabled_ns: enabled,
            time_running_ns: running,
        }
    }

    #[test]
    fn a_ratio_comes_from_one_group_where_it_can() {
        let counts = Counts {
            groups: vec![
                group(&[(Quantity::Instructions, 100)], 1_000, 500),
                group(
                    &[(Quantity::Instructions, 60), (Quantity::Branches, 12)],
                    1_000,
                    250,
                ),
            ],
        };
        assert_eq!(counts.get(Quantity::Instructions), Some(200.0));
        assert_eq!(
            counts.ratio(Quantity::Branches, Quantity::Instructions),
            Some(0.2)
        );
        assert!(counts.is_estimate());
        assert_eq!(counts.get(Quantity::Loads), None);
    }

    #[test]
    fn a_group_that_never_counted_says_nothing() {
        let never = Counts {
            groups: vec![group(&[(Quantity::Cycles, 0)], 1_000, 0)],
        };
        assert_eq!(never.get(Quantity::Cycles), None);
        // Of something that never ran, nothing happened: that is known.
        let idle = Counts {
            groups: vec![group(&[(Quantity::Cycles, 0)], 0, 0)],
        };
        assert_eq!(idle.get(Quantity::Cycles), Some(0.0));
        assert_eq!(idle.ratio(Quantity::Cycles, Quantity::Cycles), None);
    }

    proptest! {
        #[test]
        fn sums_and_differences_undo_each_other(
            first in proptest::collection::vec(0u64..1 << 40, 3),
            second in proptest::collection::vec(0u64..1 << 40, 3),
        ) {
            let counts = |v: &[u64]| Counts {
                groups: vec![group(&[(Quantity::Loads, v[0])], v[1], v[2])],
            };
            let mut sum = counts(&first);
            sum.add(&counts(&second));
            prop_assert_eq!(sum.since(&counts(&first)), counts(&second));
        }
    }
}
