//! `corun partition` on the kernel's twin behind a mount: running it, and what must hold afterwards.
//!
//! Not a test itself. Each test program uses a part of it, hence the `dead_code` allowance.
#![allow(dead_code)]

use std::collections::BTreeMap;
use std::fs;

use corun_resctrl::twin::{Spec, Twin};
use serde_json::Value;

use crate::program::{Run, corun};
use crate::twin_mount::Mounted;

/// The options that lead to a mounted twin.
pub fn place(mounted: &Mounted) -> Vec<String> {
    let settings = mounted.settings();
    vec![
        format!("--root={}", settings.root.display()),
        format!("--proc={}", settings.proc.display()),
        format!("--journal={}", settings.journal.display()),
    ]
}

/// Runs `corun partition` with these words on a mounted twin.
pub fn run(mounted: &Mounted, words: &[&str]) -> Run {
    let place = place(mounted);
    let mut arguments = vec!["partition"];
    arguments.extend(words);
    arguments.extend(place.iter().map(String::as_str));
    corun(&arguments)
}

/// The same with `--json`: it must succeed; its rows.
pub fn rows(mounted: &Mounted, words: &[&str]) -> Vec<Value> {
    let run = run(mounted, &[words, &["--json"]].concat());
    assert_eq!((run.code, run.err.as_str()), (0, ""), "{run:?}");
    parse(&run.out)
}

pub fn parse(text: &str) -> Vec<Value> {
    text.lines()
        .map(|line| serde_json::from_str(line).expect("one JSON object a line"))
        .collect()
}

pub fn of_kind<'a>(rows: &'a [Value], kind: &str) -> Vec<&'a Value> {
    rows.iter().filter(|row| row["kind"] == kind).collect()
}

/// A machine with another tool's group and a task in it, as `runc` makes them.
pub fn busy() -> Option<(Mounted, u32)> {
    let mounted = Mounted::new(Spec::xeon())?;
    let twin = &mounted.twin;
    let contained = twin.fork(1);
    twin.mkdir("runc-1").expect("a group");
    twin.shell("runc-1/schemata", "L3:0=f0;1=ff\n").expect("taken");
    twin.shell("runc-1/tasks", &format!("{contained}\n"))
        .expect("moved");
    Some((mounted, contained))
}

/// Everything corun must leave as it is; its own groups count as the root group, where `clear` puts their tasks.
pub fn others(twin: &Twin) -> BTreeMap<String, String> {
    let mut all = BTreeMap::new();
    for group in ["", "runc-1"] {
        let schemata = twin.peek(&format!("{group}/schemata")).expect("there");
        all.insert(format!("{group}/schemata"), schemata);
    }
    for task in twin.tasks() {
        let group = twin.group_of(task).expect("a living task");
        let group = if group.starts_with("corun-") {
            String::new()
        } else {
            group
        };
        all.insert(format!("task {task}"), group);
    }
    all
}

/// Nothing of corun's is left, journal included.
pub fn assert_nothing_left(mounted: &Mounted) {
    mounted.twin.check();
    let groups = mounted.twin.groups();
    assert!(
        !groups.iter().any(|group| group.starts_with("corun-")),
        "{groups:?}"
    );
    let journal = mounted.settings().journal;
    let left: Vec<_> = match fs::read_dir(journal.parent().expect("a folder")) {
        Ok(entries) => entries
            .map(|entry| entry.expect("readable").file_name())
            .collect(),
        Err(_) => vec![],
    };
    assert!(left.is_empty(), "{left:?}");
}
