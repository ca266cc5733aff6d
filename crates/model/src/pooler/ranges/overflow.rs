//! [`Overflow`]: whether a statement leaves its own worker's queue, and for which other.

/// How busy a worker is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WorkerLoad {
    /// Server connections that could take a statement now.
    pub free: u32,
    /// Statements that wait for one.
    pub waiting: u32,
}

/// Where a statement that waits goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Overflow {
    /// It waits on for its own worker.
    Stay,
    /// To this worker: a cold cache now is better than a warm one late.
    Go(usize),
}

impl Overflow {
    /// The rule for the statement that has waited longest, `waited_us`, for worker `own`.
    ///
    /// It stays until it has waited `wait_max_us`, as long as its own worker has a free server, and as long as no other has. Else
    /// it goes to the other with the fewest waiting, of these to the one with the most free servers, of these to the next after
    /// its own, so that neighbours' overflow does not meet at one worker.
    pub fn decide(own: usize, waited_us: u64, wait_max_us: u64, workers: &[WorkerLoad]) -> Overflow {
        let has_free = |worker: usize| workers.get(worker).is_some_and(|load| load.free > 0);
        if waited_us < wait_max_us || has_free(own) {
            return Overflow::Stay;
        }
        let count = workers.len();
        (1..=count)
            .map(|step| (own % count + step) % count)
            .filter(|&worker| worker != own && has_free(worker))
            .min_by_key(|&worker| (workers[worker].waiting, u32::MAX - workers[worker].free))
            .map_or(Overflow::Stay, Overflow::Go)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn load(free: u32, waiting: u32) -> WorkerLoad {
        WorkerLoad { free, waiting }
    }

    #[test]
    fn only_after_the_wait_and_to_the_least_loaded() {
        let workers = [load(0, 3), load(1, 1), load(1, 0), load(2, 0), load(0, 0)];
        assert_eq!(Overflow::decide(0, 99, 100, &workers), Overflow::Stay);
        assert_eq!(Overflow::decide(0, 100, 100, &workers), Overflow::Go(3));
        assert_eq!(Overflow::decide(3, 100, 100, &workers), Overflow::Stay);
        assert_eq!(Overflow::decide(0, 100, 0, &[load(0, 1)]), Overflow::Stay);
        assert_eq!(Overflow::decide(0, 100, 0, &[]), Overflow::Stay);
    }

    #[test]
    fn equals_go_to_the_next() {
        let workers = [load(1, 0), load(1, 0), load(0, 5), load(1, 0)];
        assert_eq!(Overflow::decide(2, 1, 1, &workers), Overflow::Go(3));
    }

    proptest! {
        #[test]
        fn goes_only_to_others_with_a_free_server(
            own in 0_usize..8, waited in 0_u64..10, limit in 0_u64..10,
            loads in prop::collection::vec((0_u32..3, 0_u32..3), 0..8),
        ) {
            let workers: Vec<WorkerLoad> = loads.iter().map(|&(free, waiting)| load(free, waiting)).collect();
            let own_free = workers.get(own).is_some_and(|load| load.free > 0);
            let others_free = workers.iter().enumerate().any(|(i, load)| i != own && load.free > 0);
            match Overflow::decide(own, waited, limit, &workers) {
                Overflow::Go(worker) => {
                    prop_assert!(worker != own && workers[worker].free > 0 && waited >= limit && !own_free);
                    let least = workers.iter().enumerate().filter(|&(i, load)| i != own && load.free > 0);
                    prop_assert_eq!(least.map(|(_, load)| load.waiting).min(), Some(workers[worker].waiting));
                }
                Overflow::Stay => prop_assert!(waited < limit || own_free || !others_free),
            }
        }
    }
}
