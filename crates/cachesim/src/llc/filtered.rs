//! [`Filter`]: what of a program's accesses gets past the first level of caches of its core, kept as it comes; [`Filtered`]: that, as a
//! source for [`super::Domain`].
//!
//! ```text
//!   every access ──▶ L1-I, L1-D ──▶ misses, each with the instructions before it        8 bytes a miss, a hundredth of the accesses
//!                                     │
//!                                     ▼ placed(owner)
//!                    private pages: physical pages of this owner        shared pages and code: the same physical pages for everybody
//! ```
//!
//! Order of calls: [`Filter::new`], [`Filter::line`] or [`Filter::access`] for every access, [`Filter::finish`]; then [`Filtered::placed`]
//! for each process that is to run it. Two owners of one recording are two processes that run the same query: what is private to the
//! process lies elsewhere for each, what they share (the buffer pool, the program's text) they share in the shared cache too.
//!
//! A miss next to one of the last few is taken to be fetched ahead, as stream prefetchers do: nobody waits for its full latency.
//! It is still counted. Pages are spread over physical memory by a fixed one-to-one mix, as a system that has run for a while hands
//! them out; so two structures that are each contiguous do not share sets in step.
//!
//! Not here: the shared cache; write-backs; the time between two misses, of which only the instructions are known.

use corun_model::operators::trace::{Access, Event, ThreadRole};

use super::Source;
use crate::cache::{Geometry, SetAssociative};
use crate::private_caches::lackey;
use crate::private_caches::touch::Use;

const LINE_SHIFT: u32 = 6;
/// Lines of a page, as a power of two.
const PAGE_SHIFT: u32 = 6;
/// Lines of an address of 48 bits.
const LINE_BITS: u32 = 42;
const PAGE_BITS: u32 = LINE_BITS - PAGE_SHIFT;
/// Most processes that run side by side: their number stands above the page's.
pub const OWNERS_MAX: u8 = 14;
/// Bits of a physical page's number: page and owner.
const PHYSICAL_BITS: u32 = PAGE_BITS + 4;
const PRIVATE: u64 = 1 << LINE_BITS;
/// Whether somebody waits for the line.
const WAITED: u64 = 1 << (LINE_BITS + 1);
const GAP_SHIFT: u32 = LINE_BITS + 2;
/// Most instructions between two misses that are kept.
const GAP_MAX: u64 = u64::MAX >> GAP_SHIFT;
/// Most misses of one recording: 512 MiB of memory.
pub const MISSES_MAX: usize = 64 << 20;
/// How many streams a prefetcher follows.
const STREAMS: usize = 16;
/// How many lines on it looks.
const AHEAD: u64 = 2;

/// First-level caches, and what missed them so far.
#[derive(Clone, Debug)]
pub struct Filter {
    code: SetAssociative,
    data: SetAssociative,
    last_code: Option<u64>,
    recent: [u64; STREAMS],
    oldest: usize,
    gap: u64,
    misses: Vec<u64>,
    overflow: bool,
}

/// More misses than can be kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("misses the first level of caches more than {MISSES_MAX} times, which is more than is kept")]
pub struct TooMany;

impl Filter {
    /// Empty caches of lines of 64 bytes.
    pub fn new(code: Geometry, data: Geometry) -> Filter {
        Filter {
            code: SetAssociative::new(code),
            data: SetAssociative::new(data),
            last_code: None,
            recent: [u64::MAX; STREAMS],
            oldest: 0,
            gap: 0,
            misses: Vec::new(),
            overflow: false,
        }
    }

    /// Takes one line of lackey's. Others are passed over: the program's own words.
    pub fn line(&mut self, text: &[u8]) {
        let Some((what, lines)) = lackey::access(text) else {
            return;
        };
        if what == Use::Fetch {
            self.gap += 1;
        }
        for line in lines {
            self.access(what, line);
        }
    }

    /// Takes one access to a line; instructions are counted by [`Filter::line`] only.
    pub fn access(&mut self, what: Use, line: u64) {
        let line = line & (PRIVATE - 1);
        let hit = match what {
            Use::Fetch if self.last_code.replace(line) == Some(line) => return,
            Use::Fetch => self.code.access(line << LINE_SHIFT),
            Use::Load | Use::Store => self.data.access(line << LINE_SHIFT),
        };
        if hit {
            return;
        }
        let streams = what != Use::Fetch && self.follows(line);
        if self.misses.len() == MISSES_MAX {
            self.overflow = true;
            return;
        }
        let waited = if what == Use::Store || streams { 0 } else { WAITED };
        self.misses
            .push(line | waited | self.gap.min(GAP_MAX) << GAP_SHIFT);
        self.gap = 0;
    }

    /// Whether a line is next to one that was missed lately, of the same page of 4 KiB.
    fn follows(&mut self, line: u64) -> bool {
        let near =
            |&before: &u64| before.abs_diff(line) <= AHEAD && before >> PAGE_SHIFT == line >> PAGE_SHIFT;
        let stream = self.recent.iter().position(near);
        let slot = stream.unwrap_or(self.oldest);
        if stream.is_none() {
            self.oldest = (self.oldest + 1) % STREAMS;
        }
        self.recent[slot] = line;
        stream.is_some()
    }

    /// What missed; `is_private` says of a line whether it is the process's own.
    ///
    /// # Errors
    /// When there was more than can be kept.
    pub fn finish(mut self, is_private: impl Fn(u64) -> bool) -> Result<Filtered, TooMany> {
        if self.overflow {
            return Err(TooMany);
        }
        for miss in &mut self.misses {
            if is_private(*miss & (PRIVATE - 1)) {
                *miss |= PRIVATE;
            }
        }
        Ok(Filtered { misses: self.misses })
    }
}

/// What got past the first level.
#[derive(Clone, Debug, Default)]
pub struct Filtered {
    misses: Vec<u64>,
}

impl Filtered {
    /// How many misses.
    pub fn misses(&self) -> usize {
        self.misses.len()
    }

    /// Instructions up to the last miss.
    pub fn instructions(&self) -> u64 {
        self.misses.iter().map(|miss| miss >> GAP_SHIFT).sum()
    }

    /// Bytes of the lines that are the process's own, each counted once.
    pub fn private_bytes(&self) -> u64 {
        let own = self.misses.iter().filter(|&&miss| miss & PRIVATE != 0);
        let mut lines: Vec<u64> = own.map(|miss| miss & (PRIVATE - 1)).collect();
        lines.sort_unstable();
        lines.dedup();
        (lines.len() as u64) << LINE_SHIFT
    }

    /// The part after the last miss of a line that `is` says yes to; all of it if there is none.
    pub fn after_last(mut self, is: impl Fn(u64) -> bool) -> Filtered {
        let last = self.misses.iter().rposition(|miss| is(miss & (PRIVATE - 1)));
        Filtered {
            misses: self.misses.split_off(last.map_or(0, |last| last + 1)),
        }
    }

    /// The same as process number `owner`, below [`OWNERS_MAX`], makes it.
    pub fn placed(&self, owner: u8) -> Placed<'_> {
        Placed {
            filtered: self,
            owner: owner.min(OWNERS_MAX - 1),
        }
    }
}

/// A recording at physical addresses. Nobody waits for what is a store here: a store, or a line that a prefetcher sees coming.
#[derive(Clone, Copy, Debug)]
pub struct Placed<'f> {
    filtered: &'f Filtered,
    owner: u8,
}

impl Source for Placed<'_> {
    fn events(&self) -> Box<dyn Iterator<Item = Event> + '_> {
        let own = u64::from(self.owner) + 1;
        Box::new(self.filtered.misses.iter().map(move |&miss| Event {
            role: ThreadRole::Worker(0),
            access: match miss & WAITED {
                0 => Access::Store,
                _ => Access::Load,
            },
            address: physical(miss & (PRIVATE - 1), if miss & PRIVATE == 0 { 0 } else { own }),
            bytes: 1,
        }))
    }
}

/// The physical address of a line of an owner: pages mixed one to one, by multiplications with odd numbers and shifts that can be undone.
fn physical(line: u64, owner: u64) -> u64 {
    const MASK: u64 = (1 << PHYSICAL_BITS) - 1;
    let page = line >> PAGE_SHIFT | owner << PAGE_BITS;
    let page = page.wrapping_mul(0x9e37_79b9_7f4a_7c15) & MASK;
    let page = page ^ page >> (PHYSICAL_BITS / 2);
    let page = page.wrapping_mul(0xd6e8_feb8_6659_fd93) & MASK;
    let page = page ^ page >> (PHYSICAL_BITS / 2);
    (page << PAGE_SHIFT | line & ((1 << PAGE_SHIFT) - 1)) << LINE_SHIFT
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use corun_model::units::{Bytes, Ways};
    use proptest::prelude::*;

    use super::*;

    fn tiny() -> Filter {
        let geometry = Geometry::new(Bytes(4 * 64), Ways(4), Bytes(64)).expect("a cache of four lines");
        Filter::new(geometry, geometry)
    }

    fn of(filtered: &Filtered, owner: u8) -> Vec<Event> {
        filtered.placed(owner).events().collect()
    }

    #[test]
    fn only_misses_are_kept_and_instructions_are_counted_between_them() {
        let mut filter = tiny();
        for text in [
            "I  00001000,4",
            " L 00100000,8",
            "I  00001004,4",
            " L 00100008,8",
            "I  00001008,4",
            " S 00200000,8",
            "==1== other words",
        ] {
            filter.line(text.as_bytes());
        }
        let filtered = filter.finish(|line| line == 0x20_0000 >> 6).expect("few");
        // The code's line, the table's line once, the store's.
        assert_eq!((filtered.misses(), filtered.instructions()), (3, 3));
        assert_eq!(filtered.private_bytes(), 64);
        let kinds: Vec<Access> = of(&filtered, 0).iter().map(|event| event.access).collect();
        assert_eq!(kinds, [Access::Load, Access::Load, Access::Store]);
        let (mine, yours) = (of(&filtered, 0), of(&filtered, 1));
        assert_eq!(mine[..2], yours[..2]);
        assert_ne!(mine[2].address, yours[2].address);
    }

    #[test]
    fn streams_are_seen_in_both_directions_and_chance_is_not() {
        let waited = |lines: &[u64]| {
            let mut filter = tiny();
            for &line in lines {
                filter.access(Use::Load, line);
            }
            let filtered = filter.finish(|_| false).expect("few");
            of(&filtered, 0)
                .iter()
                .filter(|event| event.access == Access::Load)
                .count()
        };
        assert_eq!(waited(&[640, 641, 642, 643, 644]), 1);
        assert_eq!(waited(&[660, 659, 658, 657]), 1);
        assert_eq!(waited(&[640, 690, 6_400, 64_000, 128]), 5);
        // The next page may be anywhere.
        assert_eq!(waited(&[639, 640]), 2);
    }

    #[test]
    fn a_recording_is_cut_behind_the_last_of_something() {
        let mut filter = tiny();
        for line in [100, 2_000, 300, 4_000, 500] {
            filter.access(Use::Load, line);
        }
        let filtered = filter.finish(|_| true).expect("few");
        let rest = filtered.clone().after_last(|line| line == 300);
        assert_eq!(rest.misses(), 2);
        assert_eq!(filtered.after_last(|line| line == 7).misses(), 5);
    }

    proptest! {
        /// Physical places are as different as what lies there, and a line stays in its place of the page.
        #[test]
        fn pages_are_mixed_one_to_one(lines in prop::collection::hash_set((0u64..1 << LINE_BITS, 0u64..15), 1..200)) {
            let places: HashSet<u64> = lines.iter().map(|&(line, owner)| physical(line, owner)).collect();
            prop_assert_eq!(places.len(), lines.len());
            for (line, owner) in lines {
                let place = physical(line, owner);
                prop_assert_eq!(place >> 6 & 63, line & 63);
                prop_assert!(place < 1 << 52);
            }
        }
    }
}
