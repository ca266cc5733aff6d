//! The instruction cache of STEPS against callgrind, whose cache is cachegrind's, on the same operation and geometry.
//!
//! A program without libraries, with some 50 KiB of code, runs one operation again and again. Under valgrind `lackey` lists its
//! instructions and `callgrind` counts misses between entry and return of the operation, its cache simulated outside as well. Both run
//! the same instructions, so that fetches must be equal, and misses within 2 %: callgrind's cache also sees the few instructions
//! between two operations.
//!
//! Without valgrind or a C compiler there is nothing to compare with; the test says so and passes.
#![cfg(all(target_os = "linux", target_arch = "x86_64"))]

use std::fmt::Write as _;
use std::path::Path;
use std::process::Command;

use cachesim::steps::{CodeCache, Operation, Original, Recorder, RecorderLimits};
use model::instructions::{Event, Flow, Instruction, InstructionSink};
use model::steps::L1i;

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

fn run(command: &mut Command) -> String {
    let output = command.output().unwrap();
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{command:?}: {text}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// The operations as lackey lists them, `I  00401000,3` a line: each from the instruction at `entry` until execution is back at the
/// caller, which is all the code from `caller` on.
fn operations(program: &Path, entry: u64, caller: u64) -> Vec<Operation> {
    let log = program.with_extension("lackey");
    run(Command::new("valgrind")
        .args(["--tool=lackey", "--trace-mem=yes"])
        .arg(format!("--log-file={}", log.display()))
        .arg(program));
    let mut recorder = Recorder::new(RecorderLimits::default());
    let mut inside = false;
    for line in std::fs::read_to_string(log).unwrap().lines() {
        let Some((address, bytes)) = line.strip_prefix("I  ").and_then(|place| place.split_once(',')) else {
            continue;
        };
        let address = u64::from_str_radix(address, 16).unwrap();
        if address == entry && !inside {
            recorder.event(&Event::Begin { thread: 1 });
            inside = true;
        } else if address >= caller && inside {
            recorder.event(&Event::End { thread: 1 });
            inside = false;
        }
        recorder.event(&Event::Instruction(Instruction {
            thread: 1,
            address,
            bytes: bytes.parse().unwrap(),
            flow: Flow::Next,
            accesses: &[],
        }));
    }
    recorder.finish().unwrap()
}

/// Where the linker put a function.
fn symbol(program: &Path, name: &str) -> u64 {
    let table = run(Command::new("nm").arg(program));
    let line = table
        .lines()
        .find(|line| line.split_whitespace().last() == Some(name));
    u64::from_str_radix(line.unwrap().split_whitespace().next().unwrap(), 16).unwrap()
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
#[expect(clippy::print_stderr, reason = "a test that is skipped says so")]
fn instruction_misses_are_those_of_callgrind() {
    for needed in ["valgrind", "cc", "nm"] {
        if !there(needed) {
            eprintln!("skipped: `{needed}` is not installed, so there is no callgrind to compare with");
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
    let operations = operations(&path, symbol(&path, "operation"), symbol(&path, "_start"));
    assert_eq!(operations.len() as u64, OPERATIONS);
    assert!(operations.iter().all(|operation| *operation == operations[0]));

    for l1i in ["32k/8/64", "16k/4/32", "16k/1/64", "64k/2/64", "8k/128/64"] {
        let l1i: L1i = l1i.parse().unwrap();
        let ours = Original::of(&operations[0], &CodeCache::lru(l1i).unwrap()).unwrap();
        assert!(ours.footprint_bytes > 30 << 10, "{} bytes", ours.footprint_bytes);
        let (fetched, missed) = callgrind(&path, l1i);
        assert_eq!(fetched, OPERATIONS * ours.instructions, "{l1i}");
        let expected = ours.cold_missing_instructions + (OPERATIONS - 1) * ours.warm_missing_instructions;
        assert!(
            missed > 500 && missed.abs_diff(expected) * 50 <= missed,
            "{l1i}: {expected}, callgrind has {missed}"
        );
    }
}
