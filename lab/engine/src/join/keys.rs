//! The kinds of join keys, and the key of an identity number.
//!
//! Every table row carries an identity `0..distinct`; probe rows without a partner carry one from `distinct` up. The
//! kind decides how an identity looks as a key.

use corun_workloads::numbers::mix;

/// What join keys look like.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum KeyKind {
    /// `1..=n` in random order, 64-bit.
    Dense,
    /// Random distinct 64-bit numbers.
    Sparse,
    /// Two 64-bit integer columns with small ranges, as in TPC-H's `partsupp`; a missing partner differs in the second only.
    Int2,
    /// Distinct strings of 16 to 24 bytes.
    String,
    /// Sparse, each build key four times.
    Dup4,
    /// Sparse, each build key sixteen times.
    Dup16,
    /// Sparse; the probe side draws keys by Zipf's law with exponent 1.
    Zipf,
}

impl KeyKind {
    /// Every kind, in the order of the documentation.
    pub const ALL: [KeyKind; 7] = [
        KeyKind::Dense,
        KeyKind::Sparse,
        KeyKind::Int2,
        KeyKind::String,
        KeyKind::Dup4,
        KeyKind::Dup16,
        KeyKind::Zipf,
    ];

    /// The word in rows and case names.
    pub fn name(self) -> &'static str {
        match self {
            KeyKind::Dense => "dense",
            KeyKind::Sparse => "sparse",
            KeyKind::Int2 => "int2",
            KeyKind::String => "string",
            KeyKind::Dup4 => "dup4",
            KeyKind::Dup16 => "dup16",
            KeyKind::Zipf => "zipf",
        }
    }

    /// Build rows of each key.
    pub fn duplicates(self) -> usize {
        match self {
            KeyKind::Dup4 => 4,
            KeyKind::Dup16 => 16,
            _ => 1,
        }
    }
}

/// The 64-bit key of an identity: distinct for distinct identities.
pub fn integer_key(kind: KeyKind, identity: u64) -> i64 {
    match kind {
        KeyKind::Dense => identity as i64 + 1,
        _ => mix(identity ^ 0x005e_ed0f_6b65_7973) as i64,
    }
}

/// Second-column values each first-column value has (TPC-H: suppliers of a part).
const PAIRS_PER_FIRST: u64 = 4;

/// The two-column key of an identity.
///
/// ```text
///   first  = identity / 4 + 1                     1, 1, 1, 1, 2, 2, 2, 2, ...
///   second = 4 values R/4 apart in 1..=R          R = max(distinct / 80, 8)
/// ```
/// An identity without a partner gets the pair of `identity - distinct` with the second value moved by one: inside both
/// columns' ranges, equal to no pair, so only the whole key can tell.
pub fn integer_pair(identity: u64, distinct: u64) -> (i64, i64) {
    let range = (distinct / 80).max(2 * PAIRS_PER_FIRST);
    let (pair, shift) = if identity < distinct {
        (identity, 0)
    } else {
        ((identity - distinct) % distinct.max(1), 1)
    };
    let first = pair / PAIRS_PER_FIRST;
    let step = (pair % PAIRS_PER_FIRST) * (range / PAIRS_PER_FIRST);
    let second = (step + mix(first) % range + shift) % range;
    (first as i64 + 1, second as i64 + 1)
}

/// Shortest and longest string key in bytes.
pub const STRING_BYTES: std::ops::RangeInclusive<usize> = 16..=24;

/// Writes the string key of an identity into `buffer` and returns it: 16 hexadecimal digits that make it distinct and
/// up to 8 letters that vary the length.
pub fn string_key(identity: u64, buffer: &mut [u8; 24]) -> &str {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let number = mix(identity ^ 0x0073_7472_696e_6773);
    for (place, byte) in buffer[..16].iter_mut().enumerate() {
        *byte = DIGITS[(number >> (60 - 4 * place)) as usize & 15];
    }
    let tail = mix(number);
    let length = STRING_BYTES.start() + (tail % 9) as usize;
    for (place, byte) in buffer[16..length].iter_mut().enumerate() {
        *byte = b'g' + ((tail >> (8 + 4 * place)) & 15) as u8;
    }
    std::str::from_utf8(&buffer[..length]).expect("hexadecimal digits and letters")
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn integer_keys_are_distinct_and_misses_too() {
        for kind in [KeyKind::Dense, KeyKind::Sparse] {
            let keys: HashSet<i64> = (0..20_000).map(|identity| integer_key(kind, identity)).collect();
            assert_eq!(keys.len(), 20_000, "{kind:?}");
        }
    }

    #[test]
    fn integer_pairs_are_distinct_and_misses_have_no_partner() {
        for distinct in [1u64, 3, 8, 1000, 10_000] {
            let pairs: HashSet<(i64, i64)> = (0..distinct).map(|id| integer_pair(id, distinct)).collect();
            assert_eq!(pairs.len() as u64, distinct);
            let firsts: HashSet<i64> = pairs.iter().map(|pair| pair.0).collect();
            for identity in distinct..2 * distinct {
                let miss = integer_pair(identity, distinct);
                assert!(!pairs.contains(&miss), "{identity} of {distinct}");
                assert!(
                    firsts.contains(&miss.0),
                    "a miss differs in the second column only"
                );
            }
        }
    }

    #[test]
    fn strings_are_distinct_and_within_their_lengths() {
        let mut buffer = [0; 24];
        let mut lengths = HashSet::new();
        let mut keys = HashSet::new();
        for identity in 0..10_000 {
            let key = string_key(identity, &mut buffer).to_string();
            assert!(STRING_BYTES.contains(&key.len()));
            lengths.insert(key.len());
            keys.insert(key);
        }
        assert_eq!((keys.len(), lengths.len()), (10_000, 9));
    }
}
