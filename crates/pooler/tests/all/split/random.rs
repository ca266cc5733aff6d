//! Random queries on random data, whole and split. `CORUN_SPLIT_SEEDS` runs more seeds, `CORUN_SPLIT_SEED` begins at one.

use std::collections::BTreeMap;

use super::data;
use super::executor::{Answer, Client, Outcome, Team, Unprepared, key, prepare};
use super::queries;
use crate::common::message::values;
use crate::common::postgres::{new_database, shared};
use crate::common::random::Random;
use crate::common::{number_from_environment, raw::Login};
use crate::skipped::lacks;

/// Seeds of a usual run.
const SEEDS: u64 = 6;
const QUERIES_PER_SEED: usize = 60;
/// The SQLSTATE of what the generator may cause: numbers out of range, division by zero, and the like; data exceptions all.
const DATA_EXCEPTION: &str = "22";

#[derive(Default)]
struct Count {
    split: usize,
    rows: usize,
    merges: BTreeMap<String, usize>,
    refused: BTreeMap<String, usize>,
    failed: BTreeMap<String, usize>,
}

fn run_seed(login: &Login, seed: u64, count: &mut Count) {
    let mut random = Random::new(seed);
    let mut team = Team::connect(login, 6);
    let mut admin = Client::connect(login);
    for statement in data::fill(&mut random) {
        admin.run(&statement);
    }
    let settings = [
        "set datestyle = 'SQL, DMY'; set timezone = 'Europe/Berlin'",
        "set datestyle = 'German'; set bytea_output = 'escape'; set extra_float_digits = 0",
        "set standard_conforming_strings = on",
    ][random.below(3)];
    admin.run(settings);
    team.leader.run(settings);
    for part in &mut team.parts {
        part.run(settings);
    }
    for number in 0..QUERIES_PER_SEED {
        let (key_name, splits) = data::key(&mut random);
        let query = queries::query(&mut random, key_name);
        let at = || {
            format!(
                "seed {seed}, query {number}, key {key_name}, splits {splits:?}\n{}\n{:?}",
                query.text, query.values
            )
        };
        let prepared = match prepare(&mut admin, &query.text, &key(key_name)) {
            Ok(prepared) => prepared,
            Err(Unprepared::Failed(failed)) => {
                *count.failed.entry(failed).or_default() += 1;
                continue;
            }
            Err(Unprepared::Refused(refusal)) => {
                *count.refused.entry(refusal.to_string()).or_default() += 1;
                continue;
            }
            Err(Unprepared::Wrong(failed)) => panic!("{}\n{failed}", at()),
        };
        // Conditions that were made may not have been taken.
        let given = &query.values[..prepared.parameters.len().min(query.values.len())];
        let formats: &[i16] = [&[][..], &[0], &[1]][random.below(3)];
        match team.run(&prepared, &splits, given, formats, &mut random) {
            Outcome::Both { whole, split } => {
                let comparable =
                    |answer: &Answer| query.comparable(answer.rows.iter().map(|row| values(row)));
                let (one, other) = (comparable(&whole), comparable(&split));
                assert_eq!(whole.columns, split.columns, "{}", at());
                assert_eq!(
                    one,
                    other,
                    "{}\n{:?}, {:?}",
                    at(),
                    prepared.confirmed.merge(),
                    query.order
                );
                count.split += 1;
                count.rows += whole.rows.len();
                *count
                    .merges
                    .entry(format!("{:?}", prepared.confirmed.merge()))
                    .or_default() += 1;
            }
            Outcome::Failed { whole, split } => {
                let expected = whole
                    .as_ref()
                    .is_err_and(|failed| failed.starts_with(DATA_EXCEPTION));
                assert!(expected, "{}\nwhole: {whole:?}\nsplit: {split}", at());
                *count.failed.entry("while it ran".to_owned()).or_default() += 1;
            }
        }
    }
}

#[allow(clippy::print_stderr)] // A long run tells what it did.
fn run(login: &Login, from: u64, seeds: u64) {
    Client::connect(login).run(data::TABLES);
    let mut count = Count::default();
    for seed in from..from + seeds {
        run_seed(login, seed, &mut count);
    }
    let all = count.split + count.refused.values().sum::<usize>() + count.failed.values().sum::<usize>();
    let report = format!(
        "{all} queries, {} split, {} rows\n{:#?}\nrefused {:#?}\nfailed {:#?}",
        count.split, count.rows, count.merges, count.refused, count.failed
    );
    if std::env::var_os("CORUN_SPLIT_REPORT").is_some() {
        eprintln!("{report}");
    }
    assert!(count.split * 2 > all, "most queries are refused: {report}");
    assert!(count.merges.len() == 3, "{report}");
}

fn seeds() -> (u64, u64) {
    (
        number_from_environment("CORUN_SPLIT_SEED", 1),
        number_from_environment("CORUN_SPLIT_SEEDS", SEEDS),
    )
}

#[test]
fn whole_and_split_give_the_same_where_text_is_in_the_order_of_bytes() {
    let (from, seeds) = seeds();
    run(&shared().login("app").database(&new_database()), from, seeds);
}

#[test]
fn whole_and_split_give_the_same_where_text_is_in_the_order_of_a_language() {
    if lacks("database in an order of ICU", 15) {
        return;
    }
    let (from, seeds) = seeds();
    shared().sql_in(
        "postgres",
        "create database words owner app template template0 locale_provider icu icu_locale 'en-US' locale 'C.UTF-8'",
    );
    shared().sql_in("words", "grant all on schema public to public");
    run(&shared().login("app").database("words"), from + 1_000_000, seeds);
}
