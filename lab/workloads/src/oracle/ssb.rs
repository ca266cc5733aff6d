//! The 13 SSB queries as nested loops.

use std::collections::BTreeMap;

use super::database::{Customer, Database, Day, Lineorder, Part, Supplier};

/// Group columns -> sum.
type Groups = BTreeMap<Vec<String>, i64>;

/// Answers query `name` of [`crate::ssb::QUERIES`]: its rows as text (`a|b|c`), sorted; `None` for another name.
///
/// A sum over no row at all is one NULL row in the flight without GROUP BY, and no row in the others, as in SQL.
pub fn ssb_answer(database: &Database, name: &str) -> Option<Vec<String>> {
    let discounted = |keep: fn(&Lineorder, &Day) -> bool| flight1(database, keep);
    let rows = match name {
        "q1.1" => discounted(|lo, d| d.year == 1993 && (1..=3).contains(&lo.discount) && lo.quantity < 25),
        "q1.2" => discounted(|lo, d| {
            d.yearmonthnum == 199_401 && (4..=6).contains(&lo.discount) && (26..=35).contains(&lo.quantity)
        }),
        "q1.3" => discounted(|lo, d| {
            d.weeknuminyear == 6
                && d.year == 1994
                && (5..=7).contains(&lo.discount)
                && (26..=35).contains(&lo.quantity)
        }),
        "q2.1" => flight2(database, |p, s| p.category == "MFGR#12" && s.region == "AMERICA"),
        "q2.2" => flight2(database, |p, s| {
            p.brand1.as_str() >= "MFGR#2221" && p.brand1.as_str() <= "MFGR#2228" && s.region == "ASIA"
        }),
        "q2.3" => flight2(database, |p, s| p.brand1 == "MFGR#2221" && s.region == "EUROPE"),
        "q3.1" => flight3(
            database,
            |c, s, d| c.region == "ASIA" && s.region == "ASIA" && (1992..=1997).contains(&d.year),
            |c, s| (c.nation.clone(), s.nation.clone()),
        ),
        "q3.2" => flight3(
            database,
            |c, s, d| {
                c.nation == "UNITED STATES" && s.nation == "UNITED STATES" && (1992..=1997).contains(&d.year)
            },
            |c, s| (c.city.clone(), s.city.clone()),
        ),
        "q3.3" => flight3(
            database,
            |c, s, d| british(&c.city) && british(&s.city) && (1992..=1997).contains(&d.year),
            |c, s| (c.city.clone(), s.city.clone()),
        ),
        "q3.4" => flight3(
            database,
            |c, s, d| british(&c.city) && british(&s.city) && d.yearmonth == "Dec1997",
            |c, s| (c.city.clone(), s.city.clone()),
        ),
        "q4.1" => flight4(
            database,
            |_, c, s, p| c.region == "AMERICA" && s.region == "AMERICA" && first_two(p),
            |d, c, _, _| vec![d.year.to_string(), c.nation.clone()],
        ),
        "q4.2" => flight4(
            database,
            |d, c, s, p| late(d) && c.region == "AMERICA" && s.region == "AMERICA" && first_two(p),
            |d, _, s, p| vec![d.year.to_string(), s.nation.clone(), p.category.clone()],
        ),
        "q4.3" => flight4(
            database,
            |d, c, s, p| {
                late(d) && c.region == "AMERICA" && s.nation == "UNITED STATES" && p.category == "MFGR#14"
            },
            |d, _, s, p| vec![d.year.to_string(), s.city.clone(), p.brand1.clone()],
        ),
        _ => return None,
    };
    let mut rows = rows;
    rows.sort_unstable();
    Some(rows)
}

fn british(city: &str) -> bool {
    city == "UNITED KI1" || city == "UNITED KI5"
}

fn first_two(part: &Part) -> bool {
    part.mfgr == "MFGR#1" || part.mfgr == "MFGR#2"
}

fn late(day: &Day) -> bool {
    day.year == 1997 || day.year == 1998
}

/// One sum over lineorder and date.
fn flight1(database: &Database, keep: fn(&Lineorder, &Day) -> bool) -> Vec<String> {
    let mut sum: Option<i64> = None;
    for lo in &database.lineorder {
        for d in database.date.iter().filter(|d| d.datekey == lo.orderdate) {
            if keep(lo, d) {
                sum = Some(sum.unwrap_or(0) + i64::from(lo.extendedprice) * i64::from(lo.discount));
            }
        }
    }
    vec![sum.map_or(crate::answers::NULL_TEXT.to_owned(), |sum| sum.to_string())]
}

/// Revenue by year and brand.
fn flight2(database: &Database, keep: fn(&Part, &Supplier) -> bool) -> Vec<String> {
    let mut groups = Groups::new();
    for lo in &database.lineorder {
        for s in database.supplier.iter().filter(|s| s.suppkey == lo.suppkey) {
            for p in database.part.iter().filter(|p| p.partkey == lo.partkey) {
                for d in database.date.iter().filter(|d| d.datekey == lo.orderdate) {
                    if keep(p, s) {
                        let group = vec![d.year.to_string(), p.brand1.clone()];
                        *groups.entry(group).or_default() += i64::from(lo.revenue);
                    }
                }
            }
        }
    }
    // The sum is the first output column.
    groups
        .into_iter()
        .map(|(group, sum)| format!("{sum}|{}", group.join("|")))
        .collect()
}

/// Revenue by two places and year.
fn flight3(
    database: &Database,
    keep: fn(&Customer, &Supplier, &Day) -> bool,
    places: fn(&Customer, &Supplier) -> (String, String),
) -> Vec<String> {
    let mut groups = Groups::new();
    for lo in &database.lineorder {
        for s in database.supplier.iter().filter(|s| s.suppkey == lo.suppkey) {
            for c in database.customer.iter().filter(|c| c.custkey == lo.custkey) {
                for d in database.date.iter().filter(|d| d.datekey == lo.orderdate) {
                    if keep(c, s, d) {
                        let (customer, supplier) = places(c, s);
                        let group = vec![customer, supplier, d.year.to_string()];
                        *groups.entry(group).or_default() += i64::from(lo.revenue);
                    }
                }
            }
        }
    }
    groups
        .into_iter()
        .map(|(group, sum)| format!("{}|{sum}", group.join("|")))
        .collect()
}

/// Profit by year and more.
fn flight4(
    database: &Database,
    keep: fn(&Day, &Customer, &Supplier, &Part) -> bool,
    group: fn(&Day, &Customer, &Supplier, &Part) -> Vec<String>,
) -> Vec<String> {
    let mut groups = Groups::new();
    for lo in &database.lineorder {
        for s in database.supplier.iter().filter(|s| s.suppkey == lo.suppkey) {
            for c in database.customer.iter().filter(|c| c.custkey == lo.custkey) {
                for p in database.part.iter().filter(|p| p.partkey == lo.partkey) {
                    for d in database.date.iter().filter(|d| d.datekey == lo.orderdate) {
                        if keep(d, c, s, p) {
                            let profit = i64::from(lo.revenue) - i64::from(lo.supplycost);
                            *groups.entry(group(d, c, s, p)).or_default() += profit;
                        }
                    }
                }
            }
        }
    }
    groups
        .into_iter()
        .map(|(group, sum)| format!("{}|{sum}", group.join("|")))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A database small enough to answer in one's head.
    fn tiny() -> Database {
        let lo = |custkey, partkey, suppkey, orderdate, quantity, discount, revenue| Lineorder {
            custkey,
            partkey,
            suppkey,
            orderdate,
            quantity,
            extendedprice: 1000,
            discount,
            revenue,
            supplycost: 10,
        };
        let day = |datekey, year, yearmonth: &str| Day {
            datekey,
            year,
            yearmonthnum: datekey / 100,
            yearmonth: yearmonth.to_owned(),
            weeknuminyear: 6,
        };
        let text = str::to_owned;
        let customer = |custkey, city, nation, region| Customer {
            custkey,
            city: text(city),
            nation: text(nation),
            region: text(region),
        };
        Database {
            lineorder: vec![
                lo(1, 1, 1, 19930101, 10, 2, 500),
                lo(1, 1, 1, 19930101, 10, 3, 700),
                lo(2, 2, 1, 19971201, 30, 6, 900),
                lo(2, 2, 2, 19971201, 30, 6, 100),
            ],
            customer: vec![
                customer(1, "BRAZIL   1", "BRAZIL", "AMERICA"),
                customer(2, "UNITED KI1", "UNITED KINGDOM", "EUROPE"),
            ],
            supplier: vec![
                Supplier {
                    suppkey: 1,
                    city: text("UNITED ST0"),
                    nation: text("UNITED STATES"),
                    region: text("AMERICA"),
                },
                Supplier {
                    suppkey: 2,
                    city: text("UNITED KI5"),
                    nation: text("UNITED KINGDOM"),
                    region: text("EUROPE"),
                },
            ],
            part: vec![
                Part {
                    partkey: 1,
                    mfgr: text("MFGR#1"),
                    category: text("MFGR#12"),
                    brand1: text("MFGR#121"),
                },
                Part {
                    partkey: 2,
                    mfgr: text("MFGR#2"),
                    category: text("MFGR#22"),
                    brand1: text("MFGR#2221"),
                },
            ],
            date: vec![day(19930101, 1993, "Jan1993"), day(19971201, 1997, "Dec1997")],
        }
    }

    #[test]
    fn answers_by_hand() {
        let database = tiny();
        let answer = |name| ssb_answer(&database, name).unwrap();
        assert_eq!(answer("q1.1"), ["5000"]);
        assert_eq!(answer("q1.2"), ["\0"]);
        assert_eq!(answer("q2.1"), ["1200|1993|MFGR#121"]);
        assert_eq!(answer("q2.3"), ["100|1997|MFGR#2221"]);
        assert_eq!(answer("q3.4"), ["UNITED KI1|UNITED KI5|1997|100"]);
        assert_eq!(answer("q4.1"), ["1993|BRAZIL|1180"]);
        assert!(answer("q4.2").is_empty());
        assert!(ssb_answer(&database, "q5.1").is_none());
    }

    #[test]
    fn every_query_has_an_answer() {
        let database = Database::default();
        assert!(
            crate::ssb::QUERIES
                .iter()
                .all(|(name, _)| ssb_answer(&database, name).is_some())
        );
    }
}
