//! [`Lifted`]: a simple query that runs as a prepared statement, while it is answered.
//!
//! The client must get what the text as it came would have given. What the server refuses before anything has run, outside of a
//! transaction block, runs again as it came; so what the client gets of the answer is held until that is out of the question.
//!
//! ```text
//!  BindComplete ─► RowDescription ─► rows ... CommandComplete        a query's description goes at once, as it does without us;
//!   │ error before: again as it came                                 that of RETURNING is held until the first row, which is
//!   └ error behind: the text's own, with its place mapped back       when the server sends it: an error comes without it
//! ```

use std::sync::Arc;

use corun_net::reactor::Reactor;

use crate::auto_prepare;
use crate::core::event_loop::EventLoop;
use crate::core::reply::change::Change;
use crate::core::reply::filter::{AfterReply, ReplyFilter, Verdict, framed};
use corun_wire::error::{Fields, Reported};
use corun_wire::{backend, build, frontend};

/// Bytes held at most; with more, the statement is no longer run again.
const HELD_MAX: usize = 64 << 10;

/// A simple query that runs as a prepared statement.
#[derive(Debug)]
pub(in crate::core) struct Lifted {
    // Fixed.
    /// The text as it came.
    pub sql: Vec<u8>,
    /// The statement's number.
    pub id: u64,
    /// Where its literals became parameters: how.
    pub parameters: Option<Arc<auto_prepare::Lifted>>,
    /// Within a transaction block, where an error cannot be undone.
    pub in_block: bool,
    /// A query whose description the server sends before it runs.
    pub rows_first: bool,
    /// What would have been refused before may be refused while it runs.
    pub refuses_late: bool,
    // The answer so far.
    pub state: Answer,
}

/// What has come of the answer.
#[derive(Debug, Default)]
pub(in crate::core) struct Answer {
    /// Bind has succeeded: from now on it runs.
    bound: bool,
    /// The client has got something.
    relayed: bool,
    /// The server refused; the text runs as it came once it is ready.
    pub refused: bool,
    /// Notices that would come again.
    notices: Vec<u8>,
    /// RowDescription.
    head: Vec<u8>,
}

impl ReplyFilter for Lifted {
    fn message(&mut self, tag: u8, body: &[u8], whole: bool) -> Verdict {
        let may_refuse = self.may_refuse();
        let state = &mut self.state;
        match tag {
            backend::BIND_COMPLETE => {
                state.bound = true;
                match self.refuses_late {
                    true => Verdict::Usual,
                    false => self.with_held(),
                }
            }
            backend::ROW_DESCRIPTION if !self.rows_first && !state.relayed => {
                state.head = framed(tag, body);
                Verdict::Held
            }
            backend::ROW_DESCRIPTION => {
                state.relayed = true;
                Verdict::Usual
            }
            backend::NOTICE if may_refuse && whole && state.notices.len() + body.len() <= HELD_MAX => {
                state.notices.extend(framed(tag, body));
                Verdict::Held
            }
            backend::NOTICE if may_refuse => {
                state.relayed = true;
                self.with_held()
            }
            backend::ERROR => self.error(body, whole, may_refuse),
            backend::READY if state.refused => Verdict::LastUnanswered,
            backend::READY => Verdict::Last,
            backend::DATA_ROW
            | backend::COMMAND_COMPLETE
            | backend::EMPTY_QUERY
            | backend::PORTAL_SUSPENDED => {
                state.relayed = true;
                self.with_held()
            }
            _ => Verdict::Usual,
        }
    }

    fn needs_whole(&self, tag: u8) -> bool {
        matches!(
            tag,
            backend::ROW_DESCRIPTION | backend::PARAMETER_DESCRIPTION | backend::NOTICE
        )
    }

    fn may_run_again(&self) -> bool {
        !self.in_block
    }

    fn bytes(&self) -> usize {
        self.sql.capacity()
    }

    fn after(self: Box<Self>) -> Option<AfterReply> {
        self.state.refused.then_some(AfterReply::RunAsItCame(self.sql))
    }
}

impl Lifted {
    /// Whether an error now lets the text run as it came, with nobody noticing.
    fn may_refuse(&self) -> bool {
        !self.in_block && !self.state.relayed && (!self.state.bound || self.refuses_late)
    }

    /// A message goes behind what was held.
    fn with_held(&mut self) -> Verdict {
        let mut out = std::mem::take(&mut self.state.notices);
        out.append(&mut self.state.head);
        match out.is_empty() {
            true => Verdict::Usual,
            false => Verdict::Behind(out),
        }
    }

    fn error(&mut self, body: &[u8], whole: bool, may_refuse: bool) -> Verdict {
        self.state.head = Vec::new();
        let reported = Reported::read(body);
        if may_refuse && whole && !reported.is_fatal() && !is_of_the_moment(&reported.code) {
            self.state.notices = Vec::new();
            self.state.refused = true;
            // The statement is not what it was: its result has changed, it has gone, or what it names has.
            let parse_again =
                reported.code.starts_with("42") || ["0A000", "26000"].contains(&&*reported.code);
            return Verdict::Refused {
                parse_again: parse_again.then_some(self.id),
            };
        }
        self.state.relayed = true;
        match &self.parameters {
            Some(parameters) if whole => {
                let mut out = std::mem::take(&mut self.state.notices);
                placed(&mut out, body, |position| {
                    parameters.shape.position_in(&self.sql, position)
                });
                Verdict::Instead(out)
            }
            _ => self.with_held(),
        }
    }
}

/// Errors that are not the statement's: cancelled, no resources, no locks, a conflict with others. The client gets them as they are.
pub(in crate::core) fn is_of_the_moment(code: &str) -> bool {
    ["40", "53", "55", "57", "58", "XX"]
        .iter()
        .any(|class| code.starts_with(class))
}

/// Appends an error with its place in the text changed.
fn placed(out: &mut Vec<u8>, body: &[u8], place: impl Fn(usize) -> usize) {
    build::message(out, backend::ERROR, |out| {
        let mut fields = Fields::of(body);
        for (field, value) in fields.by_ref() {
            out.push(field);
            let position = std::str::from_utf8(value).ok().and_then(|text| text.parse().ok());
            match position {
                Some(position) if field == b'P' => out.extend(place(position).to_string().as_bytes()),
                _ => out.extend(value),
            }
            out.push(0);
        }
        out.extend(fields.rest());
    });
}

impl<R: Reactor> EventLoop<R> {
    /// A simple query that a server refused as a prepared statement runs as the client sent it.
    pub(in crate::core) fn run_as_it_came(&mut self, reactor: &mut R, index: usize, sql: &[u8]) {
        let Some(server) = self.servers.get_mut(index) else {
            return;
        };
        let mut out = Vec::with_capacity(sql.len() + 6);
        build::message(&mut out, frontend::QUERY, |out| {
            out.extend(sql);
            out.push(0);
        });
        server.session.statements.unnamed = None;
        server.expects.query(Change::Nothing);
        server.query.since = self.now;
        server.transport.send(reactor, &out);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &[u8] = b"select a from t where b = 12345 and nosuch > 0";

    fn running(in_block: bool, rows_first: bool, refuses_late: bool) -> Lifted {
        Lifted {
            sql: TEXT.to_vec(),
            id: 1,
            parameters: auto_prepare::lift(TEXT).map(Arc::new),
            in_block,
            rows_first,
            refuses_late,
            state: Answer::default(),
        }
    }

    fn error(code: &str, position: &str) -> Vec<u8> {
        format!("SERROR\0VERROR\0C{code}\0Mno\0P{position}\0\0").into_bytes()
    }

    #[test]
    fn errors_before_it_runs_are_refusals_and_later_ones_the_texts_own() {
        let refused = |parse_again: bool| Verdict::Refused {
            parse_again: parse_again.then_some(1),
        };
        assert_eq!(
            running(false, true, false).message(b'E', &error("22P02", "3"), true),
            refused(false)
        );
        assert_eq!(
            running(false, true, false).message(b'E', &error("0A000", "3"), true),
            refused(true)
        );
        assert_eq!(
            running(false, true, false).message(b'E', &error("42883", "3"), true),
            refused(true)
        );
        for code in ["57014", "40001", "55P03"] {
            let said = running(false, true, false).message(b'E', &error(code, "3"), true);
            assert_eq!(said, Verdict::Instead(framed(b'E', &error(code, "3"))));
        }
        let mut late = running(false, false, true);
        assert_eq!(late.message(b'2', b"", true), Verdict::Usual);
        assert_eq!(late.message(b'E', &error("22001", "3"), true), refused(false));
        assert!(late.state.refused);
        let mut bound = running(false, true, false);
        assert_eq!(bound.message(b'2', b"", true), Verdict::Usual);
        assert!(matches!(
            bound.message(b'E', &error("22012", "3"), true),
            Verdict::Instead(_)
        ));
    }

    #[test]
    fn places_are_those_of_the_text_as_it_came() {
        let lifted =
            String::from_utf8(auto_prepare::lift(TEXT).expect("a literal").text.into()).expect("text");
        let place = |text: &str| (text.find("nosuch").expect("there") + 1).to_string();
        let original = std::str::from_utf8(TEXT).expect("text");
        let said = running(true, true, false).message(b'E', &error("42703", &place(&lifted)), true);
        assert_eq!(
            said,
            Verdict::Instead(framed(b'E', &error("42703", &place(original))))
        );
    }

    #[test]
    fn what_would_come_twice_is_held() {
        let mut lifted = running(false, false, true);
        assert_eq!(lifted.message(b'2', b"", true), Verdict::Usual);
        assert_eq!(lifted.message(b'T', b"head", true), Verdict::Held);
        assert_eq!(lifted.message(b'N', b"note", true), Verdict::Held);
        let held = [framed(b'N', b"note"), framed(b'T', b"head")].concat();
        assert_eq!(lifted.message(b'D', b"row", true), Verdict::Behind(held));
        assert_eq!(lifted.message(b'D', b"row", true), Verdict::Usual);
        assert!(matches!(
            lifted.message(b'E', &error("22012", "3"), true),
            Verdict::Instead(_)
        ));
        let mut lifted = running(false, false, true);
        assert_eq!(lifted.message(b'N', &vec![b'x'; HELD_MAX], true), Verdict::Held);
        assert!(matches!(
            lifted.message(b'N', b"one more", true),
            Verdict::Behind(_)
        ));
        assert!(matches!(
            lifted.message(b'E', &error("22001", "3"), true),
            Verdict::Instead(_)
        ));
    }

    #[test]
    fn an_error_of_returning_comes_without_a_description() {
        let mut lifted = running(true, false, false);
        assert_eq!(lifted.message(b'2', b"", true), Verdict::Usual);
        assert_eq!(lifted.message(b'T', b"head", true), Verdict::Held);
        assert_eq!(lifted.message(b'N', b"note", true), Verdict::Usual);
        assert_eq!(
            lifted.message(b'E', &error("23505", "3"), true),
            Verdict::Instead(framed(b'E', &error("23505", "3")))
        );
        let mut query = running(true, true, false);
        assert_eq!(query.message(b'T', b"head", true), Verdict::Usual);
    }
}
