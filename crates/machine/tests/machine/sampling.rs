//! Samples of a program that spins in two known functions, the one three times as long as the other.

use std::hint::black_box;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use machine::counters::monitor::{MonitorError, Scope, Target};
use machine::sampling::{Every, Origin, Profile, Sampler};

/// Samples that are waited for.
const WANTED: u64 = 300;
/// Looks at the buffers, ten milliseconds apart, after which waiting ends.
const POLLS_MAX: usize = 3_000;

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

/// No test: what the others sample, in a process of its own, until it is killed.
#[test]
fn spinning_program() {
    if std::env::var_os(SPINS).is_none() {
        return;
    }
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

fn spinning() -> Killed {
    let program = std::env::current_exe().unwrap();
    Killed(
        Command::new(program)
            .args(["--exact", "sampling::spinning_program", "--test-threads=1"])
            .env(SPINS, "1")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap(),
    )
}

/// Samples until there are enough of them; `None` where a sandbox forbids it.
fn sampled(target: Target, every: Every, scope: Scope) -> Option<Profile> {
    let mut sampler = match Sampler::open(target, &every, scope) {
        Ok(sampler) => sampler,
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
            return None;
        }
    };
    sampler.start().unwrap();
    for _ in 0..POLLS_MAX {
        std::thread::sleep(Duration::from_millis(10));
        sampler.poll();
        if sampler.samples() >= WANTED {
            break;
        }
    }
    Some(sampler.stop().unwrap())
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
    let Some(profile) = sampled(
        Target::Process(child.0.id()),
        Every::cycles_or_time(997),
        Scope::User,
    ) else {
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
    let opened = Sampler::open(
        Target::Process(shell.id()),
        &Every::Time { per_s: 997 },
        Scope::User,
    );
    if let Ok(mut sampler) = opened {
        sampler.start().unwrap();
        std::io::Write::write_all(&mut stdin, b"go\n").unwrap();
        for _ in 0..POLLS_MAX {
            std::thread::sleep(Duration::from_millis(10));
            sampler.poll();
            if sampler.samples() >= WANTED {
                break;
            }
        }
        let profile = sampler.stop().unwrap();
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
