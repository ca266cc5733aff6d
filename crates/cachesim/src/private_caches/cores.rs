//! [`Cores`]: private caches of many cores over one memory, with what keeps them coherent.
//!
//! ```text
//!   fetch ──▶ L1-I ┐
//!                  ├─▶ L2 ──▶ elsewhere          each core; least recently used; a line that misses is put into every level asked
//!   load, store ──▶ L1-D ┘
//!
//!   store ──▶ every other core that may hold the line loses it; its next miss of it counts as `invalidated`
//! ```
//!
//! No level includes another by force. A store to a line that nobody else holds costs nothing; there is no upgrade traffic and no write-back.
//! Which cores may hold a line stands in a directory: a core is entered when it misses its second level, and taken out when it
//! loses the line to a store, not when the line is replaced; asking a core in vain changes nothing.
//!
//! Not here: which queries run where.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

use super::platform::{CORES_MAX, Platform};
use super::touch::Use;
use crate::cache::SetAssociative;

const _: () = assert!(CORES_MAX <= u128::BITS as usize, "a bit for each core");

/// What one access missed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Missed {
    /// The first level.
    pub l1: bool,
    /// The second level too.
    pub l2: bool,
    /// Because another core has written the line since.
    pub invalidated: bool,
}

#[derive(Clone, Debug)]
struct Core {
    l1i: SetAssociative,
    l1d: SetAssociative,
    l2: SetAssociative,
}

/// Cores that may hold a line, and cores that lost it to a store.
#[derive(Clone, Copy, Debug, Default)]
struct Holders {
    may: u128,
    lost: u128,
}

/// The caches of a machine.
#[derive(Clone, Debug)]
pub struct Cores {
    cores: Vec<Core>,
    directory: HashMap<u64, Holders, BuildHasherDefault<Scrambled>>,
}

impl Cores {
    /// Empty caches.
    ///
    /// # Panics
    /// If the platform has more than [`CORES_MAX`] cores.
    pub fn new(platform: &Platform) -> Cores {
        assert!(platform.cores <= CORES_MAX, "at most {CORES_MAX} cores");
        let core = Core {
            l1i: SetAssociative::new(platform.l1i),
            l1d: SetAssociative::new(platform.l1d),
            l2: SetAssociative::new(platform.l2),
        };
        Cores {
            cores: vec![core; platform.cores],
            directory: HashMap::default(),
        }
    }

    /// One use of the line at `address` by a core. `shared`: whether any other core may ever come to this line; where not, the
    /// directory is not asked.
    pub fn access(&mut self, core: usize, address: u64, what: Use, shared: bool) -> Missed {
        let own = &mut self.cores[core];
        let l1 = match what {
            Use::Fetch => !own.l1i.access(address),
            Use::Load | Use::Store => !own.l1d.access(address),
        };
        let l2 = l1 && !own.l2.access(address);
        let mut missed = Missed {
            l1,
            l2,
            invalidated: false,
        };
        // Code is never written.
        if !shared || what == Use::Fetch {
            return missed;
        }
        let bit = 1_u128 << core;
        if l2 {
            let holders = self.directory.entry(address).or_default();
            missed.invalidated = holders.lost & bit != 0;
            holders.may |= bit;
            holders.lost &= !bit;
        }
        if what == Use::Store
            && let Some(holders) = self.directory.get_mut(&address)
        {
            let mut others = holders.may & !bit;
            holders.may &= bit;
            while others != 0 {
                let other = others.trailing_zeros() as usize;
                others &= others - 1;
                let caches = &mut self.cores[other];
                let [l1d, l2] = [&mut caches.l1d, &mut caches.l2].map(|cache| cache.invalidate(address));
                if l1d || l2 {
                    holders.lost |= 1 << other;
                }
            }
        }
        missed
    }
}

/// One multiplication: addresses of lines need no more.
#[derive(Clone, Copy, Debug, Default)]
struct Scrambled(u64);

impl Hasher for Scrambled {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.write_u64(u64::from(byte));
        }
    }

    fn write_u64(&mut self, number: u64) {
        let mixed = (self.0 ^ number).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.0 = mixed ^ (mixed >> 32);
    }
}
