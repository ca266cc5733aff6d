//! [`Mask`] where no system call is known: all CPUs are allowed, and nobody is moved. Untested.

use std::io;

use corun_model::units::CpuId;

/// All CPUs of the machine, or those somebody asked for in vain.
#[derive(Clone)]
pub(super) struct Mask(Vec<CpuId>);

impl Mask {
    pub(super) fn of(cpus: &[CpuId]) -> Self {
        Self(cpus.to_vec())
    }

    pub(super) fn current() -> io::Result<Self> {
        let count = u32::try_from(std::thread::available_parallelism()?.get()).unwrap_or(u32::MAX);
        Ok(Self((0..count).map(CpuId).collect()))
    }

    pub(super) fn of_thread(_thread: i32) -> io::Result<Self> {
        Err(unsupported())
    }

    pub(super) fn apply(&self) -> io::Result<()> {
        Err(unsupported())
    }

    pub(super) fn apply_to(&self, _thread: i32) -> io::Result<()> {
        Err(unsupported())
    }

    pub(super) fn cpus(&self) -> Vec<CpuId> {
        self.0.clone()
    }
}

fn unsupported() -> io::Error {
    io::Error::new(
        io::ErrorKind::Unsupported,
        "the CPUs of a thread cannot be read or set on this system",
    )
}
