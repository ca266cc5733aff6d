//! Passwords as SCRAM hashes them: SASLprep (RFC 4013), with PostgreSQL's exceptions.

use std::borrow::Cow;

use stringprep::tables;
use unicode_normalization::UnicodeNormalization as _;

/// The password as both sides hash it. Where SASLprep has no answer (not UTF-8, forbidden or unassigned characters, nothing
/// left) PostgreSQL takes the bytes as they are, and so do we.
pub fn normalized(password: &[u8]) -> Cow<'_, [u8]> {
    let text = std::str::from_utf8(password).ok().filter(|text| !text.is_ascii());
    match text.and_then(prepared) {
        Some(text) => Cow::Owned(text.into_bytes()),
        None => Cow::Borrowed(password),
    }
}

/// SASLprep in PostgreSQL's order: what is forbidden is looked for before normalisation, where the RFC looks after it.
fn prepared(text: &str) -> Option<String> {
    let spaced = text.chars().map(|c| {
        if tables::non_ascii_space_character(c) {
            ' '
        } else {
            c
        }
    });
    let mapped: Vec<char> = spaced
        .filter(|&c| !tables::commonly_mapped_to_nothing(c))
        .collect();
    let forbidden = |&c: &char| {
        tables::ascii_control_character(c)
            || tables::non_ascii_control_character(c)
            || tables::private_use(c)
            || tables::non_character_code_point(c)
            || tables::inappropriate_for_plain_text(c)
            || tables::inappropriate_for_canonical_representation(c)
            || tables::change_display_properties_or_deprecated(c)
            || tables::tagging_character(c)
            || tables::unassigned_code_point(c)
    };
    // Text from right to left must begin and end so, and hold nothing from left to right.
    let leftward = |c: Option<&char>| c.is_some_and(|&c| tables::bidi_r_or_al(c));
    let mixed = mapped.iter().any(|&c| tables::bidi_r_or_al(c))
        && (mapped.iter().any(|&c| tables::bidi_l(c))
            || !leftward(mapped.first())
            || !leftward(mapped.last()));
    if mapped.is_empty() || mapped.iter().any(forbidden) || mixed {
        return None;
    }
    Some(mapped.into_iter().nfkc().collect())
}
