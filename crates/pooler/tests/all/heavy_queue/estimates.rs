//! Estimates of the queue beside what hash tables really take, where PostgreSQL's own are off; and statistics that change.

use crate::common::raw::Raw;
use crate::heavy_queue::fixture::QueueFixture;

/// Parts of 25 categories, two thirds of which are asked for: alternatives that PostgreSQL takes for independent.
const TABLES: [&str; 4] = [
    "create table part as select p as p_partkey, 'MFGR#' || p % 25 as p_category from generate_series(1, 60000) p",
    "create table sold as select s as s_id, 1 + s * 7 % 60000 as s_partkey, s % 100 as s_revenue from generate_series(1, 200000) s",
    "analyze part",
    "analyze sold",
];

fn query() -> String {
    let category = |number: usize| format!("p_category = 'MFGR#{number}'");
    let categories: Vec<String> = (0..17).map(category).collect();
    format!(
        "select sum(s_revenue) from part, sold where p_partkey = s_partkey and ({})",
        categories.join(" or ")
    )
}

/// Bytes of hash tables as the queue has them.
fn estimated(client: &mut Raw, sql: &str) -> f64 {
    let said = format!("{:?}", client.rows(&format!("explain (corun) {sql}")));
    let bytes = said.split_once(" bytes of hash tables").map(|(before, _)| before);
    let bytes = bytes.and_then(|before| before.rsplit(' ').next()?.parse().ok());
    bytes.unwrap_or_else(|| panic!("no estimate: {said}"))
}

/// Bytes as the server counts them when it runs.
fn real(fixture: &QueueFixture, sql: &str) -> f64 {
    let mut direct = fixture.direct();
    direct.rows("set max_parallel_workers_per_gather = 0");
    let said = format!(
        "{:?}",
        direct.rows(&format!("explain (analyze, timing off) {sql}"))
    );
    let kilobytes = said.split_once("Memory Usage: ").and_then(|(_, rest)| {
        let number = rest.split_once("kB")?.0;
        number.parse::<f64>().ok()
    });
    kilobytes.unwrap_or_else(|| panic!("no hash table: {said}")) * 1024.0
}

#[test]
fn tables_are_as_large_as_expected_where_postgresql_expects_fewer_rows() {
    let fixture = QueueFixture::start("heavy_queue_plans = false\nheavy_queue_min = \"0ms\"");
    let mut direct = fixture.direct();
    for sql in TABLES {
        direct.rows(sql);
    }
    let sql = query();
    let mut client = fixture.client();
    client.rows("set max_parallel_workers_per_gather = 0");
    let answer = direct.rows(&sql);
    // Its run time is learnt first.
    for _ in 0..3 {
        assert_eq!(client.rows(&sql), answer);
    }
    let off = estimated(&mut client, &sql) / real(&fixture, &sql);
    assert!((0.88..1.12).contains(&off), "off by {off}");
    // The questions left nothing behind, and are not asked again for the same text.
    assert_eq!(client.rows(&sql), answer);
    fixture.wait_for_queue(0, 0);
}
