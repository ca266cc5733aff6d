//! [`Pins`]: what binds a client to one server connection.

use std::fmt;
use std::ops::{BitOr, BitOrAssign};

/// A set of reasons why a client must keep its server connection between transactions.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Pins(u16);

impl Pins {
    /// No reason.
    pub const NONE: Pins = Pins(0);
    /// A temporary table, view, sequence or anything else in the session's own schema.
    pub const TEMP_TABLE: Pins = Pins(1);
    /// An advisory lock of the session, not of the transaction.
    pub const ADVISORY_LOCK: Pins = Pins(1 << 1);
    /// LISTEN.
    pub const LISTEN: Pins = Pins(1 << 2);
    /// A cursor WITH HOLD.
    pub const HOLD_CURSOR: Pins = Pins(1 << 3);
    /// PREPARE as a statement of SQL.
    pub const SQL_PREPARE: Pins = Pins(1 << 4);
    /// SET SESSION AUTHORIZATION.
    pub const SESSION_AUTHORIZATION: Pins = Pins(1 << 5);
    /// LOAD of a library.
    pub const LOAD: Pins = Pins(1 << 6);
    /// Anything else that cannot be replayed: a random seed, a temporary replication slot, a setting whose name is not known.
    pub const OTHER: Pins = Pins(1 << 7);
    /// Code ran that may have left anything, and nobody can see what.
    pub const DOUBTFUL: Pins = Pins(1 << 8);
    /// What DISCARD ALL undoes: everything but libraries, [`Pins::OTHER`] and [`Pins::DOUBTFUL`].
    pub const DISCARDED: Pins = Pins(0b0011_1111);

    const NAMES: [(Pins, &'static str); 9] = [
        (Pins::TEMP_TABLE, "temp_table"),
        (Pins::ADVISORY_LOCK, "advisory_lock"),
        (Pins::LISTEN, "listen"),
        (Pins::HOLD_CURSOR, "hold_cursor"),
        (Pins::SQL_PREPARE, "sql_prepare"),
        (Pins::SESSION_AUTHORIZATION, "session_authorization"),
        (Pins::LOAD, "load"),
        (Pins::OTHER, "other"),
        (Pins::DOUBTFUL, "doubtful"),
    ];

    /// A query whose row tells which reasons hold, in the order of [`Pins::ASKED`].
    pub const QUESTION: &str = "SELECT pg_catalog.pg_my_temp_schema() OPERATOR(pg_catalog.<>) 0::pg_catalog.oid AND (\
        EXISTS (SELECT FROM pg_catalog.pg_class WHERE relnamespace OPERATOR(pg_catalog.=) pg_catalog.pg_my_temp_schema()) \
        OR EXISTS (SELECT FROM pg_catalog.pg_type WHERE typnamespace OPERATOR(pg_catalog.=) pg_catalog.pg_my_temp_schema()) \
        OR EXISTS (SELECT FROM pg_catalog.pg_proc WHERE pronamespace OPERATOR(pg_catalog.=) pg_catalog.pg_my_temp_schema())), \
        EXISTS (SELECT FROM pg_catalog.pg_locks WHERE locktype OPERATOR(pg_catalog.=) 'advisory' \
            AND pid OPERATOR(pg_catalog.=) pg_catalog.pg_backend_pid()), \
        EXISTS (SELECT FROM pg_catalog.pg_listening_channels()), \
        EXISTS (SELECT FROM pg_catalog.pg_cursors WHERE is_holdable), \
        EXISTS (SELECT FROM pg_catalog.pg_prepared_statements WHERE from_sql), \
        EXISTS (SELECT FROM pg_catalog.pg_stat_get_activity(pg_catalog.pg_backend_pid()) \
            WHERE pg_catalog.pg_get_userbyid(usesysid) OPERATOR(pg_catalog.<>) session_user)";
    /// What [`Pins::QUESTION`] asks about.
    pub const ASKED: [Pins; 6] = [
        Pins::TEMP_TABLE,
        Pins::ADVISORY_LOCK,
        Pins::LISTEN,
        Pins::HOLD_CURSOR,
        Pins::SQL_PREPARE,
        Pins::SESSION_AUTHORIZATION,
    ];
    /// All of these.
    pub const CAN_BE_ASKED: Pins = Pins(0b0011_1111);

    /// Whether the server knows about one of these reasons.
    pub fn can_be_asked(self) -> bool {
        self.0 & Pins::CAN_BE_ASKED.0 != 0
    }

    /// These after the answer to [`Pins::QUESTION`]: a row of `t` and `f`. Reasons it does not tell about stay.
    #[must_use]
    pub fn as_answered(self, row: &[Option<String>]) -> Pins {
        let mut pins = self;
        for (asked, answer) in Pins::ASKED.iter().zip(row) {
            match answer.as_deref() {
                Some("t") => pins |= *asked,
                Some("f") => pins = pins.without(*asked),
                _ => {}
            }
        }
        pins
    }

    /// Whether there is no reason.
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Those of them that are among `other` too.
    pub const fn among(self, other: Pins) -> Pins {
        Pins(self.0 & other.0)
    }

    /// Whether every reason of `other` is among these.
    pub const fn contains(self, other: Pins) -> bool {
        self.0 & other.0 == other.0
    }

    /// These without those of `other`.
    pub const fn without(self, other: Pins) -> Pins {
        Pins(self.0 & !other.0)
    }

    /// The names of the reasons, as the console shows them.
    pub fn names(self) -> impl Iterator<Item = &'static str> {
        Pins::NAMES
            .iter()
            .filter(move |(pin, _)| self.contains(*pin))
            .map(|(_, name)| *name)
    }
}

impl BitOr for Pins {
    type Output = Pins;
    fn bitor(self, other: Pins) -> Pins {
        Pins(self.0 | other.0)
    }
}

impl BitOrAssign for Pins {
    fn bitor_assign(&mut self, other: Pins) {
        self.0 |= other.0;
    }
}

impl fmt::Debug for Pins {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.names()).finish()
    }
}
