//! Whether the kernel lets this process count what the CPU does: the probe alone; counting itself is the lab's.

use std::io;
use std::mem::size_of;

/// `PERF_TYPE_HARDWARE` of `linux/perf_event.h`.
const TYPE_HARDWARE: u32 = 0;
/// `PERF_COUNT_HW_CPU_CYCLES`.
const CPU_CYCLES: u64 = 0;
/// `disabled`, `exclude_kernel` and `exclude_hv`: the bits 0, 5 and 6 of the flags.
const FLAGS: u64 = 1 | 1 << 5 | 1 << 6;
/// `PERF_FLAG_FD_CLOEXEC`.
const CLOSE_ON_EXEC: libc::c_ulong = 8;

/// The first published version of `struct perf_event_attr`, which every kernel reads.
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
    breakpoint_kind: u32,
    config_1: u64,
}

const _: () = assert!(size_of::<Attributes>() == 64, "PERF_ATTR_SIZE_VER0");

/// Whether the cycles of the calling thread can be counted.
///
/// # Errors
/// A sentence that says why not.
pub(crate) fn try_open() -> Result<(), String> {
    open_cycles().map_err(|error| match error.raw_os_error() {
        Some(libc::ENOENT | libc::ENODEV | libc::EOPNOTSUPP) => "the CPU offers no cycle counter".to_owned(),
        Some(libc::EACCES | libc::EPERM) => "not permitted (perf_event_paranoid, or a sandbox)".to_owned(),
        Some(libc::ENOSYS) => "the kernel has no perf_event_open, or a sandbox hides it".to_owned(),
        _ => format!("perf_event_open: {error}"),
    })
}

fn open_cycles() -> io::Result<()> {
    let attributes = Attributes {
        kind: TYPE_HARDWARE,
        size: size_of::<Attributes>() as u32,
        config: CPU_CYCLES,
        sample_period: 0,
        sample_type: 0,
        read_format: 0,
        flags: FLAGS,
        wakeup_events: 0,
        breakpoint_kind: 0,
        config_1: 0,
    };
    // The calling thread, on any CPU, in no group, closed when another program is executed.
    let (thread, any_cpu, no_group): (libc::pid_t, libc::c_int, libc::c_int) = (0, -1, -1);
    // SAFETY: the kernel reads `size` bytes of the structure, which outlives the call.
    let descriptor = unsafe {
        libc::syscall(
            libc::SYS_perf_event_open,
            &raw const attributes,
            thread,
            any_cpu,
            no_group,
            CLOSE_ON_EXEC,
        )
    };
    let descriptor = libc::c_int::try_from(descriptor).unwrap_or(-1);
    if descriptor < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the descriptor was opened above and nobody else knows it.
    unsafe { libc::close(descriptor) };
    Ok(())
}
