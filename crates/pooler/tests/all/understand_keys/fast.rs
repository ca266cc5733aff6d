//! What it costs to find the worker of a statement. Prints; asserts no time.

#![expect(clippy::print_stderr, reason = "prints what it measured")]

use std::hint::black_box;
use std::time::Instant;

use corun_model::pooler::ranges::Map;
use corun_pooler::understand::keys::{KeyKind, Literals, parameters_of_bind};

use super::{bind, plan};

/// Batches, of which the fastest counts, and runs of each.
const BATCHES: u32 = 20;
const RUNS: u32 = 50_000;

fn timed(what: &str, mut run: impl FnMut() -> Option<usize>) {
    let mut best_ns = f64::INFINITY;
    for _ in 0..BATCHES {
        let begin = Instant::now();
        for _ in 0..RUNS {
            black_box(run());
        }
        best_ns = best_ns.min(begin.elapsed().as_nanos() as f64 / f64::from(RUNS));
    }
    eprintln!("{what}: {best_ns:.0} ns");
}

#[test]
#[ignore = "prints times"]
fn from_a_message_to_a_worker() {
    let map = Map::even(0, 1_000_000, 256, 8).expect("a map");
    let worker = |text: &str, values: &[super::Value], what: &str, literals: bool| {
        let plan = plan(text).expect("keys");
        let resolve =
            || plan.resolve(|_, table, column| (table == "customer" && column == "c_id").then_some(()));
        let (column, ()) = resolve().expect("a key");
        let body = bind(values);
        timed(what, || {
            let text = black_box(text.as_bytes());
            let span = if literals {
                plan.span(column, KeyKind::Integer, &Literals::of(text))
            } else {
                plan.span(column, KeyKind::Integer, &parameters_of_bind(black_box(&body))?)
            };
            map.owner_of_span(&span)
        });
        timed(&format!("{what}: resolve() alone"), || {
            resolve().map(|(column, ())| column)
        });
    };
    let binary = |n: i32| (1, Some(n.to_be_bytes().to_vec()));
    let text = |n: i32| (0, Some(n.to_string().into_bytes()));
    let point = "select c_id, c_uname, c_fname, c_lname, c_discount from customer where c_id = $1";
    worker(point, &[binary(700_000)], "Bind, one binary parameter", false);
    worker(point, &[text(700_000)], "Bind, one text parameter", false);
    worker(
        "update customer set c_balance = $1, c_ytd_pmt = $2, c_login = $3 where c_id between $4 and $5 and c_discount > $6",
        &[
            text(1),
            text(2),
            text(3),
            binary(500_000),
            binary(500_100),
            text(5),
        ],
        "Bind, a range behind three others",
        false,
    );
    let list: Vec<_> = (0..20).map(|n| binary(n * 50_000)).collect();
    let names: Vec<_> = (1..=20).map(|n| format!("${n}")).collect();
    worker(
        &format!("select * from customer where c_id in ({})", names.join(", ")),
        &list,
        "Bind, twenty in a list",
        false,
    );
    worker(
        "select c_id, c_uname, c_fname, c_lname, c_discount from customer where c_id = 700000",
        &[],
        "simple text, one literal",
        true,
    );
    assert!(plan("select 1").is_none());
}
