//! [`LiteralCheck`]: the question whether a lifted text is equal to the text it came from, and the server's answer.
//!
//! ```text
//!  lock_timeout   Parse(as it came) Describe   Close Parse(lifted) Describe   Sync     then the client's own message
//!                                   t T                            t T        Z        nobody gets these
//! ```
//!
//! It goes out in front of a simple query of any client with the same database, user and settings, outside of transaction blocks,
//! where an error changes nothing; the client waits for no more than one answer.

use std::sync::Arc;
use std::time::Duration;

use crate::auto_prepare::{Lifted, proven};
use crate::core::auto_prepare::lifted::is_of_the_moment;
use crate::core::reply::filter::{AfterReply, ReplyFilter, Verdict};
use crate::session::prepared::Statement;
use corun_wire::backend;
use corun_wire::error::{Reported, code};

/// Questions that wait for a client to go with.
const WANTED_MAX: usize = 64;
/// How long a question waits, and its answer is waited for. Unmeasured.
pub(in crate::core) const PATIENCE: Duration = Duration::from_secs(1);

/// A question.
#[derive(Clone, Debug)]
pub(in crate::core) struct Wanted {
    /// Whose it is: database, user, settings.
    pub scope: Box<[u8]>,
    /// Where the answer belongs in [`crate::core::auto_prepare::shapes::Shapes`].
    pub key: Box<[u8]>,
    /// The text as it came.
    pub sql: Box<[u8]>,
    pub lifted: Arc<Lifted>,
    /// The lifted text as a statement.
    pub statement: Arc<Statement>,
    /// What the classifier's stamp was.
    pub stamp: u64,
    pub until: Duration,
}

/// Questions that wait, within a bound.
#[derive(Debug, Default)]
pub(in crate::core) struct PendingChecks(Vec<Wanted>);

impl PendingChecks {
    /// Adds a question. `false`: there are too many.
    pub fn add(&mut self, wanted: Wanted, now: Duration) -> bool {
        if self.0.len() >= WANTED_MAX {
            self.0.retain(|old| old.until > now);
        }
        let room = self.0.len() < WANTED_MAX;
        if room {
            self.0.push(wanted);
        }
        room
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Takes one of this scope, the newest first.
    pub fn take(&mut self, scope: &[u8]) -> Option<Wanted> {
        let at = self.0.iter().rposition(|wanted| *wanted.scope == *scope)?;
        Some(self.0.remove(at))
    }
}

/// A question on its way.
#[derive(Debug)]
pub(in crate::core) struct LiteralCheck {
    pub wanted: Wanted,
    /// Types of the lifted text's parameters, as far as is known.
    types: Option<Vec<u32>>,
    /// Row descriptions of both.
    rows: Vec<Box<[u8]>>,
    /// The error of the server that refused one of the two.
    failed: Option<String>,
}

impl LiteralCheck {
    /// Asked just now.
    pub fn new(wanted: Wanted) -> Self {
        Self {
            wanted,
            types: None,
            rows: Vec::new(),
            failed: None,
        }
    }

    /// The types of the parameters, if both texts are equal.
    pub fn proven(&self) -> Option<&[u32]> {
        match (&self.types, self.rows.as_slice()) {
            (Some(types), [original, lifted]) if self.failed.is_none() => {
                proven(&self.wanted.lifted, types, original, lifted).then_some(types)
            }
            _ => None,
        }
    }
}

impl ReplyFilter for LiteralCheck {
    fn message(&mut self, tag: u8, body: &[u8], _whole: bool) -> Verdict {
        match tag {
            backend::PARAMETER_DESCRIPTION => {
                let types = body.get(2..).unwrap_or_default();
                let oid = |bytes: &[u8]| bytes.iter().fold(0, |oid, &byte| oid << 8 | u32::from(byte));
                self.types = Some(types.chunks(4).map(oid).collect());
            }
            backend::ROW_DESCRIPTION | backend::NO_DATA if self.rows.len() < 2 => self.rows.push(body.into()),
            backend::ERROR => self.failed = Some(Reported::read(body).code),
            backend::READY => return Verdict::Last,
            backend::PARAMETER_STATUS | backend::NOTIFICATION => return Verdict::Usual,
            _ => {}
        }
        Verdict::Held
    }

    /// Nobody gets a part of anything here.
    fn needs_whole(&self, _tag: u8) -> bool {
        true
    }

    fn after(self: Box<Self>) -> Option<AfterReply> {
        match self.failed.as_deref() {
            Some(code::QUERY_CANCELED) => Some(AfterReply::CancelAgain),
            // Nothing was found out: a lock is taken, for example.
            Some(code) if is_of_the_moment(code) => None,
            _ => Some(AfterReply::Learn(Box::new(move |classifier| {
                classifier.answered(&self)
            }))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::auto_prepare::lift;
    use crate::session::prepared::Statements;
    use crate::understand::{Limits, Understanding};

    fn wanted(scope: &str, until: u64) -> Wanted {
        let sql = b"select a from t where b = 5";
        let mut understanding = Understanding::new(Limits::default());
        Wanted {
            scope: scope.as_bytes().into(),
            key: Box::default(),
            sql: sql.as_slice().into(),
            lifted: Arc::new(lift(sql).expect("a literal")),
            statement: Statements::new(1).intern(sql, &[0, 0], b"", || understanding.of(sql)),
            stamp: 1,
            until: Duration::from_secs(until),
        }
    }

    #[test]
    fn wishes_are_bounded_and_go_to_their_scope() {
        let mut pending = PendingChecks::default();
        for _ in 0..WANTED_MAX {
            assert!(pending.add(wanted("a", 5), Duration::ZERO));
        }
        assert!(!pending.add(wanted("b", 5), Duration::ZERO));
        assert!(pending.take(b"b").is_none());
        assert!(
            pending.add(wanted("b", 9), Duration::from_secs(6)),
            "the others are too old"
        );
        assert!(pending.take(b"a").is_none());
        assert!(pending.take(b"b").is_some());
        assert!(pending.is_empty());
    }

    #[test]
    fn what_was_described_decides() {
        let (t, rows, none) = (
            backend::PARAMETER_DESCRIPTION,
            backend::ROW_DESCRIPTION,
            backend::NO_DATA,
        );
        let ask = |messages: &[(u8, &[u8])], fail: bool| {
            let mut check = LiteralCheck::new(wanted("a", 1));
            for (tag, body) in messages {
                assert_eq!(check.message(*tag, body, true), Verdict::Held);
            }
            if fail {
                let error = b"SERROR\0C42703\0Mno\0\0";
                assert_eq!(check.message(backend::ERROR, error, true), Verdict::Held);
            }
            let proven = check.proven().map(<[u32]>::to_vec);
            assert_eq!(check.message(backend::READY, b"I", true), Verdict::Last);
            assert!(matches!(Box::new(check).after(), Some(AfterReply::Learn(_))));
            proven
        };
        let (nothing, integer): (&[u8], &[u8]) = (&[0, 0], &[0, 1, 0, 0, 0, 23]);
        let equal = [(t, nothing), (rows, b"x".as_slice()), (t, integer), (rows, b"x")];
        assert_eq!(ask(&equal, false), Some(vec![23]));
        assert_eq!(ask(&equal, true), None);
        assert_eq!(ask(&equal[..3], false), None, "cut off");
        assert_eq!(
            ask(&[equal[0], equal[1], equal[2], (rows, b"y")], false),
            None,
            "other rows"
        );
        assert_eq!(
            ask(&[equal[0], equal[1], (t, &[0, 1, 0, 0, 0, 20]), equal[3]], false),
            None
        );
        assert_eq!(ask(&[equal[0], equal[1], equal[2], (none, b"")], false), None);
        assert_eq!(
            ask(&[(t, &[]), (rows, b"x"), (t, &[0, 1, 9]), (rows, b"x")], false),
            None,
            "broken"
        );
    }
}
