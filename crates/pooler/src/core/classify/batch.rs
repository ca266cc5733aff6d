//! What a client's next messages do together: enough to say whether they may run on a replica.
//!
//! A Query is alone. Parse, Bind and Execute belong together up to the Sync, which ends their transaction: where the first runs
//! all must run, so all are looked at before the first is sent. What has not arrived yet is not waited for: it may write.

use std::sync::Arc;

use corun_model::pooler::replicas::split::{Ask, Defaults, Form, Hint, Statement};

use crate::core::classify::classifier::Classifier;
use crate::core::client::Client;
use crate::hosts::ask;
use crate::session::settings::Settings;
use crate::understand::Understood;
use crate::wire::{HEADER_BYTES, frontend, header, read};

/// Messages looked at; a longer pipeline goes to the primary.
const MESSAGES_MAX: usize = 256;

/// What `bytes`, which begin with a message, ask of a host.
pub(in crate::core) fn ask(client: &Client, classifier: &mut Classifier, bytes: &[u8]) -> Ask {
    let (form, statement, hint) = match &client.begun {
        Some(begun) => {
            let understood = &begun.understood;
            (Form::Simple, ask::statement(understood), ask::hint(understood))
        }
        None => look(client, classifier, bytes),
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

fn look(client: &Client, classifier: &mut Classifier, bytes: &[u8]) -> (Form, Statement, Option<Hint>) {
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
        let understood: Option<Arc<Understood>> = match head.tag {
            frontend::QUERY if at == 0 => {
                let Some(sql) = read::query(body) else { break };
                let understood = classifier.understanding.of(sql);
                return (Form::Simple, ask::statement(&understood), ask::hint(&understood));
            }
            frontend::PARSE => {
                let Some(parse) = read::parse(body) else { break };
                parsed.push(parse.name);
                Some(classifier.understanding.of(parse.sql))
            }
            frontend::BIND => {
                let Some((_, name, _)) = read::bind(body) else {
                    break;
                };
                if parsed.contains(&name) {
                    None
                } else {
                    let Some(prepared) = client.statements.get(name) else {
                        break;
                    };
                    Some(Arc::clone(&prepared.statement.understood))
                }
            }
            frontend::DESCRIBE => match read::target(body) {
                Some((b'S', name)) if !parsed.contains(&name) => {
                    let Some(prepared) = client.statements.get(name) else {
                        break;
                    };
                    Some(Arc::clone(&prepared.statement.understood))
                }
                _ => None,
            },
            frontend::EXECUTE | frontend::CLOSE | frontend::FLUSH => None,
            frontend::SYNC => {
                let (statement, hint) = found.unwrap_or((Statement::Doubtful, None));
                return (Form::Whole, statement, hint);
            }
            _ => break,
        };
        if let Some(understood) = understood {
            found = Some(together(
                found,
                ask::statement(&understood),
                ask::hint(&understood),
            ));
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
