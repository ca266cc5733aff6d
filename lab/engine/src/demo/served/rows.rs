//! The served part's numbers as rows of suite `demo`.

use lab_core::row::Value;

use super::{SIDES, ServedResult};
use crate::demo::Side;
use crate::demo::mix::Class;
use crate::demo::part::{Part, Subject};
use crate::demo::turns::{Turns, control, ratios};

/// The rows of a run.
pub fn rows(result: &ServedResult) -> Part {
    let turns = Turns(&result.turns);
    let options = &result.options;
    let ran = [
        ("rounds", Value::from(options.rounds)),
        ("seed", Value::from(options.seed)),
    ];
    let keys = [
        ("scale_factor", Value::from(options.scale)),
        ("partitions", Value::from(options.partitions)),
        ("clients", Value::from(options.clients)),
        ("seconds", Value::from(options.seconds)),
    ];
    let keys = keys.map(|(key, value)| (key.to_owned(), value)).to_vec();
    let mut part = Part::new(turns.executions(), turns.wrong(), keys, "served_all", &ran);
    let rates = |side| turns.rates(side, Class::Analytic);
    let stock = rates(Side::Stock);
    let versus = Side::Stock.engine();
    for side in SIDES {
        let subject = Subject::new("served", &[("engine", side.engine()), ("policy", &side.policy())]);
        part.push_clients(&subject, &turns, side, Class::Analytic);
        let ratio = match side {
            Side::Stock => control(&stock),
            _ => ratios(&rates(side), &stock),
        };
        part.push_ratio(&subject, ratio, versus);
    }
    part
}
