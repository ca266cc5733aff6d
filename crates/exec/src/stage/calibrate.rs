//! [`calibrate`]: measures on this machine, in a fraction of a second, which technique pays where.
//!
//! The kernel follows links through lines in random order: the dependent references of every staged operator and nothing
//! else. It runs plain and staged in memory the size of a private cache, of a shared one, and beyond; the times go to
//! `corun_model::operators::technique`, which decides. Results depend on what else the machine does at that moment, so the least of a few
//! runs counts. Beside the kernel stands the join table's own probe, with and without prefetching.

use std::time::Instant;

use corun_model::operators::mode::{Hiding, Mode, Schedule, Threads, WorkAhead};
use corun_model::operators::technique::{Calibration, Point, Timing};
use corun_model::units::Bytes;

use super::context::Context;
use super::reference::Reference;
use super::run::{Options, run};
use super::{Staged, Step};
use crate::huge::{HugeBuf, OutOfMemory, Plain};
use crate::table::{BuildError, probe_times};

/// What to measure.
#[derive(Clone, Copy)]
pub struct Scope<'s> {
    /// A core's private L2: the smallest working set is half of it.
    pub l2: Bytes,
    /// The largest working set, beyond the shared cache if it may be that large.
    pub bytes_max: Bytes,
    /// Tuples a run; the more, the steadier.
    pub tuples: usize,
    /// Runs of each technique, of which the fastest counts.
    pub repetitions: usize,
    /// Where partners run, if bi-threaded runs are to be measured too; it takes as long again.
    pub bi_threaded: Option<&'s Options<'s>>,
    /// Where helpers run, if work-ahead sets are to be measured: on machines with SMT siblings.
    pub work_ahead: Option<&'s Options<'s>>,
}

impl Scope<'_> {
    /// About a quarter of a second: up to 64 MiB, 20,000 tuples a run, three runs.
    pub fn short(l2: Bytes) -> Scope<'static> {
        Scope {
            l2,
            bytes_max: Bytes(64 << 20).max(Bytes(l2.0.saturating_mul(8))),
            tuples: 20_000,
            repetitions: 3,
            bi_threaded: None,
            work_ahead: None,
        }
    }
}

/// The techniques measured beside plain code.
const CANDIDATES: [(Schedule, u16); 6] = [
    (Schedule::Group, 16),
    (Schedule::Group, 32),
    (Schedule::Group, 64),
    (Schedule::Amac, 16),
    (Schedule::Amac, 32),
    (Schedule::Pipeline, 8),
];

/// References a tuple makes, and whether each makes as many: a hash bucket, a tree, a chain.
const SHAPES: [(u32, bool); 3] = [(1, true), (4, true), (4, false)];

/// One line of the kernel's memory.
#[derive(Clone, Copy)]
#[repr(C, align(64))]
struct Link {
    next: u32,
    rest: [u32; 15],
}

// SAFETY: integers without padding.
unsafe impl Plain for Link {}

/// Follows links.
struct Chase<'a> {
    links: &'a [Link],
    tuples: usize,
    references: u32,
    even: bool,
    /// Other tuples for each run: the lines of the last one may still be in a near cache.
    salt: u64,
}

#[derive(Clone, Copy, Default)]
struct Place {
    at: u32,
    left: u32,
}

impl Chase<'_> {
    /// Where a tuple begins and how many links it follows.
    #[inline(always)]
    fn first(&self, tuple: usize) -> Place {
        let spread = (tuple as u64 + self.salt).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let at = ((u128::from(spread) * self.links.len() as u128) >> 64) as u32;
        let left = if self.even {
            self.references
        } else {
            // 1 to 2r - 1, r on average.
            1 + (spread >> 32) as u32 % (2 * self.references - 1)
        };
        Place { at, left }
    }
}

impl<'a> Staged<'a, 1> for Chase<'a> {
    type State = Place;
    type Output = u64;
    const REFERENCES_MIN: usize = 1;

    fn tuples(&self) -> usize {
        self.tuples
    }

    fn stages(&self) -> usize {
        self.references as usize
    }

    #[inline(always)]
    fn begin<C: Context<'a>>(&self, tuple: usize, place: &mut Place, _: &mut u64, context: &mut C) {
        *place = self.first(tuple);
        context.need(Reference::to(&self.links[place.at as usize]));
    }

    #[inline(always)]
    fn resume<C: Context<'a>>(&self, place: &mut Place, sum: &mut u64, context: &mut C) -> Step {
        let link = &self.links[place.at as usize];
        place.at = link.next;
        place.left -= 1;
        if place.left == 0 {
            *sum += u64::from(link.next);
            return Step::Done;
        }
        context.need(Reference::to(&self.links[place.at as usize]));
        Step::Wait
    }

    #[inline(always)]
    fn plain<C: Context<'a>>(&self, tuple: usize, sum: &mut u64, _: &mut C) {
        let mut place = self.first(tuple);
        for _ in 0..place.left {
            place.at = self.links[place.at as usize].next;
        }
        *sum += u64::from(place.at);
    }
}

/// Links in one random cycle, so that no chain is short and none is in order (Sattolo's shuffle).
fn links(bytes: usize) -> Result<HugeBuf<Link>, OutOfMemory> {
    let count = (bytes / size_of::<Link>()).max(2);
    let mut links = HugeBuf::<Link>::zeroed(count)?;
    for (number, link) in links.iter_mut().enumerate() {
        link.next = number as u32;
        link.rest[0] = number as u32;
    }
    let mut random = 0x2545_f491_4f6c_dd1d_u64;
    for last in (1..count).rev() {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        let other = (random % last as u64) as usize;
        let next = links[last].next;
        links[last].next = links[other].next;
        links[other].next = next;
    }
    Ok(links)
}

/// Measures.
///
/// # Errors
/// When there is no memory for [`Scope::bytes_max`].
///
/// # Panics
/// If a technique gave another answer than plain code, which would be a defect of this crate.
pub fn calibrate(scope: &Scope<'_>) -> Result<Calibration, BuildError> {
    let mut hidings: Vec<(Hiding, Options<'_>)> = CANDIDATES
        .iter()
        .map(|&(schedule, distance)| (Hiding::Prefetch { schedule, distance }, Options::default()))
        .collect();
    if let Some(options) = scope.work_ahead {
        hidings.push((Hiding::WorkAhead(WorkAhead::PAPER), *options));
    }
    let small = scope.l2.0 / 2;
    let middle = (scope.l2.0.saturating_mul(4)).min(scope.bytes_max.0);
    let mut sizes = vec![small, scope.l2.0.saturating_mul(2), middle, scope.bytes_max.0];
    sizes.sort_unstable();
    sizes.dedup();

    let mut points = Vec::new();
    for &bytes in &sizes {
        let links = links(usize::try_from(bytes).unwrap_or(usize::MAX))?;
        for (references, even) in SHAPES {
            let mut chase = Chase {
                links: &links,
                tuples: scope.tuples,
                references,
                even,
                salt: 0,
            };
            let mut least_ns = |mode: Mode, options: &Options<'_>| {
                let mut least = f64::INFINITY;
                for _ in 0..scope.repetitions.max(1) {
                    chase.salt += scope.tuples as u64;
                    let answer = |mode: Mode, options: &Options<'_>| {
                        let mut sums = vec![0; mode.workers()];
                        run(mode, &[&chase], &mut sums, options).expect("calibrated modes are valid");
                        sums.iter().sum::<u64>()
                    };
                    let begin = Instant::now();
                    let sum = answer(mode, options);
                    least = least.min(begin.elapsed().as_nanos() as f64 / scope.tuples as f64);
                    assert_eq!(
                        sum,
                        answer(Mode::PLAIN, &Options::default()),
                        "{mode} lost a tuple"
                    );
                }
                least
            };
            let mut point = |threads: Threads, plain: &Options<'_>, hidings: &[(Hiding, Options<'_>)]| {
                let plain_mode = Mode {
                    threads,
                    ..Mode::PLAIN
                };
                let mut staged = |(hiding, options): &(Hiding, Options<'_>)| Timing {
                    hiding: *hiding,
                    ns: least_ns(Mode::staged(threads, *hiding), options),
                };
                let staged = hidings.iter().map(&mut staged).collect();
                points.push(Point {
                    threads: plain_mode.workers(),
                    table: Bytes(bytes),
                    references: f64::from(references),
                    even,
                    plain_ns: least_ns(plain_mode, plain),
                    staged,
                });
            };
            point(Threads::One, &Options::default(), &hidings);
            if let Some(options) = scope.bi_threaded {
                let prefetches = CANDIDATES
                    .map(|(schedule, distance)| (Hiding::Prefetch { schedule, distance }, *options));
                point(Threads::BiThreaded(2), options, &prefetches);
            }
        }
    }
    let sizes: Vec<Bytes> = sizes.into_iter().map(Bytes).collect();
    let probes = probe_times(&sizes, scope.tuples, scope.repetitions)?;
    Ok(Calibration { points, probes })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_point_has_every_technique_and_the_answers_agree() {
        let scope = Scope {
            l2: Bytes::kib(16),
            bytes_max: Bytes::kib(64),
            tuples: 500,
            repetitions: 1,
            bi_threaded: Some(&Options::default()),
            work_ahead: Some(&Options::default()),
        };
        let calibration = calibrate(&scope).expect("64 KiB");
        assert_eq!(calibration.points.len(), 3 * SHAPES.len() * 2);
        assert!(calibration.has_bi_threaded());
        assert_eq!(calibration.probes.len(), 3);
        for point in &calibration.points {
            assert!(point.plain_ns > 0.0);
            let helped = usize::from(point.threads == 1);
            assert_eq!(point.staged.len(), CANDIDATES.len() + helped);
        }
    }

    #[test]
    fn the_links_are_one_cycle() {
        let links = links(64 * 100).expect("small");
        let mut at = 0;
        let mut seen = [false; 100];
        for _ in 0..100 {
            assert!(!std::mem::replace(&mut seen[at], true));
            at = links[at].next as usize;
        }
        assert_eq!(at, 0);
    }
}
