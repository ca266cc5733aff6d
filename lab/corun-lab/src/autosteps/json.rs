//! A [`Study`] as one JSON object a line, told apart by `kind`.

use serde_json::{Value, json};

use super::study::{Choice, Place, Study, reduction};

/// The objects in order: the cache, operations with their team and other knees, points, warnings.
pub fn rows(study: &Study) -> Vec<Value> {
    let mut rows = vec![json!({
        "kind": "cache",
        "l1i": study.l1i.to_string(),
        "origin": study.l1i_origin,
        "knee": study.knee.to_string(),
        "members": study.members,
        "choice": choice(study.choice),
    })];
    for (index, operation) in study.operations.iter().enumerate() {
        rows.push(json!({
            "kind": "operation",
            "operation": operation.name,
            "instructions": operation.instructions,
            "footprint_lines": operation.footprint_lines,
            "footprint_bytes": operation.footprint_lines * u64::from(study.l1i.line_bytes),
            "cold_misses": operation.cold,
            "warm_misses": operation.warm,
            "leading_misses": operation.leading,
            "non_leading_misses": operation.non_leading,
            "reduction_percent": reduction(operation.warm, operation.non_leading as f64),
            "points": study.points_of(index),
            "calls": operation.calls.len(),
            "label": "simulated",
        }));
        rows.push(json!({
            "kind": "team",
            "operation": operation.name,
            "members": study.members,
            "serial_misses": operation.team.serial,
            "team_misses": operation.team.team,
            "reduction_percent": reduction(operation.team.serial, operation.team.team as f64),
            "misses_per_additional_member": operation.team.additional,
            "label": "simulated",
        }));
        rows.extend(operation.trials.iter().map(|trial| {
            json!({
                "kind": "knee",
                "operation": operation.name,
                "knee": trial.knee.to_string(),
                "points": trial.points,
                "calls": trial.calls,
                "non_leading_misses": trial.misses,
                "reduction_percent": reduction(operation.warm, trial.misses as f64),
                "misses_per_additional_member": trial.additional,
                "label": "simulated",
            })
        }));
    }
    for point in &study.points {
        let mut row = place("point", &point.place);
        row["name"] = json!(point.name);
        for (operation, calls) in study.operations.iter().zip(&point.calls) {
            row["calls"][operation.name.as_str()] = json!(calls);
        }
        rows.push(row);
    }
    for text in study.warnings() {
        rows.push(json!({"kind": "warning", "text": text}));
    }
    rows
}

/// The word for what points are chosen from.
pub fn choice(choice: Choice) -> &'static str {
    match choice {
        Choice::Lines => "lines",
        Choice::Sites => "sites",
        Choice::Entries => "entries",
    }
}

fn place(kind: &str, place: &Place) -> Value {
    let (file, line, column) = match &place.source {
        Some((file, line, column)) => (Some(file), Some(line), Some(column).filter(|&&column| column > 0)),
        None => (None, None, None),
    };
    json!({
        "kind": kind,
        "file": file,
        "line": line,
        "column": column,
        "function": place.function,
        "inlined_into": place.inlined_into,
        "module": place.module,
        "offset": place.offset,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::autosteps::study::tests::study;

    #[test]
    fn every_kind_has_its_keys() {
        let rows = rows(&study());
        let kinds: Vec<&str> = rows.iter().filter_map(|row| row["kind"].as_str()).collect();
        assert_eq!(kinds, ["cache", "operation", "team", "knee", "point"]);
        assert_eq!(rows[0]["l1i"], "32k/8/64");
        assert_eq!(rows[1]["footprint_bytes"], 700 * 64);
        assert_eq!(rows[1]["reduction_percent"], 90.0);
        assert_eq!(rows[4]["calls"]["fetch"], 2);
        assert_eq!((&rows[4]["line"], &rows[4]["column"]), (&json!(12), &Value::Null));
    }
}
