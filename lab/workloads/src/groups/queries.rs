//! Groupings by one key of every kind, and by several.
//!
//! Each is asked within another question that sums its groups up, so that no side is measured by how it hands out rows; the largest key
//! in it makes engines output keys as well.

/// Counts and sums of the groups of one key.
macro_rules! by_key {
    ($key:literal) => {
        concat!(
            "select count(*) as groups, max(k) as k, max(n) as n, sum(v) as v\nfrom (select ",
            $key,
            " as k, count(*) as n, sum(v) as v from g group by ",
            $key,
            ") as answer"
        )
    };
}

/// (name, SQL); at scale factor 1, the names say how many groups there are.
pub const QUERIES: &[(&str, &str)] = &[
    ("int_10", by_key!("k10")),
    ("int_1k", by_key!("k1k")),
    ("int_100k", by_key!("k100k")),
    ("dense_100", by_key!("v")),
    ("dense_100k", by_key!("d100k")),
    ("text_10", by_key!("t10")),
    ("int_1m", by_key!("k1m")),
    ("int_4m", by_key!("k4m")),
    ("int_16m", by_key!("k16m")),
    ("clustered_4m", by_key!("c4m")),
    ("zipf_1m", by_key!("zipf")),
    ("short_text_1m", by_key!("short")),
    ("long_text_1m", by_key!("long")),
    ("decimal_1m", by_key!("amount")),
    (
        "few_keys_1k",
        "select count(*) as groups, max(a) as a, max(b) as b, max(n) as n, sum(w) as w
from (select t10 as a, v as b, count(*) as n, sum(w) as w from g group by t10, v) as answer",
    ),
    (
        "two_keys_1m",
        "select count(*) as groups, max(a) as a, max(b) as b, max(n) as n, sum(v) as v
from (select k10 as a, k100k as b, count(*) as n, sum(v) as v from g group by k10, k100k) as answer",
    ),
    (
        "two_keys_16m",
        "select count(*) as groups, max(a) as a, max(b) as b, max(n) as n, sum(v) as v
from (select k1k as a, k1m as b, count(*) as n, sum(v) as v from g group by k1k, k1m) as answer",
    ),
    (
        "four_keys_16m",
        "select count(*) as groups, max(a) as a, max(b) as b, max(c) as c, max(d) as d, max(n) as n
from (select k10 as a, k1k as b, short as c, v as d, count(*) as n from g group by k10, k1k, short, v) as answer",
    ),
    (
        "money_1m",
        "select count(*) as groups, max(k) as k, sum(w) as w, max(average) as average
from (select k1m as k, sum(w) as w, cast(avg(w) as double) as average from g group by k1m) as answer",
    ),
    (
        "extremes_1m",
        "select count(*) as groups, max(k) as k, sum(low) as low, sum(high) as high, max(least) as least, min(most) as most
from (select k1m as k, min(v) as low, max(v) as high, min(x) as least, max(x) as most from g group by k1m) as answer",
    ),
    (
        "distinct_100k",
        "select count(*) as groups, max(k) as k, sum(n) as n
from (select k100k as k, count(distinct k1k) as n from g group by k100k) as answer",
    ),
];
