//! [`Understood`]: everything the proxy wants to know of a text.

use std::sync::Arc;

use pg_query::protobuf as pb;

use super::keys::KeyPlan;
use super::{Effects, HeavyQueueHint, Hint, Pins, Words};

/// Which statements count as the same: PostgreSQL's parse tree without literals and aliases, as a number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Shape(pub u64);

impl Shape {
    /// The text was not parsed.
    pub const UNKNOWN: Shape = Shape(0);
}

/// Whether a text may run on a replica.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Access {
    /// It only reads, and what it returns is a matter of the data.
    Read,
    /// It writes, locks, or runs on the primary only for another reason that is known.
    Write,
    /// Nobody knows; to be treated as a write.
    #[default]
    Unknown,
}

/// A table or view as written in the text.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TableName {
    /// Its schema, where the text names one.
    pub schema: Option<Box<str>>,
    /// Its name, folded to lower case unless it was quoted.
    pub name: Box<str>,
}

impl TableName {
    /// The table that stands there.
    pub(crate) fn of(table: &pb::RangeVar) -> TableName {
        TableName {
            schema: (!table.schemaname.is_empty()).then(|| table.schemaname.as_str().into()),
            name: table.relname.as_str().into(),
        }
    }
}

/// Isolation level named by a BEGIN.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Isolation {
    /// READ UNCOMMITTED, which PostgreSQL runs as READ COMMITTED.
    ReadUncommitted,
    /// READ COMMITTED.
    ReadCommitted,
    /// REPEATABLE READ.
    RepeatableRead,
    /// SERIALIZABLE.
    Serializable,
}

/// What a text does to the transaction block.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum TransactionEffect {
    /// Nothing.
    #[default]
    None,
    /// BEGIN or START TRANSACTION, with what it says itself; `None` is the session's default.
    Begin {
        /// READ ONLY or READ WRITE.
        read_only: Option<bool>,
        /// ISOLATION LEVEL.
        isolation: Option<Isolation>,
        /// DEFERRABLE or NOT DEFERRABLE.
        deferrable: Option<bool>,
    },
    /// COMMIT or END; `chain` begins the next transaction at once.
    Commit {
        /// AND CHAIN.
        chain: bool,
    },
    /// ROLLBACK or ABORT.
    Rollback {
        /// AND CHAIN.
        chain: bool,
    },
    /// SAVEPOINT.
    Savepoint,
    /// RELEASE SAVEPOINT.
    Release,
    /// ROLLBACK TO SAVEPOINT.
    RollbackTo,
    /// PREPARE TRANSACTION.
    Prepare,
    /// COMMIT PREPARED.
    CommitPrepared,
    /// ROLLBACK PREPARED.
    RollbackPrepared,
    /// SET TRANSACTION: changes the one that runs.
    Characteristics,
    /// Several statements, of which at least one is one of the above.
    Mixed,
}

/// Which prepared statements go away, those of the protocol included, once the text has succeeded.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub enum Discard {
    /// None.
    #[default]
    None,
    /// All: DEALLOCATE ALL, DISCARD ALL.
    All,
    /// These: DEALLOCATE name, in order, repetitions included.
    Named(Vec<Box<str>>),
}

/// What kind of statement a text is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[allow(missing_docs)] // Each is the statement of SQL that has its name.
pub enum StatementKind {
    /// SELECT, VALUES, TABLE.
    Select,
    Insert,
    Update,
    Delete,
    Merge,
    /// COPY FROM: the server reads.
    CopyIn,
    /// COPY TO: the server writes.
    CopyOut,
    Transaction,
    /// SET, RESET.
    Set,
    Show,
    Discard,
    /// PREPARE of SQL.
    Prepare,
    /// EXECUTE of SQL.
    Execute,
    Deallocate,
    /// DECLARE, FETCH, MOVE, CLOSE.
    Cursor,
    Explain,
    /// LISTEN, UNLISTEN, NOTIFY.
    Notification,
    /// DO and CALL.
    Call,
    /// LOCK TABLE.
    Lock,
    /// CREATE, ALTER, DROP, TRUNCATE, GRANT ...: plans and results may be others afterwards.
    Definition,
    /// VACUUM, ANALYZE, CHECKPOINT, LOAD ...
    Utility,
    /// No statement, such as a lone semicolon or comment.
    Empty,
    /// Several statements of different kinds.
    Several,
    /// The text was not parsed.
    #[default]
    Unknown,
}

/// What is known of a text. It says what the text would do *if the server accepts it*.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Understood {
    /// Which texts run the same code. [`Shape::UNKNOWN`] when not parsed.
    pub shape: Shape,
    /// The text with `$n` in place of its literals. Only for statements on data; others may hold passwords where literals are
    /// not replaced.
    pub normalised: Option<Arc<str>>,
    /// Statements in the text.
    pub statements: u16,
    /// Whether it may run on a replica.
    pub access: Access,
    /// Tables and views it names, sorted, each once, at most [`Understood::TABLES_MAX`].
    pub tables: Vec<TableName>,
    /// What it does to the transaction block.
    pub transaction: TransactionEffect,
    /// Settings of the session may differ afterwards (not those that end with the transaction).
    pub settings: bool,
    /// Settings among them that the view pg_settings does not list: custom ones (`a.b`) and `role`. Sorted, each once.
    pub setting_names: Vec<Box<str>>,
    /// What it may leave behind. To be applied also when the text fails: not everything is undone by an error.
    pub pins: Pins,
    /// What is undone, before `pins` count, once the text has succeeded and its transaction has committed.
    pub unpins: Pins,
    /// Channels of UNLISTEN, where it has one.
    pub unlistens: Vec<Box<str>>,
    /// Which prepared statements go away.
    pub discards_prepared: Discard,
    /// Names of statements prepared in SQL.
    pub prepares: Vec<Box<str>>,
    /// Names of prepared statements it runs in SQL (EXECUTE).
    pub executes: Vec<Box<str>>,
    /// A comment at the beginning that was meant for us.
    pub hint: Option<Hint>,
    /// The same about the queue of heavy queries.
    pub heavy_queue: Option<HeavyQueueHint>,
    /// What kind of statement it is.
    pub kind: StatementKind,
    /// It calls code that the text does not show: functions that are not PostgreSQL's own, DO, CALL, EXECUTE, or the text was
    /// not parsed. Settings may differ afterwards, and more.
    pub opaque: bool,
    /// Names of the functions it calls and of the relations it uses, sorted, each once: code of the database's own may be behind them.
    pub names: Vec<Box<str>>,
    /// Another session may read it otherwise: its bytes beyond ASCII in another encoding than UTF-8, its backslashes where strings are not
    /// the standard's.
    pub ambiguous: bool,
    /// It defines something: triggers of such events run.
    pub wide: bool,
    /// It may do anything to the session that cannot be seen.
    pub unreadable: bool,
    /// It changes what is defined (types of columns, tables, functions), or may: what is known of other texts may no longer hold.
    pub defines: bool,
    /// Code of the database's own, or what runs it, may be other afterwards.
    pub recodes: bool,
    /// The highest `$n` in it.
    pub parameters: u16,
    /// One SELECT, VALUES, INSERT, UPDATE or DELETE without parameters that the grammar knows throughout: what
    /// [`crate::auto_prepare`] may look at.
    pub plain: bool,
    /// Which keys of which columns it may touch; `None` if nothing is known of that.
    pub keys: Option<Arc<KeyPlan>>,
    /// The query of `EXPLAIN (CORUN) query`, which asks what the proxy would do with it. PostgreSQL refuses the option.
    pub explains: Option<Arc<str>>,
    /// What it does depends on its literals, so that texts that look like it may do something else.
    pub(super) by_literals: bool,
}

impl StatementKind {
    /// Whether it is a statement on data.
    pub const fn is_data(self) -> bool {
        use StatementKind::{Delete, Insert, Merge, Select, Update};
        matches!(self, Select | Insert | Update | Delete | Merge)
    }
}

impl Understood {
    /// Whether it is one query that only reads, as the queue of heavy ones is for.
    pub fn is_one_read(&self) -> bool {
        self.access == Access::Read && self.kind == StatementKind::Select && self.statements == 1
    }

    /// Tables listed at most.
    pub const TABLES_MAX: usize = 64;

    /// Whether what it does to the session depends on code that the text does not show.
    pub fn hides(&self) -> bool {
        use StatementKind::{Empty, Set, Show, Transaction};
        self.wide
            || self.unreadable
            || !self.names.is_empty()
            // Operators, casts and checks of types have no names.
            || !matches!(self.kind, Transaction | Set | Show | Empty)
    }

    /// What is known of a text that was not parsed: its words.
    pub(super) fn unparsed(words: Words) -> Understood {
        let understood = Understood {
            opaque: true,
            names: words.names.into_iter().collect(),
            by_literals: true,
            ..Understood::default()
        };
        understood.with(words.effects)
    }

    /// The same with these effects on the session.
    pub(super) fn with(self, effects: Effects) -> Understood {
        Understood {
            pins: effects.pins,
            settings: effects.settings,
            setting_names: effects.names.into_iter().collect(),
            unreadable: effects.unreadable,
            ..self
        }
    }

    /// Bytes it takes on the heap, roughly: what the bound of the cache counts.
    pub(super) fn bytes(&self) -> usize {
        let names = |names: &[Box<str>]| names.iter().map(|name| name.len() + 16).sum::<usize>();
        size_of::<Understood>()
            + self.normalised.as_ref().map_or(0, |text| text.len())
            + self.explains.as_ref().map_or(0, |text| text.len())
            + self.keys.as_ref().map_or(0, |plan| plan.bytes())
            + self
                .tables
                .iter()
                .map(|table| {
                    table.name.len() + table.schema.as_ref().map_or(0, |s| s.len()) + size_of::<TableName>()
                })
                .sum::<usize>()
            + names(&self.setting_names)
            + names(&self.names)
            + names(&self.prepares)
            + names(&self.executes)
            + match &self.discards_prepared {
                Discard::Named(list) => names(list),
                Discard::None | Discard::All => 0,
            }
    }
}
