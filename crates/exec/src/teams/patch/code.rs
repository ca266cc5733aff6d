//! Rewriting instructions in place, and islands: jumps near an object whose distance to the trampoline is over 2 GiB.

use std::io;
use std::sync::{Mutex, PoisonError};

use super::BYTES;

/// What gcc (five one-byte instructions), clang and binutils (one of five bytes) leave at a patchable entry.
const NOPS: [[u8; BYTES]; 3] = [
    [0x90; BYTES],
    [0x0F, 0x1F, 0x44, 0x00, 0x08],
    [0x0F, 0x1F, 0x44, 0x00, 0x00],
];
/// `call` with a distance of 32 bits.
const CALL: u8 = 0xE8;
/// An island: `jmp *0(%rip)` and the address, padded.
const ISLAND_BYTES: usize = 16;
const PAGE_BYTES: usize = 4096;
/// How far islands are looked for, and how near they must be: the distance of a call, less room for the object itself.
const NEAR_BYTES: usize = 0x7000_0000;

/// The addresses of islands made so far and where they lead. They are never unmapped: a member may be about to return through
/// one. Bounded by one page for each object patched and each trampoline.
static ISLANDS: Mutex<Vec<(usize, usize)>> = Mutex::new(Vec::new());

/// Whether these bytes do nothing and may be replaced.
pub(super) fn is_nops(bytes: &[u8; BYTES]) -> bool {
    NOPS.contains(bytes)
}

/// Whether these bytes are a call to `target` or to an island that leads there.
pub(super) fn is_call_to(bytes: &[u8; BYTES], address: usize, target: usize) -> bool {
    if bytes[0] != CALL {
        return false;
    }
    let distance = i32::from_le_bytes([bytes[1], bytes[2], bytes[3], bytes[4]]);
    let called = (address + BYTES).wrapping_add_signed(distance as isize);
    called == target || islands().contains(&(called, target))
}

fn islands() -> std::sync::MutexGuard<'static, Vec<(usize, usize)>> {
    // A list of finished pairs: whole, whoever panicked.
    ISLANDS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The call from `address` to `target`, through an island where that is too far.
pub(super) fn call(address: usize, target: usize) -> io::Result<[u8; BYTES]> {
    let reached = match distance(address, target) {
        Some(_) => target,
        None => island(address, target)?,
    };
    let distance =
        distance(address, reached).ok_or_else(|| io::Error::from(io::ErrorKind::AddrNotAvailable))?;
    let [a, b, c, d] = distance.to_le_bytes();
    Ok([CALL, a, b, c, d])
}

fn distance(address: usize, target: usize) -> Option<i32> {
    i32::try_from(target.wrapping_sub(address + BYTES) as isize).ok()
}

/// An island near `address` that leads to `target`: a known one, or a new page in the nearest gap of the address space.
fn island(address: usize, target: usize) -> io::Result<usize> {
    let mut islands = islands();
    let known = islands
        .iter()
        .find(|&&(at, to)| to == target && at.abs_diff(address) < NEAR_BYTES);
    if let Some(&(at, _)) = known {
        return Ok(at);
    }
    let mut code = [0xCC; ISLAND_BYTES];
    code[..6].copy_from_slice(&[0xFF, 0x25, 0, 0, 0, 0]);
    code[6..14].copy_from_slice(&target.to_le_bytes());
    let page = near_page(address)?;
    // SAFETY: a fresh page of our own, writable until the next call.
    unsafe { std::ptr::copy_nonoverlapping(code.as_ptr(), page as *mut u8, ISLAND_BYTES) };
    protect(page, PAGE_BYTES, libc::PROT_READ | libc::PROT_EXEC)?;
    islands.push((page, target));
    Ok(page)
}

/// A new writable page as near to `address` as there is one free.
fn near_page(address: usize) -> io::Result<usize> {
    let maps = std::fs::read_to_string("/proc/self/maps")?;
    let mut candidates = free_pages(&maps);
    candidates.sort_by_key(|page| page.abs_diff(address));
    for page in candidates
        .into_iter()
        .take_while(|page| page.abs_diff(address) < NEAR_BYTES)
    {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED_NOREPLACE;
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: a new mapping that replaces none; a page somebody else took meanwhile is an error, and the next is tried.
        let mapped = unsafe { libc::mmap(page as *mut libc::c_void, PAGE_BYTES, protection, flags, -1, 0) };
        if mapped as usize == page {
            return Ok(page);
        }
        if mapped != libc::MAP_FAILED {
            // SAFETY: a kernel that does not know the flag put the page elsewhere; it is ours and unused.
            unsafe { libc::munmap(mapped, PAGE_BYTES) };
        }
    }
    Err(io::Error::other("no free page within 2 GiB of the function"))
}

/// The free pages beside each mapping: just before its start and just after its end.
fn free_pages(maps: &str) -> Vec<usize> {
    let ranges: Vec<(usize, usize)> = maps
        .lines()
        .filter_map(|line| {
            let (start, end) = line.split_whitespace().next()?.split_once('-')?;
            Some((
                usize::from_str_radix(start, 16).ok()?,
                usize::from_str_radix(end, 16).ok()?,
            ))
        })
        .collect();
    let mut pages = Vec::new();
    for pair in ranges.windows(2) {
        // A page is left free on both sides, so that a guard page below a stack stays what it is.
        if pair[1].0.saturating_sub(pair[0].1) >= 4 * PAGE_BYTES {
            pages.push(pair[0].1 + PAGE_BYTES);
            pages.push(pair[1].0 - 2 * PAGE_BYTES);
        }
    }
    pages
}

/// The bytes at a patchable entry.
///
/// # Safety
/// `address` must be one of an [`Entry`](super::Entry) whose object is still loaded.
pub(super) unsafe fn read(address: usize) -> [u8; BYTES] {
    // SAFETY: the caller's promise; code is readable.
    unsafe { (address as *const [u8; BYTES]).read_unaligned() }
}

/// Writes `bytes` over the instructions at `address`: their pages are writable for that moment, then executable only again.
///
/// # Safety
/// As for [`read`], no thread may be executing these bytes, and they must stay instructions that do nothing or a call.
pub(super) unsafe fn write(address: usize, bytes: [u8; BYTES]) -> io::Result<()> {
    let start = address & !(PAGE_BYTES - 1);
    let length = (address + BYTES).next_multiple_of(PAGE_BYTES) - start;
    // Executable throughout: other functions of the page, maybe this one, go on running.
    protect(
        start,
        length,
        libc::PROT_READ | libc::PROT_WRITE | libc::PROT_EXEC,
    )?;
    // SAFETY: writable now, and nobody executes these bytes.
    unsafe { (address as *mut [u8; BYTES]).write_unaligned(bytes) };
    protect(start, length, libc::PROT_READ | libc::PROT_EXEC)
}

fn protect(start: usize, length: usize, protection: libc::c_int) -> io::Result<()> {
    // SAFETY: whole pages of code (or of our own island); contents stay, and what is taken away is the right to write only.
    match unsafe { libc::mprotect(start as *mut libc::c_void, length, protection) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_near_call_is_direct() {
        assert_eq!(call(0x1000, 0x2005).unwrap(), [0xE8, 0x00, 0x10, 0, 0]);
        assert_eq!(call(0x2000, 0x1005).unwrap(), [0xE8, 0x00, 0xF0, 0xFF, 0xFF]);
        assert!(is_call_to(&[0xE8, 0x00, 0x10, 0, 0], 0x1000, 0x2005));
        assert!(!is_call_to(&[0xE8, 0x00, 0x10, 0, 0], 0x1000, 0x2006));
        assert!(!is_call_to(&[0x90; 5], 0x1000, 0x2005));
    }

    #[test]
    fn free_pages_lie_beside_mappings_and_never_next_to_them() {
        let maps = "1000-2000 r--p x\n3000-4000 r-xp y\n10000-11000 rw-p\n";
        assert_eq!(free_pages(maps), [0x5000, 0xE000]);
        assert_eq!(free_pages("nonsense\n-\n"), Vec::<usize>::new());
    }

    #[test]
    fn only_known_fillers_may_be_replaced() {
        assert!(is_nops(&[0x90; 5]) && is_nops(&[0x0F, 0x1F, 0x44, 0x00, 0x08]));
        assert!(!is_nops(&[0x90, 0x90, 0x90, 0x90, 0x55]));
    }
}
