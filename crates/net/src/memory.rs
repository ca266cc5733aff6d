//! What the process takes of the machine's memory, as the kernel counts it.

/// Bytes of this process in memory now; `None` where `/proc` does not say.
pub fn resident_bytes() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kibibytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kibibytes.checked_mul(1024)
}

/// Keeps the kernel from backing the process's memory with huge pages from now on. An allocator reserves large areas and touches them here
/// and there; each touch would take 2 MiB. A refusal, which only old kernels give, leaves everything as it is.
pub fn without_huge_pages() {
    // SAFETY: this call takes numbers only.
    let _ = unsafe { libc::prctl(libc::PR_SET_THP_DISABLE, 1, 0, 0, 0) };
}
