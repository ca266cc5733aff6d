//! What a client's next messages do together: enough to say whether they may run on a replica.
//!
//! A Query is alone. Parse, Bind and Execute belong together up to the Sync, which ends their transaction: where the first runs
//! all must run, so all are looked at before the first is sent. What has not arrived yet is not waited for: it may write.

use corun_model::pooler::replicas::split::{Ask, Defaults, Form, Hint, Statement};

use crate::core::classify::classifier::Classifier;
use crate::core::classify::request::{First, look_up};
use crate::core::client::Client;
use crate::hosts::ask;
use crate::session::settings::Settings;
use corun_wire::{HEADER_BYTES, frontend, header, read};

/// Messages looked at; a longer pipeline goes to the primary.
const MESSAGES_MAX: usize = 256;

/// What `bytes`, which begin with a message, ask of a host.
pub(in crate::core) fn ask(
    client: &Client,
    classifier: &mut Classifier,
    first: &mut First,
    bytes: &[u8],
) -> Ask {
    let (form, statement, hint) = match &client.begun {
        Some(begun) => {
            let understood = &begun.understood;
            (Form::Simple, ask::statement(understood), understood.hint)
        }
        None => look(client, classifier, first, bytes),
    };
    Ask {
        statement,
        form,
        hint,
        defaults: defaults(&client.settings),
    }
}

/// What a session's settings say of its transactions.
fn defaults(settings: &Settings) -> Defaults {
    let get = |name: &str| settings.text(name);
    Defaults {
        read_only: get("default_transaction_read_only").is_some_and(is_on),
        serializable: get("default_transaction_isolation")
            .is_some_and(|level| level.eq_ignore_ascii_case("serializable")),
    }
}

/// Whether PostgreSQL reads it as true. What it would not understand was refused when it was set.
fn is_on(value: &str) -> bool {
    let value = value.to_ascii_lowercase();
    let begins = |word: &str| !value.is_empty() && word.starts_with(&value);
    value == "on" || value == "1" || begins("true") || begins("yes")
}

fn look(
    client: &Client,
    classifier: &mut Classifier,
    first: &mut First,
    bytes: &[u8],
) -> (Form, Statement, Option<Hint>) {
    let mut at = 0;
    let mut found: Option<(Statement, Option<Hint>)> = None;
    // Statements that this batch defines; what they do has been counted at their Parse.
    let mut parsed: Vec<&[u8]> = Vec::new();
    for _ in 0..MESSAGES_MAX {
        let Ok(Some(head)) = header(&bytes[at..]) else {
            break;
        };
        let Some(message) = bytes.get(at..at + head.total) else {
            break;
        };
        let body = &message[HEADER_BYTES..];
        let of_batch = match head.tag {
            frontend::QUERY if at == 0 => false,
            frontend::PARSE => {
                let Some((name, _)) = read::text(body) else { break };
                parsed.push(name);
                false
            }
            frontend::BIND => {
                let Some((_, name, _)) = read::bind(body) else {
                    break;
                };
                parsed.contains(&name)
            }
            frontend::DESCRIBE => match read::target(body) {
                Some((b'S', name)) => parsed.contains(&name),
                _ => true,
            },
            frontend::EXECUTE | frontend::CLOSE | frontend::FLUSH => true,
            frontend::SYNC => {
                let (statement, hint) = found.unwrap_or((Statement::Doubtful, None));
                return (Form::Whole, statement, hint);
            }
            _ => break,
        };
        if !of_batch {
            let understood = match at {
                0 => first.understood(client, classifier, bytes).cloned(),
                _ => look_up(client, classifier, message),
            };
            let Some(understood) = understood else { break };
            let (statement, hint) = (ask::statement(&understood), understood.hint);
            if head.tag == frontend::QUERY {
                return (Form::Simple, statement, hint);
            }
            found = Some(together(found, statement, hint));
        }
        at += head.total;
    }
    (Form::Part, Statement::Doubtful, None)
}

/// A statement after others of its batch: reads are a read; a BEGIN is one only alone; hints must agree.
fn together(
    before: Option<(Statement, Option<Hint>)>,
    statement: Statement,
    hint: Option<Hint>,
) -> (Statement, Option<Hint>) {
    match before {
        None => (statement, hint),
        Some((Statement::Read, old)) if statement == Statement::Read => (
            Statement::Read,
            if old == hint {
                hint
            } else {
                old.filter(|hint| *hint == Hint::Primary)
                    .or(hint.filter(|hint| *hint == Hint::Primary))
            },
        ),
        Some((old, _)) if old == statement && matches!(old, Statement::Begin(_)) => (old, hint),
        Some((_, old)) => (Statement::Doubtful, if old == hint { hint } else { None }),
    }
}
