//! Ranges of keys and queries in parts (paper 004) through the proxy, against a real PostgreSQL.

mod core_pools;
mod dispatch;
mod faults;
mod fixture;
mod orders;
mod parts;
mod random;
mod replicas;
mod session;

use crate::common::fixture::Fixture;
use crate::common::raw::number;
use crate::common::target::{Mode, Pooling};
use crate::common::wait::wait;

/// A proxy in transaction mode with these lines of `[databases."*"]` and tables behind it, in which `{database}` is the test's own.
fn start(pool_size: usize, lines: &str) -> Fixture {
    Fixture::start(&Pooling::new(Mode::Transaction, pool_size).ours(lines))
}

/// How often a rule ran in parts, how often it ran whole, and why it lately did.
fn splits(fixture: &Fixture, rule: &str) -> (u64, u64, String) {
    let rows = fixture.console().table("show splits");
    let row = rows
        .iter()
        .find(|row| row["name"] == rule && row["database"] == fixture.database);
    row.map_or((0, 0, "no such rule".to_owned()), |row| {
        (
            number(row, "split_count"),
            number(row, "whole_count"),
            row["why"].clone(),
        )
    })
}

/// Checks an answer until the rule has run in parts so many times more.
fn until_split(fixture: &Fixture, rule: &str, times: u64, mut check: impl FnMut()) {
    let before = splits(fixture, rule).0;
    wait(|| {
        check();
        match splits(fixture, rule) {
            (now, ..) if now >= before + times => Ok(()),
            (now, _, why) => Err(format!("{} of {times} runs in parts: {why}", now - before)),
        }
    });
}

/// Orders of a small shop: item 1 to 1,000, a few lines each.
const SHOP: &str = "create table item (i_id int primary key, i_title text, i_subject text, i_a_id int);
    create table author (a_id int primary key, a_fname text, a_lname text);
    create table orders (o_id int primary key, o_c_id int);
    create table order_line (ol_id int, ol_o_id int, ol_i_id int, ol_qty int, primary key (ol_o_id, ol_id));
    insert into author select i, 'f' || i, 'l' || i from generate_series(1, 250) i;
    insert into item select i, 'title ' || i, (array['ARTS', 'COOKING', 'SPORTS'])[1 + i % 3], 1 + i % 250
        from generate_series(1, 1000) i;
    insert into orders select i, 1 + i % 300 from generate_series(1, 5000) i;
    insert into order_line select l, o, 1 + (o * 7 + l * 131) % 1000, 1 + (o * l) % 9
        from generate_series(1, 5000) o, generate_series(1, 3) l;
    create index on order_line (ol_i_id);
    analyze";

/// Best Seller of TPC-W, with a total order so that answers can be compared row by row.
const BEST_SELLER: &str = "select i_id, i_title, a_fname, a_lname from item, author, order_line \
    where item.i_id = order_line.ol_i_id and item.i_a_id = author.a_id \
    and order_line.ol_o_id > (select max(o_id) - 3333 from orders) and item.i_subject = 'ARTS' \
    group by i_id, i_title, a_fname, a_lname order by sum(ol_qty) desc, i_id limit 50";
