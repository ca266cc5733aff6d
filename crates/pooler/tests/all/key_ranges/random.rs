//! Random queries through the proxy, in parts, beside a client that talks to the server; ordinary statements in between.
//! `CORUN_CARIC_SEEDS` runs more seeds, `CORUN_CARIC_SEED` begins at one.

use super::fixture::Row;
use crate::common::message::{Message, bind, describe, execute, parse, query, sync};
use crate::common::number_from_environment;
use crate::common::postgres::{new_database, shared};
use crate::common::random::Random;
use crate::common::raw::Raw;
use crate::common::target::{Mode, Pooling, Scene, Target};
use crate::split::data;
use crate::split::queries::{self, Order, Query};

const SEEDS: u64 = 4;
const QUERIES: usize = 40;

type Value = Option<Vec<u8>>;

/// Values of a DataRow.
fn values(message: &Message) -> Vec<Value> {
    let number = |at: usize| i32::from_be_bytes(message.body[at..at + 4].try_into().expect("four bytes"));
    let mut at = 2;
    let mut values = Vec::new();
    while at < message.body.len() {
        let length = number(at);
        at += 4;
        values.push(usize::try_from(length).ok().map(|length| {
            at += length;
            message.body[at - length..at].to_vec()
        }));
    }
    values
}

/// What can be compared of an answer: everything, where the order is certain.
fn comparable(messages: &[Message], order: &Order, limited: bool) -> (Vec<String>, Vec<Vec<Vec<Value>>>) {
    // The number of a table changes nothing, and text is compared by rows.
    let rest = messages
        .iter()
        .filter(|message| message.tag != b'D')
        .filter_map(Message::show)
        .collect();
    let rows: Vec<Vec<Value>> = messages
        .iter()
        .filter(|message| message.tag == b'D')
        .map(values)
        .collect();
    let groups = match order {
        Order::Total => rows.into_iter().map(|row| vec![row]).collect(),
        Order::None => {
            let mut rows = rows;
            rows.sort();
            vec![rows]
        }
        Order::By(columns) => {
            let of =
                |row: &[Value]| -> Vec<Value> { columns.iter().map(|&column| row[column].clone()).collect() };
            let mut groups: Vec<Vec<Vec<Value>>> = Vec::new();
            for row in rows {
                match groups.last_mut() {
                    Some(group) if of(&group[0]) == of(&row) => group.push(row),
                    _ => groups.push(vec![row]),
                }
            }
            let last = groups.len().saturating_sub(1);
            for (number, group) in groups.iter_mut().enumerate() {
                // Which of equal rows a limit takes is not certain.
                if limited && (number == 0 || number == last) {
                    for row in group.iter_mut() {
                        *row = of(row);
                    }
                }
                group.sort();
            }
            groups
        }
    };
    (rest, groups)
}

/// A target of the configuration: the query, its key, where it is cut.
struct Case {
    query: Query,
    rule: String,
}

fn case(random: &mut Random, number: usize) -> Option<Case> {
    let (key, mut splits) = data::key(random);
    let query = queries::query(random, key);
    if splits.is_empty() {
        splits.push("1".to_owned());
    }
    if query.text.contains("\"\"\"") || query.text.contains('\\') {
        return None;
    }
    let rule = format!(
        "[splits.q{number}]\ndatabase = \"{{database}}\"\nquery = \"\"\"{}\"\"\"\nkey = \"{key}\"\nsplits = {splits:?}\nparts = {}\n",
        query.text,
        2 + random.below(3)
    );
    Some(Case { query, rule })
}

/// A statement that both run between queries.
fn between(random: &mut Random) -> String {
    match random.below(9) {
        0 => format!(
            "set datestyle to '{}'",
            random.pick(&["ISO, DMY", "SQL, MDY", "German", "Postgres, YMD"])
        ),
        1 => format!(
            "set timezone to '{}'",
            random.pick(&["UTC", "Europe/Berlin", "Asia/Kolkata"])
        ),
        2 => format!("set extra_float_digits to {}", random.pick(&["0", "1", "-3"])),
        3 => format!("set bytea_output to '{}'", random.pick(&["hex", "escape"])),
        4 => format!("set role {}", random.pick(&["app", "none"])),
        5 => format!(
            "set search_path to {}",
            random.pick(&["public", "public, pg_catalog", "app, public"])
        ),
        6 => "reset all".to_owned(),
        7 => format!("set enable_hashagg to {}", random.pick(&["on", "off"])),
        _ => "select 1".to_owned(),
    }
}

/// Messages that run a query one way or another, the same for both.
fn asked(random: &mut Random, case: &Query, number: usize) -> (String, Vec<u8>) {
    let given: Vec<Option<&str>> = case.values.iter().map(Option::as_deref).collect();
    let binary = random.percent(50);
    let name = format!("s{number}");
    let run = |name: &str| {
        [
            bind("", name, &given, binary),
            describe(b'P', ""),
            execute("", 0),
            sync(),
        ]
        .concat()
    };
    match random.below(3) {
        0 if given.is_empty() => ("simple".to_owned(), query(&case.text)),
        1 => (
            format!("unnamed, binary {binary}"),
            [parse("", &case.text, &[]), run("")].concat(),
        ),
        _ => (format!("{name}, binary {binary}"), run(&name)),
    }
}

fn splits(scene: &Scene) -> Vec<Row> {
    let login = scene.target.login("postgres").database("pgbouncer");
    scene.target.client_as(&login).table("show splits")
}

fn in_parts(scene: &Scene) -> u64 {
    splits(scene)
        .iter()
        .map(|row| row["split_count"].parse::<u64>().expect("a number"))
        .sum()
}

fn both(client: &mut Raw, direct: &mut Raw, bytes: &[u8]) -> (Vec<Message>, Vec<Message>) {
    client.send(bytes).expect("sent");
    direct.send(bytes).expect("sent");
    (client.until_ready(), direct.until_ready())
}

fn run_seed(seed: u64) -> (u64, usize) {
    let mut random = Random::new(seed);
    let cases: Vec<Case> = (0..QUERIES)
        .filter_map(|number| case(&mut random, number))
        .collect();
    let database = new_database();
    let login = shared().login("app").database(&database);
    let mut direct = Raw::connect(&login).expect("a client of the server");
    direct.rows(data::TABLES);
    for statement in data::fill(&mut random) {
        direct.rows(&statement);
    }
    let rules: String = cases.iter().map(|case| case.rule.as_str()).collect();
    let pooling = Pooling::new(Mode::Transaction, 6)
        .ours(&format!("split = \"on\"\n{rules}").replace("{database}", &database));
    let scene = Scene {
        target: Target::start(shared(), &pooling),
        database,
    };
    let mut client = scene.client();
    // Servers for parts are made by and by.
    client.rows("select 1");
    for (number, case) in cases.iter().enumerate() {
        let named = [parse(&format!("s{number}"), &case.query.text, &[]), sync()].concat();
        let prepared = both(&mut client, &mut direct, &named);
        assert_eq!(prepared.0, prepared.1, "{}", case.query.text);
    }
    let limited = |text: &str| text.contains(" limit ") || text.contains(" offset ");
    let mut failed = 0;
    for round in 0..3 {
        for (number, case) in cases.iter().enumerate() {
            if random.percent(30) {
                let statement = between(&mut random);
                let (one, other) = both(&mut client, &mut direct, &query(&statement));
                assert_eq!(one, other, "{statement}");
            }
            let (how, bytes) = asked(&mut random, &case.query, number);
            let at = || {
                format!(
                    "seed {seed}, round {round}, query {number} ({how})\n{}\n{:?}\n{}",
                    case.query.text, case.query.values, case.rule
                )
            };
            // In a transaction that has written, and outside.
            let within = random.percent(15);
            let before = within.then(|| in_parts(&scene));
            let write = format!(
                "insert into line values ({}, {}, 3, 1.5, 'own', null, 7)",
                10_000 + random.below(1_000_000),
                random.below(60)
            );
            let (one, other) = if within {
                let mut answers = Vec::new();
                for client in [&mut client, &mut direct] {
                    client.rows("begin");
                    client.rows(&write);
                    client.send(&bytes).expect("sent");
                    answers.push(client.until_ready());
                    client.rows("rollback");
                }
                let other = answers.pop().unwrap_or_default();
                (answers.pop().unwrap_or_default(), other)
            } else {
                both(&mut client, &mut direct, &bytes)
            };
            if let Some(before) = before {
                assert_eq!(in_parts(&scene), before, "{}", at());
            }
            let error = |messages: &[Message]| {
                messages
                    .iter()
                    .find(|message| message.tag == b'E')
                    .and_then(|message| message.field(b'C'))
            };
            if let Some(code) = error(&other) {
                assert_eq!(error(&one), Some(code), "{}", at());
                failed += 1;
                continue;
            }
            let order = &case.query.order;
            let limited = limited(&case.query.text);
            assert_eq!(
                comparable(&one, order, limited),
                comparable(&other, order, limited),
                "{}",
                at()
            );
            if random.percent(10) {
                // Both see what either writes.
                let one = if random.percent(50) {
                    &mut client
                } else {
                    &mut direct
                };
                one.rows(&write);
                one.rows("delete from line where l_id % 7 = 3");
            }
        }
    }
    (in_parts(&scene), failed)
}

#[test]
fn random_queries_in_parts_give_what_they_give_whole() {
    let from = number_from_environment("CORUN_CARIC_SEED", 1);
    let seeds = number_from_environment("CORUN_CARIC_SEEDS", SEEDS);
    let (mut in_parts, mut failed) = (0, 0);
    for seed in from..from + seeds {
        let (split, errors) = run_seed(seed);
        in_parts += split;
        failed += errors;
    }
    let all = seeds * QUERIES as u64 * 3;
    assert!(
        in_parts * 4 > all,
        "{in_parts} of {all} in parts, {failed} failed as the whole does"
    );
}
