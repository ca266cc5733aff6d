//! The demo's live part: transactions and SQL on the same tables, and that each kind of damage is noticed.

use std::collections::BTreeSet;

use corun_datafusion::{Engine, EngineOptions, Joins};
use corun_model::progress::Silent;
use corun_store::{Options, Store, Value};
use corun_workloads::corun::CorunTpcc;
use corun_workloads::driver::{RunOptions, TpccWorkload, run_tpcc};
use corun_workloads::tpcc::{self, Mix, Scale};
use lab_engine::demo::live::rows::rows;
use lab_engine::demo::live::statements::{Statement, statements};
use lab_engine::demo::live::{Live, LiveOptions, Side};

use crate::words;

fn options() -> LiveOptions {
    LiveOptions {
        warehouses: 1,
        divisor: 100,
        seconds: 0.2,
        warmup_seconds: 0.02,
        rounds: 2,
        terminals: 4,
        workers: 1,
        clients: 2,
        partitions: 2,
        seed: 3,
    }
}

#[test]
fn every_side_runs_and_every_answer_is_right() {
    let live = Live::new(options()).expect("valid options");
    let result = live.play(&Silent).expect("runs");
    use Side::{Alone, Teams};
    // Each side has one turn in each round; their order is shuffled.
    for round in 0..2 {
        let turns = result.turns.iter().filter(|turn| turn.round == round);
        let sides: Vec<Side> = turns.map(|turn| turn.side).collect();
        assert_eq!(sides.len(), Side::ALL.len(), "{sides:?}");
        assert!(Side::ALL.iter().all(|side| sides.contains(side)), "{sides:?}");
    }
    assert_eq!(result.turns.len(), 2 * Side::ALL.len());
    for turn in &result.turns {
        assert!(turn.more.outcome.committed() > 0, "{:?}", turn.more.outcome);
        let analysts = if matches!(turn.side, Alone | Teams) { 0 } else { 2 };
        assert_eq!(turn.more.outcome.teams.is_some(), turn.side == Teams);
        assert_eq!(turn.clients.len(), analysts);
        assert!(turn.clients.iter().all(|analyst| !analyst.executions.is_empty()));
    }
    let part = rows(&result);
    assert_eq!(part.wrong, Vec::<String>::new());
    assert_eq!(result.closing.answers, 2 * result.statements.len());
    assert!(part.answers > result.closing.answers);
    let metrics: BTreeSet<String> = part.rows.into_iter().map(|row| row.metric).collect();
    let expected = words("ms new_orders_per_min p50_ms p50_us p95_ms p99_us queries_per_s ratio retries tps");
    assert_eq!(metrics.iter().map(String::as_str).collect::<Vec<_>>(), expected);
}

#[test]
fn impossible_options_are_refused() {
    for (options, text) in [
        (
            LiveOptions {
                warehouses: 100_000,
                ..options()
            },
            "100000 warehouses: the demo takes 1 to 1000 here",
        ),
        (
            LiveOptions {
                terminals: 0,
                ..options()
            },
            "0 terminals",
        ),
        (
            LiveOptions {
                workers: 1_000_000,
                ..options()
            },
            "1000000 workers",
        ),
    ] {
        let error = Live::new(options).err().expect("refused");
        assert!(error.to_string().contains(text) && error.is_usage(), "{error}");
    }
}

/// A store on which TPC-C has run, and both engines over it.
struct Fixture {
    tpcc: CorunTpcc,
    engines: [Engine; 2],
    statements: Vec<Statement>,
    runtime: tokio::runtime::Runtime,
}

impl Fixture {
    fn new() -> Fixture {
        let scale = Scale::hundredth(2);
        let tpcc = CorunTpcc::new(Store::in_memory(Options::default()).expect("a store")).expect("tables");
        tpcc::load(&tpcc, scale, 1, 1, &|_| ()).expect("loads");
        let workload = TpccWorkload {
            scale,
            load_seed: 1,
            mix: Mix::STANDARD,
        };
        run_tpcc(&tpcc, &workload, &RunOptions::default()).expect("runs");
        let engines = [Joins::Stock, Joins::Corun].map(|joins| {
            let settings = match joins {
                Joins::Stock => Vec::new(),
                // Wherever they are possible, however small the tables.
                Joins::Corun => vec![("corun.join".to_owned(), "on".to_owned())],
            };
            let engine = Engine::new(&EngineOptions {
                partitions: 2,
                joins,
                settings,
                ..EngineOptions::default()
            })
            .expect("an engine");
            engine.attach_store(tpcc.store()).expect("no other tables");
            engine
        });
        Fixture {
            tpcc,
            engines,
            statements: statements(scale.orders()),
            runtime: lab_engine::query::runtime(2).expect("threads"),
        }
    }

    /// Names of the statements whose answer is wrong; both engines must agree on them.
    fn wrong(&self) -> Vec<&'static str> {
        let [stock, corun] = self.engines.each_ref().map(|engine| {
            let wrong = self.statements.iter().filter_map(|statement| {
                let answer = self
                    .runtime
                    .block_on(engine.query(&statement.sql))
                    .expect("answers");
                statement.judge(&answer).map(|text| {
                    assert!(text.starts_with(statement.name), "{text}");
                    statement.name
                })
            });
            wrong.collect::<Vec<_>>()
        });
        assert_eq!(stock, corun);
        stock
    }

    /// Changes one field of the first row, by its key, for which `which` holds, and returns what was there.
    fn change(
        &self,
        table: &str,
        column: &str,
        value: Value<'_>,
        which: impl Fn(corun_store::RowRef<'_>) -> bool,
    ) {
        let store = self.tpcc.store();
        let table = store.table(table).expect("a table");
        let column = table.column(column).expect("a column");
        let snapshot = store.snapshot().expect("a snapshot");
        let rid = snapshot
            .rows(&table, 0..table.rid_end())
            .expect("rows")
            .find(|found| which(found.row))
            .expect("such a row")
            .rid;
        drop(snapshot);
        let mut session = store.session_here().expect("a session");
        let transaction = session.begin().expect("begins");
        transaction
            .update(&table, rid, |row| row.set(column, value))
            .expect("updates");
        transaction.commit().expect("commits");
    }
}

#[test]
fn a_corrupted_row_makes_a_wrong_answer() {
    let all = |_: corun_store::RowRef<'_>| true;
    // What is changed, and which statements say so.
    let fixture = Fixture::new();
    assert_eq!(fixture.wrong(), [""; 0]);
    for (table, column, value, seen) in [
        ("orders", "o_ol_cnt", Value::Int(4), &["order_lines"][..]),
        ("district", "d_next_o_id", Value::Int(7), &["next_order"]),
        ("warehouse", "w_ytd", Value::Int(1), &["payments"]),
        ("district", "d_ytd", Value::Int(1), &["payments"]),
        ("history", "h_amount", Value::Int(987_654), &["payments"]),
        ("customer", "c_balance", Value::Int(987_654), &["balances"]),
        ("stock", "s_ytd", Value::Int(987_654), &["stock_sold"]),
        ("stock", "s_order_cnt", Value::Int(987), &["stock_sold"]),
    ] {
        let fixture = Fixture::new();
        fixture.change(table, column, value, all);
        assert_eq!(fixture.wrong(), seen, "{table}.{column}");
    }
    let fixture = Fixture::new();
    let lines = fixture.tpcc.store().table("order_line").expect("a table");
    let (delivery, amount) = (
        lines.column("ol_delivery_d").expect("a column"),
        lines.column("ol_amount").expect("a column"),
    );
    fixture.change("order_line", "ol_delivery_d", Value::Null, |row| {
        !row.is_null(delivery)
    });
    // The amounts of lines loaded as delivered are zero, so no balance tells.
    assert_eq!(fixture.wrong(), ["delivered_lines"]);
    fixture.change("order_line", "ol_i_id", Value::Int(1_000_000), |row| {
        row.int(amount) > 0
    });
    assert!(fixture.wrong().contains(&"top_items"));
    let fixture = Fixture::new();
    let orders = fixture.tpcc.store().table("orders").expect("a table");
    let carrier = orders.column("o_carrier_id").expect("a column");
    fixture.change("orders", "o_carrier_id", Value::Int(1), |row| {
        row.is_null(carrier)
    });
    assert_eq!(fixture.wrong(), ["delivered_lines", "waiting_customers"]);
}
