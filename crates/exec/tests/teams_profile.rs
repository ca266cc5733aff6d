//! Which CTX points are on. One test in a program of its own, as the points are the whole process's.
#![cfg(all(target_os = "linux", not(miri)))]

use corun_exec::ctx;
use corun_exec::teams::{LoadError, Loaded, Point, default_points, load_profile, points, set_points};
use corun_model::teams::{CtxProfile, CtxSite};

fn two_points() -> [u32; 2] {
    ctx!();
    let first = line!() - 1;
    ctx!(prefetch = &raw const first);
    [first, line!() - 1]
}

fn profile(sites: &[(&str, u32, u32)]) -> CtxProfile {
    let mut text = "corun-ctx-profile 1\nl1i 32k/8/64\nknee 200,4\n".to_owned();
    for (file, line, column) in sites {
        text += &format!("site {file}:{line}:{column}\n");
    }
    (text + "entry sqlite3VdbeExec\n").parse().expect("a profile")
}

/// Lines of this file whose points are on.
fn on() -> Vec<u32> {
    let here = points().filter(|point| point.file().ends_with("teams_profile.rs"));
    let mut on: Vec<u32> = here
        .filter(|point| point.is_on())
        .map(|point| point.line())
        .collect();
    on.sort_unstable();
    on
}

#[test]
fn a_profile_turns_on_exactly_its_points() {
    let [plain, prefetching] = two_points();
    let all = points().count();
    assert!(all >= 2);
    assert_eq!(on(), [0; 0], "off until somebody chooses");
    default_points();
    assert_eq!(on(), [prefetching]);
    set_points(|point| !point.prefetches());
    assert_eq!(on(), [plain]);

    let loaded = load_profile(&profile(&[(
        "crates/exec/tests/teams_profile.rs",
        prefetching,
        5,
    )]));
    assert_eq!(
        loaded,
        Ok(Loaded {
            on: 1,
            off: all - 1,
            entries: 1
        })
    );
    assert_eq!(on(), [prefetching]);
    // Names of the same file by a shorter and a longer path.
    let loaded = load_profile(&profile(&[("teams_profile.rs", plain, 5)]));
    assert_eq!(loaded.map(|loaded| loaded.on), Ok(1));
    let long = "/elsewhere/crates/exec/tests/teams_profile.rs";
    assert_eq!(
        load_profile(&profile(&[(long, plain, 5)])).map(|loaded| loaded.on),
        Ok(1)
    );
    assert_eq!(on(), [plain]);

    // What does not fit changes nothing.
    let error =
        load_profile(&profile(&[("tests/teams_profile.rs", prefetching + 5, 5)])).expect_err("no such line");
    let nearest = CtxSite {
        file: file!().to_owned(),
        line: prefetching,
        column: 5,
    };
    assert!(
        matches!(&error, LoadError::Nearest { nearest: found, .. } if *found == nearest),
        "{error}"
    );
    assert!(
        error.to_string().contains(&format!("the nearest is {nearest}")),
        "{error}"
    );
    let error = load_profile(&profile(&[("teams_profile.rs", plain, 5), ("other.rs", 1, 1)]))
        .expect_err("no such file");
    assert!(matches!(error, LoadError::File { .. }));
    assert!(
        error
            .to_string()
            .starts_with("the program has no CTX point in other.rs"),
        "{error}"
    );
    let error = load_profile(&profile(&[("s_profile.rs", plain, 5)])).expect_err("part of a name");
    assert!(matches!(error, LoadError::File { .. }));
    assert_eq!(on(), [plain]);

    assert_eq!(load_profile(&profile(&[])).map(|loaded| loaded.on), Ok(0));
    assert_eq!(on(), [0; 0]);
    // Points are armed only while teams run.
    #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
    armed_where_there_are_teams();
    set_points(|_| false);

    // A scheduler does not choose again.
    #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
    drop(corun_exec::teams::Scheduler::new(Default::default()).expect("a scheduler"));
    assert_eq!(on(), [0; 0]);
}

/// How many points are armed.
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
fn armed() -> usize {
    points().filter(|point| point.is_armed()).count()
}

#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
fn armed_where_there_are_teams() {
    use corun_exec::teams::{Scheduler, TeamOptions, TeamsMode};
    set_points(|_| true);
    let all = points().count();
    assert_eq!(armed(), 0);
    let mut scheduler = Scheduler::new(TeamOptions::default()).expect("a scheduler");
    let control = scheduler.control();
    for _ in 0..2 {
        let seen = scheduler.scope(|scope| {
            let control = &control;
            scope.spawn("changes", move || {
                let mut seen = vec![armed()];
                control.set_mode(TeamsMode::Serial);
                seen.push(armed());
                control.set_mode(TeamsMode::Teams);
                seen.push(armed());
                control.set_ctx(false);
                seen.push(armed());
                control.set_ctx(true);
                set_points(Point::prefetches);
                seen.push(armed());
                let mut inner = Scheduler::new(TeamOptions::default()).expect("a scheduler");
                inner.scope(|scope| scope.spawn("inner", || ()));
                seen.push(armed());
                set_points(|_| true);
                seen
            });
        });
        let prefetching = points().filter(|point| point.prefetches()).count();
        assert!(prefetching > 0);
        let seen: Vec<usize> = seen.into_iter().flatten().flatten().collect();
        assert_eq!(seen, [all, 0, all, 0, prefetching, prefetching]);
        assert_eq!(armed(), 0);
    }
}
