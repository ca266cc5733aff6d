//! A shared cache with one stream against cachegrind, on equal geometry.
//!
//! A small program without libraries runs twice under valgrind: `cachegrind` counts its misses, `lackey` lists its accesses, and
//! these are replayed here. Its accesses are aligned words at fixed addresses, so both runs make the same ones. First-level misses
//! must be equal. In the last level cachegrind holds the program's few lines of instructions too, which are not replayed: until such
//! a line has left its set, that set serves data like one of a way less. So cachegrind may count more misses, never fewer, and at
//! most as many more as the set has ways. That is the tolerance, `ways * instruction lines`: at most 64 of some ten thousand.
//!
//! Without valgrind or a C compiler there is nothing to compare with; the test is skipped.
#![cfg(all(target_os = "linux", target_arch = "x86_64"))]

use std::path::Path;
use std::process::Command;

use corun_cachesim::llc::{AtEnd, Domain, Overlap, PrivateLevel, Stream, Treatment};
use corun_cachesim::{Geometry, Replacement};
use corun_model::operators::trace::{Access, Event, ThreadRole};
use corun_model::units::{Bytes, Ways};

use crate::skipped::skipped;

/// Loads all over 512 KiB, stores in order, then loads and stores of the same words all over a quarter.
const PROGRAM: &str = r#"
static unsigned long table[1 << 16];
static unsigned long next(unsigned long x) { return x * 6364136223846793005UL + 1442695040888963407UL; }
void _start(void) {
  volatile unsigned long *words = table;
  unsigned long x = 1;
  for (int i = 0; i < 40000; i++) { x = next(x); words[x >> 48]; }
  for (int round = 0; round < 2; round++)
    for (int i = 0; i < 1 << 16; i += 8) words[i] = i;
  for (int i = 0; i < 40000; i++) { x = next(x); words[x >> 50] += 1; }
  __asm__ volatile("syscall" : : "a"(60), "D"(0) : "rcx", "r11", "memory");
  __builtin_unreachable();
}
"#;

fn there(program: &str) -> bool {
    Command::new(program)
        .arg("--version")
        .output()
        .is_ok_and(|output| output.status.success())
}

fn run(command: &mut Command) {
    let output = command.output().unwrap();
    assert!(
        output.status.success(),
        "{command:?}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
}

fn argument(name: &str, geometry: Geometry) -> String {
    format!(
        "--{name}={},{},{}",
        geometry.size().0,
        geometry.ways().0,
        geometry.line().0
    )
}

/// What cachegrind counts, by event: `Dr`, `D1mr`, ...
struct Counted(Vec<(String, u64)>);

impl Counted {
    fn of(program: &Path, first: Geometry, last: Geometry) -> Self {
        let out = program.with_extension("cachegrind");
        run(Command::new("valgrind")
            .args(["--tool=cachegrind", "--cache-sim=yes"])
            .arg(argument("D1", first))
            .arg("--I1=32768,8,64")
            .arg(argument("LL", last))
            .arg(format!("--cachegrind-out-file={}", out.display()))
            .arg(program));
        let text = std::fs::read_to_string(out).unwrap();
        let line = |start: &str| -> Vec<String> {
            let found = text.lines().find_map(|line| line.strip_prefix(start)).unwrap();
            found.split_whitespace().map(str::to_owned).collect()
        };
        let counts = line("summary:").into_iter().map(|count| count.parse().unwrap());
        Self(line("events:").into_iter().zip(counts).collect())
    }

    fn sum(&self, events: &[&str]) -> u64 {
        events
            .iter()
            .map(|event| self.0.iter().find(|(name, _)| name == event).unwrap().1)
            .sum()
    }
}

/// The data accesses as lackey lists them: ` L 0041c0a8,8`, and `S` for stores, `M` for a load and a store of one instruction,
/// which are one reference to cachegrind.
fn trace(program: &Path) -> Vec<Event> {
    let log = program.with_extension("lackey");
    run(Command::new("valgrind")
        .args(["--tool=lackey", "--trace-mem=yes"])
        .arg(format!("--log-file={}", log.display()))
        .arg(program));
    let text = std::fs::read_to_string(log).unwrap();
    text.lines()
        .filter_map(|line| {
            let (kind, place) = line.strip_prefix(' ')?.split_at_checked(2)?;
            let access = match kind {
                "L " | "M " => Access::Load,
                "S " => Access::Store,
                _ => return None,
            };
            let (address, bytes) = place.split_once(',')?;
            let address = u64::from_str_radix(address, 16).unwrap();
            let bytes: u32 = bytes.parse().unwrap();
            assert!(address % 64 + u64::from(bytes) <= 64, "within a line: {line}");
            Some(Event {
                role: ThreadRole::Worker(0),
                access,
                address,
                bytes,
            })
        })
        .collect()
}

#[test]
fn misses_are_those_of_cachegrind() {
    for needed in ["valgrind", "cc"] {
        if !there(needed) {
            skipped(format!(
                "`{needed}` is not installed, so there is no cachegrind to compare with"
            ));
            return;
        }
    }
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let source = folder.join("against_cachegrind.c");
    let program = folder.join("against_cachegrind");
    std::fs::write(&source, PROGRAM).unwrap();
    run(Command::new("cc")
        .args([
            "-O1",
            "-ffreestanding",
            "-nostdlib",
            "-static",
            "-no-pie",
            "-fno-stack-protector",
            "-o",
        ])
        .args([&program, &source]));
    let trace = trace(&program);

    let geometry = |size, ways| Geometry::new(size, Ways(ways), Bytes(64)).unwrap();
    for (first, last) in [
        (geometry(Bytes::kib(32), 8), geometry(Bytes::kib(256), 16)),
        (geometry(Bytes::kib(8), 1), geometry(Bytes::kib(384), 12)),
        (geometry(Bytes::kib(4), 2), geometry(Bytes::kib(96), 3)),
    ] {
        let domain = Domain {
            private: vec![PrivateLevel {
                geometry: first,
                latency_ns: 1.0,
            }],
            llc: last,
            replacement: Replacement::Lru,
            llc_ns: 10.0,
            memory_ns: 100.0,
            parallelism: 1.0,
            colours: 1,
        };
        let stream = Stream {
            source: &trace,
            space: 0,
            ways: None,
            objects: Vec::new(),
            rest: Treatment {
                colours: None,
                overlap: Overlap::Dependent,
            },
            work_ns: 0.0,
            warm_up_events: 0,
            at_end: AtEnd::Stop,
        };
        let run = &domain.corun(&[stream]).unwrap()[0];
        let counted = Counted::of(&program, first, last);
        assert_eq!(run.levels[0].accesses, counted.sum(&["Dr", "Dw"]), "references");
        assert_eq!(
            run.levels[0].misses,
            counted.sum(&["D1mr", "D1mw"]),
            "first-level misses"
        );
        let (simulated, theirs) = (run.llc().misses, counted.sum(&["DLmr", "DLmw"]));
        assert!(theirs > 25_000, "{theirs} misses are too few to tell");
        let tolerance = u64::from(last.ways().0) * counted.sum(&["ILmr"]);
        assert!(tolerance <= 64, "{tolerance}");
        assert!(
            (simulated..=simulated + tolerance).contains(&theirs),
            "{last:?}: {simulated} last-level misses, cachegrind has {theirs}, which may be {tolerance} more"
        );
    }
}
