//! [`Expects`]: the answers a server still owes, as far as the proxy must know them.
//!
//! ```text
//!  sent:      Parse'  Bind  Execute  Sync   Query   Parse Bind Execute Sync
//!  queue:     Parse'                 Ready  Ready   Parse              Ready          (' injected: its answer is swallowed)
//!  answers:   1       2     C        Z      T D C Z 1     2    C       Z
//! ```
//!
//! Only Parse, Close and what ends with ReadyForQuery stand in it, because only their answers are swallowed, undone or counted. After an
//! error in the extended protocol a server skips everything up to Sync, and so does the queue. While a server copies in, it ignores
//! Sync: those sent before the copy's end owe no answer.
//!
//! What it is not: a check of the protocol. The server refuses what is out of order; where its answers could not be told apart any more,
//! [`Expects::murky`] says so and the connection is not used for anybody else.

use std::collections::VecDeque;

/// An answer that is owed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Expect {
    /// ParseComplete.
    Parse(ParseSent),
    /// CloseComplete.
    Close {
        /// The client did not ask for it.
        swallow: bool,
    },
    /// The client has ended a copy before the server said that it copies in.
    CopyEnd,
    /// ReadyForQuery.
    Ready(ReadySent),
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

/// Something under way that ends with ReadyForQuery.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ReadySent {
    /// A Sync; otherwise a Query or a function call.
    pub sync: bool,
    /// A simple query that runs as a prepared statement: the answers of Parse, Bind and NoData are swallowed.
    pub lifted: bool,
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
    murky: bool,
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

    /// Whether answers could not be told apart any more.
    pub fn murky(&self) -> bool {
        self.murky
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
        self.open = true;
        if !self.skipping {
            self.queue.push_back(Expect::Close { swallow });
        }
    }

    /// Another message of the extended protocol goes out.
    pub fn extended(&mut self) {
        self.open = true;
    }

    /// A Query goes out, or a function call.
    pub fn query(&mut self) {
        if self.skipping {
            return;
        }
        // The answer to an error could be one ReadyForQuery or two.
        self.murky |= self.open;
        self.open = false;
        self.push_ready(ReadySent {
            sync: false,
            lifted: false,
        });
    }

    /// A Sync goes out; `lifted` as in [`ReadySent`].
    pub fn sync(&mut self, lifted: bool) {
        self.open = false;
        if self.copying {
            return;
        }
        self.skipping = false;
        self.push_ready(ReadySent { sync: true, lifted });
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

    /// ParseComplete came. Answers whether it is swallowed.
    pub fn parse_complete(&mut self) -> bool {
        if let Some(Expect::Parse(sent)) = self.queue.front() {
            let swallow = sent.swallow;
            self.queue.pop_front();
            return swallow;
        }
        false
    }

    /// CloseComplete came. Answers whether it is swallowed.
    pub fn close_complete(&mut self) -> bool {
        if let Some(&Expect::Close { swallow }) = self.queue.front() {
            self.queue.pop_front();
            return swallow;
        }
        false
    }

    /// Whether what is answered now is a simple query that runs as a prepared statement.
    pub fn lifted(&self) -> bool {
        self.queue
            .iter()
            .find_map(|expect| match expect {
                Expect::Ready(sent) => Some(sent.lifted),
                _ => None,
            })
            .unwrap_or(false)
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

    /// ErrorResponse came. Answers what Parses failed with it.
    pub fn error(&mut self) -> Vec<ParseSent> {
        self.copying = false;
        let mut failed = Vec::new();
        let first_sync = |queue: &VecDeque<Expect>| {
            queue
                .iter()
                .position(|expect| matches!(expect, Expect::Ready(sent) if sent.sync))
        };
        match self.queue.iter().find_map(|expect| match expect {
            Expect::Ready(sent) => Some(*sent),
            _ => None,
        }) {
            // A simple query: ReadyForQuery follows.
            Some(sent) if !sent.sync => {
                self.queue.retain(|expect| !matches!(expect, Expect::CopyEnd));
                return failed;
            }
            Some(_) => {}
            None => self.skipping = self.open,
        }
        let until = first_sync(&self.queue).unwrap_or(self.queue.len());
        for expect in self.queue.drain(..until) {
            if let Expect::Parse(sent) = expect {
                failed.push(sent);
            }
        }
        failed
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
        expects.extended();
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
        expects.parse(parse(true, 2));
        expects.query();
        assert!(expects.murky());
        let mut expects = Expects::default();
        expects.parse(parse(false, 1));
        expects.extended();
        expects.sync(false);
        expects.parse(parse(true, 2));
        expects.sync(false);
        assert_eq!(expects.error(), [parse(false, 1)]);
        assert!(expects.ready().is_some());
        assert!(expects.parse_complete());
        assert!(expects.ready().is_some());
        assert!(expects.settled());
    }

    #[test]
    fn what_follows_an_error_before_the_sync_is_not_owed() {
        let mut expects = Expects::default();
        expects.parse(parse(false, 1));
        assert_eq!(expects.error(), [parse(false, 1)]);
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
        expects.extended();
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
        expects.extended();
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
        assert_eq!(expects.error(), []);
        assert!(expects.ready().is_some());
        assert!(expects.settled());
    }
}
