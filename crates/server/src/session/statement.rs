//! [`Parsed`]: the statements of a text, and what kind each is.
//!
//! What plans nothing (settings, transactions, cursors, `EXPLAIN`'s options) is read here from its words; everything else is parsed by
//! [`catalog::parse`].

mod reader;
mod size;

use self::reader::Reader;
use super::error;
use crate::catalog;
use crate::users::Change;
use corun_store::Lock;
use corun_wire::error::{Refusal, code};
use corun_wire::values::CopyOptions;
use datafusion::sql::parser::Statement;
use datafusion::sql::sqlparser::ast::{Ident, ObjectName, Query, Statement as Sql};
use datafusion::sql::sqlparser::dialect::PostgreSqlDialect;
use datafusion::sql::sqlparser::tokenizer::{Location, Token, Tokenizer};
use std::sync::Arc;

/// Statements of one text, at most.
const STATEMENTS_MAX: usize = 10_000;

/// A setting of a transaction, and its value.
pub(super) type Mode = (&'static str, &'static str);

/// `COPY ... FROM STDIN`.
#[derive(Debug)]
pub(super) struct CopyInto {
    pub(super) table: ObjectName,
    /// None: all.
    pub(super) columns: Vec<Ident>,
    pub(super) options: CopyOptions,
    /// `HEADER MATCH`.
    pub(super) is_header_matched: bool,
}

/// `LOCK TABLE`.
#[derive(Debug)]
pub(super) struct LockTable {
    pub(super) tables: Vec<ObjectName>,
    /// Whether others may read them, or nothing is locked.
    pub(super) lock: Option<Lock>,
    pub(super) wait: bool,
}

/// A statement of a text.
#[derive(Debug, Clone)]
pub struct Parsed {
    /// Its own text.
    pub(super) text: Arc<str>,
    /// Characters before it.
    before: u32,
    pub(super) kind: Kind,
}

/// What a statement is.
#[derive(Debug, Clone)]
pub(super) enum Kind {
    Empty,
    /// For the planner.
    Planned(Arc<Statement>),
    Explain {
        analyze: bool,
        of: Box<Parsed>,
    },
    CopyOut {
        options: CopyOptions,
        query: Arc<Statement>,
    },
    Show(String),
    ShowAll,
    ShowQueue,
    /// No value: what the session began with.
    Set {
        name: String,
        value: Option<String>,
        local: bool,
        tag: &'static str,
    },
    ResetAll,
    /// With these modes.
    /// With its tag.
    Begin(Vec<Mode>, &'static str),
    /// `SET TRANSACTION`, or of all transactions to come.
    Modes {
        modes: Vec<Mode>,
        session: bool,
    },
    Commit,
    Rollback,
    Savepoint(String),
    Release(String),
    RollbackTo(String),
    Discard(String),
    /// No name: all.
    Deallocate(Option<String>),
    Prepare {
        name: String,
        types: Vec<u32>,
        of: Box<Parsed>,
    },
    Execute {
        name: String,
        /// `SELECT` of the arguments.
        arguments: Option<Arc<Statement>>,
    },
    Declare {
        name: String,
        hold: bool,
        of: Box<Parsed>,
    },
    /// No rows: all.
    Fetch {
        name: String,
        rows: Option<u32>,
    },
    /// No name: all.
    Close(Option<String>),
    /// Nothing is done.
    Nothing(&'static str),
    /// It changes users and their rights; tables without a schema have a point before them.
    Rights(Box<Change>),
    /// It would write, and is this, if it can be parsed.
    Write {
        verb: String,
        statement: Result<Arc<Sql>, Refusal>,
    },
    CopyIn(Arc<CopyInto>),
    LockTable(Arc<LockTable>),
    /// `CALL corun.backup('folder')`.
    Backup(String),
    /// `SET CONSTRAINTS`.
    Constraints {
        /// None: all.
        names: Vec<ObjectName>,
        deferred: bool,
    },
    Unsupported(String),
}

impl Kind {
    /// Whether there is nothing to plan.
    pub(super) fn is_quick(&self) -> bool {
        matches!(
            self,
            Kind::Empty | Kind::Begin(..) | Kind::Commit | Kind::Savepoint(_) | Kind::Release(_)
        )
    }
}

impl Parsed {
    /// The same refusal, its position counted in the whole text.
    pub(super) fn placed(&self, mut refusal: Refusal) -> Refusal {
        if let Some(position) = &mut refusal.position {
            *position += self.before;
        }
        refusal
    }
}

struct Word {
    token: Token,
    begin: usize,
    end: usize,
}

/// Turns places of the tokenizer into bytes; places must come in order.
struct Places<'t> {
    text: &'t str,
    byte: usize,
    at: Location,
}

impl Places<'_> {
    fn byte(&mut self, wanted: Location) -> usize {
        while (self.at.line, self.at.column) < (wanted.line, wanted.column) {
            let Some(c) = self.text.get(self.byte..).and_then(|rest| rest.chars().next()) else {
                break;
            };
            self.byte += c.len_utf8();
            match c {
                '\n' => {
                    self.at.line += 1;
                    self.at.column = 1;
                }
                _ => self.at.column += 1,
            }
        }
        self.byte
    }
}

/// The byte of a place in a text.
pub(crate) fn byte_of(text: &str, at: Location) -> usize {
    let start = Location { line: 1, column: 1 };
    Places {
        text,
        byte: 0,
        at: start,
    }
    .byte(at)
}

fn words(text: &str) -> Result<Vec<Word>, Refusal> {
    let tokens = Tokenizer::new(&PostgreSqlDialect {}, text).tokenize_with_location();
    let tokens = tokens.map_err(|error| {
        let at = byte_of(text, error.location);
        Refusal::new(code::SYNTAX_ERROR, format!("syntax error: {}", error.message)).at(text, at)
    })?;
    let mut places = Places {
        text,
        byte: 0,
        at: Location { line: 1, column: 1 },
    };
    let mut words = Vec::new();
    for token in tokens {
        if matches!(token.token, Token::Whitespace(_)) {
            continue;
        }
        let begin = places.byte(token.span.start);
        let end = places.byte(token.span.end);
        words.push(Word {
            token: token.token,
            begin,
            end,
        });
    }
    Ok(words)
}

/// The statements of a text; none of an empty one.
///
/// # Errors
/// What is no SQL, with the place.
pub(super) fn split(text: &str) -> Result<Vec<Parsed>, Refusal> {
    size::check_text(text)?;
    let words = words(text)?;
    size::check(&words, text)?;
    let mut parsed = Vec::new();
    // Bytes of the text whose characters are counted, and their number.
    let (mut counted, mut characters) = (0, 0_usize);
    for part in words.split(|word| word.token == Token::SemiColon) {
        let (Some(first), Some(last)) = (part.first(), part.last()) else {
            continue;
        };
        if parsed.len() == STATEMENTS_MAX {
            let what = format!("the text has more than {STATEMENTS_MAX} statements");
            return Err(Refusal::new(code::PROGRAM_LIMIT, what));
        }
        let between = text.get(counted..first.begin).unwrap_or_default();
        characters += between.chars().count();
        counted = first.begin;
        let before = u32::try_from(characters).unwrap_or(u32::MAX);
        parsed.push(parse(text, before, first.begin, last.end, part)?);
    }
    Ok(parsed)
}

/// One statement; of an empty text an empty one.
///
/// # Errors
/// What is no SQL; several statements.
pub(super) fn one(text: &str) -> Result<Parsed, Refusal> {
    let mut parsed = split(text)?;
    match parsed.len() {
        0 => Ok(Parsed {
            text: Arc::from(""),
            before: 0,
            kind: Kind::Empty,
        }),
        1 => Ok(parsed.remove(0)),
        _ => Err(Refusal::new(
            code::SYNTAX_ERROR,
            "cannot insert multiple commands into a prepared statement",
        )),
    }
}

/// The statement that `words`, from byte `begin` to `end` of the whole text, are, with so many characters before it.
fn parse(whole: &str, before: u32, begin: usize, end: usize, words: &[Word]) -> Result<Parsed, Refusal> {
    let text = whole.get(begin..end).unwrap_or_default();
    let reader = Reader {
        whole,
        before,
        text,
        words,
    };
    let place = |mut refusal: Refusal| {
        if let Some(position) = &mut refusal.position {
            *position += before;
        }
        refusal
    };
    let kind = reader.kind().map_err(place)?;
    let shown = reader.shown();
    Ok(Parsed {
        text: Arc::from(shown.as_deref().unwrap_or(text)),
        before,
        kind,
    })
}

fn query_text(query: &Query) -> String {
    query.to_string()
}

fn parsed_by_catalog(text: &str) -> Result<Statement, Refusal> {
    let mut parsed = catalog::parse(text).map_err(|error| error::refusal(&error, text))?;
    match (parsed.pop(), parsed.is_empty()) {
        (Some(statement), true) => Ok(statement),
        _ => Err(Refusal::new(
            code::SYNTAX_ERROR,
            "syntax error: one statement is expected",
        )),
    }
}
