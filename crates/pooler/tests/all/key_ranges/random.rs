//! Random queries through the proxy, in parts, beside a client that talks to the server; ordinary statements in between.
//! `CORUN_CARIC_SEEDS` runs more seeds, `CORUN_CARIC_SEED` begins at one.

use crate::common::fixture::Fixture;
use crate::common::message::{Message, errors, parse, prepare, query, run_described, shown, values};
use crate::common::number_from_environment;
use crate::common::postgres::{new_database, shared};
use crate::common::random::Random;
use crate::common::raw::{Raw, number};
use crate::common::target::{Mode, Pooling};
use crate::split::data;
use crate::split::queries::{self, Query};

const SEEDS: u64 = 4;
const QUERIES: usize = 40;

/// The columns of a row, as bytes.
type Row = Vec<Option<Vec<u8>>>;

/// What can be compared of an answer: its rows, where their order is certain, and all else.
fn comparable(messages: &[Message], query: &Query) -> (Vec<String>, Vec<Vec<Row>>) {
    // The number of a table changes nothing, and text is compared by rows.
    let (rows, rest): (Vec<_>, Vec<_>) = messages.iter().cloned().partition(|message| message.tag == b'D');
    let rows = rows.iter().map(|message| values(&message.body));
    (shown(&rest), query.comparable(rows))
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
    let run = |name: &str| run_described(name, &given, binary);
    match random.below(3) {
        0 if given.is_empty() => ("simple".to_owned(), query(&case.text)),
        1 => (
            format!("unnamed, binary {binary}"),
            [parse("", &case.text, &[]), run("")].concat(),
        ),
        _ => (format!("{name}, binary {binary}"), run(&name)),
    }
}

fn in_parts(fixture: &Fixture) -> u64 {
    let rows = fixture.console().table("show splits");
    rows.iter().map(|row| number::<u64>(row, "split_count")).sum()
}

fn both(client: &mut Raw, direct: &mut Raw, bytes: &[u8]) -> (Vec<Message>, Vec<Message>) {
    client.send(bytes);
    direct.send(bytes);
    (client.until_ready(), direct.until_ready())
}

fn run_seed(seed: u64) -> (u64, usize) {
    let mut random = Random::new(seed);
    let cases: Vec<Case> = (0..QUERIES)
        .filter_map(|number| case(&mut random, number))
        .collect();
    let database = new_database();
    let mut direct = shared().client("app", &database);
    direct.rows(data::TABLES);
    for statement in data::fill(&mut random) {
        direct.rows(&statement);
    }
    let rules: String = cases.iter().map(|case| case.rule.as_str()).collect();
    let pooling = Pooling::new(Mode::Transaction, 6).ours(&format!("split = \"on\"\n{rules}"));
    let fixture = Fixture::start_in(database, &pooling);
    let mut client = fixture.client();
    // Servers for parts are made by and by.
    client.rows("select 1");
    for (number, case) in cases.iter().enumerate() {
        let named = prepare(&format!("s{number}"), &case.query.text, &[]);
        let prepared = both(&mut client, &mut direct, &named);
        assert_eq!(prepared.0, prepared.1, "{}", case.query.text);
    }
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
            let before = within.then(|| in_parts(&fixture));
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
                    client.send(&bytes);
                    answers.push(client.until_ready());
                    client.rows("rollback");
                }
                let other = answers.pop().unwrap_or_default();
                (answers.pop().unwrap_or_default(), other)
            } else {
                both(&mut client, &mut direct, &bytes)
            };
            if let Some(before) = before {
                assert_eq!(in_parts(&fixture), before, "{}", at());
            }
            if let Some(code) = errors(&other).first() {
                assert_eq!(errors(&one).first(), Some(code), "{}", at());
                failed += 1;
                continue;
            }
            let (one, other) = (comparable(&one, &case.query), comparable(&other, &case.query));
            assert_eq!(one, other, "{}", at());
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
    (in_parts(&fixture), failed)
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
