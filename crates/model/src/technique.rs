//! `auto`: which of paper 000's techniques pays for a piece of work on this machine.
//!
//! The paper's answer (its Table 2) is for one machine of 2005. Here the answer is measured once per machine on a small
//! kernel, kept as a [`Calibration`], and [`choose`] reads it for the work at hand:
//!
//! ```text
//!   table bytes ─┐                       ┌─▶ plain, where nothing gains
//!   references  ─┼─▶ nearest point ──────┼─▶ prefetch: group, pipeline or AMAC with the distance that won
//!   evenness    ─┘   of the calibration  └─▶ work-ahead set, only beside an SMT sibling
//! ```
//!
//! Without a calibration a rule of thumb decides by the size of the L2. Not here: running the kernel (`exec::stage`) and
//! keeping its result (`machine`).

use serde::{Deserialize, Serialize};

use crate::mode::{Hiding, Mode, Schedule, Threads};
use crate::units::Bytes;

/// A staged mode must take at most this share of plain code's time to be chosen: below, it is within the noise of two runs of
/// the same code, and plain code has no start-up cost.
const WORTH_STAGING: f64 = 0.95;

/// Fewer tuples than this end before a full set of tuples in flight has paid for itself. Unmeasured.
const TUPLES_MIN: u64 = 64;

/// Fewer tuples than this are done before a second thread has started: some 50 microseconds at 50 ns each.
const TUPLES_MIN_THREADED: u64 = 20_000;

/// What an operator is about to do.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Work {
    /// Memory its tuples reach at random.
    pub table: Bytes,
    /// Dependent references a tuple makes: levels of a tree below the cached ones, links of a chain.
    pub references: f64,
    /// Share of the tuples, 0 to 1, that go the whole way: a probe that finds nothing ends early.
    pub hit_rate: f64,
    /// Whether all tuples that go the whole way make the same number of references, as in a tree; not so in chains.
    pub even: bool,
    /// Tuples.
    pub tuples: u64,
    /// Whether the output must keep the input's order in one stream: bi-threading does not (paper 000, Table 2).
    pub ordered: bool,
    /// Threads the operator may use.
    pub threads: usize,
}

/// What is known of the machine beside a calibration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Host {
    /// A core's private L2.
    pub l2: Bytes,
    /// Whether the second thread would be an SMT sibling: only then may a work-ahead set pay, because its helper
    /// loads into the main thread's caches.
    pub siblings: bool,
}

/// Times of the kernel at one working set.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Point {
    /// Working set.
    pub table: Bytes,
    /// Dependent references a tuple made, on average.
    pub references: f64,
    /// Whether every tuple made the same number.
    pub even: bool,
    /// Plain code, nanoseconds a tuple.
    pub plain_ns: f64,
    /// Staged code by latency hiding, nanoseconds a tuple.
    pub staged: Vec<Timing>,
}

/// One staged time of a [`Point`].
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Timing {
    /// The technique.
    pub hiding: Hiding,
    /// Nanoseconds a tuple.
    pub ns: f64,
}

/// Times of probing corun's join table at one size of its index.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct ProbePoint {
    /// Bytes of the index.
    pub table: Bytes,
    /// Without prefetching, nanoseconds a probe row.
    pub plain_ns: f64,
    /// With prefetching.
    pub prefetch_ns: f64,
}

/// What the kernels took on one machine.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Calibration {
    /// The staged kernel, in any order.
    pub points: Vec<Point>,
    /// The join table's probe, in any order.
    pub probes: Vec<ProbePoint>,
}

/// What [`choose`] decided, and on what ground.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Choice {
    /// The mode to run.
    pub mode: Mode,
    /// What the calibration promises: plain time over this mode's, on one thread. `None` without a calibration.
    pub gain: Option<f64>,
}

/// Where no calibration says better: prefetching pays from about half the L2 on; 32 tuples in flight cover the latency of
/// memory (measured for the join table's probe on two machines, 16 to 64 within noise).
pub const UNCALIBRATED: Hiding = Hiding::Prefetch {
    schedule: Schedule::Group,
    distance: 32,
};

/// As [`UNCALIBRATED`], for tuples that end at different stages: a ring replaces each at once.
pub const UNCALIBRATED_UNEVEN: Hiding = Hiding::Prefetch {
    schedule: Schedule::Amac,
    distance: 32,
};

/// The mode for `work`.
pub fn choose(work: &Work, host: &Host, calibration: Option<&Calibration>) -> Choice {
    let (hiding, gain) = if work.tuples < TUPLES_MIN {
        (None, None)
    } else {
        match calibration.and_then(|calibration| calibration.nearest(work)) {
            Some(point) => point.best(host.siblings),
            None if work.table.0 <= host.l2.0 / 2 => (None, None),
            None if is_even(work) => (Some(UNCALIBRATED), None),
            None => (Some(UNCALIBRATED_UNEVEN), None),
        }
    };
    // A work-ahead set has the second thread already.
    let helped = matches!(hiding, Some(Hiding::WorkAhead(_)));
    let two = work.threads >= 2 && !work.ordered && !helped && work.tuples >= TUPLES_MIN_THREADED;
    let threads = if two {
        Threads::BiThreaded(u8::try_from(work.threads).unwrap_or(u8::MAX).min(THREADS_MAX))
    } else {
        Threads::One
    };
    let mode = match hiding {
        Some(hiding) => Mode::staged(threads, hiding),
        None => Mode {
            threads,
            ..Mode::PLAIN
        },
    };
    Choice { mode, gain }
}

/// Threads of one bi-threaded operator at most: one output each is as much merging as a consumer should be asked for.
const THREADS_MAX: u8 = 64;

/// Whether tuples end together: a tree's do, and so do chains of one link that nearly all find their partner.
fn is_even(work: &Work) -> bool {
    work.even && (work.hit_rate >= 0.9 || work.hit_rate <= 0.1)
}

impl Calibration {
    /// The smallest measured index from which on, up to the largest, prefetching was not slower; `None` where even the
    /// largest was probed faster without, or nothing was measured.
    pub fn prefetch_probes_from(&self) -> Option<Bytes> {
        let mut probes = self.probes.clone();
        probes.sort_by_key(|point| std::cmp::Reverse(point.table));
        probes
            .iter()
            .take_while(|point| point.prefetch_ns <= point.plain_ns)
            .last()
            .map(|point| point.table)
    }

    /// The measured point that resembles `work` most: same evenness if there is one, then references, then bytes, by ratio.
    fn nearest(&self, work: &Work) -> Option<&Point> {
        let even = is_even(work);
        let distance = |point: &Point| {
            let apart = |a: f64, b: f64| (a.max(1.0) / b.max(1.0)).ln().abs();
            let bytes = apart(point.table.0 as f64, work.table.0 as f64);
            let references = apart(point.references, work.references);
            // Region of memory first: it spans factors of a thousand, the others a few.
            bytes + references + if point.even == even { 0.0 } else { 1.0 }
        };
        self.points
            .iter()
            .min_by(|a, b| distance(a).total_cmp(&distance(b)))
    }
}

impl Point {
    /// The technique that won here with what it gained, or none if plain code was not clearly beaten.
    fn best(&self, siblings: bool) -> (Option<Hiding>, Option<f64>) {
        let allowed = |timing: &&Timing| siblings || !matches!(timing.hiding, Hiding::WorkAhead(_));
        let best = self
            .staged
            .iter()
            .filter(allowed)
            .min_by(|a, b| a.ns.total_cmp(&b.ns));
        match best {
            Some(timing) if timing.ns <= self.plain_ns * WORTH_STAGING => {
                (Some(timing.hiding), Some(self.plain_ns / timing.ns))
            }
            _ => (None, Some(1.0)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mode::WorkAhead;

    const GROUP: Hiding = Hiding::Prefetch {
        schedule: Schedule::Group,
        distance: 16,
    };
    const AHEAD: Hiding = Hiding::WorkAhead(WorkAhead::PAPER);

    fn calibration() -> Calibration {
        let point = |mib: u64, plain_ns: f64, group: f64, ahead: f64| Point {
            table: Bytes::mib(mib),
            references: 4.0,
            even: true,
            plain_ns,
            staged: vec![
                Timing {
                    hiding: GROUP,
                    ns: group,
                },
                Timing {
                    hiding: AHEAD,
                    ns: ahead,
                },
            ],
        };
        Calibration {
            points: vec![point(1, 10.0, 11.0, 30.0), point(64, 100.0, 40.0, 30.0)],
            probes: Vec::new(),
        }
    }

    fn work(mib: u64) -> Work {
        Work {
            table: Bytes::mib(mib),
            references: 4.0,
            hit_rate: 1.0,
            even: true,
            tuples: 1_000_000,
            ordered: true,
            threads: 1,
        }
    }

    const HOST: Host = Host {
        l2: Bytes::mib(2),
        siblings: false,
    };

    #[test]
    fn the_measured_winner_of_the_nearest_point_is_chosen() {
        let calibration = calibration();
        let small = choose(&work(1), &HOST, Some(&calibration));
        assert_eq!(small.mode, Mode::PLAIN);
        let large = choose(&work(500), &HOST, Some(&calibration));
        assert_eq!(large.mode, Mode::staged(Threads::One, GROUP));
        assert_eq!(large.gain, Some(2.5));
    }

    #[test]
    fn a_helper_is_only_for_siblings() {
        let siblings = Host {
            siblings: true,
            ..HOST
        };
        let choice = choose(&work(64), &siblings, Some(&calibration()));
        assert_eq!(choice.mode.hiding, AHEAD);
    }

    #[test]
    fn order_and_small_work_keep_one_thread() {
        let free = Work {
            ordered: false,
            threads: 2,
            ..work(64)
        };
        let threads = |work: &Work| choose(work, &HOST, None).mode.threads;
        assert_eq!(threads(&free), Threads::BiThreaded(2));
        assert_eq!(
            threads(&Work {
                ordered: true,
                ..free
            }),
            Threads::One
        );
        assert_eq!(threads(&Work { tuples: 100, ..free }), Threads::One);
        assert_eq!(
            choose(&Work { tuples: 10, ..free }, &HOST, None).mode,
            Mode::PLAIN
        );
    }

    #[test]
    fn without_calibration_the_l2_decides() {
        assert_eq!(choose(&work(1), &HOST, None).mode, Mode::PLAIN);
        assert_eq!(choose(&work(2), &HOST, None).mode.hiding, UNCALIBRATED);
        let chains = Work {
            even: false,
            ..work(2)
        };
        assert_eq!(choose(&chains, &HOST, None).mode.hiding, UNCALIBRATED_UNEVEN);
    }

    #[test]
    fn probes_prefetch_from_where_it_never_loses_again() {
        let probe = |mib: u64, plain_ns, prefetch_ns| ProbePoint {
            table: Bytes::mib(mib),
            plain_ns,
            prefetch_ns,
        };
        let from = |probes: Vec<ProbePoint>| {
            Calibration {
                probes,
                ..Calibration::default()
            }
            .prefetch_probes_from()
        };
        let rising = vec![
            probe(64, 9.0, 5.0),
            probe(1, 2.0, 1.9),
            probe(4, 3.0, 3.1),
            probe(16, 6.0, 4.0),
        ];
        assert_eq!(from(rising), Some(Bytes::mib(16)));
        assert_eq!(from(vec![probe(1, 1.0, 2.0)]), None);
        assert_eq!(from(Vec::new()), None);
    }
}
