//! [`Strip`]: leaves out touches that hit every cache simulated here, whatever was in it before.
//!
//! A line that was the last one touched among those whose number ends in the same six bits is the most recently used line of its set in
//! any cache of 64 or more sets, a power of two of them: it hits, and hitting it changes no order (Puzak's trace stripping). Page offsets have six bits of a
//! line's number, so this holds wherever the page lies. Lines that are moved by themselves (descriptors, entries, locks) are left out only
//! right after themselves. Instructions and data go through caches of their own and are stripped each for itself; a store is kept where
//! only loads came before, because other cores lose the line by it.
//!
//! One query at a time: at its begin nothing is known. Two queries that share a core at once interleave, and then a touch that was left out could
//! have missed; of what is kept that is a small part.

use super::touch::{Place, Touch, Use};

const SETS: usize = 64;

/// What was touched last, of each class of lines.
#[derive(Clone, Debug)]
pub struct Strip {
    data: [Option<(Place, bool)>; SETS],
    code: [Option<Place>; SETS],
}

impl Default for Strip {
    fn default() -> Self {
        Strip {
            data: [None; SETS],
            code: [None; SETS],
        }
    }
}

impl Strip {
    /// Whether the touch must be kept.
    pub fn keeps(&mut self, touch: Touch) -> bool {
        let set = match touch.place {
            Place::Private { line, .. }
            | Place::Code { line, .. }
            | Place::Common { line, .. }
            | Place::Block { line, .. } => line as usize % SETS,
            // Nobody knows its set: whatever is touched next may be in it, and it in the set of what was touched before.
            _ => {
                self.data = [None; SETS];
                return true;
            }
        };
        if touch.what == Use::Fetch {
            let before = self.code[set].replace(touch.place);
            return before != Some(touch.place);
        }
        let stores = touch.what == Use::Store;
        match &mut self.data[set] {
            Some((place, stored)) if *place == touch.place => {
                let first_store = stores && !*stored;
                *stored |= stores;
                first_store
            }
            other => {
                *other = Some((touch.place, stores));
                true
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repetitions_go_and_first_stores_stay() {
        let mut strip = Strip::default();
        let private = |page, line| Place::Private { page, line };
        let mut keeps = |place, what| strip.keeps(Touch { place, what });
        assert!(keeps(private(1, 5), Use::Load));
        assert!(!keeps(private(1, 5), Use::Load));
        assert!(keeps(private(1, 6), Use::Load));
        assert!(keeps(private(1, 5), Use::Store), "the first store");
        assert!(!keeps(private(1, 5), Use::Store));
        assert!(keeps(private(2, 5), Use::Load), "another line of the set");
        assert!(keeps(private(1, 5), Use::Load));
        assert!(keeps(Place::Code { page: 1, line: 5 }, Use::Fetch));
        assert!(!keeps(private(1, 5), Use::Load), "instructions are apart");
        assert!(keeps(Place::Descriptor { block: 0 }, Use::Load));
        assert!(
            keeps(private(1, 5), Use::Load),
            "nobody knows the descriptor's set"
        );
        assert!(keeps(Place::Block { block: 0, line: 69 }, Use::Load));
        assert!(keeps(private(1, 5), Use::Load), "69 is 5 and 64");
    }
}
