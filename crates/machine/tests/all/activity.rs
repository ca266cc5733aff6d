//! What processes and CPUs did, from files of a test and from this machine.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use corun_machine::activity::{Activity, Proc, Usage};

/// Writes a process as the kernel shows it.
fn write(root: &Path, pid: u32, parent: u32, started: u64, ticks: u64) {
    let folder = root.join(pid.to_string());
    let task = folder.join("task").join(pid.to_string());
    fs::create_dir_all(&task).unwrap();
    let faults = 10 * ticks;
    fs::write(
        folder.join("stat"),
        format!("{pid} (backend {pid}) S {parent} 1 1 0 -1 0 {faults} 0 {ticks} 0 {ticks} {ticks} 0 0 20 0 1 0 {started} 1 1"),
    )
    .unwrap();
    fs::write(
        task.join("schedstat"),
        format!("{} {} {ticks}\n", 1_000 * ticks, 500 * ticks),
    )
    .unwrap();
    fs::write(
        task.join("status"),
        format!(
            "Name:\tx\nvoluntary_ctxt_switches:\t{ticks}\nnonvoluntary_ctxt_switches:\t{}\n",
            2 * ticks
        ),
    )
    .unwrap();
}

fn write_cpus(root: &Path, ticks: u64) {
    let text = format!("cpu 0 0 0 0\ncpu0 {ticks} 0 0 {ticks} 0 0 0 {ticks}\ncpu1 0 0 0 {ticks}\nintr 5\n");
    fs::write(root.join("stat"), text).unwrap();
}

fn usage(ticks: u64) -> Usage {
    Usage {
        user_ns: ticks * 10_000_000,
        system_ns: ticks * 10_000_000,
        on_cpu_ns: Some(1_000 * ticks),
        run_delay_ns: Some(500 * ticks),
        time_slices: Some(ticks),
        voluntary_switches: ticks,
        involuntary_switches: 2 * ticks,
        minor_faults: 10 * ticks,
        major_faults: ticks,
    }
}

#[test]
fn backends_that_come_and_go_are_all_in_the_report() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path();
    write_cpus(root, 100);
    // A postmaster, two backends, a worker of one of them, and somebody else.
    write(root, 10, 1, 1, 5);
    write(root, 11, 10, 2, 20);
    write(root, 12, 10, 3, 30);
    write(root, 13, 12, 4, 40);
    write(root, 99, 1, 5, 50);
    let proc = Proc::at(root);
    assert_eq!(proc.children(10).unwrap(), [11, 12]);
    assert_eq!(proc.with_descendants(&[10]).unwrap(), [10, 11, 12, 13]);
    let mut activity = Activity::begin(proc, &[10]).unwrap();

    write(root, 11, 10, 2, 27);
    write(root, 12, 10, 3, 31);
    write(root, 14, 10, 6, 3);
    activity.look().unwrap();
    // One ends, and its number is used again by another.
    fs::remove_dir_all(root.join("11")).unwrap();
    fs::remove_dir_all(root.join("14")).unwrap();
    write(root, 14, 10, 7, 2);
    write_cpus(root, 300);
    let report = activity.end().unwrap();

    let found: Vec<(u32, u64, bool)> = report
        .processes
        .iter()
        .map(|process| (process.pid, process.usage.time_slices.unwrap(), process.ended))
        .collect();
    assert_eq!(
        found,
        [
            (10, 0, false),
            (11, 7, true),
            (12, 1, false),
            (13, 0, false),
            (14, 3, true),
            (14, 2, false)
        ]
    );
    assert_eq!(report.processes[1].usage, usage(7));
    assert_eq!(report.processes[1].program, "backend 11");
    assert_eq!(report.total(), usage(13));
    assert_eq!(report.cpus.len(), 2);
    assert_eq!(report.cpus[0].busy_ns, 2_000_000_000);
    assert_eq!(report.steal_percent(), Some(25.0));
}

#[test]
fn nobody_to_look_at_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    assert!(Activity::begin(Proc::at(folder.path()), &[1]).is_err(), "no CPUs");
    write_cpus(folder.path(), 1);
    let error = Activity::begin(Proc::at(folder.path()), &[7]).unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::NotFound);
}

#[test]
fn this_machine_tells_what_a_child_did() {
    let mut child = Command::new("sh")
        .args([
            "-c",
            "read go; i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done; read end",
        ])
        .stdin(Stdio::piped())
        .spawn()
        .unwrap();
    let proc = Proc::default();
    let mut activity = Activity::begin(proc.clone(), &[child.id()]).unwrap();
    let before = proc.process(child.id()).unwrap();
    assert_eq!(before.parent, std::process::id());
    let mut stdin = child.stdin.take().unwrap();
    std::io::Write::write_all(&mut stdin, b"go\n").unwrap();
    // It counts, then waits again; until then it is given the CPU at least once more.
    let slices = |usage: &Usage| usage.time_slices.unwrap_or(u64::MAX);
    for _ in 0..2_000 {
        activity.look().unwrap();
        let now = proc.process(child.id()).unwrap();
        if slices(&now.usage) > slices(&before.usage) || now.usage.time_slices.is_none() {
            break;
        }
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    drop(stdin);
    child.wait().unwrap();
    let report = activity.end().unwrap();
    assert_eq!(report.processes.len(), 1);
    assert!(report.processes[0].ended);
    assert_eq!(report.processes[0].program, "sh");
    assert!(!report.cpus.is_empty());
}
