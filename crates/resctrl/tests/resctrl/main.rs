//! The resctrl client against the kernel's twin, and the twin against the kernel's rules.

mod client;
mod crash;
mod mounted;
mod partition;
mod random;
mod refusals;
mod rules;
#[path = "../twin_mount/mod.rs"]
mod twin_mount;

use std::collections::BTreeMap;
use std::io;

use corun_model::cache::partition::{DefaultShare, Plan, Wishes};
use corun_model::units::Ways;
use corun_resctrl::twin::{Spec, Twin};
use corun_resctrl::{Client, ResctrlError};

/// A client of this machine.
fn client(twin: &Twin) -> Client<Twin> {
    Client::new(twin.clone(), twin.settings())
}

fn wishes(weak_ways: u32) -> Wishes {
    Wishes {
        weak_ways: Ways(weak_ways),
        default: DefaultShare::Rest,
        level: None,
        domains: None,
        weak_bandwidth_percent: None,
    }
}

fn plan(twin: &Twin, weak_ways: u32) -> Plan {
    client(twin).plan(&wishes(weak_ways)).expect("a plan")
}

/// The error number of a refusal, with what `last_cmd_status` says about it.
fn refused(twin: &Twin, result: io::Result<()>) -> (i32, String) {
    let error = result.expect_err("the kernel refuses this");
    (error.raw_os_error().expect("an error number"), status(twin))
}

fn status(twin: &Twin) -> String {
    twin.peek("info/last_cmd_status").expect("always there")
}

/// Everything corun must leave as it is: all files of the root group and of other tools' groups, and whose group each
/// task is in. Tasks of corun's groups count as the root group's, where `clear` puts them.
fn others(twin: &Twin) -> BTreeMap<String, String> {
    let ours = |group: &str| group.starts_with("corun-");
    let mut all = BTreeMap::new();
    let groups = twin.groups().into_iter().filter(|group| !ours(group));
    for group in groups.chain([String::new()]) {
        for file in ["schemata", "mode"] {
            if let Ok(text) = twin.peek(&format!("{group}/{file}")) {
                all.insert(format!("{group}/{file}"), text);
            }
        }
    }
    for task in twin.tasks() {
        let group = twin.group_of(task).expect("a living task");
        let group = if ours(&group) { String::new() } else { group };
        all.insert(format!("task {task}"), group);
    }
    all
}

/// Nothing of corun's is left.
fn assert_nothing_left(twin: &Twin) {
    twin.check();
    let groups = twin.groups();
    assert!(
        !groups.iter().any(|group| group.starts_with("corun-")),
        "{groups:?}"
    );
    let journal = twin.settings().journal;
    assert_eq!(twin.file(&journal), None);
    assert_eq!(twin.file(&journal.with_extension("json.new")), None);
}

/// Primary, detail and hint as a person sees them.
fn text(error: &ResctrlError) -> String {
    let lines = [
        Some(error.to_string()),
        error.detail().map(|text| format!("detail: {text}")),
        error.hint().map(|text| format!("hint: {text}")),
    ];
    let lines: Vec<String> = lines.into_iter().flatten().collect();
    assert!(
        lines
            .iter()
            .all(|line| !line.contains('\n') && !line.contains("  ")),
        "{lines:?}"
    );
    lines.join("\n")
}

/// A machine with two groups of another tool's, one with a task, and a monitoring group in the root with another.
fn busy() -> (Twin, u32, u32) {
    let twin = Twin::new(Spec::xeon());
    let (contained, monitored) = (twin.fork(1), twin.fork(1));
    twin.mkdir("runc-1").unwrap();
    twin.shell("runc-1/schemata", "L3:0=f0;1=ff\n").unwrap();
    twin.shell("runc-1/tasks", &format!("{contained}\n")).unwrap();
    twin.mkdir("runc-2").unwrap();
    twin.mkdir("mon_groups/watch").unwrap();
    twin.shell("mon_groups/watch/tasks", &format!("{monitored}\n"))
        .unwrap();
    (twin, contained, monitored)
}
