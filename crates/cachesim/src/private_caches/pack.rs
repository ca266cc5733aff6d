//! Touches as text: numbers in base 91, repetitions as a reference back, also into what was packed before. A query does nearly the same for
//! every key, and a recording of several keys becomes little longer than one of them.
//!
//! ```text
//!   "abc"       a literal: three digits, lowest first
//!   "~dddll"    `l` + 1 numbers as they stand `d` + 1 numbers ago, copied one after the other: a copy may overlap itself
//! ```
//!
//! Not a general compressor: the text lies in the repository, and this keeps it small without a dependency.

use std::collections::HashMap;

use super::touch::PACKED_MAX;

const BASE: u32 = 91;
const ESCAPE: char = '~';
/// Numbers that a copy can be away, and be long.
const DISTANCE_MAX: usize = (BASE * BASE * BASE) as usize;
const LENGTH_MAX: usize = (BASE * BASE) as usize;
/// A copy takes two literals' room; shorter repetitions stay as they are.
const LENGTH_MIN: usize = 3;
/// Earlier places that are tried for the longest copy. Unmeasured: more hardly makes the text shorter.
const TRIES_MAX: usize = 64;
/// Most numbers of one text: 64 MiB of memory.
const NUMBERS_MAX: usize = 16 << 20;

const _: () = assert!(PACKED_MAX <= BASE * BASE * BASE, "a literal fits three digits");

/// Appends the lowest `digits` digits of a number: printable ASCII but for the quotation mark, the backslash and the escape.
fn push(text: &mut String, mut number: u32, digits: usize) {
    for _ in 0..digits {
        let code = b'!' + (number % BASE) as u8;
        let code = if code >= b'"' { code + 1 } else { code };
        let code = if code >= b'\\' { code + 1 } else { code };
        text.push(char::from(code));
        number /= BASE;
    }
}

/// The number that these digits are.
fn number(digits: &[u8]) -> Option<u32> {
    digits.iter().rev().try_fold(0, |number, &code| {
        let digit = match code {
            b'!' => 0,
            b'#'..=b'[' => code - b'"',
            b']'..=b'}' => code - b'#',
            _ => return None,
        };
        Some(number * BASE + u32::from(digit))
    })
}

/// How many numbers are the same from both places on, at most [`LENGTH_MAX`].
fn common(numbers: &[u32], from: usize, at: usize) -> usize {
    let pairs = numbers[from..].iter().zip(&numbers[at..]).take(LENGTH_MAX);
    pairs.take_while(|(before, now)| before == now).count()
}

/// What was packed so far, which later numbers may refer to.
#[derive(Clone, Debug, Default)]
pub struct Packer {
    numbers: Vec<u32>,
    /// Where each three numbers stand.
    seen: HashMap<[u32; LENGTH_MIN], Vec<usize>>,
}

impl Packer {
    /// More numbers, each below [`PACKED_MAX`], as text.
    pub fn pack(&mut self, more: &[u32]) -> String {
        let mut text = String::new();
        let mut at = self.numbers.len();
        self.numbers.extend_from_slice(more);
        let numbers = &self.numbers;
        let key = |at: usize| match numbers.get(at..at + LENGTH_MIN) {
            Some(&[first, second, third]) => Some([first, second, third]),
            _ => None,
        };
        while at < numbers.len() {
            let earlier = key(at).and_then(|key| self.seen.get(&key));
            let best = earlier
                .map_or(&[][..], Vec::as_slice)
                .iter()
                .rev()
                .take(TRIES_MAX)
                .filter(|&&from| at - from <= DISTANCE_MAX)
                .map(|&from| (common(numbers, from, at), from))
                .max();
            let length = match best {
                Some((length, from)) => {
                    text.push(ESCAPE);
                    push(&mut text, (at - from - 1) as u32, 3);
                    push(&mut text, (length - 1) as u32, 2);
                    length
                }
                None => {
                    push(&mut text, numbers[at], 3);
                    1
                }
            };
            // The last places of an earlier call had too few numbers behind them.
            for place in at.saturating_sub(LENGTH_MIN - 1)..at + length {
                if let Some(key) = key(place) {
                    let places = self.seen.entry(key).or_default();
                    if places.last().is_none_or(|&last| last < place) {
                        places.push(place);
                    }
                }
            }
            at += length;
        }
        text
    }
}

/// What was unpacked so far.
#[derive(Clone, Debug, Default)]
pub struct Unpacker {
    numbers: Vec<u32>,
}

impl Unpacker {
    /// The numbers of the next text; `None` if it is none, or all texts have too many.
    pub fn unpack(&mut self, text: &str) -> Option<&[u32]> {
        let first_new = self.numbers.len();
        let numbers = &mut self.numbers;
        let mut rest = text.as_bytes();
        while let Some(&first) = rest.first() {
            if first == ESCAPE as u8 {
                let distance = number(rest.get(1..4)?)? as usize + 1;
                let length = number(rest.get(4..6)?)? as usize + 1;
                let from = numbers.len().checked_sub(distance)?;
                if numbers.len() + length > NUMBERS_MAX {
                    return None;
                }
                for place in from..from + length {
                    numbers.push(numbers[place]);
                }
                rest = &rest[6..];
            } else {
                if numbers.len() == NUMBERS_MAX {
                    return None;
                }
                numbers.push(number(rest.get(..3)?)?);
                rest = &rest[3..];
            }
        }
        Some(&numbers[first_new..])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn pack(numbers: &[u32]) -> String {
        Packer::default().pack(numbers)
    }

    fn unpack(text: &str) -> Option<Vec<u32>> {
        Unpacker::default().unpack(text).map(<[u32]>::to_vec)
    }

    #[test]
    fn repetitions_are_short() {
        let once: Vec<u32> = (0..1000).map(|number| number * 577).collect();
        let often = once.repeat(20);
        assert!(pack(&often).len() < pack(&once).len() + 30);
        assert_eq!(unpack(&pack(&often)), Some(often));
        assert_eq!(pack(&[7; 5000]).len(), 3 + 6);
        let mut packer = Packer::default();
        assert_eq!(packer.pack(&once).len(), 3000);
        assert_eq!(packer.pack(&once).len(), 6);
    }

    #[test]
    fn what_was_not_packed_is_refused() {
        for text in ["ab", "~!!!!", "~!!!!!", "ab\"", "ab\\", "äö"] {
            assert_eq!(unpack(text), None, "{text}");
        }
        assert_eq!(unpack(""), Some(Vec::new()));
    }

    proptest! {
        #[test]
        fn numbers_come_back(
            texts in prop::collection::vec(prop::collection::vec(prop_oneof![0..4_u32, 0..PACKED_MAX], 0..200), 1..4)
        ) {
            let (mut packer, mut unpacker) = (Packer::default(), Unpacker::default());
            for numbers in texts {
                let text = packer.pack(&numbers);
                prop_assert_eq!(unpacker.unpack(&text), Some(&numbers[..]));
            }
        }

        #[test]
        fn any_text_is_read_without_panic(text in "[!-~]{0,60}") {
            let _ = unpack(&text);
        }
    }
}
