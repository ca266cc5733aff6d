//! The switch for hardware threads, on files that look like the kernel's: switched, put back, and put back after a kill.

use std::fs;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use corun_machine::smt::{Smt, SmtError, State, has_siblings, one_of_each_core, sibling_sets};
use corun_model::topology::{Core, CoreKind, LogicalCpu, Topology};
use corun_model::units::CpuId;

/// Names the folder to the program that is killed.
const FOLDER: &str = "CORUN_TEST_SMT_FOLDER";

fn folder(control: &str) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("control"), format!("{control}\n")).unwrap();
    fs::write(folder.path().join("active"), "1\n").unwrap();
    folder
}

fn control(folder: &Path) -> String {
    fs::read_to_string(folder.join("control"))
        .unwrap()
        .trim()
        .to_owned()
}

#[test]
fn states_are_the_kernels_words() {
    for state in [
        State::On,
        State::Off,
        State::ForceOff,
        State::NotSupported,
        State::NotImplemented,
    ] {
        let folder = folder(state.word());
        assert_eq!(Smt::at(folder.path()).state(), Ok(state));
        assert_eq!(Smt::at(folder.path()).active(), Some(true));
    }
    assert_eq!(Smt::at(folder("2").path()).state(), Ok(State::On));
    let empty = tempfile::tempdir().unwrap();
    assert_eq!(Smt::at(empty.path()).state(), Ok(State::NotImplemented));
    assert_eq!(Smt::at(empty.path()).active(), None);
    let odd = Smt::at(folder("maybe").path()).state().unwrap_err();
    assert!(odd.to_string().ends_with("says \"maybe\""), "{odd}");
}

#[test]
fn it_is_put_back_when_dropped_and_when_asked_to() {
    let folder = folder("on");
    let smt = Smt::at(folder.path());
    let switched = smt.switch(false).unwrap();
    assert_eq!(control(folder.path()), "off");
    assert_eq!((switched.before(), switched.changed()), (State::On, true));
    drop(switched);
    assert_eq!(control(folder.path()), "on");
    smt.switch(false).unwrap().restore().unwrap();
    assert_eq!(control(folder.path()), "on");
    // Already so: nothing is changed, and nothing put back.
    let switched = smt.switch(true).unwrap();
    assert!(!switched.changed());
    drop(switched);
    assert_eq!(control(folder.path()), "on");
}

#[test]
fn it_is_put_back_when_a_panic_goes_past() {
    let folder = folder("on");
    let smt = Smt::at(folder.path());
    let result = std::panic::catch_unwind(|| {
        let _switched = smt.switch(false).unwrap();
        assert_eq!(control(folder.path()), "off");
        panic!("on purpose");
    });
    assert!(result.is_err());
    assert_eq!(control(folder.path()), "on");
}

#[test]
fn what_cannot_be_switched_is_left_alone() {
    for state in ["forceoff", "notsupported", "notimplemented"] {
        let folder = folder(state);
        let error = Smt::at(folder.path()).switch(false).unwrap_err();
        assert!(matches!(error, SmtError::Unavailable { .. }), "{error:?}");
        assert!(error.hint().is_some());
        assert_eq!(control(folder.path()), state);
    }
    // A folder where the file is: nothing can be written there, by anybody.
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join("control")).unwrap();
    assert!(matches!(
        Smt::at(folder.path()).switch(false),
        Err(SmtError::System { .. })
    ));
}

/// No test: the program that is killed while it has the threads switched.
#[test]
fn switching_program() {
    let Some(folder) = std::env::var_os(FOLDER).map(PathBuf::from) else {
        return;
    };
    let _switched = Smt::at(&folder).switch(false).unwrap();
    fs::write(folder.join("switched"), "").unwrap();
    loop {
        std::thread::sleep(Duration::from_secs(1));
    }
}

/// Waits until something holds; half a minute is far more than anything here takes.
fn wait_for(what: &str, holds: impl Fn() -> bool) {
    for _ in 0..3_000 {
        if holds() {
            return;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    panic!("{what} never happened");
}

#[test]
fn it_is_put_back_when_the_program_is_killed() {
    // Ctrl-C reaches everything in the terminal's group; the others reach the program alone.
    for (signal, whole_group) in [("KILL", false), ("TERM", false), ("INT", true), ("KILL", true)] {
        let folder = folder("on");
        // Whoever runs the tests in the background ignores Ctrl-C, and what it starts would inherit that.
        let mut program = Command::new("env")
            .arg("--default-signal=INT,TERM")
            .arg(std::env::current_exe().unwrap())
            .args(["--exact", "smt::switching_program", "--test-threads=1"])
            .env(FOLDER, folder.path())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .process_group(0)
            .spawn()
            .unwrap();
        wait_for("the switch", || folder.path().join("switched").exists());
        assert_eq!(control(folder.path()), "off");
        let group = if whole_group { "-" } else { "" };
        let killed = Command::new("sh")
            .args(["-c", &format!("kill -{signal} {group}{}", program.id())])
            .status()
            .unwrap();
        if !killed.success() {
            program.kill().unwrap();
        }
        assert!(!program.wait().unwrap().success());
        assert!(killed.success(), "{signal}");
        wait_for("the way back", || control(folder.path()) == "on");
    }
}

#[test]
fn one_cpu_of_each_core_stands_for_threads_switched_off() {
    let cpu = |id: u32, allowed| LogicalCpu {
        id: CpuId(id),
        online: true,
        allowed,
        package: Some(0),
        core: Some(id % 4),
        numa_node: None,
    };
    let core = |id: u32| Core {
        package: 0,
        id,
        kind: CoreKind::Uniform,
        cpus: vec![CpuId(id), CpuId(id + 4)],
    };
    // Four cores of two threads; of the second only the sibling may be used, of the last none.
    let topology = Topology {
        cpus: (0..8).map(|id| cpu(id, ![1, 3, 7].contains(&id))).collect(),
        cores: (0..4).map(core).collect(),
        ..Topology::default()
    };
    assert_eq!(
        sibling_sets(&topology),
        [vec![CpuId(0), CpuId(4)], vec![CpuId(5)], vec![CpuId(2), CpuId(6)]]
    );
    assert_eq!(one_of_each_core(&topology), [CpuId(0), CpuId(5), CpuId(2)]);
    assert!(has_siblings(&topology));
    assert!(!has_siblings(&Topology::default()));
}
