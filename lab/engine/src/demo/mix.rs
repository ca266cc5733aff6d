//! The statements of the demo: analytic joins over the fact table, and short statements with changing constants.
//!
//! Pure: the same seed and sizes give the same statements. Statements that differ only in constants share a name, under
//! which their times are reported.

use std::collections::BTreeMap;

use corun_workloads::answers::Answer;
use corun_workloads::numbers::{below, draw};
use corun_workloads::ssb::{PLQ_TERMS_MAX, QUERIES, Sizes, plq};

/// Who runs a statement.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Class {
    /// Joins of the fact table with dimensions or with itself.
    Analytic,
    /// Look-ups, small aggregates and small joins.
    Short,
}

impl Class {
    /// Both classes.
    pub const ALL: [Class; 2] = [Class::Analytic, Class::Short];

    /// The word in tables and rows.
    pub fn name(self) -> &'static str {
        match self {
            Class::Analytic => "analytic",
            Class::Short => "short",
        }
    }
}

/// One statement.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Statement {
    /// Its name; variants with other constants share it.
    pub name: String,
    /// Who runs it.
    pub class: Class,
    /// Its text.
    pub sql: String,
    /// The right answer, once known.
    pub reference: Option<Answer>,
}

/// All statements.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mix {
    /// Analytic statements first.
    pub statements: Vec<Statement>,
    /// Joins of corun's in the plans of statements of a name, once known.
    pub corun_joins: BTreeMap<String, usize>,
}

/// Variants of each short statement: enough that one plan's data does not stay in the L1 cache by itself.
const VARIANTS: usize = 8;

const REGIONS: [&str; 5] = ["AFRICA", "AMERICA", "ASIA", "EUROPE", "MIDDLE EAST"];

impl Mix {
    /// The statements for data of these sizes.
    pub fn new(seed: u64, sizes: &Sizes) -> Mix {
        let mut statements: Vec<Statement> = analytic()
            .into_iter()
            .map(|(name, sql)| statement(name, Class::Analytic, sql))
            .collect();
        for variant in 0..VARIANTS {
            for (name, sql) in short(seed, variant as u64, sizes) {
                statements.push(statement(name.to_owned(), Class::Short, sql));
            }
        }
        Mix {
            statements,
            corun_joins: BTreeMap::new(),
        }
    }

    /// Indices of the statements of a class.
    pub fn of_class(&self, class: Class) -> Vec<usize> {
        (0..self.statements.len())
            .filter(|&index| self.statements[index].class == class)
            .collect()
    }

    /// The distinct names of a class, in order of first appearance.
    pub fn names(&self, class: Class) -> Vec<&str> {
        let mut names: Vec<&str> = Vec::new();
        for statement in self
            .statements
            .iter()
            .filter(|statement| statement.class == class)
        {
            if !names.contains(&statement.name.as_str()) {
                names.push(&statement.name);
            }
        }
        names
    }
}

fn statement(name: String, class: Class, sql: String) -> Statement {
    Statement {
        name,
        class,
        sql,
        reference: None,
    }
}

/// The 13 queries of the benchmark; the part-lineorder join with 12 %, 40 % and all parts in its hash table; and two joins
/// of the fact table with itself, whose hash tables are far larger than any cache.
fn analytic() -> Vec<(String, String)> {
    let mut queries: Vec<(String, String)> = QUERIES
        .iter()
        .map(|(name, sql)| ((*name).to_owned(), (*sql).to_owned()))
        .collect();
    for terms in [3, 10, PLQ_TERMS_MAX] {
        queries.push((format!("plq_{terms}"), plq(terms)));
    }
    queries.push((
        "same_order".to_owned(),
        "select count(*) as pairs, sum(a.lo_revenue + b.lo_revenue) as revenue
from lineorder a join lineorder b on a.lo_orderkey = b.lo_orderkey
where a.lo_linenumber = 1 and b.lo_linenumber = 2 and b.lo_discount >= 8"
            .to_owned(),
    ));
    queries.push((
        "bought_again".to_owned(),
        "select count(*) as pairs, sum(b.lo_revenue) as revenue
from lineorder a join lineorder b on a.lo_custkey = b.lo_custkey and a.lo_partkey = b.lo_partkey
where a.lo_orderdate < 19930101 and b.lo_orderdate >= 19970101"
            .to_owned(),
    ));
    queries
}

/// One variant of every short statement.
fn short(seed: u64, variant: u64, sizes: &Sizes) -> Vec<(&'static str, String)> {
    let mut draws = 0;
    let mut key = |rows: usize| {
        draws += 1;
        1 + below(draw(seed, variant, draws), rows.max(1) as u64)
    };
    let (customer, other_customer, part) = (key(sizes.customer), key(sizes.customer), key(sizes.part));
    let region = REGIONS[key(REGIONS.len()) as usize - 1];
    let (maker, category, year) = (key(5), key(5), 1991 + key(7));
    vec![
        (
            "customer_by_key",
            format!("select c_name, c_city, c_nation, c_phone from customer where c_custkey = {customer}"),
        ),
        (
            "part_by_key",
            format!("select p_name, p_brand1, p_size, p_container from part where p_partkey = {part}"),
        ),
        (
            "lines_of_customer",
            format!(
                "select count(*) as lines, sum(lo_revenue) as revenue from lineorder where lo_custkey = {other_customer}"
            ),
        ),
        (
            "suppliers_by_nation",
            format!(
                "select s_nation, count(*) as suppliers from supplier where s_region = '{region}' group by s_nation"
            ),
        ),
        (
            "brands_of_category",
            format!(
                "select p_brand1, count(*) as parts, sum(p_size) as sizes from part \
                 where p_category = 'MFGR#{maker}{category}' group by p_brand1"
            ),
        ),
        (
            "near_suppliers",
            format!(
                "select c_city, count(*) as pairs from customer join supplier on c_city = s_city \
                 where c_region = '{region}' group by c_city"
            ),
        ),
        (
            "days_of_year",
            format!("select d_month, count(*) as days from date where d_year = {year} group by d_month"),
        ),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sizes() -> Sizes {
        Sizes::at(1.0).expect("a valid scale")
    }

    #[test]
    fn the_same_seed_gives_the_same_statements() {
        assert_eq!(Mix::new(7, &sizes()), Mix::new(7, &sizes()));
        assert_ne!(Mix::new(7, &sizes()), Mix::new(8, &sizes()));
    }

    #[test]
    fn classes_are_complete() {
        let mix = Mix::new(1, &sizes());
        assert_eq!(mix.of_class(Class::Analytic).len(), 18);
        assert_eq!(mix.names(Class::Analytic).len(), 18);
        assert_eq!(mix.names(Class::Short).len(), 7);
        assert_eq!(mix.of_class(Class::Short).len(), 7 * VARIANTS);
        assert_eq!(mix.statements.len(), 18 + 7 * VARIANTS);
    }
}
