//! What a record holds.

/// Fields of a record.
pub const FIELDS: usize = 10;
/// Bytes of a field.
pub const FIELD_BYTES: usize = 100;
/// Bytes of a record, its key not counted.
pub const RECORD_BYTES: usize = FIELDS * FIELD_BYTES;

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
            sum = sum
                .rotate_left(1)
                .wrapping_add(u64::from_le_bytes(word.try_into().unwrap_or_default()));
        }
        for &byte in words.remainder() {
            sum = sum.rotate_left(1).wrapping_add(u64::from(byte));
        }
        self.checksum = sum;
    }
}
