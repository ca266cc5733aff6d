//! [`LogTail`]: reads the log of a store that another process has open, as it grows.
//!
//! ```text
//!   find the segment of the next commit ─► frames from where the last look ended ─► a half one: later ─► the next segment, if it is there
//! ```
//!
//! It hands out a commit only once the log itself says that it was durable: so nothing that it has read can be taken back by a crash of the
//! store. It changes nothing in the folder, and needs no lock. What it is not: the replay of the blocks.

use std::collections::VecDeque;
use std::io::{self, ErrorKind};
use std::sync::Arc;

use super::frame::{self, FRAME_BYTES, HEAD_BYTES, Head};
use super::sums::Sums;
use super::{Failure, LogError, Storage};
use crate::storage::{StorageFile, read_exact_at, read_up_to};
use crate::ts::Ts;

/// Bytes that are read at a time, unless a frame is longer: behind the frames there are zeros that nobody needs. Unmeasured.
const LOOK_BYTES: u64 = 64 << 10;

/// Reads a growing log. See the module.
pub(crate) struct LogTail {
    storage: Arc<dyn Storage>,
    store_id: u64,
    seed: u32,
    /// The next commit that is wanted.
    expect: Ts,
    at: Option<At>,
    /// Commits that were read, and may not be durable.
    read: VecDeque<(Ts, Vec<u8>)>,
    /// The newest commit of which the log says that it is durable.
    durable: Ts,
}

/// A place in a segment.
struct At {
    name: String,
    /// The segment's first commit.
    first: Ts,
    file: Arc<dyn StorageFile>,
    offset: u64,
    /// The commit whose frame stands there.
    next: Ts,
}

impl At {
    /// The bytes from here on, `most` of them at most.
    fn bytes(&self, most: u64) -> io::Result<Vec<u8>> {
        let left = self.file.length()?.saturating_sub(self.offset);
        let mut bytes = vec![0; left.min(most) as usize];
        // Zeros at its end may be cut off meanwhile.
        let read = read_up_to(&*self.file, self.offset, &mut bytes)?;
        bytes.truncate(read);
        Ok(bytes)
    }
}

/// What a look at the log found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Look {
    /// It was read as far as it goes.
    End,
    /// So it was, and there is no segment now: a checkpoint has all that was committed.
    NoLog,
    /// The next commit is in no segment any more.
    Gone,
}

impl LogTail {
    /// Of store `store_id`, from behind the commit `after` on.
    pub(crate) fn new(storage: Arc<dyn Storage>, store_id: u64, after: Ts) -> LogTail {
        LogTail {
            storage,
            store_id,
            seed: frame::seed(store_id),
            expect: after.next(),
            at: None,
            read: VecDeque::new(),
            durable: after,
        }
    }

    /// The newest commit of which the log says that it is durable, as far as it was read.
    pub(crate) fn durable(&self) -> Ts {
        self.durable
    }

    /// The next commit, if it is durable: its number and its block.
    pub(crate) fn next(&mut self) -> Option<(Ts, Vec<u8>)> {
        let (ts, _) = self.read.front()?;
        if *ts > self.durable {
            return None;
        }
        self.read.pop_front()
    }

    /// Reads what the log has more.
    ///
    /// # Errors
    /// Files that cannot be read; segments of another store or of a newer format.
    pub(crate) fn look(&mut self) -> Result<Look, LogError> {
        loop {
            let Some(mut at) = self.at.take() else {
                // The segment in which the next commit is, or will be.
                let segments = self.segments()?;
                let Some((first, name)) = segments.iter().rfind(|(first, _)| *first <= self.expect) else {
                    // There is no log now, or one that begins too late.
                    return Ok(if segments.is_empty() {
                        Look::NoLog
                    } else {
                        Look::Gone
                    });
                };
                // Where it was removed meanwhile, another look shows what is there.
                self.at = self.open(name, *first)?;
                continue;
            };
            // Before it is read: where there is a newer one, or none any more, it is whole.
            let segments = self.segments()?;
            let is_none = segments.is_empty();
            let newer = segments.into_iter().find(|(first, _)| *first > at.first);
            self.read_on(&mut at)?;
            let next = match newer {
                Some((first, name)) if first <= at.next => {
                    // A segment is made only once the one before is on disk.
                    self.durable = self.durable.max(Ts(first.0 - 1));
                    // After a crash the store may have cut off commits that were read here: others have their numbers now.
                    self.read.retain(|(ts, _)| *ts < first);
                    self.expect = self.expect.min(first);
                    self.open(&name, first)?
                }
                // Those between the two were removed before they were read.
                Some(_) => {
                    self.at = Some(at);
                    return Ok(Look::Gone);
                }
                None => None,
            };
            let moved = next.is_some();
            self.at = next.or(Some(at));
            if !moved {
                return Ok(if is_none { Look::NoLog } else { Look::End });
            }
        }
    }

    fn segments(&self) -> Result<Vec<(Ts, String)>, LogError> {
        frame::segments(&*self.storage).map_err(|error| self.failure("list", "the log", &error))
    }

    /// Opens a segment; none if there is none of that name.
    fn open(&self, name: &str, first: Ts) -> Result<Option<At>, LogError> {
        let file = match self.storage.open(name) {
            Ok(file) => file,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(self.failure("open", name, &error)),
        };
        let mut head = [0; HEAD_BYTES];
        read_exact_at(&*file, 0, &mut head).map_err(|error| self.failure("read", name, &error))?;
        let path = format!("{}/{name}", self.storage.place());
        match frame::read_head(&head) {
            Head::Good {
                store_id,
                first: found,
            } if store_id == self.store_id && found == first => {}
            Head::Good { store_id, .. } if store_id != self.store_id => {
                return Err(LogError::OtherStore {
                    file: path,
                    found: store_id,
                    wanted: self.store_id,
                });
            }
            Head::Newer { version } => {
                return Err(LogError::NewerVersion {
                    file: path,
                    version,
                    known: frame::VERSION,
                });
            }
            _ => return Err(LogError::NotALog { file: path }),
        }
        Ok(Some(At {
            name: name.to_owned(),
            first,
            file,
            offset: HEAD_BYTES as u64,
            next: first,
        }))
    }

    /// Takes the whole frames behind a place.
    fn read_on(&mut self, at: &mut At) -> Result<(), LogError> {
        let mut wanted = LOOK_BYTES;
        loop {
            let bytes = at
                .bytes(wanted)
                .map_err(|error| self.failure("read", &at.name, &error))?;
            let end = self.take_frames(at, &bytes);
            at.offset += end as u64;
            let rest = &bytes[end..];
            wanted = match frame::length_of(rest, at.next) {
                // There may be more behind what was read.
                _ if end > 0 => LOOK_BYTES,
                Some(length) if length > rest.len() && bytes.len() as u64 == wanted => length as u64,
                _ => return Ok(()),
            };
        }
    }

    /// Takes the whole frames that bytes from a place on begin with; returns where they end.
    fn take_frames(&mut self, at: &mut At, bytes: &[u8]) -> usize {
        let sums = Sums::new(bytes);
        let mut end = 0;
        while let Some(frame) = frame::frame_at(&sums, end, self.seed, at.next.0 - 1, at.next.0) {
            if frame.begins_at() != at.next {
                break;
            }
            if !frame.is_mark {
                if frame.ts == self.expect {
                    let block = bytes[end + FRAME_BYTES..frame.end].to_vec();
                    self.read.push_back((frame.ts, block));
                    self.expect = frame.next_ts();
                }
                at.next = frame.next_ts();
            }
            self.durable = self.durable.max(frame.durable);
            end = frame.end;
        }
        end
    }

    fn failure(&self, what: &str, name: &str, error: &io::Error) -> LogError {
        LogError::Storage(Failure::new(
            format!("{what} {}/{name}", self.storage.place()),
            error,
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::storage::Twin;

    const STORE: u64 = 7;

    fn put(disk: &Twin, first: u64, frames: &[(u64, u64, &str)]) {
        let mut bytes = frame::segment_head(STORE, Ts(first), false).to_vec();
        let seed = frame::seed(STORE);
        for (ts, durable, payload) in frames {
            let sum = frame::payload_sum(seed, payload.as_bytes());
            frame::push_head(&mut bytes, sum, payload.len(), Ts(*ts), Ts(*durable));
            bytes.extend_from_slice(payload.as_bytes());
        }
        disk.put(&frame::segment_name(Ts(first)), &bytes);
    }

    fn tail(disk: &Twin, after: u64) -> LogTail {
        LogTail::new(Arc::new(disk.clone()), STORE, Ts(after))
    }

    fn read(tail: &mut LogTail) -> Vec<(u64, String)> {
        let next = || {
            tail.next()
                .map(|(ts, block)| (ts.0, String::from_utf8(block).unwrap()))
        };
        std::iter::from_fn(next).collect()
    }

    fn all(of: &[(u64, &str)]) -> Vec<(u64, String)> {
        of.iter().map(|(ts, text)| (*ts, (*text).to_owned())).collect()
    }

    #[test]
    fn segments_that_were_removed_unread_are_gone() {
        let disk = Twin::new(1);
        let mut tail = tail(&disk, 0);
        put(&disk, 1, &[(1, 0, "a"), (2, 1, "b")]);
        assert_eq!(tail.look().unwrap(), Look::End);
        put(&disk, 3, &[(3, 2, "c")]);
        put(&disk, 4, &[(4, 3, "d")]);
        disk.remove(&frame::segment_name(Ts(1))).unwrap();
        disk.remove(&frame::segment_name(Ts(3))).unwrap();
        assert_eq!(tail.look().unwrap(), Look::Gone);
    }

    #[test]
    fn only_what_is_durable_is_handed_out() {
        let disk = Twin::new(1);
        let mut tail = tail(&disk, 0);
        assert_eq!(tail.look().unwrap(), Look::NoLog);
        put(&disk, 1, &[(1, 0, "a"), (2, 0, "b"), (3, 1, "c")]);
        assert_eq!(tail.look().unwrap(), Look::End);
        assert_eq!(read(&mut tail), all(&[(1, "a")]));
        // A new segment says that all before it is on disk.
        put(&disk, 4, &[]);
        assert_eq!(tail.look().unwrap(), Look::End);
        assert_eq!(read(&mut tail), all(&[(2, "b"), (3, "c")]));
        assert_eq!(tail.durable(), Ts(3));
    }

    #[test]
    fn what_a_crash_cut_off_is_forgotten() {
        let disk = Twin::new(2);
        let mut tail = tail(&disk, 0);
        put(
            &disk,
            1,
            &[(1, 0, "a"), (2, 1, "b"), (3, 1, "lost"), (4, 1, "lost, too")],
        );
        tail.look().unwrap();
        assert_eq!(read(&mut tail), all(&[(1, "a")]));
        put(&disk, 1, &[(1, 0, "a"), (2, 1, "b")]);
        put(&disk, 3, &[(3, 2, "c"), (4, 3, "d"), (5, 4, "e")]);
        assert_eq!(tail.look().unwrap(), Look::End);
        assert_eq!(read(&mut tail), all(&[(2, "b"), (3, "c"), (4, "d")]));
    }

    #[test]
    fn log_that_is_gone_is_said_to_be() {
        let disk = Twin::new(3);
        put(&disk, 5, &[(5, 4, "e"), (6, 5, "f")]);
        assert_eq!(tail(&disk, 3).look().unwrap(), Look::Gone);
        let mut later = tail(&disk, 5);
        assert_eq!(later.look().unwrap(), Look::End);
        assert_eq!(read(&mut later), [], "nothing says yet that commit 6 is on disk");
        let mut other = LogTail::new(Arc::new(disk.clone()), STORE + 1, Ts(4));
        assert!(matches!(other.look(), Err(LogError::OtherStore { .. })));
    }
}
