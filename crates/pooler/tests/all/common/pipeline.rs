//! Random pipelines: messages of the extended protocol in orders that make sense and orders that do not.
//!
//! Whatever the messages did, a pipeline ends so that the end of the answer can be seen: `CopyFail` (ignored outside COPY), `Sync`,
//! and an empty simple query. Nothing before it gives a `ReadyForQuery` followed by `EmptyQueryResponse`.

use super::message::{self, Message};
use super::random::Random;
use super::statements::Step;

const STATEMENTS: &[&str] = &["", "", "s1", "s2"];
const DISCARDS: &str = "deallocate all";
const PORTALS: &[&str] = &["", "", "p1", "p2"];

/// Whether this is the whole answer to a pipeline of [`pipeline`].
pub fn is_whole(seen: &[Message]) -> bool {
    let end: Vec<u8> = seen.iter().rev().take(3).map(|message| message.tag).collect();
    end == [b'Z', b'I', b'Z']
}

/// The next pipeline of client number `client`.
pub fn pipeline(random: &mut Random, client: usize) -> Step {
    let mut bytes = Vec::new();
    let mut shown = Vec::new();
    for _ in 0..=random.below(14) {
        let (what, part) = one(random, client);
        shown.push(what);
        bytes.extend(part);
    }
    bytes.extend(message::copy_fail("end of pipeline"));
    bytes.extend(message::sync());
    bytes.extend(message::query(""));
    Step {
        shown: format!("pipeline: {}", shown.join(", ")),
        bytes,
    }
}

fn sql(random: &mut Random, client: usize) -> String {
    let id = random.below(30);
    match random.below(21) {
        0 => "begin".to_owned(),
        1 => "commit".to_owned(),
        2 => "rollback".to_owned(),
        3 => format!("select id, t from a{client} where id < {id} order by id"),
        4 | 5 => format!("select id, v from a{client} where id < $1 order by id"),
        6 => format!("update a{client} set v = v + 1 where id = {id}"),
        7 => format!(
            "insert into a{client} (id, v) values ({}, 1)",
            300 + random.below(50)
        ),
        8 => "select generate_series(1, 5)".to_owned(),
        9 => "select 1 / $1::int".to_owned(),
        10 => "selekt".to_owned(),
        11 => "select 1; select 2".to_owned(),
        12 => format!("set timezone to '{}'", random.pick(&["UTC", "Asia/Tokyo"])),
        13 => format!("copy a{client} (id, v) from stdin"),
        14 => format!("copy (select id from a{client} order by id limit 3) to stdout"),
        15 => "show timezone".to_owned(),
        16 => "savepoint s1".to_owned(),
        17 => "rollback to s1".to_owned(),
        18 => DISCARDS.to_owned(),
        19 => "do $$ begin raise notice 'in a pipeline'; end $$".to_owned(),
        _ => format!("declare p1 cursor for select id from a{client} order by id"),
    }
}

fn one(random: &mut Random, client: usize) -> (String, Vec<u8>) {
    let statement = random.pick(STATEMENTS);
    let portal = random.pick(PORTALS);
    match random.below(30) {
        0..=5 => {
            let mut sql = sql(random, client);
            if sql == DISCARDS {
                // Run where it is bound: the proxy does not know which portal an Execute runs.
                "show timezone".clone_into(&mut sql);
            }
            let types: &[u32] = if sql.contains("$1") && random.percent(50) {
                &[23]
            } else {
                &[]
            };
            (
                format!("parse {statement:?} {sql:?} {types:?}"),
                message::parse(statement, &sql, types),
            )
        }
        6..=10 => {
            let values: &[Option<&str>] = match random.below(5) {
                0 | 1 => &[],
                2 => &[Some("7")],
                3 => &[Some("not a number")],
                _ => &[Some("0"), None],
            };
            let binary = random.percent(30);
            (
                format!("bind {portal:?} {statement:?} {values:?} {binary}"),
                message::bind(portal, statement, values, binary),
            )
        }
        11..=12 => (
            format!("describe statement {statement:?}"),
            message::describe(b'S', statement),
        ),
        13..=14 => (
            format!("describe portal {portal:?}"),
            message::describe(b'P', portal),
        ),
        15..=18 => {
            let rows = random.below(4) as u32;
            (
                format!("execute {portal:?} {rows}"),
                message::execute(portal, rows),
            )
        }
        19 => (
            format!("close statement {statement:?}"),
            message::close(b'S', statement),
        ),
        20 => (format!("close portal {portal:?}"), message::close(b'P', portal)),
        21 => ("flush".to_owned(), message::flush()),
        22..=24 => ("sync".to_owned(), message::sync()),
        25 => {
            let sql = sql(random, client);
            (format!("query {sql:?}"), message::query(&sql))
        }
        26 => ("copy data".to_owned(), message::copy_data(b"401\t1\n")),
        27 => ("copy done".to_owned(), message::copy_done()),
        28 => ("copy fail".to_owned(), message::copy_fail("random")),
        _ => {
            // What a driver does: all of it, in order.
            let sql = sql(random, client);
            let values: &[Option<&str>] = if sql.contains("$1") { &[Some("3")] } else { &[] };
            let bytes = [
                message::parse("", &sql, &[]),
                message::run_described("", values, false),
            ]
            .concat();
            (format!("whole {sql:?}"), bytes)
        }
    }
}
