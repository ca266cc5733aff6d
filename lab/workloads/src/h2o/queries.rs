//! The ten questions on groupings, `q1` to `q10`, and the five on joins, `j1` to `j5`.
//!
//! Where an answer would have more than some ten thousand rows, the question is asked within another one that sums them up, so that no
//! side is measured by how it hands out rows. The largest key in it makes engines output keys as well. Deviation and correlation are
//! rounded, since their last digits depend on the order in which an engine reads rows.

/// (name, SQL): groupings, then joins.
pub const QUERIES: &[(&str, &str)] = &[
    ("q1", "select id1, sum(v1) as v1 from x group by id1"),
    ("q2", "select id1, id2, sum(v1) as v1 from x group by id1, id2"),
    (
        "q3",
        "select count(*) as row_count, max(id3) as id3, sum(v1) as v1, sum(v3) as v3
from (select id3, sum(v1) as v1, avg(v3) as v3 from x group by id3) as answer",
    ),
    (
        "q4",
        "select id4, avg(v1) as v1, avg(v2) as v2, avg(v3) as v3 from x group by id4",
    ),
    (
        "q5",
        "select count(*) as row_count, max(id6) as id6, sum(v1) as v1, sum(v2) as v2, sum(v3) as v3
from (select id6, sum(v1) as v1, sum(v2) as v2, sum(v3) as v3 from x group by id6) as answer",
    ),
    (
        "q6",
        "select id4, id5, median(v3) as median_v3, round(stddev(v3), 4) as stddev_v3
from x
group by id4, id5",
    ),
    (
        "q7",
        "select count(*) as row_count, max(id3) as id3, sum(span) as span
from (select id3, max(v1) - min(v2) as span from x group by id3) as answer",
    ),
    (
        "q8",
        "select count(*) as row_count, max(id6) as id6, sum(v3) as v3
from (select id6, v3, row_number() over (partition by id6 order by v3 desc) as place from x) as answer
where place <= 2",
    ),
    (
        "q9",
        "select id2, id4, round(power(corr(v1, v2), 2), 6) as r2 from x group by id2, id4",
    ),
    (
        "q10",
        "select count(*) as row_count, max(id3) as id3, max(id6) as id6, sum(v3) as v3, sum(members) as members
from (
  select id1, id2, id3, id4, id5, id6, sum(v3) as v3, count(*) as members
  from x
  group by id1, id2, id3, id4, id5, id6
) as answer",
    ),
    (
        "j1",
        "select count(*) as row_count, sum(j.v1) as v1, sum(small.v2) as v2
from j join small on j.id1 = small.id1",
    ),
    (
        "j2",
        "select count(*) as row_count, sum(j.v1) as v1, sum(medium.v2) as v2
from j join medium on j.id2 = medium.id2",
    ),
    (
        "j3",
        "select count(*) as row_count, sum(j.v1) as v1, sum(medium.v2) as v2
from j left join medium on j.id2 = medium.id2",
    ),
    (
        "j4",
        "select count(*) as row_count, sum(j.v1) as v1, sum(medium.v2) as v2
from j join medium on j.id5 = medium.id5",
    ),
    (
        "j5",
        "select count(*) as row_count, sum(j.v1) as v1, sum(big.v2) as v2
from j join big on j.id3 = big.id3",
    ),
];
