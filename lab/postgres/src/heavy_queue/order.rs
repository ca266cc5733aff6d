//! How long a mix takes on two CPUs in any order, from times alone and slow-downs: the ceiling of co-scheduling.
//!
//! ```text
//!   order  a b c d ...      CPU 0  a────c──────      who is free takes the next; beside b, a goes on at 1 / slow-down(a, b)
//!                           CPU 1  b──d──────
//! ```
//!
//! Pure: no clock, no server. What a scheduler's policy makes of the mix is its own code in the same virtual time
//! ([`played_by`]).

use corun_model::cache::coschedule::{Config, LlcDomain, Owner, PolicyName, Query, QueryId, Scheduler};
use corun_model::cache::locality::Footprint;
use corun_model::cache::slowdown::{SlowdownModel, StatementId};
use corun_model::units::{Bytes, CpuId};

use corun_workloads::numbers::{below, draw};

/// Orders drawn for the middle that arrival by chance gives.
const DRAWN: usize = 400;
/// Starting points of the search for the best and the worst order.
const STARTS: usize = 12;
const SEED: u64 = 0x6d63_6302;
const NANOSECONDS: f64 = 1e9;

/// What runs on a CPU.
#[derive(Clone, Copy, Debug)]
struct Running {
    kind: usize,
    /// The part of the query that is left.
    left: f64,
    /// When it began, in seconds.
    from: f64,
}

/// A query that has ended; times in seconds.
struct Ended {
    kind: usize,
    from: f64,
    to: f64,
}

/// What the kinds of queries of a mix do to each other.
#[derive(Clone, Debug, PartialEq)]
pub struct Matrix {
    /// Seconds alone, by kind; above 0.
    pub alone: Vec<f64>,
    /// `slowdown[a][b]`: time of `a` beside `b` over its time alone; above 0.
    pub slowdown: Vec<Vec<f64>>,
}

impl Matrix {
    /// How much of its time alone a query of `kind` is through with after `seconds` beside `other`.
    fn done(&self, kind: usize, other: Option<usize>, seconds: f64) -> f64 {
        seconds / self.whole(kind, other)
    }

    /// Seconds all of a query takes beside `other`.
    fn whole(&self, kind: usize, other: Option<usize>) -> f64 {
        self.alone[kind] * other.map_or(1.0, |other| self.slowdown[kind][other])
    }

    /// Seconds the mix takes when whoever is free takes the next of `order`, a list of kinds.
    pub fn takes(&self, order: &[usize]) -> f64 {
        let mut waiting = order.iter().copied();
        self.run(&mut || waiting.next(), &mut |_| {})
    }

    /// Virtual time. `next` is asked whenever a CPU is free; `ended` hears of every end.
    fn run(&self, next: &mut dyn FnMut() -> Option<usize>, ended: &mut dyn FnMut(Ended)) -> f64 {
        let mut cpus: [Option<Running>; 2] = [None, None];
        let mut now = 0.0;
        loop {
            for cpu in &mut cpus {
                if cpu.is_none() {
                    *cpu = next().map(|kind| Running {
                        kind,
                        left: 1.0,
                        from: now,
                    });
                }
            }
            let kinds = cpus.map(|cpu| cpu.map(|running| running.kind));
            let left = |place: usize| {
                let Running { kind, left, .. } = cpus[place]?;
                Some(left * self.whole(kind, kinds[1 - place]))
            };
            let Some(step) = [left(0), left(1)].into_iter().flatten().reduce(f64::min) else {
                return now;
            };
            now += step;
            for place in 0..2 {
                if let Some(Running { kind, left, from }) = &mut cpus[place] {
                    *left -= self.done(*kind, kinds[1 - place], step);
                    if *left <= 1e-9 {
                        let end = Ended {
                            kind: *kind,
                            from: *from,
                            to: now,
                        };
                        cpus[place] = None;
                        ended(end);
                    }
                }
            }
        }
    }
}

/// Seconds of a mix, by order.
#[derive(Clone, Debug, PartialEq)]
pub struct Orders {
    /// The median of orders drawn by chance: arrival that nobody plans.
    pub fifo: f64,
    /// The best order found, and it.
    pub best: (f64, Vec<usize>),
    /// The worst.
    pub worst: (f64, Vec<usize>),
    /// Each kind after the other, so that it runs beside its like.
    pub same: f64,
    /// Each query beside one as different in locality as there is: from both ends of the list of kinds.
    pub mixed: f64,
}

/// An order of a mix by chance; the same for the same number.
pub fn drawn(mix: &[usize], number: u64) -> Vec<usize> {
    let mut order = mix.to_vec();
    for last in (1..order.len()).rev() {
        let other = below(draw(SEED, number, last as u64), last as u64 + 1);
        order.swap(last, other as usize);
    }
    order
}

/// Goes on with the best exchange of two places until none helps; `sign` is -1 to look for the worst.
fn climb(matrix: &Matrix, mut order: Vec<usize>, sign: f64) -> (f64, Vec<usize>) {
    let mut takes = matrix.takes(&order);
    loop {
        let mut best: Option<(f64, usize, usize)> = None;
        for first in 0..order.len() {
            for second in first + 1..order.len() {
                if order[first] == order[second] {
                    continue;
                }
                order.swap(first, second);
                let changed = matrix.takes(&order);
                order.swap(first, second);
                let helps = sign * changed < sign * best.map_or(takes, |(found, ..)| found) - 1e-9;
                if helps {
                    best = Some((changed, first, second));
                }
            }
        }
        let Some((changed, first, second)) = best else {
            return (takes, order);
        };
        order.swap(first, second);
        takes = changed;
    }
}

/// What orders of a mix could take. `mix` lists kinds, from strong to weak.
pub fn orders(matrix: &Matrix, mix: &[usize]) -> Orders {
    let mut chance: Vec<f64> = (0..DRAWN as u64)
        .map(|number| matrix.takes(&drawn(mix, number)))
        .collect();
    chance.sort_by(f64::total_cmp);
    let extreme = |sign: f64| {
        let starts = (0..STARTS as u64).map(|number| climb(matrix, drawn(mix, number), sign));
        let better = |a: (f64, Vec<usize>), b: (f64, Vec<usize>)| if sign * b.0 < sign * a.0 { b } else { a };
        starts.reduce(better).unwrap_or_default()
    };
    let mut sorted = mix.to_vec();
    sorted.sort_unstable();
    let (first, second) = sorted.split_at(sorted.len() / 2);
    let mut ends = Vec::with_capacity(sorted.len());
    let mut back = second.iter().rev();
    for &kind in first {
        ends.push(kind);
        ends.extend(back.next());
    }
    ends.extend(back);
    Orders {
        fifo: chance.get(chance.len() / 2).copied().unwrap_or_default(),
        best: extreme(1.0),
        worst: extreme(-1.0),
        same: matrix.takes(&sorted),
        mixed: matrix.takes(&ends),
    }
}

/// What became of a mix.
#[derive(Clone, Debug, PartialEq)]
pub struct Played {
    /// Seconds to the end of the last.
    pub seconds: f64,
    /// Kind of each query and its time over its time alone, as they ended.
    pub slowdowns: Vec<(usize, f64)>,
}

impl Played {
    /// The mean slow-down of the queries of these kinds; `None` without any.
    pub fn mean(&self, of: impl Fn(usize) -> bool) -> Option<f64> {
        let of: Vec<f64> = self
            .slowdowns
            .iter()
            .filter(|(kind, _)| of(*kind))
            .map(|(_, slowdown)| *slowdown)
            .collect();
        (!of.is_empty()).then(|| of.iter().sum::<f64>() / of.len() as f64)
    }
}

/// What becomes of the mix when the scheduler itself chooses, all queries waiting from the begin in the order `order`; what each kind keeps in
/// the cache is `footprints`. With `partitioner` it believes that weak queries are kept apart. `None` if it cannot be set up so.
pub fn played_by(
    matrix: &Matrix,
    order: &[usize],
    footprints: &[Footprint],
    cache: Bytes,
    policy: PolicyName,
    partitioner: bool,
) -> Option<Played> {
    let domain = LlcDomain {
        cache,
        cpus: vec![CpuId(0), CpuId(1)],
    };
    let mut config = Config::new(policy, partitioner, vec![domain]);
    // Nothing bypasses: the mix is what is to be ordered.
    config.short_below_ns = 0.0;
    config.waiting_max = order.len().max(1);
    let thresholds = config.thresholds;
    let classifier = corun_model::cache::locality::Classifier::new(cache, thresholds).ok()?;
    let scheduler = std::cell::RefCell::new(Scheduler::new(config, SlowdownModel::default()).ok()?);
    let classes: Vec<_> = footprints
        .iter()
        .map(|&footprint| {
            scheduler
                .borrow()
                .slowdowns()
                .class_of(classifier.locality(footprint))
        })
        .collect();
    for (number, &kind) in order.iter().enumerate() {
        let query = Query {
            id: QueryId(number as u64),
            statement: StatementId(kind as u64),
            class: classes[kind],
            footprint: footprints[kind],
            expected_ns: Some(matrix.alone[kind] * NANOSECONDS),
            parts: 0,
            owner: Owner::default(),
        };
        scheduler.borrow_mut().arrive(0, query).ok()?;
    }
    let started = std::cell::RefCell::new(std::collections::VecDeque::new());
    let running = std::cell::RefCell::new(Vec::<usize>::new());
    let mut next = || {
        let mut started = started.borrow_mut();
        if started.is_empty() {
            started.extend(
                scheduler
                    .borrow_mut()
                    .dispatch()
                    .into_iter()
                    .map(|start| start.id.0 as usize),
            );
        }
        let number: usize = started.pop_front()?;
        running.borrow_mut().push(number);
        Some(order[number])
    };
    let mut slowdowns = Vec::with_capacity(order.len());
    let mut ended = |end: Ended| {
        slowdowns.push((end.kind, (end.to - end.from) / matrix.alone[end.kind]));
        let mut running = running.borrow_mut();
        let Some(place) = running.iter().position(|&number| order[number] == end.kind) else {
            return;
        };
        let number = running.remove(place);
        // A refusal could only be of a query it never started.
        let _ = scheduler
            .borrow_mut()
            .finish((end.to * NANOSECONDS) as u64, QueryId(number as u64));
    };
    let seconds = matrix.run(&mut next, &mut ended);
    Some(Played { seconds, slowdowns })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Kind 0 is hurt by kind 1 and nobody else is hurt.
    fn polluted() -> Matrix {
        Matrix {
            alone: vec![1.0, 1.0],
            slowdown: vec![vec![1.0, 2.0], vec![1.0, 1.0]],
        }
    }

    #[test]
    fn time_goes_on_at_the_pace_of_the_pair() {
        let matrix = polluted();
        assert!((matrix.takes(&[0]) - 1.0).abs() < 1e-6);
        assert!((matrix.takes(&[0, 0, 1, 1]) - 2.0).abs() < 1e-6);
        // The first hash join is through half when the index join ends, and then hurt by the next.
        assert!((matrix.takes(&[0, 1, 1, 0]) - 3.0).abs() < 1e-6);
        assert_eq!(matrix.takes(&[]), 0.0);
    }

    #[test]
    fn the_best_order_keeps_apart_who_hurts() {
        let found = orders(&polluted(), &[0, 0, 1, 1]);
        assert!((found.best.0 - 2.0).abs() < 1e-6 && (found.same - 2.0).abs() < 1e-6);
        assert!(found.worst.0 > 2.4 && found.mixed > 2.4, "{found:?}");
        assert!(found.best.0 <= found.fifo && found.fifo <= found.worst.0);
    }

    #[test]
    fn the_scheduler_finds_what_the_paper_says() {
        let matrix = polluted();
        let footprints = [Footprint::Tables(Bytes::mib(8)), Footprint::Streams];
        let of = |policy| {
            let played = played_by(&matrix, &[0, 1, 0, 1], &footprints, Bytes::mib(8), policy, false);
            played.map(|played| played.seconds)
        };
        let (fifo, sls) = (
            of(PolicyName::Fifo).expect("possible"),
            of(PolicyName::Sls).expect("possible"),
        );
        assert!((sls - 2.0).abs() < 1e-6 && fifo > 2.4, "{fifo} {sls}");
        let played = played_by(
            &matrix,
            &[0, 1, 0, 1],
            &footprints,
            Bytes::mib(8),
            PolicyName::Fifo,
            false,
        );
        let played = played.expect("possible");
        let [hash, index] = [0, 1].map(|kind| played.mean(|of| of == kind).expect("two of each"));
        assert!(played.slowdowns.len() == 4 && hash > 1.4 && (index - 1.0).abs() < 1e-6);
        assert_eq!(played.mean(|kind| kind == 2), None);
    }

    proptest! {
        /// Every order of every mix takes at least half of the work alone and at most all of it at the worst pace; best and worst bound what
        /// orders by chance and every policy take.
        #[test]
        fn orders_are_bounded(
            alone in prop::collection::vec(0.1f64..3.0, 3),
            slow in prop::collection::vec(1.0f64..2.5, 9),
            mix in prop::collection::vec(0usize..3, 1..7),
            number in 0u64..100,
        ) {
            let matrix = Matrix {
                alone,
                slowdown: slow.chunks(3).map(<[f64]>::to_vec).collect(),
            };
            let work: f64 = mix.iter().map(|&kind| matrix.alone[kind]).sum();
            let worst: f64 = slow.iter().copied().fold(1.0, f64::max);
            let takes = matrix.takes(&drawn(&mix, number));
            prop_assert!(takes >= work / 2.0 - 1e-6 && takes <= work * worst + 1e-6, "{takes} {work}");
            let found = orders(&matrix, &mix);
            prop_assert!(found.best.0 <= found.fifo + 1e-9 && found.fifo <= found.worst.0 + 1e-9);
            let mut sorted = found.best.1.clone();
            sorted.sort_unstable();
            let mut given = mix.clone();
            given.sort_unstable();
            prop_assert_eq!(sorted, given);
            let footprints = [Footprint::Tables(Bytes::mib(1)), Footprint::Tables(Bytes::mib(8)), Footprint::Streams];
            for policy in [PolicyName::Fifo, PolicyName::Sls, PolicyName::Learned, PolicyName::Auto] {
                let takes = played_by(&matrix, &mix, &footprints, Bytes::mib(8), policy, false);
                let takes = takes.map(|played| played.seconds);
                prop_assert!(takes.is_some_and(|takes| takes >= work / 2.0 - 1e-6 && takes <= work * worst + 1e-6));
            }
        }
    }
}
