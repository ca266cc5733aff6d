//! Where a request should run: a look at the first message of a client without a server.

use std::sync::Arc;

use crate::core::classify::classifier::{Classifier, Rules};
use crate::core::classify::forward::COLLECTED_MAX;
use crate::core::client::Client;
use crate::understand::{Isolation, TransactionEffect, Understood};
use crate::wire::error::{Refusal, code};
use crate::wire::{HEADER_BYTES, TransactionStatus, build, frontend, read};

/// What the first message of a request says about where it should run.
#[derive(Debug)]
pub(in crate::core) enum Request {
    /// More bytes are needed to know.
    Unknown,
    /// It needs no server: this message, of so many bytes in all, is answered here, with this.
    Answered(usize, Vec<u8>),
    /// It needs a server, to run this text where it is known.
    Server(Option<Arc<Understood>>),
    /// A transaction begins that nothing is known of yet: these bytes are kept until its first statement says where it belongs.
    Begin(usize, Arc<Understood>),
    /// Goodbye.
    Goodbye,
    /// Refused.
    Violation(Refusal),
}

/// Looks at the first message of a client without a server.
pub(in crate::core) fn first(
    client: &Client,
    classifier: &mut Classifier,
    rules: &Rules,
    bytes: &[u8],
) -> Request {
    let head = match rules.header(bytes) {
        Ok(Some(head)) => head,
        Ok(None) => return Request::Unknown,
        Err(refusal) => return Request::Violation(refusal),
    };
    let whole = bytes.len() >= head.total;
    let body = &bytes[HEADER_BYTES..head.total.min(bytes.len())];
    let of = |understood: Arc<Understood>| Request::Server(Some(understood));
    let anything = Request::Server(None);
    match head.tag {
        frontend::QUERY | frontend::PARSE if !whole && head.total <= COLLECTED_MAX => Request::Unknown,
        // The name is not whole, and never long.
        frontend::PARSE if !whole && read::text(body).is_none() => Request::Unknown,
        frontend::QUERY | frontend::PARSE if !whole => anything,
        frontend::QUERY => match read::query(body) {
            Some(sql) => {
                let understood = classifier.understanding.of(sql);
                if rules.late_begin
                    && client.begun.is_none()
                    && is_begin(&understood)
                    && begin_tag(sql).is_some()
                {
                    Request::Begin(head.total, understood)
                } else {
                    of(understood)
                }
            }
            None => anything,
        },
        frontend::PARSE => match read::parse(body) {
            Some(parsed) => of(classifier.understanding.of(parsed.sql)),
            None => anything,
        },
        frontend::BIND => match read::bind(body) {
            Some((_, name, _)) => match client.statements.get(name) {
                Some(prepared) => of(Arc::clone(&prepared.statement.understood)),
                None => anything,
            },
            None if whole => anything,
            None => Request::Unknown,
        },
        frontend::DESCRIBE | frontend::CLOSE if !whole => Request::Unknown,
        frontend::DESCRIBE => match read::target(body) {
            Some((b'S', name)) => match client.statements.get(name) {
                Some(prepared) => of(Arc::clone(&prepared.statement.understood)),
                None => anything,
            },
            _ => anything,
        },
        // Outside of a transaction there is nothing for it to end.
        frontend::SYNC => {
            let mut out = Vec::new();
            let status = match client.begun {
                Some(_) => TransactionStatus::Open,
                None => TransactionStatus::Idle,
            };
            build::ready(&mut out, status);
            Request::Answered(head.total, out)
        }
        // With nothing under way there is nothing to flush, and a server that does not copy ignores the others.
        frontend::FLUSH | frontend::COPY_DATA | frontend::COPY_DONE | frontend::COPY_FAIL => {
            Request::Answered(head.total, Vec::new())
        }
        frontend::TERMINATE => Request::Goodbye,
        frontend::CLOSE | frontend::EXECUTE | frontend::FUNCTION_CALL => anything,
        tag => Request::Violation(Refusal::new(
            code::PROTOCOL_VIOLATION,
            format!("invalid frontend message type {tag}"),
        )),
    }
}

/// What PostgreSQL answers to a text that begins a transaction block; `None`: it begins with something else, a comment for one.
pub(in crate::core) fn begin_tag(sql: &[u8]) -> Option<&'static str> {
    let first = sql.trim_ascii_start();
    let begins = |word: &str| {
        first
            .get(..word.len())
            .is_some_and(|found| found.eq_ignore_ascii_case(word.as_bytes()))
    };
    match (begins("begin"), begins("start")) {
        (true, _) => Some("BEGIN"),
        (_, true) => Some("START TRANSACTION"),
        _ => None,
    }
}

/// Whether a text only begins a transaction block, and cannot fail where it does: SERIALIZABLE and READ WRITE are refused by a server in
/// recovery.
fn is_begin(understood: &Understood) -> bool {
    let plain = match understood.transaction {
        TransactionEffect::Begin {
            isolation, read_only, ..
        } => isolation != Some(Isolation::Serializable) && read_only != Some(false),
        _ => false,
    };
    plain && understood.statements == 1 && understood.hint.is_none()
}

#[cfg(test)]
mod tests {
    use super::begin_tag;

    #[test]
    fn a_block_begins_by_either_word() {
        assert_eq!(
            begin_tag(b" \n BEGIN isolation level repeatable read"),
            Some("BEGIN")
        );
        assert_eq!(begin_tag(b"start transaction"), Some("START TRANSACTION"));
        for other in [
            &b""[..],
            b"beg",
            b"/* start */ begin",
            b"-- begin\nstart transaction",
            b";begin",
        ] {
            assert_eq!(begin_tag(other), None);
        }
    }
}
