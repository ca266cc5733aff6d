//! From a request to its answer in parts: who takes part, what each does, and every way it ends.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use corun_model::pooler::split::{Parts, Placement, free_cores, parts_most, place};
use corun_net::reactor::Reactor;

use super::asked::{Asked, Form, asked};
use super::flight::{self, BEGIN, IMPATIENT, PATIENT};
use super::job::{After, Job, Member, State, Step};
use super::rules::Rule;
use crate::admin::SplitRow;
use crate::config::{AutoCount, PoolMode, SplitPlacement, Switch};
use crate::core::classify::classifier::read_when_parsed;
use crate::core::classify::request::Request;
use crate::core::client::Client;
use crate::core::console::statistics::micros;
use crate::core::event_loop::EventLoop;
use crate::core::pool::Pool;
use crate::core::server::connect::Attempt;
use crate::core::server::{Server, Task, TaskKind};
use crate::core::stages::{Halt, StageTask, Verdict};
use crate::session::prepared::Prepared;
use crate::session::settings;
use crate::split::reads_the_clock;

use corun_wire::error::code;
use corun_wire::{TransactionStatus, build, read};

/// Memory for what the leader returns before the parts begin.
const LEAD_MAX: usize = 1 << 20;

/// Whether nothing stands between a client and its server that parts on other servers would not have.
fn plain_session(client: &Client, server: &Server) -> bool {
    let is = |name: &str, value: &str| {
        let set = client.settings.text(name);
        set.is_some_and(|set| set.eq_ignore_ascii_case(value))
    };
    server.session.status == TransactionStatus::Idle
        && server.expects.settled()
        && client.pins.is_empty()
        && !(client.transaction.began
            || client.is_doubtful()
            || client.transaction.defines
            || client.cancel_wanted)
        && !is("default_transaction_isolation", "serializable")
        && !is("standard_conforming_strings", "off")
}

impl<R: Reactor> EventLoop<R> {
    /// Runs a request in parts, if it is one that may and pays.
    #[inline]
    pub(in crate::core) fn split(
        &mut self,
        reactor: &mut R,
        leader: usize,
        request: &mut Request<'_>,
    ) -> Verdict {
        if self.splits.rules.is_empty() {
            return ControlFlow::Continue(());
        }
        match self.try_split(reactor, leader, request) {
            Some(used) => ControlFlow::Break(Halt::Wait(used)),
            None => ControlFlow::Continue(()),
        }
    }

    /// Returns the bytes of the request, which are done with then.
    fn try_split(&mut self, reactor: &mut R, leader: usize, request: &mut Request<'_>) -> Option<usize> {
        let index = request.client;
        let (client, server) = (self.clients.get_mut(index)?, self.servers.get(leader)?);
        let switch = self.pools.get(server.pool)?.effective.split;
        if std::mem::take(&mut client.whole)
            || switch == Switch::Off
            || request.rules.mode == PoolMode::Session
            || !plain_session(client, server)
        {
            return None;
        }
        let bytes = request.bytes;
        let understood = request.first.understood(client, &mut self.classifier, bytes)?;
        let rule = self.splits.find(&client.database, understood.shape)?;
        let understood = Arc::clone(understood);
        let asked = asked(client, bytes).filter(|asked| !asked.names())?;
        if asked.texts().into_iter().any(reads_the_clock) {
            return None;
        }
        let key = key_of(client, &asked);
        let stamp = self.classifier.fresh(self.now);
        let known = self.splits.known.get(&key).filter(|known| known.stamp == stamp);
        let known = known.map(|known| known.how.clone());
        if let Some(Err(_)) = known {
            return None;
        }
        let (parts, timed) = self.parts_for(rule, switch);
        if parts < 2 {
            self.servers.get_mut(leader)?.stages.timed = timed.then_some(rule);
            return None;
        }
        let used = asked.bytes.len();
        let job = Job {
            id: self.shared.id(),
            rule,
            asked,
            understood,
            key,
            stamp,
            client: index,
            client_id: self.clients.get(index)?.id,
            began: self.now,
            wanted: parts,
            parts,
            new: known.is_none(),
            plan: None,
            resolved: None,
            description: Vec::new(),
            types: Vec::new(),
            how: known.and_then(Result::ok),
            lead: None,
            texts: Vec::new(),
            members: vec![Member {
                server: leader,
                id: self.servers.get(leader)?.id,
                state: State::Busy,
            }],
        };
        if self.begin_job(reactor, job, leader) {
            return Some(used);
        }
        if let Some(rule) = self.splits.rules.get_mut(rule) {
            rule.did_not_run(parts);
        }
        None
    }

    /// A query that could have run in parts ran whole.
    #[inline]
    pub(in crate::core) fn split_timed(&mut self, server: usize, took: Duration) {
        if let Some(server) = self.servers.get_mut(server)
            && let Some(rule) = server.stages.timed.take()
            && let Some(rule) = self.splits.rules.get_mut(rule)
        {
            rule.history.record(1, micros(took));
        }
    }

    /// Begins a job, or says that it cannot be now.
    fn begin_job(&mut self, reactor: &mut R, job: Job, leader: usize) -> bool {
        if self.splits.jobs.len() >= self.files.config.corun.split_jobs_max as usize {
            return false;
        }
        let Some(pool) = self.servers.get(leader).map(|server| server.pool) else {
            return false;
        };
        if self.idle_beside(pool, usize::MAX).is_empty() {
            // Next time there are some.
            self.want_servers(reactor, pool, job.parts - 1);
            return false;
        }
        match &job.how {
            Some(how) if how.confirmed.same_encoding() && !self.same_encoding(leader) => false,
            Some(_) => {
                self.adopt(leader, &job);
                self.lead(reactor, job);
                true
            }
            None => {
                self.adopt(leader, &job);
                let asks = self.ask_about(reactor, job);
                if !asks {
                    self.disown(leader);
                }
                asks
            }
        }
    }

    fn adopt(&mut self, leader: usize, job: &Job) {
        let unnamed = self.unnamed(job);
        if let Some(server) = self.servers.get_mut(leader) {
            server.stages.job = Some(job.id);
            server.query.since = self.now;
        }
        if let Some(client) = self.clients.get_mut(job.client) {
            client.statements.unnamed = unnamed;
        }
        self.shared.jobs.fetch_add(1, Ordering::Relaxed);
    }

    /// The client's unnamed statement behind a request.
    fn unnamed(&mut self, job: &Job) -> Option<Prepared> {
        let (client, asked) = (self.clients.get(job.client)?, &job.asked);
        match asked.form {
            Form::Simple => None,
            Form::Extended { parses: false, .. } => client.statements.unnamed.clone(),
            Form::Extended { parses: true, .. } => {
                let under = read_when_parsed(&client.settings, !asked.sql.is_ascii());
                let parsed = read::Parse {
                    name: b"",
                    sql: &asked.sql,
                    types: &asked.types,
                };
                let (alike, known) = (parsed.sql.is_ascii(), Some(Arc::clone(&job.understood)));
                Some(Prepared {
                    statement: self.classifier.intern(&parsed, &under, alike, known),
                    stamp: self.classifier.statements.stamp(),
                })
            }
        }
    }

    fn disown(&mut self, leader: usize) {
        if let Some(server) = self.servers.get_mut(leader) {
            server.stages.job = None;
        }
        self.shared.jobs.fetch_sub(1, Ordering::Relaxed);
    }

    /// How many parts a query is run in now; whether, should it run whole, what it takes is to be known: not while others are in
    /// the way.
    fn parts_for(&mut self, rule: usize, switch: Switch) -> (usize, bool) {
        let corun = &self.files.config.corun;
        let most = match corun.split_parts {
            AutoCount::Auto => parts_most(&self.splits.cores, placement(corun.split_placement)),
            AutoCount::Count(count) => count as usize,
        };
        let here = self.busy_here().saturating_sub(1 + self.ending());
        let busy = self.busy_elsewhere() + here;
        let free = free_cores(self.splits.cores.len(), busy);
        let Some(rule) = self.splits.rules.get_mut(rule) else {
            return (1, false);
        };
        let most = rule.parts.unwrap_or(most).min(rule.parts_max());
        let parts = match switch {
            Switch::On => most,
            _ => Parts::choose(&mut rule.history, free, most),
        };
        rule.whole += u64::from(parts < 2);
        (parts, free >= 2 && most >= 2)
    }

    /// Servers of this loop that work for clients.
    fn busy_here(&self) -> usize {
        let busy = |(_, pool): (usize, &Pool)| pool.servers.saturating_sub(pool.idle.len() + pool.connecting);
        self.pools.iter().map(busy).sum()
    }

    /// Servers of those that only end the transaction of a part that was answered: of the query before, where one client asks after the other.
    fn ending(&self) -> usize {
        let ends = |task: &Task| {
            matches!(
                task.kind,
                TaskKind::Stage(StageTask::Part { step: Step::End, .. })
            )
        };
        let servers = self
            .servers
            .iter()
            .filter(|(_, server)| !server.process.cancels.may_strike());
        servers
            .filter(|(_, server)| server.task.as_ref().is_some_and(ends))
            .count()
    }

    fn busy_elsewhere(&self) -> usize {
        let all = self.shared.busy.iter().enumerate();
        all.filter(|(index, _)| *index != self.index)
            .map(|(_, busy)| busy.load(Ordering::Relaxed))
            .sum()
    }

    /// Tells the other loops how many servers work here.
    pub(in crate::core) fn tell_busy(&self) {
        if !self.splits.rules.is_empty()
            && let Some(busy) = self.shared.busy.get(self.index)
        {
            busy.store(self.busy_here(), Ordering::Relaxed);
        }
    }

    fn same_encoding(&self, server: usize) -> bool {
        let Some(server) = self.servers.get(server) else {
            return false;
        };
        let of = server.session.reported("client_encoding");
        of.is_some() && of == server.session.reported("server_encoding")
    }

    /// Free servers of a pool and of the core pools beside it, one core pool after the other, so that they are on different cores.
    fn idle_beside(&self, pool: usize, most: usize) -> Vec<usize> {
        let core_pools = self.core_pools_of(pool);
        let lists: Vec<&[usize]> = core_pools
            .iter()
            .filter_map(|&core_pool| self.pools.get(core_pool))
            .filter(|pool| !pool.paused)
            .map(|pool| &*pool.idle)
            .collect();
        let longest = lists.iter().map(|list| list.len()).max().unwrap_or(0);
        let fit = |server: &usize| {
            self.servers
                .get(*server)
                .is_some_and(|server| server.life.closing.is_none() && !server.process.cancels.may_strike())
        };
        (0..longest)
            .flat_map(|from_end| {
                lists
                    .iter()
                    .filter_map(move |list| list.len().checked_sub(from_end + 1).map(|at| list[at]))
            })
            .filter(fit)
            .take(most)
            .collect()
    }

    /// Makes connections so that there are servers for parts.
    fn want_servers(&mut self, reactor: &mut R, pool: usize, wanted: usize) {
        let mut left = wanted;
        for core_pool in self.core_pools_of(pool) {
            while left > 0
                && let Some(pool) = self.pools.get(core_pool)
                && pool.has_share()
                && pool.connecting == 0
                && pool.failed.is_none()
                && self.connect(reactor, core_pool, pool.size) == Attempt::Begun
            {
                left -= 1;
            }
        }
    }

    /// The leader begins its transaction, and others are made ready.
    pub(super) fn lead(&mut self, reactor: &mut R, mut job: Job) {
        let leader = job.leader();
        let leader = leader.and_then(|leader| Some((leader, self.servers.get(leader)?.pool)));
        let (Some(how), Some((leader, pool))) = (job.how.clone(), leader) else {
            return self.end_job(reactor, job, After::Whole);
        };
        let wanted = job.parts - 1;
        let others = self.idle_beside(pool, wanted);
        self.want_servers(reactor, pool, wanted - others.len());
        if others.is_empty() {
            return self.end_job(reactor, job, After::Whole);
        }
        for &other in &others {
            self.take_idle(other, &mut job);
        }
        self.bind_members(leader, &others);
        job.parts = others.len() + 1;
        let mut out = Vec::new();
        flight::plain(&mut out, BEGIN);
        flight::plain(&mut out, PATIENT);
        let confirmed = &how.confirmed;
        let leads = confirmed.leader().as_bytes();
        flight::bound(
            &mut out,
            leads,
            &how.types,
            &job.asked.values,
            &confirmed.leader_formats(),
        );
        flight::sync(&mut out);
        self.member_flies(reactor, &mut job, leader, Step::Lead, &out, LEAD_MAX);
        for other in others {
            self.make_ready(reactor, &mut job, other);
        }
        self.splits.jobs.insert(job.id, job);
    }

    /// Takes a free server out of its pool's list.
    fn take_idle(&mut self, server: usize, job: &mut Job) {
        let Some(found) = self.servers.get_mut(server) else {
            return;
        };
        found.stages.job = Some(job.id);
        found.life.used = true;
        found.life.since = self.now;
        found.query.since = self.now;
        if let Some(pool) = self.pools.get_mut(found.pool) {
            pool.idle.forget(server);
        }
        job.members.push(Member {
            server,
            id: found.id,
            state: State::Ready,
        });
    }

    /// Each member to a core of its own.
    fn bind_members(&mut self, leader: usize, others: &[usize]) {
        let placement = placement(self.files.config.corun.split_placement);
        let job = self.shared.jobs.load(Ordering::Relaxed).saturating_sub(1);
        let mut cores: Vec<_> = place(others.len() + 1, &self.splits.cores, placement, job)
            .into_iter()
            .filter_map(|at| self.splits.cores.get(at).map(|core| core.cpu))
            .collect();
        // A member that is on one of them already stays there.
        let mut left: Vec<usize> = Vec::new();
        for &server in std::iter::once(&leader).chain(others) {
            let now = self.bound(server);
            match now.and_then(|bound| cores.iter().position(|&core| core == bound.cpu)) {
                Some(at) => {
                    let core = cores.remove(at);
                    self.bind_for_now(server, core);
                }
                None => left.push(server),
            }
        }
        for (server, core) in left.into_iter().zip(cores) {
            self.bind_for_now(server, core);
        }
    }

    /// A member takes over the client's settings, if it has others.
    fn make_ready(&mut self, reactor: &mut R, job: &mut Job, server: usize) {
        let (Some(client), Some(found)) = (self.clients.get(job.client), self.servers.get(server)) else {
            return;
        };
        let Some(sql) = settings::change(&found.session.settings, &client.settings) else {
            return;
        };
        let step = Step::Replay(Arc::clone(&client.settings));
        let mut out = Vec::new();
        build::query(&mut out, &sql);
        self.member_flies(reactor, job, server, step, &out, LEAD_MAX);
    }

    /// A server has answered what it did for a job.
    pub(in crate::core) fn part_done(
        &mut self,
        reactor: &mut R,
        server: usize,
        id: u64,
        step: Step,
        task: Task,
    ) {
        if let Step::End = step {
            return self.member_ended(reactor, server, &task);
        }
        let Some(mut job) = self.splits.jobs.remove(&id) else {
            // The job ended before.
            return self.release(reactor, server);
        };
        if let Step::Replay(settings) = &step {
            if task.error.is_some() {
                return self.end_job(reactor, job, After::Whole);
            }
            if let Some(found) = self.servers.get_mut(server) {
                found.session.settings = Arc::clone(settings);
            }
            if let Some(member) = job.member(server) {
                member.state = State::Ready;
            }
            return self.begin_parts(reactor, job);
        }
        if let Some(error) = struck(&task) {
            return self.end_job(reactor, job, After::Error(error));
        }
        match step {
            Step::Questions => self.questions_answered(reactor, job, &task),
            Step::Original => self.original_described(reactor, job, &task),
            Step::Described => self.parts_described(reactor, job, &task),
            Step::Lead => self.led(reactor, job, &task),
            Step::Part => self.part_answered(reactor, server, job, task),
            Step::Final => self.final_answered(reactor, job, task),
            Step::Replay(_) | Step::End => {}
        }
    }

    /// The leader has told the snapshot.
    fn led(&mut self, reactor: &mut R, mut job: Job, task: &Task) {
        let Some(how) = job.how.clone() else {
            return self.end_job(reactor, job, After::Whole);
        };
        let row = task.reply.as_ref().and_then(|reply| reply.rows().next());
        let lead = match (row, &task.error) {
            (Some(row), None) => how.confirmed.lead(row).ok(),
            _ => None,
        };
        let Some(lead) = lead.filter(|lead| is_snapshot(&lead.snapshot)) else {
            return self.failed(reactor, job, task.error.as_ref());
        };
        let cuts = self
            .splits
            .rules
            .get(job.rule)
            .map(|rule| rule.cuts(job.parts))
            .unwrap_or_default();
        match how.confirmed.parts(&cuts, &lead) {
            Ok(texts) if texts.len() == job.members.len() => {
                job.texts = texts;
                job.lead = Some(lead);
                if let Some(member) = job.members.first_mut() {
                    member.state = State::Ready;
                }
                self.begin_parts(reactor, job);
            }
            Ok(_) => self.end_job(reactor, job, After::Whole),
            Err(error) => self.refused(reactor, job, error),
        }
    }

    /// Members that are ready begin their parts, once the snapshot is known.
    fn begin_parts(&mut self, reactor: &mut R, mut job: Job) {
        let (Some(how), Some(lead)) = (&job.how, &job.lead) else {
            self.splits.jobs.insert(job.id, job);
            return;
        };
        let memory = self.files.config.corun.split_memory_max.0 as usize / job.members.len();
        let formats = how.confirmed.part_formats(&job.asked.formats);
        let mut flights = Vec::new();
        for (number, member) in job.members.iter().enumerate() {
            let (State::Ready, Some(text)) = (&member.state, job.texts.get(number)) else {
                continue;
            };
            let mut out = Vec::new();
            if number > 0 {
                flight::plain(&mut out, BEGIN);
                flight::plain(&mut out, IMPATIENT);
                flight::plain(&mut out, &format!("SET TRANSACTION SNAPSHOT '{}'", lead.snapshot));
            }
            flight::bound_described(&mut out, text.as_bytes(), &how.types, &job.asked.values, &formats);
            if number > 0 {
                // Its part is all it does; the leader keeps the snapshot until all have taken it.
                flight::plain(&mut out, "COMMIT");
            }
            flight::sync(&mut out);
            flights.push((member.server, out));
        }
        for (server, out) in flights {
            self.member_flies(reactor, &mut job, server, Step::Part, &out, memory);
        }
        self.splits.jobs.insert(job.id, job);
    }

    /// What `SHOW SPLITS` tells of this loop.
    pub(in crate::core) fn look_at_splits(&self) -> Vec<SplitRow> {
        let whole = |time: f64| time.max(0.0) as u64;
        let row = |rule: &Rule| {
            let parts = rule.history.settled();
            SplitRow {
                core: self.index as u64,
                name: rule.name.clone(),
                database: rule.database.clone(),
                key: format!("{}.{}", rule.key.table, rule.key.column),
                split_count: rule.split,
                whole_count: rule.whole,
                parts: parts as u64,
                whole_us: rule.history.time_us(1).map(whole),
                split_us: rule.history.time_us(parts).filter(|_| parts > 1).map(whole),
                overhead_us: whole(rule.history.overhead_us()),
                why: rule.why.clone(),
            }
        };
        self.splits.rules.iter().map(row).collect()
    }

    /// The pools that share a pool's size, itself where it is alone.
    fn core_pools_of(&self, pool: usize) -> Vec<usize> {
        match self.core_pools_beside(pool) {
            [] => vec![pool],
            core_pools => core_pools.to_vec(),
        }
    }
}

fn placement(placement: SplitPlacement) -> Placement {
    match placement {
        SplitPlacement::Spread => Placement::Spread,
        SplitPlacement::Siblings => Placement::Siblings,
    }
}

/// What a text means is kept behind this: whose it is, and the text.
fn key_of(client: &Client, asked: &Asked) -> Vec<u8> {
    let mut key = crate::core::auto_prepare::request::whose(client).scope();
    key.extend((asked.types.len() as u32).to_be_bytes());
    key.extend(&asked.types);
    key.extend(&*asked.sql);
    key
}

/// The error of a statement that somebody cancelled, that took too long, or whose server ends: it is the client's.
fn struck(task: &Task) -> Option<Vec<u8>> {
    let error = task.error.as_ref()?;
    let told = error.code == code::QUERY_CANCELED || error.code.starts_with("57P");
    if !told {
        return None;
    }
    task.reply.as_ref().and_then(|reply| reply.error.clone())
}

/// As PostgreSQL names snapshots: nothing that could end a literal.
fn is_snapshot(name: &str) -> bool {
    !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_hexdigit() || byte == b'-')
}
