//! Functions of a C library, compiled with patchable entries, as CTX points: `corun_exec::teams::patch`.
#![cfg(all(target_os = "linux", target_arch = "x86_64", not(miri)))]

use std::ffi::{CString, c_char, c_double, c_int, c_long};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use corun_exec::teams::patch::{Entries, PatchError, Prefetch, patch};
use corun_exec::teams::{self, Lost, Operation, Scheduler, TeamOptions};

const SOURCE: &str = r#"
#include <stdarg.h>
#include <stdio.h>
#define KEPT __attribute__((noinline, used))

KEPT long many(int a, int b, int c, int d, int e, int f, double g, double h, double i, double j, double k, double l, double m, double n) {
    return a + 10L*b + 100L*c + 1000L*d + 10000L*e + 100000L*f + (long)(g + 2*h + 4*i + 8*j + 16*k + 32*l + 64*m + 128*n);
}

KEPT double variadic(int count, ...) {
    double sum = 0;
    va_list list;
    va_start(list, count);
    for (int i = 0; i < count; i++) sum = sum * 10 + va_arg(list, double);
    va_end(list);
    return sum;
}

/* A nested function finds its frame in r10. */
KEPT long nested(long base, long value) {
    __attribute__((noinline)) long inner(long x) { return base * 1000 + x; }
    return inner(value);
}

/* Writes down who came by, and passes through a patched function on its way. */
static char journal[256];
static int written;
static KEPT int note(char who) { return written < 255 ? (journal[written++] = who) : 0; }
KEPT int walk(char who) { note(who); return note(who) + 1; }
KEPT const char *read_journal(void) { journal[written] = 0; written = 0; return journal; }

/* Not a loop: each call has a frame that it needs afterwards. */
KEPT long recursive(long depth) {
    volatile char frame[64];
    frame[depth & 63] = 1;
    return depth == 0 ? 0 : recursive(depth - 1) + frame[depth & 63];
}
"#;

/// One test at a time: functions are patched for the process.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Compiles a library and loads it.
fn library(folder: &Path, name: &str, source: &str, entry: &str) -> *mut libc::c_void {
    std::fs::create_dir_all(folder).unwrap();
    let (code, library) = (
        folder.join(format!("{name}.c")),
        folder.join(format!("lib{name}.so")),
    );
    std::fs::write(&code, source).unwrap();
    let compiled = Command::new("cc")
        .args(["-shared", "-fPIC", "-O2", "-fno-ipa-ra", "-w", entry, "-o"])
        .arg(&library)
        .arg(&code)
        .status()
        .expect("cc runs");
    assert!(compiled.success());
    let path = CString::new(library.to_str().unwrap()).unwrap();
    // SAFETY: a library of functions without constructors.
    let handle = unsafe { libc::dlopen(path.as_ptr(), libc::RTLD_NOW) };
    assert!(!handle.is_null());
    handle
}

fn scratch() -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("patch-{}", std::process::id()))
}

struct Functions {
    many: Many,
    variadic: Variadic,
    nested: Nested,
    walk: Walk,
    read_journal: ReadJournal,
    recursive: Recursive,
}

#[rustfmt::skip]
type Many = unsafe extern "C" fn(
    c_int, c_int, c_int, c_int, c_int, c_int,
    c_double, c_double, c_double, c_double, c_double, c_double, c_double, c_double,
) -> c_long;

type Variadic = unsafe extern "C" fn(c_int, ...) -> c_double;
type Nested = unsafe extern "C" fn(c_long, c_long) -> c_long;
type Walk = unsafe extern "C" fn(c_char) -> c_int;
type ReadJournal = unsafe extern "C" fn() -> *const c_char;
type Recursive = unsafe extern "C" fn(c_long) -> c_long;

fn functions() -> &'static Functions {
    static FUNCTIONS: OnceLock<Functions> = OnceLock::new();
    FUNCTIONS.get_or_init(|| {
        let handle = library(&scratch(), "subject", SOURCE, "-fpatchable-function-entry=5");
        let symbol = |name: &str| {
            let name = CString::new(name).unwrap();
            // SAFETY: the library is loaded and never unloaded.
            let address = unsafe { libc::dlsym(handle, name.as_ptr()) };
            assert!(!address.is_null(), "{name:?}");
            address
        };
        // SAFETY: the functions of `SOURCE`, with their types.
        unsafe {
            Functions {
                many: std::mem::transmute::<*mut libc::c_void, Many>(symbol("many")),
                variadic: std::mem::transmute::<*mut libc::c_void, Variadic>(symbol("variadic")),
                nested: std::mem::transmute::<*mut libc::c_void, Nested>(symbol("nested")),
                walk: std::mem::transmute::<*mut libc::c_void, Walk>(symbol("walk")),
                read_journal: std::mem::transmute::<*mut libc::c_void, ReadJournal>(symbol("read_journal")),
                recursive: std::mem::transmute::<*mut libc::c_void, Recursive>(symbol("recursive")),
            }
        }
    })
}

impl Functions {
    /// Calls every function with arguments made of `x` and compares the answers.
    fn answers_are_right(&self, x: i32) {
        let d = |n: i32| f64::from(x + n);
        // SAFETY: the C functions above touch their arguments only.
        unsafe {
            let many = (self.many)(
                x,
                x + 1,
                x + 2,
                x + 3,
                x + 4,
                x + 5,
                d(0),
                d(1),
                d(2),
                d(3),
                d(4),
                d(5),
                d(6),
                d(7),
            );
            let integers: i64 = (0..6).map(|n| 10_i64.pow(n) * i64::from(x + n as i32)).sum();
            let doubles: i64 = (0..8).map(|n| i64::from(x + n) << n).sum();
            assert_eq!(many, integers + doubles);
            assert_eq!(
                (self.variadic)(3, d(1), d(2), d(3)),
                (d(1) * 10.0 + d(2)) * 10.0 + d(3)
            );
            assert_eq!((self.nested)(x.into(), 7), i64::from(x) * 1000 + 7);
        }
    }

    fn journal(&self) -> String {
        // SAFETY: a text of the library's, read before the next call changes it.
        unsafe { std::ffi::CStr::from_ptr((self.read_journal)()) }
            .to_str()
            .unwrap()
            .to_string()
    }
}

/// Runs members that each do the same work with their own number, as a team.
fn team(members: usize, work: impl Fn(usize) + Copy) -> Vec<Result<(), Lost>> {
    let mut scheduler = Scheduler::new(TeamOptions {
        team_size_max: members,
        ..TeamOptions::default()
    })
    .unwrap();
    scheduler.scope(|scope| {
        for member in 0..members {
            scope.spawn(format!("member {member}"), move || {
                teams::operation(Operation(0));
                work(member);
            });
        }
    })
}

fn all_well(results: Vec<Result<(), Lost>>) {
    for result in results {
        result.unwrap();
    }
}

fn walk(member: usize) {
    // SAFETY: writes into the journal of the library; all members are on one thread.
    unsafe { (functions().walk)(b'a' as c_char + member as c_char) };
}

#[test]
fn members_take_turns_where_a_function_was_patched_and_nowhere_else() {
    let (_alone, functions) = (alone(), functions());
    all_well(team(3, walk));
    assert_eq!(functions.journal(), "aabbcc", "nothing is patched");

    let entries = Entries::of_this_process().unwrap();
    let bytes = |name: &str| {
        // SAFETY: code of a loaded library.
        unsafe { *(entries.find(name).unwrap().address as *const [u8; 5]) }
    };
    assert_eq!(bytes("note"), [0x90; 5]);
    // SAFETY: no other thread runs the library's functions, now or when it is dropped.
    let patched = unsafe { patch(&entries, &["note", "walk", "note"], Prefetch::Nothing) }.unwrap();
    assert_eq!(patched.names().collect::<Vec<_>>(), ["note", "walk"]);
    assert_eq!(bytes("note")[0], 0xE8);
    assert_eq!(bytes("recursive"), [0x90; 5]);
    all_well(team(3, walk));
    assert_eq!(functions.journal(), "abcabc", "one step each");
    walk(0);
    assert_eq!(functions.journal(), "aa", "a plain thread passes by");
    all_well(team(2, |member| {
        let _latch = (member == 0).then(teams::latch);
        walk(member);
    }));
    assert_eq!(functions.journal(), "aabb", "a latch is held by the first");

    patched.unpatch().unwrap();
    assert_eq!(bytes("note"), [0x90; 5]);
    all_well(team(3, walk));
    assert_eq!(functions.journal(), "aabbcc", "as before");
}

#[test]
fn every_argument_survives_whatever_other_members_do() {
    let (_alone, functions) = (alone(), functions());
    let entries = Entries::of_this_process().unwrap();
    // `inner` is nested in `nested`; compilers number such functions.
    let inner = entries
        .as_slice()
        .iter()
        .flat_map(|entry| &entry.names)
        .find(|name| name.starts_with("inner"));
    let names = [
        "many",
        "variadic",
        "nested",
        inner.expect("the nested function has an entry"),
    ];
    // SAFETY: no other thread runs the library's functions, now or when it is dropped.
    let patched = unsafe { patch(&entries, &names, Prefetch::Nothing) }.unwrap();
    functions.answers_are_right(5);
    every_argument_survives(functions);
    drop(patched);
    // First arguments are no addresses here: asking for what they point to must do nothing.
    // SAFETY: as above.
    let _patched = unsafe { patch(&entries, &names, Prefetch::FirstArgument) }.unwrap();
    every_argument_survives(functions);
}

fn every_argument_survives(functions: &'static Functions) {
    for float in [false, true] {
        let options = TeamOptions {
            team_size_max: 7,
            float,
            ..TeamOptions::default()
        };
        let mut scheduler = Scheduler::new(options).unwrap();
        let results = scheduler.scope(|scope| {
            for member in 0..7 {
                scope.spawn("member", move || {
                    for round in 0..50 {
                        teams::operation(Operation(0));
                        functions.answers_are_right(member * 100 + round);
                    }
                });
            }
        });
        all_well(results);
    }
}

#[test]
fn threads_have_teams_of_their_own() {
    let (_alone, functions) = (alone(), functions());
    let entries = Entries::of_this_process().unwrap();
    // SAFETY: patched before the threads start and un-patched when they have ended.
    let patched = unsafe { patch(&entries, &["many", "variadic", "nested"], Prefetch::Nothing) }.unwrap();
    std::thread::scope(|threads| {
        for thread in 0..3 {
            threads.spawn(move || {
                for round in 0..20 {
                    all_well(team(5, |member| {
                        functions.answers_are_right((thread * 20 + round) * 5 + member as i32)
                    }));
                }
            });
        }
    });
    patched.unpatch().unwrap();
}

#[test]
fn a_member_that_panics_or_overflows_inside_leaves_the_others_alone() {
    let (_alone, functions) = (alone(), functions());
    let entries = Entries::of_this_process().unwrap();
    // SAFETY: no other thread runs the library's functions, now or when it is dropped.
    let _patched = unsafe { patch(&entries, &["many", "recursive"], Prefetch::Nothing) }.unwrap();
    let results = team(4, |member| {
        functions.answers_are_right(member as i32);
        match member {
            1 => panic!("member {member}"),
            // SAFETY: needs more stack than there is, which ends this member only.
            2 => assert_eq!(unsafe { (functions.recursive)(c_long::MAX) }, 0),
            _ => {}
        }
        functions.answers_are_right(member as i32);
    });
    assert!(results[0].is_ok() && results[3].is_ok());
    assert!(matches!(&results[1], Err(Lost::Panicked(_))), "{:?}", results[1]);
    assert!(
        matches!(&results[2], Err(Lost::Overflowed { .. })),
        "{:?}",
        results[2]
    );
}

#[test]
fn what_cannot_be_patched_is_said_and_nothing_is_changed() {
    let (_alone, _) = (alone(), functions());
    // Entries of two bytes, and a function there is twice.
    library(
        &scratch(),
        "short",
        "int brief(void) { return 1; }",
        "-fpatchable-function-entry=2",
    );
    // No other test patches it: libraries stay loaded, and tests run in any order.
    for name in ["twin_a", "twin_b"] {
        library(
            &scratch(),
            name,
            "int twofold(char who) { return who; }",
            "-fpatchable-function-entry=5",
        );
    }
    let entries = Entries::of_this_process().unwrap();
    let refused = |names: &[&str]| {
        // SAFETY: no other thread runs the libraries' functions.
        let error = unsafe { patch(&entries, names, Prefetch::Nothing) }.unwrap_err();
        let first = entries.find("note").unwrap().address as *const [u8; 5];
        // SAFETY: code of a loaded library.
        assert_eq!(unsafe { *first }, [0x90; 5], "the first is restored");
        error
    };
    assert_eq!(
        refused(&["note", "recursiv"]).to_string(),
        "no patchable function is called \"recursiv\"; the nearest are recursive"
    );
    assert!(matches!(refused(&["note", "brief"]), PatchError::NotPatchable { name, .. } if name == "brief"));
    let several = refused(&["note", "twofold"]);
    assert!(
        matches!(&several, PatchError::Several { places, .. } if places.len() == 2),
        "{several}"
    );

    // SAFETY: no other thread runs the library's functions, now or when it is dropped.
    let patched = unsafe { patch(&entries, &["many"], Prefetch::Nothing) }.unwrap();
    // SAFETY: as above.
    let again = unsafe { patch(&entries, &["many"], Prefetch::Nothing) }.unwrap_err();
    assert!(matches!(again, PatchError::AlreadyPatched { name } if name == "many"));
    drop(patched);
    // SAFETY: as above.
    drop(unsafe { patch(&entries, &["many"], Prefetch::Nothing) }.unwrap());
}
