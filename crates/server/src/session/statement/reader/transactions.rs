//! Statements that begin, divide and end transactions, read to their end.

use super::{Kind, Reader};
use crate::session::statement::Mode;
use corun_wire::error::Refusal;
use datafusion::sql::sqlparser::tokenizer::Token;

/// Modes of a transaction, and the settings that they are; none: it is taken and has no meaning.
const MODES: &[(&[&str], Option<Mode>)] = &[
    (
        &["ISOLATION", "LEVEL", "READ", "UNCOMMITTED"],
        Some(("transaction_isolation", "read uncommitted")),
    ),
    (
        &["ISOLATION", "LEVEL", "READ", "COMMITTED"],
        Some(("transaction_isolation", "read committed")),
    ),
    (
        &["ISOLATION", "LEVEL", "REPEATABLE", "READ"],
        Some(("transaction_isolation", "repeatable read")),
    ),
    (
        &["ISOLATION", "LEVEL", "SERIALIZABLE"],
        Some(("transaction_isolation", "serializable")),
    ),
    (&["READ", "ONLY"], Some(("transaction_read_only", "on"))),
    (&["READ", "WRITE"], Some(("transaction_read_only", "off"))),
    (&["NOT", "DEFERRABLE"], None),
    (&["DEFERRABLE"], None),
];

impl Reader<'_> {
    /// `BEGIN`, `START TRANSACTION`, `COMMIT`, `END`, `ROLLBACK`, `ABORT`.
    pub(super) fn transaction(&self) -> Result<Kind, Refusal> {
        let verb = self.keyword(0);
        if self.is(1, "PREPARED") && matches!(verb.as_str(), "COMMIT" | "ROLLBACK") {
            return Ok(Kind::Unsupported(format!("{verb} PREPARED")));
        }
        if verb == "START" && !self.is(1, "TRANSACTION") {
            return Err(self.wrong(1));
        }
        let at = 1 + usize::from(self.is(1, "WORK") || self.is(1, "TRANSACTION"));
        match verb.as_str() {
            "BEGIN" => Ok(Kind::Begin(self.modes(at)?, "BEGIN")),
            "START" => Ok(Kind::Begin(self.modes(at)?, "START TRANSACTION")),
            "ROLLBACK" if self.is(at, "TO") => self.savepoint(at + 1).map(Kind::RollbackTo),
            "COMMIT" | "END" => self.chained(&verb, at, Kind::Commit),
            _ => self.chained(&verb, at, Kind::Rollback),
        }
    }

    /// What stands behind the end of a transaction: nothing, or whether another one begins with it.
    fn chained(&self, verb: &str, at: usize, kind: Kind) -> Result<Kind, Refusal> {
        if !self.is(at, "AND") {
            return self.end(at).map(|()| kind);
        }
        let at = at + 1;
        let is_alone = self.is(at, "NO");
        let at = at + usize::from(is_alone);
        if !self.is(at, "CHAIN") {
            return Err(self.wrong(at));
        }
        self.end(at + 1)?;
        match is_alone {
            true => Ok(kind),
            false => Ok(Kind::Unsupported(format!("{verb} AND CHAIN"))),
        }
    }

    /// The savepoint at the end of a statement, with or without the word `SAVEPOINT` before it.
    pub(super) fn savepoint(&self, at: usize) -> Result<String, Refusal> {
        // `RELEASE savepoint` is of one of that name.
        let at = at + usize::from(self.is(at, "SAVEPOINT") && self.words.len() > at + 1);
        let name = self.name(at)?;
        self.end(at + 1)?;
        Ok(name)
    }

    /// `SET TRANSACTION` and `SET SESSION CHARACTERISTICS AS TRANSACTION`, from the second or third word on.
    pub(super) fn set_transaction(&self, at: usize) -> Result<Kind, Refusal> {
        let session = self.is(at, "CHARACTERISTICS");
        let at = match session {
            true if !self.is(at + 1, "AS") => return Err(self.wrong(at + 1)),
            true => at + 2,
            false => at,
        };
        if !self.is(at, "TRANSACTION") {
            return Err(self.wrong(at));
        }
        if self.is(at + 1, "SNAPSHOT") {
            return Ok(Kind::Unsupported("SET TRANSACTION SNAPSHOT".to_owned()));
        }
        // One at least.
        self.mode(at + 1)?;
        let modes = self.modes(at + 1)?;
        Ok(Kind::Modes { modes, session })
    }

    /// Modes up to the end of the statement, with or without commas between them.
    fn modes(&self, begin: usize) -> Result<Vec<Mode>, Refusal> {
        let mut at = begin;
        let mut modes = Vec::new();
        while at < self.words.len() {
            at += usize::from(at > begin && self.is_token(at, &Token::Comma));
            let (behind, mode) = self.mode(at)?;
            at = behind;
            modes.extend(mode);
        }
        Ok(modes)
    }

    /// A mode; returns the place behind it, too.
    fn mode(&self, at: usize) -> Result<(usize, Option<Mode>), Refusal> {
        let mut fitting = 0;
        for (mode, setting) in MODES {
            let words = mode.iter().enumerate();
            let fits = words
                .take_while(|(index, word)| self.is(at + *index, word))
                .count();
            if fits == mode.len() {
                return Ok((at + fits, *setting));
            }
            fitting = fitting.max(fits);
        }
        Err(self.wrong(at + fitting))
    }
}
