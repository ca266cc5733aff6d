//! [`Asked`]: a request that is one statement and all that belongs to it, which may run in parts.

use std::sync::Arc;

use crate::core::client::Client;
use crate::session::prepared::Prepared;
use corun_wire::{HEADER_BYTES, frontend, header, read};

/// A request for one statement's rows.
#[derive(Clone, Debug)]
pub(in crate::core) struct Asked {
    /// The messages as they came: what is served again if it runs whole.
    pub bytes: Vec<u8>,
    pub sql: Arc<[u8]>,
    /// Types of parameters as in a Parse.
    pub types: Vec<u8>,
    /// Formats and values of parameters, as in a Bind: what stands before the formats of the result.
    pub values: Vec<u8>,
    /// Formats of the result, as in a Bind.
    pub formats: Vec<i16>,
    /// How it is to be answered.
    pub form: Form,
}

/// Which messages a client expects besides rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::core) enum Form {
    /// A Query: description, rows.
    Simple,
    /// A batch.
    Extended {
        /// It parses the unnamed statement.
        parses: bool,
        /// The statement it parses has a name.
        names: bool,
        /// It wants a description of the portal.
        describes: bool,
    },
}

/// Reads a request at the beginning of `bytes`: a Query, or Parse, Bind of that statement or of one with a name, Describe of the portal,
/// Execute of all rows and Sync, the first and the third if they are there. `None`: something else, or not all of it has arrived.
pub(in crate::core) fn asked(client: &Client, bytes: &[u8]) -> Option<Asked> {
    let mut at = 0;
    let mut next = || {
        let head = header(&bytes[at..]).ok()??;
        let body = bytes.get(at + HEADER_BYTES..at + head.total)?;
        at += head.total;
        Some((head.tag, body, at))
    };
    let (mut tag, mut body, mut end) = next()?;
    if tag == frontend::QUERY {
        let sql = read::query(body)?;
        return Some(Asked {
            bytes: bytes[..end].to_vec(),
            sql: sql.into(),
            types: vec![0, 0],
            values: vec![0; 4],
            formats: Vec::new(),
            form: Form::Simple,
        });
    }
    let mut parsed = None;
    if tag == frontend::PARSE {
        let parse = read::parse(body)?;
        parsed = Some((parse.name, parse.sql, parse.types));
        (tag, body, end) = next()?;
    }
    if tag != frontend::BIND {
        return None;
    }
    let (portal, name, rest) = read::bind(body)?;
    let statement: Option<&Prepared> = match parsed {
        Some((parsed, ..)) if parsed == name => None,
        None if !name.is_empty() => Some(client.statements.get(name)?),
        // The unnamed statement of an earlier batch.
        _ => return None,
    };
    if !portal.is_empty() {
        return None;
    }
    let (values, formats) = bound(rest)?;
    let mut describes = false;
    (tag, body, _) = next()?;
    if tag == frontend::DESCRIBE {
        if read::target(body) != Some((b'P', b"")) {
            return None;
        }
        describes = true;
        (tag, body, _) = next()?;
    }
    // All rows of the unnamed portal.
    if tag != frontend::EXECUTE || body != [0; 5] {
        return None;
    }
    let (tag, _, sync) = next()?;
    if tag != frontend::SYNC {
        return None;
    }
    end = end.max(sync);
    let (sql, types): (Arc<[u8]>, &[u8]) = match (parsed, statement) {
        (Some((_, sql, types)), _) => (sql.into(), types),
        (None, Some(prepared)) => (Arc::from(&*prepared.statement.sql), &prepared.statement.types),
        (None, None) => return None,
    };
    Some(Asked {
        bytes: bytes[..end].to_vec(),
        sql,
        types: types.to_vec(),
        values: values.to_vec(),
        formats,
        form: Form::Extended {
            parses: parsed.is_some(),
            names: parsed.is_some_and(|(name, ..)| !name.is_empty()),
            describes,
        },
    })
}

/// What follows the names in a Bind: the part about parameters, and the formats of the result.
fn bound(rest: &[u8]) -> Option<(&[u8], Vec<i16>)> {
    let count = |at: usize| -> Option<usize> {
        let bytes = rest.get(at..at + 2)?;
        Some(usize::from(u16::from_be_bytes([bytes[0], bytes[1]])))
    };
    let mut at = 2 + 2 * count(0)?;
    let values = count(at)?;
    at += 2;
    for _ in 0..values {
        let length = i32::from_be_bytes(*rest.get(at..)?.first_chunk()?);
        at += 4 + usize::try_from(length.max(0)).ok()?;
    }
    let formats = count(at)?;
    let list = rest.get(at + 2..)?;
    if list.len() != 2 * formats {
        return None;
    }
    let formats = list
        .chunks(2)
        .map(|pair| i16::from_be_bytes([pair[0], pair[1]]))
        .collect();
    Some((&rest[..at], formats))
}

impl Asked {
    /// Whether it gives a statement a name, which outlives it.
    pub fn names(&self) -> bool {
        matches!(self.form, Form::Extended { names: true, .. })
    }

    /// Values of parameters that are sent as text.
    pub fn texts(&self) -> Vec<&[u8]> {
        self.read_texts().unwrap_or_default()
    }

    fn read_texts(&self) -> Option<Vec<&[u8]>> {
        let number = |at: usize| Some(u16::from_be_bytes(*self.values.get(at..)?.first_chunk()?));
        let formats = usize::from(number(0)?);
        let count = usize::from(number(2 + 2 * formats)?);
        let mut at = 4 + 2 * formats;
        let mut texts = Vec::new();
        for value in 0..count {
            let length = i32::from_be_bytes(*self.values.get(at..)?.first_chunk()?);
            at += 4;
            let Ok(length) = usize::try_from(length) else {
                continue;
            };
            let bytes = self.values.get(at..at + length)?;
            at += length;
            let format = match formats {
                0 => 0,
                1 => number(2)?,
                _ => number(2 + 2 * value)?,
            };
            if format == 0 {
                texts.push(bytes);
            }
        }
        Some(texts)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use corun_wire::build;

    fn batch(rest: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        build::parse(&mut out, "", b"select $1", &[0, 0]);
        build::message(&mut out, frontend::BIND, |out| {
            out.extend([0, 0]);
            out.extend(rest);
        });
        build::message(&mut out, frontend::DESCRIBE, |out| out.extend(b"P\0"));
        build::message(&mut out, frontend::EXECUTE, |out| out.extend([0; 5]));
        build::bare(&mut out, frontend::SYNC);
        out
    }

    #[test]
    fn a_whole_batch_is_read_and_a_part_of_one_is_not() {
        let client = Client::new(0, 1, std::time::Duration::ZERO);
        let bytes = batch(&[0, 1, 0, 0, 0, 1, 0, 0, 0, 1, b'7', 0, 1, 0, 1]);
        let read = asked(&client, &bytes).expect("a request");
        assert_eq!(read.bytes, bytes);
        assert_eq!(read.texts(), [b"7"]);
        assert_eq!(read.formats, [1]);
        assert_eq!(
            read.form,
            Form::Extended {
                parses: true,
                names: false,
                describes: true
            }
        );
        for end in 0..bytes.len() {
            assert!(asked(&client, &bytes[..end]).is_none(), "{end}");
        }
        // Lengths that do not fit.
        assert!(asked(&client, &batch(&[0, 0, 0, 1, 0, 0, 0, 9, b'7', 0, 0])).is_none());
        let mut simple = Vec::new();
        build::query(&mut simple, "select 1");
        let read = asked(&client, &simple).expect("a request");
        assert_eq!((read.form, &*read.sql), (Form::Simple, &b"select 1"[..]));
    }
}
