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
//! Without a calibration a rule of thumb decides by the size of the L2. Not here: running the kernel (`corun_exec::stage`) and
//! keeping its result (`corun-topology`).

use serde::{Deserialize, Serialize};

use crate::operators::mode::{Hiding, Mode, Schedule, Threads};
use crate::units::Bytes;

/// A staged mode must take at most this share of plain code's time to be chosen: below, it is within the noise of two runs of
/// the same code, and plain code has no start-up cost.
const WORTH_STAGING: f64 = 0.95;

/// AMAC and pipelines must take at most this share of the best group's time to be chosen before it. The kernel has one kind of
/// stage; operators have several, and where tuples at different stages take turns their branches are mispredicted. Hash joins
/// were 5 to 20 % slower with AMAC where the kernel saw a tie (`records/2026-11-21-vm/smt.csv`, `fig6b_hash_join`).
const BEFORE_GROUPS: f64 = 0.9;

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

/// Times of the kernel at one working set, on one thread or bi-threaded: two threads share the memory's bandwidth, and the
/// schedule that is best alone is not always best then.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Point {
    /// Threads that shared the tuples: 1, or 2 for a bi-threaded run.
    pub threads: usize,
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
    let two = work.threads >= 2 && !work.ordered && work.tuples >= TUPLES_MIN_THREADED;
    let point = |threads| calibration.and_then(|calibration| calibration.nearest(work, threads));
    let best = if work.tuples < TUPLES_MIN {
        Best::PLAIN
    } else {
        match point(if two { 2 } else { 1 }) {
            Some(point) => point.best(host.siblings && !two),
            None if work.table.0 <= host.l2.0 / 2 => Best::PLAIN,
            None if is_even(work) => Best::guess(UNCALIBRATED),
            None => Best::guess(UNCALIBRATED_UNEVEN),
        }
    };
    // The second thread of a core can be a partner or a helper.
    if let (true, true, Some(alone)) = (two, host.siblings, point(1)) {
        let helped = alone.best(true);
        if let (Some(Hiding::WorkAhead(_)), Some(ns), Some(other)) = (helped.hiding, helped.ns, best.ns)
            && ns < other
        {
            return helped.on(Threads::One);
        }
    }
    best.on(if two {
        Threads::BiThreaded(u8::try_from(work.threads).unwrap_or(u8::MAX).min(THREADS_MAX))
    } else {
        Threads::One
    })
}

/// The winner at a point.
struct Best {
    /// `None`: plain code.
    hiding: Option<Hiding>,
    /// Its time.
    ns: Option<f64>,
    gain: Option<f64>,
}

impl Best {
    const PLAIN: Best = Best {
        hiding: None,
        ns: None,
        gain: None,
    };

    fn guess(hiding: Hiding) -> Best {
        Best {
            hiding: Some(hiding),
            ..Best::PLAIN
        }
    }

    fn on(&self, threads: Threads) -> Choice {
        let mode = match self.hiding {
            Some(hiding) => Mode::staged(threads, hiding),
            None => Mode {
                threads,
                ..Mode::PLAIN
            },
        };
        Choice {
            mode,
            gain: self.gain,
        }
    }
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

    /// Whether bi-threaded runs were measured too.
    pub fn has_bi_threaded(&self) -> bool {
        self.points.iter().any(|point| point.threads == 2)
    }

    /// The point measured with so many threads (or, for want of one, with another number) that resembles `work` most: same
    /// evenness if there is one, then references and bytes, by ratio.
    fn nearest(&self, work: &Work, threads: usize) -> Option<&Point> {
        let even = is_even(work);
        let distance = |point: &Point| {
            let apart = |a: f64, b: f64| (a.max(1.0) / b.max(1.0)).ln().abs();
            let bytes = apart(point.table.0 as f64, work.table.0 as f64);
            let references = apart(point.references, work.references);
            let shape = if point.even == even { 0.0 } else { 1.0 };
            // Threads count before all else.
            (point.threads != threads, bytes + references + shape)
        };
        self.points.iter().min_by(|a, b| {
            let (a, b) = (distance(a), distance(b));
            a.0.cmp(&b.0).then(a.1.total_cmp(&b.1))
        })
    }
}

impl Point {
    /// The technique that won here with what it gained, or none if plain code was not clearly beaten.
    fn best(&self, helper: bool) -> Best {
        let allowed = |timing: &&Timing| helper || !matches!(timing.hiding, Hiding::WorkAhead(_));
        let handicapped = |timing: &Timing| match timing.hiding {
            Hiding::Prefetch {
                schedule: Schedule::Amac | Schedule::Pipeline,
                ..
            } => timing.ns / BEFORE_GROUPS,
            _ => timing.ns,
        };
        let best = self
            .staged
            .iter()
            .filter(allowed)
            .min_by(|a, b| handicapped(a).total_cmp(&handicapped(b)));
        match best {
            Some(timing) if timing.ns <= self.plain_ns * WORTH_STAGING => Best {
                hiding: Some(timing.hiding),
                ns: Some(timing.ns),
                gain: Some(self.plain_ns / timing.ns),
            },
            _ => Best {
                hiding: None,
                ns: Some(self.plain_ns),
                gain: Some(1.0),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::operators::mode::WorkAhead;

    const GROUP: Hiding = Hiding::Prefetch {
        schedule: Schedule::Group,
        distance: 16,
    };
    const AHEAD: Hiding = Hiding::WorkAhead(WorkAhead::PAPER);

    fn calibration() -> Calibration {
        let point = |mib: u64, plain_ns: f64, group: f64, ahead: f64| Point {
            threads: 1,
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
    fn two_threads_go_by_what_two_threads_took() {
        const AMAC: Hiding = Hiding::Prefetch {
            schedule: Schedule::Amac,
            distance: 32,
        };
        let mut calibration = calibration();
        assert!(!calibration.has_bi_threaded());
        calibration.points.push(Point {
            threads: 2,
            table: Bytes::mib(64),
            references: 4.0,
            even: true,
            plain_ns: 60.0,
            staged: vec![
                Timing {
                    hiding: GROUP,
                    ns: 35.0,
                },
                Timing {
                    hiding: AMAC,
                    ns: 31.0,
                },
            ],
        });
        assert!(calibration.has_bi_threaded());
        let free = Work {
            ordered: false,
            threads: 2,
            ..work(64)
        };
        let mode = |host: &Host| choose(&free, host, Some(&calibration)).mode;
        assert_eq!(mode(&HOST), Mode::staged(Threads::BiThreaded(2), AMAC));
        assert_eq!(choose(&work(64), &HOST, Some(&calibration)).mode.hiding, GROUP);
        // A tie goes to the group.
        let mut tied = calibration.clone();
        tied.points[2].staged[1].ns = 33.0;
        assert_eq!(choose(&free, &HOST, Some(&tied)).mode.hiding, GROUP);
        // On a core with two threads the helper took 30 ns, a partner 31.
        let siblings = Host {
            siblings: true,
            ..HOST
        };
        assert_eq!(mode(&siblings), Mode::staged(Threads::One, AHEAD));
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
