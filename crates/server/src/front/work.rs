//! [`Work`]: a client's session while a task of the runtime has it, and what the task does with the client's messages.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};

use corun_wire::error::{Refusal, code};
use corun_wire::server::{Action, Executed, Message, ResultFormats, Session, Target, welcome};
use corun_wire::startup::Startup;
use corun_wire::{TransactionStatus, build};
use ring::rand::SecureRandom as _;
use tokio::sync::oneshot;

use super::engine::{SqlEngine, SqlSession};
use super::outlet::{KEPT_BYTES_MAX, Outlet, Pipe};
use super::shared::{Admission, ClientId, Mail, Mailbox, Shared, shutdown};
use crate::session::{CopyDone, CopyWanted, Effect, Gone, Identity, Ran};
use crate::short::{on_event_loop, unless};

/// Statements of one client that an event loop runs before others have their turn. Unmeasured.
const SHORT_STATEMENTS_MAX: usize = 16;

/// A portal of the session's, and the formats its client wants.
type Bound<S> = (<S as SqlSession>::Portal, ResultFormats);

/// See [`self`].
pub(super) struct Work<S: SqlSession> {
    shared: Arc<Shared>,
    session: Session<S::Prepared, Bound<S>>,
    sql: S,
    outlet: Outlet,
    /// The portal whose statement awaits rows of the client.
    copies: Option<Bound<S>>,
    _admission: Admission,
}

/// What a task hands back.
pub(super) enum Back<S: SqlSession> {
    /// All whole messages are done; the rest of what it was given.
    Ready(Box<Work<S>>, Vec<u8>),
    /// The session is over; its last words are in the pipe.
    Ended,
}

/// Why a task ends before its messages do.
enum Stop {
    /// Nobody listens, or the client says goodbye.
    Gone,
    /// The client is told this, and sent away.
    Fatal(Refusal),
}

impl From<Gone> for Stop {
    fn from(_: Gone) -> Self {
        Self::Gone
    }
}

/// Tells the event loop that a task is over, however it ends.
struct Ring {
    mailbox: Arc<Mailbox>,
    client: ClientId,
}

impl Drop for Ring {
    fn drop(&mut self) {
        self.mailbox.post(Mail::Back(self.client));
    }
}

/// Runs a task of a client; what it returns comes by the channel after [`Mail::Back`].
pub(super) fn spawn<S: SqlSession>(
    runtime: &tokio::runtime::Handle,
    mailbox: &Arc<Mailbox>,
    client: ClientId,
    task: impl Future<Output = Back<S>> + Send + 'static,
) -> oneshot::Receiver<Back<S>> {
    let (sender, receiver) = oneshot::channel();
    let ring = Ring {
        mailbox: Arc::clone(mailbox),
        client,
    };
    runtime.spawn(async move {
        let back = task.await;
        // A client that is gone takes nothing back: its session ends here, not on the event loop.
        let _ = sender.send(back);
        drop(ring);
    });
    receiver
}

/// What serves a client's messages.
pub(super) type Serving<S> = Pin<Box<dyn Future<Output = Back<S>> + Send>>;

/// What has come of messages that the event loop serves itself.
pub(super) enum Served<S: SqlSession> {
    Done(Back<S>),
    /// It waits for something of which its waker hears.
    Waits(Serving<S>),
    /// It has to block, or to plan.
    Leaves(Serving<S>),
    /// Its session is gone.
    Panicked,
}

/// Goes on with what [`serve`] has returned, on the calling thread, as far as that may be.
pub(super) fn serve_here<S: SqlSession>(
    runtime: &tokio::runtime::Handle,
    mut serving: Serving<S>,
    waker: &Waker,
) -> Served<S> {
    let _runtime = runtime.enter();
    let mut context = Context::from_waker(waker);
    let poll = AssertUnwindSafe(|| on_event_loop(|| serving.as_mut().poll(&mut context)));
    match catch_unwind(poll) {
        Ok((Poll::Ready(back), _)) => Served::Done(back),
        Ok((Poll::Pending, false)) => Served::Waits(serving),
        Ok((Poll::Pending, true)) => Served::Leaves(serving),
        Err(_) => Served::Panicked,
    }
}

/// Has the event loop poll what it serves itself.
pub(super) struct ServingWaker {
    pub mailbox: Arc<Mailbox>,
    pub client: ClientId,
}

impl Wake for ServingWaker {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.mailbox.post(Mail::Woken(self.client));
    }
}

/// Makes a session, welcomes its client, and serves what it has sent already.
pub(super) async fn begin<E: SqlEngine>(
    shared: Arc<Shared>,
    engine: E,
    pipe: Arc<Pipe>,
    startup: Startup,
    who: Identity,
    admission: Admission,
    inbox: Vec<u8>,
) -> Back<E::Session> {
    let mut outlet = Outlet::new(pipe);
    let mut secret = vec![0; startup.secret_bytes()];
    let random = shared.access.random().fill(&mut secret);
    let made = match random {
        Ok(()) => engine.session(who),
        Err(_) => Err(Refusal::new(
            code::INTERNAL_ERROR,
            "the system has no random numbers",
        )),
    };
    let sql = match made {
        Ok(sql) => sql,
        Err(refusal) => {
            build::fatal(outlet.pending(), &refusal);
            let _ = outlet.flush().await;
            return Back::Ended;
        }
    };
    let parameters = sql.reported();
    let parameters = parameters
        .iter()
        .map(|(name, value)| (name.as_str(), value.as_str()));
    let welcome = welcome(&startup, parameters, admission.pid(), &secret);
    outlet.pending().extend(welcome);
    admission.register(secret, sql.canceller());
    let session = Session::new(shared.config.client);
    let work = Box::new(Work {
        shared,
        session,
        sql,
        outlet,
        copies: None,
        _admission: admission,
    });
    serve(work, inbox).await
}

/// Does what the whole messages in `inbox` ask for.
pub(super) async fn serve<S: SqlSession>(mut work: Box<Work<S>>, mut inbox: Vec<u8>) -> Back<S> {
    let pipe = Arc::clone(work.outlet.pipe());
    // Of a client that is gone nothing goes on, whatever a cancel request has missed.
    let done = match pipe.is_closed() {
        true => Err(Stop::Gone),
        false => {
            let gone = async {
                pipe.gone().await;
                Err(Stop::Gone)
            };
            unless(work.messages(&inbox), gone).await
        }
    };
    match done {
        Ok(used) => {
            if used == inbox.len() && inbox.capacity() > KEPT_BYTES_MAX {
                inbox = Vec::new();
            } else {
                inbox.drain(..used);
            }
            Back::Ready(work, inbox)
        }
        Err(Stop::Gone) => Back::Ended,
        Err(Stop::Fatal(refusal)) => {
            build::fatal(work.outlet.pending(), &refusal);
            let _ = work.outlet.flush().await;
            Back::Ended
        }
    }
}

impl<S: SqlSession> Work<S> {
    /// Whether all whole messages are so short that they need no task, and few.
    pub(super) fn is_short(&mut self, mut inbox: &[u8]) -> bool {
        if self.copies.is_some() || self.session.is_between() {
            return false;
        }
        let (mut statements, mut parsed, mut bound) = (0, Vec::new(), Vec::new());
        while let Ok(Some((message, bytes))) = Message::read(inbox, &self.shared.config.client) {
            inbox = &inbox[bytes..];
            let is_short = match message {
                Message::Query(sql) => {
                    statements += 1;
                    self.sql.is_short_text(sql)
                }
                Message::Parse(parse) => {
                    parsed.push(parse.name);
                    let types: Vec<u32> = parse.types().collect();
                    self.sql.is_short_parse(parse.sql, &types)
                }
                Message::Bind(bind) => {
                    bound.push(bind.portal);
                    let known = || self.session.statement(bind.statement);
                    parsed.contains(&bind.statement) || known().is_some_and(|of| self.sql.is_short(of))
                }
                Message::Execute { portal, .. } => {
                    statements += 1;
                    bound.contains(&portal)
                }
                Message::Describe(_) | Message::Close(_) | Message::Sync | Message::Flush => true,
                _ => false,
            };
            if !is_short || statements > SHORT_STATEMENTS_MAX {
                return false;
            }
        }
        statements > 0
    }

    /// Returns how many bytes were whole messages.
    async fn messages(&mut self, inbox: &[u8]) -> Result<usize, Stop> {
        let mut used = 0;
        loop {
            match Message::read(&inbox[used..], &self.shared.config.client) {
                Ok(None) => break,
                Ok(Some((message, bytes))) => {
                    used += bytes;
                    let is_end = matches!(message, Message::Query(_) | Message::Sync);
                    self.message(message).await?;
                    if is_end && self.shared.is_stopping() {
                        break;
                    }
                }
                Err(malformed) => {
                    if self.session.malformed(&malformed, self.outlet.pending()) {
                        self.outlet.flush().await?;
                        return Err(Stop::Gone);
                    }
                    self.agree();
                    used += malformed.used.unwrap_or_default();
                }
            }
            self.outlet.flush_if_much().await?;
        }
        self.outlet.flush().await?;
        Ok(used)
    }

    async fn message(&mut self, message: Message<'_>) -> Result<(), Stop> {
        if let Message::Describe(Target::Portal(name)) = message
            && !self.session.has_portal(name)
            && let Some(columns) = self.sql.cursor(name)
        {
            build::row_description_of(self.outlet.pending(), &columns, &ResultFormats::default());
            return Ok(());
        }
        match self.session.message(message, self.outlet.pending()) {
            Action::Nothing => {
                self.agree();
                Ok(())
            }
            Action::Flush => Ok(self.outlet.flush().await?),
            Action::Terminate => Err(Stop::Gone),
            Action::Query { sql } => {
                let ran = self.sql.simple(sql, &mut self.outlet).await;
                self.tell();
                self.queried(ran)
            }
            Action::Parse(parse) => {
                let types: Vec<u32> = parse.types().collect();
                let prepared = self.sql.prepare(parse.sql, &types).await;
                self.tell();
                match prepared {
                    Ok(of) => {
                        let out = self.outlet.pending();
                        self.session.parsed(out, of.statement, of.parameters, of.columns);
                        Ok(())
                    }
                    Err(refusal) => self.failed(&refusal),
                }
            }
            Action::Bind {
                statement,
                bind,
                formats,
            } => match self.sql.bind(&statement, bind.parameters()) {
                Ok(portal) => {
                    self.session.bound(self.outlet.pending(), (portal, formats));
                    Ok(())
                }
                Err(refusal) => self.failed(&refusal),
            },
            Action::Execute { portal, rows_max } => self.execute(portal, rows_max).await,
            Action::Sync { commit } => {
                let ended = self.sql.end_pipeline(commit).await;
                self.tell();
                match ended {
                    Ok(()) => {
                        self.session.ended(self.outlet.pending());
                        Ok(())
                    }
                    Err(refusal) => self.failed(&refusal),
                }
            }
            Action::CopyData(data) => match self.sql.copy_data(data).await {
                Ok(()) => Ok(()),
                Err(refusal) => {
                    self.copies = None;
                    self.failed(&refusal)
                }
            },
            Action::CopyDone => self.copy_done().await,
            Action::CopyFail(refusal) => {
                self.copies = None;
                self.sql.copy_failed();
                self.failed(&refusal)
            }
        }
    }

    /// A simple query has ended, or awaits rows.
    fn queried(&mut self, ran: Result<Option<CopyWanted>, Refusal>) -> Result<(), Stop> {
        match ran {
            Ok(None) => {
                self.session.set_transaction(self.sql.transaction());
                self.session.query_done(self.outlet.pending());
                Ok(())
            }
            Ok(Some(CopyWanted { binary, columns })) => {
                self.session.copy_in(self.outlet.pending(), binary, columns);
                Ok(())
            }
            Err(refusal) => self.failed(&refusal),
        }
    }

    async fn copy_done(&mut self) -> Result<(), Stop> {
        let done = self.sql.copy_done(&mut self.outlet).await;
        self.tell();
        match (done, self.copies.take()) {
            (Ok(CopyDone::Simple(wanted)), _) => self.queried(Ok(wanted)),
            (Ok(CopyDone::Portal(tag)), Some(portal)) => {
                self.session.set_transaction(self.sql.transaction());
                let how = Executed::Complete(&tag);
                self.session.executed(self.outlet.pending(), portal, how);
                Ok(())
            }
            (Ok(CopyDone::Portal(_)), None) => {
                self.failed(&Refusal::new(code::PROTOCOL_VIOLATION, "nothing is copied in"))
            }
            (Err(refusal), _) => self.failed(&refusal),
        }
    }

    async fn execute(&mut self, bound: Bound<S>, rows_max: Option<u32>) -> Result<(), Stop> {
        let (mut portal, formats) = bound;
        let ran = self
            .sql
            .run(&mut portal, &formats, rows_max, &mut self.outlet)
            .await;
        self.tell();
        match ran {
            Ok(ran) => {
                if let Ran::CopyIn { binary, columns } = ran {
                    self.copies = Some((portal, formats));
                    self.session.copy_in(self.outlet.pending(), binary, columns);
                    return Ok(());
                }
                let how = match &ran {
                    Ran::Complete(tag) => Executed::Complete(tag),
                    Ran::Suspended => Executed::Suspended,
                    Ran::Empty | Ran::CopyIn { .. } => Executed::Empty,
                };
                self.session.set_transaction(self.sql.transaction());
                self.session
                    .executed(self.outlet.pending(), (portal, formats), how);
                Ok(())
            }
            Err(refusal) => self.failed(&refusal),
        }
    }

    /// What a call has brought beside its result.
    fn tell(&mut self) {
        let out = self.outlet.pending();
        for effect in self.sql.take_effects() {
            match effect {
                Effect::Notice(says) => build::notice(out, &says),
                Effect::Warning(says) => build::warning(out, &says),
                Effect::Changed(name, value) => build::parameter_status(out, &name, &value),
                Effect::Deallocate(name) => {
                    self.session.deallocate(&name);
                }
                Effect::DeallocateAll => self.session.deallocate_all(),
            }
        }
    }

    fn failed(&mut self, refusal: &Refusal) -> Result<(), Stop> {
        if self.outlet.pipe().is_closed() {
            return Err(Stop::Gone);
        }
        if refusal.code == code::QUERY_CANCELED && self.shared.is_terminating() {
            return Err(Stop::Fatal(shutdown()));
        }
        // A statement that failed may have begun or ended a transaction before.
        self.session.set_transaction(self.sql.transaction());
        self.session.failed(self.outlet.pending(), refusal);
        self.agree();
        Ok(())
    }

    /// What the protocol's state machine refused by itself fails the transaction of the session, too.
    fn agree(&mut self) {
        let failed = self.session.transaction() == TransactionStatus::Failed;
        if failed && self.sql.transaction() == TransactionStatus::Open {
            self.sql.fail_transaction();
        }
    }
}
