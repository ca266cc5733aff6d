//! What the words of a text may leave behind, for texts whose grammar is not known.
//!
//! A word counts wherever it stands, also in a string where strings cannot be told apart: a client that is pinned for nothing loses
//! little, one that loses its temporary table is wrong.

use super::Pins;

/// Words and what they may be the reason of.
const WORDS: &[(&[u8], Pins)] = &[
    (b"temp", Pins::TEMP_TABLE),
    (b"temporary", Pins::TEMP_TABLE),
    (b"pg_temp", Pins::TEMP_TABLE),
    (b"listen", Pins::LISTEN),
    (b"hold", Pins::HOLD_CURSOR),
    (b"prepare", Pins::SQL_PREPARE),
    (b"authorization", Pins::SESSION_AUTHORIZATION),
    (b"session_authorization", Pins::SESSION_AUTHORIZATION),
    (b"load", Pins::LOAD),
    (b"seed", Pins::OTHER),
    (b"setseed", Pins::OTHER),
    (b"set_config", Pins::OTHER),
    (b"pg_advisory_lock", Pins::ADVISORY_LOCK),
    (b"pg_advisory_lock_shared", Pins::ADVISORY_LOCK),
    (b"pg_try_advisory_lock", Pins::ADVISORY_LOCK),
    (b"pg_try_advisory_lock_shared", Pins::ADVISORY_LOCK),
];

fn words(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    let is_word = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_' || *byte >= 0x80;
    text.split(move |byte| !is_word(byte))
        .filter(|word| word.len() >= 4)
}

/// Whether some word of the text could change what is defined.
pub(super) fn define(text: &[u8]) -> bool {
    const WORDS: [&[u8]; 3] = [b"alter", b"create", b"drop"];
    words(text).any(|word| WORDS.iter().any(|known| word.eq_ignore_ascii_case(known)))
}

/// Every pin that some word of the text could be the reason of.
pub(super) fn pins(text: &[u8]) -> Pins {
    let mut found = Pins::NONE;
    for word in words(text) {
        for (name, pin) in WORDS {
            if name.len() == word.len() && word.eq_ignore_ascii_case(name) {
                found |= *pin;
            }
        }
        if word
            .get(..8)
            .is_some_and(|begin| begin.eq_ignore_ascii_case(b"pg_temp_"))
        {
            found |= Pins::TEMP_TABLE;
        }
    }
    found
}

/// Whether the session's own schema is named somewhere.
pub(super) fn name_pg_temp(text: &[u8]) -> bool {
    text.windows(7)
        .any(|window| window.eq_ignore_ascii_case(b"pg_temp"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_found_anywhere_and_whole() {
        assert_eq!(pins(b"frobnicate TEMPORARY thing"), Pins::TEMP_TABLE);
        assert_eq!(pins(b"x(Pg_Advisory_Lock(1))"), Pins::ADVISORY_LOCK);
        assert_eq!(pins(b"select temperature, holder from listeners"), Pins::NONE);
        assert_eq!(
            pins(b"'listen' pg_temp_3.x with hold"),
            Pins::LISTEN | Pins::TEMP_TABLE | Pins::HOLD_CURSOR
        );
        assert!(define(b"begin atomic; ALTER frob"));
        assert!(!define(b"select altered, dropped, created_at"));
    }
}
