//! What stands in for the parts that know x86-64 Linux: no object has an entry, so nothing is ever patched, and every attempt is an
//! error. [`Entries::of_this_process`](super::Entries::of_this_process) says so before it comes to that.

pub(super) mod objects {
    use crate::teams::patch::{Entry, PatchError};

    pub(in crate::teams::patch) struct Object;

    impl Object {
        pub(in crate::teams::patch) fn entries(&self) -> Result<Vec<Entry>, PatchError> {
            Err(PatchError::Unsupported)
        }
    }

    pub(in crate::teams::patch) fn loaded() -> Vec<Object> {
        Vec::new()
    }
}

pub(super) mod code {
    use std::io;

    use crate::teams::patch::BYTES;

    pub(in crate::teams::patch) fn is_nops(_bytes: &[u8; BYTES]) -> bool {
        false
    }

    pub(in crate::teams::patch) fn is_call_to(_bytes: &[u8; BYTES], _address: usize, _target: usize) -> bool {
        false
    }

    pub(in crate::teams::patch) fn call(_address: usize, _target: usize) -> io::Result<[u8; BYTES]> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// # Safety
    /// None is needed: nothing is read, and what it returns is no filler.
    pub(in crate::teams::patch) unsafe fn read(_address: usize) -> [u8; BYTES] {
        [0; BYTES]
    }

    /// # Safety
    /// None is needed: nothing is written.
    pub(in crate::teams::patch) unsafe fn write(_address: usize, _bytes: [u8; BYTES]) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }
}

pub(super) mod trampoline {
    use crate::teams::patch::Prefetch;

    /// No code is there to be called.
    pub(in crate::teams::patch) fn address(_prefetch: Prefetch) -> usize {
        0
    }
}
