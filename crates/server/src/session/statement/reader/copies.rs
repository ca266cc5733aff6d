//! `COPY` from and to the client, with its options as PostgreSQL has them now and as it had them before.

use super::Reader;
use crate::session::error;
use crate::session::statement::{CopyInto, Kind, parsed_by_catalog, query_text};
use corun_wire::error::{Refusal, code};
use corun_wire::values::{CopyFormat, CopyOptions};
use datafusion::sql::sqlparser::ast::{CopySource, Statement as Sql};
use datafusion::sql::sqlparser::dialect::PostgreSqlDialect;
use datafusion::sql::sqlparser::parser::Parser;
use datafusion::sql::sqlparser::tokenizer::Token;
use std::sync::Arc;

/// Options as they are written.
#[derive(Debug, Default)]
struct Given {
    format: Option<CopyFormat>,
    delimiter: Option<u8>,
    null: Option<String>,
    header: Option<Header>,
    quote: Option<u8>,
    escape: Option<u8>,
    freeze: Option<()>,
    encoding: Option<()>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Header {
    No,
    Yes,
    /// It must have the columns' names.
    Match,
}

impl Given {
    fn options(&self) -> Result<CopyOptions, Refusal> {
        let format = self.format.unwrap_or_default();
        let mut options = CopyOptions::of(format);
        let is_csv = format == CopyFormat::Csv;
        let only_csv = |what: &str| {
            Err(Refusal::new(
                code::NOT_SUPPORTED,
                format!("COPY {what} available only in CSV mode"),
            ))
        };
        if self.quote.is_some() && !is_csv {
            return only_csv("quote");
        }
        if self.escape.is_some() && !is_csv {
            return only_csv("escape");
        }
        if let Some(delimiter) = self.delimiter {
            options.delimiter = delimiter;
        }
        if let Some(null) = &self.null {
            options.null.clone_from(null);
        }
        if let Some(quote) = self.quote {
            (options.quote, options.escape) = (quote, quote);
        }
        if let Some(escape) = self.escape {
            options.escape = escape;
        }
        options.header = self.header.is_some_and(|header| header != Header::No);
        options.check()?;
        Ok(options)
    }
}

/// An option has its value, which it had not.
fn once<T>(slot: &mut Option<T>, value: T) -> Result<(), Refusal> {
    match slot.replace(value) {
        None => Ok(()),
        Some(_) => Err(Refusal::new(
            code::SYNTAX_ERROR,
            "conflicting or redundant options",
        )),
    }
}

impl Reader<'_> {
    /// `COPY ... FROM STDIN`, `COPY ... TO STDOUT`; what reads or writes files is DataFusion's.
    pub(super) fn copy(&self) -> Result<Kind, Refusal> {
        let place = |verb: &str, what: &str| {
            let mut places = (0..self.words.len()).rev();
            places.find(|at| self.is(*at, verb) && self.is(at + 1, what))
        };
        if let Some(at) = place("FROM", "STDIN") {
            return self.copy_in(at + 1);
        }
        match place("TO", "STDOUT") {
            Some(at) => self.copy_out(at + 1),
            None if self.has("TO") => self.planned(),
            None => Ok(self.write("COPY FROM".to_owned())),
        }
    }

    /// What stands before the options, which end at a word.
    fn copy_parsed(&self, last: usize) -> Result<CopySource, Refusal> {
        let begin = self.words.first().map_or(0, |word| word.begin);
        let end = self
            .words
            .get(last)
            .map_or(self.text.len(), |word| word.end - begin);
        // The parser looks for rows behind the statement.
        let text = format!("{};", self.text.get(..end).unwrap_or(self.text));
        let mut parsed = Parser::parse_sql(&PostgreSqlDialect {}, &text)
            .map_err(|error| error::syntax(&error.to_string(), self.text))?;
        match parsed.pop() {
            Some(Sql::Copy { source, .. }) => Ok(source),
            _ => Err(self.wrong(0)),
        }
    }

    fn copy_in(&self, stdin: usize) -> Result<Kind, Refusal> {
        let CopySource::Table { table_name, columns } = self.copy_parsed(stdin)? else {
            return Err(self.wrong(1));
        };
        let given = self.copy_options(stdin + 1)?;
        Ok(Kind::CopyIn(Arc::new(CopyInto {
            table: table_name,
            columns,
            options: given.options()?,
            is_header_matched: given.header == Some(Header::Match),
        })))
    }

    fn copy_out(&self, stdout: usize) -> Result<Kind, Refusal> {
        let query = match self.copy_parsed(stdout)? {
            CopySource::Query(query) => query_text(&query),
            CopySource::Table { table_name, columns } => {
                let columns: Vec<String> = columns.iter().map(ToString::to_string).collect();
                let columns = if columns.is_empty() {
                    "*".to_owned()
                } else {
                    columns.join(", ")
                };
                format!("SELECT {columns} FROM {table_name}")
            }
        };
        let given = self.copy_options(stdout + 1)?;
        if given.header == Some(Header::Match) {
            let what = "cannot use \"match\" with HEADER in COPY TO";
            return Err(Refusal::new(code::NOT_SUPPORTED, what));
        }
        let query = Arc::new(parsed_by_catalog(&query).map_err(|refusal| Refusal {
            position: None,
            ..refusal
        })?);
        Ok(Kind::CopyOut {
            options: given.options()?,
            query,
        })
    }

    /// Options from a word on, to the end.
    fn copy_options(&self, begin: usize) -> Result<Given, Refusal> {
        let mut given = Given::default();
        let at = begin + usize::from(self.is(begin, "WITH"));
        if !self.is_token(at, &Token::LParen) {
            self.old_options(at, &mut given)?;
            return Ok(given);
        }
        let close = self.closing(at)?;
        self.end(close + 1)?;
        let mut at = at + 1;
        while at < close {
            at = self.copy_option(at, &mut given)?;
            match self.is_token(at, &Token::Comma) {
                true if at + 1 < close => at += 1,
                _ if at == close => {}
                _ => return Err(self.wrong(at)),
            }
        }
        Ok(given)
    }

    /// An option of the list in parentheses; returns the place behind it.
    fn copy_option(&self, at: usize, given: &mut Given) -> Result<usize, Refusal> {
        let value = at + 1;
        let behind = value + 1;
        match self.keyword(at).as_str() {
            "FORMAT" => {
                let name = self.option_text(value)?;
                once(&mut given.format, self.copy_format(&name)?)?;
            }
            "FREEZE" => {
                let (_, behind) = self.switch(value)?;
                // Nobody else sees the rows before the transaction commits, whether they are frozen or not.
                once(&mut given.freeze, ())?;
                return Ok(behind);
            }
            "HEADER" if self.is(value, "MATCH") => once(&mut given.header, Header::Match)?,
            "HEADER" => {
                let (is_on, behind) = self.switch(value)?;
                once(&mut given.header, if is_on { Header::Yes } else { Header::No })?;
                return Ok(behind);
            }
            "DELIMITER" => once(&mut given.delimiter, self.option_byte(value, "delimiter")?)?,
            "NULL" => once(&mut given.null, self.option_text(value)?)?,
            "QUOTE" => once(&mut given.quote, self.option_byte(value, "quote")?)?,
            "ESCAPE" => once(&mut given.escape, self.option_byte(value, "escape")?)?,
            "ENCODING" => once(&mut given.encoding, self.encoding(value)?)?,
            name @ ("FORCE_QUOTE" | "FORCE_NULL" | "FORCE_NOT_NULL" | "DEFAULT" | "ON_ERROR"
            | "LOG_VERBOSITY") => {
                return Err(not_supported(name));
            }
            _ => {
                let name = self.name(at)?;
                return Err(Refusal::new(
                    code::SYNTAX_ERROR,
                    format!("option \"{name}\" not recognized"),
                ));
            }
        }
        Ok(behind)
    }

    /// Options as they were before PostgreSQL 9.0, which newer ones still take.
    fn old_options(&self, begin: usize, given: &mut Given) -> Result<(), Refusal> {
        let mut at = begin;
        while at < self.words.len() {
            let value = at + 1 + usize::from(self.is(at + 1, "AS"));
            match self.keyword(at).as_str() {
                "BINARY" => {
                    once(&mut given.format, CopyFormat::Binary)?;
                    at += 1;
                    continue;
                }
                "CSV" => {
                    once(&mut given.format, CopyFormat::Csv)?;
                    at += 1;
                    continue;
                }
                "HEADER" => {
                    once(&mut given.header, Header::Yes)?;
                    at += 1;
                    continue;
                }
                "FREEZE" => {
                    once(&mut given.freeze, ())?;
                    at += 1;
                    continue;
                }
                "DELIMITER" => once(&mut given.delimiter, self.option_byte(value, "delimiter")?)?,
                "NULL" => once(&mut given.null, self.option_text(value)?)?,
                "QUOTE" => once(&mut given.quote, self.option_byte(value, "quote")?)?,
                "ESCAPE" => once(&mut given.escape, self.option_byte(value, "escape")?)?,
                "ENCODING" => once(&mut given.encoding, self.encoding(value)?)?,
                "FORCE" => return Err(not_supported("FORCE")),
                _ => return Err(self.wrong(at)),
            }
            at = value + 1;
        }
        Ok(())
    }

    fn copy_format(&self, name: &str) -> Result<CopyFormat, Refusal> {
        match name.to_ascii_lowercase().as_str() {
            "text" => Ok(CopyFormat::Text),
            "csv" => Ok(CopyFormat::Csv),
            "binary" => Ok(CopyFormat::Binary),
            _ => {
                let what = format!("COPY format \"{name}\" not recognized");
                Err(Refusal::new(code::INVALID_PARAMETER_VALUE, what))
            }
        }
    }

    /// A text, or a word.
    fn option_text(&self, at: usize) -> Result<String, Refusal> {
        match self.words.get(at).map(|word| &word.token) {
            Some(Token::SingleQuotedString(text) | Token::EscapedStringLiteral(text)) => Ok(text.clone()),
            _ => self.name(at),
        }
    }

    fn option_byte(&self, at: usize, what: &str) -> Result<u8, Refusal> {
        let text = self.option_text(at)?;
        match text.as_bytes() {
            [byte] => Ok(*byte),
            _ => {
                let what = format!("COPY {what} must be a single one-byte character");
                Err(Refusal::new(code::NOT_SUPPORTED, what))
            }
        }
    }

    /// `ON`, `OFF` and the like, or nothing, which is on; and the place behind it.
    fn switch(&self, at: usize) -> Result<(bool, usize), Refusal> {
        let is_end = self.is_token(at, &Token::Comma) || self.is_token(at, &Token::RParen);
        if is_end {
            return Ok((true, at));
        }
        let text = match self.words.get(at).map(|word| &word.token) {
            Some(Token::Number(digits, _)) => digits.clone(),
            _ => self.option_text(at)?,
        };
        match text.to_ascii_lowercase().as_str() {
            "on" | "true" | "1" => Ok((true, at + 1)),
            "off" | "false" | "0" => Ok((false, at + 1)),
            _ => Err(Refusal::new(
                code::SYNTAX_ERROR,
                format!(
                    "{} requires a Boolean value",
                    self.keyword(at.saturating_sub(1)).to_lowercase()
                ),
            )),
        }
    }

    fn encoding(&self, at: usize) -> Result<(), Refusal> {
        let name = self.option_text(at)?;
        match name.to_ascii_lowercase().starts_with("utf") {
            true => Ok(()),
            false => Err(not_supported(&format!("ENCODING '{name}'"))),
        }
    }
}

fn not_supported(option: &str) -> Refusal {
    Refusal::new(
        code::NOT_SUPPORTED,
        format!("the option {option} of COPY is not supported"),
    )
}
