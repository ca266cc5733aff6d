//! [`trace`]: a run on one thread that reports every access, for cache simulation.
//!
//! Threads take turns: every worker advances by one bit of work, then each helper looks at some entries. So a trace is the
//! same every time, and no run that is timed pays for it. What it shows is which lines are touched by whom and in what
//! order; it says nothing about time.

use corun_model::operators::mode::{Hiding, Mode, Schedule, Staging};
use corun_model::operators::trace::{Access, Event, Sink, ThreadRole};

use super::Staged;
use super::context::{Context, Posting, Prefetching, Quiet, Traced};
use super::drivers::{Ahead, Driver, Group, Pipeline, Plain, Ring, Tuples};
use super::run::{RunError, UNHIDDEN_IN_FLIGHT, check};
use super::work_ahead::{Helper, Looked, WorkAheadSet};

/// Takes the events of a traced run.
pub trait Events {
    /// The next event.
    fn event(&mut self, event: Event);
}

impl<F: FnMut(Event)> Events for F {
    fn event(&mut self, event: Event) {
        self(event);
    }
}

/// Gives accesses the role of the thread that makes them.
struct As<'e, E> {
    role: ThreadRole,
    events: &'e mut E,
}

impl<E: Events> Sink for As<'_, E> {
    fn access(&mut self, access: Access, address: usize, bytes: usize) {
        self.events.event(Event {
            role: self.role,
            access,
            address: address as u64,
            bytes: bytes as u32,
        });
    }
}

/// One worker of the traced run: its turn on an event sink.
trait Worker<E> {
    fn turn(&mut self, events: &mut E) -> bool;
}

struct Driven<'j, 'a, const M: usize, O: Staged<'a, M>, D, C> {
    worker: u8,
    operator: &'j O,
    output: &'j mut O::Output,
    driver: D,
    context: C,
    prefetches: bool,
}

impl<'a, const M: usize, O, D, C, E> Worker<E> for Driven<'_, 'a, M, O, D, C>
where
    O: Staged<'a, M>,
    D: Driver<'a, M, O>,
    C: Context<'a> + Copy,
    E: Events,
{
    fn turn(&mut self, events: &mut E) -> bool {
        let mut sink = As {
            role: ThreadRole::Worker(self.worker),
            events,
        };
        let mut context = Traced {
            inner: self.context,
            prefetches: self.prefetches,
            sink: &mut sink,
        };
        self.driver.advance(self.operator, self.output, &mut context)
    }
}

/// A worker with its helper.
struct Helped<'j, 's, 'a, const M: usize, O: Staged<'a, M>> {
    worker: u8,
    operator: &'j O,
    output: &'j mut O::Output,
    main: Ahead<'s, 'a, O::State, M>,
    helper: Helper<'s, 'a, O::State, M>,
    spin: bool,
    looks: usize,
}

impl<'a, const M: usize, O: Staged<'a, M>, E: Events> Worker<E> for Helped<'_, '_, 'a, M, O> {
    fn turn(&mut self, events: &mut E) -> bool {
        let sink = std::cell::RefCell::new(As {
            role: ThreadRole::Worker(self.worker),
            events,
        });
        let more = self.main.turn(
            self.operator,
            self.output,
            |needs: Posting<'a, M>| Collecting { needs, sink: &sink },
            |context| context.needs,
        );
        let mut sink = sink.into_inner();
        sink.role = ThreadRole::Helper;
        for _ in 0..self.looks {
            let looked = self.helper.step(self.spin, |reference| {
                sink.access(Access::Load, reference.address() as usize, 1);
            });
            if looked == Looked::Unchanged {
                break;
            }
        }
        more
    }
}

/// Collects needs for the set and reports accesses.
struct Collecting<'c, 'a, 'e, E, const M: usize> {
    needs: Posting<'a, M>,
    sink: &'c std::cell::RefCell<As<'e, E>>,
}

impl<'a, E: Events, const M: usize> Context<'a> for Collecting<'_, 'a, '_, E, M> {
    const TRACED: bool = true;

    fn need(&mut self, reference: super::Reference<'a>) {
        self.needs.need(reference);
    }

    fn touch(&mut self, access: Access, address: *const u8, bytes: usize) {
        self.sink.borrow_mut().access(access, address as usize, bytes);
    }
}

/// Runs `operators` in `mode` as [`super::run()`] does, on the calling thread alone, and hands every access to `events`.
///
/// `helper_looks` is how many entries a helper looks at for each one the main thread posts: its relative speed. Accesses to
/// the work-ahead set's own array are not reported; `corun_cachesim::coherence` models those.
///
/// # Errors
/// As [`super::run()`].
pub fn trace<'a, const M: usize, O: Staged<'a, M>, E: Events>(
    mode: Mode,
    operators: &[&O],
    outputs: &mut [O::Output],
    helper_looks: usize,
    events: &mut E,
) -> Result<(), RunError> {
    check(mode, operators.len(), outputs.len())?;
    let workers = mode.workers();
    let mut sets = Vec::new();
    if let Hiding::WorkAhead(ahead) = mode.hiding {
        for _ in 0..workers {
            sets.push(WorkAheadSet::<O::State, M>::new(
                ahead.lines as usize,
                O::REFERENCES_MIN,
            )?);
        }
    }
    let mut sets = sets.iter_mut();
    let mut running: Vec<Box<dyn Worker<E> + '_>> = Vec::with_capacity(workers);
    for (worker, output) in outputs.iter_mut().enumerate() {
        let (operator, share) = match operators {
            [operator] => (*operator, Tuples::share(operator.tuples(), worker, workers)),
            several => (several[worker], Tuples::share(several[worker].tuples(), 0, 1)),
        };
        let worker = worker as u8;
        running.push(match (mode.staging, mode.hiding) {
            (Staging::Plain, _) => driven(worker, operator, output, Plain(share), Quiet, false),
            (Staging::Staged, Hiding::None) => {
                let ring = Ring::new(share, UNHIDDEN_IN_FLIGHT);
                driven(worker, operator, output, ring, Quiet, false)
            }
            (Staging::Staged, Hiding::Prefetch { schedule, distance }) => {
                let distance = usize::from(distance);
                match schedule {
                    Schedule::Group => {
                        let group = Group::new(share, distance);
                        driven(worker, operator, output, group, Prefetching, true)
                    }
                    Schedule::Pipeline => {
                        let pipeline = Pipeline::new(share, distance, operator.stages());
                        driven(worker, operator, output, pipeline, Prefetching, true)
                    }
                    Schedule::Amac => {
                        let ring = Ring::new(share, distance);
                        driven(worker, operator, output, ring, Prefetching, true)
                    }
                }
            }
            (Staging::Staged, Hiding::WorkAhead(ahead)) => {
                let set = sets.next().expect("one set was made for each worker");
                let (main, helper) = set.split(ahead.direction);
                Box::new(Helped {
                    worker,
                    operator,
                    output,
                    main: Ahead::new(share, main),
                    helper,
                    spin: ahead.spin,
                    looks: helper_looks,
                })
            }
        });
    }
    while !running.is_empty() {
        running.retain_mut(|worker| worker.turn(events));
    }
    Ok(())
}

fn driven<'j, 'a, const M: usize, O, D, C, E>(
    worker: u8,
    operator: &'j O,
    output: &'j mut O::Output,
    driver: D,
    context: C,
    prefetches: bool,
) -> Box<dyn Worker<E> + 'j>
where
    O: Staged<'a, M>,
    D: Driver<'a, M, O> + 'j,
    C: Context<'a> + Copy + 'j,
    E: Events,
    'a: 'j,
{
    Box::new(Driven {
        worker,
        operator,
        output,
        driver,
        context,
        prefetches,
    })
}
