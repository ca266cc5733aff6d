//! Passwords as SCRAM hashes them: SASLprep (RFC 4013), with PostgreSQL's exceptions.

use std::borrow::Cow;

/// The password as both sides hash it. Where SASLprep has no answer (not UTF-8, forbidden or unassigned characters, nothing
/// left) PostgreSQL takes the bytes as they are, and so do we.
pub fn normalized(password: &[u8]) -> Cow<'_, [u8]> {
    let prepared = std::str::from_utf8(password)
        .ok()
        .and_then(|text| stringprep::saslprep(text).ok());
    match prepared {
        Some(text) if !text.is_empty() && text.as_bytes() != password => {
            Cow::Owned(text.into_owned().into_bytes())
        }
        _ => Cow::Borrowed(password),
    }
}
