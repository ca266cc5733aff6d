//! [`Mask`]: the CPUs of a thread as the kernel stores them, and the two system calls.

use std::io;
use std::mem::size_of_val;

use corun_model::units::CpuId;

/// A mask of 64 Ki CPUs; larger than any kernel's, so that reading never fails for lack of room.
const MASK_WORDS: usize = 1024;

/// What the kernel calls the calling thread.
const THIS_THREAD: i32 = 0;

/// An affinity mask as the kernel stores it: bit `n` of the whole is CPU `n`.
#[derive(Clone)]
pub(super) struct Mask(Box<[u64]>);

impl Mask {
    /// CPUs beyond the mask are left out.
    pub(super) fn of(cpus: &[CpuId]) -> Self {
        let mut words = vec![0; MASK_WORDS].into_boxed_slice();
        for cpu in cpus {
            if let Some(word) = words.get_mut(cpu.0 as usize / 64) {
                *word |= 1 << (cpu.0 % 64);
            }
        }
        Self(words)
    }

    pub(super) fn current() -> io::Result<Self> {
        Self::of_thread(THIS_THREAD)
    }

    pub(super) fn of_thread(thread: i32) -> io::Result<Self> {
        let mut words = vec![0u64; MASK_WORDS].into_boxed_slice();
        // SAFETY: the kernel writes at most the given number of bytes into `words`. A plain bit array is the layout of
        // `cpu_set_t`, whose type merely fixes 1024 bits.
        let result =
            unsafe { libc::sched_getaffinity(thread, size_of_val(&*words), words.as_mut_ptr().cast()) };
        if result == 0 {
            Ok(Self(words))
        } else {
            Err(io::Error::last_os_error())
        }
    }

    pub(super) fn apply(&self) -> io::Result<()> {
        self.apply_to(THIS_THREAD)
    }

    pub(super) fn apply_to(&self, thread: i32) -> io::Result<()> {
        // SAFETY: the kernel only reads the given number of bytes.
        let result =
            unsafe { libc::sched_setaffinity(thread, size_of_val(&*self.0), self.0.as_ptr().cast()) };
        if result == 0 {
            Ok(())
        } else {
            Err(io::Error::last_os_error())
        }
    }

    pub(super) fn cpus(&self) -> Vec<CpuId> {
        let bits = self.0.iter().enumerate().flat_map(|(index, word)| {
            (0..64u32)
                .filter(move |bit| word >> bit & 1 == 1)
                .map(move |bit| CpuId(index as u32 * 64 + bit))
        });
        bits.collect()
    }
}
