//! Which CPUs a thread may run on, and pinning it to one.
//!
//! [`pin`] returns a guard that gives the thread its old mask back; a runtime's worker must not stay pinned because a
//! measurement borrowed it. Affinity is per thread: threads started later inherit the mask of their parent.
//!
//! Not here: choosing CPUs; see [`model::topology::Topology::placement_order`].

use std::io;
use std::marker::PhantomData;
use std::mem::size_of_val;

use model::units::CpuId;
use thiserror::Error;

/// Why a thread could not be moved.
#[derive(Debug, Error)]
pub enum AffinityError {
    /// The kernel would not tell the current mask.
    #[error("cannot read the CPU affinity of this thread: {0}")]
    Read(#[source] io::Error),
    /// The kernel refused: the CPU is offline, or outside this process's control group.
    #[error("cannot run on CPU {cpu}: {source}")]
    Pin {
        /// The CPU asked for.
        cpu: CpuId,
        /// What the kernel said.
        #[source]
        source: io::Error,
    },
    /// The kernel refused all of several CPUs.
    #[error("cannot run on the CPUs given: {0}")]
    Allow(#[source] io::Error),
}

/// A mask of 64 Ki CPUs; larger than any kernel's, so that reading never fails for lack of room.
const MASK_WORDS: usize = 1024;

/// What the kernel calls the calling thread.
const THIS_THREAD: libc::pid_t = 0;

/// An affinity mask as the kernel stores it: bit `n` of the whole is CPU `n`.
#[derive(Clone)]
struct Mask(Box<[u64]>);

impl Mask {
    /// CPUs beyond the mask are left out.
    fn of(cpus: &[CpuId]) -> Self {
        let mut words = vec![0; MASK_WORDS].into_boxed_slice();
        for cpu in cpus {
            if let Some(word) = words.get_mut(cpu.0 as usize / 64) {
                *word |= 1 << (cpu.0 % 64);
            }
        }
        Self(words)
    }

    fn current() -> io::Result<Self> {
        Self::of_thread(THIS_THREAD)
    }

    fn of_thread(thread: libc::pid_t) -> io::Result<Self> {
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

    fn apply(&self) -> io::Result<()> {
        self.apply_to(THIS_THREAD)
    }

    fn apply_to(&self, thread: libc::pid_t) -> io::Result<()> {
        // SAFETY: the kernel only reads the given number of bytes.
        let result =
            unsafe { libc::sched_setaffinity(thread, size_of_val(&*self.0), self.0.as_ptr().cast()) };
        if result == 0 {
            Ok(())
        } else {
            Err(io::Error::last_os_error())
        }
    }

    fn cpus(&self) -> Vec<CpuId> {
        let bits = self.0.iter().enumerate().flat_map(|(index, word)| {
            (0..64u32)
                .filter(move |bit| word >> bit & 1 == 1)
                .map(move |bit| CpuId(index as u32 * 64 + bit))
        });
        bits.collect()
    }
}

/// CPUs the calling thread may run on, ascending.
///
/// # Errors
/// When the kernel does not tell.
pub fn allowed_cpus() -> Result<Vec<CpuId>, AffinityError> {
    Mask::current()
        .map(|mask| mask.cpus())
        .map_err(AffinityError::Read)
}

/// Pins the calling thread to one CPU until the guard is dropped.
///
/// # Errors
/// When the CPU does not exist, is offline or is not allowed.
pub fn pin(cpu: CpuId) -> Result<Pinned, AffinityError> {
    let before = Mask::current().map_err(AffinityError::Read)?;
    Mask::of(&[cpu])
        .apply()
        .map_err(|source| AffinityError::Pin { cpu, source })?;
    Ok(Pinned {
        before,
        _this_thread: PhantomData,
    })
}

/// Lets the calling thread run on these CPUs from now on, and on no others. For threads of a pool, which keep their place, and
/// for those that would otherwise inherit the place of a pinned parent.
///
/// # Errors
/// When the kernel allows none of them, or there are none.
pub fn allow(cpus: &[CpuId]) -> Result<(), AffinityError> {
    Mask::of(cpus).apply().map_err(AffinityError::Allow)
}

/// CPUs that a thread of any process may run on, ascending. See [`crate::process`].
pub(crate) fn thread_cpus(thread: u32) -> io::Result<Vec<CpuId>> {
    Mask::of_thread(thread_id(thread)?).map(|mask| mask.cpus())
}

/// Lets a thread of any process run on these CPUs only.
pub(crate) fn allow_thread(thread: u32, cpus: &[CpuId]) -> io::Result<()> {
    Mask::of(cpus).apply_to(thread_id(thread)?)
}

/// Zero would be this thread, and negative ones none.
fn thread_id(thread: u32) -> io::Result<libc::pid_t> {
    libc::pid_t::try_from(thread)
        .ok()
        .filter(|thread| *thread > 0)
        .ok_or_else(|| io::ErrorKind::NotFound.into())
}

/// A pinned thread; dropping it restores the mask the thread had.
#[must_use = "the thread is pinned only while this lives"]
pub struct Pinned {
    before: Mask,
    // Restoring from another thread would change that one's mask: neither `Send` nor `Sync`.
    _this_thread: PhantomData<*const ()>,
}

impl Drop for Pinned {
    fn drop(&mut self) {
        // The old mask was valid a moment ago. If a CPU went offline meanwhile, the kernel has moved the thread itself.
        let _ = self.before.apply();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pinning_holds_and_ends() {
        let before = allowed_cpus().unwrap();
        assert!(!before.is_empty());
        for &cpu in &before {
            let pinned = pin(cpu).unwrap();
            assert_eq!(allowed_cpus().unwrap(), [cpu]);
            drop(pinned);
            assert_eq!(allowed_cpus().unwrap(), before);
        }
    }

    #[test]
    fn a_thread_is_moved_and_freed_for_good() {
        let before = allowed_cpus().unwrap();
        for &cpu in &before {
            allow(&[cpu]).unwrap();
            // What a pinned thread starts is pinned as well, until it is freed.
            let child = std::thread::spawn({
                let before = before.clone();
                move || {
                    let inherited = allowed_cpus().unwrap();
                    allow(&before).unwrap();
                    (inherited, allowed_cpus().unwrap())
                }
            });
            assert_eq!(child.join().unwrap(), (vec![cpu], before.clone()));
            assert_eq!(allowed_cpus().unwrap(), [cpu]);
        }
        allow(&before).unwrap();
        assert!(matches!(allow(&[]), Err(AffinityError::Allow(_))));
        assert!(matches!(allow(&[CpuId(u32::MAX)]), Err(AffinityError::Allow(_))));
        assert_eq!(allowed_cpus().unwrap(), before);
    }

    #[test]
    fn a_cpu_that_is_not_there_is_an_error_and_changes_nothing() {
        let before = allowed_cpus().unwrap();
        for cpu in [CpuId(65_535), CpuId(u32::MAX)] {
            assert!(matches!(pin(cpu), Err(AffinityError::Pin { .. })));
        }
        assert_eq!(allowed_cpus().unwrap(), before);
    }
}
