//! Nothing that comes in makes the planner or the merger panic: texts, answers of a catalog, rows.

use corun_pooler::split::{Confirmed, KeyColumn, Merger, plan};
use proptest::prelude::*;

const WORDS: &[&str] = &[
    "select",
    "distinct",
    "from",
    "t",
    "u",
    "t.id",
    "id",
    "g",
    "*",
    "where",
    "group by",
    "order by",
    "having",
    "limit",
    "offset",
    "1",
    "2",
    "-1",
    "$1",
    "$0",
    "'x'",
    "(",
    ")",
    ",",
    "=",
    "and",
    "or",
    "not",
    "count(*)",
    "sum(g)",
    "avg(distinct g)",
    "min(id)",
    "(select max(id) from u)",
    "exists (select 1 from u where u.id = t.id)",
    "join u on t.id = u.id",
    "left join u using (id)",
    "as x",
    "desc",
    "nulls first",
    "case when g then 1 end",
    "::text",
    "collate \"C\"",
    "null",
    "t.*",
    "filter (where g > 1)",
    "in (select id from u limit 1)",
    "over ()",
    "union all",
    ";",
    "fetch first 1 row with ties",
];

fn key() -> KeyColumn {
    KeyColumn {
        schema: None,
        table: "t".to_owned(),
        column: "id".to_owned(),
    }
}

/// A catalog with two tables, as a server would describe it.
fn catalog(tables: usize) -> Vec<Vec<Option<String>>> {
    let row = |values: [&str; 7]| {
        values
            .map(|value| (value != "-").then(|| value.to_owned()))
            .to_vec()
    };
    let mut rows = vec![
        row(["key", "100", "-", "-", "-", "-", "-"]),
        row(["path", "pg_catalog", "-", "-", "-", "-", "-"]),
        row(["collation", "C", "c", "-", "-", "-", "-"]),
    ];
    for number in 0..tables {
        let (at, oid) = (number.to_string(), (100 + number).to_string());
        rows.push(row(["table", &at, &oid, "r", "p", "false", "-"]));
        for (name, kind) in [("id", "23"), ("g", "23"), ("x", "25")] {
            rows.push(row(["column", &at, name, kind, "false", "0", "b"]));
        }
    }
    rows
}

fn confirmed(text: &str, original: &[u32], part: &[u32], leader: &[u32]) -> Option<Confirmed> {
    let plan = plan(text, &key()).ok()?;
    let tables = 1 + usize::from(text.contains(" u"));
    plan.resolve(&catalog(tables))
        .ok()?
        .confirm(original, part, leader)
        .ok()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn any_text(words in proptest::collection::vec(0..WORDS.len(), 0..14), whole in any::<bool>()) {
        let words: Vec<&str> = words.into_iter().map(|word| WORDS[word]).collect();
        let text = if whole {
            format!("select g from t where {}", words.join(" "))
        } else {
            format!("select {} from t {}", words[..words.len() / 3].join(" "), words[words.len() / 3..].join(" "))
        };
        if let Ok(plan) = plan(&text, &key()) {
            prop_assert!(plan.questions().starts_with("with"));
            for tables in 0..3 {
                if let Ok(resolved) = plan.resolve(&catalog(tables)) {
                    prop_assert!(!resolved.describe().contains("$1000000"));
                    let _ = resolved.confirm(&[23], &[23], &[25, 20, 20]);
                }
            }
        }
    }

    #[test]
    fn any_answer(rows in proptest::collection::vec(
        proptest::collection::vec(proptest::option::of(prop_oneof!["table|column|key|type|casts|path|collation", "[0-9]{1,3}", ".*"]), 0..8), 0..6,
    )) {
        let plan = plan("select t.id from t, u", &key()).expect("a plan");
        let mut all = catalog(2);
        all.extend(rows.clone());
        let _ = plan.resolve(&all);
        let _ = plan.resolve(&rows);
    }

    #[test]
    fn any_row(body in proptest::collection::vec(any::<u8>(), 0..40), count in 0u8..4) {
        let sorted = confirmed("select id from t order by x, g", &[23], &[23, 25, 23], &[25, 20, 20]).expect("sorted");
        let last = confirmed("select x, sum(g) from t group by x", &[25, 20], &[25, 20], &[25, 20, 20]).expect("final");
        let rest = [&[0, count][..], &body].concat();
        for confirmed in [sorted, last] {
            let _ = confirmed.lead(&rest);
            let mut good = vec![0, 3, 0, 0, 0, 3];
            good.extend(b"0-1");
            good.extend([0xff; 8]);
            let lead = confirmed.lead(&good).expect("a leader's row");
            let mut merger = Merger::new(&confirmed, &lead, 2);
            let _ = merger.push(0, &rest);
            let _ = merger.push(1, &[&[0, 3][..], &body].concat());
            let _ = (merger.end(0), merger.end(1));
            let mut out = Vec::new();
            merger.drain(&mut out);
            let _ = merger.final_sql();
        }
    }
}
