//! A machine that runs what the scheduler starts: each query advances at a speed set by who shares its cache.
//!
//! Time is simulated in nanoseconds. Beside every dispatch an oracle with its own books checks what the scheduler promises: no idle
//! CPU, the rule of the policy, at most so many overtakings, nothing left behind.

use std::collections::BTreeMap;

use corun_model::cache::coschedule::{
    Admission, Config, LlcDomain, Owner, Policy, PolicyName, Query, QueryId, Scheduler, Start, Why,
};
use corun_model::cache::locality::{Classifier, Footprint, Locality, PlanQueue, Thresholds};
use corun_model::cache::slowdown::{SlowdownModel, StatementId, prior};
use corun_model::units::{Bytes, CpuId};

/// Slow-down of the first locality beside one of the second, as it really is on this machine.
pub type Truth = fn(Locality, Locality) -> f64;

/// The machine is the paper's.
pub fn as_the_paper_says(victim: Locality, corunner: Locality) -> f64 {
    prior(victim, corunner)
}

/// A query to be.
#[derive(Clone, Debug)]
pub struct Job {
    pub arrives_ns: u64,
    pub alone_ns: u64,
    pub footprint: Footprint,
    /// Cancelled then, if it is still about.
    pub cancelled_ns: Option<u64>,
}

/// A query with a table of so many hundredths of a MiB, of 1 ms; 0 for none.
pub fn job(arrives_ns: u64, hundredths_of_mib: u64) -> Job {
    Job {
        arrives_ns,
        alone_ns: 1_000_000,
        footprint: match hundredths_of_mib {
            0 => Footprint::Streams,
            n => Footprint::Tables(Bytes((n << 20) / 100)),
        },
        cancelled_ns: None,
    }
}

/// The effective cache of every domain.
pub const CACHE: Bytes = Bytes::mib(4);

pub fn locality(footprint: Footprint) -> Locality {
    let classifier = Classifier::new(CACHE, Thresholds::default()).expect("4 MiB");
    classifier.locality(footprint)
}

/// So many domains of so many CPUs.
pub fn domains(domains: u32, cpus: u32) -> Vec<LlcDomain> {
    (0..domains)
        .map(|d| LlcDomain {
            cache: CACHE,
            cpus: (0..cpus).map(|c| CpuId(d * cpus + c)).collect(),
        })
        .collect()
}

/// What a query went through.
#[derive(Clone, Debug, PartialEq)]
pub struct Fate {
    pub arrived_ns: u64,
    pub started_ns: u64,
    pub ended_ns: u64,
    pub start: Start,
    /// Starts of others since its arrival.
    pub starts_before: usize,
    /// What it was promised.
    pub starts_before_max: usize,
    /// Queries of which the oracle saw that they came later and started earlier.
    pub overtaken: u32,
    pub cancelled: bool,
}

impl Fate {
    pub fn ran_ns(&self) -> u64 {
        self.ended_ns - self.started_ns
    }

    pub fn waited_ns(&self) -> u64 {
        self.started_ns - self.arrived_ns
    }
}

/// All that happened. Jobs that were cancelled while they waited have no fate.
#[derive(Debug, PartialEq)]
pub struct History {
    pub fates: BTreeMap<u64, Fate>,
    pub ended_ns: u64,
}

impl History {
    /// Mean of run time over time alone.
    pub fn mean_slowdown(&self, jobs: &[Job]) -> f64 {
        let each = self.fates.iter().map(|(&id, fate)| {
            let alone = jobs[id as usize].alone_ns as f64;
            fate.ran_ns() as f64 / alone
        });
        each.sum::<f64>() / self.fates.len() as f64
    }

    /// Identifiers in order of start.
    pub fn order(&self) -> Vec<u64> {
        let mut order: Vec<_> = self.fates.iter().collect();
        order.sort_by_key(|(_, fate)| (fate.started_ns, fate.start.cpus[0]));
        order.into_iter().map(|(&id, _)| id).collect()
    }
}

struct Pending {
    arrived_ns: u64,
    starts_before_max: usize,
    starts_before: usize,
    overtaken: u32,
}

struct Active {
    id: u64,
    domain: usize,
    locality: Locality,
    /// CPUs it runs on; each does its share of the work.
    cpus: usize,
    left_ns: f64,
}

/// A scheduler, the machine below it, and the oracle's books.
pub struct Machine {
    pub scheduler: Scheduler,
    config: Config,
    policy: Policy,
    truth: Truth,
    pending: BTreeMap<u64, Pending>,
    active: Vec<Active>,
    fates: BTreeMap<u64, Fate>,
}

impl Machine {
    /// Without bypass, so that every job is scheduled.
    pub fn new(mut config: Config, model: SlowdownModel, truth: Truth) -> Self {
        config.short_below_ns = 0.0;
        let scheduler = Scheduler::new(config.clone(), model).expect("a sound configuration");
        Self {
            policy: scheduler.policy(),
            scheduler,
            config,
            truth,
            pending: BTreeMap::new(),
            active: Vec::new(),
            fates: BTreeMap::new(),
        }
    }

    /// Runs all jobs to their end, `first_ns` being added to every time; job `i` is query `i`, and all jobs of one footprint are
    /// runs of one statement.
    pub fn run(&mut self, jobs: &[Job], first_ns: u64) -> History {
        // (time, order within it, job): ends come first, then cancellations, then arrivals.
        let mut events: Vec<(u64, u8, u64)> = Vec::new();
        for (id, job) in (0..).zip(jobs) {
            events.push((job.arrives_ns, 1, id));
            if let Some(cancelled_ns) = job.cancelled_ns {
                events.push((cancelled_ns.max(job.arrives_ns), 2, id));
            }
        }
        events.sort_unstable();
        let mut next = events.into_iter().peekable();
        let mut now_ns = first_ns;
        loop {
            let end_ns = self.next_end(now_ns);
            let event_ns = next.peek().map(|&(ns, _, _)| ns + first_ns);
            let Some(then_ns) = end_ns.into_iter().chain(event_ns).min() else {
                break;
            };
            self.pass(then_ns - now_ns);
            now_ns = then_ns;
            self.end_what_is_done(now_ns);
            while let Some((_, kind, id)) = next.next_if(|&(ns, _, _)| ns + first_ns == now_ns) {
                match kind {
                    1 => self.arrive(now_ns, id, &jobs[id as usize]),
                    _ => self.cancel(now_ns, id),
                }
            }
            self.dispatch(now_ns, jobs);
        }
        assert!(self.pending.is_empty() && self.active.is_empty());
        assert!(self.scheduler.waiting().is_empty() && self.scheduler.running().is_empty());
        History {
            fates: std::mem::take(&mut self.fates),
            ended_ns: now_ns - first_ns,
        }
    }

    fn factor(&self, own: usize) -> f64 {
        let me = &self.active[own];
        let others = self.active.iter().enumerate();
        let excess: f64 = others
            .filter(|(i, other)| *i != own && other.domain == me.domain)
            .map(|(_, other)| (self.truth)(me.locality, other.locality) - 1.0)
            .sum();
        (1.0 + excess) / me.cpus as f64
    }

    fn next_end(&self, now_ns: u64) -> Option<u64> {
        let ends = (0..self.active.len()).map(|i| (self.active[i].left_ns * self.factor(i)).ceil().max(1.0));
        ends.reduce(f64::min).map(|ns| now_ns + ns as u64)
    }

    fn pass(&mut self, ns: u64) {
        let factors: Vec<f64> = (0..self.active.len()).map(|i| self.factor(i)).collect();
        for (active, factor) in self.active.iter_mut().zip(factors) {
            active.left_ns -= ns as f64 / factor;
        }
    }

    fn end_what_is_done(&mut self, now_ns: u64) {
        // Whole nanoseconds: less than a thousandth of one left is rounding.
        let (done, active) = std::mem::take(&mut self.active)
            .into_iter()
            .partition(|active| active.left_ns < 1e-3);
        self.active = active;
        for ended in done as Vec<Active> {
            self.scheduler.finish(now_ns, QueryId(ended.id)).expect("it ran");
            self.fates.get_mut(&ended.id).expect("started").ended_ns = now_ns;
        }
    }

    fn arrive(&mut self, now_ns: u64, id: u64, job: &Job) {
        let class = self.scheduler.slowdowns().class_of(locality(job.footprint));
        let query = Query {
            id: QueryId(id),
            statement: StatementId(job.footprint.bytes().0),
            class,
            footprint: job.footprint,
            expected_ns: None,
            parts: 0,
            owner: Owner::default(),
        };
        let admission = self.scheduler.arrive(now_ns, query).expect("room");
        let Admission::Queued { starts_before_max } = admission else {
            panic!("nothing is short here");
        };
        let pending = Pending {
            arrived_ns: now_ns,
            starts_before_max,
            starts_before: 0,
            overtaken: 0,
        };
        self.pending.insert(id, pending);
    }

    fn cancel(&mut self, now_ns: u64, id: u64) {
        let waited = self.pending.remove(&id).is_some();
        let ran = self.active.iter().position(|active| active.id == id);
        if let Some(at) = ran {
            self.active.remove(at);
            let fate = self.fates.get_mut(&id).expect("started");
            fate.ended_ns = now_ns;
            fate.cancelled = true;
        }
        let left = self.scheduler.leave(now_ns, QueryId(id));
        assert_eq!(left.is_ok(), waited || ran.is_some());
        let gone = |query: &Query| query.id != QueryId(id);
        assert!(self.scheduler.waiting().iter().all(|w| gone(&w.query)));
        assert!(self.scheduler.running().iter().all(|r| gone(&r.query)));
    }

    fn dispatch(&mut self, now_ns: u64, jobs: &[Job]) {
        for start in self.scheduler.dispatch() {
            let id = start.id.0;
            self.check_rule(&start, jobs);
            let mine = self.pending.remove(&id).expect("started once, after it came");
            assert!(mine.starts_before <= mine.starts_before_max, "{start:?}");
            assert!(mine.overtaken <= self.config.overtakes_max, "{start:?}");
            assert_eq!(start.waited_ns, now_ns - mine.arrived_ns);
            for (&other, pending) in &mut self.pending {
                pending.starts_before += 1;
                // Identifiers of jobs that came at one time are in order of arrival too.
                let later = (mine.arrived_ns, id) > (pending.arrived_ns, other);
                pending.overtaken += u32::from(later);
            }
            let job = &jobs[id as usize];
            let cpus = &self.config.domains[start.domain].cpus;
            let nobody_there = self.active.iter().all(|active| active.domain != start.domain);
            let at_once = start.waited_ns == 0;
            if self.config.widen && self.pending.is_empty() && nobody_there && at_once {
                assert_eq!(&start.cpus, cpus, "alone in its domain");
            } else {
                assert!(start.cpus.len() == 1 && cpus.contains(&start.cpus[0]));
            }
            assert_eq!(start.locality, locality(job.footprint));
            self.active.push(Active {
                id,
                domain: start.domain,
                locality: start.locality,
                cpus: start.cpus.len(),
                left_ns: job.alone_ns as f64,
            });
            let fate = Fate {
                arrived_ns: mine.arrived_ns,
                started_ns: now_ns,
                ended_ns: u64::MAX,
                start,
                starts_before: mine.starts_before,
                starts_before_max: mine.starts_before_max,
                overtaken: mine.overtaken,
                cancelled: false,
            };
            self.fates.insert(id, fate);
        }
        // No CPU has two queries, and none idles while one waits.
        assert_eq!(self.scheduler.running().len(), self.active.len());
        let running = self.scheduler.running().iter();
        let mut busy: Vec<CpuId> = running.flat_map(|r| r.cpus.clone()).collect();
        let taken = busy.len();
        busy.sort_unstable();
        busy.dedup();
        assert_eq!(busy.len(), taken);
        let cpus: usize = self.config.domains.iter().map(|d| d.cpus.len()).sum();
        assert!(
            self.pending.is_empty() || taken == cpus,
            "a CPU idles while {} wait",
            self.pending.len()
        );
        assert_eq!(self.scheduler.waiting().len(), self.pending.len());
    }

    /// Whether the policy allowed this start, by the books alone.
    fn check_rule(&self, start: &Start, jobs: &[Job]) {
        let id = start.id.0;
        let mine = &self.pending[&id];
        let came_before = self
            .pending
            .iter()
            .all(|(&other, pending)| (mine.arrived_ns, id) <= (pending.arrived_ns, other));
        if self.policy == Policy::Fifo {
            assert!(came_before);
            return;
        }
        if start.why == Why::Aged {
            assert!(came_before && mine.overtaken == self.config.overtakes_max);
            return;
        }
        if start.why == Why::Trial {
            assert!(came_before && self.config.policy == PolicyName::Auto);
            return;
        }
        // By learnt costs, once `auto` has changed its mind: no rule that books could check.
        if self.config.policy == PolicyName::Auto && !self.config.partitioner && start.why == Why::Learned {
            return;
        }
        let queue = |id: u64| locality(jobs[id as usize].footprint).queue();
        let running = |domain: usize, queue: PlanQueue| {
            let there = self.active.iter().filter(|a| a.domain == domain);
            there.filter(|a| a.locality.queue() == queue).count()
        };
        // How many the policy would rather not have beside a query of this queue.
        let forbidden = |domain: usize, queue: PlanQueue| match self.policy {
            Policy::Sls => running(domain, queue.other()),
            Policy::Mls => running(domain, queue),
            _ => 0,
        };
        let own = forbidden(start.domain, queue(id));
        for domain in 0..self.config.domains.len() {
            let there = self.active.iter().filter(|a| a.domain == domain);
            let taken: usize = there.map(|active| active.cpus).sum();
            if taken == self.config.domains[domain].cpus.len() {
                continue;
            }
            for &other in self.pending.keys() {
                let fits = forbidden(domain, queue(other));
                assert!(own <= fits, "{start:?}, but query {other} fits domain {domain}");
            }
        }
        if self.policy == Policy::Sls && queue(id) == PlanQueue::Reusing {
            let smaller = self.pending.keys().find(|&&other| {
                let table = |id: u64| jobs[id as usize].footprint.bytes();
                queue(other) == PlanQueue::Reusing && table(other) < table(id)
            });
            assert_eq!(smaller, None, "smallest hash tables first");
        }
    }
}
