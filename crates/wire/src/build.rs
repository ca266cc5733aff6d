//! Messages, appended to a buffer.

use super::error::Refusal;
use super::server::{Column, ResultFormats};
use super::values::Type;
use super::{TransactionStatus, backend, frontend, startup as codes};

/// Appends a message of `tag` whose body `body` writes.
pub fn message(out: &mut Vec<u8>, tag: u8, body: impl FnOnce(&mut Vec<u8>)) {
    out.push(tag);
    with_length(out, body);
}

/// Appends the length of itself and of what `body` writes, and that.
fn with_length(out: &mut Vec<u8>, body: impl FnOnce(&mut Vec<u8>)) {
    let at = out.len();
    out.extend([0; 4]);
    body(out);
    let length = (out.len() - at) as u32;
    out[at..at + 4].copy_from_slice(&length.to_be_bytes());
}

fn text(out: &mut Vec<u8>, text: &[u8]) {
    out.extend(text);
    out.push(0);
}

/// An authentication request of its own: its kind, and what belongs to it.
pub fn authentication(kind: u32, data: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(data.len() + 9);
    message(&mut out, backend::AUTHENTICATION, |out| {
        out.extend(kind.to_be_bytes());
        out.extend(data);
    });
    out
}

/// AuthenticationOk.
pub fn authentication_ok(out: &mut Vec<u8>) {
    message(out, backend::AUTHENTICATION, |out| out.extend([0; 4]));
}

/// ParameterStatus.
pub fn parameter_status(out: &mut Vec<u8>, name: &str, value: &str) {
    message(out, backend::PARAMETER_STATUS, |out| {
        text(out, name.as_bytes());
        text(out, value.as_bytes());
    });
}

/// BackendKeyData.
pub fn key_data(out: &mut Vec<u8>, pid: u32, secret: &[u8]) {
    message(out, backend::KEY_DATA, |out| {
        out.extend(pid.to_be_bytes());
        out.extend(secret);
    });
}

/// ReadyForQuery.
pub fn ready(out: &mut Vec<u8>, status: TransactionStatus) {
    message(out, backend::READY, |out| out.push(status.byte()));
}

/// NegotiateProtocolVersion: the newest minor version spoken here, and the options not known here.
pub fn negotiate<'a>(out: &mut Vec<u8>, minor: u16, unknown: impl ExactSizeIterator<Item = &'a str>) {
    message(out, backend::NEGOTIATE, |out| {
        out.extend((3 << 16 | u32::from(minor)).to_be_bytes());
        out.extend((unknown.len() as u32).to_be_bytes());
        for name in unknown {
            text(out, name.as_bytes());
        }
    });
}

/// ErrorResponse with severity ERROR.
pub fn error(out: &mut Vec<u8>, refusal: &Refusal) {
    problem(out, backend::ERROR, "ERROR", refusal);
}

/// ErrorResponse with severity FATAL: the connection ends after it.
pub fn fatal(out: &mut Vec<u8>, refusal: &Refusal) {
    problem(out, backend::ERROR, "FATAL", refusal);
}

/// NoticeResponse.
pub fn notice(out: &mut Vec<u8>, refusal: &Refusal) {
    problem(out, backend::NOTICE, "NOTICE", refusal);
}

fn problem(out: &mut Vec<u8>, tag: u8, severity: &str, refusal: &Refusal) {
    message(out, tag, |out| {
        for (field, value) in [
            (b'S', Some(severity)),
            (b'V', Some(severity)),
            (b'C', Some(refusal.code)),
            (b'M', Some(refusal.message.as_str())),
            (b'D', refusal.detail.as_deref()),
            (b'H', refusal.hint.as_deref()),
            (b'P', refusal.position.map(|at| at.to_string()).as_deref()),
        ] {
            if let Some(value) = value {
                out.push(field);
                // A zero byte would end the field early.
                out.extend(value.bytes().map(|byte| if byte == 0 { b'?' } else { byte }));
                out.push(0);
            }
        }
        out.push(0);
    });
}

/// NoticeResponse with severity WARNING.
pub fn warning(out: &mut Vec<u8>, refusal: &Refusal) {
    problem(out, backend::NOTICE, "WARNING", refusal);
}

/// ParameterDescription: the types of a statement's parameters.
pub fn parameter_description(out: &mut Vec<u8>, types: &[u32]) {
    message(out, backend::PARAMETER_DESCRIPTION, |out| {
        out.extend((types.len() as u16).to_be_bytes());
        types.iter().for_each(|oid| out.extend(oid.to_be_bytes()));
    });
}

/// CopyInResponse (`backend::COPY_IN`) or CopyOutResponse (`backend::COPY_OUT`), of rows with so many columns.
pub fn copy_response(out: &mut Vec<u8>, tag: u8, binary: bool, columns: u16) {
    message(out, tag, |out| {
        out.push(u8::from(binary));
        out.extend(columns.to_be_bytes());
        (0..columns).for_each(|_| out.extend(u16::from(binary).to_be_bytes()));
    });
}

/// CopyData.
pub fn copy_data(out: &mut Vec<u8>, data: &[u8]) {
    message(out, frontend::COPY_DATA, |out| out.extend(data));
}

/// CommandComplete.
pub fn command_complete(out: &mut Vec<u8>, tag: &str) {
    message(out, backend::COMMAND_COMPLETE, |out| text(out, tag.as_bytes()));
}

/// A message without a body: ParseComplete, BindComplete, NoData, Sync, Flush, ...
pub fn bare(out: &mut Vec<u8>, tag: u8) {
    message(out, tag, |_| {});
}

/// The type of a column of text, as RowDescription names it.
pub const TEXT_OID: u32 = 25;
/// The type of a column of 64-bit integers.
pub const INT8_OID: u32 = 20;

/// RowDescription: names, type oids and formats (0: text, 1: binary).
pub fn row_description<'a>(out: &mut Vec<u8>, columns: impl ExactSizeIterator<Item = (&'a str, u32, i16)>) {
    message(out, backend::ROW_DESCRIPTION, |out| {
        out.extend((columns.len() as u16).to_be_bytes());
        for (name, oid, format) in columns {
            column(out, name, oid, -1, format);
        }
    });
}

/// RowDescription of columns with these formats.
pub fn row_description_of(out: &mut Vec<u8>, columns: &[Column], formats: &ResultFormats) {
    message(out, backend::ROW_DESCRIPTION, |out| {
        out.extend((columns.len() as u16).to_be_bytes());
        for (at, of) in columns.iter().enumerate() {
            column(
                out,
                &of.name,
                of.of.oid(),
                of.modifier,
                formats.of(at as u16).code(),
            );
        }
    });
}

/// A column that belongs to no table.
fn column(out: &mut Vec<u8>, name: &str, oid: u32, modifier: i32, format: i16) {
    text(out, name.as_bytes());
    out.extend([0; 6]);
    out.extend(oid.to_be_bytes());
    let size = Type::of(oid).map_or(-1, Type::size);
    out.extend(size.to_be_bytes());
    out.extend(modifier.to_be_bytes());
    out.extend(format.to_be_bytes());
}

/// DataRow of values in the formats of their columns; `None` is NULL.
pub fn data_row(out: &mut Vec<u8>, values: impl ExactSizeIterator<Item = Option<impl AsRef<[u8]>>>) {
    message(out, backend::DATA_ROW, |out| {
        out.extend((values.len() as u16).to_be_bytes());
        for value in values {
            match value {
                None => out.extend((-1i32).to_be_bytes()),
                Some(value) => {
                    out.extend((value.as_ref().len() as u32).to_be_bytes());
                    out.extend(value.as_ref());
                }
            }
        }
    });
}

/// StartupMessage of protocol 3.0.
pub fn startup<'a>(out: &mut Vec<u8>, parameters: impl Iterator<Item = (&'a str, impl AsRef<[u8]>)>) {
    with_length(out, |out| {
        out.extend((3u32 << 16).to_be_bytes());
        for (name, value) in parameters {
            text(out, name.as_bytes());
            text(out, value.as_ref());
        }
        out.push(0);
    });
}

/// SSLRequest.
pub const SSL_REQUEST: [u8; 8] = [0, 0, 0, 8, 0x04, 0xd2, 0x16, 0x2f];

/// CancelRequest.
pub fn cancel(out: &mut Vec<u8>, pid: u32, secret: &[u8]) {
    with_length(out, |out| {
        out.extend(codes::CANCEL_REQUEST.to_be_bytes());
        out.extend(pid.to_be_bytes());
        out.extend(secret);
    });
}

/// Query.
pub fn query(out: &mut Vec<u8>, sql: &str) {
    message(out, frontend::QUERY, |out| text(out, sql.as_bytes()));
}

/// Parse. `tail` is what follows the text in the message: the count of given types, then the types.
pub fn parse(out: &mut Vec<u8>, name: impl AsRef<[u8]>, sql: &[u8], tail: &[u8]) {
    message(out, frontend::PARSE, |out| {
        text(out, name.as_ref());
        text(out, sql);
        out.extend(tail);
    });
}

/// Close of a prepared statement.
pub fn close_statement(out: &mut Vec<u8>, name: impl AsRef<[u8]>) {
    message(out, frontend::CLOSE, |out| {
        out.push(b'S');
        text(out, name.as_ref());
    });
}
