//! The CPU time of a thread: what its own instructions took, without the time others had the CPU.
//!
//! Latencies are timed with this clock, so that a busy machine disturbs them less. It does not exclude time a hypervisor
//! took away, nor caches that others emptied meanwhile. Not here: wall time, which is [`std::time::Instant`].

use std::time::Duration;

/// CPU time the calling thread has used. Reading it is a system call: some hundreds of nanoseconds. Systems that are not Unix have
/// wall time instead, which others on the CPU do disturb; that part is untested.
pub fn thread_cpu_time() -> Duration {
    read()
}

#[cfg(unix)]
fn read() -> Duration {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: the kernel writes one timespec.
    let result = unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut time) };
    debug_assert_eq!(result, 0, "every thread has a CPU-time clock");
    // Both parts are non-negative by definition of the clock.
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

#[cfg(not(unix))]
fn read() -> Duration {
    use std::sync::OnceLock;
    use std::time::Instant;

    static BEGAN: OnceLock<Instant> = OnceLock::new();
    BEGAN.get_or_init(Instant::now).elapsed()
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    #[test]
    fn it_rises_with_work_and_not_with_sleep() {
        let before = thread_cpu_time();
        std::thread::sleep(Duration::from_millis(50));
        let slept = thread_cpu_time() - before;
        assert!(
            slept < Duration::from_millis(25),
            "{slept:?} of a 50 ms sleep were counted"
        );
        let mut x = 1u64;
        while thread_cpu_time() - before < slept + Duration::from_millis(2) {
            x = std::hint::black_box(x.wrapping_mul(3));
        }
        assert!(thread_cpu_time() > before + slept);
    }
}
