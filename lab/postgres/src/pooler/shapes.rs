//! The statement shapes of the mixed cases: what is asked, over which tables, and the scripts pgbench draws them from.
//!
//! Each takes PostgreSQL through another part of its parser, planner and executor, and touches few rows, so that code is what one
//! shape takes from another in the caches. Each has one answer, whatever plan is taken: rows are ordered or one.

use std::path::{Path, PathBuf};

use crate::fixture::statement::replaced;
use crate::fixture::write;
use lab_core::error::BenchError;

/// A variable of a shape and the numbers it is drawn from, both ends included.
type Variable = (&'static str, i64, i64);

/// A statement with variables in it, each written as a colon and its name.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    /// Its name, for people.
    pub name: &'static str,
    /// Its variables.
    pub variables: &'static [Variable],
    /// Its text.
    pub text: &'static str,
}

/// How the numbers in statements are drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Literals {
    /// From everything: hardly any text comes twice.
    Many,
    /// Four texts a shape, which come again and again.
    Few,
}

impl Literals {
    /// The word in rows.
    pub fn as_str(self) -> &'static str {
        match self {
            Literals::Many => "many",
            Literals::Few => "few",
        }
    }
}

/// Texts of a shape where there are few.
const FEW: i64 = 4;

/// Tables beside pgbench's own: items, and what customers ordered of them.
pub const TABLES: &str = "
create table items (id int primary key, name text not null, kind int not null, price numeric(8, 2) not null, tags text[] not null,
    doc jsonb not null);
insert into items select i, 'item-' || i, i % 17, (i * 37 % 10000) / 100.0,
    array['t' || i % 5, 't' || i % 7, 't' || i % 11],
    jsonb_build_object('colour', (array['red', 'green', 'blue'])[1 + i % 3], 'size', i % 40, 'parts', jsonb_build_array(i, i + 1, i % 9))
    from generate_series(1, 10000) i;
create index on items (kind);
create table orders (id int primary key, customer int not null, item int not null references items, quantity int not null,
    placed timestamp not null, note text);
insert into orders select o, 1 + o * 7919 % 5000, 1 + o * 10007 % 10000, 1 + o % 13, timestamp '2024-01-01' + o * interval '17 minutes',
    case when o % 4 = 0 then null else 'note ' || o % 100 end
    from generate_series(1, 50000) o;
create index on orders (customer);
create index on orders (item);
vacuum analyze items;
vacuum analyze orders;
";

/// Accounts that there are at every scale.
const ACCOUNT: Variable = ("a", 1, 99_900);
const ITEM: Variable = ("i", 1, 9_900);
const CUSTOMER: Variable = ("c", 1, 4_990);
const ORDER: Variable = ("o", 1, 49_900);

/// All shapes.
pub const SHAPES: [Shape; 22] = [
    Shape {
        name: "account_point",
        variables: &[ACCOUNT],
        text: "select abalance from pgbench_accounts where aid = :a",
    },
    Shape {
        name: "account_in",
        variables: &[ACCOUNT, ("b", 1, 99_900), ("d", 1, 99_900)],
        text: "select aid, bid, abalance from pgbench_accounts where aid in (:a, :b, :d) order by aid",
    },
    Shape {
        name: "account_range_sum",
        variables: &[ACCOUNT],
        text: "select count(*), sum(abalance), min(aid), max(length(filler)) from pgbench_accounts where aid between :a and :a + 9",
    },
    Shape {
        name: "account_branch_join",
        variables: &[ACCOUNT],
        text: "select a.aid, b.bid, a.abalance <= b.bbalance from pgbench_accounts a join pgbench_branches b on b.bid = a.bid \
               where a.aid = :a",
    },
    Shape {
        name: "teller_group",
        variables: &[("t", 1, 10)],
        text: "select bid, count(*), sum(tbalance), bool_and(tid > 0) from pgbench_tellers where tid <= :t group by bid order by bid",
    },
    Shape {
        name: "item_words",
        variables: &[ITEM, ("k", 0, 16)],
        text: "select upper(name), length(name), substr(md5(name), 1, 8), coalesce(nullif(kind, :k), -1), \
               case when price > 50 then 'dear' when price > 10 then 'fair' else 'cheap' end from items where id = :i",
    },
    Shape {
        name: "item_like",
        variables: &[ITEM],
        text: "select id, name from items where id between :i and :i + 25 and name like '%7%' and name not like 'x%' order by name",
    },
    Shape {
        name: "item_regex",
        variables: &[ITEM, ("k", 1, 9)],
        text: "select count(*), string_agg(name, '+' order by id) from items where id between :i and :i + 15 and name ~ ('[13' || :k || ']$')",
    },
    Shape {
        name: "item_document",
        variables: &[ITEM, ("k", 1, 99)],
        text: "select doc ->> 'colour', cast(doc ->> 'size' as int) + :k, jsonb_array_length(doc -> 'parts'), doc @> '{\"colour\": \"red\"}' \
               from items where id = :i",
    },
    Shape {
        name: "item_array",
        variables: &[ITEM],
        text: "select id, tags[1], array_length(tags, 1), array_to_string(tags, ','), 't3' = any (tags) from items where id = :i",
    },
    Shape {
        name: "item_unnest",
        variables: &[ITEM],
        text: "select tag, count(*) from items, unnest(tags) tag where id between :i and :i + 4 group by tag order by 2 desc, 1",
    },
    Shape {
        name: "kind_having",
        variables: &[ITEM, ("k", 0, 2)],
        text: "select kind, count(*), round(avg(price), 3), round(stddev(price), 3) from items where id between :i and :i + 40 \
               group by kind having count(*) > :k order by kind",
    },
    Shape {
        name: "order_latest",
        variables: &[CUSTOMER],
        text: "select id, item, quantity, coalesce(note, 'none') from orders where customer = :c order by placed desc limit 5",
    },
    Shape {
        name: "order_items_join",
        variables: &[CUSTOMER],
        text: "select o.id, i.name, o.quantity * i.price as total from orders o join items i on i.id = o.item where o.customer = :c \
               order by total desc, o.id limit 10",
    },
    Shape {
        name: "order_exists",
        variables: &[ITEM, ("q", 1, 12)],
        text: "select i.id from items i where i.id between :i and :i + 8 \
               and exists (select 1 from orders o where o.item = i.id and o.quantity > :q) order by i.id",
    },
    Shape {
        name: "order_window",
        variables: &[CUSTOMER],
        text: "with recent as (select customer, id, quantity, placed from orders where customer between :c and :c + 1) \
               select customer, id, row_number() over newest, sum(quantity) over (partition by customer), lag(quantity) over newest \
               from recent window newest as (partition by customer order by placed desc) order by customer, id",
    },
    Shape {
        name: "order_dates",
        variables: &[ORDER, ("k", 1, 60)],
        text: "select date_trunc('week', placed), extract(dow from placed), placed + interval '1 day' * :k, to_char(placed, 'YYYY Mon DD') \
               from orders where id = :o",
    },
    Shape {
        name: "order_lateral",
        variables: &[ITEM],
        text: "select i.id, top.quantity, top.customer from items i left join lateral (select quantity, customer from orders o \
               where o.item = i.id order by quantity desc, id limit 1) top on true where i.id between :i and :i + 3 order by i.id",
    },
    Shape {
        name: "union_of_ids",
        variables: &[ACCOUNT, ITEM, ("t", 1, 10)],
        text: "select 'account' as what, aid as id from pgbench_accounts where aid = :a union all select 'item', id from items where id = :i \
               union select 'teller', tid from pgbench_tellers where tid = :t order by 1, 2",
    },
    Shape {
        name: "recursive_steps",
        variables: &[ITEM, ("k", 3, 12)],
        text: "with recursive steps (n, id) as (select 1, :i union all select n + 1, id * 31 % 9973 from steps where n < :k) \
               select count(*), sum(price) from steps join items using (id)",
    },
    Shape {
        name: "grouping_sets",
        variables: &[ITEM],
        text: "select kind % 3 as third, doc ->> 'colour' as colour, sum(price) from items where id between :i and :i + 20 \
               group by grouping sets ((kind % 3), (doc ->> 'colour'), ()) order by 1, 2, 3",
    },
    Shape {
        name: "numbers_only",
        variables: &[("x", 1, 100_000), ("y", 1, 1_000)],
        text: "select round(:x * 1.21, 2), :x % 97, power(:y, 2), greatest(:x, :y), to_hex(:x), format('%s of %s', :y, :x)",
    },
];

impl Shape {
    /// Its text with numbers in place of its variables, in their order. Missing ones are their lowest.
    pub fn with(&self, values: &[i64]) -> String {
        replaced(self.text, |name| {
            let index = self.variables.iter().position(|(known, ..)| *known == name)?;
            let value = values.get(index).copied();
            Some(value.unwrap_or(self.variables[index].1).to_string())
        })
    }

    /// Values from the whole range of its variables; another `number`, other values.
    pub fn values(&self, number: usize) -> Vec<i64> {
        let values = self.variables.iter().enumerate().map(|(index, (_, low, high))| {
            // Any step that visits a range evenly would do.
            let step = (number as i64 + 1) * 7_919 + index as i64 * 104_729;
            low + step % (high - low + 1)
        });
        values.collect()
    }

    /// The script of pgbench: draws the variables and asks.
    fn script(&self, literals: Literals) -> String {
        let mut script = String::new();
        for (index, (name, low, high)) in self.variables.iter().enumerate() {
            let drawn = match literals {
                Literals::Many => format!("random({low}, {high})"),
                Literals::Few if index == 0 => {
                    let step = ((high - low) / FEW).max(1);
                    let last = ((high - low) / step).min(FEW - 1);
                    format!("{low} + {step} * random(0, {last})")
                }
                Literals::Few => format!("{}", (low + high) / 2),
            };
            script.push_str(&format!("\\set {name} {drawn}\n"));
        }
        script + self.text + ";\n"
    }
}

/// Writes a script for each shape.
pub fn write_scripts(folder: &Path, literals: Literals) -> Result<Vec<PathBuf>, BenchError> {
    let files = SHAPES.iter().map(|shape| {
        let file = folder.join(format!("{}_{}.sql", shape.name, literals.as_str()));
        write(&file, shape.script(literals))?;
        Ok(file)
    });
    files.collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn there_are_at_least_sixteen_and_all_differ() {
        let texts: BTreeSet<&str> = SHAPES.iter().map(|shape| shape.text).collect();
        let names: BTreeSet<&str> = SHAPES.iter().map(|shape| shape.name).collect();
        assert!(texts.len() >= 16);
        assert_eq!((texts.len(), names.len()), (SHAPES.len(), SHAPES.len()));
    }

    #[test]
    fn every_variable_is_used_and_every_use_is_a_variable() {
        for shape in SHAPES {
            let values = shape.values(0);
            for (index, (name, low, high)) in shape.variables.iter().enumerate() {
                assert!(
                    low < high && (*low..=*high).contains(&values[index]),
                    "{}",
                    shape.name
                );
                assert!(shape.text.contains(&format!(":{name}")), "{} {name}", shape.name);
            }
            let text = shape.with(&values);
            let colons = text.match_indices(':').map(|(at, _)| &text[at + 1..]);
            for after in colons {
                assert!(!after.starts_with(|c: char| c.is_alphanumeric()), "{text}");
            }
        }
    }

    #[test]
    fn numbers_take_the_place_of_whole_names() {
        let shape = Shape {
            name: "any",
            variables: &[("a", 1, 9), ("b", 2, 9)],
            text: "select :a, :ab, :b + :a, ':c'",
        };
        assert_eq!(shape.with(&[7]), "select 7, :ab, 2 + 7, ':c'");
    }

    #[test]
    fn few_literals_make_few_texts() {
        let script = SHAPES[1].script(Literals::Few);
        assert!(
            script.starts_with("\\set a 1 + 24974 * random(0, 3)\n\\set b 49950\n"),
            "{script}"
        );
        let script = SHAPES[1].script(Literals::Many);
        assert!(
            script.starts_with("\\set a random(1, 99900)\n\\set b random(1, 99900)\n"),
            "{script}"
        );
        assert!(script.ends_with("order by aid;\n"));
    }
}
