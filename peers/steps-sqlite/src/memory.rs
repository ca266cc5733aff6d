//! SQLite's allocator ([`METHODS`], given to `SQLITE_CONFIG_MALLOC`): the C library's, which keeps sizes itself.
//!
//! It has no CTX point inside (the C library is not compiled for patching), so no lock of its own is ever held across a switch, and
//! members of one thread take turns in it. SQLite's default would do the same behind a header of its own in each block.

use std::ffi::{c_int, c_void};

use libsqlite3_sys as ffi;

/// The table SQLite is given.
pub(crate) const METHODS: ffi::sqlite3_mem_methods = ffi::sqlite3_mem_methods {
    xMalloc: Some(malloc),
    xFree: Some(free),
    xRealloc: Some(realloc),
    xSize: Some(size),
    xRoundup: Some(roundup),
    xInit: Some(init),
    xShutdown: Some(shutdown),
    pAppData: std::ptr::null_mut(),
};

unsafe extern "C" fn malloc(bytes: c_int) -> *mut c_void {
    // SAFETY: SQLite asks for positive sizes; null is an answer it handles.
    unsafe { libc::malloc(bytes as usize) }
}

unsafe extern "C" fn free(block: *mut c_void) {
    // SAFETY: a block of `malloc` or `realloc`.
    unsafe { libc::free(block) };
}

unsafe extern "C" fn realloc(block: *mut c_void, bytes: c_int) -> *mut c_void {
    // SAFETY: a block of ours and a positive size; null leaves the block as it is, as SQLite expects.
    unsafe { libc::realloc(block, bytes as usize) }
}

unsafe extern "C" fn size(block: *mut c_void) -> c_int {
    // SAFETY: a block of ours, or null, whose size is zero.
    unsafe { libc::malloc_usable_size(block) as c_int }
}

unsafe extern "C" fn roundup(bytes: c_int) -> c_int {
    bytes.saturating_add(7) & !7
}

unsafe extern "C" fn init(_: *mut c_void) -> c_int {
    ffi::SQLITE_OK
}

unsafe extern "C" fn shutdown(_: *mut c_void) {}
