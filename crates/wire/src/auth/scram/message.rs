//! Attributes of SCRAM messages: `letter=value`, separated by commas.

/// A message that does not follow RFC 5802; says what was wrong, never what it held.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Malformed(pub &'static str);

/// Takes the next attribute off `rest`, with the comma behind it.
pub(crate) fn attribute<'a>(rest: &mut &'a [u8]) -> Result<(u8, &'a [u8]), Malformed> {
    let (&letter, after) = rest
        .split_first()
        .ok_or(Malformed("The message ends where an attribute is expected."))?;
    if !letter.is_ascii_alphabetic() {
        return Err(Malformed("An attribute's name is not a letter."));
    }
    let Some((b'=', value)) = after.split_first() else {
        return Err(Malformed("An attribute has no equals sign behind its name."));
    };
    let end = value.iter().position(|&b| b == b',').unwrap_or(value.len());
    *rest = value.get(end + 1..).unwrap_or_default();
    Ok((letter, &value[..end]))
}

/// Takes the attribute `letter` off `rest`; anything else there is an error that says `otherwise`.
pub(crate) fn expect<'a>(
    rest: &mut &'a [u8],
    letter: u8,
    otherwise: &'static str,
) -> Result<&'a [u8], Malformed> {
    match attribute(rest)? {
        (found, value) if found == letter => Ok(value),
        _ => Err(Malformed(otherwise)),
    }
}

/// Whether a nonce has only the characters RFC 5802 allows, and at least one.
pub(crate) fn nonce_is_printable(nonce: &[u8]) -> bool {
    !nonce.is_empty() && nonce.iter().all(|&b| (0x21..=0x7e).contains(&b) && b != b',')
}
