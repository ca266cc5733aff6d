//! What a record holds, and how its content is verified.
//!
//! ```text
//! record = field 0 | field 1 | ... | field 9
//! field  = version 8 bytes | 92 bytes that follow from (key, field, version)
//! ```

use crate::random::mix;

/// Fields of a record.
pub const FIELDS: usize = 10;
/// Bytes of a field.
pub const FIELD_BYTES: usize = 100;
/// Bytes of a record, its key not counted.
pub const RECORD_BYTES: usize = FIELDS * FIELD_BYTES;

/// The key of record number `number`.
pub fn key(number: u64) -> u64 {
    mix(number)
}

/// Fills `content`, [`FIELD_BYTES`] long, with what a field holds at a version.
pub fn fill_field(key: u64, field: usize, version: u64, content: &mut [u8]) {
    let seed = mix(key ^ mix(version ^ ((field as u64) << 56)));
    for (at, chunk) in content.chunks_mut(8).enumerate() {
        let word = if at == 0 {
            version
        } else {
            mix(seed.wrapping_add(at as u64))
        };
        chunk.copy_from_slice(&word.to_le_bytes()[..chunk.len()]);
    }
}

/// The version of a field's content; zero if it is too short to have one.
pub fn version(content: &[u8]) -> u64 {
    content
        .first_chunk()
        .map_or(0, |bytes| u64::from_le_bytes(*bytes))
}

/// The record of a key as it is inserted: every field at version 0.
pub fn record(key: u64) -> Vec<u8> {
    let mut record = vec![0; RECORD_BYTES];
    for (field, content) in record.chunks_mut(FIELD_BYTES).enumerate() {
        fill_field(key, field, 0, content);
    }
    record
}

/// Whether each field of a record holds what it must at its version. Returns the wrapping sum of the versions.
///
/// # Errors
/// What is wrong, in words.
pub fn verify(key: u64, record: &[u8]) -> Result<u64, String> {
    if record.len() != RECORD_BYTES {
        return Err(format!(
            "the record of key {key} has {} bytes instead of {RECORD_BYTES}",
            record.len()
        ));
    }
    let mut versions = 0u64;
    for (field, content) in record.chunks(FIELD_BYTES).enumerate() {
        let version = version(content);
        let mut expected = [0; FIELD_BYTES];
        fill_field(key, field, version, &mut expected);
        if content != expected {
            return Err(format!(
                "field {field} of key {key} does not hold what was written as its version {version}"
            ));
        }
        versions = versions.wrapping_add(version);
    }
    Ok(versions)
}

/// What a scan saw, summed up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ScanAnswer {
    /// Records.
    pub rows: usize,
    /// Depends on every byte of the keys and records, and on their order.
    pub checksum: u64,
}

impl ScanAnswer {
    /// Takes in the next record.
    pub fn add(&mut self, key: u64, record: &[u8]) {
        self.rows += 1;
        let mut sum = self.checksum.rotate_left(5) ^ key;
        let mut words = record.chunks_exact(8);
        for word in &mut words {
            let word = word.first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes));
            sum = sum.rotate_left(1).wrapping_add(word);
        }
        for &byte in words.remainder() {
            sum = sum.rotate_left(1).wrapping_add(u64::from(byte));
        }
        self.checksum = sum;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_changed_byte_is_found() {
        let key = key(5);
        let good = record(key);
        assert_eq!(verify(key, &good), Ok(0));
        for at in 0..RECORD_BYTES {
            let mut bad = good.clone();
            bad[at] ^= 0x40;
            assert!(verify(key, &bad).is_err(), "byte {at}");
        }
        assert!(verify(key + 1, &good).is_err());
        assert!(verify(key, &good[1..]).is_err());
        let mut newer = good.clone();
        fill_field(key, 3, 7, &mut newer[300..400]);
        assert_eq!(verify(key, &newer), Ok(7));
        // A field in another's place is wrong as well.
        let mut moved = good;
        moved.copy_within(0..100, 100);
        assert!(verify(key, &moved).is_err());
    }

    #[test]
    fn the_checksum_depends_on_the_order() {
        let (mut forth, mut back) = (ScanAnswer::default(), ScanAnswer::default());
        let (a, b) = (record(1), record(2));
        forth.add(1, &a);
        forth.add(2, &b);
        back.add(2, &b);
        back.add(1, &a);
        assert_eq!(forth.rows, back.rows);
        assert_ne!(forth.checksum, back.checksum);
    }
}
