//! [`Layout`]: where the lines of a query lie in a database of any size, for any key and any backend.
//!
//! ```text
//!   recorded: page 17 of 547 leaves of item_pkey, key at 0.031         replayed: key at 0.72, five times as many items
//!             line 40 of it                                        ──▶           page 0.72 * 2735 = 1969, line 40 of it
//! ```
//!
//! A page that the recorded query came to stands for the page that lies as far into its relation as the new key lies in its domain; further
//! pages of the same relation keep their distance. The root of an index stays one page, inner pages and leaves grow with the rows.
//! Lines within the page are as recorded: which recording is replayed is drawn by the key, so a key's lines are the same
//! every time. Pages are put to frames of 4 KiB of physical memory at random, as the kernel does.
//!
//! Descriptors lie one after the other in the order of pages; entries of the buffer table lie anywhere; 128 locks share the table.
//!
//! Not here: which keys there are.

use super::axis::{Axis, of_relation};
use super::recording::{Block, Execution, Recording};
use super::touch::{BLOCK_LINES, PAGE_LINES, Place};

/// Locks of parts of the buffer table, each 128 bytes (PostgreSQL 9.5 to 18).
const LOCKS: u64 = 128;
/// Levels of relations that are part of no tree.
const META_LEVEL: u32 = 99;
/// Frames of physical memory are numbers below this: 2^36 of them.
const FRAME_BITS: u32 = 36;

/// How much larger than recorded the database is, along each axis; and how many pages a page recorded became.
#[derive(Clone, Debug)]
pub struct Layout {
    relations: Vec<Grown>,
    /// Descriptors before those of each relation.
    first_descriptor: Vec<u64>,
    pages: u64,
}

#[derive(Clone, Copy, Debug)]
struct Grown {
    axis: Option<Axis>,
    pages: u32,
}

impl Layout {
    /// The relations of a recording, grown by `factor` along each axis.
    pub fn new(recording: &Recording, factor: impl Fn(Axis) -> f64) -> Layout {
        let height = |name: &str| {
            let of = recording.relations.iter();
            of.filter(|relation| relation.name == name && relation.level < META_LEVEL)
                .map(|relation| relation.level)
                .max()
        };
        let relations: Vec<Grown> = recording
            .relations
            .iter()
            .map(|relation| {
                let axis = of_relation(&relation.name).filter(|_| relation.level < META_LEVEL);
                let is_root = relation.level > 0 && height(&relation.name) == Some(relation.level);
                let pages = match axis {
                    Some(axis) if !is_root => {
                        (f64::from(relation.pages) * factor(axis)).ceil().max(1.0) as u32
                    }
                    _ => relation.pages,
                };
                Grown { axis, pages }
            })
            .collect();
        let mut pages = 0;
        let first_descriptor = relations
            .iter()
            .map(|relation| {
                pages += u64::from(relation.pages);
                pages - u64::from(relation.pages)
            })
            .collect();
        Layout {
            relations,
            first_descriptor,
            pages,
        }
    }

    /// Pages of all relations.
    pub fn pages(&self) -> u64 {
        self.pages
    }

    /// Pages of one level of a relation; 0 if there is none of this number.
    pub fn pages_of(&self, relation: u32) -> u64 {
        self.relations
            .get(relation as usize)
            .map_or(0, |grown| u64::from(grown.pages))
    }

    /// The pages that stand for those of an execution. `at` says where the keys lie on each axis; appended rows go to pages of the backend's
    /// own.
    pub fn blocks(&self, execution: &Execution, at: impl Fn(Axis) -> f64, backend: u32) -> Vec<Block> {
        let of = &execution.blocks;
        of.iter()
            .map(|block| {
                let Some(grown) = self.relations.get(block.relation as usize) else {
                    return *block;
                };
                let Some(axis) = grown.axis else {
                    return *block;
                };
                let first = of.iter().find(|first| first.relation == block.relation);
                let distance = i64::from(block.page) - i64::from(first.unwrap_or(block).page);
                let pages = i64::from(grown.pages);
                let page = match axis {
                    Axis::Tail => pages - 1 - i64::from(backend) % pages,
                    _ => (at(axis) * pages as f64) as i64,
                };
                Block {
                    relation: block.relation,
                    page: (page + distance).clamp(0, pages - 1) as u32,
                }
            })
            .collect()
    }

    /// The address of a line. `blocks` are the execution's pages, as recorded or as [`Layout::blocks`] has them.
    pub fn address(&self, place: Place, blocks: &[Block], backend: u32) -> u64 {
        let page_of = |block: u32| {
            let block = blocks.get(block as usize).copied();
            block.unwrap_or(Block { relation: 0, page: 0 })
        };
        let named = |block: Block| u64::from(block.relation) << 32 | u64::from(block.page);
        let line_in = |space: u64, line: u64| {
            address(space, line / u64::from(PAGE_LINES), line % u64::from(PAGE_LINES))
        };
        match place {
            Place::Private { page, line } => {
                address(1, u64::from(backend) << 16 | u64::from(page), line.into())
            }
            Place::Code { page, line } => address(2, page.into(), line.into()),
            Place::Common { page, line } => address(3, page.into(), line.into()),
            Place::Block { block, line } => {
                let half = line / (BLOCK_LINES / 2);
                address(
                    4,
                    named(page_of(block)) << 1 | u64::from(half),
                    u64::from(line % PAGE_LINES),
                )
            }
            Place::Descriptor { block } => {
                let block = page_of(block);
                let first = self.first_descriptor.get(block.relation as usize).copied();
                line_in(5, first.unwrap_or(0) + u64::from(block.page))
            }
            Place::Entry { block, nth } => {
                let entry = scatter(named(page_of(block)) << 3 | u64::from(nth));
                line_in(6, entry % self.pages.max(1))
            }
            // Two lines each, the lock in the first.
            Place::Lock { block } => line_in(7, scatter(named(page_of(block))) % LOCKS * 2),
        }
    }
}

/// The address of a line of a page: each page of each space somewhere in physical memory.
fn address(space: u64, page: u64, line: u64) -> u64 {
    let frame = scatter(space << 56 ^ page) >> (u64::BITS - FRAME_BITS);
    (frame * u64::from(PAGE_LINES) + line) << 6
}

/// SplitMix64's finish: a permutation that looks random.
pub fn scatter(number: u64) -> u64 {
    let mut bits = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ (bits >> 31)
}
