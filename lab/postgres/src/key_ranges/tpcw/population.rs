//! The rows of TPC-W's tables at first (clause 4.7), as the lines of `copy`.
//!
//! They come in [`Part`]s of consecutive keys, each drawn from random numbers of its own: parts can be made in any order and by several
//! threads, and the same scale and seed give the same rows.

use corun_workloads::random::{Random, mix};

use super::Scale;
use super::schema::{self, Table};
use super::words::{BACKINGS, CARDS, DIGITS, SHIPPING, STATES, SUBJECTS, syllables};
use crate::fixture::lines::Lines;

/// Keys of a part.
const KEYS: usize = 5_000;

/// Consecutive rows of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    /// The table.
    pub table: Table,
    /// The place of the table among all, which its random numbers depend on.
    number: u64,
    /// The first key; of order lines that of their order.
    first: usize,
    /// The last key.
    last: usize,
}

/// All parts of the population. Lines of orders are parts of their own, by orders.
pub fn parts(scale: Scale) -> Vec<Part> {
    let counts = [
        (schema::ITEM, scale.items),
        (schema::AUTHOR, scale.authors()),
        (schema::CUSTOMER, scale.customers),
        (schema::ADDRESS, scale.addresses()),
        (schema::COUNTRY, scale.countries()),
        (schema::ORDERS, scale.orders()),
        (schema::ORDER_LINE, scale.orders()),
        (schema::CC_XACTS, scale.orders()),
    ];
    let of = |(number, (table, count)): (usize, (Table, usize))| {
        (1..=count).step_by(KEYS).map(move |first| Part {
            table,
            number: number as u64,
            first,
            last: (first + KEYS - 1).min(count),
        })
    };
    counts.into_iter().enumerate().flat_map(of).collect()
}

impl Part {
    /// Its rows as `copy` reads them.
    pub fn lines(&self, scale: Scale, seed: u64) -> Vec<u8> {
        let mut random = Random::new(seed, self.number << 32 | self.first as u64);
        let mut lines = Lines::default();
        for key in self.first..=self.last {
            match self.table.name {
                "item" => item(&mut lines, &mut random, scale, key),
                "author" => author(&mut lines, &mut random, key),
                "customer" => customer(&mut lines, &mut random, scale, key),
                "address" => address(&mut lines, &mut random, scale, key),
                "country" => country(&mut lines, &mut random, key),
                "orders" => orders(&mut lines, &mut random, scale, key),
                "order_line" => order_lines(&mut lines, &mut random, scale, key),
                _ => cc_xacts(&mut lines, &mut random, scale, key),
            }
        }
        lines.as_str().into()
    }
}

impl Lines {
    fn cents(&mut self, cents: i64) -> &mut Lines {
        self.put(format_args!("{}.{:02}", cents / 100, cents % 100))
    }

    /// Letters and digits with some blanks, as long as a description.
    fn prose(&mut self, random: &mut Random, low: usize, high: usize) -> &mut Lines {
        self.put(random.text::<500>(low, high))
    }
}

/// One of several words.
fn one_of(random: &mut Random, words: &[&'static str]) -> &'static str {
    words[random.between(0, words.len() as i64 - 1) as usize]
}

/// A day of these years, none after the 28th of a month.
fn day(random: &mut Random, first: i64, last: i64) -> String {
    let (year, month) = (random.between(first, last), random.between(1, 12));
    format!("{year}-{month:02}-{:02}", random.between(1, 28))
}

/// A second of the two months before the load.
fn moment(random: &mut Random) -> String {
    let (month, day) = (random.between(11, 12), random.between(1, 28));
    let (hour, minute, second) = (
        random.between(0, 23),
        random.between(0, 59),
        random.between(0, 59),
    );
    format!("2025-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02}")
}

/// A number that says nothing about its neighbours, in syllables: what people search by is spread over all rows.
fn scattered(key: usize) -> String {
    syllables(mix(key as u64) % 10u64.pow(DIGITS as u32), DIGITS)
}

fn item(lines: &mut Lines, random: &mut Random, scale: Scale, id: usize) {
    let (items, authors) = (scale.items as i64, scale.authors() as i64);
    lines.put(id);
    lines.put(format_args!("{} {}", scattered(id), random.text::<45>(14, 45)));
    // Every author wrote something, as the specification asks.
    let author = if id as i64 <= authors {
        id as i64
    } else {
        random.between(1, authors)
    };
    lines.put(author).put(day(random, 1930, 2025));
    lines
        .put(random.text::<60>(14, 60))
        .put(one_of(random, &SUBJECTS));
    lines.prose(random, 100, 500);
    for _ in 0..5 {
        // Any other item.
        lines.put((id as i64 - 1 + random.between(1, items - 1)) % items + 1);
    }
    lines.put(format_args!("img/thumb_{id}.gif"));
    lines.put(format_args!("img/image_{id}.gif"));
    let price = random.between(100, 999_999);
    lines.cents(price).cents(price * random.between(50, 100) / 100);
    lines.put(day(random, 2025, 2025)).put(random.between(10, 30));
    lines
        .put(random.digits::<13>())
        .put(random.between(20, 9_999))
        .put(one_of(random, &BACKINGS));
    let [a, b, c] = [0; 3].map(|_| random.between(1, 9_999));
    lines.put(format_args!(
        "{}.{:02}x{}.{:02}x{}.{:02}",
        a / 100,
        a % 100,
        b / 100,
        b % 100,
        c / 100,
        c % 100
    ));
    lines.end();
}

fn author(lines: &mut Lines, random: &mut Random, id: usize) {
    lines.put(id).put(random.text::<20>(3, 20)).put(format_args!(
        "{}{}",
        scattered(id),
        random.text::<6>(1, 6)
    ));
    lines.put(random.text::<20>(1, 20)).put(day(random, 1800, 1999));
    lines.prose(random, 125, 500).end();
}

fn customer(lines: &mut Lines, random: &mut Random, scale: Scale, id: usize) {
    lines.put(id).put(id).put(random.text::<20>(8, 15));
    lines.put(random.text::<17>(8, 15)).put(random.text::<17>(8, 15));
    lines
        .put(random.between(1, scale.addresses() as i64))
        .put(random.digits::<16>());
    lines.put(format_args!("{id}@{}.com", random.text::<9>(2, 9)));
    lines.put(day(random, 2023, 2025)).put(day(random, 2025, 2025));
    lines.put("2026-01-01 00:00:00").put("2026-01-01 02:00:00");
    lines
        .cents(random.between(0, 50))
        .cents(0)
        .cents(random.between(0, 99_999));
    lines.put(day(random, 1900, 2000));
    lines.prose(random, 100, 500).end();
}

fn address(lines: &mut Lines, random: &mut Random, scale: Scale, id: usize) {
    lines
        .put(id)
        .put(random.text::<40>(15, 40))
        .put(random.text::<40>(15, 40));
    lines
        .put(random.text::<30>(4, 30))
        .put(random.text::<20>(2, 20))
        .put(random.digits::<9>());
    lines.put(random.between(1, scale.countries() as i64)).end();
}

fn country(lines: &mut Lines, random: &mut Random, id: usize) {
    let rate = random.between(1, 9_999_999);
    lines.put(id).put(format_args!("Country {id}"));
    lines.put(format_args!("{}.{:04}", rate / 10_000, rate % 10_000));
    lines.put(format_args!("Currency {id}")).end();
}

fn orders(lines: &mut Lines, random: &mut Random, scale: Scale, id: usize) {
    let placed = moment(random);
    let net = random.between(1_000, 999_999);
    let tax = net * 825 / 10_000;
    lines
        .put(id)
        .put(random.between(1, scale.customers as i64))
        .put(&placed);
    lines.cents(net).cents(tax).cents(net + tax);
    lines.put(one_of(random, &SHIPPING)).put(&placed);
    for _ in 0..2 {
        lines.put(random.between(1, scale.addresses() as i64));
    }
    lines.put(one_of(random, &STATES)).end();
}

fn order_lines(lines: &mut Lines, random: &mut Random, scale: Scale, order: usize) {
    for line in 1..=random.between(1, 5) {
        lines
            .put(line)
            .put(order)
            .put(random.between(1, scale.items as i64));
        lines.put(random.between(1, 300)).cents(random.between(0, 30));
        lines.put(random.text::<100>(20, 100)).end();
    }
}

fn cc_xacts(lines: &mut Lines, random: &mut Random, scale: Scale, order: usize) {
    lines
        .put(order)
        .put(one_of(random, &CARDS))
        .put(random.digits::<16>());
    lines.put(random.text::<30>(14, 30)).put(day(random, 2026, 2028));
    lines
        .put(random.text::<15>(15, 15))
        .cents(random.between(1_000, 999_999));
    lines
        .put(moment(random))
        .put(random.between(1, scale.countries() as i64))
        .end();
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use super::*;

    /// All rows of a small database by table.
    fn all(scale: Scale, seed: u64) -> BTreeMap<&'static str, Vec<Vec<String>>> {
        let mut tables: BTreeMap<&str, Vec<Vec<String>>> = BTreeMap::new();
        for part in parts(scale) {
            let text = String::from_utf8(part.lines(scale, seed)).expect("UTF-8");
            let rows = text
                .lines()
                .map(|line| line.split('\t').map(str::to_owned).collect());
            tables.entry(part.table.name).or_default().extend(rows);
        }
        tables
    }

    fn numbers(rows: &[Vec<String>], column: usize) -> Vec<usize> {
        rows.iter()
            .map(|row| row[column].parse().expect("a number"))
            .collect()
    }

    #[test]
    fn every_table_has_its_rows_and_columns() {
        let scale = Scale::QUICK;
        let tables = all(scale, 1);
        for (name, count) in [
            ("item", 1_000),
            ("author", 250),
            ("customer", 2_880),
            ("address", 5_760),
            ("country", 92),
            ("orders", 2_592),
            ("cc_xacts", 2_592),
        ] {
            assert_eq!(tables[name].len(), count, "{name}");
            // Keys are 1 to the count.
            assert!(numbers(&tables[name], 0).into_iter().eq(1..=count), "{name}");
        }
        for table in schema::TABLES {
            let rows = &tables[table.name];
            assert!(
                rows.iter().all(|row| row.len() == table.width()),
                "{}",
                table.name
            );
        }
        // Three lines an order, within five standard deviations.
        let lines = tables["order_line"].len();
        assert!((7_416..8_136).contains(&lines), "{lines} order lines");
    }

    #[test]
    fn what_a_row_refers_to_is_there() {
        let scale = Scale::QUICK;
        let tables = all(scale, 2);
        for (table, column, last) in [
            ("item", 2, scale.authors()),
            ("item", 7, scale.items),
            ("item", 11, scale.items),
            ("customer", 5, scale.addresses()),
            ("address", 6, scale.countries()),
            ("orders", 1, scale.customers),
            ("orders", 8, scale.addresses()),
            ("order_line", 1, scale.orders()),
            ("order_line", 2, scale.items),
            ("cc_xacts", 8, scale.countries()),
        ] {
            let found = numbers(&tables[table], column);
            assert!(
                found.iter().all(|key| (1..=last).contains(key)),
                "{table} {column}"
            );
        }
        let authors: BTreeSet<usize> = numbers(&tables["item"], 2).into_iter().collect();
        assert_eq!(authors.len(), scale.authors());
        // No item is related to itself.
        for row in &tables["item"] {
            assert!(row[7..12].iter().all(|related| *related != row[0]));
        }
        let lines: BTreeSet<(&String, &String)> = tables["order_line"]
            .iter()
            .map(|row| (&row[1], &row[0]))
            .collect();
        assert_eq!(lines.len(), tables["order_line"].len());
        let subjects: BTreeSet<&String> = tables["item"].iter().map(|row| &row[5]).collect();
        assert_eq!(subjects.len(), SUBJECTS.len());
    }

    #[test]
    fn the_same_seed_gives_the_same_rows() {
        assert_eq!(all(Scale::QUICK, 3), all(Scale::QUICK, 3));
        assert_ne!(all(Scale::QUICK, 3)["item"], all(Scale::QUICK, 4)["item"]);
    }
}
