//! [`Fingerprint`]: a hash that is the same in every run, of texts and numbers in order (FNV-1a, 64 bits).

/// Under construction.
#[derive(Clone, Copy, Debug)]
pub(super) struct Fingerprint(u64);

impl Default for Fingerprint {
    fn default() -> Self {
        Self(0xcbf2_9ce4_8422_2325)
    }
}

impl Fingerprint {
    /// Adds a text and its end, so that `a`, `bc` is not `ab`, `c`.
    pub fn text(&mut self, text: &str) {
        self.bytes(text.as_bytes());
        self.number(text.len() as u64);
    }

    /// Adds a number.
    pub fn number(&mut self, number: u64) {
        self.bytes(&number.to_le_bytes());
    }

    fn bytes(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }

    /// What was added so far.
    pub fn value(self) -> u64 {
        self.0
    }
}
