//! Bytes of a segment: its head, frames, and names.
//!
//! ```text
//! segment  log-<first ts, 20 digits>.corun
//!   head   magic 8 │ version 4 │ checksum 4 │ store id 8 │ first ts 8          (this layout stays in all versions)
//!   frame  length 4 │ checksum 4 │ ts 8 │ durable 8 │ payload            (next frame follows at once; little endian)
//!   mark   length 2^31 │ checksum 4 │ ts 8 │ durable 8                   (no block: says what is durable up to `ts`)
//!   time   length 2^31 + 1 │ checksum 4 │ ts 8 │ time 8                  (no block: `ts` and all before it were committed before)
//! ```
//!
//! A checksum covers all of a head or frame but itself and starts from the store's id, so that bytes of another store are
//! never taken for ours. `durable` is the newest commit known to be on disk when the frame was made: it tells damage from the
//! torn end of a crash. A segment's head says the same of all commits before its first, because a segment is made only after
//! the one before is synced. What it is not: it knows no files.

use crc32fast::Hasher;

use std::io;

use super::Storage;
use super::sums::Sums;
use crate::ts::Ts;

pub(super) const MAGIC: [u8; 8] = *b"corunlog";
/// The newest format, whose segments may have times; the one before has none. Files without a time are written in that.
pub(super) const VERSION: u32 = 2;
const WITHOUT_TIMES: u32 = 1;
pub(super) const HEAD_BYTES: usize = 32;
pub(super) const FRAME_BYTES: usize = 24;
/// Stands in the length field of a mark.
const MARK: u32 = 1 << 31;
/// Stands in the length field of a time.
const TIME: u32 = MARK + 1;
/// Room that is kept for marks and times behind a block.
pub(super) const MARKS_BYTES: usize = 3 * FRAME_BYTES;
/// Largest payload of one frame, in bytes.
pub(crate) const PAYLOAD_MAX: usize = MARK as usize - 1;

/// The segments that a folder has: their first commits, their names.
pub(super) fn segments(storage: &dyn Storage) -> io::Result<Vec<(Ts, String)>> {
    let names = storage.names()?.into_iter();
    let mut segments: Vec<_> = names
        .filter_map(|name| Some((segment_first(&name)?, name)))
        .collect();
    segments.sort();
    Ok(segments)
}

/// The file of the segment whose first commit is `first`.
pub(crate) fn segment_name(first: Ts) -> String {
    format!("log-{:020}.corun", first.0)
}

/// The first commit of the segment of that name; `None` if it is no segment's name.
pub(crate) fn segment_first(name: &str) -> Option<Ts> {
    let digits = name.strip_prefix("log-")?.strip_suffix(".corun")?;
    let plain = digits.len() == 20 && digits.bytes().all(|byte| byte.is_ascii_digit());
    // Half the numbers are left out so that no sum in here overflows.
    let first = if plain { digits.parse().ok() } else { None };
    first.filter(|first| (1..=u64::MAX / 2).contains(first)).map(Ts)
}

/// Where the checksums of a store start.
pub(super) fn seed(store_id: u64) -> u32 {
    crc32fast::hash(&store_id.to_le_bytes())
}

/// First half of a frame's checksum, which needs no timestamp: done before the mutex.
pub(super) fn payload_sum(seed: u32, payload: &[u8]) -> u32 {
    let mut hasher = Hasher::new_with_initial(seed);
    hasher.update(payload);
    hasher.finalize()
}

/// The head of a frame; `payload_sum` of its payload.
#[inline]
fn frame_head(payload_sum: u32, length: u32, ts: Ts, durable: Ts) -> [u8; FRAME_BYTES] {
    let mut head = [0; FRAME_BYTES];
    // For the checksum the field it stands in is left out by putting the length where it will stand.
    head[4..8].copy_from_slice(&length.to_le_bytes());
    head[8..16].copy_from_slice(&ts.0.to_le_bytes());
    head[16..24].copy_from_slice(&durable.0.to_le_bytes());
    let mut hasher = Hasher::new_with_initial(payload_sum);
    hasher.update(&head[4..]);
    let sum = hasher.finalize();
    head[..4].copy_from_slice(&length.to_le_bytes());
    head[4..8].copy_from_slice(&sum.to_le_bytes());
    head
}

/// Appends the head of a block's frame; its payload, of at most [`PAYLOAD_MAX`] bytes, follows.
#[inline]
pub(super) fn push_head(into: &mut Vec<u8>, payload_sum: u32, length: usize, ts: Ts, durable: Ts) {
    into.extend_from_slice(&frame_head(payload_sum, length as u32, ts, durable));
}

/// A mark that says that all commits up to `durable` are on disk, behind the frame of `ts`.
pub(super) fn mark(seed: u32, ts: Ts, durable: Ts) -> [u8; FRAME_BYTES] {
    frame_head(payload_sum(seed, &[]), MARK, ts, durable)
}

/// Says that the commits up to `ts` were there at a time, in microseconds since 1970.
pub(super) fn time_mark(seed: u32, ts: Ts, time: u64) -> [u8; FRAME_BYTES] {
    frame_head(payload_sum(seed, &[]), TIME, ts, Ts(time))
}

fn word(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"))
}

fn half(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
}

/// A frame or mark that was found whole.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) struct Frame {
    pub(super) offset: usize,
    pub(super) end: usize,
    pub(super) ts: Ts,
    pub(super) durable: Ts,
    /// It has no block.
    pub(super) is_mark: bool,
    /// What a time says.
    pub(super) time: Option<u64>,
}

impl Frame {
    /// The commit whose block stands here or, behind a mark, next.
    pub(super) fn begins_at(&self) -> Ts {
        if self.is_mark { self.ts.next() } else { self.ts }
    }

    /// The commit whose block comes after this frame.
    pub(super) fn next_ts(&self) -> Ts {
        self.ts.next()
    }
}

/// The frame at `offset`, if a whole one is there whose timestamp is in `from..=to`.
pub(super) fn frame_at(sums: &Sums<'_>, offset: usize, seed: u32, from: u64, to: u64) -> Option<Frame> {
    let frame = sums.bytes.get(offset..)?;
    if frame.len() < FRAME_BYTES {
        return None;
    }
    // The cheap checks first: a search tries every offset.
    let (ts, durable) = (word(frame, 8), word(frame, 16));
    let length = half(frame, 0);
    let is_time = length == TIME;
    if ts < from || ts > to || (durable > ts && !is_time) {
        return None;
    }
    let is_mark = length == MARK || is_time;
    let payload = if is_mark { 0 } else { length as usize };
    let end = FRAME_BYTES.checked_add(payload)?;
    if end > frame.len() {
        return None;
    }
    let (ts, durable) = (Ts(ts), Ts(durable));
    let sum = sums.of(seed, offset + FRAME_BYTES..offset + end);
    if frame_head(sum, length, ts, durable) != frame[..FRAME_BYTES] {
        return None;
    }
    Some(Frame {
        offset,
        end: offset + end,
        ts,
        durable: if is_time { Ts::ZERO } else { durable },
        is_mark,
        time: is_time.then_some(durable.0),
    })
}

/// The bytes that the frame of commit `ts` takes, if its head is what these bytes begin with.
pub(super) fn length_of(bytes: &[u8], ts: Ts) -> Option<usize> {
    let is_it = bytes.len() >= FRAME_BYTES && word(bytes, 8) == ts.0 && half(bytes, 0) < MARK;
    is_it.then(|| FRAME_BYTES + half(bytes, 0) as usize)
}

/// The first whole frame at or after `offset` with a timestamp of at least `from`. `before`: bytes of log that may have held
/// frames between `from` and these bytes.
pub(super) fn search(sums: &Sums<'_>, offset: usize, seed: u32, from: u64, before: u64) -> Option<Frame> {
    (offset..sums.bytes.len().saturating_sub(FRAME_BYTES - 1)).find_map(|at| {
        // Timestamps are dense and each took a frame's head at least.
        let to = from.saturating_add((before + at as u64) / FRAME_BYTES as u64 + 1);
        frame_at(sums, at, seed, from, to)
    })
}

/// The head of a segment.
pub(super) fn segment_head(store_id: u64, first: Ts, has_times: bool) -> [u8; HEAD_BYTES] {
    let version = if has_times { VERSION } else { WITHOUT_TIMES };
    head_in(version, MAGIC, store_id, first)
}

/// The head of another file of the log's, which begins with these bytes.
pub(super) fn head_of(magic: [u8; 8], store_id: u64, first: Ts) -> [u8; HEAD_BYTES] {
    head_in(WITHOUT_TIMES, magic, store_id, first)
}

fn head_in(version: u32, magic: [u8; 8], store_id: u64, first: Ts) -> [u8; HEAD_BYTES] {
    let mut head = [0; HEAD_BYTES];
    head[..8].copy_from_slice(&magic);
    head[8..12].copy_from_slice(&version.to_le_bytes());
    head[16..24].copy_from_slice(&store_id.to_le_bytes());
    head[24..].copy_from_slice(&first.0.to_le_bytes());
    let sum = head_sum(&head);
    head[12..16].copy_from_slice(&sum.to_le_bytes());
    head
}

fn head_sum(head: &[u8]) -> u32 {
    let mut hasher = Hasher::new();
    hasher.update(&head[..12]);
    hasher.update(&head[16..]);
    hasher.finalize()
}

/// What the first bytes of a segment turned out to be.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) enum Head {
    /// Whole.
    Good { store_id: u64, first: Ts },
    /// Whole, of a newer format.
    Newer { version: u32 },
    /// Too short, or zeros: it was never written.
    Unwritten,
    /// Ours, and broken.
    Broken,
    /// Not ours.
    Foreign,
}

/// Reads the first bytes of a segment.
pub(super) fn read_head(bytes: &[u8]) -> Head {
    read_head_of(MAGIC, bytes)
}

/// Reads the first bytes of a file of the log's, which begins with `magic`.
pub(super) fn read_head_of(magic: [u8; 8], bytes: &[u8]) -> Head {
    let head = &bytes[..bytes.len().min(HEAD_BYTES)];
    let begun = head.len().min(8);
    if head.iter().all(|byte| *byte == 0) || (head.len() < HEAD_BYTES && head[..begun] == magic[..begun]) {
        return Head::Unwritten;
    }
    if head.len() < HEAD_BYTES || head[..8] != magic {
        return Head::Foreign;
    }
    if head_sum(head) != half(head, 12) {
        return Head::Broken;
    }
    match half(head, 8) {
        WITHOUT_TIMES..=VERSION => Head::Good {
            store_id: word(head, 16),
            first: Ts(word(head, 24)),
        },
        version => Head::Newer { version },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_are_found_again_and_any_flipped_bit_is_seen() {
        let seed = seed(7);
        let mut bytes = vec![0; 5];
        push_head(&mut bytes, payload_sum(seed, b"hello"), 5, Ts(3), Ts(2));
        bytes.extend_from_slice(b"hello");
        bytes.extend_from_slice(&mark(seed, Ts(3), Ts(3)));
        let frame = search(&Sums::new(&bytes), 0, seed, 1, 72).unwrap();
        assert_eq!(
            frame,
            Frame {
                offset: 5,
                end: 34,
                ts: Ts(3),
                durable: Ts(2),
                is_mark: false,
                time: None
            }
        );
        let behind = frame_at(&Sums::new(&bytes), 34, seed, 3, 3).unwrap();
        assert!(behind.is_mark && behind.end == bytes.len() && behind.durable == Ts(3));
        assert_eq!((frame.begins_at(), behind.begins_at()), (Ts(3), Ts(4)));
        let time = time_mark(seed, Ts(3), u64::MAX / 3);
        let time = frame_at(&Sums::new(&time), 0, seed, 3, 3).unwrap();
        assert_eq!((time.begins_at(), time.durable), (Ts(4), Ts::ZERO));
        assert_eq!(time.time, Some(u64::MAX / 3));
        for bit in 5 * 8..34 * 8 {
            bytes[bit / 8] ^= 1 << (bit % 8);
            let found = frame_at(&Sums::new(&bytes), 5, seed, 0, u64::MAX);
            assert_eq!(found, None, "bit {bit}");
            bytes[bit / 8] ^= 1 << (bit % 8);
        }
        assert_eq!(
            frame_at(&Sums::new(&bytes), 5, super::seed(8), 0, u64::MAX),
            None,
            "another store's"
        );
        assert_eq!(
            frame_at(&Sums::new(&[0; 100]), 0, seed, 0, u64::MAX),
            None,
            "zeros"
        );
        for length in 0..34 {
            assert_eq!(frame_at(&Sums::new(&bytes[..length]), 5, seed, 0, u64::MAX), None);
        }
    }

    #[test]
    fn heads_and_names_tell_what_they_are() {
        assert_eq!(segment_head(7, Ts(12), true)[8], 2);
        let head = segment_head(7, Ts(12), false);
        assert_eq!(
            read_head(&head),
            Head::Good {
                store_id: 7,
                first: Ts(12)
            }
        );
        assert_eq!(read_head(&head[..20]), Head::Unwritten);
        assert_eq!(read_head(&head[..3]), Head::Unwritten);
        assert_eq!(read_head(&[]), Head::Unwritten);
        assert_eq!(read_head(&[0; 100]), Head::Unwritten);
        assert_eq!(read_head(b"hello"), Head::Foreign);
        for at in 0..HEAD_BYTES {
            let mut head = head;
            head[at] ^= 4;
            assert_eq!(
                read_head(&head),
                if at < 8 { Head::Foreign } else { Head::Broken },
                "byte {at}"
            );
        }
        assert_eq!(segment_first(&segment_name(Ts(12))), Some(Ts(12)));
        for name in [
            "log-1.corun",
            "log-00000000000000000000.corun",
            "log-+0000000000000000001.corun",
            "log-99999999999999999999.corun",
            "corun.manifest",
        ] {
            assert_eq!(segment_first(name), None, "{name}");
        }
    }
}
