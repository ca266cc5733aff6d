//! The analytic part's numbers as rows of suite `demo`: classes, then queries, then memory.

use corun_model::cache::coschedule::PolicyName;
use lab_core::row::Value;
use lab_core::stats::{Spread, geometric_mean};

use super::drive::Memory;
use super::mix::Class;
use super::part::{Part, Subject};
use super::turns::{Turns, control, ratios};
use super::{DemoResult, Side};

/// The rows of a run.
pub fn rows(result: &DemoResult) -> Part {
    let turns = Turns(&result.turns);
    let options = &result.options;
    let ran = [
        ("rounds", Value::from(options.rounds)),
        ("seed", Value::from(options.seed)),
        ("data_rows", Value::from(result.data_rows as f64)),
        ("data_bytes", Value::from(result.data_bytes as f64)),
    ];
    let keys = [
        ("scale_factor", Value::from(options.scale)),
        ("partitions", Value::from(options.partitions)),
        ("clients", Value::from(options.clients)),
        ("short_clients", Value::from(options.short_clients)),
        ("seconds", Value::from(options.seconds)),
    ];
    let keys = keys.map(|(key, value)| (key.to_owned(), value)).to_vec();
    let mut part = Part::new(turns.executions(), turns.wrong(), keys, "all", &ran);
    for class in Class::ALL {
        class_rows(&turns, &options.sides(), class, &mut part);
    }
    query_rows(result, &turns, &mut part);
    for side in options.sides() {
        let peaks = turns.by_round(side, |turn| turn.more.peak_bytes as f64);
        part.push(&subject("all", side), "peak_bytes", "bytes", Spread::of(&peaks));
    }
    part
}

fn subject(case: &str, side: Side) -> Subject {
    Subject::new(case, &[("engine", side.engine()), ("policy", &side.policy())])
}

fn class_rows(turns: &Turns<'_, Side, Memory>, sides: &[Side], class: Class, part: &mut Part) {
    let rates = |side| turns.rates(side, class);
    let stock = rates(Side::Stock);
    for &side in sides {
        let subject = subject(class.name(), side);
        part.push_clients(&subject, turns, side, class);
        let over = |below: &[f64]| ratios(&rates(side), below);
        if side != Side::Stock {
            part.push_ratio(&subject, over(&stock), Side::Stock.engine());
        }
        let in_order = Side::Policy(PolicyName::Fifo);
        if matches!(side, Side::Policy(_)) && side != in_order {
            let fifo = rates(in_order);
            part.push_ratio(&subject, over(&fifo), "fifo");
        }
    }
    let itself = Side::Stock.engine();
    part.push_ratio(&subject(class.name(), Side::Stock), control(&stock), itself);
}

fn query_rows(result: &DemoResult, turns: &Turns<'_, Side, Memory>, part: &mut Part) {
    let mix = &result.mix;
    let sides = [Side::Stock, Side::Corun];
    for class in Class::ALL {
        let mut speed_ups = Vec::new();
        let versus = Side::Stock.engine();
        for name in mix.names(class) {
            let [stock, corun] = sides.map(|side| subject(name, side).with("class", class.name()));
            let joins = mix.corun_joins.get(name);
            let known: Vec<_> = joins
                .map(|&joins| ("corun_joins", Value::from(joins)))
                .into_iter()
                .collect();
            let is_meant = |statement: usize| mix.statements[statement].name == name;
            speed_ups.extend(part.push_statement([&stock, &corun], versus, turns, sides, is_meant, &known));
        }
        if let (Class::Analytic, Some(mean)) = (class, geometric_mean(&speed_ups)) {
            let rounds = [("rounds", Value::from(result.options.rounds))];
            part.show(
                &Subject::new(class.name(), &[]),
                ("geomean", "x"),
                Spread::one(mean),
                &rounds,
            );
        }
    }
}

#[cfg(test)]
pub(super) mod tests;
