//! Key codes as the table sees them: [`Codes`], [`Validity`] and [`Chunk`].
//!
//! A *code* is the 64-bit number a key is reduced to by the caller: one integer key with its order made unsigned (hence
//! the bias), two keys packed into one number, or a hash. Equal keys must have equal codes. Where different keys may
//! share a code (hashes), the caller compares the keys of the pairs it gets.

/// Codes of consecutive rows: `code = value ^ bias`, 32-bit values zero-extended after that.
#[derive(Clone, Copy, Debug)]
pub enum Codes<'a> {
    /// 64-bit values.
    U64 {
        /// One value a row.
        values: &'a [u64],
        /// `1 << 63` for signed keys, 0 for unsigned.
        bias: u64,
    },
    /// 32-bit values.
    U32 {
        /// One value a row.
        values: &'a [u32],
        /// `1 << 31` for signed keys, 0 for unsigned.
        bias: u32,
    },
}

impl Codes<'_> {
    /// Rows.
    pub fn len(&self) -> usize {
        match self {
            Codes::U64 { values, .. } => values.len(),
            Codes::U32 { values, .. } => values.len(),
        }
    }

    /// No rows?
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The code of a row.
    ///
    /// # Panics
    /// When `row` is out of range.
    #[inline(always)]
    pub fn code(&self, row: usize) -> u64 {
        match *self {
            Codes::U64 { values, bias } => values[row] ^ bias,
            Codes::U32 { values, bias } => u64::from(values[row] ^ bias),
        }
    }
}

/// Which rows take part: a bitmap in Arrow's layout (least significant bit first, 1 = valid) that may begin inside a byte.
#[derive(Clone, Copy, Debug)]
pub struct Validity<'a> {
    bytes: &'a [u8],
    offset_bits: usize,
    rows: usize,
}

impl<'a> Validity<'a> {
    /// A bitmap of `rows` bits that begins `offset_bits` into `bytes`.
    ///
    /// # Panics
    /// When `bytes` is too short.
    pub fn new(bytes: &'a [u8], offset_bits: usize, rows: usize) -> Self {
        let needed = offset_bits
            .checked_add(rows)
            .expect("bitmap length overflows")
            .div_ceil(8);
        assert!(
            bytes.len() >= needed,
            "validity bitmap has {} bytes, {needed} needed",
            bytes.len()
        );
        Validity {
            bytes,
            offset_bits,
            rows,
        }
    }

    /// Rows.
    pub fn len(&self) -> usize {
        self.rows
    }

    /// No rows?
    pub fn is_empty(&self) -> bool {
        self.rows == 0
    }

    /// Does `row` take part?
    ///
    /// # Panics
    /// When `row` is out of range.
    #[inline(always)]
    pub fn is_valid(&self, row: usize) -> bool {
        assert!(row < self.rows, "row out of range");
        let bit = self.offset_bits + row;
        self.bytes[bit / 8] >> (bit % 8) & 1 == 1
    }
}

/// One batch of build rows.
#[derive(Clone, Copy, Debug)]
pub struct Chunk<'a> {
    /// The rows' codes.
    pub codes: Codes<'a>,
    /// Which rows take part (rows with a NULL key usually do not); `None`: all.
    pub valid: Option<Validity<'a>>,
    /// The build row number of the first row; the others follow it.
    pub first_row: u32,
}

/// A piece of a chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Span {
    pub(crate) chunk: usize,
    pub(crate) start: usize,
    pub(crate) end: usize,
}

/// Longest [`Span`] of [`split`]: cancellation is looked at between spans.
const SPAN_ROWS_MAX: usize = 1 << 17;

/// Cuts the chunks into `parts` runs of nearly equal row counts, in row order.
pub(crate) fn split(chunks: &[Chunk<'_>], parts: usize) -> Vec<Vec<Span>> {
    assert!(parts > 0);
    let total: usize = chunks.iter().map(|chunk| chunk.codes.len()).sum();
    let part_rows = total.div_ceil(parts).max(1);
    let mut runs = vec![Vec::new(); parts];
    let mut before = 0;
    for (number, chunk) in chunks.iter().enumerate() {
        let rows = chunk.codes.len();
        let mut start = 0;
        while start < rows {
            let part = (before + start) / part_rows;
            let part_end = (part + 1) * part_rows - before;
            let end = rows.min(part_end).min(start + SPAN_ROWS_MAX);
            runs[part].push(Span {
                chunk: number,
                start,
                end,
            });
            start = end;
        }
        before += rows;
    }
    runs
}

impl Chunk<'_> {
    /// Calls `visit(code, row)` for the valid rows of `start..end`, in order.
    #[inline(always)]
    pub(crate) fn for_each(&self, start: usize, end: usize, mut visit: impl FnMut(u64, u32)) {
        let first_row = self.first_row;
        match self.codes {
            Codes::U64 { values, bias } => self.for_each_value(&values[start..end], start, |value, index| {
                visit(value ^ bias, first_row + index as u32);
            }),
            Codes::U32 { values, bias } => self.for_each_value(&values[start..end], start, |value, index| {
                visit(u64::from(value ^ bias), first_row + index as u32);
            }),
        }
    }

    #[inline(always)]
    fn for_each_value<T: Copy>(&self, values: &[T], start: usize, mut visit: impl FnMut(T, usize)) {
        match self.valid {
            None => {
                for (index, &value) in values.iter().enumerate() {
                    visit(value, start + index);
                }
            }
            Some(valid) => {
                for (index, &value) in values.iter().enumerate() {
                    if valid.is_valid(start + index) {
                        visit(value, start + index);
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bias_makes_signed_order_unsigned() {
        let keys = [-5_i64, -1, 0, 7];
        let values: Vec<u64> = keys.iter().map(|&key| key as u64).collect();
        let codes = Codes::U64 {
            values: &values,
            bias: 1 << 63,
        };
        assert!((1..4).all(|row| codes.code(row - 1) < codes.code(row)));
        let small = Codes::U32 {
            values: &[u32::MAX, 0],
            bias: 1 << 31,
        };
        assert_eq!((small.code(0), small.code(1)), (0x7fff_ffff, 0x8000_0000));
    }

    #[test]
    fn validity_honours_its_offset() {
        let valid = Validity::new(&[0b1010_0000, 0b0000_0001], 5, 4);
        assert_eq!(
            (0..4).map(|row| valid.is_valid(row)).collect::<Vec<_>>(),
            [true, false, true, true]
        );
    }

    #[test]
    #[should_panic(expected = "validity bitmap")]
    fn short_bitmaps_are_refused() {
        let _ = Validity::new(&[0xff], 5, 4);
    }

    #[test]
    fn split_covers_every_row_once_in_order() {
        let values = vec![0_u64; 400_000];
        for lengths in [
            vec![],
            vec![0],
            vec![1],
            vec![5, 0, 3, 8192, 1],
            vec![400_000],
            vec![300_000, 7],
        ] {
            let chunks: Vec<Chunk<'_>> = lengths
                .iter()
                .map(|&length| Chunk {
                    codes: Codes::U64 {
                        values: &values[..length],
                        bias: 0,
                    },
                    valid: None,
                    first_row: 0,
                })
                .collect();
            for parts in [1, 2, 3, 7] {
                let runs = split(&chunks, parts);
                assert_eq!(runs.len(), parts);
                let mut expected =
                    (0..lengths.len()).flat_map(|chunk| (0..lengths[chunk]).map(move |row| (chunk, row)));
                for span in runs.iter().flatten() {
                    assert!(span.start < span.end && span.end - span.start <= SPAN_ROWS_MAX);
                    for row in span.start..span.end {
                        assert_eq!(expected.next(), Some((span.chunk, row)));
                    }
                }
                assert_eq!(expected.next(), None);
            }
        }
    }
}
