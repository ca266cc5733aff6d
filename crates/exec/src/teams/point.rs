//! CTX points: places in the source where a member passes the processor on ([`ctx!`](crate::ctx)), and which of them are on.
//!
//! Every point is a [`Point`] in a link section of its own, so that [`points`] finds all that are compiled into the program. One
//! that is off costs a load and a branch that is not taken.
//!
//! All are off until somebody chooses: [`load_profile`](super::load_profile), [`set_points`], or the first scheduler, which
//! turns on those that prefetch ([`default_points`]). What is chosen is armed only while some scheduler of the process runs teams:
//! where there is nobody to switch to, in plain threads and in serial mode, a point that is on costs as little as one that is off.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use super::ring::Node;
use super::switch::{switch, switch_float};
use super::{local, unwinding};
use crate::prefetch::prefetch_read;

/// A CTX point compiled into the program. Tools that look at a program from outside find it so:
///
/// ```text
/// byte 0     1           2   4     8       16            24           32
///      armed prefetches  on  line  column  file pointer  file length
/// ```
///
/// The compiled point reads byte 0.
#[repr(C)]
pub struct Point {
    armed: AtomicBool,
    prefetches: bool,
    on: AtomicBool,
    line: u32,
    column: u32,
    file: *const u8,
    file_length: usize,
}

#[cfg(target_pointer_width = "64")]
const _: () = {
    use std::mem::offset_of;
    assert!(size_of::<Point>() == 32 && align_of::<Point>() == 8);
    assert!(offset_of!(Point, line) == 4 && offset_of!(Point, column) == 8 && offset_of!(Point, file) == 16);
};

// SAFETY: but for its atomics it never changes, and the file is a static string.
unsafe impl Sync for Point {}

/// A CTX point: passes the processor to the next member of the running member's team, if the point is on. With `prefetch = ptr`
/// it first asks for the line at a pointer, which is only evaluated if the point is on and there are teams. Nothing happens on a plain thread, in a
/// stray, in a latch ([`teams::latch`](crate::teams::latch())), and while unwinding.
///
/// ```
/// let row = 7_u64;
/// corun_exec::ctx!();
/// corun_exec::ctx!(prefetch = &raw const row);
/// ```
#[macro_export]
macro_rules! ctx {
    () => {
        $crate::__ctx!(false, ::core::ptr::null::<u8>())
    };
    (prefetch = $pointer:expr) => {
        $crate::__ctx!(true, $pointer)
    };
}

/// The part the forms of `ctx!` share.
#[doc(hidden)]
#[macro_export]
macro_rules! __ctx {
    ($prefetches:literal, $pointer:expr) => {{
        #[cfg_attr(target_os = "linux", unsafe(link_section = "corun_ctx"))]
        static POINT: $crate::teams::Point =
            $crate::teams::Point::new(::core::file!(), ::core::line!(), ::core::column!(), $prefetches);
        if POINT.is_armed() {
            $crate::teams::pass_on(&POINT, ($pointer).cast::<u8>());
        }
    }};
}

impl Point {
    /// For [`ctx!`](crate::ctx).
    #[doc(hidden)]
    pub const fn new(file: &'static str, line: u32, column: u32, prefetches: bool) -> Point {
        Point {
            armed: AtomicBool::new(false),
            prefetches,
            on: AtomicBool::new(false),
            line,
            column,
            file: file.as_ptr(),
            file_length: file.len(),
        }
    }

    /// For [`ctx!`](crate::ctx): whether it is on and some scheduler runs teams. Relaxed: nothing else depends on it.
    #[doc(hidden)]
    #[inline(always)]
    pub fn is_armed(&self) -> bool {
        self.armed.load(Ordering::Relaxed)
    }

    /// Whether it passes the processor on where there are teams.
    pub fn is_on(&self) -> bool {
        self.on.load(Ordering::Relaxed)
    }

    /// Turns it on or off.
    pub fn set(&self, on: bool) {
        let teams = TEAMS.lock().unwrap_or_else(PoisonError::into_inner);
        self.on.store(on, Ordering::Relaxed);
        self.armed.store(on && *teams > 0, Ordering::Relaxed);
    }

    /// Whether it has a pointer to ask for.
    pub fn prefetches(&self) -> bool {
        self.prefetches
    }

    /// The source file, as the compiler names it.
    pub fn file(&self) -> &'static str {
        // SAFETY: `new` took a static string apart.
        unsafe { std::str::from_utf8_unchecked(std::slice::from_raw_parts(self.file, self.file_length)) }
    }

    /// The line of `ctx!`, from 1.
    pub fn line(&self) -> u32 {
        self.line
    }

    /// The column of `ctx!`, from 1.
    pub fn column(&self) -> u32 {
        self.column
    }
}

impl fmt::Debug for Point {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let on = if self.is_on() { "on" } else { "off" };
        write!(f, "{}:{}:{} {on}", self.file(), self.line, self.column)
    }
}

/// What a point that is armed does. The point itself is passed so that a tracer sees which it was, and so that the compiler cannot
/// conclude that nobody ever turns it on.
#[doc(hidden)]
#[cold]
#[inline(never)]
pub fn pass_on(_point: &'static Point, prefetch: *const u8) {
    local::with(|local| {
        let member = local.member.get();
        if member.is_null() {
            return;
        }
        let gate = local.gate.get();
        if gate & !local::FLOAT != 0 || unwinding() {
            return;
        }
        // SAFETY: the running member exists, and if it is in a ring then in its team, whose members exist and were left by a
        // switch. A stray's links are null.
        unsafe {
            let next: *mut Node = (*member).next;
            if next.is_null() || next == member {
                return;
            }
            prefetch_read(prefetch);
            (*member).switches += 1;
            if gate == 0 {
                switch(member, next, &local.member, next);
            } else {
                switch_float(member, next, &local.member, next);
            }
        }
    });
}

/// One point that is always there, so that the section is; nobody passes it.
#[cfg(all(target_os = "linux", not(miri)))]
#[unsafe(link_section = "corun_ctx")]
static ANCHOR: Point = Point::new("", 0, 0, false);

/// Every point compiled into the program. Code that the linker left out has none.
pub fn points() -> impl Iterator<Item = &'static Point> {
    section().iter().filter(|point| point.file_length > 0)
}

#[cfg(all(target_os = "linux", not(miri)))]
fn section() -> &'static [Point] {
    unsafe extern "C" {
        #[link_name = "__start_corun_ctx"]
        static START: u8;
        #[link_name = "__stop_corun_ctx"]
        static STOP: u8;
    }
    // Keeps the section, and with it the two symbols.
    std::hint::black_box(&raw const ANCHOR);
    let (start, stop) = (&raw const START, &raw const STOP);
    let count = (stop as usize - start as usize) / size_of::<Point>();
    // SAFETY: the linker puts the section's contents, all of them points of a size that is a multiple of their alignment, between
    // the symbols. Points change through atomics only.
    unsafe { std::slice::from_raw_parts(start.cast(), count) }
}

#[cfg(not(all(target_os = "linux", not(miri))))]
fn section() -> &'static [Point] {
    &[]
}

/// Schedulers of the process that run teams whose members switch at points. The lock is also held while points change.
static TEAMS: Mutex<usize> = Mutex::new(0);

/// A scheduler begins to run teams, or no longer does. The first arms the points that are on, the last disarms them.
pub(super) fn arm(begins: bool) {
    let mut teams = TEAMS.lock().unwrap_or_else(PoisonError::into_inner);
    if begins {
        *teams += 1;
    } else {
        *teams -= 1;
    }
    if *teams == usize::from(begins) {
        for point in points() {
            point.armed.store(begins && point.is_on(), Ordering::Relaxed);
        }
    }
}

/// Whether somebody has chosen which points are on.
static CHOSEN: AtomicBool = AtomicBool::new(false);

/// Turns each point on or off.
pub fn set_points(mut on: impl FnMut(&Point) -> bool) {
    CHOSEN.store(true, Ordering::Relaxed);
    for point in points() {
        point.set(on(point));
    }
}

/// What is on without a profile: the points that prefetch.
pub fn default_points() {
    set_points(Point::prefetches);
}

/// The default, unless something was chosen before.
pub(super) fn choose_once() {
    if !CHOSEN.load(Ordering::Relaxed) {
        default_points();
    }
}
