//! A moment as JSON: an object for all together and one for each row, as `/status.json` names things. What is not known is null.

use serde::Serialize;
use serde_json::{Value, json};

use super::Moment;
use corun_cli::out;

/// Prints it.
///
/// # Errors
/// A closed pipe.
pub fn print(place: &str, moment: &Moment) -> anyhow::Result<()> {
    for object in objects(place, moment) {
        out::json_line(&object)?;
    }
    Ok(())
}

fn objects(place: &str, moment: &Moment) -> Vec<Value> {
    let status = &moment.status;
    let queue = status.queue.as_ref();
    let total = json!({
        "table": "total",
        "server": place,
        "program": status.program,
        "version": status.version,
        "uptime_s": status.uptime_s,
        "is_stopping": status.is_stopping,
        "policy": queue.map(|queue| &queue.policy),
        "partition": queue.map(|queue| &queue.partition),
        "statements_per_s": moment.rate(super::ended),
        "rows_per_s": moment.rate(|status| status.statements.rows as f64),
        "sent_bytes_per_s": moment.rate(|status| status.statements.bytes as f64),
        "statement_s_mean": moment.mean(|status| status.statements.seconds).map(|mean| mean.as_secs_f64()),
        "waited_s_mean": moment.mean(|status| status.statements.waited_s).map(|mean| mean.as_secs_f64()),
    });
    let mut objects = vec![
        total,
        named("connections", &status.connections),
        named("statements", &status.statements),
        named("memory", &status.memory),
        named("shared", &status.shared),
    ];
    objects.extend(status.sessions.iter().map(|row| named("session", row)));
    if let Some(queue) = queue {
        objects.extend(queue.queries.iter().map(|row| named("query", row)));
        objects.extend(queue.slowdowns.iter().map(|row| named("slowdown", row)));
    }
    objects.extend(status.slow.iter().map(|row| named("slow", row)));
    objects.extend(status.caches.iter().map(|row| named("cache", row)));
    objects
}

/// A row with the name of its table.
fn named(table: &str, row: &impl Serialize) -> Value {
    let mut object = serde_json::to_value(row).unwrap_or(Value::Null);
    object["table"] = json!(table);
    object
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::top::draw::tests::serving;

    #[test]
    fn every_object_names_its_table_and_the_unknown_is_null() {
        let objects = objects("here", &serving());
        let tables: Vec<&str> = objects
            .iter()
            .filter_map(|object| object["table"].as_str())
            .collect();
        assert_eq!(tables.len(), objects.len());
        for table in ["total", "session", "query", "slow", "cache", "slowdown"] {
            assert!(tables.contains(&table), "{table}");
        }
        assert_eq!(objects[0]["statements_per_s"], json!(10.0));
        let query = objects.iter().find(|object| object["table"] == "query");
        assert_eq!(query.expect("one")["state"], "running");
        let first = super::objects(
            "here",
            &Moment {
                earlier: None,
                ..serving()
            },
        );
        assert_eq!(first[0]["statements_per_s"], Value::Null);
    }
}
