//! The live part's numbers as rows of suite `demo`, cases `live_*`: transactions, analytic clients, statements.
//!
//! `engine` is who analyses beside the transactions: `none`, `datafusion` or `corun`; so is `versus` of the ratios. `teams` is how
//! the terminals run, `off` or `on`; the ratio of `on` has `teams off` for `versus`.

use corun_workloads::driver::Histogram;
use lab_core::row::Value;
use lab_core::stats::Spread;

use super::drive::Transactions;
use super::{LiveResult, Side};
use crate::demo::mix::Class;
use crate::demo::part::{Part, Subject, of_many};
use crate::demo::turns::{Turns, control, ratios};

const TRANSACTIONS: &str = "live_transactions";
const ANALYTIC: &str = "live_analytic";

/// The kind of transaction whose latency is shown.
const NEW_ORDER: &str = "new_order";

/// The rows of a run.
pub fn rows(result: &LiveResult) -> Part {
    let turns = Turns(&result.turns);
    let options = &result.options;
    let mut wrong = turns.wrong();
    wrong.extend(result.closing.wrong.iter().cloned());
    wrong.extend(result.turns.iter().flat_map(|turn| turn.more.violations.clone()));
    let ran = [
        ("rounds", Value::from(options.rounds)),
        ("seed", Value::from(options.seed)),
        ("data_rows", Value::from(result.rows as f64)),
    ];
    let keys = [
        ("warehouses", Value::from(options.warehouses)),
        ("divisor", Value::from(i64::from(options.divisor))),
        ("terminals", Value::from(options.terminals)),
        ("workers", Value::from(options.workers)),
        ("clients", Value::from(options.clients)),
        ("partitions", Value::from(options.partitions)),
        ("seconds", Value::from(options.seconds)),
    ];
    let keys = keys.map(|(key, value)| (key.to_owned(), value)).to_vec();
    let answers = turns.executions() + result.closing.answers;
    let mut part = Part::new(answers, wrong, keys, "live_all", &ran);
    for side in Side::ALL {
        transaction_rows(&turns, side, &mut part);
    }
    let sides = [Side::Stock, Side::Corun];
    for side in sides {
        analytic_rows(&turns, side, &mut part);
    }
    for (number, statement) in result.statements.iter().enumerate() {
        let case = format!("live_{}", statement.name);
        let [stock, corun] = sides.map(|side| Subject::new(&case, &[("engine", side.engine())]));
        let is_meant = |asked| asked == number;
        let versus = Side::Stock.engine();
        part.push_statement([&stock, &corun], versus, &turns, sides, is_meant, &[]);
    }
    part
}

fn transaction_rows(turns: &Turns<'_, Side, Transactions>, side: Side, part: &mut Part) {
    let keys = [("engine", side.engine()), ("teams", side.teams().as_str())];
    let subject = Subject::new(TRANSACTIONS, &keys);
    let new_orders = |side| turns.by_round(side, |turn| turn.more.outcome.new_orders_per_min);
    let mine = new_orders(side);
    let mut latencies = Histogram::default();
    let kinds = turns.of(side).flat_map(|turn| &turn.more.outcome.kinds);
    for kind in kinds.filter(|kind| kind.kind == NEW_ORDER) {
        latencies.merge(&kind.latencies);
    }
    let tps = turns.by_round(side, |turn| turn.more.outcome.tps);
    let retries = turns.by_round(side, |turn| turn.more.outcome.retried() as f64);
    let timed = usize::try_from(latencies.count()).unwrap_or(usize::MAX);
    let latency = |percent| (timed > 0).then(|| of_many(latencies.percentile_us(percent), timed));
    part.push(&subject, "new_orders_per_min", "1/min", Spread::of(&mine));
    part.push(&subject, "tps", "1/s", Spread::of(&tps));
    part.push(&subject, "p50_us", "us", latency(50.0));
    part.push(&subject, "p99_us", "us", latency(99.0));
    part.push(&subject, "retries", "count", Spread::of(&retries));
    if side != Side::Alone {
        let versus = match side {
            Side::Teams => "teams off",
            _ => Side::Alone.engine(),
        };
        part.push_ratio(&subject, ratios(&mine, &new_orders(Side::Alone)), versus);
    }
    if side == Side::Corun {
        let stock = new_orders(Side::Stock);
        part.push_ratio(&subject, ratios(&mine, &stock), Side::Stock.engine());
    }
    part.push_ratio(&subject, control(&mine), side.engine());
    part.show_rounds(&subject, "1/min", &mine);
}

fn analytic_rows(turns: &Turns<'_, Side, Transactions>, side: Side, part: &mut Part) {
    let subject = Subject::new(ANALYTIC, &[("engine", side.engine())]);
    part.push_clients(&subject, turns, side, Class::Analytic);
    let rates = |side| turns.rates(side, Class::Analytic);
    if side == Side::Corun {
        let over_stock = ratios(&rates(side), &rates(Side::Stock));
        part.push_ratio(&subject, over_stock, Side::Stock.engine());
    }
    part.push_ratio(&subject, control(&rates(side)), side.engine());
}

#[cfg(test)]
pub(in crate::demo) mod tests;
