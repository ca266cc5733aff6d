//! `CREATE ROLE`, `ALTER ROLE`, `DROP ROLE`, `GRANT` and `REVOKE`, read from their words.

use super::{Kind, Reader};
use crate::session::zone::Zone;
use crate::users::{Change, Password, Right, RoleOptions, SchemaRight, TableRight};
use corun_wire::error::{Refusal, code};
use corun_wire::values::{Format, Kind as ValueKind, Type, Value};
use datafusion::sql::sqlparser::tokenizer::Token;

/// Attributes of roles that nobody has here, and that may be refused to them.
const ABSENT: [&str; 4] = ["CREATEDB", "CREATEROLE", "REPLICATION", "BYPASSRLS"];

fn unsupported(what: &str) -> Refusal {
    Refusal::new(code::NOT_SUPPORTED, format!("{what} is not supported"))
}

impl Reader<'_> {
    /// Whether a statement is one of these.
    pub(super) fn is_about_roles(&self) -> bool {
        let role = matches!(self.keyword(1).as_str(), "ROLE" | "USER" | "GROUP");
        match self.keyword(0).as_str() {
            "CREATE" | "DROP" => role,
            // `ALTER USER MAPPING` is of foreign servers.
            "ALTER" => role && !self.is(2, "MAPPING"),
            "GRANT" | "REVOKE" => true,
            _ => false,
        }
    }

    pub(super) fn about_roles(&self) -> Result<Kind, Refusal> {
        let change = match self.keyword(0).as_str() {
            "CREATE" => {
                let options = RoleOptions {
                    login: self.is(1, "USER").then_some(true),
                    ..RoleOptions::default()
                };
                Change::Create(self.name(2)?, self.options(3, options)?)
            }
            "ALTER" => self.alter()?,
            "DROP" => {
                let if_exists = self.is(2, "IF") && self.is(3, "EXISTS");
                let (names, at) = self.names(if if_exists { 4 } else { 2 })?;
                self.end(at)?;
                Change::Drop(names, if_exists)
            }
            verb => self.grant(verb == "GRANT")?,
        };
        Ok(Kind::Rights(Box::new(change)))
    }

    /// What may be shown of the statement: its first words, without what may be a password.
    pub(in crate::session::statement) fn shown(&self) -> Option<String> {
        let words = self.words.iter().take(3);
        let words = words.filter_map(|word| self.whole.get(word.begin..word.end));
        self.is_about_roles()
            .then(|| format!("{} ...", words.collect::<Vec<_>>().join(" ")))
    }

    /// Names of roles with commas between them, and what follows.
    fn names(&self, at: usize) -> Result<(Vec<String>, usize), Refusal> {
        self.listed(at, |at| match self.keyword(at).as_str() {
            special @ ("CURRENT_USER" | "SESSION_USER" | "CURRENT_ROLE") => Err(unsupported(special)),
            "PUBLIC" => {
                let hint = "Make a role, and its members of those who shall have the right.";
                Err(unsupported("PUBLIC").hint(hint))
            }
            _ => self.name(at),
        })
    }

    /// What is read at each place between commas, and the place behind all.
    fn listed(
        &self,
        mut at: usize,
        read: impl Fn(usize) -> Result<String, Refusal>,
    ) -> Result<(Vec<String>, usize), Refusal> {
        let mut names = Vec::new();
        loop {
            names.push(read(at)?);
            at += 1;
            match self.is_token(at, &Token::Comma) {
                true => at += 1,
                false => return Ok((names, at)),
            }
        }
    }

    fn text(&self, at: usize) -> Result<&str, Refusal> {
        match self.words.get(at).map(|word| &word.token) {
            Some(Token::SingleQuotedString(text) | Token::EscapedStringLiteral(text)) => Ok(text),
            _ => Err(self.wrong(at)),
        }
    }

    fn alter(&self) -> Result<Change, Refusal> {
        let (name, at) = (self.name(2)?, 3);
        match self.keyword(at).as_str() {
            "RENAME" => Err(unsupported("ALTER ROLE ... RENAME")),
            "RESET" => {
                let key = self.name(at + 1)?;
                self.end(at + 2)?;
                Ok(Change::Limit(name, key, None))
            }
            "SET" => {
                let key = self.name(at + 1)?;
                if !self.is_token(at + 2, &Token::Eq) && !self.is(at + 2, "TO") {
                    return Err(self.wrong(at + 2));
                }
                let value = match self.is(at + 3, "DEFAULT") && self.words.len() == at + 4 {
                    true => None,
                    false => Some(self.setting_value(at + 3)?),
                };
                Ok(Change::Limit(name, key, value))
            }
            _ => Ok(Change::Alter(name, self.options(at, RoleOptions::default())?)),
        }
    }

    fn options(&self, mut at: usize, mut options: RoleOptions) -> Result<RoleOptions, Refusal> {
        at += usize::from(self.is(at, "WITH"));
        while self.words.len() > at {
            let keyword = self.keyword(at);
            at += 1;
            match keyword.as_str() {
                "LOGIN" => options.login = Some(true),
                "NOLOGIN" => options.login = Some(false),
                "SUPERUSER" => options.superuser = Some(true),
                "NOSUPERUSER" => options.superuser = Some(false),
                "INHERIT" => {}
                "ENCRYPTED" if self.is(at, "PASSWORD") => {}
                "PASSWORD" => {
                    options.password = Some(match self.is(at, "NULL") {
                        true => None,
                        false => Some(Password(self.text(at)?.to_owned())),
                    });
                    at += 1;
                }
                "CONNECTION" if self.is(at, "LIMIT") => {
                    let minus = self.is_token(at + 1, &Token::Minus);
                    at += 1 + usize::from(minus);
                    let Some(Token::Number(number, _)) = self.words.get(at).map(|word| &word.token) else {
                        return Err(self.wrong(at));
                    };
                    let most: i64 = number.parse().map_err(|_| self.wrong(at))?;
                    options.connections = Some(if minus { -most } else { most });
                    at += 1;
                }
                "VALID" if self.is(at, "UNTIL") => {
                    options.valid_until = Some(moment(self.text(at + 1)?)?);
                    at += 2;
                }
                "IN" if self.is(at, "ROLE") || self.is(at, "GROUP") => {
                    (options.in_roles, at) = self.names(at + 1)?;
                }
                "ROLE" | "USER" => (options.members, at) = self.names(at)?,
                absent
                    if ABSENT
                        .iter()
                        .any(|known| absent.strip_prefix("NO") == Some(known)) => {}
                absent if ABSENT.contains(&absent) || matches!(absent, "NOINHERIT" | "ADMIN" | "SYSID") => {
                    return Err(unsupported(absent));
                }
                _ => return Err(self.wrong(at - 1)),
            }
        }
        Ok(options)
    }

    /// `GRANT` and `REVOKE`.
    fn grant(&self, is_grant: bool) -> Result<Change, Refusal> {
        let to = if is_grant { "TO" } else { "FROM" };
        if self.is(1, "GRANT") || self.is(1, "ADMIN") {
            return Err(unsupported("GRANT OPTION").hint("Superusers grant."));
        }
        let on = (1..self.words.len()).find(|at| self.is(*at, "ON"));
        let (right, at) = match on {
            None => {
                let (roles, at) = self.names(1)?;
                (Right::Roles(roles), at)
            }
            Some(on) => self.objects(on)?,
        };
        if !self.is(at, to) {
            return Err(self.wrong(at));
        }
        let (members, at) = self.names(at + 1)?;
        match self.keyword(at).as_str() {
            "WITH" => return Err(unsupported("GRANT OPTION").hint("Superusers grant.")),
            "CASCADE" | "RESTRICT" if !is_grant => self.end(at + 1)?,
            _ => self.end(at)?,
        }
        Ok(Change::Grant(right, members, is_grant))
    }

    /// Privileges up to `ON`, the objects behind it, and what follows. A table without a schema is written with a point before it.
    fn objects(&self, on: usize) -> Result<(Right, usize), Refusal> {
        let mut privileges = Vec::new();
        for part in 1..on {
            match self.keyword(part).as_str() {
                "PRIVILEGES" if self.is(part - 1, "ALL") => {}
                "" if self.is_token(part, &Token::Comma) => {}
                "" => return Err(unsupported("a right to columns")),
                privilege => privileges.push(privilege.to_owned()),
            }
        }
        if privileges.is_empty() {
            return Err(self.wrong(on));
        }
        let unknown = |privilege: &str| {
            unsupported(&format!("the privilege {privilege}"))
                .hint("Tables have SELECT, INSERT, UPDATE, DELETE and TRUNCATE, schemas USAGE and CREATE.")
        };
        let of_schemas = || {
            let all = privileges.iter().map(|privilege| match privilege.as_str() {
                "USAGE" => Ok(vec![SchemaRight::Usage]),
                "CREATE" => Ok(vec![SchemaRight::Create]),
                "ALL" => Ok(vec![SchemaRight::Usage, SchemaRight::Create]),
                other => Err(unknown(other)),
            });
            Ok::<_, Refusal>(all.collect::<Result<Vec<_>, _>>()?.concat())
        };
        let of_sequences = || {
            let known = ["USAGE", "SELECT", "UPDATE", "ALL"];
            let mut privileges = privileges.iter();
            match privileges.find(|privilege| !known.contains(&privilege.as_str())) {
                None => Ok(()),
                Some(other) => Err(unknown(other)),
            }
        };
        let of_tables = || {
            let all =
                privileges.iter().map(
                    |privilege| match (privilege.as_str(), TableRight::of(privilege)) {
                        ("ALL", _) => Ok(TableRight::ALL.iter().map(|(right, ..)| *right).collect()),
                        (_, Some(right)) => Ok(vec![right]),
                        (other, None) => Err(unknown(other)),
                    },
                );
            Ok::<_, Refusal>(all.collect::<Result<Vec<_>, _>>()?.concat())
        };
        match self.keyword(on + 1).as_str() {
            "SCHEMA" => {
                let rights = of_schemas()?;
                let (schemas, at) = self.listed(on + 2, |at| self.name(at))?;
                Ok((Right::Schemas(rights, schemas), at))
            }
            "ALL" if self.is(on + 2, "TABLES") && self.is(on + 3, "IN") && self.is(on + 4, "SCHEMA") => {
                let rights = of_tables()?;
                let (schemas, at) = self.listed(on + 5, |at| self.name(at))?;
                let tables = schemas.iter().map(|schema| format!("{schema}.*"));
                Ok((Right::Tables(rights, tables.collect()), at))
            }
            // Numbers of sequences are for all: there is nothing to be kept of this.
            "SEQUENCE" => {
                of_sequences()?;
                let (_, at) = self.tables(on + 2)?;
                Ok((Right::Schemas(Vec::new(), Vec::new()), at))
            }
            "ALL" if self.is(on + 2, "SEQUENCES") && self.is(on + 3, "IN") && self.is(on + 4, "SCHEMA") => {
                of_sequences()?;
                let (_, at) = self.listed(on + 5, |at| self.name(at))?;
                Ok((Right::Schemas(Vec::new(), Vec::new()), at))
            }
            other @ ("DATABASE" | "FUNCTION" | "LANGUAGE" | "TYPE" | "TABLESPACE" | "ALL" | "PARAMETER") => {
                Err(unsupported(&format!("a right to {other}")))
            }
            table => {
                let rights = of_tables()?;
                let (tables, at) = self.tables(on + 1 + usize::from(table == "TABLE"))?;
                Ok((Right::Tables(rights, tables), at))
            }
        }
    }

    /// Names, each with its schema, or with a point before it.
    fn tables(&self, mut at: usize) -> Result<(Vec<String>, usize), Refusal> {
        let mut tables = Vec::new();
        loop {
            let first = self.name(at)?;
            at += 1;
            tables.push(match self.is_token(at, &Token::Period) {
                true => {
                    at += 2;
                    format!("{first}.{}", self.name(at - 1)?)
                }
                false => format!(".{first}"),
            });
            match self.is_token(at, &Token::Comma) {
                true => at += 1,
                false => return Ok((tables, at)),
            }
        }
    }
}

/// A moment in the form that the file has; `None` is for ever.
fn moment(text: &str) -> Result<Option<String>, Refusal> {
    if text.trim().eq_ignore_ascii_case("infinity") {
        return Ok(None);
    }
    let none = || Refusal::new(code::INTERNAL_ERROR, "there is no UTC");
    let (utc, _) = Zone::of("UTC").ok_or_else(none)?;
    let out_of_range = || {
        Refusal::new(
            code::DATETIME_FIELD_OVERFLOW,
            format!("timestamp out of range: \"{text}\""),
        )
    };
    let value = Value::read(
        Type::single(ValueKind::Timestamptz),
        Format::Text,
        text.as_bytes(),
        &utc,
    )?;
    let Value::Timestamptz(moment) = value else {
        return Err(out_of_range());
    };
    let since_1970 = moment.unix_microseconds().ok_or_else(out_of_range)?;
    let moment = chrono::DateTime::from_timestamp_micros(since_1970).ok_or_else(out_of_range)?;
    Ok(Some(moment.to_rfc3339_opts(chrono::SecondsFormat::AutoSi, true)))
}
