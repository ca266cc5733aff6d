//! The CTX points compiled into a program: records in its section `corun_ctx`.
//!
//! ```text
//! byte  0      1           4     8       16    24        32
//!       on     prefetches  line  column  file  its length     the next point's record
//! ```
//!
//! A load of a record's first byte is the program passing the point.

use corun_model::teams::CtxSite;

/// The section they are in.
pub(super) const SECTION: &str = "corun_ctx";
/// Bytes of a record.
pub(super) const RECORD_BYTES: u64 = 32;
/// A longer name of a file is nonsense.
const FILE_BYTES_MAX: u64 = 4_096;

/// A CTX point compiled into a program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CtxPoint {
    /// Where its record is in memory.
    pub address: u64,
    /// Where it is in the source.
    pub site: CtxSite,
    /// Whether it prefetches.
    pub prefetches: bool,
}

/// The points in a section of memory. `read` fills a buffer from an address and says whether it could. Records that make no sense are
/// left out: a section of that name may be somebody else's.
pub(super) fn points(start: u64, bytes: u64, mut read: impl FnMut(u64, &mut [u8]) -> bool) -> Vec<CtxPoint> {
    let mut points = Vec::new();
    for address in (0..bytes / RECORD_BYTES).map(|number| start + number * RECORD_BYTES) {
        let mut record = [0; RECORD_BYTES as usize];
        if !read(address, &mut record) {
            break;
        }
        let word = |at: usize| record[at..at + 8].try_into().map_or(0, u64::from_le_bytes);
        let half = |at: usize| record[at..at + 4].try_into().map_or(0, u32::from_le_bytes);
        let (file, length) = (word(16), word(24));
        if length == 0 || length > FILE_BYTES_MAX {
            continue;
        }
        let mut name = vec![0; length as usize];
        if !read(file, &mut name) {
            continue;
        }
        let Ok(file) = String::from_utf8(name) else {
            continue;
        };
        points.push(CtxPoint {
            address,
            site: CtxSite {
                file,
                line: half(4),
                column: half(8),
            },
            prefetches: record[1] != 0,
        });
    }
    points
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_are_read_and_nonsense_left_out() {
        // Memory: two records and a name at 64.
        let mut memory = [0; 96];
        memory[1] = 1;
        memory[4] = 7;
        memory[8] = 9;
        memory[16] = 64;
        memory[24] = 4;
        memory[48] = 64;
        memory[56..64].copy_from_slice(&u64::MAX.to_le_bytes());
        memory[64..68].copy_from_slice(b"a.rs");
        let found = points(0, 64, |address, bytes: &mut [u8]| {
            let from = usize::try_from(address).unwrap_or(usize::MAX);
            match memory.get(from..from.saturating_add(bytes.len())) {
                Some(there) => {
                    bytes.copy_from_slice(there);
                    true
                }
                None => false,
            }
        });
        let site = CtxSite {
            file: "a.rs".to_owned(),
            line: 7,
            column: 9,
        };
        assert_eq!(
            found,
            [CtxPoint {
                address: 0,
                site,
                prefetches: true
            }]
        );
    }
}
