//! Looking into the bodies of the few messages that matter. Every function takes a body without its header and returns `None` when it
//! is not shaped as the protocol says.

use super::TransactionStatus;

/// A text that ends with a zero byte, and what follows it.
#[inline]
pub fn text(body: &[u8]) -> Option<(&[u8], &[u8])> {
    let end = body.iter().position(|&byte| byte == 0)?;
    Some((&body[..end], &body[end + 1..]))
}

/// The text of a Query.
pub fn query(body: &[u8]) -> Option<&[u8]> {
    let (sql, rest) = text(body)?;
    rest.is_empty().then_some(sql)
}

/// A Parse.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parse<'a> {
    /// Name of the statement; empty for the unnamed one.
    pub name: &'a [u8],
    /// Its text.
    pub sql: &'a [u8],
    /// The count of given types and the types, as on the wire.
    pub types: &'a [u8],
}

/// The parts of a Parse.
pub fn parse(body: &[u8]) -> Option<Parse<'_>> {
    let (name, rest) = text(body)?;
    let (sql, types) = text(rest)?;
    let count = u16::from_be_bytes(*types.first_chunk()?);
    (types.len() == 2 + 4 * usize::from(count)).then_some(Parse { name, sql, types })
}

/// The portal and the statement a Bind names, and what follows.
pub fn bind(body: &[u8]) -> Option<(&[u8], &[u8], &[u8])> {
    let (portal, rest) = text(body)?;
    let (statement, rest) = text(rest)?;
    Some((portal, statement, rest))
}

/// The kind (`S` or `P`) and the name of a Describe or Close.
pub fn target(body: &[u8]) -> Option<(u8, &[u8])> {
    let (&kind, rest) = body.split_first()?;
    let (name, rest) = text(rest)?;
    rest.is_empty().then_some((kind, name))
}

/// The name and the value of a ParameterStatus.
pub fn parameter_status(body: &[u8]) -> Option<(&str, &str)> {
    let (name, rest) = text(body)?;
    let (value, _) = text(rest)?;
    Some((std::str::from_utf8(name).ok()?, std::str::from_utf8(value).ok()?))
}

/// The process number and the secret of a BackendKeyData.
pub fn key_data(body: &[u8]) -> Option<(u32, &[u8])> {
    let (pid, secret) = body.split_first_chunk::<4>()?;
    Some((u32::from_be_bytes(*pid), secret))
}

/// What a ReadyForQuery says.
pub fn ready(body: &[u8]) -> Option<TransactionStatus> {
    body.first().and_then(|&byte| TransactionStatus::of(byte))
}

/// The columns of a DataRow; `None` in it is NULL.
pub fn data_row(body: &[u8]) -> Option<Vec<Option<&[u8]>>> {
    let (count, mut rest) = body.split_first_chunk::<2>()?;
    let mut columns = Vec::new();
    for _ in 0..u16::from_be_bytes(*count) {
        let (length, after) = rest.split_first_chunk::<4>()?;
        match i32::from_be_bytes(*length) {
            -1 => {
                columns.push(None);
                rest = after;
            }
            length => {
                let length = usize::try_from(length).ok()?;
                columns.push(Some(after.get(..length)?));
                rest = &after[length..];
            }
        }
    }
    Some(columns)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{HEADER_BYTES, build};

    #[test]
    fn what_is_built_is_read() {
        let mut out = Vec::new();
        build::parse(&mut out, "a", b"select $1", &[0, 1, 0, 0, 0, 23]);
        let parsed = parse(&out[HEADER_BYTES..]).expect("a Parse");
        assert_eq!(
            (parsed.name, parsed.sql, parsed.types),
            (&b"a"[..], &b"select $1"[..], &[0, 1, 0, 0, 0, 23][..])
        );
        out.clear();
        build::data_row(&mut out, [Some("x"), None].into_iter());
        assert_eq!(data_row(&out[HEADER_BYTES..]), Some(vec![Some(&b"x"[..]), None]));
        out.clear();
        build::parameter_status(&mut out, "TimeZone", "UTC");
        assert_eq!(parameter_status(&out[HEADER_BYTES..]), Some(("TimeZone", "UTC")));
        out.clear();
        build::close_statement(&mut out, "s");
        assert_eq!(target(&out[HEADER_BYTES..]), Some((b'S', &b"s"[..])));
    }

    #[test]
    fn what_is_not_shaped_right() {
        assert_eq!(query(b"select 1"), None);
        assert_eq!(query(b"select 1\0x"), None);
        assert_eq!(parse(b"a\0select 1\0\0\x01\0\0\0"), None);
        assert_eq!(bind(b"a\0b"), None);
        assert_eq!(data_row(&[0, 1, 0, 0, 0, 9, 1]), None);
        assert_eq!(data_row(&[0, 1, 0xff, 0xff, 0xff, 0xfe]), None);
    }
}
