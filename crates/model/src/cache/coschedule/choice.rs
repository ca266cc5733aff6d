//! The policies' rules: which waiting query is started next, and in which domain.
//!
//! A rule reads the scheduler and changes nothing. Before any of them comes age: see the proof in the module above.

use std::collections::BTreeMap;

use super::turns::Turn;
use super::{Policy, Query, Scheduler, Waiting, Why};
use crate::cache::locality::PlanQueue;
use crate::cache::plan_choice::Balance;
use crate::cache::slowdown::StatementClass;

impl Scheduler {
    /// Next to start: its place in the queue, its domain, and why. `None` if nobody waits or no CPU is free.
    pub(super) fn pick(&self) -> Option<(usize, usize, Why)> {
        let turn = self.turns.next(&self.waiting);
        let (first, oldest) = self.of_turn(turn).next()?;
        let seats: Vec<Seats> = (0..self.config.domains.len())
            .map(|domain| self.seats(domain))
            .filter(|seats| seats.free > 0)
            .collect();
        let emptiest = seats.iter().min_by_key(|seats| seats.taken())?;
        if self.policy() == Policy::Fifo {
            return Some((first, emptiest.domain, Why::Oldest));
        }
        if oldest.overtaken >= self.config.overtakes_max {
            return Some((first, self.best_domain(&oldest.query, &seats), Why::Aged));
        }
        if let Some((at, domain)) = self.sharing(&seats, turn) {
            return Some((at, domain.unwrap_or(emptiest.domain), Why::Shares));
        }
        if self.tries_another_order() {
            return Some((first, emptiest.domain, Why::Trial));
        }
        if self.policy() == Policy::Learned {
            return self.pick_by_cost(&seats, turn);
        }
        self.pick_by_queue(&seats, turn)
    }

    /// The oldest that shares a part with a query that runs, and the domain of that one if there is room.
    fn sharing(&self, seats: &[Seats], turn: Turn) -> Option<(usize, Option<usize>)> {
        let room = |domain: usize| seats.iter().any(|seats| seats.domain == domain);
        let running = self.running.iter().map(|run| run.query.parts);
        let bypassing = self.bypassing.iter().map(|bypassing| bypassing.query.parts);
        let about = running.chain(bypassing).fold(0, |all, parts| all | parts);
        let (at, shares) = self
            .of_turn(turn)
            .find(|(_, waiting)| waiting.query.parts & about != 0)?;
        let parts = shares.query.parts;
        let mut with = self.running.iter().filter(|run| run.query.parts & parts != 0);
        Some((at, with.find(|run| room(run.domain)).map(|run| run.domain)))
    }

    /// `sls` and `mls`: the domain and queue with the least conflict. Of equal ones, the emptier domain and the queue whose
    /// oldest query came first.
    fn pick_by_queue(&self, seats: &[Seats], turn: Turn) -> Option<(usize, usize, Why)> {
        let mut best: Option<([usize; 5], (usize, usize, Why))> = None;
        for seats in seats {
            let both_wait = [PlanQueue::Reusing, PlanQueue::Streaming]
                .iter()
                .all(|&queue| self.in_queue(queue, seats.domain, turn).next().is_some());
            for queue in [PlanQueue::Reusing, PlanQueue::Streaming] {
                let Some((oldest, _)) = self.in_queue(queue, seats.domain, turn).next() else {
                    continue;
                };
                // Under `sls`, joining its like leaves an empty domain to the other kind, if that waits too.
                let splits = self.policy() == Policy::Sls && both_wait && seats.of(queue) == 0;
                let key = [
                    self.conflict(queue, seats),
                    usize::from(splits),
                    seats.taken(),
                    oldest,
                    seats.domain,
                ];
                if best.is_none_or(|(least, _)| key < least) {
                    let at = self.next_of(queue, seats.domain, both_wait, oldest, turn);
                    let why = match (seats.taken(), seats.of(queue) >= seats.of(queue.other())) {
                        (0, _) => Why::Alone,
                        (_, true) => Why::SameQueue,
                        (_, false) => Why::OtherQueue,
                    };
                    best = Some((key, (at, seats.domain, why)));
                }
            }
        }
        best.map(|(_, picked)| picked)
    }

    /// How many of those that run in a domain the policy would keep apart from a plan of this queue.
    fn conflict(&self, queue: PlanQueue, seats: &Seats) -> usize {
        match self.policy() {
            Policy::Mls => seats.of(queue),
            _ => seats.of(queue.other()),
        }
    }

    /// Which of a queue is next: the smallest tables first where plans of strong and moderate locality run beside each
    /// other (paper 002, section 5.2), else the oldest.
    fn next_of(&self, queue: PlanQueue, domain: usize, both_wait: bool, oldest: usize, turn: Turn) -> usize {
        let beside_its_like = self.policy() == Policy::Sls || !both_wait;
        if queue == PlanQueue::Streaming || !beside_its_like {
            return oldest;
        }
        let smallest = self
            .in_queue(queue, domain, turn)
            .min_by_key(|(at, waiting)| (waiting.query.footprint.bytes(), *at));
        smallest.map_or(oldest, |(at, _)| at)
    }

    /// `learned`: the class and domain with the least cost there, compared with what the class would cost beside an average one
    /// of those that wait. Without that comparison the harmless ones would go first, and leave the harmful ones to each other.
    /// While there are fewer queries than free CPUs only the emptiest domains come into question.
    fn pick_by_cost(&self, seats: &[Seats], turn: Turn) -> Option<(usize, usize, Why)> {
        // First of each class, and how many there are.
        let mut classes: BTreeMap<StatementClass, (usize, usize)> = BTreeMap::new();
        for (at, waiting) in self.of_turn(turn) {
            classes.entry(waiting.query.class).or_insert((at, 0)).1 += 1;
        }
        let others = classes.values().map(|(_, count)| count).sum::<usize>() - 1;
        let free: usize = seats.iter().map(|seats| seats.free).sum();
        let fewest = seats.iter().map(Seats::taken).min()?;
        let all_fill = self.waiting.len() >= free;
        let mut best: Option<(f64, usize, &Seats)> = None;
        for seats in seats.iter().filter(|seats| all_fill || seats.taken() == fewest) {
            for (&class, &(at, _)) in &classes {
                let elsewhere: f64 = classes
                    .iter()
                    .map(|(&other, &(_, count))| {
                        let count = count - usize::from(other == class);
                        count as f64 * self.conflict_hoped(class, other)
                    })
                    .sum();
                let average = elsewhere / others.max(1) as f64;
                let regret = self.cost(class, seats.domain) - seats.taken() as f64 * average;
                // Of equals the older, then the emptier domain.
                let better = best.is_none_or(|(least, oldest, there)| {
                    let order = regret.total_cmp(&least).then(at.cmp(&oldest));
                    order.then(seats.taken().cmp(&there.taken())).is_lt()
                });
                if better {
                    best = Some((regret, at, seats));
                }
            }
        }
        best.map(|(_, at, seats)| {
            let why = if seats.taken() == 0 {
                Why::Alone
            } else {
                Why::Learned
            };
            (at, seats.domain, why)
        })
    }

    /// What a query of this class and those that run in a domain cost each other.
    fn cost(&self, class: StatementClass, domain: usize) -> f64 {
        let beside = self.running.iter().filter(|run| run.domain == domain);
        beside
            .map(|run| self.conflict_hoped(class, run.query.class))
            .sum()
    }

    /// What two queries of these classes cost each other at best: what both lose of their speed alone. Hoped for, not
    /// likely, so that pairs that were never tried are.
    fn conflict_hoped(&self, a: StatementClass, b: StatementClass) -> f64 {
        let excess = |victim, corunner| self.model.slowdown_hoped(victim, corunner).map(|s| s - 1.0);
        // Classes were checked on arrival.
        excess(a, b).unwrap_or(0.0) + excess(b, a).unwrap_or(0.0)
    }

    /// Where a query that must start now does least harm.
    fn best_domain(&self, query: &Query, seats: &[Seats]) -> usize {
        let best = if self.policy() == Policy::Learned {
            let harm = |seats: &Seats| self.cost(query.class, seats.domain);
            seats
                .iter()
                .min_by(|a, b| a.taken().cmp(&b.taken()).then(harm(a).total_cmp(&harm(b))))
        } else {
            seats.iter().min_by_key(|seats| {
                let queue = self.queue_in(query, seats.domain);
                (self.conflict(queue, seats), seats.taken())
            })
        };
        best.expect("a domain with a free CPU").domain
    }

    fn queue_in(&self, query: &Query, domain: usize) -> PlanQueue {
        self.classifiers[domain].locality(query.footprint).queue()
    }

    /// Those that wait and belong to this queue, seen from a domain, with their places.
    fn in_queue(
        &self,
        queue: PlanQueue,
        domain: usize,
        turn: Turn,
    ) -> impl Iterator<Item = (usize, &Waiting)> {
        self.of_turn(turn)
            .filter(move |(_, waiting)| self.queue_in(&waiting.query, domain) == queue)
    }

    /// Those that wait and may be started next, with their places, in order of arrival.
    fn of_turn(&self, turn: Turn) -> impl Iterator<Item = (usize, &Waiting)> {
        let all = self.waiting.iter().enumerate();
        all.filter(move |(_, waiting)| turn.has(waiting))
    }

    fn seats(&self, domain: usize) -> Seats {
        let mut seats = Seats {
            domain,
            free: self.config.domains[domain].cpus.len(),
            running: Balance::default(),
        };
        for run in self.running.iter().filter(|run| run.domain == domain) {
            seats.free -= run.cpus.len();
            seats.running.add(self.queue_in(&run.query, domain));
        }
        seats
    }
}

/// Who sits on the CPUs of a domain.
#[derive(Clone, Copy)]
struct Seats {
    domain: usize,
    free: usize,
    running: Balance,
}

impl Seats {
    fn taken(&self) -> usize {
        self.running.reusing + self.running.streaming
    }

    fn of(&self, queue: PlanQueue) -> usize {
        match queue {
            PlanQueue::Reusing => self.running.reusing,
            PlanQueue::Streaming => self.running.streaming,
        }
    }
}
