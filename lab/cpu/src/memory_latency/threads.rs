//! Where the threads of a run are pinned: main threads on one CPU of a pair, partners and helpers on the other.
//!
//! [`PinnedPair::take`] pins the calling thread for as long as it lives; [`corun_exec::stage::Place`] pins the others as they start. Not
//! here: choosing the pair, which is `corun_model::operators::placement`'s.

use std::cell::RefCell;
use std::sync::atomic::{AtomicBool, Ordering};

use corun_exec::stage::{Place, Thread};
use corun_model::operators::placement::Pair;
use corun_model::units::CpuId;
use corun_topology::affinity::{Pinned, pin};

use lab_core::error::BenchError;

thread_local! {
    /// Keeps a started thread pinned until it ends.
    static PINNED: RefCell<Option<Pinned>> = const { RefCell::new(None) };
}

/// The pair of CPUs a suite runs on.
pub struct PinnedPair {
    pair: Pair,
    refused: AtomicBool,
    _main: Pinned,
}

impl PinnedPair {
    /// Pins the calling thread to the pair's main CPU. Both CPUs are tried, so that an impossible pair is an error here and not
    /// a run in the wrong place.
    ///
    /// # Errors
    /// When the kernel refuses one of the CPUs.
    pub fn take(pair: Pair) -> Result<PinnedPair, BenchError> {
        let try_pin = |cpu: CpuId| pin(cpu).map_err(BenchError::machine);
        drop(try_pin(pair.partner)?);
        Ok(PinnedPair {
            pair,
            refused: AtomicBool::new(false),
            _main: try_pin(pair.main)?,
        })
    }

    /// The pair.
    pub fn pair(&self) -> Pair {
        self.pair
    }

    /// Whether some thread could not be pinned since the last call.
    pub fn was_refused(&self) -> bool {
        self.refused.swap(false, Ordering::Relaxed)
    }

    /// The placement to hand to a run.
    pub fn pinning(&self) -> Pinning<'_> {
        Pinning {
            pair: self.pair,
            refused: &self.refused,
        }
    }

    /// Workers take turns on the two CPUs, and each has its helper on the other one.
    fn cpu_of(pair: Pair, thread: Thread) -> CpuId {
        let on_main = match thread {
            Thread::Worker(worker) => worker % 2 == 0,
            Thread::Helper(worker) => worker % 2 == 1,
        };
        if on_main { pair.main } else { pair.partner }
    }
}

/// What a run's threads are told; `PinnedPair` itself belongs to the thread it pinned.
pub struct Pinning<'s> {
    pair: Pair,
    refused: &'s AtomicBool,
}

impl Place for Pinning<'_> {
    fn place(&self, thread: Thread) {
        match pin(PinnedPair::cpu_of(self.pair, thread)) {
            Ok(pinned) => PINNED.with(|pinned_here| *pinned_here.borrow_mut() = Some(pinned)),
            Err(_) => self.refused.store(true, Ordering::Relaxed),
        }
    }
}

#[cfg(test)]
mod tests {
    use corun_model::operators::placement::Placement;

    use super::*;

    #[test]
    fn partners_and_helpers_sit_on_the_other_cpu() {
        let pair = Pair {
            main: CpuId(4),
            partner: CpuId(7),
            relation: Placement::Cores,
        };
        let cpu = |thread| PinnedPair::cpu_of(pair, thread).0;
        assert_eq!([0, 1, 2, 3].map(|n| cpu(Thread::Worker(n))), [4, 7, 4, 7]);
        assert_eq!([0, 1].map(|n| cpu(Thread::Helper(n))), [7, 4]);
    }

    #[test]
    fn a_cpu_that_is_not_there_is_an_error() {
        let pair = Pair {
            main: CpuId(0),
            partner: CpuId(60_000),
            relation: Placement::Cores,
        };
        assert!(PinnedPair::take(pair).is_err());
    }

    #[test]
    fn a_placed_thread_runs_where_it_was_put() {
        let here = corun_topology::affinity::allowed_cpus().expect("an affinity mask")[0];
        let pair = Pair {
            main: here,
            partner: here,
            relation: Placement::Cores,
        };
        let pair_of_cpus = PinnedPair::take(pair).expect("one CPU is allowed");
        let pinning = pair_of_cpus.pinning();
        let cpus = std::thread::scope(|scope| {
            let placed = scope.spawn(|| {
                pinning.place(Thread::Worker(1));
                corun_topology::affinity::allowed_cpus().expect("an affinity mask")
            });
            placed.join().expect("no panic")
        });
        assert_eq!(cpus, [here]);
        assert!(!pair_of_cpus.was_refused());
    }
}
