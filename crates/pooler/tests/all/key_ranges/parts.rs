//! Queries in parts: the same rows as whole, whatever goes wrong.

use super::{BEST_SELLER, SHOP, splits, start, until_split};
use crate::common::fixture::Fixture;
use crate::common::message::{prepare, run_described};

/// Best Seller in parts by the item.
fn shop(split: &str) -> Fixture {
    let fixture = start(
        8,
        &format!(
            "split = \"{split}\"\n[splits.best_seller]\ndatabase = \"{{database}}\"\nquery = \"\"\"{BEST_SELLER}\"\"\"\n\
             key = \"item.i_id\"\nminimum = 1\nmaximum = 1000\nparts = 3\n"
        ),
    );
    let mut owner = fixture.client();
    for statement in SHOP.split(';') {
        owner.rows(statement);
    }
    fixture
}

#[test]
fn best_seller_in_parts_is_best_seller() {
    let fixture = shop("on");
    let whole = fixture.sql(BEST_SELLER);
    assert_eq!(whole.len(), 50);
    let mut client = fixture.client();
    // The first time its servers are made; later a run that finds no other server free is whole.
    until_split(&fixture, "best_seller", 2, || {
        assert_eq!(client.rows(BEST_SELLER), whole)
    });
    (0..2).for_each(|_| assert_eq!(client.rows(BEST_SELLER), whole));
    // Other literals are the same query.
    let other = BEST_SELLER.replace("ARTS", "SPORTS");
    until_split(&fixture, "best_seller", 1, || {
        assert_eq!(client.rows(&other), fixture.sql(&other))
    });
    // Prepared, its values bound.
    let prepared = BEST_SELLER.replace("'ARTS'", "$1");
    let out = prepare("best", &prepared, &[]);
    client.ask(&out);
    let mut direct = fixture.direct();
    direct.ask(&out);
    until_split(&fixture, "best_seller", 2, || {
        for binary in [false, true] {
            for subject in ["COOKING", "NOTHING"] {
                let out = run_described("best", &[Some(subject)], binary);
                assert_eq!(client.ask(&out), direct.ask(&out), "{subject} {binary}");
            }
        }
    });
    // Nothing is left behind.
    fixture.wait_for_no_server("state like 'idle in%'");
}

#[test]
fn a_heavy_query_is_tried_in_parts_before_long() {
    // More than 2 ms on any machine, which is what splitting begins at.
    let heavy = "select count(*), sum(v) from big where v > 0";
    let fixture = start(
        8,
        &format!(
            "split = \"auto\"\n[splits.heavy]\ndatabase = \"{{database}}\"\nquery = \"{heavy}\"\nkey = \"big.k\"\n\
             minimum = 1\nmaximum = 300000\n"
        ),
    );
    let mut owner = fixture.client();
    owner.rows("create table big as select k, k % 7 as v from generate_series(1, 300000) k");
    let whole = fixture.sql(heavy);
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let mut client = fixture.client();
    // Three times whole, once for the trial, perhaps once for a connection; then in parts. A run that found no free core in between is whole
    // too; what may not be is that a first trial waits for hundreds of runs.
    for _ in 0..200 {
        assert_eq!(client.rows(heavy), whole);
        if splits(&fixture, "heavy").0 > 0 {
            break;
        }
    }
    let (in_parts, in_whole, why) = splits(&fixture, "heavy");
    assert!(in_whole >= 3, "{in_whole} {why}");
    assert!(
        in_parts >= 1 || cores < 2,
        "{in_parts} in parts, {in_whole} whole {why}"
    );
}
