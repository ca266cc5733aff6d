//! [`Touch`]: one use of a cache line by a query, said so that it can be moved to another key, another backend and a larger database.
//!
//! ```text
//!   whose the line is            how it is named                                      who else has it
//!   Private                      page of the process, line in it                      nobody: each backend has its own
//!   Code                         page of the program's text, line in it               every backend
//!   Common                       page of shared memory or constants, line in it       every backend
//!   Block                        which page of a relation (of those of the execution), line in it      whoever reads that page
//!   Descriptor, Entry, Lock      the same page's descriptor, entry in the buffer table, lock on its part of that table
//! ```
//!
//! A touch packs into a number below [`PACKED_MAX`], which is what recordings keep. Not here: where a line lies at last; see [`super::layout`].

/// Lines of 64 bytes in 4 KiB.
pub const PAGE_LINES: u32 = 64;
/// Lines of 64 bytes in a page of a relation, 8 KiB.
pub const BLOCK_LINES: u32 = 128;
/// Pages of a process that a recording can name.
pub const PRIVATE_PAGES: u32 = 1024;
/// Pages of the program's text.
pub const CODE_PAGES: u32 = 1024;
/// Pages of shared memory and constants.
pub const COMMON_PAGES: u32 = 512;
/// Pages of relations that one execution can name.
pub const BLOCKS: u32 = 256;
/// Lines of the buffer table's entry of one page.
pub const ENTRY_LINES: u32 = 8;

const CODE_FIRST: u32 = PRIVATE_PAGES * PAGE_LINES;
const COMMON_FIRST: u32 = CODE_FIRST + CODE_PAGES * PAGE_LINES;
const BLOCK_FIRST: u32 = COMMON_FIRST + COMMON_PAGES * PAGE_LINES;
const DESCRIPTOR_FIRST: u32 = BLOCK_FIRST + BLOCKS * BLOCK_LINES;
const ENTRY_FIRST: u32 = DESCRIPTOR_FIRST + BLOCKS;
const LOCK_FIRST: u32 = ENTRY_FIRST + BLOCKS * ENTRY_LINES;
const PLACES: u32 = LOCK_FIRST + BLOCKS;
const USES: u32 = 3;

/// Packed touches are below this.
pub const PACKED_MAX: u32 = PLACES * USES;

/// What is done to the line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Use {
    /// Data is read.
    Load,
    /// Data is written, or read and written.
    Store,
    /// Instructions are read.
    Fetch,
}

/// Which line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Place {
    /// The backend's own: stack, heap, its copies of the catalog, its part of the table of processes.
    Private {
        /// Page of 4 KiB, numbered as they came; below [`PRIVATE_PAGES`].
        page: u32,
        /// Line in it.
        line: u32,
    },
    /// Instructions.
    Code {
        /// Page of 4 KiB; below [`CODE_PAGES`].
        page: u32,
        /// Line in it.
        line: u32,
    },
    /// Shared memory that every query comes to whatever its key, and constants of the program.
    Common {
        /// Page of 4 KiB; below [`COMMON_PAGES`].
        page: u32,
        /// Line in it.
        line: u32,
    },
    /// A page of a table or an index.
    Block {
        /// Which of the execution's blocks; below [`BLOCKS`].
        block: u32,
        /// Line in it, below [`BLOCK_LINES`].
        line: u32,
    },
    /// The descriptor of the buffer that holds a block.
    Descriptor {
        /// Which of the execution's blocks.
        block: u32,
    },
    /// A block's entry in the buffer table.
    Entry {
        /// Which of the execution's blocks.
        block: u32,
        /// First, second, ... line of the entry, below [`ENTRY_LINES`].
        nth: u32,
    },
    /// The lock on the part of the buffer table where a block's entry is.
    Lock {
        /// Which of the execution's blocks.
        block: u32,
    },
}

/// One use of one line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Touch {
    /// Which line.
    pub place: Place,
    /// What is done to it.
    pub what: Use,
}

impl Place {
    /// The place as a number; `None` if one of its numbers is too large to be kept.
    fn packed(self) -> Option<u32> {
        let of = |first: u32, at: u32, most: u32, line: u32, lines: u32| {
            (at < most && line < lines).then(|| first + at * lines + line)
        };
        match self {
            Place::Private { page, line } => of(0, page, PRIVATE_PAGES, line, PAGE_LINES),
            Place::Code { page, line } => of(CODE_FIRST, page, CODE_PAGES, line, PAGE_LINES),
            Place::Common { page, line } => of(COMMON_FIRST, page, COMMON_PAGES, line, PAGE_LINES),
            Place::Block { block, line } => of(BLOCK_FIRST, block, BLOCKS, line, BLOCK_LINES),
            Place::Descriptor { block } => of(DESCRIPTOR_FIRST, block, BLOCKS, 0, 1),
            Place::Entry { block, nth } => of(ENTRY_FIRST, block, BLOCKS, nth, ENTRY_LINES),
            Place::Lock { block } => of(LOCK_FIRST, block, BLOCKS, 0, 1),
        }
    }

    fn unpacked(number: u32) -> Place {
        let split = |first: u32, lines: u32| ((number - first) / lines, (number - first) % lines);
        if number < CODE_FIRST {
            let (page, line) = split(0, PAGE_LINES);
            Place::Private { page, line }
        } else if number < COMMON_FIRST {
            let (page, line) = split(CODE_FIRST, PAGE_LINES);
            Place::Code { page, line }
        } else if number < BLOCK_FIRST {
            let (page, line) = split(COMMON_FIRST, PAGE_LINES);
            Place::Common { page, line }
        } else if number < DESCRIPTOR_FIRST {
            let (block, line) = split(BLOCK_FIRST, BLOCK_LINES);
            Place::Block { block, line }
        } else if number < ENTRY_FIRST {
            Place::Descriptor {
                block: number - DESCRIPTOR_FIRST,
            }
        } else if number < LOCK_FIRST {
            let (block, nth) = split(ENTRY_FIRST, ENTRY_LINES);
            Place::Entry { block, nth }
        } else {
            Place::Lock {
                block: number - LOCK_FIRST,
            }
        }
    }

    /// Which of the execution's blocks it belongs to, if to one.
    pub fn block(self) -> Option<u32> {
        match self {
            Place::Block { block, .. }
            | Place::Descriptor { block }
            | Place::Entry { block, .. }
            | Place::Lock { block } => Some(block),
            _ => None,
        }
    }
}

impl Touch {
    /// As a number below [`PACKED_MAX`]; `None` if a page or block number is too large to be kept.
    pub fn packed(self) -> Option<u32> {
        let what = match self.what {
            Use::Load => 0,
            Use::Store => 1,
            Use::Fetch => 2,
        };
        self.place.packed().map(|place| place * USES + what)
    }

    /// The touch of a number; `None` from [`PACKED_MAX`] on.
    pub fn unpacked(packed: u32) -> Option<Touch> {
        let what = match packed % USES {
            0 => Use::Load,
            1 => Use::Store,
            _ => Use::Fetch,
        };
        (packed < PACKED_MAX).then(|| Touch {
            place: Place::unpacked(packed / USES),
            what,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_number_is_one_touch() {
        for packed in 0..PACKED_MAX {
            let touch = Touch::unpacked(packed).expect("below the end");
            assert_eq!(touch.packed(), Some(packed), "{touch:?}");
        }
        assert_eq!(Touch::unpacked(PACKED_MAX), None);
    }

    #[test]
    fn what_is_too_large_is_refused() {
        for place in [
            Place::Private {
                page: PRIVATE_PAGES,
                line: 0,
            },
            Place::Code {
                page: 0,
                line: PAGE_LINES,
            },
            Place::Block {
                block: BLOCKS,
                line: 0,
            },
            Place::Entry {
                block: 0,
                nth: ENTRY_LINES,
            },
        ] {
            let touch = Touch {
                place,
                what: Use::Load,
            };
            assert_eq!(touch.packed(), None, "{place:?}");
        }
    }
}
