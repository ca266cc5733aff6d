//! What a statement wants of its host, given what its session did before: the rules of the read/write split.
//!
//! ```text
//!                 read, alone, or BEGIN READ ONLY, or a hint
//!   no transaction ───────────────────────────────────────────► Replica (fresh enough for the session's own writes)
//!        │  anything else, anything doubtful
//!        └────────────────────────────────────────────────────► Primary
//!   transaction or pipeline under way, or pinned ─────────────► Stay
//! ```
//!
//! One [`Session`] for each client. Before a statement starts a transaction the caller asks [`Session::decide`]; when the
//! transaction is over it says so with [`Session::finished`]. What is decided once holds until then: PostgreSQL cannot
//! carry a transaction to another server.
//!
//! Some things a replica refuses though they only read: serializable transactions, and a transaction that was begun read
//! only and then made read-write by SET TRANSACTION. The first are seen here and go to the primary. The second fails on the
//! replica with the server's own error; BEGIN READ WRITE is the way to say it.
//!
//! Not here: what a text is (the proxy crate's `understand`), and which replica (see [`super::Fleet`]).

use std::time::Duration;

use super::fleet::Fleet;
use super::lsn::Lsn;
use super::route::Want;

/// What a session's reads see of its own writes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ReadYourWrites {
    /// A read may go to a replica that has not replayed them yet.
    Off,
    /// Reads go to hosts that show them: the place in the log after the write is learnt, and compared.
    #[default]
    Log,
    /// Reads go to the primary for this long after a write. For servers that do not tell their place in the log.
    Window(Duration),
}

/// The rules of one database.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rules {
    /// Reads may go to replicas. Off: everything goes to the primary, hints aside.
    pub split: bool,
    /// What a session sees of its own writes.
    pub read_your_writes: ReadYourWrites,
}

/// What a text does, as far as is known for certain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Statement {
    /// One statement that provably only reads.
    Read,
    /// One statement that writes, or may.
    Write,
    /// BEGIN or START TRANSACTION, alone.
    Begin(Modes),
    /// Several statements in one text, a COPY, a text that could not be parsed, a function call of the protocol.
    Doubtful,
}

/// The modes that BEGIN may name; `None`: not named, the session's default holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Modes {
    /// READ ONLY or READ WRITE.
    pub read_only: Option<bool>,
    /// ISOLATION LEVEL SERIALIZABLE or another level.
    pub serializable: Option<bool>,
}

/// What a comment of the text asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hint {
    /// The primary.
    Primary,
    /// A replica. The text is taken at its word: if it writes, the replica refuses it.
    Replica,
}

/// What a session's settings say of the transactions it begins.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Defaults {
    /// `default_transaction_read_only`, also set by SET SESSION CHARACTERISTICS.
    pub read_only: bool,
    /// `default_transaction_isolation` is serializable.
    pub serializable: bool,
}

/// How a text arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// One Query message, which is a transaction of its own.
    Simple,
    /// Parse, Bind, Execute up to a Sync that is here too. The statement is the one of all of them together: a read only
    /// if each is.
    Whole,
    /// The same, the Sync not yet seen: what comes may write.
    Part,
}

/// A text that is about to start a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ask {
    /// What it does.
    pub statement: Statement,
    /// How it arrived.
    pub form: Form,
    /// What its comment asks for.
    pub hint: Option<Hint>,
    /// The session's defaults, this text not yet run.
    pub defaults: Defaults,
}

/// Where it goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// To the server the session holds.
    Stay,
    /// To the primary.
    Primary,
    /// To a replica, or the primary where none will do.
    Replica,
}

/// What a session has written, as far as its reads must show it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Written {
    /// Nothing.
    #[default]
    Nothing,
    /// Something, committed by this time; its place in the log is not known yet.
    By(Duration),
    /// All of it lies before this place in the log.
    Until { lsn: Lsn, by: Duration },
}

/// What the rules keep of one client's session.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Session {
    holds_server: bool,
    written: Written,
}

impl Session {
    /// A session that has done nothing.
    pub fn new() -> Self {
        Self::default()
    }

    /// Where the text goes. A place other than [`Place::Stay`] means that the session now holds the server it gets there,
    /// until [`Session::finished`].
    pub fn decide(&mut self, rules: &Rules, ask: &Ask) -> Place {
        if self.holds_server {
            return Place::Stay;
        }
        self.holds_server = true;
        match ask.hint {
            Some(Hint::Primary) => return Place::Primary,
            // What else comes before the Sync may have no hint.
            Some(Hint::Replica) if ask.form != Form::Part => return Place::Replica,
            _ => {}
        }
        if !rules.split || ask.form == Form::Part {
            return Place::Primary;
        }
        let (reads, serializable) = match ask.statement {
            Statement::Read => (true, ask.defaults.serializable),
            Statement::Begin(modes) => (
                modes.read_only.unwrap_or(ask.defaults.read_only),
                modes.serializable.unwrap_or(ask.defaults.serializable),
            ),
            Statement::Write | Statement::Doubtful => (false, false),
        };
        if reads && !serializable {
            Place::Replica
        } else {
            Place::Primary
        }
    }

    /// Whether it holds a server: in a transaction, a pipeline, or pinned.
    pub fn holds_server(&self) -> bool {
        self.holds_server
    }

    /// The transaction is over and the server let go; call it not while a pin holds the server. `wrote`: something in it
    /// wrote, or may have, and it ran on the primary.
    ///
    /// `now` must have been read after the answer to the commit had arrived, not at the beginning of the turn of an event
    /// loop: a probe sent in between may have seen the log before the write.
    pub fn finished(&mut self, wrote: bool, now: Duration) {
        self.holds_server = false;
        if wrote {
            self.written = Written::By(now);
        }
    }

    /// A pinned server's transaction is over: something in it wrote, or may have.
    pub fn wrote(&mut self, now: Duration) {
        self.written = Written::By(now);
    }

    /// The primary's place in the log, asked for after the session's last write was committed.
    pub fn learnt(&mut self, lsn: Lsn) {
        if let Written::By(by) = self.written {
            self.written = Written::Until { lsn, by };
        }
    }

    /// What to ask the fleet for, for the place that was decided; `None` for [`Place::Stay`].
    ///
    /// The place in the log of a write of a while ago is learnt here from the primary's probes, so that no statement
    /// need be run for it.
    pub fn want(&mut self, rules: &Rules, place: Place, fleet: &Fleet, now: Duration) -> Option<Want> {
        match place {
            Place::Stay => return None,
            Place::Primary => return Some(Want::Write),
            Place::Replica => {}
        }
        if let (ReadYourWrites::Log, Written::By(by)) = (rules.read_your_writes, self.written)
            && let Some(lsn) = fleet.lsn_after(by)
        {
            self.learnt(lsn);
        }
        let written = match self.written {
            Written::Nothing => return Some(Want::Read { min_lsn: None }),
            written => written,
        };
        Some(match (rules.read_your_writes, written) {
            (ReadYourWrites::Log, Written::Until { lsn, .. }) => Want::Read { min_lsn: Some(lsn) },
            (ReadYourWrites::Log, _) => Want::Write,
            (ReadYourWrites::Window(window), Written::By(by) | Written::Until { by, .. })
                if now.saturating_sub(by) < window =>
            {
                Want::Write
            }
            _ => Want::Read { min_lsn: None },
        })
    }
}
