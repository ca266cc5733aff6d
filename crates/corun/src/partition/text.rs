//! `corun partition` for people.

use std::fmt::Write as _;

use corun_model::cache::partition::{Class, Plan, Schemata, WayMask};
use corun_model::cpulist;
use corun_model::units::CpuId;
use corun_resctrl::{Assigned, ClassState, Cleared, Status, Step};

use super::{INSTEAD, Outcome};
use corun_cli::out;

/// What is printed, without a line break at the end.
pub fn report(outcome: &Outcome<'_>) -> String {
    let text = match outcome {
        Outcome::Planned { plan, steps } => planned(plan, steps),
        Outcome::Applied { plan, status } => {
            let mut text = status_text(status);
            text.push_str(&reasons(plan));
            text
        }
        Outcome::Status(status) => status_text(status),
        Outcome::Cleared(cleared) => cleared_text(cleared),
        Outcome::Assigned { class, assigned } => assigned_text(*class, assigned),
        Outcome::Unavailable(error) => {
            let mut text = format!("{} (unavailable)\ninstead: {INSTEAD}\n", super::absence(error));
            // The general hint says the same as the line above.
            if let corun_resctrl::ResctrlError::NotMounted { .. } = error
                && let Some(hint) = error.hint()
            {
                let _ = writeln!(text, "hint: {hint}");
            }
            text
        }
    };
    text.trim_end().to_owned()
}

fn planned(plan: &Plan, steps: &[Step]) -> String {
    let mut rows = Vec::new();
    for share in &plan.shares {
        rows.extend(values(&share.schemata).into_iter().map(|value| {
            let [resource, domains, value] = value;
            vec![share.class.group().to_owned(), resource, domains, value]
        }));
    }
    let mut text = table(&["class", "resource", "domains", "may fill"], 0, &rows);
    text.push_str(&reasons(plan));
    text.push_str("\nwrites (a dry run: nothing was changed)\n");
    if steps.is_empty() {
        text.push_str("  none\n");
    }
    for step in steps {
        let _ = writeln!(text, "  {step}");
    }
    text
}

fn reasons(plan: &Plan) -> String {
    let mut text = "\nwhy\n".to_owned();
    for share in &plan.shares {
        for reason in &share.reasons {
            let _ = writeln!(text, "  {}: {reason}", share.class.group());
        }
    }
    for reason in &plan.reasons {
        let _ = writeln!(text, "  {reason}");
    }
    text
}

fn status_text(status: &Status) -> String {
    let mut rows = Vec::new();
    for class in &status.classes {
        let state = match class.state {
            ClassState::Planned => "as planned",
            ClassState::Changed => "CHANGED",
            ClassState::Missing => "MISSING",
            ClassState::Foreign => "not corun's",
        };
        let name = class.class.group().to_owned();
        let shown = class.schemata.as_ref().map(values).unwrap_or_default();
        if shown.is_empty() {
            let nothing = || "-".to_owned();
            rows.push(vec![
                name,
                state.to_owned(),
                nothing(),
                nothing(),
                nothing(),
                "0".to_owned(),
            ]);
            continue;
        }
        for (line, [resource, domains, value]) in shown.into_iter().enumerate() {
            let first = |text: String| if line == 0 { text } else { String::new() };
            rows.push(vec![
                first(name.clone()),
                first(state.to_owned()),
                resource,
                domains,
                value,
                first(class.tasks.to_string()),
            ]);
        }
    }
    let mut text = if rows.is_empty() {
        "the cache is not partitioned; `corun partition apply` does it\n".to_owned()
    } else {
        table(
            &["class", "state", "resource", "domains", "may fill", "tasks"],
            1,
            &rows,
        )
    };
    let drifted = status
        .classes
        .iter()
        .filter(|class| matches!(class.state, ClassState::Changed | ClassState::Missing));
    for class in drifted {
        if let Some(planned) = &class.planned {
            let _ = writeln!(
                text,
                "{} was planned as {}",
                class.class.group(),
                planned.to_string().trim_end().replace('\n', " ")
            );
        }
    }
    if status.unfinished {
        text.push_str(
            "a run was cut off: `corun partition clear` takes back what it did, `apply` does it anew\n",
        );
    } else if status
        .classes
        .iter()
        .any(|class| matches!(class.state, ClassState::Changed | ClassState::Missing))
    {
        text.push_str("`corun partition apply` puts this right, `clear` takes it back\n");
    }
    if !status.foreign.is_empty() {
        let _ = writeln!(
            text,
            "groups of other tools, left alone: {}",
            status.foreign.join(", ")
        );
    }
    text
}

fn cleared_text(cleared: &Cleared) -> String {
    let names = |classes: &[Class]| {
        let names: Vec<&str> = classes.iter().map(|class| class.group()).collect();
        names.join(", ")
    };
    let mut text = if cleared.removed.is_empty() {
        "nothing to clear\n".to_owned()
    } else {
        format!(
            "removed {}; tasks given back to the root group: {}\n",
            names(&cleared.removed),
            cleared.tasks_returned
        )
    };
    if !cleared.left.is_empty() {
        let _ = writeln!(
            text,
            "left {}: no journal says that corun made it (as root: rmdir)",
            names(&cleared.left)
        );
    }
    text
}

fn assigned_text(class: Class, assigned: &Assigned) -> String {
    let mut text = format!(
        "{}: {} moved, {} there already, {} ended meanwhile\n",
        class.group(),
        assigned.moved,
        assigned.already,
        assigned.vanished
    );
    for (task, group) in &assigned.foreign {
        let _ = writeln!(text, "task {task} stays in another tool's group, {group}");
    }
    if !assigned.settled {
        text.push_str("tasks start faster than they can be moved: run it again\n");
    }
    text
}

/// Resource, domains and value of a schemata file; domains with equal values share a line.
fn values(schemata: &Schemata) -> Vec<[String; 3]> {
    let mut grouped: Vec<(&str, u32, Vec<CpuId>)> = Vec::new();
    for (resource, domain, value) in schemata.values() {
        let same = grouped
            .iter_mut()
            .find(|(known, other, _)| (*known, *other) == (resource, value));
        match same {
            Some((.., domains)) => domains.push(CpuId(domain)),
            None => grouped.push((resource, value, vec![CpuId(domain)])),
        }
    }
    let line = |(resource, value, domains): (&str, u32, Vec<CpuId>)| {
        let shown = if resource.starts_with('L') {
            let mask = WayMask(value);
            let ways = mask.ways().0;
            format!("{ways} way{} (mask {mask})", if ways == 1 { "" } else { "s" })
        } else {
            value.to_string()
        };
        [resource.to_owned(), cpulist::format(&domains), shown]
    };
    grouped.into_iter().map(line).collect()
}

fn table(headings: &[&str], numeric_columns: usize, rows: &[Vec<String>]) -> String {
    let mut bytes = Vec::new();
    // Writing to memory does not fail.
    let _ = out::table(&mut bytes, headings, numeric_columns, rows);
    String::from_utf8_lossy(&bytes).into_owned()
}
