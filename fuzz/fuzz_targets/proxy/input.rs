//! A fuzzer's bytes, taken one after the other; when they are used up, zeros come.

/// What is left of them.
pub struct Input<'a>(pub &'a [u8]);

impl<'a> Input<'a> {
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn byte(&mut self) -> u8 {
        let Some((&first, rest)) = self.0.split_first() else {
            return 0;
        };
        self.0 = rest;
        first
    }

    /// Below `end`, which is not zero and at most 256.
    pub fn below(&mut self, end: usize) -> usize {
        usize::from(self.byte()) % end
    }

    /// At most 255 bytes, or a part of them.
    pub fn bytes(&mut self) -> &'a [u8] {
        let count = usize::from(self.byte()).min(self.0.len());
        let (taken, rest) = self.0.split_at(count);
        self.0 = rest;
        taken
    }

    /// As [`Input::bytes`], as text without zero bytes.
    pub fn text(&mut self) -> String {
        String::from_utf8_lossy(self.bytes()).replace('\0', "")
    }

    /// One of these.
    pub fn pick<'b>(&mut self, from: &[&'b str]) -> &'b str {
        from[self.below(from.len())]
    }
}
