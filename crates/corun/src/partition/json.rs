//! `corun partition ... --json`: one object per line, told apart by `kind`. Keys are stable; new ones may come.
//!
//! The first row is always of kind `partition` and says whether there is anything to partition.

use corun_model::cache::partition::{Class, Plan, Schemata, WayMask};
use corun_model::spread::Label;
use corun_resctrl::{Status, Step};
use serde_json::{Value, json};

use super::{INSTEAD, Outcome};

/// The rows of an outcome.
pub fn rows(command: &str, outcome: &Outcome<'_>) -> Vec<Value> {
    let mut rows = vec![json!({"kind": "partition", "command": command, "state": "available"})];
    match outcome {
        Outcome::Planned { plan, steps } => {
            rows.extend(shares(plan));
            rows.extend(steps.iter().map(step));
            rows.extend(reasons(plan));
        }
        Outcome::Applied { plan, status } => {
            rows.extend(status_rows(status));
            rows.extend(reasons(plan));
        }
        Outcome::Status(status) => rows.extend(status_rows(status)),
        Outcome::Cleared(cleared) => rows.push(json!({
            "kind": "cleared", "removed": cleared.removed, "tasks_returned": cleared.tasks_returned,
            "left": cleared.left,
        })),
        Outcome::Assigned { class, assigned } => {
            let foreign = |(task, group): &(u32, String)| json!({"task": task, "group": group});
            rows.push(json!({
                "kind": "assigned", "class": class, "moved": assigned.moved, "already": assigned.already,
                "vanished": assigned.vanished, "settled": assigned.settled,
                "foreign": assigned.foreign.iter().map(foreign).collect::<Vec<_>>(),
            }));
        }
        Outcome::Unavailable(error) => {
            rows = vec![json!({
                "kind": "partition", "command": command, "state": "unavailable", "label": Label::Unavailable,
                "reason": super::absence(error), "instead": INSTEAD, "hint": error.hint(),
            })];
        }
    }
    rows
}

/// One row for each value of a schemata file. Masks are text in hexadecimal, as the kernel writes them.
fn values(kind: &str, class: Class, schemata: &Schemata) -> Vec<Value> {
    let value = |(resource, domain, value): (&str, u32, u32)| {
        let mask = resource.starts_with('L').then_some(WayMask(value));
        json!({
            "kind": kind, "class": class, "group": class.group(), "resource": resource, "domain": domain,
            "mask": mask.map(|mask| mask.to_string()), "ways": mask.map(WayMask::ways),
            "value": mask.is_none().then_some(value),
        })
    };
    schemata.values().map(value).collect()
}

fn shares(plan: &Plan) -> Vec<Value> {
    let shares = plan.shares.iter();
    shares
        .flat_map(|share| values("share", share.class, &share.schemata))
        .collect()
}

fn reasons(plan: &Plan) -> Vec<Value> {
    let of_classes = plan.shares.iter().flat_map(|share| {
        let reason = |text| json!({"kind": "reason", "class": share.class, "text": text});
        share.reasons.iter().map(reason)
    });
    let common = plan
        .reasons
        .iter()
        .map(|text| json!({"kind": "reason", "class": Value::Null, "text": text}));
    of_classes.chain(common).collect()
}

fn step(step: &Step) -> Value {
    let (action, path, text) = match step {
        Step::MakeGroup { path } => ("make_group", path, None),
        Step::Write { path, text } => ("write", path, Some(text)),
    };
    json!({
        "kind": "step", "action": action, "path": path.display().to_string(), "text": text, "command": step.to_string(),
    })
}

fn status_rows(status: &Status) -> Vec<Value> {
    let mut rows = vec![json!({
        "kind": "status", "classes": status.classes.len(), "unfinished": status.unfinished, "foreign": status.foreign,
    })];
    for class in &status.classes {
        rows.push(json!({
            "kind": "class", "class": class.class, "group": class.class.group(), "state": class.state,
            "tasks": class.tasks, "schemata": class.schemata, "planned": class.planned,
        }));
        if let Some(schemata) = &class.schemata {
            rows.extend(values("value", class.class, schemata));
        }
    }
    rows
}
