//! Whether a text runs the same when it is prepared.

use crate::understand::{Access, StatementKind, Understood, contains_word, reads_the_clock, rough};

/// Bytes of a text beyond which it is not prepared: servers keep what is.
pub const TEXT_BYTES_MAX: usize = 16 << 10;

/// Names longer than this are cut by the server, with a notice when the text is parsed.
const NAME_BYTES_MAX: usize = 63;

/// Settings that change what a text means while it is parsed: how its literals are read, what `= NULL` is, which tables its names
/// stand for. Names as in pg_settings.
pub const SETTINGS_READ_WHEN_PARSED: &[&str] = &[
    "array_nulls",
    "backslash_quote",
    "DateStyle",
    "default_text_search_config",
    "IntervalStyle",
    "lc_monetary",
    "search_path",
    "standard_conforming_strings",
    "TimeZone",
    "timezone_abbreviations",
    "transform_null_equals",
    "xmloption",
];

/// Whether the text gives the same rows, tag and errors as a prepared statement; the module says under which conditions.
pub fn runs_alike(text: &[u8], understood: &Understood) -> bool {
    may_be_prepared(text, understood) && lexically(text)
}

/// Whether the text may run as a prepared statement as far as it is not a matter of its literals.
pub fn may_be_prepared(text: &[u8], understood: &Understood) -> bool {
    // A query whose WITH writes runs to its end before its rows are described: an error comes without a description then.
    let may_write_first = || {
        understood.kind == StatementKind::Select
            && understood.access != Access::Read
            && contains_word(text, b"with")
    };
    understood.plain
        && text.len() <= TEXT_BYTES_MAX
        && !understood
            .tables
            .iter()
            .any(|table| table.name.starts_with("pg_prepared_statement"))
        && !may_write_first()
}

/// What the characters of a text say about that. Parameters are allowed.
pub(super) fn lexically(text: &[u8]) -> bool {
    if text.len() > TEXT_BYTES_MAX || std::str::from_utf8(text).is_err() {
        return false;
    }
    // A skeleton exists only where strings, numbers and comments are plain.
    let mut skeleton = Vec::new();
    if rough::skeleton(text, &mut skeleton).is_none() {
        return false;
    }
    let is_word = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_' || *byte == b'$' || *byte >= 0x80;
    let names_fit = skeleton
        .split(|byte| !is_word(byte))
        .all(|name| name.len() <= NAME_BYTES_MAX);
    let quoted_fit = skeleton
        .split(|byte| *byte == b'"')
        .skip(1)
        .step_by(2)
        .all(|name| name.len() <= NAME_BYTES_MAX);
    names_fit && quoted_fit && !strings_tell_the_time(text)
}

/// Whether a string holds one of the words that dates and times read as a time of this moment. Comments count as well: they are
/// cheaper to refuse than to skip. `now()` as a function does not count: it is evaluated each time.
fn strings_tell_the_time(text: &[u8]) -> bool {
    // Between the first and the last quote everything is looked at, so that no quote has to be understood.
    let is_quote = |byte: &u8| *byte == b'\'';
    let (Some(first), Some(last)) = (text.iter().position(is_quote), text.iter().rposition(is_quote)) else {
        return false;
    };
    reads_the_clock(&text[first..last])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_characters_say() {
        let long = format!("select {}", "x".repeat(64));
        let quoted = format!("select \"{}\"", "x y".repeat(30));
        for (text, alike) in [
            ("select now(), 'x' from t", true),
            ("select * from t where d > 'today'", false),
            ("select * from t where d > ' NOW '", false),
            ("select * from t where d > 'Tomorrow 10:00'", false),
            ("select * from t where d = 'knowing'", true),
            ("select 'it''s' -- now\n", true),
            ("select * from t where a > now() and b = 'x'", true),
            ("select 'today'", false),
            ("select \"now\" from t where a = 'x'", true),
            ("select '\\'", false),
            ("select E'x'", false),
            ("select $$x$$", false),
            (long.as_str(), false),
            (quoted.as_str(), false),
            (
                "select a from t where b = 1 and some_long_name = another_long_name_of_a_column_in_a_table",
                true,
            ),
        ] {
            assert_eq!(lexically(text.as_bytes()), alike, "{text}");
        }
    }
}
