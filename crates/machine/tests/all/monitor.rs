//! Counting on other processes and CPUs with the kernel's own events, which need no counter unit.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Command, Stdio};

use corun_machine::counters::monitor::{Monitor, MonitorError, Monitored, Scope, Target};
use corun_machine::counters::this_cpu;
use corun_model::pmu::groups::plan;
use corun_model::pmu::{Counts, Event, EventTable, Quantity};

use crate::skipped::skipped;

fn groups(sets: &[Vec<Quantity>]) -> Vec<Vec<Event>> {
    let table = EventTable::of(&this_cpu());
    let plan = plan(&table, sets, table.counters_general());
    assert!(plan.absent.is_empty() && plan.torn.is_empty(), "{plan:?}");
    plan.groups
}

fn faults() -> Vec<Vec<Event>> {
    groups(&[vec![
        Quantity::PageFaults,
        Quantity::MinorFaults,
        Quantity::MajorFaults,
        Quantity::TaskClock,
    ]])
}

/// A shell that waits for a line, runs the commands, says "done" and waits for its input to end.
fn shell(commands: &str) -> Child {
    Command::new("sh")
        .args(["-c", &format!("read go; {commands}; echo done; read end")])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap()
}

/// A monitor; `None` where a sandbox forbids it, and the test is skipped.
fn monitor(target: Target, groups: &[Vec<Event>], scope: Scope) -> Option<Monitor> {
    match Monitor::open(target, groups, scope) {
        Ok(monitor) => Some(monitor),
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
            assert!(error.hint().is_some());
            skipped(&error);
            None
        }
    }
}

/// Counts on a shell while it runs its commands; `None` where a sandbox forbids it.
fn counted(commands: &str, groups: &[Vec<Event>]) -> Option<Counts> {
    let mut child = shell(commands);
    let monitor = monitor(Target::Process(child.id()), groups, Scope::User);
    let mut stdin = child.stdin.take().unwrap();
    let mut stdout = BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    match monitor {
        Some(mut monitor) => {
            assert_eq!(monitor.tasks(), [child.id()]);
            assert_eq!(monitor.read(), Err(MonitorError::NotStarted));
            monitor.start().unwrap();
            stdin.write_all(b"go\n").unwrap();
            stdout.read_line(&mut line).unwrap();
            let running = monitor.read().unwrap();
            drop(stdin);
            child.wait().unwrap();
            // What ended is still counted.
            let counts = monitor.stop().unwrap();
            let less = running.get(Quantity::PageFaults) <= counts.get(Quantity::PageFaults);
            assert!(less, "{running:?} {counts:?}");
            Some(counts)
        }
        None => {
            drop(stdin);
            child.wait().unwrap();
            None
        }
    }
}

#[test]
fn what_children_do_is_counted_as_their_parents() {
    let (Some(none), Some(many)) = (
        counted("true", &faults()),
        counted(
            "i=0; while [ $i -lt 20 ]; do /bin/sh -c '/bin/sh -c true; true'; i=$((i+1)); done",
            &faults(),
        ),
    ) else {
        return;
    };
    // Each program that is started faults in its own pages: some dozens, and there are forty.
    let of = |counts: &Counts, quantity| counts.get(quantity).unwrap();
    let more = of(&many, Quantity::PageFaults) - of(&none, Quantity::PageFaults);
    assert!(more > 400.0, "{none:?} {many:?}");
    for counts in [&none, &many] {
        // All of one group: one read, one moment.
        assert_eq!(
            of(counts, Quantity::PageFaults),
            of(counts, Quantity::MinorFaults) + of(counts, Quantity::MajorFaults)
        );
        assert!(of(counts, Quantity::TaskClock) > 0.0);
        assert!(!counts.is_estimate(), "software events take no turns");
    }
}

#[test]
fn children_that_are_there_already_are_counted_too() {
    // The shell starts another, which faults only once it is told to.
    let mut child = Command::new("sh")
        .args([
            "-c",
            "sh -c 'echo ready; read go; /bin/true; /bin/true; echo done; read end' ; exit 0",
        ])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let mut stdout = BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    stdout.read_line(&mut line).unwrap();
    assert_eq!(line, "ready\n");
    if let Some(mut monitor) = monitor(Target::Process(child.id()), &faults(), Scope::User) {
        let tasks = monitor.tasks();
        monitor.start().unwrap();
        stdin.write_all(b"go\n").unwrap();
        line.clear();
        stdout.read_line(&mut line).unwrap();
        let each = monitor.read_each().unwrap();
        assert_eq!(each.len(), tasks.len());
        let sum: f64 = each
            .iter()
            .filter_map(|counts| counts.get(Quantity::PageFaults))
            .sum();
        assert!(sum > 20.0, "{tasks:?} {each:?}");
    }
    drop(stdin);
    child.wait().unwrap();
}

#[test]
fn what_happened_before_the_start_does_not_count() {
    let Some(mut monitor) = monitor(Target::Thread, &faults(), Scope::User) else {
        return;
    };
    let touch = || drop(std::hint::black_box(vec![1u8; 64 << 20]));
    touch();
    monitor.start().unwrap();
    let first = monitor.stop().unwrap();
    assert!(first.get(Quantity::PageFaults) < Some(16.0), "{first:?}");
    assert_eq!(monitor.stop(), Err(MonitorError::NotStarted));
    touch();
    monitor.start().unwrap();
    // Threads it starts count as its own.
    std::thread::scope(|scope| {
        scope.spawn(touch);
    });
    let second = monitor.stop().unwrap();
    assert!(second.get(Quantity::PageFaults) >= Some(16.0), "{second:?}");
}

#[test]
fn a_cpu_is_counted_on_where_that_is_permitted() {
    let groups = groups(&[vec![Quantity::TaskClock, Quantity::ContextSwitches]]);
    let Some(mut monitor) = monitor(Target::Cpu(0), &groups, Scope::All) else {
        return;
    };
    monitor.start().unwrap();
    std::thread::sleep(std::time::Duration::from_millis(5));
    let counts = monitor.stop().unwrap();
    assert!(counts.get(Quantity::ContextSwitches).is_some(), "{counts:?}");
    assert_eq!(monitor.tasks(), [0]);
}

#[test]
fn what_does_not_exist_is_named() {
    let mut child = shell("true");
    let pid = child.id();
    drop(child.stdin.take());
    child.wait().unwrap();
    assert_eq!(
        Monitor::open(Target::Process(pid), &faults(), Scope::User).err(),
        Some(MonitorError::NoProcess { pid })
    );
    if Monitor::open(Target::Cpu(0), &faults(), Scope::All).is_ok() {
        let error = Monitor::open(Target::Cpu(60_000), &faults(), Scope::All)
            .err()
            .unwrap();
        assert_eq!(error, MonitorError::NoCpu { cpu: 60_000 });
    }
}

#[test]
fn hardware_events_count_or_say_why_not() {
    let table = EventTable::of(&this_cpu());
    let sets = [vec![Quantity::Instructions, Quantity::Cycles]];
    let groups = plan(&table, &sets, table.counters_general()).groups;
    match Monitor::open(Target::Thread, &groups, Scope::User) {
        Ok(mut monitor) => {
            monitor.start().unwrap();
            let sum: u64 = (0..100_000u64).map(std::hint::black_box).sum();
            let counts = monitor.stop().unwrap();
            assert_eq!(sum, 4_999_950_000);
            if let Some(instructions) = counts.get(Quantity::Instructions) {
                assert!(instructions > 100_000.0);
            }
        }
        Err(error) => {
            assert!(error.hint().is_some() && error.detail().is_some(), "{error:?}");
            assert!(corun_machine::counters::try_open().is_err(), "{error:?}");
        }
    }
}
