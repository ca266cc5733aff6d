//! [`Row`]: a DataRow, written field by field into a buffer.

use crate::backend;

/// A DataRow, or a part of COPY in binary format, that is being written.
#[must_use = "a row is whole once it is finished"]
pub struct Row<'o> {
    out: &'o mut Vec<u8>,
    /// Where the message's length stands; of rows of a copy none does.
    length_at: Option<usize>,
    count_at: usize,
    fields: u16,
}

impl<'o> Row<'o> {
    /// Begins a DataRow.
    pub fn begin(out: &'o mut Vec<u8>) -> Self {
        out.push(backend::DATA_ROW);
        let length_at = out.len();
        out.extend([0; 4]);
        Self {
            length_at: Some(length_at),
            ..Self::bare(out)
        }
    }

    /// Begins a row of COPY in binary format.
    pub(super) fn bare(out: &'o mut Vec<u8>) -> Self {
        let count_at = out.len();
        out.extend([0; 2]);
        Self {
            out,
            length_at: None,
            count_at,
            fields: 0,
        }
    }

    /// A field that is NULL.
    pub fn null(&mut self) {
        self.out.extend((-1i32).to_be_bytes());
        self.fields += 1;
    }

    /// A field that `write` appends.
    #[inline]
    pub fn field(&mut self, write: impl FnOnce(&mut Vec<u8>)) {
        field(self.out, write);
        self.fields += 1;
    }

    /// Bytes that were written so far.
    pub fn bytes(&self) -> usize {
        self.out.len() - self.length_at.unwrap_or(self.count_at)
    }

    /// The row is whole. Returns its bytes.
    pub fn finish(self) -> usize {
        let begin = self.length_at.unwrap_or(self.count_at);
        let length = self.out.len() - begin;
        if let Some(at) = self.length_at {
            self.out[at..at + 4].copy_from_slice(&(length as u32).to_be_bytes());
        }
        self.out[self.count_at..self.count_at + 2].copy_from_slice(&self.fields.to_be_bytes());
        length
    }
}

/// Appends the length of what `write` appends, and that.
#[inline]
pub(super) fn field(out: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>)) {
    let at = out.len();
    out.extend([0; 4]);
    write(out);
    let length = (out.len() - at - 4) as u32;
    out[at..at + 4].copy_from_slice(&length.to_be_bytes());
}
