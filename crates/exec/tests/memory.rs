//! Builds stay below the memory they announce, and give back what they took. A program of its own: its allocator counts.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use corun_exec::table::{bytes_max, bytes_max_of};
use corun_exec::{BuildError, BuildOptions, Chunk, Codes, JoinTable, Kind, ScopedThreads};

/// What the standard library may still hold for threads that have just ended.
const THREADS_BYTES: usize = 4096;

/// Counts live bytes and their peak; refuses allocations above a limit.
struct Counting;

static LIVE: AtomicUsize = AtomicUsize::new(0);
static PEAK: AtomicUsize = AtomicUsize::new(0);
static REFUSE_FROM_BYTES: AtomicUsize = AtomicUsize::new(usize::MAX);

// SAFETY: hands everything to the system's allocator, except what it refuses with a null pointer.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if layout.size() >= REFUSE_FROM_BYTES.load(Ordering::Relaxed) {
            return std::ptr::null_mut();
        }
        let live = LIVE.fetch_add(layout.size(), Ordering::Relaxed) + layout.size();
        PEAK.fetch_max(live, Ordering::Relaxed);
        // SAFETY: the caller's layout.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        LIVE.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: the pointer came from `alloc` above.
        unsafe { System.dealloc(pointer, layout) };
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Numbers that look random, different for different inputs.
fn scrambled(number: u64) -> u64 {
    let mixed = (number ^ number >> 31).wrapping_mul(0x7fb5_d329_728e_a185);
    (mixed ^ mixed >> 27).wrapping_mul(0x81da_def4_bc2d_d44d) ^ mixed >> 33
}

/// One test, because the counters are the process's.
#[test]
fn builds_stay_below_what_they_announce() {
    type Keys = fn(u64) -> u64;
    let families: [(&str, Keys); 8] = [
        ("random", scrambled),
        ("random, 32 bits", |row| scrambled(row) >> 32),
        ("in order", |row| row),
        ("every fourth", |row| row * 4),
        ("pairs", |row| scrambled(row / 2)),
        ("pairs in order", |row| row / 2),
        ("few", |row| scrambled(row % 10)),
        ("equal", |_| 7),
    ];
    let cancel = AtomicBool::new(false);
    for rows in [0, 1, 10, 1_000, 20_000, 150_000, 1_200_000] {
        for (name, key) in families {
            let values: Vec<u64> = (0..rows).map(key).collect();
            let chunks: Vec<Chunk<'_>> = values
                .chunks(8192)
                .enumerate()
                .map(|(number, values)| Chunk {
                    codes: Codes::U64 { values, bias: 0 },
                    valid: None,
                    first_row: (number * 8192) as u32,
                })
                .collect();
            for (threads, force) in [
                (1, None),
                (3, None),
                (1, Some(Kind::Buckets64)),
                (2, Some(Kind::Buckets32)),
            ] {
                let options = BuildOptions {
                    force,
                    ..BuildOptions::default()
                };
                let what = format!("{rows} rows, {name}, {threads} threads, {force:?}");
                let before = LIVE.load(Ordering::Relaxed);
                PEAK.store(before, Ordering::Relaxed);
                let table = JoinTable::build(&chunks, &options, &ScopedThreads(threads), &cancel).unwrap();
                let peak = PEAK.load(Ordering::Relaxed) - before;
                let kept = LIVE.load(Ordering::Relaxed) - before;
                let announced = bytes_max(values.len(), threads, &options);
                let of_kind = bytes_max_of(table.kind(), values.len(), threads, &options);
                assert!(of_kind <= announced, "{what}: {of_kind} of {announced}");
                assert!(peak <= of_kind, "{what}: peak {peak}, announced {of_kind}");
                assert!(
                    kept.abs_diff(table.bytes()) <= THREADS_BYTES,
                    "{what}: kept {kept}, says {}",
                    table.bytes()
                );
                if name == "random" && rows == 1_200_000 {
                    // What 16 M rows in 550 MiB come to.
                    assert!(
                        peak <= values.len() * 36,
                        "{what}: {} bytes a row",
                        peak / values.len()
                    );
                }
                drop(table);
                assert!(
                    LIVE.load(Ordering::Relaxed).abs_diff(before) <= THREADS_BYTES,
                    "{what}"
                );
            }
        }
    }

    let values: Vec<u64> = (0..1_200_000).map(scrambled).collect();
    let chunk = Chunk {
        codes: Codes::U64 {
            values: &values,
            bias: 0,
        },
        valid: None,
        first_row: 0,
    };
    for refuse_from in [1 << 20, 8 << 20, 16 << 20] {
        REFUSE_FROM_BYTES.store(refuse_from, Ordering::Relaxed);
        let result = JoinTable::build(&[chunk], &BuildOptions::default(), &ScopedThreads(2), &cancel);
        REFUSE_FROM_BYTES.store(usize::MAX, Ordering::Relaxed);
        assert!(matches!(result, Err(BuildError::OutOfMemory(_))), "{result:?}");
    }
}
