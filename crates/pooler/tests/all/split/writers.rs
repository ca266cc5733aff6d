//! While others move amounts from row to row, a split sum never differs: all parts read one snapshot.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use super::executor::{Client, Outcome, Team, key, prepare};
use crate::common::message::values;
use crate::common::random::Random;

const ROWS: usize = 200;

#[test]
fn a_sum_that_writers_keep_is_the_same_in_every_split() {
    let (login, mut admin) = Client::in_new_database(&format!(
        "create table account (id int primary key, branch int not null, amount int not null);
         insert into account select n, n % 7, 100 from generate_series(0, {}) n",
        ROWS - 1
    ));
    let over = AtomicBool::new(false);
    let written = AtomicU64::new(0);
    std::thread::scope(|scope| {
        for seed in 0..2 {
            let (login, over, written) = (&login, &over, &written);
            scope.spawn(move || {
                let mut writer = Client::connect(login);
                let mut random = Random::new(seed);
                while !over.load(Ordering::Relaxed) {
                    let (from, to) = (random.below(ROWS), random.below(ROWS));
                    let (first, second) = (from.min(to), from.max(to));
                    // In one order, so that nobody waits in a circle.
                    writer.run(&format!(
                        "begin; update account set amount = amount - 1 where id = {first};
                         update account set amount = amount + 1 where id = {second}; commit"
                    ));
                    written.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        let mut team = Team::connect(&login, 4);
        let mut random = Random::new(7);
        let [total, grouped] = [
            "select sum(amount), count(*) from account",
            "select branch, sum(amount) from account group by branch order by branch",
        ]
        .map(|text| prepare(&mut admin, text, &key("account.id")).expect("prepared"));
        let splits: Vec<String> = [50, 100, 150].map(|split| split.to_string()).into();
        for round in 0..120 {
            let query = if round % 2 == 0 { &total } else { &grouped };
            let Outcome::Both { whole, split } = team.run(query, &splits, &[], &[], &mut random) else {
                panic!("a query failed");
            };
            assert_eq!(whole, split, "round {round}");
            if round % 2 == 0 {
                assert_eq!(values(&split.rows[0])[0].as_deref(), Some(&b"20000"[..]));
            }
        }
        over.store(true, Ordering::Relaxed);
    });
    assert!(written.load(Ordering::Relaxed) > 0, "nobody wrote");
}
