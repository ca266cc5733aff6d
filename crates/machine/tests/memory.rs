//! The counting allocator, installed as the test program's own allocator, which is why this is one.

use std::alloc::System;
use std::hint::black_box;
use std::sync::{Barrier, Mutex, PoisonError};

use corun_machine::memory::{CountingAllocator, live_bytes, peak_bytes, reset_peak};

#[global_allocator]
static ALLOCATOR: CountingAllocator<System> = CountingAllocator::new(System);

const MIB: u64 = 1 << 20;
/// What the test harness itself may allocate meanwhile, plus the counters' documented slack for a few threads.
const SLACK: u64 = MIB;

/// The peak belongs to the process, so the tests take turns.
static TURN: Mutex<()> = Mutex::new(());

fn near(found: u64, expected: u64) -> bool {
    found.abs_diff(expected) <= SLACK
}

#[test]
fn live_and_peak_follow_one_block() {
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    reset_peak();
    let before = live_bytes();
    let block = black_box(vec![7u8; 64 << 20]);
    assert!(near(live_bytes(), before + 64 * MIB));
    drop(block);
    assert!(near(live_bytes(), before));
    assert!(near(peak_bytes(), before + 64 * MIB));
    reset_peak();
    assert!(near(peak_bytes(), before));
}

#[test]
fn small_blocks_count_too() {
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    reset_peak();
    let before = live_bytes();
    let blocks: Vec<Box<[u8; 1000]>> = (0..20_000).map(|_| Box::new([1; 1000])).collect();
    let expected = before + 20_000 * 1000 + 20_000 * 8;
    assert!(near(live_bytes(), expected));
    assert!(near(peak_bytes(), expected));
    drop(black_box(blocks));
    assert!(near(live_bytes(), before));
}

#[test]
fn the_peak_is_that_of_all_threads_together() {
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    const THREADS: usize = 4;
    reset_peak();
    let before = live_bytes();
    let all_hold = Barrier::new(THREADS);
    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                let blocks: Vec<Vec<u8>> = (0..2000).map(|_| vec![1u8; 4096]).collect();
                all_hold.wait();
                drop(black_box(blocks));
            });
        }
    });
    let held = THREADS as u64 * 2000 * (4096 + 24);
    assert!(
        near(peak_bytes(), before + held),
        "peak {} expected {}",
        peak_bytes() - before,
        held
    );
    assert!(near(live_bytes(), before));
}

#[test]
fn blocks_freed_by_another_thread_balance() {
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let before = live_bytes();
    for _ in 0..200 {
        let blocks: Vec<Vec<u8>> = (0..100).map(|_| vec![1u8; 600]).collect();
        std::thread::spawn(move || drop(black_box(blocks)))
            .join()
            .unwrap();
    }
    assert!(near(live_bytes(), before));
}

#[test]
fn growing_and_shrinking_large_blocks_keeps_contents_and_counts() {
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let before = live_bytes();
    let mut words: Vec<u64> = Vec::new();
    for n in 0..3_000_000u64 {
        words.push(n);
    }
    assert!(words.iter().copied().eq(0..3_000_000));
    assert!(near(live_bytes(), before + words.capacity() as u64 * 8));
    words.truncate(1_500_000);
    words.shrink_to_fit();
    assert!(words.iter().copied().eq(0..1_500_000));
    words.truncate(1000);
    words.shrink_to_fit();
    assert!(words.iter().copied().eq(0..1000));
    assert!(near(live_bytes(), before + 8000));
}

#[test]
fn an_impossible_request_fails_and_is_not_counted() {
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let before = live_bytes();
    let mut block: Vec<u8> = Vec::new();
    assert!(block.try_reserve_exact(isize::MAX as usize - 4096).is_err());
    assert!(near(live_bytes(), before));
}
