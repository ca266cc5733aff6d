//! A frame as JSON: an object for all together and one for each row. Times are in microseconds; what is not known is null.

use std::time::Duration;

use serde_json::{Value, json};

use corun_pooler::watch::Speed;

use super::frame::Frame;
use corun_cli::out;

/// Prints it.
///
/// # Errors
/// A closed pipe.
pub fn print(frame: &Frame) -> anyhow::Result<()> {
    for object in objects(frame) {
        out::json_line(&object)?;
    }
    Ok(())
}

fn micros(time: Option<Duration>) -> Value {
    time.map_or(Value::Null, |time| {
        json!(u64::try_from(time.as_micros()).unwrap_or(u64::MAX))
    })
}

/// Adds the rates to an object.
fn with_speed(mut object: Value, speed: Option<&Speed>) -> Value {
    let of = |value: fn(&Speed) -> f64| speed.map(value);
    object["transactions_per_s"] = json!(of(|speed| speed.transactions));
    object["queries_per_s"] = json!(of(|speed| speed.queries));
    object["received_bytes_per_s"] = json!(of(|speed| speed.received_bytes));
    object["sent_bytes_per_s"] = json!(of(|speed| speed.sent_bytes));
    object["query_us_mean"] = micros(speed.and_then(|speed| speed.query_time));
    object["transaction_us_mean"] = micros(speed.and_then(|speed| speed.transaction_time));
    object["wait_us_mean"] = micros(speed.and_then(|speed| speed.wait_time));
    object
}

fn objects(frame: &Frame) -> Vec<Value> {
    let (sample, rates) = (&frame.sample, &frame.rates);
    let totals = sample.totals();
    let total = json!({
        "table": "total",
        "console": frame.place,
        "version": sample.version,
        "period_s": rates.period.as_secs_f64(),
        "clients_active": totals.clients_active,
        "clients_waiting": totals.clients_waiting,
        "servers_active": totals.servers_active,
        "servers_idle": totals.servers_idle,
        "servers_used": totals.servers_used,
        "servers_busy": totals.servers_busy,
        "wait_us_max": micros(Some(totals.wait_max)),
    });
    let mut objects = vec![with_speed(total, rates.total.as_ref())];
    objects.extend(sample.pools().map(|pool| {
        let wait = Duration::from_secs(pool.maxwait).saturating_add(Duration::from_micros(pool.maxwait_us));
        json!({
            "table": "pool", "database": pool.database, "user": pool.user, "pool_mode": pool.pool_mode,
            "clients_active": pool.cl_active, "clients_waiting": pool.cl_waiting,
            "servers_active": pool.sv_active, "servers_idle": pool.sv_idle, "servers_used": pool.sv_used,
            "servers_busy": pool.sv_tested + pool.sv_login + pool.sv_active_cancel + pool.sv_being_canceled,
            "wait_us_max": micros(Some(wait)),
        })
    }));
    objects.extend(sample.stats().map(|row| {
        let object = json!({ "table": "database", "database": row.database });
        with_speed(object, rates.databases.get(&row.database))
    }));
    objects.extend(sample.cores.iter().map(|core| {
        let rate = rates.cores.get(&core.core);
        json!({
            "table": "core", "core": core.core, "cpu": core.cpu, "clients": core.clients, "waiting": core.waiting,
            "servers": core.servers, "servers_active": core.servers_active, "backends_bound": core.backends_bound,
            "transactions_per_s": rate.map(|rate| rate.transactions), "queries_per_s": rate.map(|rate| rate.queries),
            "cohort_part": rate.and_then(|rate| rate.cohort_part), "busy_part": rate.and_then(|rate| rate.busy_part),
        })
    }));
    objects.extend(sample.cohorts.iter().map(|row| {
        let rate = rates.cohorts.get(&(row.core, row.database.clone(), row.user.clone()));
        json!({
            "table": "cohort", "core": row.core, "database": row.database, "user": row.user, "waiting": row.waiting,
            "queued_per_s": rate.map(|rate| rate.queries), "cohort_part": rate.and_then(|rate| rate.cohort_part),
            "state": row.state,
        })
    }));
    objects.extend(sample.hosts.iter().map(|host| {
        json!({
            "table": "host", "database": host.database, "host": host.host, "port": host.port, "role": host.role,
            "state": host.state, "lag_us": host.lag_us, "lag_bytes": host.lag_bytes, "servers": host.servers,
            "failures": host.failures, "error": host.error,
        })
    }));
    objects.extend(sample.ranges.iter().map(|row| {
        let rate = rates.ranges.get(&(row.database.clone(), row.name.clone(), row.worker));
        let domain = (row.database.clone(), row.name.clone());
        json!({
            "table": "range", "range": row.name, "database": row.database, "worker": row.worker, "cpu": row.cpu,
            "from": row.from, "to": row.to, "queries_per_s": rate.map(|rate| rate.queries),
            "part": rate.and_then(|rate| rate.part), "overflow_part": rates.overflow.get(&domain).copied().flatten(),
            "state": row.state,
        })
    }));
    objects.extend(sample.splits().into_iter().map(|row| {
        let rate = rates.splits.get(&(row.database.clone(), row.name.clone()));
        json!({
            "table": "split", "split": row.name, "database": row.database, "key": row.key, "parts": row.parts,
            "in_parts_per_s": rate.map(|rate| rate.in_parts), "whole_per_s": rate.map(|rate| rate.whole),
            "split_count": row.split_count, "whole_count": row.whole_count, "split_us": row.split_us,
            "whole_us": row.whole_us, "overhead_us": row.overhead_us, "why": row.why,
        })
    }));
    objects.extend(sample.queue.iter().map(|row| {
        json!({
            "table": "queue", "core": row.core, "client": row.client, "database": row.database, "user": row.user,
            "shape": row.shape, "state": row.state, "class": row.class, "table_bytes": row.table_bytes, "form": row.form,
            "policy": row.policy, "waited_us": row.waited_us, "ran_us": row.ran_us, "cpu": row.cpu,
            "cache": row.cache, "workers": row.workers, "why": row.why,
            "overtaken": row.overtaken,
        })
    }));
    objects.extend(sample.slowdowns.iter().map(|row| {
        json!({
            "table": "classes", "class": row.class, "beside": row.beside, "percent": row.percent,
            "cache_bytes": row.cache_bytes, "policy": row.policy, "partition": row.partition,
        })
    }));
    objects
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::top::draw::tests::{busy, keyed, queueing};

    #[test]
    fn every_object_names_its_table_and_the_unknown_is_null() {
        let objects = objects(&busy());
        let tables: Vec<&str> = objects
            .iter()
            .filter_map(|object| object["table"].as_str())
            .collect();
        assert_eq!(tables[..2], ["total", "pool"]);
        for table in ["database", "core", "cohort", "host"] {
            assert!(tables.contains(&table), "{table}");
        }
        let keyed = super::objects(&keyed());
        let of = |table: &str| {
            keyed
                .iter()
                .find(|object| object["table"] == table)
                .expect("an object")
        };
        assert_eq!(of("range")["overflow_part"], json!(0.1));
        assert_eq!(of("split")["in_parts_per_s"], json!(20.0));
        let queueing = super::objects(&queueing());
        let of = |table: &str| queueing.iter().filter(|object| object["table"] == table).count();
        assert_eq!((of("queue"), of("classes")), (2, 9));
        assert_eq!(objects[0]["transactions_per_s"], json!(12_000.0));
        assert_eq!(objects[0]["clients_waiting"], json!(12));
        let first = super::objects(&Frame::of("here", busy().sample, None));
        assert_eq!(first[0]["transactions_per_s"], Value::Null);
    }
}
