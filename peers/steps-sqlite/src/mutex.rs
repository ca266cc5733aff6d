//! SQLite's mutexes for user-level threads ([`METHODS`], given to `SQLITE_CONFIG_MUTEX`).
//!
//! A mutex of the system takes all members of one thread for one owner: a recursive one would let a second member into what a
//! first has locked, another would block the thread and with it the member that is to unlock. So here the owner is the member.
//!
//! * Mutexes of the process (SQLite calls them static) are latches: held for a moment, by whoever comes. Members inside one pass
//!   no CTX point (`corun_exec::teams::latch_enter`), so another member never finds one taken; a member of another thread may, and waits
//!   for nanoseconds.
//! * Mutexes of a connection are held for a whole call, CTX points included. Nobody else wants them as long as each connection is
//!   used by one member; who does gives way until it is free.
//!
//! What it is not: fair, or fast under contention. There is none where tenants have their own connections.

use std::cell::Cell;
use std::ffi::c_int;
use std::sync::atomic::{AtomicUsize, Ordering};

use corun_exec::teams;
use libsqlite3_sys as ffi;

/// One mutex of SQLite's.
struct Mutex {
    /// Who holds it, zero for nobody.
    owner: AtomicUsize,
    /// How many times; the owner's alone.
    depth: Cell<u32>,
    recursive: bool,
    /// Of the process: a latch.
    latch: bool,
}

// SAFETY: `depth` is touched by the owner only, and `owner` hands it over (acquire, release).
unsafe impl Sync for Mutex {}

/// SQLite numbers its own mutexes from 2 to 13.
const STATIC_FIRST: c_int = ffi::SQLITE_MUTEX_STATIC_MAIN;
const STATIC_COUNT: usize = (ffi::SQLITE_MUTEX_STATIC_VFS3 - STATIC_FIRST) as usize + 1;

static STATIC: [Mutex; STATIC_COUNT] = [const {
    Mutex {
        owner: AtomicUsize::new(0),
        depth: Cell::new(0),
        recursive: false,
        latch: true,
    }
}; STATIC_COUNT];

impl Mutex {
    fn try_enter(&self) -> bool {
        let me = teams::identity().get();
        // Relaxed: only the caller stores its own identity, so what it reads of itself is its own last store; anything else sends it
        // to the exchange.
        if self.recursive && self.owner.load(Ordering::Relaxed) == me {
            self.depth.set(self.depth.get() + 1);
            return true;
        }
        if self.latch {
            // Before the mutex: from its first moment on no CTX point may switch.
            teams::latch_enter();
        }
        // Acquire: sees what the owner before did, whose `leave` released.
        if self
            .owner
            .compare_exchange(0, me, Ordering::Acquire, Ordering::Relaxed)
            .is_ok()
        {
            self.depth.set(1);
            return true;
        }
        if self.latch {
            teams::latch_leave();
        }
        false
    }

    fn enter(&self) {
        while !self.try_enter() {
            // The owner is a member of another thread, or one of this thread that has to run to give it back.
            teams::yield_now();
        }
    }

    fn leave(&self) {
        let depth = self.depth.get() - 1;
        self.depth.set(depth);
        if depth == 0 {
            // Release: what was done inside is seen by the next owner.
            self.owner.store(0, Ordering::Release);
            if self.latch {
                teams::latch_leave();
            }
        }
    }

    fn held(&self) -> bool {
        self.owner.load(Ordering::Relaxed) == teams::identity().get()
    }
}

/// The table SQLite is given.
pub(crate) static METHODS: ffi::sqlite3_mutex_methods = ffi::sqlite3_mutex_methods {
    xMutexInit: Some(nothing),
    xMutexEnd: Some(nothing),
    xMutexAlloc: Some(alloc),
    xMutexFree: Some(free),
    xMutexEnter: Some(enter),
    xMutexTry: Some(try_enter),
    xMutexLeave: Some(leave),
    xMutexHeld: Some(held),
    xMutexNotheld: Some(not_held),
};

unsafe extern "C" fn nothing() -> c_int {
    ffi::SQLITE_OK
}

unsafe extern "C" fn alloc(kind: c_int) -> *mut ffi::sqlite3_mutex {
    if kind >= STATIC_FIRST {
        let found = STATIC.get((kind - STATIC_FIRST) as usize);
        return found.map_or(std::ptr::null_mut(), |mutex| {
            (&raw const *mutex).cast_mut().cast()
        });
    }
    let recursive = kind == ffi::SQLITE_MUTEX_RECURSIVE;
    let mutex = Mutex {
        owner: AtomicUsize::new(0),
        depth: Cell::new(0),
        recursive,
        latch: false,
    };
    Box::into_raw(Box::new(mutex)).cast()
}

unsafe extern "C" fn free(mutex: *mut ffi::sqlite3_mutex) {
    // SAFETY: SQLite frees only what it was given for one of the two kinds it may free, once.
    drop(unsafe { Box::from_raw(mutex.cast::<Mutex>()) });
}

/// # Safety
/// `mutex` came from [`alloc`] and was not freed.
unsafe fn of<'a>(mutex: *mut ffi::sqlite3_mutex) -> &'a Mutex {
    // SAFETY: the caller's promise; shared access only.
    unsafe { &*mutex.cast::<Mutex>() }
}

unsafe extern "C" fn enter(mutex: *mut ffi::sqlite3_mutex) {
    // SAFETY: SQLite's own mutex, alive.
    unsafe { of(mutex) }.enter();
}

unsafe extern "C" fn try_enter(mutex: *mut ffi::sqlite3_mutex) -> c_int {
    // SAFETY: as above.
    match unsafe { of(mutex) }.try_enter() {
        true => ffi::SQLITE_OK,
        false => ffi::SQLITE_BUSY,
    }
}

unsafe extern "C" fn leave(mutex: *mut ffi::sqlite3_mutex) {
    // SAFETY: as above; SQLite leaves what it holds.
    unsafe { of(mutex) }.leave();
}

unsafe extern "C" fn held(mutex: *mut ffi::sqlite3_mutex) -> c_int {
    // SAFETY: as above.
    c_int::from(unsafe { of(mutex) }.held())
}

unsafe extern "C" fn not_held(mutex: *mut ffi::sqlite3_mutex) -> c_int {
    // SAFETY: as above.
    c_int::from(!unsafe { of(mutex) }.held())
}
