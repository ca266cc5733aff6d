//! The messages of leader and parts, and what comes back.

use corun_wire::{build, frontend};

/// Begins a transaction that sees one snapshot and changes nothing.
pub(super) const BEGIN: &str = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY";

/// On the leader: it is idle within its transaction while others work, which says nothing about the client.
pub(super) const PATIENT: &str = "SET LOCAL idle_in_transaction_session_timeout = 0";
/// On the others: one that waits for a lock may wait for somebody who waits for the leader, which waits for it; no server can see
/// that circle.
pub(super) const IMPATIENT: &str = "SET LOCAL lock_timeout = '100ms'";

/// Appends a statement without parameters and rows that matter.
pub(in crate::core) fn plain(out: &mut Vec<u8>, sql: &str) {
    build::parse(out, "", sql.as_bytes(), &[0, 0]);
    build::message(out, frontend::BIND, |out| out.extend([0; 8]));
    build::message(out, frontend::EXECUTE, |out| out.extend([0; 5]));
}

/// Appends a statement with the client's values, and the formats its columns are wanted in.
pub(in crate::core) fn bound(out: &mut Vec<u8>, sql: &[u8], types: &[u8], values: &[u8], formats: &[i16]) {
    bind(out, sql, types, values, formats);
    build::message(out, frontend::EXECUTE, |out| out.extend([0; 5]));
}

/// The same, and what its columns are is told as well.
pub(super) fn bound_described(out: &mut Vec<u8>, sql: &[u8], types: &[u8], values: &[u8], formats: &[i16]) {
    bind(out, sql, types, values, formats);
    build::message(out, frontend::DESCRIBE, |out| out.extend(b"P\0"));
    build::message(out, frontend::EXECUTE, |out| out.extend([0; 5]));
}

fn bind(out: &mut Vec<u8>, sql: &[u8], types: &[u8], values: &[u8], formats: &[i16]) {
    build::parse(out, "", sql, types);
    build::message(out, frontend::BIND, |out| {
        out.extend([0, 0]);
        out.extend(values);
        out.extend((formats.len() as u16).to_be_bytes());
        for format in formats {
            out.extend(format.to_be_bytes());
        }
    });
}

/// Appends the question what a text's parameters and columns are.
pub(super) fn described(out: &mut Vec<u8>, sql: &[u8], types: &[u8]) {
    build::parse(out, "", sql, types);
    build::message(out, frontend::DESCRIBE, |out| out.extend(b"S\0"));
}

/// Ends a flight.
pub(in crate::core) fn sync(out: &mut Vec<u8>) {
    build::bare(out, frontend::SYNC);
}

/// Column types of a RowDescription's body.
pub(super) fn column_types(body: &[u8]) -> Option<Vec<u32>> {
    let (count, mut rest) = body.split_first_chunk::<2>()?;
    let mut types = Vec::new();
    for _ in 0..u16::from_be_bytes(*count) {
        let name = rest.iter().position(|&byte| byte == 0)?;
        let fixed = rest.get(name + 1..name + 19)?;
        types.push(u32::from_be_bytes([fixed[6], fixed[7], fixed[8], fixed[9]]));
        rest = &rest[name + 19..];
    }
    Some(types)
}

/// A RowDescription's body with the formats a client asked for.
pub(super) fn with_formats(body: &[u8], formats: &[i16]) -> Option<Vec<u8>> {
    let mut out = body.to_vec();
    let columns = usize::from(u16::from_be_bytes(*body.first_chunk()?));
    let mut at = 2;
    for column in 0..columns {
        at += out.get(at..)?.iter().position(|&byte| byte == 0)? + 19;
        let format = match formats {
            [] => 0,
            [all] => *all,
            each => *each.get(column)?,
        };
        out.get_mut(at - 2..at)?.copy_from_slice(&format.to_be_bytes());
    }
    (at == out.len()).then_some(out)
}

/// Parameter types as a Parse has them, of a ParameterDescription's body: the same.
pub(super) fn parameter_types(body: &[u8]) -> Option<Vec<u8>> {
    let count = usize::from(u16::from_be_bytes(*body.first_chunk()?));
    (body.len() == 2 + 4 * count).then(|| body.to_vec())
}

#[cfg(test)]
mod tests {
    use super::*;
    use corun_wire::HEADER_BYTES;

    #[test]
    fn descriptions_are_read_and_given_formats() {
        let mut out = Vec::new();
        build::row_description(&mut out, [("a", 23, 0), ("bc", 25, 0)].into_iter());
        let body = &out[HEADER_BYTES..];
        assert_eq!(column_types(body), Some(vec![23, 25]));
        let binary = with_formats(body, &[1]).expect("a description");
        assert_eq!(column_types(&binary), Some(vec![23, 25]));
        assert_eq!(binary.len(), body.len());
        assert_eq!(&binary[binary.len() - 2..], &[0, 1]);
        assert_eq!(with_formats(body, &[]).as_deref(), Some(body));
        assert!(with_formats(body, &[1, 0, 1]).is_some());
        assert_eq!(with_formats(&body[..body.len() - 1], &[]), None);
    }
}
