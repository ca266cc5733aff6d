//! Samples of a program that spins in two known functions, the one three times as long as the other.

use std::hint::black_box;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use corun_machine::counters::monitor::{MonitorError, Scope, Target};
use corun_machine::sampling::{Every, Origin, Profile, Sampler};

use crate::skipped::skipped;

/// Samples that are waited for.
const WANTED: u64 = 300;
/// How long they are waited for: a machine that does nothing else has them in half a second.
const PATIENCE: Duration = Duration::from_secs(120);

#[inline(never)]
#[unsafe(no_mangle)]
extern "C" fn corun_test_spins_long(rounds: u64) -> u64 {
    (0..3 * rounds).fold(1, |x: u64, i| black_box(x.wrapping_mul(31).wrapping_add(i)))
}

#[inline(never)]
#[unsafe(no_mangle)]
extern "C" fn corun_test_spins_short(rounds: u64) -> u64 {
    (0..rounds).fold(2, |x: u64, i| black_box(x.wrapping_mul(29).wrapping_add(i)))
}

/// Makes [`spinning_program`] spin.
const SPINS: &str = "CORUN_TEST_SPINS";

/// What it says once the thread that spins is there.
const SPINNING: &str = "spinning";

/// No test: what the others sample, in a process of its own, until it is killed.
#[test]
fn spinning_program() {
    if std::env::var_os(SPINS).is_none() {
        return;
    }
    // The harness has begun a line, and keeps only what macros print.
    std::io::stdout()
        .write_all(format!("\n{SPINNING}\n").as_bytes())
        .expect("somebody listens");
    loop {
        black_box(corun_test_spins_long(black_box(2_000)));
        black_box(corun_test_spins_short(black_box(2_000)));
    }
}

/// Killed and reaped however the test ends.
struct Killed(Child);

impl Drop for Killed {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Returns when it spins. A sampler that were opened before, while the harness starts the test's thread, might miss that thread.
fn spinning() -> Killed {
    let program = std::env::current_exe().unwrap();
    let mut child = Killed(
        Command::new(program)
            .args(["--exact", "sampling::spinning_program", "--test-threads=1"])
            .env(SPINS, "1")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap(),
    );
    let out = BufReader::new(child.0.stdout.take().unwrap());
    assert!(
        out.lines().any(|line| line.unwrap() == SPINNING),
        "the program ended"
    );
    child
}

/// A sampler; `None` where a sandbox forbids it, and the test is skipped.
fn sampler(target: Target, every: Every, scope: Scope) -> Option<Sampler> {
    match Sampler::open(target, &every, scope) {
        Ok(sampler) => Some(sampler),
        Err(error) => {
            assert!(
                matches!(
                    error,
                    MonitorError::NoPerfEvents
                        | MonitorError::Paranoid { .. }
                        | MonitorError::Forbidden { .. }
                ),
                "{error:?}"
            );
            skipped(&error);
            None
        }
    }
}

/// Waits for samples of a sampler that has been started, and ends it; `None` where none at all arrive, and the test is skipped.
fn sampled(mut sampler: Sampler) -> Option<Profile> {
    let until = Instant::now() + PATIENCE;
    while sampler.samples() < WANTED && Instant::now() < until {
        std::thread::sleep(Duration::from_millis(10));
        sampler.poll();
    }
    let none = sampler.samples() == 0;
    let profile = sampler.stop().unwrap();
    if none && profile.samples == 0 {
        skipped(format!(
            "the kernel delivered no sample in {} s",
            PATIENCE.as_secs()
        ));
        return None;
    }
    Some(profile)
}

fn samples(profile: &Profile, function: &str) -> u64 {
    profile
        .functions
        .iter()
        .filter(|found| found.function == function && found.origin == Origin::Server)
        .map(|found| found.samples)
        .sum()
}

#[test]
fn both_functions_are_found_in_their_order() {
    let child = spinning();
    let target = Target::Process(child.0.id());
    let Some(mut sampler) = sampler(target, Every::cycles_or_time(997), Scope::User) else {
        return;
    };
    sampler.start().unwrap();
    let Some(profile) = sampled(sampler) else {
        return;
    };
    let [long, short] =
        ["corun_test_spins_long", "corun_test_spins_short"].map(|name| samples(&profile, name));
    assert!(short > 0 && long > short, "{profile:?}");
    assert!(2 * (long + short) > profile.samples, "{profile:?}");
    assert_eq!(
        profile.of(Origin::Kernel),
        0,
        "only programs' own code was asked for"
    );
    assert!(
        profile.notes.is_empty(),
        "test programs have symbols: {profile:?}"
    );
}

#[test]
fn children_are_sampled_with_their_parents() {
    // A shell that only waits; all samples are its child's, a program of its own.
    let program = std::env::current_exe().unwrap();
    let mut shell = Command::new("sh")
        .args([
            "-c",
            "read go; \"$0\" --exact sampling::spinning_program --test-threads=1 >/dev/null 2>&1 & \
             read end; kill $!; wait",
        ])
        .arg(program)
        .env(SPINS, "1")
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let mut stdin = shell.stdin.take().unwrap();
    let opened = sampler(
        Target::Process(shell.id()),
        Every::Time { per_s: 997 },
        Scope::User,
    );
    let profile = opened.and_then(|mut sampler| {
        sampler.start().unwrap();
        stdin.write_all(b"go\n").unwrap();
        sampled(sampler)
    });
    if let Some(profile) = profile {
        let of = |name: &str| -> u64 {
            let found = profile.functions.iter().filter(|found| found.function == name);
            found.map(|found| found.samples).sum()
        };
        assert!(
            of("corun_test_spins_long") > of("corun_test_spins_short"),
            "{profile:?}"
        );
        // It is not the shell's program, so it is none of the server's own code.
        assert_eq!(samples(&profile, "corun_test_spins_long"), 0);
    }
    drop(stdin);
    shell.wait().unwrap();
}

#[test]
fn a_process_that_is_gone_is_named() {
    let child = spinning();
    let pid = child.0.id();
    drop(child);
    let error = Sampler::open(Target::Process(pid), &Every::Time { per_s: 97 }, Scope::User).err();
    assert_eq!(error, Some(MonitorError::NoProcess { pid }));
}
