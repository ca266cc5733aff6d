//! [`CheckpointMap`]: which chunks of which files make up the checkpoint in force, and what the next one has to write.
//!
//! ```text
//!             file 1        file 2        file 3          a file each checkpoint, named by its commit
//!   range 0   whole         .             .               unchanged since: costs nothing
//!   range 1   (dead)        whole         delta           a few rows changed since file 2
//!   range 2   whole         (dead)        delta to whole  its deltas were many, and are one now
//! ```
//!
//! A file whose chunks are mostly dead is emptied by the next checkpoint, which writes what is left of it again; files without a live chunk
//! are removed. So the files together have at most about twice the bytes of the rows, and there are few of them.
//!
//! What it is not: it reads and writes nothing.

use std::collections::{BTreeMap, HashMap, HashSet};

use super::chunk::{ChunkName, Role};
use super::manifest::CheckpointFile;
use crate::ts::Ts;

/// Deltas of a range before they are made one. Unmeasured.
const DELTAS_MAX: usize = 8;
/// Files before the one with the fewest live bytes is emptied. Unmeasured.
const FILES_MAX: usize = 64;
/// What a chunk costs besides its bytes, about.
const CHUNK_BYTES: u64 = 32;

/// What the next checkpoint has to say of a range.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) enum Need {
    /// Nothing: what is written holds.
    Nothing,
    /// All of it.
    Whole,
    /// What has changed behind `since`, as a chunk of this role; all of it if that is less in the long run.
    Changes { role: Role, since: Ts },
}

/// Where a chunk is, and how long it is.
#[derive(Copy, Clone, Debug)]
struct Chunk {
    file: Ts,
    bytes: u64,
}

#[derive(Clone, Debug)]
struct Range {
    whole: Chunk,
    deltas: Vec<Chunk>,
}

impl Range {
    fn chunks(&self) -> impl Iterator<Item = &Chunk> {
        std::iter::once(&self.whole).chain(&self.deltas)
    }
}

/// The chunks in force. See the module.
#[derive(Clone, Debug, Default)]
pub(crate) struct CheckpointMap {
    /// The commits up to here are in it.
    ts: Ts,
    files: Vec<CheckpointFile>,
    /// Bytes of the chunks of each file, dead ones included.
    written: HashMap<Ts, u64>,
    /// By table and range.
    ranges: BTreeMap<(u32, u32), Range>,
}

impl CheckpointMap {
    /// Takes a file in, which is newer than those before.
    pub(crate) fn add_file(&mut self, file: CheckpointFile) {
        self.ts = file.ts;
        self.files.push(file);
    }

    /// The newest file has become so long.
    pub(crate) fn set_newest_bytes(&mut self, bytes: u64) {
        if let Some(newest) = self.files.last_mut() {
            newest.bytes = bytes;
        }
    }

    /// Takes a chunk of the newest file in. False if it stands on a chunk that is not there.
    #[must_use]
    pub(crate) fn add_chunk(&mut self, name: ChunkName, bytes: u64) -> bool {
        let chunk = Chunk { file: self.ts, bytes };
        *self.written.entry(self.ts).or_default() += bytes + CHUNK_BYTES;
        let range = self.ranges.get_mut(&(name.table, name.range));
        match (name.role, range) {
            (Role::Whole, _) => {
                let range = Range {
                    whole: chunk,
                    deltas: Vec::new(),
                };
                self.ranges.insert((name.table, name.range), range);
            }
            (_, None) => return false,
            (Role::Delta, Some(range)) => range.deltas.push(chunk),
            (Role::DeltaToWhole, Some(range)) => range.deltas = vec![chunk],
        }
        true
    }

    /// Forgets tables that are not there any more.
    pub(crate) fn keep_tables(&mut self, is_there: impl Fn(u32) -> bool) {
        self.ranges.retain(|(table, _), _| is_there(*table));
    }

    /// Forgets files without a live chunk, but the newest, which has the catalog. Returns the others, the oldest first.
    pub(crate) fn keep_files(&mut self) -> Vec<CheckpointFile> {
        let live = self.live();
        let newest = self.ts;
        self.files
            .retain(|file| file.ts == newest || live.contains_key(&file.ts));
        self.written
            .retain(|ts, _| *ts == newest || live.contains_key(ts));
        self.files.clone()
    }

    /// Its files, the oldest first.
    pub(crate) fn files(&self) -> &[CheckpointFile] {
        &self.files
    }

    /// The commits up to here are in it.
    pub(crate) fn ts(&self) -> Ts {
        self.ts
    }

    /// Ranges of a table that were ever written lie below.
    pub(crate) fn ranges_of(&self, table: u32) -> u32 {
        let last = self.ranges.range((table, 0)..=(table, u32::MAX)).next_back();
        last.map_or(0, |((_, range), _)| range + 1)
    }

    /// Whether a range was ever written.
    pub(crate) fn has(&self, table: u32, range: u32) -> bool {
        self.ranges.contains_key(&(table, range))
    }

    fn live(&self) -> BTreeMap<Ts, u64> {
        let mut live = BTreeMap::new();
        for chunk in self.ranges.values().flat_map(Range::chunks) {
            *live.entry(chunk.file).or_default() += chunk.bytes + CHUNK_BYTES;
        }
        live
    }

    /// Files that the next checkpoint empties.
    pub(crate) fn emptied(&self) -> HashSet<Ts> {
        let live = self.live();
        let of = |file: &CheckpointFile| live.get(&file.ts).copied().unwrap_or(0);
        let written = |file: &CheckpointFile| self.written.get(&file.ts).copied().unwrap_or(0);
        let mostly_dead = self.files.iter().filter(|file| of(file) < written(file) / 2);
        let mut emptied: HashSet<Ts> = mostly_dead.map(|file| file.ts).collect();
        if self.files.len() - emptied.len() >= FILES_MAX {
            let left = self.files.iter().filter(|file| !emptied.contains(&file.ts));
            let least = left.min_by_key(|file| of(file)).map(|file| file.ts);
            emptied.extend(least);
        }
        emptied
    }

    /// What the next checkpoint has to say of a range; `changed`: since this one.
    pub(crate) fn need(&self, table: u32, range: u32, changed: bool, emptied: &HashSet<Ts>) -> Need {
        let Some(known) = self.ranges.get(&(table, range)) else {
            // Empty, if nothing has changed.
            return if changed { Need::Whole } else { Need::Nothing };
        };
        let moves = |chunk: &Chunk| emptied.contains(&chunk.file);
        if moves(&known.whole) {
            Need::Whole
        } else if known.deltas.iter().any(moves) || changed && known.deltas.len() >= DELTAS_MAX {
            Need::Changes {
                role: Role::DeltaToWhole,
                since: known.whole.file,
            }
        } else if changed {
            Need::Changes {
                role: Role::Delta,
                since: self.ts,
            }
        } else {
            Need::Nothing
        }
    }

    /// Whether a range that needs changes is better written as a whole of `whole` bytes, since its deltas would be too long with one more of
    /// `delta` bytes: a quarter to a half of the whole, by range, so that ranges that change alike do not all become too long at once.
    pub(crate) fn is_whole_better(&self, table: u32, range: u32, role: Role, whole: u64, delta: u64) -> bool {
        let known = self.ranges.get(&(table, range));
        let deltas = known
            .filter(|_| role == Role::Delta)
            .map_or(0, |known| known.deltas.iter().map(|chunk| chunk.bytes).sum());
        let spread = u64::from(range.wrapping_mul(0x9E37_79B9) >> 26);
        (deltas + delta) * 256 > whole * (64 + spread)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(ts: u64, bytes: u64) -> CheckpointFile {
        CheckpointFile {
            name: format!("file {ts}"),
            ts: Ts(ts),
            bytes,
        }
    }

    fn chunk(range: u32, role: Role) -> ChunkName {
        ChunkName {
            table: 1,
            range,
            role,
        }
    }

    #[test]
    fn a_range_is_written_when_it_has_changed() {
        let mut map = CheckpointMap::default();
        let none = HashSet::new();
        assert_eq!(map.need(1, 0, false, &none), Need::Nothing);
        assert_eq!(map.need(1, 0, true, &none), Need::Whole);
        map.add_file(file(5, 100));
        assert!(map.add_chunk(chunk(0, Role::Whole), 100));
        assert!(!map.add_chunk(chunk(1, Role::Delta), 10), "it stands on nothing");
        assert_eq!(map.need(1, 0, false, &none), Need::Nothing);
        let since = |role, ts| Need::Changes { role, since: Ts(ts) };
        assert_eq!(map.need(1, 0, true, &none), since(Role::Delta, 5));
        for ts in 6..14 {
            map.add_file(file(ts, 10));
            assert!(map.add_chunk(chunk(0, Role::Delta), 1));
        }
        assert_eq!(map.need(1, 0, true, &none), since(Role::DeltaToWhole, 5));
        assert_eq!(map.need(1, 0, false, &none), Need::Nothing);
        assert_eq!(
            map.need(1, 0, false, &[Ts(7)].into()),
            since(Role::DeltaToWhole, 5)
        );
        assert_eq!(map.need(1, 0, false, &[Ts(5)].into()), Need::Whole);
        map.add_file(file(20, 10));
        assert!(map.add_chunk(chunk(0, Role::DeltaToWhole), 5));
        assert_eq!(map.keep_files(), [file(5, 100), file(20, 10)]);
    }

    #[test]
    fn long_deltas_become_a_whole_and_not_all_at_once() {
        let mut map = CheckpointMap::default();
        map.add_file(file(1, 100_000));
        let wholes = |delta| {
            let better = (0..100).filter(|&range| map.is_whole_better(1, range, Role::Delta, 1000, delta));
            better.count()
        };
        assert_eq!((wholes(249), wholes(500)), (0, 100));
        assert!((30..70).contains(&wholes(375)), "{}", wholes(375));
    }

    #[test]
    fn files_of_dead_chunks_are_emptied_and_go() {
        let mut map = CheckpointMap::default();
        map.add_file(file(1, 1000));
        for range in 0..10 {
            assert!(map.add_chunk(chunk(range, Role::Whole), 100));
        }
        assert!(map.emptied().is_empty());
        map.add_file(file(2, 700));
        for range in 0..7 {
            assert!(map.add_chunk(chunk(range, Role::Whole), 100));
        }
        assert_eq!(map.emptied(), [Ts(1)].into());
        map.add_file(file(3, 300));
        for range in 7..10 {
            assert!(map.add_chunk(chunk(range, Role::Whole), 100));
        }
        assert_eq!(map.keep_files(), [file(2, 700), file(3, 300)]);
        assert_eq!((map.ranges_of(1), map.ranges_of(2)), (10, 0));
        map.keep_tables(|table| table != 1);
        assert_eq!(map.keep_files(), [file(3, 300)]);
    }

    #[test]
    fn there_are_never_many_files() {
        let mut map = CheckpointMap::default();
        for ts in 1..=FILES_MAX as u64 {
            map.add_file(file(ts, 100));
            assert!(map.add_chunk(chunk(ts as u32, Role::Whole), 100 + ts));
        }
        assert_eq!(map.emptied(), [Ts(1)].into());
    }
}
