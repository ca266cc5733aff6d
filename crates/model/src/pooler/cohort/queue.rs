//! [`CohortQueue`]: waiting statements in order of arrival, and who of them was overtaken when.

use std::collections::VecDeque;

use super::{Cohort, CohortLimits, Waiting};

/// The queue of one core and pool. Whoever fills it bounds it.
#[derive(Clone, Debug)]
pub struct CohortQueue<T> {
    cohort: Cohort,
    waiting: VecDeque<(Waiting, T)>,
}

impl<T> CohortQueue<T> {
    /// An empty queue.
    pub fn new(limits: CohortLimits) -> Self {
        CohortQueue {
            cohort: Cohort::new(limits),
            waiting: VecDeque::new(),
        }
    }

    /// The choice, to change its bounds or to tell it of statements that did not wait.
    pub fn cohort(&mut self) -> &mut Cohort {
        &mut self.cohort
    }

    /// A statement has to wait. `shape` 0: unknown, or not to be put into a cohort.
    pub fn push(&mut self, shape: u64, item: T) {
        let waiting = Waiting {
            shape,
            overtaken_us: None,
        };
        self.waiting.push_back((waiting, item));
    }

    /// The statement that goes next. Looks at and moves `CohortLimits::window` statements at most.
    pub fn pop(&mut self, now_us: u64) -> Option<T> {
        let index = self
            .cohort
            .next(self.waiting.iter().map(|(waiting, _)| *waiting), now_us)?;
        for (overtaken, _) in self.waiting.range_mut(..index) {
            overtaken.overtaken_us.get_or_insert(now_us);
        }
        self.waiting.remove(index).map(|(_, item)| item)
    }

    /// Keeps the statements that still want to run, in order.
    pub fn retain(&mut self, mut keep: impl FnMut(&T) -> bool) {
        self.waiting.retain(|(_, item)| keep(item));
    }

    /// The statements that wait, oldest first.
    pub fn iter(&self) -> impl Iterator<Item = &T> {
        self.waiting.iter().map(|(_, item)| item)
    }

    /// How many wait.
    pub fn len(&self) -> usize {
        self.waiting.len()
    }

    /// Whether nobody waits.
    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn limits(length_max: u32, wait_max_us: u64, window: usize) -> CohortLimits {
        CohortLimits {
            length_max,
            wait_max_us,
            window,
        }
    }

    fn order(queue: &mut CohortQueue<usize>, now_us: u64) -> Vec<usize> {
        std::iter::from_fn(|| queue.pop(now_us)).collect()
    }

    #[test]
    fn shapes_run_together_and_the_oldest_begins() {
        let mut queue = CohortQueue::new(limits(16, 1_000, 128));
        for (item, shape) in [1, 2, 1, 3, 2, 1, 3].into_iter().enumerate() {
            queue.push(shape, item);
        }
        assert_eq!(order(&mut queue, 0), [0, 2, 5, 1, 4, 3, 6]);
    }

    #[test]
    fn cohorts_end() {
        let mut queue = CohortQueue::new(limits(2, 1_000, 128));
        for (item, shape) in [1, 2, 1, 1, 2, 1].into_iter().enumerate() {
            queue.push(shape, item);
        }
        assert_eq!(order(&mut queue, 0), [0, 2, 1, 4, 3, 5]);
    }

    #[test]
    fn unknown_shapes_are_like_no_other() {
        let mut queue = CohortQueue::new(limits(16, 1_000, 128));
        for (item, shape) in [0, 1, 0, 1].into_iter().enumerate() {
            queue.push(shape, item);
        }
        assert_eq!(order(&mut queue, 0), [0, 1, 3, 2]);
    }

    #[test]
    fn statements_that_did_not_wait_belong_to_the_cohort() {
        let mut queue = CohortQueue::new(limits(3, 1_000, 128));
        queue.cohort().ran(7);
        queue.cohort().ran(7);
        queue.push(1, 0);
        queue.push(7, 1);
        queue.push(7, 2);
        assert_eq!(order(&mut queue, 0), [1, 0, 2]);
    }

    #[test]
    fn who_was_overtaken_for_long_is_not_overtaken_again() {
        let mut queue = CohortQueue::new(limits(1_000, 100, 128));
        queue.push(1, 0);
        assert_eq!(queue.pop(0), Some(0));
        queue.push(2, 1);
        queue.push(1, 2);
        queue.push(1, 3);
        queue.push(1, 4);
        // However long it waited before, what counts is since when it is overtaken.
        assert_eq!(queue.pop(10_000), Some(2));
        assert_eq!(queue.pop(10_099), Some(3));
        assert_eq!(queue.pop(10_100), Some(1));
        assert_eq!(queue.pop(10_100), Some(4));
    }

    /// In a closed system cohorts are about twice as long as there are waiting statements of a shape.
    #[test]
    fn cohorts_are_as_long_as_argued() {
        let mut queue = CohortQueue::new(limits(1_000, u64::MAX, 1_000));
        let mut random = 1_u64;
        let mut shape = move || {
            random = random
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            1 + (random >> 33) % 16
        };
        for _ in 0..96 {
            let shape = shape();
            queue.push(shape, shape);
        }
        let (mut cohorts, mut last) = (0, 0);
        for _ in 0..100_000 {
            let ran = queue.pop(0).expect("somebody waits");
            cohorts += u32::from(ran != last);
            last = ran;
            let shape = shape();
            queue.push(shape, shape);
        }
        let length = 100_000 / cohorts;
        assert!((10..=14).contains(&length), "{length}");
    }

    #[derive(Clone, Debug)]
    enum Step {
        Push(u64),
        Pop,
        Leave(usize),
        Wait(u64),
    }

    fn steps() -> impl Strategy<Value = Vec<Step>> {
        let step = prop_oneof![
            4 => (0_u64..5).prop_map(Step::Push),
            3 => Just(Step::Pop),
            1 => (0_usize..1_000).prop_map(Step::Leave),
            3 => (0_u64..300).prop_map(Step::Wait),
        ];
        prop::collection::vec(step, 0..400)
    }

    proptest! {
        /// Every statement comes out once; nobody is overtaken longer than allowed; cohorts are no longer than allowed.
        #[test]
        fn the_bounds_hold(steps in steps(), length_max in 0_u32..6, wait_max_us in 0_u64..1_000, window in 0_usize..20) {
            let mut queue = CohortQueue::new(limits(length_max, wait_max_us, window));
            // What waits, oldest first: number, shape, first overtaken at.
            let mut waiting: Vec<(usize, u64, Option<u64>)> = Vec::new();
            let (mut now, mut number) = (0, 0);
            let (mut last, mut in_a_row) = (0, 0);
            for step in steps {
                match step {
                    Step::Wait(microseconds) => now += microseconds,
                    Step::Push(shape) => {
                        queue.push(shape, number);
                        waiting.push((number, shape, None));
                        number += 1;
                    }
                    Step::Leave(which) => {
                        if !waiting.is_empty() {
                            let (gone, ..) = waiting.remove(which % waiting.len());
                            queue.retain(|number| *number != gone);
                        }
                    }
                    Step::Pop => {
                        let Some(popped) = queue.pop(now) else {
                            prop_assert!(waiting.is_empty());
                            continue;
                        };
                        let at = waiting.iter().position(|(number, ..)| *number == popped).expect("it waited");
                        let (_, shape, _) = waiting.remove(at);
                        for (_, other, overtaken) in &mut waiting[..at] {
                            prop_assert_ne!(*other, shape);
                            let since = *overtaken.get_or_insert(now);
                            prop_assert!(now == since && wait_max_us > 0 || now - since < wait_max_us);
                        }
                        if at > 0 {
                            prop_assert!(length_max > 1 && at < window && shape == last && shape != 0);
                            in_a_row += 1;
                            prop_assert!(in_a_row <= length_max);
                        } else {
                            in_a_row = if shape == last && in_a_row < length_max { in_a_row + 1 } else { 1 };
                        }
                        last = shape;
                    }
                }
                prop_assert_eq!(queue.len(), waiting.len());
                prop_assert!(queue.iter().eq(waiting.iter().map(|(number, ..)| number)));
            }
        }

        /// Off: first come, first served.
        #[test]
        fn off_is_first_come_first_served(shapes in prop::collection::vec(0_u64..4, 0..50), off in 0_u32..2, wait in 0_u64..9) {
            for limits in [limits(off, wait, 128), limits(16, 0, 128), limits(16, wait, 1)] {
                let mut queue = CohortQueue::new(limits);
                for (item, shape) in shapes.iter().enumerate() {
                    queue.push(*shape, item);
                }
                prop_assert!(order(&mut queue, 0).into_iter().eq(0..shapes.len()));
            }
        }
    }
}
