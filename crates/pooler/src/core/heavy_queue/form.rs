//! [`Form`]: a query that runs with other joins: in a transaction of its own, whose settings end with it.
//!
//! ```text
//!  sent at once:  Query "BEGIN; SET LOCAL ..."   the client's messages         Query "COMMIT"
//!  answers:       C C .. Z(T)                    1 2 T D D C  Z(T)             C Z(I)
//!  the client:    nothing                        1 2 T D D C  nothing          Z(I)
//! ```
//!
//! A query that fails is answered with its own error; COMMIT then rolls back, and ReadyForQuery says idle as it would have. Where the
//! settings are refused, the query fails for that alone: its answer is kept from the client, and it runs again as it came. A cancel
//! request that strikes the settings was meant for the query: the client gets that error.

use crate::core::reply::filter::{AfterReply, ReplyFilter, Verdict, framed};
use corun_wire::backend;
use corun_wire::error::{Reported, code};

/// Whose answer comes now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// That of the settings.
    Settings,
    /// The client's.
    Own,
    /// That of the end.
    End,
}

/// A query under way with settings of its own.
#[derive(Debug)]
pub(super) struct Form {
    stage: Stage,
    /// The error of the settings.
    refused: Option<Vec<u8>>,
    /// The messages as they came.
    request: Vec<u8>,
    /// None of them went to the server.
    kept: bool,
}

/// The text before the query.
pub(super) fn begin(settings: &[(&'static str, &'static str)]) -> String {
    let mut text = String::from("BEGIN");
    for (name, value) in settings {
        text.push_str("; SET LOCAL ");
        text.push_str(name);
        text.push_str(" = ");
        text.push_str(value);
    }
    text
}

impl Form {
    /// Messages of a client that went out between settings and COMMIT; `kept`: they did not, and are to be served again.
    pub fn new(request: Vec<u8>, kept: bool) -> Self {
        Self {
            stage: Stage::Settings,
            refused: None,
            request,
            kept,
        }
    }

    fn struck(&self) -> bool {
        self.refused
            .as_deref()
            .is_some_and(|body| Reported::read(body).code == code::QUERY_CANCELED)
    }

    /// Whether the query runs again as it came.
    fn again(&self) -> bool {
        self.kept || self.refused.is_some() && !self.struck()
    }
}

impl ReplyFilter for Form {
    fn message(&mut self, tag: u8, body: &[u8], _whole: bool) -> Verdict {
        let news = matches!(
            tag,
            backend::NOTICE | backend::PARAMETER_STATUS | backend::NOTIFICATION
        );
        // The connection's last words are for the client.
        if news || tag == backend::ERROR && Reported::read(body).is_fatal() {
            return Verdict::Usual;
        }
        match (self.stage, tag) {
            (Stage::Settings, backend::ERROR) => {
                self.refused = Some(body.to_vec());
                Verdict::Held
            }
            (Stage::Settings, backend::READY) => {
                self.stage = if self.kept { Stage::End } else { Stage::Own };
                Verdict::Ahead
            }
            (Stage::Own, backend::READY) => {
                self.stage = Stage::End;
                // Otherwise it is answered; its ReadyForQuery comes with the end.
                if self.again() {
                    Verdict::Unanswered
                } else {
                    Verdict::Held
                }
            }
            (Stage::Own, backend::ERROR) if self.again() => Verdict::Held,
            (Stage::Own, backend::ERROR) => match self.refused.take() {
                Some(error) => Verdict::Instead(framed(tag, &error)),
                None => Verdict::Usual,
            },
            (Stage::Own, _) => Verdict::Usual,
            (Stage::End, backend::READY) => Verdict::LastOfTransaction,
            (Stage::Settings | Stage::End, _) => Verdict::Held,
        }
    }

    fn keeps_server(&self) -> bool {
        true
    }

    fn after(self: Box<Self>) -> Option<AfterReply> {
        self.again().then_some(AfterReply::ServeAgain(self.request))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use corun_wire::build;
    use corun_wire::error::Refusal;

    fn error(code: &'static str) -> Vec<u8> {
        let mut out = Vec::new();
        build::error(&mut out, &Refusal::new(code, "no"));
        out[5..].to_vec()
    }

    fn run(form: &mut Form, messages: &[(u8, &[u8])]) -> Vec<Verdict> {
        messages
            .iter()
            .map(|(tag, body)| form.message(*tag, body, true))
            .collect()
    }

    const BEGUN: [(u8, &[u8]); 3] = [
        (backend::COMMAND_COMPLETE, b"BEGIN\0"),
        (backend::COMMAND_COMPLETE, b"SET\0"),
        (backend::READY, b"T"),
    ];
    const ENDED: [(u8, &[u8]); 2] = [(backend::COMMAND_COMPLETE, b"COMMIT\0"), (backend::READY, b"I")];

    #[test]
    fn the_client_sees_its_own_answer_and_then_that_all_is_idle() {
        let mut form = Form::new(b"request".to_vec(), false);
        assert_eq!(
            run(&mut form, &BEGUN),
            [Verdict::Held, Verdict::Held, Verdict::Ahead]
        );
        let own: [(u8, &[u8]); 3] = [
            (backend::DATA_ROW, b""),
            (backend::NOTICE, b""),
            (backend::ERROR, &error("22012")),
        ];
        assert_eq!(
            run(&mut form, &own),
            [Verdict::Usual, Verdict::Usual, Verdict::Usual]
        );
        assert_eq!(form.message(backend::READY, b"E", true), Verdict::Held);
        assert_eq!(
            run(&mut form, &ENDED),
            [Verdict::Held, Verdict::LastOfTransaction]
        );
        assert!(Box::new(form).after().is_none());
    }

    #[test]
    fn refused_settings_are_nothing_the_client_hears_of() {
        let mut form = Form::new(b"request".to_vec(), false);
        let (refused, aborted) = (error("42704"), error("25P02"));
        let settings: [(u8, &[u8]); 2] = [(backend::ERROR, &refused), (backend::READY, b"E")];
        assert_eq!(run(&mut form, &settings), [Verdict::Held, Verdict::Ahead]);
        let own: [(u8, &[u8]); 2] = [(backend::ERROR, &aborted), (backend::READY, b"E")];
        assert_eq!(run(&mut form, &own), [Verdict::Held, Verdict::Unanswered]);
        assert_eq!(
            run(&mut form, &ENDED),
            [Verdict::Held, Verdict::LastOfTransaction]
        );
        let after = Box::new(form).after();
        assert!(matches!(after, Some(AfterReply::ServeAgain(request)) if request == b"request"));
    }

    #[test]
    fn a_cancel_request_that_strikes_the_settings_was_meant_for_the_query() {
        let mut form = Form::new(b"request".to_vec(), false);
        let (struck, aborted) = (error("57014"), error("25P02"));
        let settings: [(u8, &[u8]); 2] = [(backend::ERROR, &struck), (backend::READY, b"E")];
        assert_eq!(run(&mut form, &settings), [Verdict::Held, Verdict::Ahead]);
        let instead = Verdict::Instead(framed(backend::ERROR, &struck));
        assert_eq!(form.message(backend::ERROR, &aborted, true), instead);
        assert_eq!(form.message(backend::READY, b"E", true), Verdict::Held);
        assert_eq!(
            run(&mut form, &ENDED),
            [Verdict::Held, Verdict::LastOfTransaction]
        );
        assert!(Box::new(form).after().is_none());
    }

    #[test]
    fn the_text_of_settings() {
        assert_eq!(
            begin(&[("enable_hashjoin", "off"), ("enable_mergejoin", "off")]),
            "BEGIN; SET LOCAL enable_hashjoin = off; SET LOCAL enable_mergejoin = off"
        );
    }
}
