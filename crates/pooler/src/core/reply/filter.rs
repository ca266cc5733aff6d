//! [`ReplyFilter`]: what looks at an answer before the client gets it, where the server was sent something else than the client asked for.
//!
//! ```text
//!  message ─► filter ─► Verdict ─► as always | nobody gets it | something else in its place
//!                          └─ the last ReadyForQuery: the filter goes; what is left to do is an AfterReply for the event loop
//! ```
//!
//! A server has at most one filter at a time: each is set while nothing is owed, and ends before nothing is owed again.

use crate::core::classify::classifier::Classifier;
use corun_wire::{HEADER_BYTES, build};

/// Looks at the messages of an answer.
pub(in crate::core) trait ReplyFilter: Send {
    /// Takes a message; `whole` if `body` is all of it.
    fn message(&mut self, tag: u8, body: &[u8], whole: bool) -> Verdict;

    /// Whether it needs all of a message with this tag, besides those that are looked into anyway. A notice that is too long still comes
    /// in parts.
    fn needs_whole(&self, _tag: u8) -> bool {
        false
    }

    /// Whether the client's next messages wait until it has ended: they may belong to another server.
    fn keeps_server(&self) -> bool {
        false
    }

    /// Whether the messages may have to run again, so that those behind them must not overtake them.
    fn may_run_again(&self) -> bool {
        false
    }

    /// Bytes of the client's text that it holds.
    fn bytes(&self) -> usize {
        0
    }

    /// What is left to do after the last message.
    fn after(self: Box<Self>) -> Option<AfterReply> {
        None
    }
}

/// What becomes of a message.
#[derive(Debug, PartialEq, Eq)]
pub(in crate::core) enum Verdict {
    /// It goes as all do.
    Usual,
    /// The same, behind these messages.
    Behind(Vec<u8>),
    /// It counts as all do, and nobody gets it.
    Held,
    /// It counts as all do; the client gets this message in its place.
    Instead(Vec<u8>),
    /// An error that counts for nothing and that nobody gets; the server's statement of this number must be parsed again.
    Refused { parse_again: Option<u64> },
    /// ReadyForQuery ahead of the answer to the client's own messages; a cancel request may have come too early for those.
    Ahead,
    /// ReadyForQuery that counts for nothing and that nobody gets.
    Unanswered,
    /// The last message, which goes as all do.
    Last,
    /// The last message: a ReadyForQuery that counts for nothing and that nobody gets.
    LastUnanswered,
    /// The last message: ReadyForQuery of a transaction around the client's messages. The client gets it, unless something is left to do.
    LastOfTransaction,
}

/// What is left for the event loop to do once a chunk has been taken.
pub(in crate::core) enum AfterReply {
    /// A cancel request, if one was sent, is sent again.
    CancelAgain,
    /// The classifier learns something.
    Learn(Box<dyn FnOnce(&mut Classifier)>),
    /// The client's messages are served again.
    ServeAgain(Vec<u8>),
    /// The text runs as the client sent it.
    RunAsItCame(Vec<u8>),
}

/// A message with this body.
pub(in crate::core) fn framed(tag: u8, body: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(body.len() + HEADER_BYTES);
    build::message(&mut out, tag, |out| out.extend(body));
    out
}
