//! A traced operation's misses in the simulated instruction cache against callgrind's, whose cache is cachegrind's, at the same geometry.
//!
//! A program without libraries, with some 50 KiB of code, runs one operation again and again. The tracer steps through one of them in
//! the middle; callgrind counts instructions and misses between entry and return of all of them, its cache simulated outside as well.
//! Both run the same instructions, so that these must be equal in number, and misses within 2 %: callgrind's cache also sees the few
//! instructions between two operations.
//!
//! Without libraries, because those choose other code where they find AVX-512, which valgrind has not: with the system's C library beneath
//! SQLite misses differ by up to 6 % of 300, with plain `memcpy` and the like in the program they are equal.
//!
//! Without valgrind or a C compiler there is nothing to compare with; the test is skipped.
#![cfg(all(target_os = "linux", target_arch = "x86_64"))]

use std::fmt::Write as _;
use std::path::Path;
use std::process::Command;

use corun_cachesim::instruction_cache::{CodeCache, Operation, Original, Recorder, RecorderLimits};
use corun_machine::trace::{After, Target, TraceOptions, TraceSource, Tracer};
use corun_model::teams::L1i;

use crate::skipped::skipped;

const OPERATIONS: u64 = 11;
const FUNCTIONS: u64 = 400;

/// Functions with different constants, branches that depend on what they are given, and loops; called in no order of their places.
fn program() -> String {
    // Words that are initialised make a data segment; of a program without one valgrind reads no symbols.
    let mut c = String::from(
        "#define F static __attribute__((noinline)) unsigned long\nstatic unsigned long words[512] = {1};\n",
    );
    for f in 0..FUNCTIONS {
        let (a, b, d) = (f * 2_654_435_761 % 65_521, f * 40_503 % 32_749, f % 5 + 1);
        let _ = writeln!(
            c,
            "F f{f}(unsigned long x) {{\n  if (x % {d}) x = x * {a} + {b}; else x ^= x >> 7;\n  for (int i = 0; i < {d}; i++) \
             words[(x + i * {b}) % 512] += x;\n  if (x & {}) x += words[{}] * {b};\n  return x ^ (x << 9) ^ {a};\n}}",
            1 << (f % 7),
            f % 512,
        );
    }
    c.push_str("__attribute__((noinline)) unsigned long operation(unsigned long x) {\n");
    c.push_str("  for (int i = 0; i < 512; i++) words[i] = i;\n");
    // Each round of a repeated instruction is one step, and one more to callgrind, which sees that there is no further.
    c.push_str("  void *to = words, *from = words + 64; unsigned long count = 99;\n");
    c.push_str(
        "  __asm__ volatile(\"rep movsb\" : \"+D\"(to), \"+S\"(from), \"+c\"(count) : : \"memory\");\n",
    );
    for call in 0..FUNCTIONS {
        let f = call * 157 % FUNCTIONS;
        let _ = match call % 3 {
            0 => writeln!(c, "  x = f{f}(x);"),
            1 => writeln!(c, "  if (x & 4) x = f{f}(x); else x = f{}(x + 1);", f / 2),
            _ => writeln!(c, "  for (int i = 0; i < 2; i++) x = f{f}(x) + f{}(i);", f / 3),
        };
    }
    let _ = writeln!(
        c,
        "  return x;\n}}\nvoid _start(void) {{\n  volatile unsigned long sum = 0;\n  \
         for (int i = 0; i < {OPERATIONS}; i++) sum += operation(1);\n  \
         __asm__ volatile(\"syscall\" : : \"a\"(60), \"D\"(0) : \"rcx\", \"r11\", \"memory\");\n  __builtin_unreachable();\n}}"
    );
    c
}

fn there(program: &str) -> bool {
    let output = Command::new(program).arg("--version").output();
    output.is_ok_and(|output| output.status.success())
}

fn run(command: &mut Command) {
    let output = command.output().unwrap();
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{command:?}: {text}");
}

/// Two operations in the middle, as they were stepped through.
fn operations(program: &Path) -> Vec<Operation> {
    let options = TraceOptions {
        warm: 3,
        operations: 2,
        ..TraceOptions::of(Target::Function("operation".to_owned()))
    };
    let mut tracer = Tracer::start(Command::new(program), options).unwrap();
    let mut recorder = Recorder::new(RecorderLimits::default());
    while tracer.next_operation(&mut recorder).unwrap().is_some() {}
    tracer.finish(After::Kill);
    recorder.finish().unwrap()
}

/// `Ir` and `I1mr` between entry and return of `operation`, all calls together.
fn callgrind(program: &Path, l1i: L1i) -> (u64, u64) {
    let out = program.with_extension("callgrind");
    run(Command::new("valgrind")
        .args([
            "--tool=callgrind",
            "--cache-sim=yes",
            "--toggle-collect=operation",
        ])
        .arg(format!("--I1={},{},{}", l1i.bytes, l1i.ways, l1i.line_bytes))
        .args(["--D1=32768,8,64", "--LL=1048576,16,64"])
        .arg(format!("--callgrind-out-file={}", out.display()))
        .arg(program));
    let text = std::fs::read_to_string(out).unwrap();
    let words = |start: &str| -> Vec<String> {
        let line = text.lines().find_map(|line| line.strip_prefix(start)).unwrap();
        line.split_whitespace().map(str::to_owned).collect()
    };
    let (events, totals) = (words("events:"), words("totals:"));
    let count = |event: &str| {
        let at = events.iter().position(|name| name == event).unwrap();
        totals[at].parse().unwrap()
    };
    (count("Ir"), count("I1mr"))
}

#[test]
fn misses_are_those_of_callgrind() {
    for needed in ["valgrind", "cc"] {
        if !there(needed) {
            skipped(format!(
                "`{needed}` is not installed, so there is no callgrind to compare with"
            ));
            return;
        }
    }
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let source = folder.join("steps_against_callgrind.c");
    let path = folder.join("steps_against_callgrind");
    std::fs::write(&source, program()).unwrap();
    run(Command::new("cc")
        .args(["-O1", "-ffreestanding", "-nostdlib", "-static", "-no-pie"])
        .args([
            "-fno-stack-protector",
            "-fno-tree-loop-distribute-patterns",
            "-fno-toplevel-reorder",
        ])
        .arg("-o")
        .args([&path, &source]));
    let operations = operations(&path);
    assert_eq!(operations.len(), 2);
    assert_eq!(operations[0].fetches(), operations[1].fetches());

    for l1i in ["32k/8/64", "16k/4/32", "16k/1/64", "64k/2/64", "8k/128/64"] {
        let l1i: L1i = l1i.parse().unwrap();
        let ours = Original::of(&operations[0], &CodeCache::lru(l1i).unwrap()).unwrap();
        assert!(ours.footprint_bytes > 30 << 10, "{} bytes", ours.footprint_bytes);
        let (fetched, missed) = callgrind(&path, l1i);
        assert_eq!(fetched, OPERATIONS * (ours.instructions + 1), "{l1i}");
        let expected = ours.cold_missing_instructions + (OPERATIONS - 1) * ours.warm_missing_instructions;
        assert!(
            missed > 500 && missed.abs_diff(expected) * 50 <= missed,
            "{l1i}: {expected}, callgrind has {missed}"
        );
    }
}
