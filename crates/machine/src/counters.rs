//! Whether hardware performance counters can be opened.
//!
//! The only sure test is to open one: device folders exist where the hypervisor traps the counters, and permissions
//! depend on capabilities as well as on `perf_event_paranoid`. Not here: counting; this only asks.

/// Tries to open a counter of the cycles this thread spends in user space, and closes it again.
///
/// # Errors
/// In words, why the kernel refused.
pub fn try_open() -> Result<(), String> {
    // The first published version of `struct perf_event_attr`, which every later kernel accepts.
    #[repr(C)]
    struct Attributes {
        kind: u32,
        size: u32,
        config: u64,
        sample_period: u64,
        sample_type: u64,
        read_format: u64,
        flags: u64,
        wakeup_events: u32,
        breakpoint_type: u32,
        breakpoint_address: u64,
    }
    const SIZE: usize = size_of::<Attributes>();
    const { assert!(SIZE == 64) };
    const DISABLED_EXCLUDE_KERNEL_AND_HYPERVISOR: u64 = 1 | 1 << 5 | 1 << 6;
    let attributes = Attributes {
        kind: 0, // PERF_TYPE_HARDWARE
        size: SIZE as u32,
        config: 0, // PERF_COUNT_HW_CPU_CYCLES
        sample_period: 0,
        sample_type: 0,
        read_format: 0,
        flags: DISABLED_EXCLUDE_KERNEL_AND_HYPERVISOR,
        wakeup_events: 0,
        breakpoint_type: 0,
        breakpoint_address: 0,
    };
    // SAFETY: the kernel reads `size` bytes of `attributes`, which lives across the call; pid 0 and cpu -1 mean this
    // thread on any CPU, group -1 none.
    let descriptor = unsafe {
        libc::syscall(
            libc::SYS_perf_event_open,
            &raw const attributes,
            0,
            -1,
            -1,
            libc::c_ulong::from(0u8),
        )
    };
    if descriptor < 0 {
        let error = std::io::Error::last_os_error();
        return Err(match error.raw_os_error() {
            Some(libc::ENOENT | libc::ENODEV | libc::EOPNOTSUPP) => {
                "the CPU offers no cycle counter".to_owned()
            }
            Some(libc::EACCES | libc::EPERM) => {
                "not permitted (perf_event_paranoid, or a sandbox)".to_owned()
            }
            Some(libc::ENOSYS) => "the kernel has no perf_event_open, or a sandbox hides it".to_owned(),
            _ => format!("perf_event_open: {error}"),
        });
    }
    // SAFETY: the descriptor was opened above and nobody else knows it.
    unsafe { libc::close(descriptor as libc::c_int) };
    Ok(())
}

#[cfg(test)]
mod tests {
    #[test]
    fn asking_twice_gives_one_answer() {
        assert_eq!(super::try_open(), super::try_open());
    }
}
