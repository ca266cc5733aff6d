//! How a simple query runs: as it came, as a prepared statement, or as one whose parameters are its literals.
//!
//! [`Classifier::choose`] decides that from what the event loop knows of texts like it; what is not known yet is asked by [`Classifier::ask`] in
//! front of some later query. What definitions say may change, past this proxy too: everything found is found again after
//! [`RENEWED_AFTER`], and at once where a text that defines something went through.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use crate::auto_prepare;
use crate::config::AutoPrepare;
use crate::core::auto_prepare::LIFTED_MAX;
use crate::core::auto_prepare::literal_check::{LiteralCheck, PATIENCE, Wanted};
use crate::core::auto_prepare::shapes::{Equal, Found, State};
use crate::core::classify::classifier::{Classifier, read_when_parsed};
use crate::session::prepared::{Prepared, Statement};
use crate::session::settings::Settings;
use crate::understand::{Understood, rough};

/// After this long statements are parsed and proven anew. Unmeasured: it bounds for how long a change of a type that the proxy did
/// not see goes unnoticed, and costs a Parse for each statement and server.
pub(in crate::core) const RENEWED_AFTER: Duration = Duration::from_secs(30);

/// A simple query, and who asks.
pub(in crate::core) struct Simple<'a> {
    pub sql: &'a [u8],
    pub understood: &'a Arc<Understood>,
    pub whose: Whose<'a>,
    pub how: AutoPrepare,
    /// Within a transaction block.
    pub in_block: bool,
    pub now: Duration,
}

/// Whose texts mean the same.
#[derive(Clone, Copy)]
pub(in crate::core) struct Whose<'a> {
    pub database: &'a str,
    pub user: &'a str,
    pub settings: &'a Settings,
}

/// A statement to run in place of a text.
pub(in crate::core) struct Run {
    pub prepared: Prepared,
    /// What Bind says behind the names: formats and values.
    pub values: Vec<u8>,
    /// Where literals became parameters: how.
    pub lifted: Option<Arc<auto_prepare::Lifted>>,
    pub refuses_late: bool,
}

impl Whose<'_> {
    /// As the beginning of a key.
    pub fn scope(&self) -> Vec<u8> {
        let mut scope = Vec::with_capacity(64);
        scope.extend(self.database.as_bytes());
        scope.push(0);
        scope.extend(self.user.as_bytes());
        scope.push(0);
        scope.extend(read_when_parsed(self.settings, true));
        scope.push(0);
        scope
    }
}

/// Formats and values as Bind has them: all as text, and so the rows.
fn bound<V: AsRef<[u8]>>(values: &[V]) -> Vec<u8> {
    let mut out = Vec::with_capacity(6 + values.iter().map(|value| 4 + value.as_ref().len()).sum::<usize>());
    out.extend([0; 2]);
    out.extend((values.len() as u16).to_be_bytes());
    for value in values {
        out.extend((value.as_ref().len() as u32).to_be_bytes());
        out.extend(value.as_ref());
    }
    out.extend([0; 2]);
    out
}

impl Classifier {
    /// A text that may change what others mean went through.
    pub fn defined(&self) {
        // Only that the number changes matters.
        self.definitions.fetch_add(1, Ordering::Relaxed);
    }

    /// The stamp that what is known must have.
    pub fn fresh(&mut self, now: Duration) -> u64 {
        let definitions = self.definitions.load(Ordering::Relaxed);
        if definitions != self.definitions_seen || now >= self.renewed + RENEWED_AFTER || self.stamp == 0 {
            self.definitions_seen = definitions;
            self.renewed = now;
            self.stamp = self.statements.stamp();
        }
        self.stamp
    }

    /// The statement that runs in place of a text; `None`: it runs as it came.
    pub fn choose(&mut self, simple: &Simple<'_>) -> Option<Run> {
        if !auto_prepare::may_be_prepared(simple.sql, simple.understood) {
            return None;
        }
        let stamp = self.fresh(simple.now);
        if simple.how == AutoPrepare::Parameterize {
            let mut key = simple.whose.scope();
            let scope = key.len();
            if rough::skeleton(simple.sql, &mut key).is_some_and(|literals| literals > 0)
                && let Some(decided) = self.choose_lifted(simple, &key, scope, stamp)
            {
                return decided;
            }
        }
        if !self.auto.repeats.again(simple.sql) || !auto_prepare::runs_alike(simple.sql, simple.understood) {
            return None;
        }
        let under = read_when_parsed(simple.whose.settings, !simple.sql.is_ascii());
        let statement = self
            .statements
            .intern(simple.sql, &[0, 0], &under, || Arc::clone(simple.understood));
        self.keep(&statement);
        Some(Run {
            prepared: Prepared { statement, stamp },
            values: bound::<&[u8]>(&[]),
            lifted: None,
            refuses_late: false,
        })
    }

    /// `None`: lifting is nothing for this text. `Some(None)`: perhaps later, for now it runs as it came.
    fn choose_lifted(
        &mut self,
        simple: &Simple<'_>,
        key: &[u8],
        scope: usize,
        stamp: u64,
    ) -> Option<Option<Run>> {
        let lifted = match self.auto.shapes.find(key, simple.sql, stamp, simple.now) {
            Found::Kept => return None,
            Found::Asked => return Some(None),
            Found::Equal(equal, lifted, values) => {
                if simple.in_block && !equal.safe_in_block {
                    return None;
                }
                return Some(Some(Run {
                    prepared: Prepared {
                        statement: Arc::clone(&equal.statement),
                        stamp,
                    },
                    values: bound(&values),
                    lifted: Some(lifted),
                    refuses_late: equal.refuses_late,
                }));
            }
            Found::Ask(lifted) => lifted,
            Found::New => {
                if !self.auto.repeats.again(key) {
                    return Some(None);
                }
                let lifted = auto_prepare::lift(simple.sql).map(|mut lifted| {
                    lifted.values = Vec::new();
                    Arc::new(lifted)
                });
                self.auto.shapes.learn(key, lifted.clone());
                lifted?
            }
        };
        let until = simple.now + PATIENCE;
        let wanted = Wanted {
            scope: key[..scope].into(),
            key: key.into(),
            sql: simple.sql.into(),
            statement: self.lifted_statement(simple, &lifted),
            lifted,
            stamp,
            until,
        };
        let lifted = Arc::clone(&wanted.lifted);
        if self.auto.literal_checks.add(wanted, simple.now) {
            self.auto.shapes.set(key, &lifted, State::Asked(until));
        }
        Some(None)
    }

    /// A lifted text with the types of its parameters as far as they are known, as a statement.
    fn lifted_statement(&mut self, simple: &Simple<'_>, lifted: &auto_prepare::Lifted) -> Arc<Statement> {
        let mut types = (lifted.types.len() as u16).to_be_bytes().to_vec();
        types.extend(lifted.types.iter().flat_map(|oid| oid.to_be_bytes()));
        let under = read_when_parsed(simple.whose.settings, !lifted.text.is_ascii());
        self.statements
            .intern(lifted.text.as_bytes(), &types, &under, || {
                Arc::clone(simple.understood)
            })
    }

    /// Remembers a statement that no client holds.
    fn keep(&mut self, statement: &Arc<Statement>) {
        let new = self
            .auto
            .lifted
            .put(statement.id, Arc::clone(statement))
            .is_none();
        if new && self.auto.lifted.len() > LIFTED_MAX {
            self.auto.lifted.pop_lru();
        }
    }

    /// A question that may go with a query of this client.
    pub fn ask(&mut self, whose: Whose<'_>) -> Option<LiteralCheck> {
        if self.auto.literal_checks.is_empty() {
            return None;
        }
        self.auto
            .literal_checks
            .take(&whose.scope())
            .map(LiteralCheck::new)
    }

    /// Learns the answer to a question.
    pub fn answered(&mut self, check: &LiteralCheck) {
        let wanted = &check.wanted;
        let stamp = wanted.stamp;
        let state = match check.proven() {
            Some(types) => State::Equal(Equal {
                statement: Arc::clone(&wanted.statement),
                stamp,
                safe_in_block: wanted.lifted.inputs_cannot_fail(types),
                refuses_late: wanted.lifted.refuses_late(types),
            }),
            None => State::Unequal { stamp },
        };
        self.auto.shapes.set(&wanted.key, &wanted.lifted, state);
    }
}
