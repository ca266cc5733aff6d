//! [`Reference`]: the address of memory that outlives every run which may load it.

use std::fmt;
use std::marker::PhantomData;

/// Names one cache line's worth of memory that a later stage will touch.
///
/// It can be loaded from for all of `'a`, by any thread, without regard to its contents or to who writes it meanwhile:
/// loads happen outside the language (inline assembly) and their values are thrown away. It is not a borrow of a value.
#[derive(Clone, Copy)]
pub struct Reference<'a> {
    address: *const u8,
    memory: PhantomData<&'a [u8]>,
}

// SAFETY: it is only ever loaded from with values thrown away, and that is allowed from any thread for `'a`.
unsafe impl Send for Reference<'_> {}
// SAFETY: as above.
unsafe impl Sync for Reference<'_> {}

impl<'a> Reference<'a> {
    /// The line of `value`'s first byte. A type without bytes does not compile: it may have no memory at all.
    #[inline(always)]
    pub fn to<T>(value: &'a T) -> Self {
        const { assert!(size_of::<T>() > 0) };
        Reference {
            address: std::ptr::from_ref(value).cast(),
            memory: PhantomData,
        }
    }

    /// The line of an address that is not behind a shared reference, such as an output row.
    ///
    /// # Safety
    /// At least one byte at `address` must be mapped and readable for all of `'a`.
    #[inline(always)]
    pub(crate) unsafe fn at(address: *const u8) -> Self {
        Reference {
            address,
            memory: PhantomData,
        }
    }

    /// The address.
    #[inline(always)]
    pub fn address(self) -> *const u8 {
        self.address
    }
}

impl fmt::Debug for Reference<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Reference({:p})", self.address)
    }
}
