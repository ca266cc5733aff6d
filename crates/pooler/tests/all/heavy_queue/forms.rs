//! Queries that run with other joins than PostgreSQL prefers: the same answers and errors, and nothing left behind.

use crate::common::assert_contains;
use crate::common::message::{code, describe, error, parse, query, run_described, shown, sync};
use crate::common::raw::Raw;
use crate::heavy_queue::fixture::{Pair, QueueFixture};

/// The hash tables here are small beside this cache, so a hash join is preferred where it costs about as much as the index join that
/// PostgreSQL takes.
fn fixture() -> QueueFixture {
    QueueFixture::start("heavy_queue_cache_bytes = \"64MB\"\nheavy_queue_min = \"0ms\"")
}

/// The join, of as many rows of `fact` as `limit` says.
fn join(columns: &str, limit: &str) -> String {
    format!(
        "/* corun: heavy_queue=analytic */ select {columns} from fact, dim where f_d = d_id and f_id <= {limit}"
    )
}

/// What PostgreSQL thinks a plan costs, and its text.
fn cost(client: &mut Raw, sql: &str) -> (f64, String) {
    let plan = format!("{:?}", client.rows(&format!("explain {sql}")));
    let text = plan
        .split_once("..")
        .and_then(|(_, rest)| rest.split_once(' '))
        .map(|(cost, _)| cost.to_owned());
    let cost = text.and_then(|text| text.parse().ok());
    (cost.unwrap_or_else(|| panic!("no cost: {plan}")), plan)
}

/// A limit under which PostgreSQL takes an index join, and a hash join would cost little more.
fn limit(fixture: &QueueFixture) -> u32 {
    let (mut own, mut hashes) = (fixture.direct(), fixture.direct());
    hashes.rows("set enable_nestloop = off");
    hashes.rows("set enable_mergejoin = off");
    (20..4000)
        .step_by(10)
        .find(|limit| {
            let sql = join("count(*), sum(f_v)", &limit.to_string());
            let ((own, plan), (hash, other)) = (cost(&mut own, &sql), cost(&mut hashes, &sql));
            plan.contains("Nested Loop") && other.contains("Hash Join") && hash < own * 1.2
        })
        .expect("plans of about the same cost")
}

/// The fixture, its clients, the limit, and a query of which another form is chosen, as it is known.
fn chosen() -> (QueueFixture, Pair, u32, String) {
    let fixture = fixture();
    let limit = limit(&fixture);
    let mut pair = Pair::of(&fixture);
    let sql = join("count(*), sum(f_v)", &limit.to_string());
    pair.ours.rows(&sql);
    assert_eq!(pair.ours.rows(&sql), pair.direct.rows(&sql));
    let form = with_lock(&fixture, &mut pair.ours, &sql);
    assert_contains(&form, "enable_nestloop=off");
    (fixture, pair, limit, sql)
}

/// The form in which a query runs that must wait for a lock.
fn with_lock(fixture: &QueueFixture, client: &mut Raw, sql: &str) -> String {
    let mut other = fixture.direct();
    other.rows("begin");
    other.rows("lock table fact in access exclusive mode");
    fixture.wait_for_idle();
    client.send_query(sql);
    fixture.wait_for_queue(0, 1);
    let form = fixture.queue()[0]["form"].clone();
    other.rows("commit");
    assert_eq!(code(&client.until_ready()), "");
    fixture.wait_for_queue(0, 0);
    form
}

/// Both send these bytes, with the same answers but for the order of rows, which is that of the plan.
fn same_rows(pair: &mut Pair, bytes: &[u8], about: &str) {
    let [got, expected] = [&mut pair.ours, &mut pair.direct].map(|client| {
        let mut lines = client.ask(bytes);
        lines.sort();
        lines
    });
    assert_eq!(got, expected, "{about}");
}

#[test]
fn answers_and_settings_are_as_if_nothing_was() {
    let (fixture, mut pair, limit, _) = chosen();
    for columns in [
        "count(*), sum(f_v)",
        "f_id, d_name",
        "sum(1 / (f_id - 10))",
        "f_id::text || d_name",
    ] {
        let sql = join(columns, &limit.to_string());
        for _ in 0..3 {
            same_rows(&mut pair, &query(&sql), &sql);
        }
        pair.both(&["show enable_nestloop"]);
        let isolation = pair.ours.value("select current_setting('transaction_isolation')");
        assert_eq!(isolation, "read committed");
    }
    // No transaction is left open: each statement has its own.
    let transaction = "select pg_current_xact_id()";
    assert_ne!(pair.ours.value(transaction), pair.ours.value(transaction));
    fixture.wait_for_queue(0, 0);
}

#[test]
fn prepared_statements_text_and_binary() {
    let (fixture, mut pair, limit, _) = chosen();
    let text = join("f_id, d_name", "$1");
    let prepare = [parse("mine", &text, &[23]), describe(b'S', "mine"), sync()].concat();
    pair.ask(&prepare, &text);
    let limit = limit.to_string();
    for round in 0..8 {
        for (value, binary) in [
            (Some(limit.as_str()), round % 2 == 1),
            (None, false),
            (Some("wrong"), false),
        ] {
            let named = run_described("mine", &[value], binary);
            let unnamed = [parse("", &text, &[23]), run_described("", &[value], binary)].concat();
            for bytes in [named, unnamed] {
                same_rows(&mut pair, &bytes, &format!("round {round}, {value:?}"));
            }
        }
    }
    assert_eq!(pair.ours.value("show plan_cache_mode"), "auto");
    let metrics = fixture.console().table("show heavy_queue");
    assert_eq!(metrics.len(), 9);
    fixture.wait_for_queue(0, 0);
}

#[test]
fn cancelled_and_left_in_the_middle() {
    let (fixture, Pair { mut ours, .. }, _, sql) = chosen();
    let mut gate = fixture.direct();
    gate.rows("begin");
    gate.rows("lock table fact in access exclusive mode");
    fixture.wait_for_idle();
    ours.send_query(&sql);
    fixture.wait_for_queue(0, 1);
    fixture.wait_for_lock();
    fixture.cancel(&ours);
    let answer = ours.until_ready();
    assert_eq!(error(&answer), "57014 canceling statement due to user request");
    assert_eq!(shown(&answer).last().map(String::as_str), Some("ready I"));
    assert_eq!(ours.value("show enable_nestloop"), "on");
    let mut leaves = fixture.client();
    leaves.send_query(&sql);
    fixture.wait_for_queue(0, 1);
    drop(leaves);
    fixture.wait_for_queue(0, 0);
    gate.rows("commit");
    // Every server is as it was.
    for _ in 0..6 {
        let mut client = fixture.client();
        assert_eq!(client.value("show enable_nestloop"), "on");
        assert_eq!(client.rows(&sql), fixture.direct().rows(&sql));
    }
    let open =
        "select count(*) from pg_stat_activity where datname = current_database() and state like 'idle in%'";
    assert_eq!(fixture.value(open), "0");
}

#[test]
fn what_follows_in_one_write_is_answered_in_order() {
    let (fixture, mut pair, _, sql) = chosen();
    let texts = [&sql, "select 2", &sql, "begin", &sql, "commit"];
    let bytes = texts.map(query).concat();
    let run = |client: &mut Raw| -> Vec<String> {
        client.send(&bytes);
        texts.iter().flat_map(|_| shown(&client.until_ready())).collect()
    };
    for _ in 0..3 {
        assert_eq!(run(&mut pair.ours), run(&mut pair.direct));
    }
    fixture.wait_for_queue(0, 0);
}

#[test]
fn plans_can_be_left_alone_and_serializable_ones_are() {
    let fixture = QueueFixture::start(
        "heavy_queue_cache_bytes = \"64MB\"\nheavy_queue_min = \"0ms\"\nheavy_queue_plans = false",
    );
    let limit = limit(&fixture);
    let mut client = fixture.client();
    let sql = join("count(*), sum(f_v)", &limit.to_string());
    client.rows(&sql);
    assert_eq!(with_lock(&fixture, &mut client, &sql), "as planned");
    let fixture = self::fixture();
    let mut client = fixture.client();
    client.rows("set default_transaction_isolation = 'serializable'");
    client.rows(&sql);
    assert_eq!(with_lock(&fixture, &mut client, &sql), "as planned");
}

#[test]
fn hints_that_nobody_reads_are_no_forms() {
    let fixture = fixture();
    let limit = limit(&fixture).to_string();
    let sql = join("count(*), sum(f_v)", &limit);
    let mut client = fixture.client();
    client.rows(&sql);
    let without = with_lock(&fixture, &mut client, &sql);
    assert_contains(&without, "enable_nestloop=off");
    // The setting is there, and the extension is not.
    let database = &fixture.database;
    fixture.sql(&format!(
        "alter database {database} set pg_hint_plan.enable_hint = 'on'"
    ));
    fixture.console().rows("reconnect");
    let mut client = fixture.client();
    assert_eq!(client.value("show pg_hint_plan.enable_hint"), "on");
    // Of a shape that no server was asked about before.
    let sql = join("count(*), max(f_v)", &limit);
    client.rows(&sql);
    assert_eq!(with_lock(&fixture, &mut client, &sql), without);
    assert_eq!(client.rows(&sql), fixture.direct().rows(&sql));
}
