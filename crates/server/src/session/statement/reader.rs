//! What a statement is, read from its words.

mod copies;
mod roles;
mod transactions;

use super::{Kind, LockTable, Parsed, Word, parse, parsed_by_catalog};
use crate::catalog::quoted;
use crate::define;
use crate::session::error;
use crate::write::{parsed_merge, without_overriding};
use corun_store::Lock;
use corun_wire::error::{Refusal, code};
use datafusion::sql::sqlparser::ast::{Ident, ObjectName};
use datafusion::sql::sqlparser::dialect::PostgreSqlDialect;
use datafusion::sql::sqlparser::parser::Parser;
use datafusion::sql::sqlparser::tokenizer::Token;
use std::borrow::Cow;
use std::sync::Arc;

/// Of one statement.
pub(super) struct Reader<'t> {
    pub(super) whole: &'t str,
    /// Characters of it before the text.
    pub(super) before: u32,
    pub(super) text: &'t str,
    pub(super) words: &'t [Word],
}

const WRITES: &[&str] = &[
    "INSERT", "UPDATE", "DELETE", "MERGE", "TRUNCATE", "ALTER", "CREATE", "DROP", "COMMENT", "REINDEX",
    "VACUUM", "ANALYZE", "CLUSTER", "REFRESH", "IMPORT", "REASSIGN", "SECURITY",
];
const UNSUPPORTED: &[&str] = &["LISTEN", "NOTIFY", "DO", "CALL", "MOVE", "LOAD", "CHECKPOINT"];

impl Reader<'_> {
    /// An unquoted word in capitals.
    fn keyword(&self, at: usize) -> String {
        match self.words.get(at).map(|word| &word.token) {
            Some(Token::Word(word)) if word.quote_style.is_none() => word.value.to_ascii_uppercase(),
            _ => String::new(),
        }
    }

    fn is(&self, at: usize, keyword: &str) -> bool {
        self.keyword(at) == keyword
    }

    fn has(&self, keyword: &str) -> bool {
        (0..self.words.len()).any(|at| self.is(at, keyword))
    }

    /// A name, folded as PostgreSQL does.
    fn name(&self, at: usize) -> Result<String, Refusal> {
        match self.words.get(at).map(|word| &word.token) {
            Some(Token::Word(word)) if word.quote_style.is_some() => Ok(word.value.clone()),
            Some(Token::Word(word)) => Ok(word.value.to_lowercase()),
            _ => Err(self.wrong(at)),
        }
    }

    fn is_text(&self, at: usize) -> bool {
        let token = self.words.get(at).map(|word| &word.token);
        matches!(
            token,
            Some(Token::SingleQuotedString(_) | Token::EscapedStringLiteral(_))
        )
    }

    /// A syntax error at a word.
    fn wrong(&self, at: usize) -> Refusal {
        let start = self.words.first().map_or(0, |word| word.begin);
        match self.words.get(at) {
            // It may be a password.
            Some(Word {
                token: Token::SingleQuotedString(_) | Token::EscapedStringLiteral(_),
                begin,
                ..
            }) => Refusal::new(code::SYNTAX_ERROR, "syntax error at or near a text")
                .at(self.text, begin - start),
            Some(word) => {
                let near = self.whole.get(word.begin..word.end).unwrap_or_default();
                Refusal::new(code::SYNTAX_ERROR, format!("syntax error at or near \"{near}\""))
                    .at(self.text, word.begin - start)
            }
            None => Refusal::new(code::SYNTAX_ERROR, "syntax error at end of input")
                .at(self.text, self.text.len()),
        }
    }

    fn end(&self, at: usize) -> Result<(), Refusal> {
        match self.words.len() > at {
            true => Err(self.wrong(at)),
            false => Ok(()),
        }
    }

    /// The statement that begins at a word.
    fn rest(&self, at: usize) -> Result<Box<Parsed>, Refusal> {
        let words = self.words.get(at..).unwrap_or_default();
        let (Some(first), Some(last)) = (words.first(), words.last()) else {
            return Err(self.wrong(at));
        };
        let begin = self.words.first().map_or(first.begin, |word| word.begin);
        let between = self.whole.get(begin..first.begin).unwrap_or_default();
        let between = u32::try_from(between.chars().count()).unwrap_or(u32::MAX);
        let before = self.before.saturating_add(between);
        let inner = parse(self.whole, before, first.begin, last.end, words)?;
        Ok(Box::new(inner))
    }

    /// The text with `FOR NO KEY UPDATE` as `FOR UPDATE`, and `FOR KEY SHARE` as `FOR SHARE`: these locks are stronger. Places stay as they are.
    fn with_plain_locks(&self) -> Cow<'_, str> {
        let mut text = Cow::Borrowed(self.text);
        let begin = self.words.first().map_or(0, |word| word.begin);
        for at in 0..self.words.len() {
            let words = match (self.is(at, "FOR"), self.is(at + 1, "NO")) {
                (true, true) if self.is(at + 2, "KEY") && self.is(at + 3, "UPDATE") => at + 1..at + 3,
                (true, false) if self.is(at + 1, "KEY") && self.is(at + 2, "SHARE") => at + 1..at + 2,
                _ => continue,
            };
            for word in self.words.get(words).unwrap_or_default() {
                let range = word.begin.saturating_sub(begin)..word.end.saturating_sub(begin);
                if text.get(range.clone()).is_some() {
                    let blanks = " ".repeat(range.len());
                    text.to_mut().replace_range(range, &blanks);
                }
            }
        }
        text
    }

    /// The text with `OPERATOR(pg_catalog.=) ANY` as `= ANY`, which the parser takes. Places stay as they are.
    fn with_plain_any<'a>(&self, mut text: Cow<'a, str>) -> Cow<'a, str> {
        let begin = self.words.first().map_or(0, |word| word.begin);
        let token = |at: usize| self.words.get(at).map(|word| &word.token);
        for at in 0..self.words.len() {
            let is_equal = self.is(at, "OPERATOR")
                && self.is(at + 2, "PG_CATALOG")
                && token(at + 4) == Some(&Token::Eq)
                && token(at + 5) == Some(&Token::RParen);
            let (true, true, Some(last)) = (is_equal, self.is(at + 6, "ANY"), self.words.get(at + 5)) else {
                continue;
            };
            let range = self.words[at].begin.saturating_sub(begin)..last.end.saturating_sub(begin);
            if text.get(range.clone()).is_some() {
                let plain = format!("{:<width$}", "=", width = range.len());
                text.to_mut().replace_range(range, &plain);
            }
        }
        text
    }

    fn planned(&self) -> Result<Kind, Refusal> {
        // DataFusion does not get to the end of this recursion, and fills the memory.
        if self.text.contains("WITH RECURSIVE typeinfo_tree") {
            return Ok(Kind::Unsupported(
                "asyncpg's question about the parts of types".to_owned(),
            ));
        }
        Ok(Kind::Planned(Arc::new(parsed_by_catalog(
            &self.with_plain_any(self.with_plain_locks()),
        )?)))
    }

    pub(super) fn kind(&self) -> Result<Kind, Refusal> {
        let first = self.keyword(0);
        match first.as_str() {
            _ if self.is_about_roles() => self.about_roles(),
            "BEGIN" | "START" | "COMMIT" | "END" | "ROLLBACK" | "ABORT" => self.transaction(),
            "SAVEPOINT" => {
                let name = self.name(1)?;
                self.end(2)?;
                Ok(Kind::Savepoint(name))
            }
            "RELEASE" => self.savepoint(1).map(Kind::Release),
            "SET" => self.set(),
            "RESET" if self.is(1, "ALL") => Ok(Kind::ResetAll),
            "RESET" => {
                let (name, at) = self.setting_name(1)?;
                self.end(at)?;
                self.setting(name, None, false, "RESET")
            }
            "SHOW" => self.show(),
            "DISCARD" => Ok(Kind::Discard(self.keyword(1))),
            "DEALLOCATE" => self
                .all_or_name(1 + usize::from(self.is(1, "PREPARE")))
                .map(Kind::Deallocate),
            "CLOSE" => self.all_or_name(1).map(Kind::Close),
            "PREPARE" if self.is(1, "TRANSACTION") && self.is_text(2) => {
                Ok(Kind::Unsupported("PREPARE TRANSACTION".to_owned()))
            }
            "PREPARE" => self.prepare(),
            "EXECUTE" => self.execute(),
            "DECLARE" => self.declare(),
            "FETCH" => self.fetch(),
            "EXPLAIN" => self.explain(),
            "COPY" => self.copy(),
            "LOCK" => self.lock(),
            "CALL" if self.is(1, "CORUN") && self.is(3, "BACKUP") => self.backup(),
            "UNLISTEN" => Ok(Kind::Nothing("UNLISTEN")),
            "CREATE" if self.is(1, "EXTERNAL") || self.is(1, "UNBOUNDED") => self.planned(),
            // Of external tables; the session knows whether it is one of its store.
            "DROP" if self.is(1, "TABLE") => self.planned(),
            "CREATE" | "DROP" | "ALTER" => Ok(self.write(format!("{first} {}", self.keyword(1)))),
            "TRUNCATE" => Ok(self.write("TRUNCATE TABLE".to_owned())),
            word if WRITES.contains(&word) => Ok(self.write(first)),
            word if UNSUPPORTED.contains(&word) => Ok(Kind::Unsupported(first)),
            _ => self.planned(),
        }
    }

    /// `CALL corun.backup('folder')`.
    fn backup(&self) -> Result<Kind, Refusal> {
        let token = |at: usize| self.words.get(at).map(|word| &word.token);
        let folder = match token(5) {
            Some(Token::SingleQuotedString(folder)) => folder.clone(),
            _ => return Err(self.wrong(5)),
        };
        for (at, wanted) in [(2, Token::Period), (4, Token::LParen), (6, Token::RParen)] {
            if token(at) != Some(&wanted) {
                return Err(self.wrong(at));
            }
        }
        self.end(7)?;
        Ok(Kind::Backup(folder))
    }

    fn all_or_name(&self, at: usize) -> Result<Option<String>, Refusal> {
        self.end(at + 1)?;
        match self.is(at, "ALL") {
            true => Ok(None),
            false => self.name(at).map(Some),
        }
    }

    /// A setting's name, maybe of several words or with points, and what follows.
    fn setting_name(&self, at: usize) -> Result<(String, usize), Refusal> {
        for (words, name) in [
            (&["TIME", "ZONE"][..], "timezone"),
            (&["TRANSACTION", "ISOLATION", "LEVEL"], "transaction_isolation"),
            (&["SESSION", "AUTHORIZATION"], "session_authorization"),
            (&["NAMES"], "client_encoding"),
        ] {
            if words
                .iter()
                .enumerate()
                .all(|(index, word)| self.is(at + index, word))
            {
                return Ok((name.to_owned(), at + words.len()));
            }
        }
        let mut name = self.name(at)?;
        let mut next = at + 1;
        while matches!(self.words.get(next), Some(word) if word.token == Token::Period) {
            name.push('.');
            name.push_str(&self.name(next + 1)?);
            next += 2;
        }
        Ok((name, next))
    }

    /// `SET` or `RESET` of a setting: of DataFusion and corun as DataFusion does it.
    fn setting(
        &self,
        name: String,
        value: Option<String>,
        local: bool,
        tag: &'static str,
    ) -> Result<Kind, Refusal> {
        if !name.starts_with("datafusion.") && !name.starts_with("corun.") {
            return Ok(Kind::Set {
                name,
                value,
                local,
                tag,
            });
        }
        if local {
            let what = format!("SET LOCAL of \"{name}\" is not supported");
            return Err(Refusal::new(code::NOT_SUPPORTED, what)
                .hint("Use SET; a transaction that is rolled back takes it along."));
        }
        let text = match value {
            Some(value) => format!("SET {name} = '{}'", value.replace('\'', "''")),
            None => format!("RESET {name}"),
        };
        Ok(Kind::Planned(Arc::new(parsed_by_catalog(&text)?)))
    }

    fn set(&self) -> Result<Kind, Refusal> {
        if self.is(1, "CONSTRAINTS") {
            return self.set_constraints();
        }
        let local = self.is(1, "LOCAL");
        let session = self.is(1, "SESSION") && !self.is(2, "AUTHORIZATION");
        let at = 1 + usize::from(local || session);
        if self.is(at, "TRANSACTION") || self.is(at, "CHARACTERISTICS") {
            return self.set_transaction(at);
        }
        if self.is(at, "ROLE") {
            return match self.keyword(at + 1).as_str() {
                "NONE" => Ok(Kind::Nothing("SET")),
                _ => Ok(Kind::Unsupported("SET ROLE".to_owned())),
            };
        }
        let (name, mut at) = self.setting_name(at)?;
        let equals = matches!(self.words.get(at), Some(word) if word.token == Token::Eq);
        match equals || self.is(at, "TO") {
            true => at += 1,
            false
                if matches!(
                    name.as_str(),
                    "timezone" | "client_encoding" | "session_authorization"
                ) => {}
            false => return Err(self.wrong(at)),
        }
        let value = match self.is(at, "DEFAULT") && self.words.len() == at + 1 {
            true => None,
            // Each text is a name as it stands there.
            false if name.eq_ignore_ascii_case("search_path") => Some(self.value_with(at, quoted)?),
            false => Some(self.setting_value(at)?),
        };
        self.setting(name, value, local, "SET")
    }

    fn setting_value(&self, at: usize) -> Result<String, Refusal> {
        self.value_with(at, str::to_owned)
    }

    /// A setting's value, its texts written by `written`.
    fn value_with(&self, at: usize, written: impl Fn(&str) -> String) -> Result<String, Refusal> {
        let words = self.words.get(at..).unwrap_or_default();
        if words.is_empty() {
            return Err(self.wrong(at));
        }
        let mut value = String::new();
        for (index, word) in words.iter().enumerate() {
            match &word.token {
                Token::SingleQuotedString(text) | Token::EscapedStringLiteral(text) => {
                    value.push_str(&written(text));
                }
                Token::Word(word) if word.quote_style.is_some() => {
                    value.push_str(&format!("\"{}\"", word.value.replace('"', "\"\"")));
                }
                // The units of an interval, of which the text says enough.
                Token::Word(word)
                    if matches!(
                        word.value.to_ascii_uppercase().as_str(),
                        "INTERVAL" | "HOUR" | "TO" | "MINUTE"
                    ) => {}
                Token::Word(word) => value.push_str(&word.value.to_lowercase()),
                Token::Number(number, _) => value.push_str(number),
                Token::Comma => value.push_str(", "),
                Token::Minus => value.push('-'),
                Token::Plus => value.push('+'),
                Token::Period => value.push('.'),
                _ => return Err(self.wrong(at + index)),
            }
        }
        Ok(value)
    }

    fn show(&self) -> Result<Kind, Refusal> {
        match self.keyword(1).as_str() {
            "ALL" if self.words.len() == 2 => return Ok(Kind::ShowAll),
            "QUEUE" if self.words.len() == 2 => return Ok(Kind::ShowQueue),
            "TABLES" | "COLUMNS" | "FUNCTIONS" | "SCHEMAS" | "DATABASES" | "FULL" | "EXTENDED" | "CREATE" => {
                return self.planned();
            }
            _ => {}
        }
        let (name, at) = self.setting_name(1)?;
        self.end(at)?;
        Ok(Kind::Show(name))
    }

    fn is_token(&self, at: usize, token: &Token) -> bool {
        self.words.get(at).is_some_and(|word| word.token == *token)
    }

    /// Where the parenthesis that opens at a word closes.
    fn closing(&self, at: usize) -> Result<usize, Refusal> {
        let mut depth = 0usize;
        for (index, word) in self.words.iter().enumerate().skip(at) {
            match word.token {
                Token::LParen => depth += 1,
                Token::RParen if depth <= 1 => return Ok(index),
                Token::RParen => depth -= 1,
                _ => {}
            }
        }
        Err(self.wrong(self.words.len()))
    }

    fn prepare(&self) -> Result<Kind, Refusal> {
        let name = self.name(1)?;
        let mut at = 2;
        let mut types = Vec::new();
        if self.is_token(at, &Token::LParen) {
            let close = self.closing(at)?;
            for part in self.words[at + 1..close].split(|word| word.token == Token::Comma) {
                let (Some(first), Some(last)) = (part.first(), part.last()) else {
                    return Err(self.wrong(close));
                };
                let name = self.whole.get(first.begin..last.end).unwrap_or_default();
                let of = crate::session::parameters::type_named(name)
                    .ok_or_else(|| Refusal::new("42704", format!("type \"{name}\" does not exist")))?;
                types.push(of.oid());
            }
            at = close + 1;
        }
        if !self.is(at, "AS") {
            return Err(self.wrong(at));
        }
        let of = self.rest(at + 1)?;
        Ok(Kind::Prepare { name, types, of })
    }

    fn execute(&self) -> Result<Kind, Refusal> {
        let name = self.name(1)?;
        let arguments = match self.is_token(2, &Token::LParen) {
            true => {
                let close = self.closing(2)?;
                self.end(close + 1)?;
                let (begin, end) = (self.words[2].end, self.words[close].begin);
                let list = self.whole.get(begin..end).unwrap_or_default().trim();
                match list.is_empty() {
                    true => None,
                    false => Some(Arc::new(parsed_by_catalog(&format!("SELECT {list}"))?)),
                }
            }
            false => {
                self.end(2)?;
                None
            }
        };
        Ok(Kind::Execute { name, arguments })
    }

    fn declare(&self) -> Result<Kind, Refusal> {
        let name = self.name(1)?;
        let mut at = 2;
        let mut hold = false;
        while !self.is(at, "FOR") {
            match self.keyword(at).as_str() {
                "SCROLL" if !self.is(at - 1, "NO") => {
                    return Ok(Kind::Unsupported("a cursor that scrolls".to_owned()));
                }
                "BINARY" => return Ok(Kind::Unsupported("BINARY CURSOR".to_owned())),
                "HOLD" => hold = self.is(at - 1, "WITH"),
                "" => return Err(self.wrong(at)),
                _ => {}
            }
            at += 1;
        }
        let of = self.rest(at + 1)?;
        match of.kind {
            Kind::Planned(_) => Ok(Kind::Declare { name, hold, of }),
            _ => Err(self.wrong(at + 1)),
        }
    }

    fn fetch(&self) -> Result<Kind, Refusal> {
        let mut at = 1;
        let backward = || Err(Refusal::new(code::NOT_NOW, "cursor can only scan forward"));
        let mut rows = Some(1);
        match self.keyword(at).as_str() {
            "NEXT" => at += 1,
            "FORWARD" => at += 1,
            "PRIOR" | "LAST" | "ABSOLUTE" | "RELATIVE" | "BACKWARD" | "FIRST" => return backward(),
            _ => {}
        }
        if self.is(at, "ALL") {
            rows = None;
            at += 1;
        } else if let Some(Token::Number(number, _)) = self.words.get(at).map(|word| &word.token) {
            rows = Some(number.parse().map_err(|_| self.wrong(at))?);
            at += 1;
        } else if self.is_token(at, &Token::Minus) {
            return backward();
        }
        if self.is(at, "FROM") || self.is(at, "IN") {
            at += 1;
        }
        let name = self.name(at)?;
        self.end(at + 1)?;
        Ok(Kind::Fetch { name, rows })
    }

    fn explain(&self) -> Result<Kind, Refusal> {
        let mut at = 1;
        let mut analyze = false;
        if self.is_token(at, &Token::LParen) {
            let close = self.closing(at)?;
            for (index, word) in self.words.iter().enumerate().take(close).skip(at + 1) {
                let off = |at: usize| matches!(self.keyword(at).as_str(), "OFF" | "FALSE" | "NO");
                match self.keyword(index).as_str() {
                    "ANALYZE" => analyze = !off(index + 1),
                    "FORMAT" if !self.is(index + 1, "TEXT") => {
                        return Ok(Kind::Unsupported(
                            "EXPLAIN in another format than text".to_owned(),
                        ));
                    }
                    _ => _ = word,
                }
            }
            at = close + 1;
        } else {
            while self.is(at, "ANALYZE") || self.is(at, "VERBOSE") {
                analyze |= self.is(at, "ANALYZE");
                at += 1;
            }
        }
        let of = self.rest(at)?;
        match &of.kind {
            Kind::Planned(_) | Kind::Execute { .. } => Ok(Kind::Explain { analyze, of }),
            Kind::Write { .. } => Ok(Kind::Explain { analyze, of }),
            _ => Err(self.wrong(at)),
        }
    }

    /// `SET CONSTRAINTS {ALL | name, ...} {DEFERRED | IMMEDIATE}`.
    fn set_constraints(&self) -> Result<Kind, Refusal> {
        let (mut names, mut at) = (Vec::new(), 3);
        if !self.is(2, "ALL") {
            (names, at) = self.relations(2)?;
        }
        let deferred = self.is(at, "DEFERRED");
        if !deferred && !self.is(at, "IMMEDIATE") {
            return Err(self.wrong(at));
        }
        self.end(at + 1)?;
        Ok(Kind::Constraints { names, deferred })
    }

    /// Names from one place on, and the place behind them; `ONLY` before and `*` behind one mean nothing.
    fn relations(&self, mut at: usize) -> Result<(Vec<ObjectName>, usize), Refusal> {
        let mut names = Vec::new();
        loop {
            at += usize::from(self.is(at, "ONLY"));
            let mut parts = vec![Ident::with_quote('"', self.name(at)?)];
            at += 1;
            while self.is_token(at, &Token::Period) {
                parts.push(Ident::with_quote('"', self.name(at + 1)?));
                at += 2;
            }
            names.push(ObjectName::from(parts));
            at += usize::from(self.is_token(at, &Token::Mul));
            if !self.is_token(at, &Token::Comma) {
                return Ok((names, at));
            }
            at += 1;
        }
    }

    /// `LOCK [TABLE] [ONLY] name, ... [IN ... MODE] [NOWAIT]`.
    fn lock(&self) -> Result<Kind, Refusal> {
        let (tables, mut at) = self.relations(1 + usize::from(self.is(1, "TABLE")))?;
        let mut lock = Some(Lock::Exclusive);
        if self.is(at, "IN") {
            let end = (at..self.words.len()).find(|end| self.is(*end, "MODE"));
            let end = end.ok_or_else(|| self.wrong(self.words.len()))?;
            let mode: Vec<String> = (at + 1..end).map(|at| self.keyword(at)).collect();
            lock = match mode.join(" ").as_str() {
                "ACCESS SHARE" | "ROW SHARE" | "ROW EXCLUSIVE" => None,
                "SHARE" => Some(Lock::Shared),
                "SHARE UPDATE EXCLUSIVE" | "SHARE ROW EXCLUSIVE" | "EXCLUSIVE" | "ACCESS EXCLUSIVE" => {
                    Some(Lock::Exclusive)
                }
                _ => return Err(self.wrong(at + 1)),
            };
            at = end + 1;
        }
        let wait = !self.is(at, "NOWAIT");
        self.end(at + usize::from(!wait))?;
        Ok(Kind::LockTable(Arc::new(LockTable { tables, lock, wait })))
    }

    /// What would write. Whether it may is not known here; nor, where it may not, whether it can be parsed.
    fn write(&self, verb: String) -> Kind {
        let plain = self.with_plain_locks();
        let text = match verb.as_str() {
            "INSERT" => without_overriding(&plain),
            _ => Cow::Borrowed(plain.as_ref()),
        };
        let own = match verb.split(' ').next() {
            Some("CREATE" | "ALTER" | "COMMENT") => define::parsed(self.text),
            _ => None,
        };
        let parsed = match own {
            Some(own) => own.map(|statement| vec![statement]),
            None => match verb.as_str() {
                "MERGE" => parsed_merge(&text),
                _ => Parser::parse_sql(&PostgreSqlDialect {}, &text),
            }
            .map_err(|error| error::syntax(&error.to_string(), self.text)),
        };
        let statement = parsed.and_then(|mut parsed| parsed.pop().ok_or_else(|| self.wrong(0)));
        Kind::Write {
            verb,
            statement: statement.map(Arc::new),
        }
    }
}
