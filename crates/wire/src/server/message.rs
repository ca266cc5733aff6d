//! [`Message`]: what a client says after its login, with every length checked before anything is looked at.
//!
//! Nothing is copied: a message borrows from what was received, and its lists are read again where they are used.

use crate::error::{Refusal, code};
use crate::values::Format;
use crate::{HEADER_BYTES, frontend, header, read};

/// Longest message of those that have neither texts nor values, in bytes; PostgreSQL's number.
const SMALL_MESSAGE_BYTES_MAX: usize = 10_000;

/// What one client may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Longest message, in bytes.
    pub message_bytes_max: usize,
    /// Prepared statements, the unnamed one included.
    pub statements_max: usize,
    /// Portals, the unnamed one included.
    pub portals_max: usize,
    /// Texts, types, columns and parameters of all of these, in bytes.
    pub session_bytes_max: usize,
}

impl Default for Limits {
    /// 64 MiB a message and a session, 10,000 statements, 1,000 portals; unmeasured.
    fn default() -> Self {
        Self {
            message_bytes_max: 64 << 20,
            statements_max: 10_000,
            portals_max: 1_000,
            session_bytes_max: 64 << 20,
        }
    }
}

/// A message of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Message<'a> {
    /// Query: a text of any number of statements.
    Query(&'a str),
    /// Parse.
    Parse(Parse<'a>),
    /// Bind.
    Bind(Bind<'a>),
    /// Describe.
    Describe(Target<'a>),
    /// Execute.
    Execute {
        /// The portal; empty for the unnamed one.
        portal: &'a str,
        /// Rows wanted; `None`: all.
        rows_max: Option<u32>,
    },
    /// Close.
    Close(Target<'a>),
    /// Sync.
    Sync,
    /// Flush.
    Flush,
    /// CopyData.
    CopyData(&'a [u8]),
    /// CopyDone.
    CopyDone,
    /// CopyFail, with the client's reason.
    CopyFail(&'a str),
    /// FunctionCall, which is not supported.
    FunctionCall,
    /// Terminate.
    Terminate,
}

/// A Parse.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parse<'a> {
    /// Name of the statement; empty for the unnamed one.
    pub name: &'a str,
    /// Its text.
    pub sql: &'a str,
    types: &'a [u8],
}

impl<'a> Parse<'a> {
    /// The types that the client gives for the first parameters; 0 where it leaves one to the server.
    pub fn types(&self) -> impl ExactSizeIterator<Item = u32> + use<'a> {
        let (types, _) = self.types.as_chunks::<4>();
        types.iter().map(|oid| u32::from_be_bytes(*oid))
    }
}

/// A Bind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bind<'a> {
    /// Name of the portal; empty for the unnamed one.
    pub portal: &'a str,
    /// Name of the statement; empty for the unnamed one.
    pub statement: &'a str,
    parameter_formats: &'a [u8],
    count: u16,
    values: &'a [u8],
    result_formats: &'a [u8],
}

impl<'a> Bind<'a> {
    /// The parameters with their formats; `None` is NULL.
    pub fn parameters(&self) -> impl Iterator<Item = (Format, Option<&'a [u8]>)> + use<'a> {
        let mut values = self.values;
        let formats = self.parameter_formats;
        (0..self.count).map_while(move |at| Some((format_of(formats, at), value(&mut values)?)))
    }

    /// How many parameters there are.
    pub fn parameter_count(&self) -> u16 {
        self.count
    }

    /// The formats asked for: none (text for all), one for all, or one for each column.
    pub(super) fn result_formats(&self) -> &'a [u8] {
        self.result_formats
    }

    /// How many formats of parameters there are.
    pub(super) fn parameter_format_count(&self) -> usize {
        self.parameter_formats.len() / 2
    }

    /// Bytes of all values.
    pub(super) fn bytes(&self) -> usize {
        self.values.len()
    }
}

/// The format of column `at` in a list of a Bind that was checked.
pub(super) fn format_of(formats: &[u8], at: u16) -> Format {
    let (formats, _) = formats.as_chunks::<2>();
    let at = if formats.len() == 1 { 0 } else { usize::from(at) };
    match formats.get(at) {
        Some([0, 1]) => Format::Binary,
        _ => Format::Text,
    }
}

/// Takes a value of a Bind or DataRow that was checked off the front; the outer `None`: there is none.
fn value<'a>(rest: &mut &'a [u8]) -> Option<Option<&'a [u8]>> {
    let (length, after) = rest.split_first_chunk::<4>()?;
    let length = i32::from_be_bytes(*length);
    *rest = after;
    if length == -1 {
        return Some(None);
    }
    let (value, after) = after.split_at_checked(usize::try_from(length).ok()?)?;
    *rest = after;
    Some(Some(value))
}

/// What a Describe or Close is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target<'a> {
    /// A prepared statement.
    Statement(&'a str),
    /// A portal.
    Portal(&'a str),
}

/// A message that is not one of the protocol.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Malformed {
    /// What the client is told.
    pub refusal: Refusal,
    /// Bytes of the message, behind which the next one begins. `None`: where that is cannot be known, and the connection ends.
    pub used: Option<usize>,
    /// Its type.
    pub tag: u8,
}

impl<'a> Message<'a> {
    /// Reads a message from the start of `bytes`. `Ok(None)`: more bytes are needed, of which there will be no more than
    /// [`Limits::message_bytes_max`]. Otherwise the message and its bytes.
    ///
    /// # Errors
    /// What is no message, whatever follows. A message that is too long is told from its first five bytes.
    pub fn read(bytes: &'a [u8], limits: &Limits) -> Result<Option<(Self, usize)>, Malformed> {
        let tag = bytes.first().copied().unwrap_or_default();
        let lost = |what: String| Malformed {
            refusal: Refusal::new(code::PROTOCOL_VIOLATION, what),
            used: None,
            tag,
        };
        let head = match header(bytes) {
            _ if !bytes.is_empty() && most(tag, limits).is_none() => {
                return Err(lost(format!("invalid frontend message type {tag}")));
            }
            Ok(Some(head)) => head,
            Ok(None) => return Ok(None),
            Err(bad) => return Err(lost(bad.to_string())),
        };
        if head.total > most(tag, limits).unwrap_or_default().saturating_add(HEADER_BYTES) {
            return Err(lost("invalid message length".to_owned()).explained(&format!(
                "The message has {} bytes, more than this server takes.",
                head.total
            )));
        }
        let Some(body) = bytes.get(HEADER_BYTES..head.total) else {
            return Ok(None);
        };
        match message(tag, body) {
            Ok(message) => Ok(Some((message, head.total))),
            Err(refusal) => Err(Malformed {
                refusal,
                used: Some(head.total),
                tag,
            }),
        }
    }
}

impl Malformed {
    fn explained(mut self, detail: &str) -> Self {
        self.refusal = self.refusal.detail(detail);
        self
    }
}

/// Longest body of a message of this type; `None`: there is no such type.
fn most(tag: u8, limits: &Limits) -> Option<usize> {
    use frontend::*;
    match tag {
        QUERY | PARSE | BIND | COPY_DATA | FUNCTION_CALL => Some(limits.message_bytes_max),
        CLOSE | DESCRIBE | EXECUTE | FLUSH | SYNC | TERMINATE | COPY_DONE | COPY_FAIL => {
            Some(SMALL_MESSAGE_BYTES_MAX.min(limits.message_bytes_max))
        }
        _ => None,
    }
}

fn violation(what: &str) -> Refusal {
    Refusal::new(code::PROTOCOL_VIOLATION, what)
}

fn message(tag: u8, body: &[u8]) -> Result<Message<'_>, Refusal> {
    let mut body = Body(body);
    let message = match tag {
        frontend::QUERY => Message::Query(body.text()?),
        frontend::PARSE => Message::Parse(body.parse()?),
        frontend::BIND => Message::Bind(body.bind()?),
        frontend::DESCRIBE => Message::Describe(body.target("DESCRIBE")?),
        frontend::CLOSE => Message::Close(body.target("CLOSE")?),
        frontend::EXECUTE => {
            let portal = body.text()?;
            let rows = i32::from_be_bytes(body.take()?);
            // PostgreSQL takes what is not positive for all.
            let rows_max = u32::try_from(rows).ok().filter(|rows| *rows > 0);
            Message::Execute { portal, rows_max }
        }
        frontend::SYNC => Message::Sync,
        frontend::FLUSH => Message::Flush,
        frontend::TERMINATE => Message::Terminate,
        frontend::COPY_DATA => Message::CopyData(std::mem::take(&mut body.0)),
        frontend::COPY_DONE => Message::CopyDone,
        frontend::COPY_FAIL => Message::CopyFail(body.text()?),
        _ => {
            body.0 = &[];
            Message::FunctionCall
        }
    };
    if body.0.is_empty() {
        Ok(message)
    } else {
        Err(violation("invalid message format").detail("Something follows the message's last field."))
    }
}

/// What is left of a message's body.
struct Body<'a>(&'a [u8]);

impl<'a> Body<'a> {
    fn text(&mut self) -> Result<&'a str, Refusal> {
        let (text, rest) = read::text(self.0).ok_or_else(|| violation("invalid string in message"))?;
        self.0 = rest;
        std::str::from_utf8(text).map_err(|error| {
            let wrong = &text[error.valid_up_to()..];
            let count = error.error_len().unwrap_or(wrong.len()).min(4);
            let bytes: Vec<String> = wrong[..count]
                .iter()
                .map(|byte| format!("0x{byte:02x}"))
                .collect();
            Refusal::new(
                code::CHARACTER_NOT_IN_REPERTOIRE,
                format!("invalid byte sequence for encoding \"UTF8\": {}", bytes.join(" ")),
            )
        })
    }

    fn take<const N: usize>(&mut self) -> Result<[u8; N], Refusal> {
        let (taken, rest) = self.0.split_first_chunk().ok_or_else(too_short)?;
        self.0 = rest;
        Ok(*taken)
    }

    fn bytes(&mut self, count: usize) -> Result<&'a [u8], Refusal> {
        let (taken, rest) = self.0.split_at_checked(count).ok_or_else(too_short)?;
        self.0 = rest;
        Ok(taken)
    }

    fn count(&mut self) -> Result<u16, Refusal> {
        Ok(u16::from_be_bytes(self.take()?))
    }

    /// A count of formats and the formats.
    fn formats(&mut self) -> Result<&'a [u8], Refusal> {
        let count = self.count()?;
        let formats = self.bytes(2 * usize::from(count))?;
        for format in formats.as_chunks::<2>().0 {
            let format = u16::from_be_bytes(*format);
            if format > 1 {
                let what = format!("unsupported format code: {format}");
                return Err(Refusal::new(code::INVALID_PARAMETER_VALUE, what));
            }
        }
        Ok(formats)
    }

    fn parse(&mut self) -> Result<Parse<'a>, Refusal> {
        let (name, sql) = (self.text()?, self.text()?);
        let count = self.count()?;
        let types = self.bytes(4 * usize::from(count))?;
        Ok(Parse { name, sql, types })
    }

    fn bind(&mut self) -> Result<Bind<'a>, Refusal> {
        let (portal, statement) = (self.text()?, self.text()?);
        let parameter_formats = self.formats()?;
        let count = self.count()?;
        let formats = parameter_formats.len() / 2;
        if formats > 1 && formats != usize::from(count) {
            return Err(violation(&format!(
                "bind message has {formats} parameter formats but {count} parameters"
            )));
        }
        let all = self.0;
        for _ in 0..count {
            let length = i32::from_be_bytes(self.take()?);
            if length != -1 {
                let length = usize::try_from(length).map_err(|_| too_short())?;
                self.bytes(length)?;
            }
        }
        let values = &all[..all.len() - self.0.len()];
        let result_formats = self.formats()?;
        Ok(Bind {
            portal,
            statement,
            parameter_formats,
            count,
            values,
            result_formats,
        })
    }

    fn target(&mut self, of: &str) -> Result<Target<'a>, Refusal> {
        let [kind] = self.take()?;
        let name = self.text()?;
        match kind {
            b'S' => Ok(Target::Statement(name)),
            b'P' => Ok(Target::Portal(name)),
            kind => Err(violation(&format!("invalid {of} message subtype {kind}"))),
        }
    }
}

fn too_short() -> Refusal {
    violation("insufficient data left in message")
}

#[cfg(test)]
mod tests;
