//! Queries in parts: the same rows as whole, whatever goes wrong.

use super::fixture::wait;
use super::{BEST_SELLER, SHOP, scene};
use crate::common::message::{bind, describe, execute, parse, sync};
use crate::common::target::Scene;

/// Best Seller in parts by the item.
fn shop(split: &str) -> Scene {
    let scene = scene(
        8,
        &format!(
            "split = \"{split}\"\n[splits.best_seller]\ndatabase = \"{{database}}\"\nquery = \"\"\"{BEST_SELLER}\"\"\"\n\
             key = \"item.i_id\"\nminimum = 1\nmaximum = 1000\nparts = 3\n"
        ),
    );
    let mut owner = scene.target.client_as(&scene.login());
    for statement in SHOP.split(';') {
        owner.rows(statement);
    }
    scene
}

/// How often it ran in parts.
fn splits(scene: &Scene) -> (u64, u64, String) {
    let mut console = scene
        .target
        .client_as(&scene.target.login("postgres").database("pgbouncer"));
    let rows = console.table("show splits");
    let row = &rows[0];
    let number = |name: &str| row[name].parse().expect("a number");
    (number("split_count"), number("whole_count"), row["why"].clone())
}

#[test]
fn best_seller_in_parts_is_best_seller() {
    let scene = shop("on");
    let whole = scene.sql(BEST_SELLER);
    assert_eq!(whole.len(), 50);
    let mut client = scene.client();
    // The first time its servers are made; later a run that finds no other server free is whole.
    let until_in_parts = |count: u64, run: &mut dyn FnMut()| {
        let before = splits(&scene).0;
        wait(|| {
            run();
            match splits(&scene) {
                (now, ..) if now >= before + count => Ok(()),
                (now, _, why) => Err(format!("{} of {count} runs in parts: {why}", now - before)),
            }
        });
    };
    until_in_parts(2, &mut || assert_eq!(client.rows(BEST_SELLER), whole));
    (0..2).for_each(|_| assert_eq!(client.rows(BEST_SELLER), whole));
    // Other literals are the same query.
    let other = BEST_SELLER.replace("ARTS", "SPORTS");
    until_in_parts(1, &mut || assert_eq!(client.rows(&other), scene.sql(&other)));
    // Prepared, its values bound.
    let prepared = BEST_SELLER.replace("'ARTS'", "$1");
    let mut out = parse("best", &prepared, &[]);
    out.extend(sync());
    client.ask(&out);
    let direct = crate::common::postgres::shared()
        .login("app")
        .database(&scene.database);
    let mut direct = crate::common::raw::Raw::connect(&direct).expect("a client");
    direct.ask(&out);
    until_in_parts(2, &mut || {
        for binary in [false, true] {
            for subject in ["COOKING", "NOTHING"] {
                let mut out = bind("", "best", &[Some(subject)], binary);
                out.extend(describe(b'P', ""));
                out.extend(execute("", 0));
                out.extend(sync());
                assert_eq!(client.ask(&out), direct.ask(&out), "{subject} {binary}");
            }
        }
    });
    // Nothing is left behind.
    scene.wait_until("select count(*) = 0 from pg_stat_activity where datname = current_database() and state like 'idle in%'");
}

#[test]
fn a_heavy_query_is_tried_in_parts_before_long() {
    // More than 2 ms on any machine, which is what splitting begins at.
    let heavy = "select count(*), sum(v) from big where v > 0";
    let scene = scene(
        8,
        &format!(
            "split = \"auto\"\n[splits.heavy]\ndatabase = \"{{database}}\"\nquery = \"{heavy}\"\nkey = \"big.k\"\n\
             minimum = 1\nmaximum = 300000\n"
        ),
    );
    let mut owner = scene.target.client_as(&scene.login());
    owner.rows("create table big as select k, k % 7 as v from generate_series(1, 300000) k");
    let whole = scene.sql(heavy);
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let mut client = scene.client();
    // Three times whole, once for the proof, perhaps once for a connection; then in parts. A run that found no free core in between is whole
    // too; what may not be is that a first trial waits for hundreds of runs.
    for _ in 0..200 {
        assert_eq!(client.rows(heavy), whole);
        if splits(&scene).0 > 0 {
            break;
        }
    }
    let (in_parts, in_whole, why) = splits(&scene);
    assert!(in_whole >= 3, "{in_whole} {why}");
    assert!(
        in_parts >= 1 || cores < 2,
        "{in_parts} in parts, {in_whole} whole {why}"
    );
}
