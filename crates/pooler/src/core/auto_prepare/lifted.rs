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
use crate::wire::error::{Fields, Reported};
use crate::wire::{HEADER_BYTES, backend, build, frontend};

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

/// What becomes of a message.
#[derive(Debug, PartialEq, Eq)]
pub(in crate::core) enum Said {
    /// It goes as all do.
    Usual,
    /// Nobody gets it, for now.
    Held,
    /// This goes before it.
    After(Vec<u8>),
    /// An error, for which this goes to the client.
    Error(Vec<u8>),
    /// An error that nobody gets; whether the statement must be parsed again before its next use.
    Refused { parse_again: bool },
}

impl Lifted {
    /// Takes a message of the answer; `whole` if `body` is all of it.
    pub fn hear(&mut self, tag: u8, body: &[u8], whole: bool) -> Said {
        let may_refuse = self.may_refuse();
        let state = &mut self.state;
        match tag {
            backend::BIND_COMPLETE => {
                state.bound = true;
                match self.refuses_late {
                    true => Said::Usual,
                    false => self.after(),
                }
            }
            backend::ROW_DESCRIPTION if !self.rows_first && !state.relayed => {
                message(&mut state.head, tag, body);
                Said::Held
            }
            backend::ROW_DESCRIPTION => {
                state.relayed = true;
                Said::Usual
            }
            backend::NOTICE if may_refuse && whole && state.notices.len() + body.len() <= HELD_MAX => {
                message(&mut state.notices, tag, body);
                Said::Held
            }
            backend::NOTICE if may_refuse => {
                state.relayed = true;
                self.after()
            }
            backend::ERROR => self.error(body, whole, may_refuse),
            backend::DATA_ROW
            | backend::COMMAND_COMPLETE
            | backend::EMPTY_QUERY
            | backend::PORTAL_SUSPENDED => {
                state.relayed = true;
                self.after()
            }
            _ => Said::Usual,
        }
    }

    /// Whether an error now lets the text run as it came, with nobody noticing.
    fn may_refuse(&self) -> bool {
        !self.in_block && !self.state.relayed && (!self.state.bound || self.refuses_late)
    }

    /// What was held goes.
    fn after(&mut self) -> Said {
        let mut out = std::mem::take(&mut self.state.notices);
        out.append(&mut self.state.head);
        match out.is_empty() {
            true => Said::Usual,
            false => Said::After(out),
        }
    }

    fn error(&mut self, body: &[u8], whole: bool, may_refuse: bool) -> Said {
        self.state.head = Vec::new();
        let reported = Reported::read(body);
        if may_refuse && whole && !reported.is_fatal() && !is_of_the_moment(&reported.code) {
            self.state.notices = Vec::new();
            self.state.refused = true;
            // The statement is not what it was: its result has changed, it has gone, or what it names has.
            let parse_again =
                reported.code.starts_with("42") || ["0A000", "26000"].contains(&&*reported.code);
            return Said::Refused { parse_again };
        }
        self.state.relayed = true;
        match &self.parameters {
            Some(parameters) if whole => {
                let mut out = std::mem::take(&mut self.state.notices);
                placed(&mut out, body, |position| {
                    parameters.shape.position_in(&self.sql, position)
                });
                Said::Error(out)
            }
            _ => self.after(),
        }
    }
}

/// Errors that are not the statement's: cancelled, no resources, no locks, a conflict with others. The client gets them as they are.
pub(in crate::core) fn is_of_the_moment(code: &str) -> bool {
    ["40", "53", "55", "57", "58", "XX"]
        .iter()
        .any(|class| code.starts_with(class))
}

fn message(out: &mut Vec<u8>, tag: u8, body: &[u8]) {
    out.reserve(body.len() + HEADER_BYTES);
    build::message(out, tag, |out| out.extend(body));
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
        server.statements.unnamed = None;
        server.expects.query(Change::Nothing);
        server.query_since = self.now;
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

    fn framed(tag: u8, body: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        message(&mut out, tag, body);
        out
    }

    #[test]
    fn errors_before_it_runs_are_refusals_and_later_ones_the_texts_own() {
        let refused = |parse_again| Said::Refused { parse_again };
        assert_eq!(
            running(false, true, false).hear(b'E', &error("22P02", "3"), true),
            refused(false)
        );
        assert_eq!(
            running(false, true, false).hear(b'E', &error("0A000", "3"), true),
            refused(true)
        );
        assert_eq!(
            running(false, true, false).hear(b'E', &error("42883", "3"), true),
            refused(true)
        );
        for code in ["57014", "40001", "55P03"] {
            let said = running(false, true, false).hear(b'E', &error(code, "3"), true);
            assert_eq!(said, Said::Error(framed(b'E', &error(code, "3"))));
        }
        let mut late = running(false, false, true);
        assert_eq!(late.hear(b'2', b"", true), Said::Usual);
        assert_eq!(late.hear(b'E', &error("22001", "3"), true), refused(false));
        assert!(late.state.refused);
        let mut bound = running(false, true, false);
        assert_eq!(bound.hear(b'2', b"", true), Said::Usual);
        assert!(matches!(
            bound.hear(b'E', &error("22012", "3"), true),
            Said::Error(_)
        ));
    }

    #[test]
    fn places_are_those_of_the_text_as_it_came() {
        let lifted =
            String::from_utf8(auto_prepare::lift(TEXT).expect("a literal").text.into()).expect("text");
        let place = |text: &str| (text.find("nosuch").expect("there") + 1).to_string();
        let original = std::str::from_utf8(TEXT).expect("text");
        let said = running(true, true, false).hear(b'E', &error("42703", &place(&lifted)), true);
        assert_eq!(said, Said::Error(framed(b'E', &error("42703", &place(original)))));
    }

    #[test]
    fn what_would_come_twice_is_held() {
        let mut lifted = running(false, false, true);
        assert_eq!(lifted.hear(b'2', b"", true), Said::Usual);
        assert_eq!(lifted.hear(b'T', b"head", true), Said::Held);
        assert_eq!(lifted.hear(b'N', b"note", true), Said::Held);
        let held = [framed(b'N', b"note"), framed(b'T', b"head")].concat();
        assert_eq!(lifted.hear(b'D', b"row", true), Said::After(held));
        assert_eq!(lifted.hear(b'D', b"row", true), Said::Usual);
        assert!(matches!(
            lifted.hear(b'E', &error("22012", "3"), true),
            Said::Error(_)
        ));
        let mut lifted = running(false, false, true);
        assert_eq!(lifted.hear(b'N', &vec![b'x'; HELD_MAX], true), Said::Held);
        assert!(matches!(lifted.hear(b'N', b"one more", true), Said::After(_)));
        assert!(matches!(
            lifted.hear(b'E', &error("22001", "3"), true),
            Said::Error(_)
        ));
    }

    #[test]
    fn an_error_of_returning_comes_without_a_description() {
        let mut lifted = running(true, false, false);
        assert_eq!(lifted.hear(b'2', b"", true), Said::Usual);
        assert_eq!(lifted.hear(b'T', b"head", true), Said::Held);
        assert_eq!(lifted.hear(b'N', b"note", true), Said::Usual);
        assert_eq!(
            lifted.hear(b'E', &error("23505", "3"), true),
            Said::Error(framed(b'E', &error("23505", "3")))
        );
        let mut query = running(true, true, false);
        assert_eq!(query.hear(b'T', b"head", true), Said::Usual);
    }
}
