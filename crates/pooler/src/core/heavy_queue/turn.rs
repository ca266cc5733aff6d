//! [`Turn`]: a client's heavy request on its way through the queue, and how the event loop leads it.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use corun_model::cache::coschedule::QueryId;
use corun_model::cache::slowdown::StatementId;
use corun_net::reactor::Reactor;

use super::Ticket;
use super::estimate::Estimate;
use super::form::{self, Form};
use super::heavy::statement;
use super::hint::{Hinted, may_carry, with_hints};
use super::known::{Fact, StatementKey};
use super::question::timeout;
use super::queue::{Arrival, Newcomer, Owner};
use crate::config::{AutoPrepare, PoolMode, Switch};
use crate::core::classify::classifier::Rules;
use crate::core::classify::forward::forward;
use crate::core::classify::request::{First, Request};
use crate::core::client::Client;
use crate::core::console::queries::{Running, SLOW};
use crate::core::event_loop::{EventLoop, Todo};
use crate::core::parts::{Asked, AskedForm, asked};
use crate::core::server::Deadline;
use crate::core::server::cancel::{BY_TIMEOUT, BY_USER};
use crate::core::stages::{Halt, Verdict};
use crate::understand::{HeavyQueueHint, Pins, Shape, TransactionEffect, Understood};
use corun_wire::build;
use corun_wire::frontend;

/// How long a query that was started may lack a server connection before its core goes to another. Unmeasured.
const WITHOUT_SERVER_MAX: Duration = Duration::from_millis(200);

/// A heavy request.
pub(in crate::core) struct Turn {
    stage: Stage,
    statement: StatementId,
    shape: Shape,
    /// The same of its user and settings.
    key: StatementKey,
    /// Tells its text and values from others'.
    values: u64,
    /// When it came.
    began: Duration,
    /// When it came to this stage.
    since: Duration,
    /// When its statement_timeout passes.
    deadline: Option<Duration>,
    /// The plans, and which one it runs with.
    plan: Option<(Estimate, usize)>,
    /// It gave up its place once for want of a server: it waits no second time.
    given_up: bool,
    /// A comment has put it here: it waits and is asked about whatever that costs.
    hinted: bool,
    /// Its text can have hints for the server at its head.
    carries: bool,
}

enum Stage {
    /// The queue is asked once it has a server.
    Later,
    /// It waits.
    Waits(Ticket),
    /// It may run, and has no server yet.
    Starts(Ticket),
    /// It runs as ever.
    Free,
}

/// How a statement ran.
#[derive(Clone, Copy, Debug)]
struct Ran {
    /// From being sent to being answered.
    took: Duration,
    /// When its request came, where it was the first on its server.
    came: Option<Duration>,
}

impl Turn {
    /// One of a statement that nothing is known of.
    fn new(stage: Stage, now: Duration) -> Self {
        Self {
            stage,
            statement: StatementId(0),
            shape: Shape::UNKNOWN,
            key: 0,
            values: 0,
            began: now,
            since: now,
            deadline: None,
            plan: None,
            given_up: false,
            hinted: false,
            carries: false,
        }
    }

    /// Whether it waits in the queue.
    pub fn waits(&self) -> bool {
        matches!(self.stage, Stage::Waits(_))
    }

    /// Whether it may run.
    fn starts(&self) -> bool {
        matches!(self.stage, Stage::Starts(_))
    }
}

impl Client {
    /// Whether it waits in the queue of heavy queries.
    pub fn queues(&self) -> bool {
        self.turn.as_ref().is_some_and(|turn| turn.waits())
    }

    /// Whether it was let out of that queue, and is to be served soon.
    pub fn was_started(&self) -> bool {
        self.turn.as_ref().is_some_and(|turn| turn.starts())
    }
}

/// Whether a text can be in the queue at all: one query that only reads.
pub(in crate::core) fn may_queue(understood: &Understood) -> bool {
    understood.is_one_read()
        && understood.transaction == TransactionEffect::None
        && understood.shape != Shape::UNKNOWN
        && understood.heavy_queue != Some(HeavyQueueHint::None)
        && understood.pins == Pins::NONE
}

impl<R: Reactor> EventLoop<R> {
    /// The time by the queue's clock.
    pub(in crate::core) fn heavy_queue_ns(&mut self, reactor: &R) -> u64 {
        u64::try_from(self.fleet_time(reactor).as_nanos()).unwrap_or(u64::MAX)
    }

    /// The same at the console.
    pub(in crate::core) fn heavy_queue_now_ns(&self) -> u64 {
        let ahead = self.hosts.clock_ahead;
        u64::try_from((self.now + ahead).as_nanos()).unwrap_or(u64::MAX)
    }

    /// Looks whether a client's next request is one for the queue. `Break`: it waits there.
    pub(in crate::core) fn heavy_queue_lets(&mut self, reactor: &R, request: &mut Request<'_>) -> Verdict {
        self.take_turn(reactor, request);
        match self.clients.get(request.client) {
            Some(client) if client.queues() => ControlFlow::Break(Halt::Wait(0)),
            _ => ControlFlow::Continue(()),
        }
    }

    /// Gives a client a turn, if its next request is one for the queue and it has none. `None`: it is not.
    fn take_turn(&mut self, reactor: &R, request: &mut Request<'_>) -> Option<()> {
        let index = request.client;
        let client = self.clients.get(index).filter(|client| client.turn.is_none())?;
        let pool = self.pools.get(client.pool)?;
        let effective = &pool.effective;
        let on = match effective.heavy_queue {
            Switch::Off => return None,
            Switch::On => true,
            Switch::Auto => self.shared.heavy_queue.auto.on(),
        };
        let understood = request
            .first
            .understood(client, &mut self.classifier, request.bytes)?;
        if !may_queue(understood)
            || effective.pool_mode == PoolMode::Session
            || !client.pins.is_empty()
            || client.begun.is_some()
            || client.cancel_wanted
        {
            return None;
        }
        let hinted = understood.heavy_queue == Some(HeavyQueueHint::Analytic);
        let statement = statement(&client.database, understood.shape);
        let heavy = on && self.heavy.is_heavy(&self.shared.heavy_queue.heavy, statement);
        if !(hinted || heavy) {
            return None;
        }
        // Rare from here on: time is no matter.
        let hosts = effective.hosts.iter().chain(&effective.replicas);
        if !hosts.into_iter().all(|host| host.host.is_here()) || !self.shared.heavy_queue.is_open() {
            return None;
        }
        let asked = asked(client, request.bytes)?;
        // While nobody gets a server, nobody should have a core.
        let later = pool.paused || pool.failed.is_some();
        let turn = Turn {
            statement,
            shape: understood.shape,
            key: key_of(client, statement),
            values: values_of(&asked),
            hinted,
            carries: may_carry(&asked),
            ..Turn::new(Stage::Later, self.now)
        };
        if let Some(client) = self.clients.get_mut(index) {
            client.turn = Some(Box::new(turn));
        }
        if !later {
            self.take_place(reactor, index);
        }
        Some(())
    }

    /// Asks the queue for a place, if the plan is known. Returns whether it is.
    fn take_place(&mut self, reactor: &R, index: usize) -> bool {
        let now_ns = self.heavy_queue_ns(reactor);
        let plans = self.files.config.corun.heavy_queue_plans;
        let (event_loop, now) = (self.index, self.now);
        let heavy_queue = &self.shared.heavy_queue;
        let Some(client) = self.clients.get_mut(index) else {
            return true;
        };
        let Some(turn) = client.turn.as_mut() else {
            return true;
        };
        let fact = heavy_queue.known.of(turn.key, turn.values, now);
        // What is not paid for is not asked.
        let may_ask = turn.hinted || heavy_queue.heavy.may_ask(turn.statement);
        let mut estimate = match fact {
            None | Some(Fact::Due(_)) if may_ask => return false,
            Some(Fact::Plans(estimate) | Fact::Due(estimate)) => estimate,
            refused => {
                if refused.is_none() {
                    heavy_queue.counts.unasked.fetch_add(1, Ordering::Relaxed);
                }
                turn.stage = Stage::Free;
                return true;
            }
        };
        if !turn.carries {
            estimate.plans.keep_settings();
        }
        let choice = heavy_queue.choose(&estimate, plans && estimate.may_change);
        let newcomer = Newcomer {
            owner: Owner {
                event_loop,
                client: index,
                client_id: client.id,
                database: Arc::clone(&client.database),
                user: Arc::clone(&client.user),
                shape: turn.shape,
            },
            statement: turn.statement,
            estimate: &estimate,
            choice,
            expected_ns: heavy_queue
                .heavy
                .expected(turn.statement)
                .map(|time| time.as_nanos() as f64),
            patient: turn.hinted,
        };
        let mut deadline = None;
        turn.stage = match heavy_queue.arrive(&self.shared, now_ns, newcomer) {
            Arrival::Starts(ticket) => Stage::Starts(ticket),
            Arrival::Waits(_) if turn.given_up => Stage::Free,
            Arrival::Waits(ticket) => {
                let limit = match client.settings.text("statement_timeout") {
                    Some(own) => timeout(own),
                    None => estimate.statement_timeout,
                };
                deadline = limit.map(|limit| turn.began + limit);
                client.wait.since = turn.began;
                client.wait.told = false;
                Stage::Waits(ticket)
            }
            Arrival::No => Stage::Free,
        };
        turn.since = now;
        turn.deadline = deadline;
        turn.plan = Some((estimate, choice));
        if let Some(deadline) = deadline {
            self.heavy.look_at(deadline);
        }
        true
    }

    /// A client that waits in the queue may start.
    pub(in crate::core) fn heavy_queue_starts(&mut self, index: usize, id: u64, query: QueryId) {
        let Some(client) = self.clients.get_mut(index).filter(|client| client.id == id) else {
            return;
        };
        let Some(turn) = client.turn.as_mut() else { return };
        if !matches!(&turn.stage, Stage::Waits(ticket) if ticket.id() == query) {
            return;
        }
        if let Stage::Waits(ticket) = std::mem::replace(&mut turn.stage, Stage::Free) {
            turn.stage = Stage::Starts(ticket);
        }
        turn.since = self.now;
        client.wait.from = Some(turn.began);
        self.serve_soon(index);
    }

    /// A client with a heavy request has a server, which nothing is under way on.
    #[inline]
    pub(in crate::core) fn heavy_queue_on_server(
        &mut self,
        reactor: &mut R,
        server_index: usize,
        request: &mut Request<'_>,
    ) -> Verdict {
        match self.clients.get(request.client) {
            Some(client) if client.turn.is_some() => self.turn_on_server(reactor, server_index, request),
            _ => ControlFlow::Continue(()),
        }
    }

    fn turn_on_server(&mut self, reactor: &mut R, server_index: usize, request: &mut Request<'_>) -> Verdict {
        const GO: Verdict = ControlFlow::Continue(());
        let index = request.client;
        let (Some(client), Some(server)) = (self.clients.get_mut(index), self.servers.get_mut(server_index))
        else {
            return GO;
        };
        let Some(turn) = client.turn.as_ref() else {
            return GO;
        };
        server.query.came = Some(turn.began);
        if !server.is_between_transactions() || matches!(turn.stage, Stage::Free) {
            let deadline = turn.deadline;
            client.turn = None;
            self.runs_until(server_index, deadline);
            return GO;
        }
        let Some(asked) = asked(client, request.bytes) else {
            client.turn = None;
            return GO;
        };
        if std::mem::take(&mut client.cancel_wanted) {
            // Nothing of it has gone out. A request sent behind it might come before the server has begun, and be lost.
            self.answer_cancelled(reactor, index, BY_USER);
            return ControlFlow::Break(Halt::Leave(asked.bytes.len()));
        }
        if matches!(turn.stage, Stage::Later) && !self.take_place(reactor, index) {
            let Some((statement, of)) = self.clients.get(index).and_then(|client| {
                let turn = client.turn.as_ref()?;
                Some((turn.statement, (turn.key, turn.values)))
            }) else {
                return GO;
            };
            let forms = self.files.config.corun.heavy_queue_plans;
            self.ask_plan(reactor, server_index, statement, of, asked, forms);
            return ControlFlow::Break(Halt::Wait(0));
        }
        let Some(client) = self.clients.get_mut(index) else {
            return ControlFlow::Break(Halt::Gone);
        };
        if client.queues() {
            // Others may have the server meanwhile.
            return ControlFlow::Break(Halt::Leave(0));
        }
        let Some(turn) = client.turn.take().map(|turn| *turn) else {
            return GO;
        };
        self.runs_until(server_index, turn.deadline);
        let Stage::Starts(mut ticket) = turn.stage else {
            return GO;
        };
        ticket.hinted = turn.hinted;
        let query = ticket.id();
        if let Some(server) = self.servers.get_mut(server_index) {
            server.stages.ticket = Some(ticket);
        }
        self.place(server_index);
        let now_ns = self.heavy_queue_ns(reactor);
        self.shared.heavy_queue.handed_over(query, now_ns);
        if let Some((estimate, choice)) = turn.plan
            && choice > 0
        {
            self.run_form(reactor, server_index, request, &asked, &estimate, choice)?;
        }
        request.only(asked.bytes.len());
        GO
    }

    /// The query a server runs next has had a part of its statement_timeout.
    fn runs_until(&mut self, server: usize, deadline: Option<Duration>) {
        if let (Some(deadline), Some(server)) = (deadline, self.servers.get_mut(server)) {
            server.query.deadline = Deadline::At(deadline);
            self.heavy.look_at(deadline);
        }
    }

    /// Sends a request in the form that was chosen for it. `Continue`: it runs as it came.
    fn run_form(
        &mut self,
        reactor: &mut R,
        server_index: usize,
        request: &mut Request<'_>,
        asked: &Asked,
        estimate: &Estimate,
        choice: usize,
    ) -> Verdict {
        let index = request.client;
        let (Some(client), Some(server)) = (self.clients.get_mut(index), self.servers.get_mut(server_index))
        else {
            return ControlFlow::Continue(());
        };
        let candidate = estimate.candidate(choice);
        // A statement that gets a name with this request has to have it whatever becomes of the transaction.
        if server.host.replica || candidate.form.is_own() || asked.names() {
            return ControlFlow::Continue(());
        }
        let understood = request
            .first
            .understood(client, &mut self.classifier, request.bytes);
        let understood = understood.cloned();
        let rules = Rules {
            auto_prepare: AutoPrepare::Off,
            ..request.rules
        };
        if let Some(hints) = candidate.form.hints() {
            let Some(bytes) = with_hints(asked, hints) else {
                return ControlFlow::Continue(());
            };
            let mut hinted = Request {
                client: index,
                bytes: &bytes,
                rules,
                first: First::default(),
            };
            let (used, _) = forward(client, server, &mut self.classifier, reactor, &mut hinted);
            if used == 0 {
                // It is held back or refused, as it will be without.
                return ControlFlow::Continue(());
            }
            server.query.filter = Some(Box::new(Hinted::new(hints)));
            return self.went_out(reactor, index, server_index, asked, understood);
        }
        let mut settings = candidate.form.settings().to_vec();
        if matches!(asked.form, AskedForm::Extended { parses: false, .. }) {
            // A plan that was kept knows nothing of the settings.
            settings.push(("plan_cache_mode", "force_custom_plan"));
        }
        let mut out = Vec::new();
        build::query(&mut out, &form::begin(&settings));
        // It ends the unnamed statement, whosever that was.
        server.session.statements.unnamed = None;
        server.expects.own_query();
        server.query.since = self.now;
        server.transport.send(reactor, &out);
        let mut inner = Request {
            client: index,
            bytes: &asked.bytes,
            rules,
            first: First::known(understood.clone()),
        };
        let (used, _) = forward(client, server, &mut self.classifier, reactor, &mut inner);
        let whole = used == asked.bytes.len();
        if used > 0 && !whole {
            // Nothing in a whole request is held back or refused; should it be, the session cannot be told apart any more.
            self.server_lost(
                reactor,
                server_index,
                "a request for the connection went out in part",
            );
            return ControlFlow::Break(Halt::Gone);
        }
        out.clear();
        build::message(&mut out, frontend::QUERY, |out| out.extend(b"COMMIT\0"));
        server.expects.own_query();
        server.transport.send(reactor, &out);
        server.query.filter = Some(Box::new(Form::new(asked.bytes.clone(), !whole)));
        server.session.statements.unnamed = None;
        self.went_out(reactor, index, server_index, asked, understood)
    }

    /// A request has gone out in another form than it came in. A cancel request that came before strikes it now.
    fn went_out(
        &mut self,
        reactor: &mut R,
        index: usize,
        server_index: usize,
        asked: &Asked,
        understood: Option<Arc<Understood>>,
    ) -> Verdict {
        self.shared
            .heavy_queue
            .counts
            .forms
            .fetch_add(1, Ordering::Relaxed);
        if let Some(server) = self.servers.get_mut(server_index) {
            // By the text as it came: who asks what it is must not find the form.
            server.query.running = understood.map_or(Running::Nothing, Running::One);
            let counts = std::mem::take(&mut server.query.counts);
            if let Some(pool) = self.pools.get_mut(server.pool) {
                pool.totals.counts.add(counts);
            }
        }
        let client = self.clients.get_mut(index);
        if client.is_some_and(|client| std::mem::take(&mut client.cancel_wanted)) {
            self.start_cancel(reactor, server_index);
        }
        ControlFlow::Break(Halt::Wait(asked.bytes.len()))
    }

    /// Messages that went out with settings which the server refused: they are served again, without.
    pub(in crate::core) fn form_refused(&mut self, server_index: usize, request: Vec<u8>) {
        let Some(server) = self.servers.get_mut(server_index) else {
            return;
        };
        server.stages.ticket = None;
        let Some(index) = server.user.client else { return };
        let now = self.now;
        if let Some(client) = self.clients.get_mut(index) {
            client.put_back(request);
            client.turn = Some(Box::new(Turn {
                given_up: true,
                ..Turn::new(Stage::Free, now)
            }));
            self.serve_soon(index);
        }
        self.unplace(server_index);
    }

    /// A server has answered queries, the first after this time. What came behind a query of the queue has waited for its end.
    #[inline]
    pub(in crate::core) fn heavy_queue_ran(
        &mut self,
        reactor: &R,
        index: usize,
        learnt: Option<&Understood>,
        took: Duration,
    ) {
        let Some(server) = self.servers.get_mut(index) else {
            return;
        };
        let came = server.query.came.take();
        server.query.deadline = Deadline::None;
        let ran = Ran { took, came };
        let (client, pool) = (server.user.client, server.pool);
        if let Some(ticket) = server.stages.ticket.take() {
            self.heavy_queue_finished(reactor, index, ticket, ran);
            if let Some(index) = client
                && let Some(client) = self.clients.get(index)
                && !client.inbox.is_empty()
            {
                self.serve_soon(index);
            }
        } else if let Some(understood) = learnt {
            self.heavy_queue_learns(reactor, pool, understood, ran);
        }
    }

    /// A query of the queue has ended: its run teaches, if it did not fail.
    fn heavy_queue_finished(&mut self, reactor: &R, server: usize, ticket: Ticket, ran: Ran) {
        self.unplace(server);
        if ticket.failed {
            return;
        }
        let now_ns = self.heavy_queue_ns(reactor);
        self.learn(now_ns, ticket.statement(), ran, true, ticket.hinted);
        ticket.finish(now_ns);
    }

    /// A statement has ended on a server of this pool, past the queue.
    fn heavy_queue_learns(&mut self, reactor: &R, pool: usize, understood: &Understood, ran: Ran) {
        let Some(pool) = self.pools.get(pool) else { return };
        if pool.effective.heavy_queue == Switch::Off || !may_queue(understood) {
            return;
        }
        let statement = statement(&pool.key.database, understood.shape);
        // Of the many that are short, only those are looked at that were taken for long ones.
        if ran.took <= SLOW && !self.heavy.is_heavy(&self.shared.heavy_queue.heavy, statement) {
            return;
        }
        let now_ns = self.heavy_queue_ns(reactor);
        self.learn(now_ns, statement, ran, false, understood.heavy_queue.is_some());
    }

    fn learn(&mut self, now_ns: u64, statement: StatementId, ran: Ran, queued: bool, hinted: bool) {
        let heavy_queue = &self.shared.heavy_queue;
        if !hinted
            && self.heavy.is_heavy(&heavy_queue.heavy, statement)
            && let Some(reference) = heavy_queue.heavy.reference(statement)
        {
            // From when it came: whatever kept it, questions, the queue, or the want of a server.
            let whole = ran.came.map_or(ran.took, |came| self.now.saturating_sub(came));
            let began = Duration::from_nanos(now_ns).saturating_sub(whole);
            heavy_queue
                .auto
                .ended(began, whole.as_secs_f64() / reference.as_secs_f64());
        }
        heavy_queue.heavy.learn(
            statement,
            ran.took,
            queued,
            self.files.config.corun.heavy_queue_min,
        );
    }

    /// Requests whose statement_timeout has passed, while they waited or after that.
    pub(in crate::core) fn heavy_queue_timeouts(&mut self, reactor: &mut R) {
        if self.heavy.timeouts_at.is_none_or(|at| self.now < at) {
            return;
        }
        let now = self.now;
        self.heavy.timeouts_at = None;
        let mut waiting = Vec::new();
        for (index, client) in &self.clients {
            let turn = client.turn.as_ref().filter(|_| client.server.is_none());
            match turn.and_then(|turn| turn.deadline) {
                Some(deadline) if deadline <= now => waiting.push(index),
                Some(deadline) => self.heavy.look_at(deadline),
                None => {}
            }
        }
        let mut running = Vec::new();
        for (index, server) in &mut self.servers {
            match server.query.deadline {
                Deadline::At(deadline) if deadline <= now => {
                    server.query.deadline = Deadline::Passed;
                    running.push(index);
                }
                Deadline::At(deadline) => self.heavy.look_at(deadline),
                Deadline::None | Deadline::Passed => {}
            }
        }
        for index in waiting {
            self.cancel_waiting(reactor, index, BY_TIMEOUT);
        }
        for index in running {
            self.start_cancel(reactor, index);
        }
    }

    /// Several times a second: cores of those that get no server go to others, those that have waited too long go on without, and
    /// `auto` is judged.
    pub(in crate::core) fn heavy_queue_tick(&mut self, reactor: &R) {
        if !self.shared.heavy_queue.is_open() {
            return;
        }
        let now_ns = self.heavy_queue_ns(reactor);
        let heavy_queue = &self.shared.heavy_queue;
        if self.index == 0 {
            heavy_queue.auto.tick(Duration::from_nanos(now_ns));
            heavy_queue.heavy.tick(Duration::from_nanos(now_ns));
        }
        let now = self.now;
        for (index, client) in &mut self.clients {
            let Some(turn) = client.turn.as_mut() else {
                continue;
            };
            let late = now.saturating_sub(turn.since) > WITHOUT_SERVER_MAX;
            if client.server.is_none() && late && matches!(turn.stage, Stage::Starts(_)) {
                let paused = self.pools.get(client.pool).is_some_and(|pool| pool.paused);
                turn.given_up |= !paused;
                turn.stage = Stage::Later;
                heavy_queue.counts.given_up.fetch_add(1, Ordering::Relaxed);
            }
            let waits =
                matches!(&turn.stage, Stage::Waits(ticket) if !heavy_queue.has_patience(ticket.id(), now_ns));
            if waits && !turn.hinted {
                // Whoever it waits for does not end: it waits for a lock, for its client, or is not as it was.
                heavy_queue.counts.impatient.fetch_add(1, Ordering::Relaxed);
                turn.stage = Stage::Free;
                client.wait.from = Some(turn.began);
                self.todo.push_back(Todo::Serve(index, client.id));
            }
        }
        self.unplace_again();
    }
}

/// A statement of a client's user under its settings: what decides of plans, but for text and values.
pub(super) fn key_of(client: &Client, statement: StatementId) -> StatementKey {
    let mut hasher = DefaultHasher::new();
    (statement.0, &client.user).hash(&mut hasher);
    for (name, value) in &client.settings.0 {
        if name != "application_name" {
            (name, value).hash(&mut hasher);
        }
    }
    hasher.finish()
}

/// Tells a request's text and values from others'.
pub(super) fn values_of(asked: &Asked) -> u64 {
    let mut hasher = DefaultHasher::new();
    (&*asked.sql, &asked.types, &asked.values).hash(&mut hasher);
    hasher.finish()
}
