//! [`compare`]: what each reading statement of the interactions gives through a proxy, compared with what it gives directly, on a database
//! that nobody changes meanwhile.
//!
//! Best Seller orders by sums that it does not show, so rows of equal sums may come in any order, and of those at the end any may be left
//! out: its rows are looked up among all items with their sums.

use std::collections::BTreeMap;

use corun_workloads::random::Random;

use super::interactions::{BEST_SELLER, Draw, INTERACTIONS, Step, Word};
use super::{SEED, Scale};
use crate::fixture::address::Address;
use crate::fixture::answer::Answer;
use crate::fixture::client::Client;
use crate::fixture::statement::numbered;
use lab_core::error::BenchError;

/// All items of a subject that were sold lately, with what was sold of each.
const SOLD: &str = "select i_id, i_title, a_fname, a_lname, sum(ol_qty) from item, author, order_line \
    where item.i_id = order_line.ol_i_id and item.i_a_id = author.a_id and order_line.ol_o_id > (select max(o_id) - 3333 from orders) \
    and item.i_subject = $1 group by i_id, i_title, a_fname, a_lname";
/// Rows of Best Seller.
const BEST: usize = 50;
/// How often each statement is asked through the side: a proxy may treat what it has seen before otherwise.
const TIMES: usize = 3;

/// Asks every statement `rounds` times with other values. `None` if all answers are the same, or else the first difference.
pub fn compare(
    direct: &Address,
    through: &Address,
    scale: Scale,
    rounds: usize,
) -> Result<Option<String>, BenchError> {
    let mut expects = Client::connect(direct, crate::key_ranges::PATIENCE)?;
    let mut gives = Client::connect(through, crate::key_ranges::PATIENCE)?;
    let mut random = Random::new(SEED, u64::MAX);
    let mut number = 0;
    for round in 0..rounds {
        for interaction in &INTERACTIONS {
            let mut values: BTreeMap<&str, String> = BTreeMap::new();
            for step in interaction.steps {
                let sql = match step {
                    Step::Set(name, draw) => {
                        values.insert(name, draw_number(*draw, scale, &mut random));
                        continue;
                    }
                    Step::AskFor(word, sql) => {
                        values.insert("word", draw_word(*word, round, &mut random));
                        sql
                    }
                    Step::Ask(sql) => sql,
                    Step::Do(_) | Step::Keep(_) => continue,
                };
                number += 1;
                let name = format!("q{number}");
                let found = ask(&mut expects, &mut gives, &name, sql, &values)?;
                if let Some(found) = found {
                    return Ok(Some(format!("{}: {found}", interaction.name)));
                }
            }
        }
    }
    Ok(None)
}

/// Best Seller of every subject: `None` if each answer is right.
pub fn compare_best_sellers(direct: &Address, through: &Address) -> Result<Option<String>, BenchError> {
    let mut expects = Client::connect(direct, crate::key_ranges::PATIENCE)?;
    let mut gives = Client::connect(through, crate::key_ranges::PATIENCE)?;
    for (number, subject) in Word::Subject.choices().1.into_iter().enumerate() {
        let values = BTreeMap::from([("word", subject)]);
        let name = format!("best{number}");
        if let Some(found) = ask(&mut expects, &mut gives, &name, BEST_SELLER, &values)? {
            return Ok(Some(found));
        }
    }
    Ok(None)
}

fn ask(
    expects: &mut Client,
    gives: &mut Client,
    name: &str,
    sql: &str,
    values: &BTreeMap<&str, String>,
) -> Result<Option<String>, BenchError> {
    let (text, names) = numbered(sql);
    let bound: Vec<&str> = names
        .iter()
        .map(|name| values.get(name).map_or("", String::as_str))
        .collect();
    let wanted = if sql == BEST_SELLER {
        expects.extended("", SOLD, &bound)?
    } else {
        expects.extended("", &text, &bound)?
    };
    if let Some((state, words)) = &wanted.error {
        return Ok(Some(format!("PostgreSQL says {words} ({state})")));
    }
    for time in 0..TIMES {
        let found = if time == 0 {
            gives.extended(name, &text, &bound)?
        } else {
            gives.again(name, &bound)?
        };
        let wrong = if sql == BEST_SELLER {
            not_the_best(&wanted, &found)
        } else {
            wanted.difference(&found)
        };
        if wrong.is_some() {
            return Ok(wrong);
        }
    }
    Ok(None)
}

/// What is wrong with an answer to Best Seller, given all items with their sums.
fn not_the_best(sold: &Answer, found: &Answer) -> Option<String> {
    if let Some((state, words)) = &found.error {
        return Some(format!("error {words} ({state})"));
    }
    let sum = |row: &[Option<String>]| row.last()?.as_ref()?.parse::<i64>().ok();
    let mut all: BTreeMap<&[Option<String>], i64> = BTreeMap::new();
    for row in &sold.rows {
        let (Some(sum), Some((_, shown))) = (sum(row), row.split_last()) else {
            return Some("PostgreSQL gave no sums".to_owned());
        };
        all.insert(shown, sum);
    }
    let mut sums: Vec<i64> = all.values().copied().collect();
    sums.sort_unstable_by(|a, b| b.cmp(a));
    sums.truncate(BEST);
    let mut given = Vec::with_capacity(found.rows.len());
    for row in &found.rows {
        // Taken out, so that no row counts twice.
        match all.remove(row.as_slice()) {
            Some(sum) => given.push(sum),
            None => {
                return Some(format!(
                    "a row that is not among the sold ones, or comes twice: {row:?}"
                ));
            }
        }
    }
    (given != sums).then(|| format!("sums {given:?} instead of {sums:?}"))
}

fn draw_number(draw: Draw, scale: Scale, random: &mut Random) -> String {
    let (low, high) = match draw {
        Draw::Customer => (1, scale.customers as i64),
        Draw::Item => (1, scale.items as i64),
        Draw::ItemOfThird(third) => {
            let size = scale.items as i64 / 3;
            (1 + third as i64 * size, (third as i64 + 1) * size)
        }
        Draw::Between(low, high) => (low, high),
    };
    random.between(low, high).to_string()
}

fn draw_word(word: Word, round: usize, random: &mut Random) -> String {
    let choices = word.choices().1;
    let place = random.between(0, choices.len() as i64 - 1) as usize + round;
    choices[place % choices.len()].clone()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(rows: &[(&str, Option<i64>)]) -> Answer {
        let row = |(item, sum): &(&str, Option<i64>)| {
            let mut row = vec![Some((*item).to_owned())];
            row.extend(sum.map(|sum| Some(sum.to_string())));
            row
        };
        Answer {
            rows: rows.iter().map(row).collect(),
            ..Answer::default()
        }
    }

    #[test]
    fn best_sellers_may_swap_only_where_sums_are_equal() {
        let sold = rows(&[("a", Some(5)), ("b", Some(9)), ("c", Some(5)), ("d", Some(1))]);
        let wrong = |items: &[&str]| {
            let items: Vec<_> = items.iter().map(|item| (*item, None)).collect();
            not_the_best(&sold, &rows(&items))
        };
        assert_eq!(wrong(&["b", "a", "c", "d"]), None);
        assert_eq!(wrong(&["b", "c", "a", "d"]), None);
        assert!(wrong(&["a", "b", "c", "d"]).is_some_and(|what| what.contains("instead")));
        assert!(wrong(&["b", "a", "c"]).is_some());
        assert!(wrong(&["b", "a", "a", "d"]).is_some_and(|what| what.contains("twice")));
        assert!(wrong(&["b", "a", "x", "d"]).is_some());
        let failed = Answer {
            error: Some(("57014".to_owned(), "canceled".to_owned())),
            ..Answer::default()
        };
        assert!(not_the_best(&sold, &failed).is_some_and(|what| what.contains("canceled")));
    }
}
