//! The state of co-scheduling and its transitions; the module above draws it and proves its bounds.
//!
//! Each method is a pure transition: its answer and the next state depend on the state and the arguments alone. An error leaves
//! the state as it was.

use std::collections::BTreeSet;

use super::config::check_time;
use super::query::Bypassing;
use super::turns::Turns;
use super::{
    Admission, Config, Policy, PolicyName, Query, QueryId, Running, ScheduleError, Start, Waiting, Why,
};
use crate::cache::locality::{Classifier, Footprint, Locality};
use crate::cache::plan_choice::Balance;
use crate::cache::slowdown::{Run, SlowdownError, SlowdownModel, StatementClass};

/// Who waits, who runs, and what is known of them.
#[derive(Clone, Debug, PartialEq)]
pub struct Scheduler {
    pub(super) config: Config,
    policy: Policy,
    /// One for each domain.
    pub(super) classifiers: Vec<Classifier>,
    pub(super) model: SlowdownModel,
    now_ns: u64,
    /// In order of arrival. The two queues are views of it, because what is strong or weak differs between domains with
    /// caches of different sizes.
    pub(super) waiting: Vec<Waiting>,
    /// In order of start.
    pub(super) running: Vec<Running>,
    pub(super) bypassing: Vec<Bypassing>,
    pub(super) turns: Turns,
    /// Queries started so far.
    starts: u64,
    /// CPUs that queries may hold together; `None`: all.
    cpus_max: Option<usize>,
}

/// `auto` starts one query in so many in order of arrival. Unmeasured; in simulation 4 to 16 serve.
const TRIAL_EVERY: u64 = 8;

impl Scheduler {
    /// An idle scheduler at time 0 that begins with what `model` knows.
    ///
    /// # Errors
    /// [`ScheduleError`] for a policy the machine cannot follow, domains without CPUs or cache, a CPU listed twice, a queue without
    /// places, and a limit of time that is none.
    pub fn new(config: Config, model: SlowdownModel) -> Result<Self, ScheduleError> {
        let policy = config.policy.resolve(config.partitioner)?;
        if config.domains.is_empty() {
            return Err(ScheduleError::NoCpu("no cache domain was given"));
        }
        let mut cpus = BTreeSet::new();
        let mut classifiers = Vec::with_capacity(config.domains.len());
        for domain in &config.domains {
            if domain.cpus.is_empty() {
                return Err(ScheduleError::NoCpu("a cache domain has none"));
            }
            if let Some(&twice) = domain.cpus.iter().find(|&&cpu| !cpus.insert(cpu)) {
                return Err(ScheduleError::CpuTwice(twice));
            }
            classifiers.push(Classifier::new(domain.cache, config.thresholds)?);
        }
        if config.waiting_max == 0 {
            return Err(ScheduleError::NoQueue);
        }
        check_time("the limit of short queries", config.short_below_ns)?;
        Ok(Self {
            config,
            policy,
            classifiers,
            model,
            now_ns: 0,
            waiting: Vec::new(),
            running: Vec::new(),
            bypassing: Vec::new(),
            turns: Turns::default(),
            starts: 0,
            cpus_max: None,
        })
    }

    /// The policy followed now: what `auto` became, which may change with what is learnt.
    pub fn policy(&self) -> Policy {
        if self.doubts() && !self.model.separation_pays() {
            return Policy::Learned;
        }
        self.policy
    }

    /// Whether it is `auto` without a partitioner, which gives `sls` up where that does not pay.
    fn doubts(&self) -> bool {
        self.config.policy == PolicyName::Auto && self.policy == Policy::Sls
    }

    /// Whether `auto` lets a query through because it is switched off by what is about: nobody waits or runs on the scheduler's
    /// CPUs, and the query's tables, strong by themselves, fit the smallest cache together with those of the others let
    /// through. Holding one back would only leave CPUs idle at the end of a burst.
    fn nothing_to_gain(&self, query: &Query) -> bool {
        let classifier = self.smallest();
        let free = self.bypassing.iter().filter(|bypassing| bypassing.free);
        let others: u64 = free.map(|bypassing| bypassing.query.footprint.bytes().0).sum();
        self.config.policy == PolicyName::Auto
            && self.config.widen
            && self.waiting.is_empty()
            && self.running.is_empty()
            && self.cpus_max.is_none()
            && classifier.locality(query.footprint) == Locality::Strong
            && others.saturating_add(query.footprint.bytes().0) <= classifier.cache().0
    }

    /// Whether the next start is one of those by which `auto` learns what it would otherwise never see: who never met tells
    /// nothing about meeting.
    pub(super) fn tries_another_order(&self) -> bool {
        self.doubts() && self.starts % TRIAL_EVERY == TRIAL_EVERY - 1
    }

    /// The slow-downs known so far. They are learnt under every policy.
    pub fn slowdowns(&self) -> &SlowdownModel {
        &self.model
    }

    /// A new class of statements; see [`SlowdownModel::add_class`].
    ///
    /// # Errors
    /// As there.
    pub fn add_class(&mut self, locality: Locality) -> Result<StatementClass, SlowdownError> {
        self.model.add_class(locality)
    }

    /// From now on queries are started while they hold fewer CPUs than this together; `None`: while any is free. Those that run stay. The
    /// least is one CPU.
    pub fn limit(&mut self, cpus_max: Option<usize>) {
        self.cpus_max = cpus_max.map(|most| most.max(1));
    }

    /// Whether a query that is alone may get all CPUs of a domain that has so many.
    pub fn may_widen(&self, cpus: usize) -> bool {
        self.config.widen && self.cpus_max.is_none_or(|most| cpus <= most)
    }

    fn has_room(&self) -> bool {
        let held = || self.running.iter().map(|run| run.cpus.len()).sum::<usize>();
        self.cpus_max.is_none_or(|most| held() < most)
    }

    /// Those that wait, in order of arrival.
    pub fn waiting(&self) -> &[Waiting] {
        &self.waiting
    }

    /// Those that run on the scheduler's CPUs, in order of start.
    pub fn running(&self) -> &[Running] {
        &self.running
    }

    /// How many queries of each queue wait or run, seen from the domain with the smallest cache: what
    /// [`crate::cache::plan_choice::ChoiceRule::MixedStrength`] asks for.
    pub fn balance(&self) -> Balance {
        let classifier = self.smallest();
        let mut balance = Balance::default();
        let waiting = self.waiting.iter().map(|w| w.query);
        for query in waiting.chain(self.running.iter().map(|r| r.query)) {
            balance.add(classifier.locality(query.footprint).queue());
        }
        balance
    }

    /// A query came.
    ///
    /// # Errors
    /// [`ScheduleError`] if its name is taken, its class unknown, its expected time none, the queue full, or the event older than
    /// another.
    pub fn arrive(&mut self, now_ns: u64, query: Query) -> Result<Admission, ScheduleError> {
        if self.knows(query.id) {
            return Err(ScheduleError::Known(query.id));
        }
        self.model.check(query.class)?;
        if let Some(expected) = query.expected_ns {
            check_time("the expected run time", expected)?;
        }
        let learnt_ns = self.model.alone_ns(query.statement);
        let learnt_ns = learnt_ns.or_else(|| self.model.wide_ns(query.statement));
        let expected_ns = learnt_ns.or(query.expected_ns);
        let short = expected_ns.is_some_and(|ns| ns < self.config.short_below_ns);
        let room = self.bypassing.len() < self.config.bypass_max;
        let free = room && !short && self.nothing_to_gain(&query);
        let bypass = room && short;
        if !bypass && !free && self.waiting.len() >= self.config.waiting_max {
            return Err(ScheduleError::Full(self.waiting.len()));
        }
        self.advance(now_ns)?;
        if bypass || free {
            self.bypassing.push(Bypassing {
                query,
                free,
                started_ns: now_ns,
            });
            return Ok(if free { Admission::Free } else { Admission::Bypass });
        }
        let of_its_owner = |w: &&Waiting| w.query.owner.id == query.owner.id;
        let ahead = self.waiting.iter().filter(of_its_owner).count();
        self.waiting.push(Waiting {
            query,
            arrived_ns: now_ns,
            overtaken: 0,
        });
        Ok(Admission::Queued {
            starts_before_max: ahead.saturating_add(self.config.overtakes_max as usize),
        })
    }

    /// A query came to its regular end and has left its CPU; its run time teaches.
    ///
    /// # Errors
    /// [`ScheduleError`] if it was never started, or the event is older than another.
    pub fn finish(&mut self, now_ns: u64, id: QueryId) -> Result<(), ScheduleError> {
        let started =
            self.running.iter().any(|r| r.query.id == id) || self.bypassing.iter().any(|b| b.query.id == id);
        if !started {
            return Err(if self.knows(id) {
                ScheduleError::NotStarted(id)
            } else {
                ScheduleError::Unknown(id)
            });
        }
        self.advance(now_ns)?;
        let run = match self.running.iter().position(|r| r.query.id == id) {
            Some(at) => {
                let Running { cpus, run, .. } = self.running.remove(at);
                if cpus.len() > 1 {
                    return Ok(ignore_no_time(self.model.observe_wide(&run))?);
                }
                run
            }
            None => {
                let at = self.bypassing.iter().position(|b| b.query.id == id);
                let short = self.bypassing.remove(at.expect("just found"));
                if short.free {
                    // On how many CPUs and beside whom, only the host knows.
                    return Ok(());
                }
                let mut run = Run::new(short.query.statement, short.query.class);
                run.pass(now_ns - short.started_ns, &[], &self.model)?;
                run
            }
        };
        Ok(ignore_no_time(self.model.observe(&run))?)
    }

    /// A query is gone without an end that teaches: cancelled, failed, or panicked. If it ran, it has left its CPU.
    ///
    /// # Errors
    /// [`ScheduleError`] if it is not known, or the event is older than another.
    pub fn leave(&mut self, now_ns: u64, id: QueryId) -> Result<(), ScheduleError> {
        if !self.knows(id) {
            return Err(ScheduleError::Unknown(id));
        }
        self.advance(now_ns)?;
        self.waiting.retain(|w| w.query.id != id);
        self.running.retain(|r| r.query.id != id);
        self.bypassing.retain(|b| b.query.id != id);
        Ok(())
    }

    /// A query's tables turned out larger or smaller than estimated, or it went on to another pipeline. Later choices see it; a
    /// query that runs is not moved.
    ///
    /// # Errors
    /// [`ScheduleError::Unknown`].
    pub fn change(&mut self, id: QueryId, footprint: Footprint) -> Result<(), ScheduleError> {
        let waiting = self.waiting.iter_mut().map(|w| &mut w.query);
        let running = self.running.iter_mut().map(|r| &mut r.query);
        let bypassing = self.bypassing.iter_mut().map(|b| &mut b.query);
        let mut all = waiting.chain(running).chain(bypassing);
        let query = all
            .find(|query| query.id == id)
            .ok_or(ScheduleError::Unknown(id))?;
        query.footprint = footprint;
        Ok(())
    }

    /// Starts queries until no CPU is free or nobody waits, and says which. They count as started at the time of the last event.
    pub fn dispatch(&mut self) -> Vec<Start> {
        let mut starts = Vec::new();
        while self.has_room()
            && let Some((at, domain, why)) = self.pick()
        {
            starts.push(self.start(at, domain, why));
        }
        starts
    }

    /// What is strong, moderate and weak in the smallest cache.
    fn smallest(&self) -> &Classifier {
        let smallest = self.classifiers.iter().min_by_key(|c| c.cache());
        smallest.expect("a scheduler has a domain")
    }

    fn knows(&self, id: QueryId) -> bool {
        self.waiting.iter().any(|w| w.query.id == id)
            || self.running.iter().any(|r| r.query.id == id)
            || self.bypassing.iter().any(|b| b.query.id == id)
    }

    /// Moves time on and credits everyone with the company they had.
    fn advance(&mut self, now_ns: u64) -> Result<(), ScheduleError> {
        let Some(passed) = now_ns.checked_sub(self.now_ns) else {
            return Err(ScheduleError::Backwards {
                event_ns: now_ns,
                now_ns: self.now_ns,
            });
        };
        self.now_ns = now_ns;
        if passed == 0 {
            return Ok(());
        }
        let seats: Vec<(usize, StatementClass)> =
            self.running.iter().map(|r| (r.domain, r.query.class)).collect();
        for (own, running) in self.running.iter_mut().enumerate() {
            let others = seats.iter().enumerate();
            let beside: Vec<StatementClass> = others
                .filter(|&(other, &(domain, _))| other != own && domain == running.domain)
                .map(|(_, &(_, class))| class)
                .collect();
            running.run.pass(passed, &beside, &self.model)?;
        }
        Ok(())
    }

    fn start(&mut self, at: usize, domain: usize, why: Why) -> Start {
        self.starts += 1;
        let Waiting {
            query, arrived_ns, ..
        } = self.waiting.remove(at);
        let earlier = self.waiting[..at].iter_mut();
        for earlier in earlier.filter(|w| w.query.owner.id == query.owner.id) {
            earlier.overtaken = earlier.overtaken.saturating_add(1);
        }
        self.turns.started(query.owner);
        let cpus = &self.config.domains[domain].cpus;
        let nobody_else = self.waiting.is_empty() && self.running.iter().all(|run| run.domain != domain);
        // Whoever had to wait has company, even if it has just left: it will come back, and would wait in its turn.
        let at_once = self.now_ns == arrived_ns;
        let cpus = if self.may_widen(cpus.len()) && nobody_else && at_once {
            cpus.clone()
        } else {
            let taken = |cpu| self.running.iter().any(|run| run.cpus.contains(cpu));
            let free = cpus.iter().find(|cpu| !taken(cpu));
            vec![*free.expect("a domain with a free CPU")]
        };
        self.running.push(Running {
            query,
            domain,
            cpus: cpus.clone(),
            started_ns: self.now_ns,
            run: Run::new(query.statement, query.class),
        });
        Start {
            id: query.id,
            domain,
            cpus,
            locality: self.classifiers[domain].locality(query.footprint),
            why,
            waited_ns: self.now_ns - arrived_ns,
        }
    }
}

/// A run is refused so only if the host's clock was too coarse to see it: then there is nothing to learn.
fn ignore_no_time(learnt: Result<(), SlowdownError>) -> Result<(), SlowdownError> {
    match learnt {
        Err(SlowdownError::NoTime) => Ok(()),
        other => other,
    }
}
