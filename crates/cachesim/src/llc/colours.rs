//! Page colours: which sets of the shared cache the pages of an object may fall into (paper 002, section 6.1).
//!
//! ```text
//!   address  ... | page number             | offset in the page |
//!   set                | slot (8 of them)  | line in the page   |       8 slots of a page, 4 colours: colour c has slots c and c + 4
//!                        └──┬──┘
//!                        colour: the lower bits
//! ```
//!
//! The paper's kernel chooses physical pages by colour. Here no physical memory is handed out: page after page of an object takes
//! the next of its colours, and with each round the next slot of that colour, which is what a kernel with free pages of every
//! colour would do. With all colours it is the plain `page mod slots`.
//!
//! Not here: hashed slices. On processors that spread lines over slices by a hash, pages have no colour, and a colour simulated
//! here cannot be had; only way masks can.

/// Bytes of a page.
pub(super) const PAGE_BYTES: u64 = 4096;
/// Most colours: a word of bits.
pub(super) const COLOURS_MAX: u32 = u64::BITS;

/// Colours of an object's pages, one bit a colour, lowest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ColourMask(pub u64);

impl ColourMask {
    /// The first `count` colours; all of 64 if it is more.
    pub fn first(count: u32) -> Self {
        Self(u64::MAX.checked_shr(u64::BITS.saturating_sub(count)).unwrap_or(0))
    }
}

/// Where pages of one object go.
#[derive(Clone, Debug)]
pub(super) struct Colouring {
    lines_per_page: u64,
    colours: u64,
    slots_per_colour: u64,
    /// The colours of the mask, ascending.
    allowed: Vec<u64>,
}

impl Colouring {
    /// For a cache of `sets` sets and `line_bytes` lines whose page slots are spread over `colours` colours; `None` if they cannot
    /// be, or if the mask is empty or names others.
    pub(super) fn new(sets: u64, line_bytes: u64, colours: u32, mask: ColourMask) -> Option<Self> {
        let all = ColourMask::first(colours).0;
        if !(1..=COLOURS_MAX).contains(&colours) || mask.0 == 0 || mask.0 & !all != 0 {
            return None;
        }
        let lines_per_page = PAGE_BYTES / line_bytes;
        let lines_per_round = lines_per_page * u64::from(colours);
        if lines_per_round == 0 || !sets.is_multiple_of(lines_per_round) {
            return None;
        }
        Some(Self {
            lines_per_page,
            colours: u64::from(colours),
            slots_per_colour: sets / lines_per_round,
            allowed: (0..u64::from(colours))
                .filter(|colour| mask.0 >> colour & 1 == 1)
                .collect(),
        })
    }

    /// The set of a line.
    #[inline]
    pub(super) fn set_of(&self, line: u64) -> u64 {
        let page = line / self.lines_per_page;
        let count = self.allowed.len() as u64;
        let slot =
            self.allowed[(page % count) as usize] + page / count % self.slots_per_colour * self.colours;
        slot * self.lines_per_page + line % self.lines_per_page
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn pages_take_their_colours_in_turn_and_all_of_their_slots() {
        // 8 slots of 4 lines, 4 colours, of which 1 and 2.
        let colouring = Colouring::new(32, 1024, 4, ColourMask(0b0110)).unwrap();
        let slots: Vec<u64> = (0..6).map(|page| colouring.set_of(page * 4) / 4).collect();
        assert_eq!(slots, [1, 2, 5, 6, 1, 2]);
        let sets: BTreeSet<u64> = (0..1000).map(|line| colouring.set_of(line)).collect();
        assert_eq!(sets, (4..12).chain(20..28).collect());
        assert!((0..1000).all(|line| colouring.set_of(line) % 4 == line % 4));
    }

    #[test]
    fn all_colours_are_no_colours() {
        let colouring = Colouring::new(4096, 64, 32, ColourMask::first(32)).unwrap();
        assert!((0..10_000).all(|line| colouring.set_of(line) == line % 4096));
    }

    #[test]
    fn masks_and_shapes_that_cannot_be() {
        assert_eq!(ColourMask::first(0).0, 0);
        assert_eq!(ColourMask::first(4).0, 15);
        assert_eq!([64, 65].map(|count| ColourMask::first(count).0), [u64::MAX; 2]);
        let possible =
            |sets, line, colours, mask| Colouring::new(sets, line, colours, ColourMask(mask)).is_some();
        assert!(possible(4096, 64, 64, u64::MAX));
        assert!(!possible(4096, 64, 32, 0));
        assert!(!possible(4096, 64, 32, 1 << 32));
        assert!(!possible(4096, 64, 0, 1));
        assert!(!possible(4096, 64, 65, 1));
        // Half a page a way.
        assert!(!possible(32, 64, 1, 1));
        assert!(!possible(4096, 64, 3, 1));
        assert!(!possible(4096, 8192, 1, 1));
    }
}
