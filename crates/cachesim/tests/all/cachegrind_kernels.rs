//! Cachegrind as a witness: kernels whose misses are known by arithmetic, run under it and read by [`corun_cachesim::cachegrind`].
//!
//! A program without libraries has a function for each kernel: loads at a stride over an array far larger than the caches, a walk in a
//! cycle within and beyond the first level, and straight code of known length against a small instruction cache. Each is called once to warm
//! it and once to be counted, under different names. Only the few accesses to the stack around a kernel are not its own.
//!
//! Without valgrind or a C compiler there is nothing to run; the test is skipped.
#![cfg(all(target_os = "linux", target_arch = "x86_64"))]

use std::path::{Path, PathBuf};
use std::process::Command;

use corun_cachesim::cachegrind::{Counts, Event, Profile};
use corun_cachesim::callgrind::Executed;

use crate::skipped::skipped;

/// Caches: 4 KiB of instructions, 8 KiB of data, 64 KiB behind both.
const CACHES: [&str; 3] = ["--I1=4096,4,64", "--D1=8192,8,64", "--LL=65536,16,64"];
/// Accesses to the stack and loads of addresses around a kernel: calls, returns, saved registers.
const AROUND: u64 = 16;
/// Bytes that the strides go over.
const ARRAY: u64 = 1 << 20;
/// Rounds of a cycle and of the straight code.
const ROUNDS: u64 = 10;

const PROGRAM: &str = r#"
// Initialised, so that there is a data segment: of a program without one valgrind reads no symbols.
static unsigned long array[1 << 17] __attribute__((aligned(4096))) = {1};
static void *cycle[1 << 14] __attribute__((aligned(4096))) = {cycle};
static volatile unsigned long sink;
#define F __attribute__((noinline, noclone)) void

#define STRIDE(words) \
  F stride_##words(void) { \
    volatile unsigned long *p = array; \
    for (unsigned i = 0; i < 1 << 17; i += words) (void)p[i]; \
  }
STRIDE(1) STRIDE(2) STRIDE(4) STRIDE(8) STRIDE(16)

#define CHASE(name) \
  F name(unsigned hops) { void *volatile *p = cycle; while (hops--) p = *p; sink = (unsigned long)p; }
CHASE(chase_warm) CHASE(chase_within) CHASE(chase_beyond) CHASE(chase_far)

// Lines of the cycle, visited in an order of its own: 5 is prime to each number of them.
F link(unsigned lines) {
  unsigned at = 0;
  for (unsigned i = 0; i < lines; i++) { unsigned next = (at + 5) % lines; cycle[at * 8] = &cycle[next * 8]; at = next; }
}

// Instructions of eight bytes, eight to a line; the last eight bytes are a decrement and a far branch.
#define CODE(name, lines) \
  F name(unsigned rounds) { \
    __asm__ volatile(".p2align 6\n1:\n.rept " #lines "*8-1\n.byte 0x0f,0x1f,0x84,0,0,0,0,0\n.endr\n" \
                     "dec %0\njnz 1b\n" : "+r"(rounds) : : "cc"); \
  }
CODE(code_within_warm, 32) CODE(code_beyond, 128)

F code_within(unsigned rounds) { for (unsigned i = 0; i < 2; i++) code_within_warm(rounds); }

void _start(void) {
  for (int i = 0; i < TIMES; i++) {
    stride_1(); stride_2(); stride_4(); stride_8(); stride_16();
    link(64);   chase_warm(64);   chase_within(640);
    link(512);  chase_warm(512);  chase_beyond(5120);
    link(2048); chase_warm(2048); chase_far(20480);
    code_within(10);
    code_beyond(10);
  }
  __asm__ volatile("syscall" : : "a"(60), "D"(0) : "rcx", "r11", "memory");
  __builtin_unreachable();
}
"#;

fn there(program: &str) -> bool {
    let output = Command::new(program).arg("--version").output();
    output.is_ok_and(|output| output.status.success())
}

fn run(command: &mut Command) {
    let output = command.output().expect("it can be started");
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{command:?}: {text}");
}

/// The program, which does everything so many times. It is always the same file: callgrind's files of code go by path.
fn program(times: u64) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let source = folder.join("cachegrind_kernels.c");
    let program = folder.join("cachegrind_kernels");
    std::fs::write(&source, PROGRAM).expect("a source file");
    run(Command::new("cc")
        .args([
            "-O1",
            "-ffreestanding",
            "-nostdlib",
            "-static",
            "-no-pie",
            "-fno-stack-protector",
        ])
        .args(["-fno-inline", "-fcf-protection=none"])
        .arg(format!("-DTIMES={times}"))
        .arg("-o")
        .args([&program, &source]));
    program
}

fn under(tool: &str, options: &[&str], program: &Path) -> String {
    let out = program.with_extension(tool);
    run(Command::new("valgrind")
        .arg(format!("--tool={tool}"))
        .args(options)
        .args(CACHES)
        .arg(format!("--{tool}-out-file={}", out.display()))
        .arg(program));
    std::fs::read_to_string(out).expect("an output file")
}

#[test]
fn misses_are_those_of_arithmetic() {
    for needed in ["valgrind", "cc"] {
        if !there(needed) {
            skipped(format!(
                "`{needed}` is not installed, so there is no cachegrind to ask"
            ));
            return;
        }
    }
    let once = program(1);
    let text = under("cachegrind", &["--cache-sim=yes", "--branch-sim=yes"], &once);
    let profile = Profile::parse(&text).expect("a whole file");
    let of = |name: &str| -> Counts {
        let found = profile.functions().iter().find(|function| function.name == name);
        found.unwrap_or_else(|| panic!("no function {name}")).counts
    };
    let near = |what: &str, found: u64, expected: u64| {
        assert!(
            (expected..=expected + AROUND).contains(&found),
            "{what}: {found}, should be {expected}"
        );
    };

    // A load in every line misses, and one in a line that came before hits: the miss rate is the stride over the line, at most 1.
    for words in [1u64, 2, 4, 8, 16] {
        let counts = of(&format!("stride_{words}"));
        let loads = ARRAY / 8 / words;
        let misses = loads.min(ARRAY / 64);
        near("loads at a stride", counts.get(Event::Loads), loads);
        near(
            "first-level misses at a stride",
            counts.get(Event::L1dLoadMisses),
            misses,
        );
        near(
            "last-level misses at a stride",
            counts.get(Event::LastLoadMisses),
            misses,
        );
        let percent = counts.l1d_load_miss_percent().expect("loads");
        let expected = 100.0 * (words as f64 / 8.0).min(1.0);
        assert!(
            (percent - expected).abs() < 0.2,
            "{percent} % at {words} words, should be {expected} %"
        );
        // A conditional branch ends each round of the loop.
        near("branches", counts.get(Event::ConditionalBranches), loads);
        // The predictor learns one history after the other.
        assert!(counts.get(Event::ConditionalMispredictions) < 64);
    }

    // 4 KiB stay in 8; 32 KiB in a cycle never find in 8 what comes next, but all in 64; 128 KiB find nothing anywhere.
    for (name, hops, first, last) in [
        ("chase_within", 640, 0, 0),
        ("chase_beyond", 5120, 5120, 0),
        ("chase_far", 20480, 20480, 20480),
    ] {
        let counts = of(name);
        near(name, counts.get(Event::Loads), hops);
        near(name, counts.get(Event::L1dLoadMisses), first);
        near(name, counts.get(Event::LastLoadMisses), last);
    }

    // 2 KiB of straight code miss once a line in all; 8 KiB in a cache of 4 miss every line in every round.
    let within = of("code_within_warm");
    near(
        "instructions",
        within.get(Event::Instructions),
        2 * ROUNDS * (32 * 8 + 1),
    );
    near("misses of code that fits", within.get(Event::L1iMisses), 32);
    let beyond = of("code_beyond");
    near(
        "instructions",
        beyond.get(Event::Instructions),
        ROUNDS * (128 * 8 + 1),
    );
    near(
        "misses of code that does not",
        beyond.get(Event::L1iMisses),
        ROUNDS * 128,
    );
    let mix = beyond.mix().expect("instructions");
    assert!(mix.other_percent > 99.0 && mix.load_percent < 1.0, "{mix:?}");

    // Three times less once is twice, exactly where nothing depends on what was before.
    let options = [
        "--dump-instr=yes",
        "--compress-strings=no",
        "--compress-pos=no",
        "--cache-sim=yes",
    ];
    let by_instruction =
        |program: &Path| Executed::parse(&under("callgrind", &options, program)).expect("a whole file");
    let warm = by_instruction(&once);
    let thrice = program(3);
    let full = by_instruction(&thrice);
    let text = under("cachegrind", &["--cache-sim=yes", "--branch-sim=yes"], &thrice);
    let more = Profile::parse(&text).expect("a whole file");
    let more = more.less(&profile).expect("it did more");
    let found = more
        .functions()
        .iter()
        .find(|function| function.name == "code_beyond");
    let twice = found.expect("it ran").counts;
    assert_eq!(
        twice.get(Event::Instructions),
        2 * beyond.get(Event::Instructions)
    );
    assert_eq!(twice.get(Event::L1iMisses), 2 * beyond.get(Event::L1iMisses));

    // The code each of the two additional times needs: two kernels of known length, and around them what `-O1` makes of the rest.
    let bytes = full.code(&warm, 2).bytes();
    let straight = (32 + 128) * 64;
    assert!(
        (straight..straight + 2048).contains(&bytes),
        "{bytes} bytes of code"
    );
    let functions = full.functions(&warm);
    let found = functions.iter().find(|function| function.name == "code_beyond");
    let by_callgrind = found.expect("it ran").counts;
    assert_eq!(
        by_callgrind.get(Event::Instructions),
        twice.get(Event::Instructions)
    );
    assert_eq!(by_callgrind.get(Event::L1iMisses), twice.get(Event::L1iMisses));
}
