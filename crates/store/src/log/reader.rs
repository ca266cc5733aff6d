//! [`LogReader`]: reads a log back, segment by segment, and finds where it ends.
//!
//! Order of calls: [`LogReader::open`], [`LogReader::next_segment`] until there is none, [`LogReader::end`] and
//! [`LogReader::damage`]. It changes nothing in the folder.
//!
//! Timestamps are dense, so anything that is missing or broken is a hole. A hole that the checkpoint covers is of no
//! consequence. Any other ends the log: it is the torn end of a crash if nothing behind it says that it had been durable, and
//! damage otherwise. What it is not: the replay of the blocks.

use std::ops::Range;
use std::sync::Arc;

use super::end::{LogEnd, Rewrite};
use super::frame::{self, HEAD_BYTES, Head};
use super::segments::Closed;
use super::sums::Sums;
use super::tip::Tip;
use super::{Damage, Failure, LogError, Storage};
use crate::storage::read_all;
use crate::ts::Ts;

/// What to do when committed data cannot be read back.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum OnDamage {
    /// End with [`LogError::Damaged`]; nothing is changed.
    Refuse,
    /// Keep the commits before it, drop it and all that follows, and report it in [`LogReader::damage`].
    Cut,
}

/// The blocks of one file.
#[derive(Debug)]
pub struct Segment {
    /// The file's name.
    pub name: String,
    /// The whole file.
    pub bytes: Vec<u8>,
    /// Timestamp and payload (a range of `bytes`) of each block that is newer than what the reader was opened for.
    pub blocks: Vec<(Ts, Range<usize>)>,
    /// What is said of time: the commits up to each of these were there at that time, in microseconds since 1970.
    pub times: Vec<(Ts, u64)>,
}

/// Reads a log back. See the module.
pub struct LogReader {
    storage: Arc<dyn Storage>,
    store_id: u64,
    seed: u32,
    /// What is up to here is not needed.
    after: u64,
    on_damage: OnDamage,
    /// All segments, oldest first: the commit each begins at, its name.
    files: Vec<(Ts, String)>,
    /// Those before are not needed.
    first: usize,
    bytes_total: u64,

    /// The file to read next.
    at: usize,
    /// The commit that comes next.
    expect: u64,
    /// Lengths of the files read or skipped.
    lengths: Vec<u64>,
    bytes_read: u64,
    /// Where the log was cut: file, length that stays.
    cut: Option<(usize, u64)>,
    damage: Option<Damage>,
    /// The newest commit that the log itself says is durable.
    known_durable: u64,
    /// The newest commit that the file beside it says was durable, or what is wrong with that file.
    tip: u64,
    tip_damage: Option<Damage>,
    /// What `LogEnd` has to do with the last file.
    rewrite: Option<Rewrite>,
}

/// Where the log cannot be read on.
struct Hole {
    file: usize,
    offset: u64,
    what: String,
}

impl LogReader {
    /// Looks at the log of store `store_id`; blocks up to `after`, where the checkpoint was made, are not needed.
    ///
    /// # Errors
    /// [`LogError::Storage`] if the folder cannot be listed.
    pub fn open(
        storage: Arc<dyn Storage>,
        store_id: u64,
        after: Ts,
        on_damage: OnDamage,
    ) -> Result<LogReader, LogError> {
        let after = Ts(after.0.min(u64::MAX / 2));
        let failure = |error| {
            LogError::Storage(Failure::new(
                format!("look at the log in {}", storage.place()),
                &error,
            ))
        };
        let files = frame::segments(&*storage).map_err(failure)?;
        let first = files
            .iter()
            .rposition(|(first, _)| first.0 <= after.0 + 1)
            .unwrap_or(0);
        let mut lengths = Vec::new();
        let mut bytes_total = 0;
        for (at, (_, name)) in files.iter().enumerate() {
            let length = storage
                .open(name)
                .and_then(|file| file.length())
                .map_err(failure)?;
            if at < first {
                lengths.push(length);
            } else {
                bytes_total += length;
            }
        }
        let (tip, tip_damage) = match Tip::read(&*storage, store_id) {
            Ok(tip) => (tip.map_or(0, |tip| tip.ts.0), None),
            Err(LogError::Damaged(damage)) => (0, Some(damage)),
            Err(error) => return Err(error),
        };
        let expect = files
            .get(first)
            .map_or(u64::MAX, |(first, _)| first.0)
            .min(after.0 + 1);
        Ok(LogReader {
            seed: frame::seed(store_id),
            at: first,
            first,
            after: after.0,
            bytes_read: 0,
            cut: None,
            damage: None,
            known_durable: 0,
            tip,
            tip_damage,
            rewrite: None,
            storage,
            store_id,
            on_damage,
            files,
            bytes_total,
            expect,
            lengths,
        })
    }

    /// Bytes of all files that have to be read, for a progress bar.
    pub fn bytes_total(&self) -> u64 {
        self.bytes_total
    }

    /// Bytes of the files that were read so far.
    pub fn bytes_read(&self) -> u64 {
        self.bytes_read
    }

    /// The next file that has blocks we need, checked, in order. `None` at the end of the log.
    ///
    /// # Errors
    /// [`LogError::Damaged`], [`LogError::NotALog`], [`LogError::NewerVersion`], [`LogError::OtherStore`],
    /// [`LogError::Storage`].
    pub fn next_segment(&mut self) -> Result<Option<Segment>, LogError> {
        while self.cut.is_none() && self.at < self.files.len() {
            let bytes = self.read(self.at)?;
            self.bytes_read += bytes.len() as u64;
            let mut blocks = Vec::new();
            let mut times = Vec::new();
            let name = self.files[self.at].1.clone();
            let mut end = bytes.len();
            let hole = match self.check_head(&bytes)? {
                None => self.walk(&bytes, &mut blocks, &mut times, &mut end),
                hole => hole,
            };
            match hole {
                Some((hole, sure)) => self.end_at(hole, sure, &bytes)?,
                None => {
                    let last = self.expect - 1;
                    if self.at + 1 == self.files.len() && last > self.known_durable.max(self.after) {
                        self.rewrite_last(&bytes[..end]);
                    }
                    self.lengths.push(end as u64);
                    self.at += 1;
                }
            }
            if !blocks.is_empty() || !times.is_empty() {
                return Ok(Some(Segment {
                    name,
                    bytes,
                    blocks,
                    times,
                }));
            }
        }
        Ok(None)
    }

    /// Where the log goes on; reads what was not read yet.
    ///
    /// # Errors
    /// As [`LogReader::next_segment`].
    pub fn end(&mut self) -> Result<LogEnd, LogError> {
        while self.next_segment()?.is_some() {}
        self.check_tip()?;
        let last = self.last();
        let mut end = LogEnd {
            last,
            ..LogEnd::default()
        };
        for (at, (first, name)) in self.files.iter().enumerate() {
            let kept = match self.cut {
                Some((file, length)) if at == file => Some(length),
                _ => self
                    .lengths
                    .get(at)
                    .copied()
                    .filter(|_| self.cut.is_none_or(|(file, _)| at < file)),
            };
            match kept {
                // A file without a block of its own would stand where the next one has to be made.
                Some(bytes) if *first <= last && bytes >= HEAD_BYTES as u64 => {
                    let next = self.files.get(at + 1).map_or(u64::MAX, |(next, _)| next.0 - 1);
                    end.segments.push(Closed {
                        name: name.clone(),
                        last: Ts(next).min(last),
                        bytes,
                        archived: false,
                    });
                }
                _ => end.remove.push(name.clone()),
            }
        }
        end.rewrite = self
            .rewrite
            .clone()
            .filter(|rewrite| end.segments.last().is_some_and(|last| last.name == rewrite.name));
        Ok(end)
    }

    /// What was broken, if anything: a torn end, or with [`OnDamage::Cut`] damage.
    pub fn damage(&self) -> Option<&Damage> {
        self.damage.as_ref()
    }

    fn rewrite_last(&mut self, bytes: &[u8]) {
        let name = self.files[self.at].1.clone();
        self.rewrite = Some(Rewrite {
            name,
            length: bytes.len(),
            sum: crc32fast::hash(bytes),
        });
    }

    fn last(&self) -> Ts {
        Ts((self.expect - 1).max(self.after))
    }

    fn path(&self, file: usize) -> String {
        format!("{}/{}", self.storage.place(), self.files[file].1)
    }

    fn read(&self, file: usize) -> Result<Vec<u8>, LogError> {
        let read = self
            .storage
            .open(&self.files[file].1)
            .and_then(|file| read_all(&*file));
        read.map_err(|error| LogError::Storage(Failure::new(format!("read {}", self.path(file)), &error)))
    }

    /// Checks the head of file `at` and that it follows the one before. A hole comes with whether it is damage for sure.
    fn check_head(&self, bytes: &[u8]) -> Result<Option<(Hole, bool)>, LogError> {
        let at = self.at;
        let (named, _) = self.files[at];
        let here = |what: &str| Hole {
            file: at,
            offset: 0,
            what: what.to_string(),
        };
        let first = match frame::read_head(bytes) {
            Head::Newer { version } => {
                return Err(LogError::NewerVersion {
                    file: self.path(at),
                    version,
                    known: frame::VERSION,
                });
            }
            Head::Good { store_id, .. } if store_id != self.store_id => {
                return Err(LogError::OtherStore {
                    file: self.path(at),
                    found: store_id,
                    wanted: self.store_id,
                });
            }
            Head::Foreign if self.on_damage == OnDamage::Refuse => {
                return Err(LogError::NotALog { file: self.path(at) });
            }
            Head::Foreign => return Ok(Some((here("its first bytes are not those of a log"), true))),
            Head::Broken => return Ok(Some((here("the checksum of its head is wrong"), true))),
            Head::Unwritten => return Ok(Some((here("its head was not written"), false))),
            Head::Good { first, .. } if first != named => {
                return Ok(Some((
                    here("it begins with another commit than its name says"),
                    true,
                )));
            }
            Head::Good { first, .. } => first.0,
        };
        if first < self.expect {
            return Ok(Some((
                here("it begins before the end of the segment before it"),
                true,
            )));
        }
        if first > self.expect && first > self.after + 1 {
            let what = format!(
                "commits {} to {} are missing",
                self.expect.max(self.after + 1),
                first - 1
            );
            let before = at.checked_sub(1).filter(|_| at > self.first);
            let hole = match before {
                Some(before) => Hole {
                    file: before,
                    offset: self.lengths[before],
                    what,
                },
                None => Hole {
                    file: at,
                    offset: 0,
                    what,
                },
            };
            return Ok(Some((hole, true)));
        }
        Ok(None)
    }

    /// Goes from frame to frame of file `at`, up to `end`, where there are no more.
    fn walk(
        &mut self,
        bytes: &[u8],
        blocks: &mut Vec<(Ts, Range<usize>)>,
        times: &mut Vec<(Ts, u64)>,
        end: &mut usize,
    ) -> Option<(Hole, bool)> {
        self.expect = self.files[self.at].0.0;
        let sums = Sums::new(bytes);
        let mut offset = HEAD_BYTES;
        // Zeros are written ahead of frames; none stands in the last of them that are none.
        let blank = bytes
            .iter()
            .rposition(|byte| *byte != 0)
            .map_or(0, |last| last + 1);
        while offset < bytes.len() {
            let expect = self.expect;
            match frame::frame_at(&sums, offset, self.seed, expect.saturating_sub(1), expect) {
                Some(frame) if frame.begins_at().0 == expect => {
                    if !frame.is_mark {
                        if frame.ts.0 > self.after {
                            blocks.push((frame.ts, frame.offset + frame::FRAME_BYTES..frame.end));
                        }
                        self.expect = frame.next_ts().0;
                    }
                    times.extend(frame.time.map(|time| (frame.ts, time)));
                    self.known_durable = self.known_durable.max(frame.durable.0);
                    offset = frame.end;
                }
                _ if offset >= blank => {
                    *end = offset;
                    break;
                }
                _ => match frame::search(&sums, offset + 1, self.seed, expect, 0) {
                    // The checkpoint has what is missing.
                    Some(frame) if frame.begins_at().0 <= self.after + 1 => {
                        self.expect = frame.begins_at().0;
                        offset = frame.offset;
                    }
                    // Nothing is missing: the last mark of a segment is not synced before the next one is made.
                    None if self
                        .files
                        .get(self.at + 1)
                        .is_some_and(|(next, _)| next.0 == expect) =>
                    {
                        break;
                    }
                    _ => {
                        let what = format!("no whole block of commit {expect} is there");
                        return Some((
                            Hole {
                                file: self.at,
                                offset: offset as u64,
                                what,
                            },
                            false,
                        ));
                    }
                },
            }
        }
        None
    }

    /// Ends the log at a hole, or refuses. `bytes` are those of file `at`.
    fn end_at(&mut self, hole: Hole, sure: bool, bytes: &[u8]) -> Result<(), LogError> {
        let first_lost = self.expect.max(self.after + 1);
        let mut last_known = 0;
        let known_by = self.was_durable(first_lost, hole.offset, bytes, &mut last_known)?;
        let is_damage = known_by || sure || first_lost <= self.tip;
        last_known = last_known.max(self.tip);
        let damage = Damage {
            file: self.path(hole.file),
            offset: hole.offset,
            first_lost: Ts(first_lost),
            last_known: Ts(last_known),
            torn_tail: !is_damage,
            what: hole.what,
        };
        if is_damage && self.on_damage == OnDamage::Refuse {
            return Err(LogError::Damaged(damage));
        }
        // A file that had a successor is durable as it is.
        if hole.file == self.at {
            self.rewrite_last(&bytes[..hole.offset as usize]);
        }
        self.cut = Some((hole.file, hole.offset));
        self.expect = first_lost;
        self.damage = Some(damage);
        Ok(())
    }

    /// Whether the log is as long as it was known to be.
    fn check_tip(&mut self) -> Result<(), LogError> {
        let last = self.last();
        let damage = match self.tip_damage.take() {
            Some(damage) => Damage {
                first_lost: last.next(),
                ..damage
            },
            None if self.damage.is_none() && last.0 < self.tip => {
                let missing = frame::segment_name(last.next());
                let before = self.files.last().map(|(_, name)| name);
                Damage {
                    file: format!("{}/{missing}", self.storage.place()),
                    offset: 0,
                    first_lost: last.next(),
                    last_known: Ts(self.tip),
                    torn_tail: false,
                    what: before.map_or("it is missing".to_owned(), |before| {
                        format!("it is missing, or {before} was cut")
                    }),
                }
            }
            None => return Ok(()),
        };
        if self.on_damage == OnDamage::Refuse {
            return Err(LogError::Damaged(damage));
        }
        self.damage.get_or_insert(damage);
        Ok(())
    }

    /// Whether anything from `offset` of file `at` on says that commit `lost` was durable. `last_known`: the newest commit
    /// seen on the way.
    fn was_durable(
        &self,
        lost: u64,
        offset: u64,
        bytes: &[u8],
        last_known: &mut u64,
    ) -> Result<bool, LogError> {
        // A hole at the end of the file before this one was found by this one's head.
        let mut from = offset.min(bytes.len() as u64) as usize;
        let mut before = 0;
        let mut later: Vec<u8>;
        let mut bytes = bytes;
        for file in self.at.. {
            if let Head::Good { store_id, first } = frame::read_head(bytes)
                && store_id == self.store_id
                && first.0 > lost
            {
                *last_known = (*last_known).max(first.0 - 1);
                return Ok(true);
            }
            let sums = Sums::new(bytes);
            while let Some(frame) = frame::search(&sums, from, self.seed, lost, before) {
                *last_known = (*last_known).max(frame.ts.0);
                if frame.durable.0 >= lost {
                    return Ok(true);
                }
                from = frame.end;
            }
            if file + 1 == self.files.len() {
                break;
            }
            before += bytes.len() as u64;
            later = self.read(file + 1)?;
            bytes = &later;
            from = 0;
        }
        Ok(false)
    }
}
