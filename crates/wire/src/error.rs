//! What a client is told, and what a server said, when something is refused.

use super::read;

/// A refusal of our own, as PostgreSQL shapes one: message, detail, hint, SQLSTATE and where in the text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The SQLSTATE.
    pub code: &'static str,
    /// The primary message.
    pub message: String,
    /// More, where it helps.
    pub detail: Option<String>,
    /// What to do.
    pub hint: Option<String>,
    /// Which character of the statement's text is meant, from 1.
    pub position: Option<u32>,
}

impl Refusal {
    /// A refusal with its message only.
    pub fn new(code: &'static str, message: impl Into<String>) -> Self {
        Self {
            code,
            message: message.into(),
            detail: None,
            hint: None,
            position: None,
        }
    }

    /// The same with a detail.
    #[must_use]
    pub fn detail(mut self, detail: impl Into<String>) -> Self {
        self.detail = Some(detail.into());
        self
    }

    /// The same with the place in `sql` that is `byte` bytes from its start. Clients count characters.
    #[must_use]
    pub fn at(mut self, sql: &str, byte: usize) -> Self {
        let before = sql.char_indices().take_while(|(at, _)| *at < byte).count();
        self.position = u32::try_from(before + 1).ok();
        self
    }

    /// The same with a hint.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }
}

/// SQLSTATEs used here.
pub mod code {
    /// One of these for a SQLSTATE that a server said; "XX000" for others.
    pub fn of(said: &str) -> &'static str {
        const KNOWN: [&str; 13] = [
            PROTOCOL_VIOLATION,
            INVALID_AUTHORIZATION,
            INVALID_PASSWORD,
            INVALID_CATALOG,
            TOO_MANY_CONNECTIONS,
            NOT_SUPPORTED,
            ADMIN_SHUTDOWN,
            CRASH_SHUTDOWN,
            CANNOT_CONNECT_NOW,
            INSUFFICIENT_PRIVILEGE,
            INVALID_PARAMETER_VALUE,
            UNDEFINED_OBJECT,
            CANT_CHANGE_RUNTIME_PARAM,
        ];
        KNOWN.into_iter().find(|&code| code == said).unwrap_or("XX000")
    }

    /// Whether a server that refuses with this is only away: it cannot be reached, starts or stops.
    pub fn is_away(code: &str) -> bool {
        matches!(
            code,
            CANNOT_CONNECT | CANNOT_CONNECT_NOW | ADMIN_SHUTDOWN | CRASH_SHUTDOWN
        )
    }

    /// Nothing is wrong: of notices.
    pub const SUCCESS: &str = "00000";
    /// A value a setting does not take.
    pub const INVALID_PARAMETER_VALUE: &str = "22023";
    /// A transaction has to be run again.
    pub const SERIALIZATION_FAILURE: &str = "40001";
    /// No such setting, or another object.
    pub const UNDEFINED_OBJECT: &str = "42704";
    /// A setting that cannot be set now.
    pub const CANT_CHANGE_RUNTIME_PARAM: &str = "55P02";
    /// The message is not one of the protocol, or comes at the wrong time.
    pub const PROTOCOL_VIOLATION: &str = "08P01";
    /// The server could not be reached.
    pub const CANNOT_CONNECT: &str = "08001";
    /// The server's connection was lost.
    pub const CONNECTION_FAILURE: &str = "08006";
    /// Not allowed by rules.
    pub const INVALID_AUTHORIZATION: &str = "28000";
    /// Wrong password.
    pub const INVALID_PASSWORD: &str = "28P01";
    /// No such database.
    pub const INVALID_CATALOG: &str = "3D000";
    /// Too many clients.
    pub const TOO_MANY_CONNECTIONS: &str = "53300";
    /// No memory for it.
    pub const OUT_OF_MEMORY: &str = "53200";
    /// Bytes that are no text in the client's encoding.
    pub const CHARACTER_NOT_IN_REPERTOIRE: &str = "22021";
    /// A value's text that cannot be read.
    pub const INVALID_TEXT_REPRESENTATION: &str = "22P02";
    /// A value's bytes that cannot be read.
    pub const INVALID_BINARY_REPRESENTATION: &str = "22P03";
    /// A row of `COPY` that cannot be read.
    pub const BAD_COPY_FILE_FORMAT: &str = "22P04";
    /// A number beyond its type.
    pub const NUMERIC_VALUE_OUT_OF_RANGE: &str = "22003";
    /// A date or time that cannot be read.
    pub const INVALID_DATETIME_FORMAT: &str = "22007";
    /// A date or time that does not exist, or beyond its type.
    pub const DATETIME_FIELD_OVERFLOW: &str = "22008";
    /// No such portal.
    pub const UNDEFINED_CURSOR: &str = "34000";
    /// A portal of that name exists.
    pub const DUPLICATE_CURSOR: &str = "42P03";
    /// Commands are refused until the end of a transaction that failed.
    pub const IN_FAILED_TRANSACTION: &str = "25P02";
    /// Our own mistake.
    pub const INTERNAL_ERROR: &str = "XX000";
    /// A text that an encoding cannot express.
    pub const UNTRANSLATABLE: &str = "22P05";
    /// Not supported here.
    pub const NOT_SUPPORTED: &str = "0A000";
    /// Ended by an administrator.
    pub const ADMIN_SHUTDOWN: &str = "57P01";
    /// Ended because another process of the server crashed.
    pub const CRASH_SHUTDOWN: &str = "57P02";
    /// Not now.
    pub const CANNOT_CONNECT_NOW: &str = "57P03";
    /// Cancelled.
    pub const QUERY_CANCELED: &str = "57014";
    /// Idle too long.
    pub const IDLE_TIMEOUT: &str = "57P05";
    /// Idle too long in a transaction.
    pub const IDLE_IN_TRANSACTION_TIMEOUT: &str = "25P03";
    /// No such prepared statement.
    pub const UNDEFINED_STATEMENT: &str = "26000";
    /// A prepared statement of that name exists.
    pub const DUPLICATE_STATEMENT: &str = "42P05";
    /// A limit of the program.
    pub const PROGRAM_LIMIT: &str = "54000";
    /// Something is not in the state for it.
    pub const NOT_NOW: &str = "55000";
    /// The configuration file is wrong.
    pub const CONFIG_FILE: &str = "F0000";
    /// Unknown command of the console.
    pub const SYNTAX_ERROR: &str = "42601";
    /// A command not allowed to this user.
    pub const INSUFFICIENT_PRIVILEGE: &str = "42501";
}

/// The fields of the body of an ErrorResponse or NoticeResponse: the letter of each, and its text. They end before the zero at
/// the end, and before what is no whole field.
#[derive(Clone, Debug)]
pub struct Fields<'b> {
    rest: &'b [u8],
}

impl<'b> Fields<'b> {
    /// Those of a body.
    pub fn of(body: &'b [u8]) -> Self {
        Self { rest: body }
    }

    /// What comes after the fields read so far.
    pub fn rest(&self) -> &'b [u8] {
        self.rest
    }
}

impl<'b> Iterator for Fields<'b> {
    type Item = (u8, &'b [u8]);

    fn next(&mut self) -> Option<Self::Item> {
        let (&field, after) = self.rest.split_first()?;
        let (value, after) = read::text(after).filter(|_| field != 0)?;
        self.rest = after;
        Some((field, value))
    }
}

/// What an ErrorResponse or NoticeResponse of a server says: the fields used here.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reported {
    /// The severity, not translated where the server says it so.
    pub severity: String,
    /// The SQLSTATE.
    pub code: String,
    /// The primary message.
    pub message: String,
    /// The function of the server's that says so, which is not translated.
    pub routine: String,
}

impl Reported {
    /// Reads the body of an ErrorResponse; what is missing stays empty.
    pub fn read(body: &[u8]) -> Self {
        let mut reported = Self::default();
        for (field, value) in Fields::of(body) {
            let value = String::from_utf8_lossy(value).into_owned();
            match field {
                b'V' => reported.severity = value,
                b'S' if reported.severity.is_empty() => reported.severity = value,
                b'C' => reported.code = value,
                b'M' => reported.message = value,
                b'R' => reported.routine = value,
                _ => {}
            }
        }
        reported
    }

    /// Whether the connection ends with it.
    pub fn is_fatal(&self) -> bool {
        matches!(self.severity.as_str(), "FATAL" | "PANIC")
    }
}

/// The body of an ErrorResponse with another primary message, and all its other fields.
pub fn with_message(body: &[u8], message: &str) -> Vec<u8> {
    let mut out = Vec::with_capacity(body.len() + message.len());
    for (field, value) in Fields::of(body) {
        out.push(field);
        out.extend(if field == b'M' { message.as_bytes() } else { value });
        out.push(0);
    }
    out.push(0);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_message_is_another() {
        let body = b"SERROR\0C57014\0Mone\0Rroutine\0\0";
        assert_eq!(
            with_message(body, "another"),
            b"SERROR\0C57014\0Manother\0Rroutine\0\0"
        );
        assert_eq!(with_message(b"", "x"), b"\0");
        assert_eq!(with_message(b"Mcut off", "x"), b"\0");
    }

    #[test]
    fn positions_count_characters_from_one() {
        let refusal = Refusal::new(code::SYNTAX_ERROR, "x");
        assert_eq!(refusal.clone().at("\u{e9}\u{20ac}a", 5).position, Some(3));
        assert_eq!(refusal.clone().at("abc", 0).position, Some(1));
        assert_eq!(refusal.at("abc", 99).position, Some(4));
    }
}
