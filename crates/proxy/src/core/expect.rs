//! [`Expects`]: the answers a server still owes, as far as the proxy must know them.
//!
//! ```text
//!  sent:      Parse'  Bind  Execute  Sync   Query   Parse Bind Execute Sync
//!  queue:     Parse'  Bind  Execute  Ready  Ready   Parse Bind Execute Ready          (' injected: its answer is swallowed)
//!  answers:   1       2     C        Z      T D C Z 1     2    C       Z
//! ```
//!
//! After an error in the extended protocol a server skips everything up to Sync, and so does the queue; after one in a simple query it
//! does not. Which of the two it was is told by what stands first. While a server copies in, it ignores Sync: those sent before the
//! copy's end owe no answer.
//!
//! What it is not: a check of the protocol. The server refuses what is out of order.

use std::collections::VecDeque;

use crate::session::prepared::Prepared;

/// An answer that is owed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Expect {
    /// ParseComplete.
    Parse(ParseSent),
    /// CloseComplete.
    Close {
        /// The client did not ask for it.
        swallow: bool,
        /// What the client called the statement it closes, and the statement.
        removed: Option<Removed>,
    },
    /// What ends a Bind, Describe or Execute.
    Step(Step),
    /// The client has ended a copy before the server said that it copies in.
    CopyEnd,
    /// ReadyForQuery.
    Ready(ReadySent),
}

/// A message of the extended protocol whose answer is the client's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    Bind,
    Describe,
    Execute,
}

/// A statement a client closes: its name and itself.
pub(super) type Removed = (Box<[u8]>, Prepared);

/// What a server did not do, because of an error before.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Undone {
    pub parses: Vec<ParseSent>,
    pub closes: Vec<Removed>,
}

/// A Parse under way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ParseSent {
    /// The client did not ask for it.
    pub swallow: bool,
    /// The statement's number on the server; `None` for the unnamed one.
    pub id: Option<u64>,
    /// What the client calls it, and the stamp, where the client's own Parse it is.
    pub defines: Option<(Box<[u8]>, u64)>,
}

impl ParseSent {
    /// A Parse that nothing is noted of: of the unnamed statement, or under a name of the client's on this server only.
    pub fn of_nobody(swallow: bool) -> Self {
        Self {
            swallow,
            id: None,
            defines: None,
        }
    }
}

/// Something under way that ends with ReadyForQuery.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ReadySent {
    /// A Sync; otherwise a Query or a function call.
    pub sync: bool,
    /// A simple query that runs as a prepared statement: the answers of Parse, Bind and NoData are swallowed.
    pub lifted: bool,
    /// The client did not ask for any of it.
    pub swallow: bool,
}

/// The queue.
#[derive(Debug, Default)]
pub(super) struct Expects {
    queue: VecDeque<Expect>,
    ready: usize,
    /// Messages of the extended protocol went out after the last Sync.
    open: bool,
    /// The server skips to the next Sync.
    skipping: bool,
    /// The server copies in.
    copying: bool,
}

impl Expects {
    /// ReadyForQuery messages owed.
    pub fn outstanding(&self) -> usize {
        self.ready
    }

    /// Whether messages were sent that no Sync has followed yet.
    pub fn open(&self) -> bool {
        self.open || self.skipping
    }

    /// Whether an earlier batch, whose end has not been answered, may still change which statements there are: those with names, or
    /// the unnamed one. False within a batch: what fails there takes what follows with it.
    pub fn unsure(&self, named: bool) -> bool {
        !self.open()
            && self.ready > 0
            && self.queue.iter().any(|expect| match expect {
                Expect::Parse(sent) => named == (sent.id.is_some() || sent.defines.is_some()),
                Expect::Close { .. } => named,
                _ => false,
            })
    }

    /// Whether nothing is owed and nothing is open.
    pub fn settled(&self) -> bool {
        self.ready == 0 && !self.open() && !self.copying
    }

    /// A Parse goes out. `false`: the server skips it, it is not noted.
    pub fn parse(&mut self, sent: ParseSent) -> bool {
        self.open = true;
        if self.skipping {
            return false;
        }
        self.queue.push_back(Expect::Parse(sent));
        true
    }

    /// A Close goes out.
    pub fn close(&mut self, swallow: bool) {
        self.close_of(swallow, None);
    }

    /// The same for one of the client's own statements. `false`: the server skips it, it is not noted.
    pub fn close_of(&mut self, swallow: bool, removed: Option<Removed>) -> bool {
        self.open = true;
        if self.skipping {
            return false;
        }
        self.queue.push_back(Expect::Close { swallow, removed });
        true
    }

    /// A Bind, Describe or Execute goes out.
    pub fn step(&mut self, step: Step) {
        self.open = true;
        if !self.skipping {
            self.queue.push_back(Expect::Step(step));
        }
    }

    /// What ends a Bind, Describe or Execute came.
    #[inline]
    pub fn step_complete(&mut self, step: Step) {
        if self.queue.front() == Some(&Expect::CopyEnd) {
            self.pass_copy_ends();
        }
        if self.queue.front() == Some(&Expect::Step(step)) {
            self.queue.pop_front();
        }
    }

    /// A Flush goes out.
    pub fn flush(&mut self) {
        self.open = true;
    }

    /// A Query goes out, or a function call.
    pub fn query(&mut self) {
        if self.skipping {
            return;
        }
        self.open = false;
        self.push_ready(ReadySent {
            sync: false,
            lifted: false,
            swallow: false,
        });
    }

    /// A Sync goes out; `lifted` as in [`ReadySent`].
    pub fn sync(&mut self, lifted: bool) {
        self.open = false;
        if self.copying {
            return;
        }
        self.skipping = false;
        self.push_ready(ReadySent {
            sync: true,
            lifted,
            swallow: false,
        });
    }

    /// A Sync of the proxy's own goes out, behind messages whose answers nobody gets.
    pub fn own_sync(&mut self) {
        self.open = false;
        self.push_ready(ReadySent {
            sync: true,
            lifted: false,
            swallow: true,
        });
    }

    /// Whether what is answered now is for nobody.
    pub fn swallowed(&self) -> bool {
        self.front().is_some_and(|sent| sent.swallow)
    }

    /// What the answers now belong to.
    fn front(&self) -> Option<ReadySent> {
        self.queue.iter().find_map(|expect| match expect {
            Expect::Ready(sent) => Some(*sent),
            _ => None,
        })
    }

    fn push_ready(&mut self, sent: ReadySent) {
        self.queue.push_back(Expect::Ready(sent));
        self.ready += 1;
    }

    /// CopyDone or CopyFail goes out.
    pub fn copy_end(&mut self) {
        if self.copying {
            self.copying = false;
        } else if self.ready > 0 || self.open {
            self.queue.push_back(Expect::CopyEnd);
        }
    }

    /// What comes behind the end of a copy is answered: there was no copy to end.
    fn pass_copy_ends(&mut self) {
        while self.queue.front() == Some(&Expect::CopyEnd) {
            self.queue.pop_front();
        }
    }

    /// ParseComplete came. Answers whether it is swallowed.
    pub fn parse_complete(&mut self) -> bool {
        self.pass_copy_ends();
        if let Some(Expect::Parse(sent)) = self.queue.front() {
            let swallow = sent.swallow;
            self.queue.pop_front();
            return swallow;
        }
        false
    }

    /// CloseComplete came. Answers whether it is swallowed.
    pub fn close_complete(&mut self) -> bool {
        self.pass_copy_ends();
        if let Some(Expect::Close { swallow, .. }) = self.queue.front() {
            let swallow = *swallow;
            self.queue.pop_front();
            return swallow;
        }
        false
    }

    /// Whether what is answered now is a simple query that runs as a prepared statement.
    pub fn lifted(&self) -> bool {
        self.front().is_some_and(|sent| sent.lifted)
    }

    /// CopyInResponse came: every Sync sent since and before the copy's end is ignored.
    pub fn copy_in(&mut self) {
        let mut ended = false;
        let mut kept = VecDeque::with_capacity(self.queue.len());
        for expect in self.queue.drain(..) {
            match expect {
                Expect::CopyEnd if !ended => ended = true,
                Expect::Ready(ReadySent { sync: true, .. }) if !ended => self.ready -= 1,
                other => kept.push_back(other),
            }
        }
        self.queue = kept;
        self.copying = !ended;
        if self.copying && self.ready == 0 {
            // The Sync that ends this comes after the copy.
            self.open = true;
        }
    }

    /// ErrorResponse came. Answers what the server did not do with it.
    pub fn error(&mut self) -> Undone {
        self.copying = false;
        let mut undone = Undone::default();
        self.pass_copy_ends();
        if let Some(Expect::Ready(sent)) = self.queue.front()
            && !sent.sync
        {
            // A simple query: ReadyForQuery follows.
            return undone;
        }
        let sync = self
            .queue
            .iter()
            .position(|expect| matches!(expect, Expect::Ready(sent) if sent.sync));
        if sync.is_none() {
            self.skipping = self.open || !self.queue.is_empty();
        }
        let until = sync.unwrap_or(self.queue.len());
        for expect in self.queue.drain(..until) {
            match expect {
                Expect::Parse(sent) => undone.parses.push(sent),
                Expect::Close { removed, .. } => undone.closes.extend(removed),
                // A query that is skipped is not answered.
                Expect::Ready(_) => self.ready -= 1,
                Expect::CopyEnd | Expect::Step(_) => {}
            }
        }
        // A statement whose Parse was not done is not there again because its Close was not done either.
        let Undone { parses, closes } = &mut undone;
        closes.retain(|(_, removed)| {
            let made = |sent: &ParseSent| {
                sent.defines
                    .as_ref()
                    .is_some_and(|(_, stamp)| *stamp == removed.stamp)
            };
            !parses.iter().any(made)
        });
        undone
    }

    /// ReadyForQuery came. Answers what it belongs to, `None` when none was owed.
    pub fn ready(&mut self) -> Option<ReadySent> {
        self.copying = false;
        while let Some(expect) = self.queue.pop_front() {
            if let Expect::Ready(sent) = expect {
                self.ready -= 1;
                return Some(sent);
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::session::prepared::Statements;
    use crate::understand::{Limits, Understanding};

    fn parse(swallow: bool, id: u64) -> ParseSent {
        ParseSent {
            swallow,
            id: Some(id),
            defines: None,
        }
    }

    #[test]
    fn a_pipeline_with_an_injected_parse() {
        let mut expects = Expects::default();
        expects.close(true);
        assert!(expects.parse(parse(true, 1)));
        expects.step(Step::Execute);
        assert!(!expects.settled());
        expects.sync(false);
        expects.parse(parse(false, 2));
        expects.sync(false);
        assert_eq!(expects.outstanding(), 2);
        assert!(expects.close_complete());
        assert!(expects.parse_complete());
        assert!(expects.ready().is_some());
        assert!(!expects.parse_complete());
        assert!(expects.ready().is_some());
        assert!(expects.settled());
        assert_eq!(expects.ready(), None);
    }

    #[test]
    fn an_error_skips_to_the_sync() {
        let mut expects = Expects::default();
        expects.parse(parse(false, 1));
        expects.step(Step::Execute);
        expects.sync(false);
        expects.parse(parse(true, 2));
        expects.sync(false);
        assert_eq!(expects.error().parses, [parse(false, 1)]);
        assert!(expects.ready().is_some());
        assert!(expects.parse_complete());
        assert!(expects.ready().is_some());
        assert!(expects.settled());
    }

    #[test]
    fn a_statement_that_was_neither_made_nor_closed_is_not_there() {
        let mut statements = Statements::new(1);
        let mut understanding = Understanding::new(Limits::default());
        let mut prepared = |stamp| Prepared {
            statement: statements.intern(b"select 1", &[0, 0], b"", || understanding.of(b"select 1")),
            stamp,
        };
        let name = || Box::from(&b"s"[..]);
        let defines = |stamp| ParseSent {
            swallow: false,
            id: Some(1),
            defines: Some((name(), stamp)),
        };
        let mut expects = Expects::default();
        // Of a statement from before: Close, Parse of another, Close of that one, Parse of a third.
        expects.close_of(false, Some((name(), prepared(1))));
        expects.parse(defines(2));
        expects.close_of(false, Some((name(), prepared(2))));
        expects.parse(defines(3));
        expects.sync(false);
        let undone = expects.error();
        assert_eq!(undone.parses, [defines(2), defines(3)]);
        assert_eq!(undone.closes, [(name(), prepared(1))]);
    }

    #[test]
    fn an_error_before_a_query_skips_the_query() {
        // Execute (fails), Query, Sync: one ReadyForQuery.
        let mut expects = Expects::default();
        expects.step(Step::Execute);
        expects.query();
        expects.sync(false);
        assert_eq!(expects.outstanding(), 2);
        expects.error();
        assert_eq!(expects.outstanding(), 1);
        assert!(expects.ready().is_some_and(|sent| sent.sync));
        assert!(expects.settled());
        // Execute, Query (fails), Sync: two.
        expects.step(Step::Execute);
        expects.query();
        expects.sync(false);
        expects.step_complete(Step::Execute);
        expects.error();
        assert!(expects.ready().is_some_and(|sent| !sent.sync));
        assert!(expects.ready().is_some_and(|sent| sent.sync));
        assert!(expects.settled());
    }

    #[test]
    fn what_follows_an_error_before_the_sync_is_not_owed() {
        let mut expects = Expects::default();
        expects.parse(parse(false, 1));
        assert_eq!(expects.error().parses, [parse(false, 1)]);
        assert!(!expects.parse(parse(false, 2)));
        expects.query();
        assert_eq!(expects.outstanding(), 0);
        assert!(!expects.settled());
        expects.sync(false);
        assert_eq!(expects.outstanding(), 1);
        assert!(expects.ready().is_some());
        assert!(expects.settled());
    }

    #[test]
    fn a_copy_of_the_extended_protocol_ignores_syncs() {
        // Execute, Sync (ignored), data, CopyDone, Sync.
        let mut expects = Expects::default();
        expects.step(Step::Execute);
        expects.sync(false);
        expects.copy_in();
        assert_eq!(expects.outstanding(), 0);
        assert!(!expects.settled());
        expects.copy_end();
        expects.sync(false);
        assert_eq!(expects.outstanding(), 1);
        assert!(expects.ready().is_some());
        assert!(expects.settled());
        // All of it sent before the server says that it copies in.
        let mut expects = Expects::default();
        expects.step(Step::Execute);
        expects.sync(false);
        expects.copy_end();
        expects.sync(false);
        expects.copy_in();
        assert_eq!(expects.outstanding(), 1);
        assert!(expects.ready().is_some());
        assert!(expects.settled());
    }

    #[test]
    fn a_copy_of_a_simple_query() {
        let mut expects = Expects::default();
        expects.query();
        expects.copy_in();
        assert!(!expects.settled());
        expects.copy_end();
        assert_eq!(expects.outstanding(), 1);
        assert!(expects.ready().is_some());
        assert!(expects.settled());
        // The server gives up.
        expects.query();
        expects.copy_in();
        assert_eq!(expects.error(), Undone::default());
        assert!(expects.ready().is_some());
        assert!(expects.settled());
    }
}
