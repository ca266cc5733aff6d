//! Queries that run with other joins than PostgreSQL prefers: the same answers and errors, and nothing left behind.

use crate::common::message::{bind, describe, execute, parse, query, sync};
use crate::common::raw::Raw;
use crate::house::{HINT, House, JOIN};

/// A house where the hash join of [`JOIN`] is moderate and its other plans are about as dear: so another form is chosen.
fn house() -> House {
    House::start("lane_cache_bytes = \"256kB\"")
}

/// Settings under which index joins seem to cost about what hash joins do.
const CHEAP: [&str; 4] = [
    "set random_page_cost = 0",
    "set cpu_index_tuple_cost = 0",
    "set seq_page_cost = 2",
    "set cpu_operator_cost = 0.004",
];

fn prepared(house: &House) -> (Raw, Raw) {
    let (mut ours, mut direct) = (house.client(), house.direct());
    for setting in CHEAP {
        ours.rows(setting);
        direct.rows(setting);
    }
    (ours, direct)
}

/// Queries run in another form so far.
fn forms(client: &mut Raw) -> String {
    let rows = client.rows(&format!("explain (corun) {HINT}{JOIN}"));
    format!("{rows:?}")
}

#[test]
fn look() {
    let house = house();
    let (mut ours, mut direct) = prepared(&house);
    let text = format!("{HINT}{JOIN}");
    assert_eq!(ours.lines(&text), direct.lines(&text));
    for settings in [
        &[][..],
        &["set enable_hashjoin = off", "set enable_mergejoin = off"],
    ] {
        for setting in settings {
            direct.rows(setting);
        }
        eprintln!("{:#?}", direct.rows(&format!("explain {JOIN}")));
    }
    let explained = forms(&mut ours);
    eprintln!("{explained}");
    assert!(explained.contains("enable_hashjoin=off"), "{explained}");
    let _ = (query, parse, bind, describe, execute, sync);
}
