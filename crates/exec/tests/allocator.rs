//! The allocator, installed as the test program's own, which is why this is one.

use std::alloc::{GlobalAlloc, Layout};
use std::hint::black_box;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use corun_exec::allocator::{self, GivingBack, HugeBlocks, KEPT};

#[global_allocator]
static ALLOCATOR: HugeBlocks = HugeBlocks;

/// What is free belongs to the process, so the tests take turns.
static TURN: Mutex<()> = Mutex::new(());

const LARGE: usize = 256 << 20;

/// Bytes of this process in memory.
fn resident() -> usize {
    let pages = std::fs::read_to_string("/proc/self/statm").unwrap();
    pages.split(' ').nth(1).unwrap().parse::<usize>().unwrap() * 4096
}

/// Takes and frees a large block that was written to. What the process had with it.
fn use_large_block() -> usize {
    let block = black_box(vec![1_u8; LARGE]);
    let with_it = resident();
    drop(block);
    with_it
}

#[test]
fn growing_and_shrinking_large_blocks_keeps_contents() {
    let mut words: Vec<u64> = Vec::new();
    words.extend(0..3_000_000_u64);
    for word in 3_000_000..3_100_000_u64 {
        words.push(word);
    }
    assert!(words.iter().copied().eq(0..3_100_000));
    for left in [1_500_000, 1000] {
        words.truncate(left);
        words.shrink_to_fit();
        assert!(words.iter().copied().eq(0..left as u64));
    }
}

#[test]
fn zeroed_blocks_are_zero_when_they_come_again() {
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    for bytes in [4 << 20, (4 << 20) + 12_345, 9 << 20] {
        let layout = Layout::from_size_align(bytes, 64).unwrap();
        // SAFETY: the layout is not empty, the blocks are freed with it, and only their own bytes are read and written.
        unsafe {
            let used = ALLOCATOR.alloc(layout);
            used.write_bytes(1, bytes);
            ALLOCATOR.dealloc(used, layout);
            let zeroed = ALLOCATOR.alloc_zeroed(layout);
            let bytes_of_it = std::slice::from_raw_parts(zeroed, bytes);
            assert!(bytes_of_it.iter().all(|byte| *byte == 0));
            ALLOCATOR.dealloc(zeroed, layout);
        }
    }
}

#[test]
fn an_impossible_request_fails() {
    let mut block: Vec<u8> = Vec::new();
    assert!(block.try_reserve_exact(isize::MAX as usize - 4096).is_err());
}

#[test]
fn free_memory_is_kept_until_it_is_given_back() {
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    if std::env::var_os("MIMALLOC_PURGE_DELAY").is_none() {
        assert_eq!(
            allocator::kept(),
            Duration::from_secs(1),
            "mimalloc's default: the option is the one that is meant"
        );
        allocator::keep_free_memory();
        assert_eq!(allocator::kept(), KEPT);
    }
    let with_it = use_large_block();
    assert!(resident() > with_it - LARGE / 4, "{} of {with_it}", resident());
    allocator::give_back();
    assert!(resident() < with_it - LARGE / 2, "{} of {with_it}", resident());
}

#[test]
fn an_idle_program_gives_memory_back() {
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let giving_back = GivingBack::after(Duration::from_millis(1)).unwrap();
    for _round in 0..2 {
        giving_back.begin();
        let with_it = use_large_block();
        giving_back.end();
        let begin = Instant::now();
        while resident() > with_it - LARGE / 2 {
            assert!(
                begin.elapsed() < Duration::from_secs(60),
                "{} of {with_it}",
                resident()
            );
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}
