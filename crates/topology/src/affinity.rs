//! Which CPUs a thread may run on, and pinning it to one.
//!
//! [`pin`] returns a guard that gives the thread its old mask back; a runtime's worker must not stay pinned because a
//! measurement borrowed it. Affinity is per thread: threads started later inherit the mask of their parent.
//!
//! Elsewhere than on Linux threads stay where they are: [`allowed_cpus`] returns as many CPUs as the standard library knows of, and
//! whatever moves a thread is an error of the kind [`io::ErrorKind::Unsupported`]. That part is untested.
//!
//! Not here: choosing CPUs; see [`corun_model::topology::Topology::placement_order`].

#[cfg(target_os = "linux")]
mod mask;
#[cfg(not(target_os = "linux"))]
#[path = "affinity/elsewhere.rs"]
mod mask;

use std::io;
use std::marker::PhantomData;

use corun_model::units::CpuId;
use thiserror::Error;

use mask::Mask;

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

/// CPUs that a thread of any process may run on, ascending.
///
/// # Errors
/// [`io::ErrorKind::NotFound`] when there is no such thread.
pub fn thread_cpus(thread: u32) -> io::Result<Vec<CpuId>> {
    Mask::of_thread(thread_id(thread)?).map(|mask| mask.cpus())
}

/// Lets a thread of any process run on these CPUs only.
///
/// # Errors
/// [`io::ErrorKind::NotFound`] when there is no such thread; [`io::ErrorKind::PermissionDenied`] when it is somebody else's.
pub fn allow_thread(thread: u32, cpus: &[CpuId]) -> io::Result<()> {
    Mask::of(cpus).apply_to(thread_id(thread)?)
}

/// Zero would be this thread, and negative ones none.
fn thread_id(thread: u32) -> io::Result<i32> {
    i32::try_from(thread)
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

#[cfg(all(test, target_os = "linux"))]
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
