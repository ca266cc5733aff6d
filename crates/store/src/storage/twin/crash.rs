//! What a power failure leaves of a disk: [`crash`].
//!
//! For each file one of several fates is drawn: nothing unsynced arrived, all of it, a prefix torn at a sector, or any
//! subset of sectors with the length already grown (the rest reads as zeros). Names that were not synced arrive all, as a
//! prefix, or as any subset. What it is not: random in itself; the same disk and seed give the same result.

use std::collections::BTreeMap;

use super::disk::{Change, Disk, FileId, FileState, apply, apply_name};

/// What a disk writes whole or not at all, in bytes.
const SECTOR: usize = 512;

/// Random numbers from a seed (splitmix64).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut word = self.0;
        word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        word ^ (word >> 31)
    }

    /// Evenly below `end`, which is not 0.
    fn below(&mut self, end: usize) -> usize {
        (self.next() % end as u64) as usize
    }
}

/// The disk as a restart finds it.
pub(super) fn crash(disk: &Disk, seed: u64) -> Disk {
    let mut random = Random(seed);
    let mut after = Disk::default();
    for (name, id) in names_left(disk, &mut random) {
        let content = content_left(disk.file(id), &mut random);
        after.put(&name, &content);
    }
    after
}

fn names_left(disk: &Disk, random: &mut Random) -> BTreeMap<String, FileId> {
    let mut names = disk.durable_names.clone();
    let pending = &disk.pending_names;
    let prefix = random.below(pending.len() + 1);
    let fate = random.below(4);
    for (at, change) in pending.iter().enumerate() {
        let arrives = match fate {
            0 => true,
            1 => at < prefix,
            2 => random.below(2) == 0,
            _ => false,
        };
        if arrives {
            apply_name(&mut names, change);
        }
    }
    names
}

fn content_left(file: &FileState, random: &mut Random) -> Vec<u8> {
    let mut content = file.durable.clone();
    let count = file.pending.len();
    let (arrived, keep_percent) = match random.below(5) {
        0 => return content,
        1 => (count, 100),
        2 => (random.below(count + 1), 100),
        3 => (random.below(count + 1), 50),
        _ => (count, 90),
    };
    for (at, change) in file.pending[..arrived].iter().enumerate() {
        match change {
            Change::Write { offset, bytes }
                if keep_percent == 100 && at + 1 == arrived && arrived < count =>
            {
                // The last one is torn at a sector.
                let end = offset + random.below(bytes.len() + 1);
                let end = (end / SECTOR * SECTOR).max(*offset);
                apply(
                    &mut content,
                    &Change::Write {
                        offset: *offset,
                        bytes: bytes[..end - offset].to_vec(),
                    },
                );
            }
            Change::Write { offset, bytes } if keep_percent < 100 => {
                let end = offset + bytes.len();
                let mut from = *offset;
                if content.len() < end {
                    content.resize(end, 0);
                }
                while from < end {
                    let to = ((from / SECTOR + 1) * SECTOR).min(end);
                    if random.below(100) < keep_percent {
                        content[from..to].copy_from_slice(&bytes[from - offset..to - offset]);
                    }
                    from = to;
                }
            }
            change => apply(&mut content, change),
        }
    }
    content
}
