//! What becomes of PostgreSQL's operators, on a server and for answers of other versions.

use corun_model::cache::locality::Footprint;
use corun_model::cache::pipeline::PlanShape;
use corun_model::units::Bytes;
use corun_pooler::plans::{Corrections, Memory, PlanError, read};
use proptest::prelude::*;

use super::data::{SSB, Session, plq};
use crate::common::cases::cases;
use crate::common::postgres::version;

/// A plan as letters: `S` scan, `H(build,probe)`, `I(outer)`, `G(input)`, `O(input)` for a sort, `M(..)` merge.
fn letters(shape: &PlanShape) -> String {
    match shape {
        PlanShape::Scan { .. } => "S".into(),
        PlanShape::HashJoin { build, probe, .. } => format!("H({},{})", letters(build), letters(probe)),
        PlanShape::IndexJoin { outer } => format!("I({})", letters(outer)),
        PlanShape::HashAggregate { input, .. } => format!("G({})", letters(input)),
        PlanShape::Sort { input, .. } => format!("O({})", letters(input)),
        PlanShape::Merge { inputs } => {
            format!("M({})", inputs.iter().map(letters).collect::<Vec<_>>().join(","))
        }
    }
}

/// Statements and the shapes of their plans, by what is off.
const OPERATORS: [(&str, &str); 5] = [
    (
        "enable_nestloop enable_mergejoin",
        "
        select count(*) from part => S
        select * from part where p_partkey = 5 => S
        select sum(lo_revenue) from part, lineorder where p_partkey = lo_partkey => H(S,S)
        select d_year, count(*) from dates group by d_year => G(S)
        select * from dates order by d_year limit 5 => O(S)
        select count(*) from part where p_partkey in (select lo_partkey from lineorder) => H(G(S),S)
        select count(*) from part where p_partkey not in (select lo_partkey from skewed where lo_revenue < 1000) => H(S,S)
        select s_suppkey, (select count(*) from lineorder where lo_partkey = s_suppkey) from supplier => I(S)
        select count(*) from part where p_partkey > (select avg(lo_partkey) from lineorder) => S
        with c as materialized (select * from dates) select count(*) from c a where d_year = 1995 => S
        select count(*) from measurement => S
        select rank() over (order by at) from measurement => O(S)
        select d_year from dates except select value from measurement => G(S)
        insert into measurement select d_year - 1900, 1 from dates, supplier where s_suppkey = d_year => H(S,S)",
    ),
    (
        "enable_hashjoin enable_mergejoin enable_memoize",
        "
        select sum(lo_revenue) from part, lineorder where p_partkey = lo_partkey => I(S)
        select count(*) from supplier a, supplier b where a.s_nation < b.s_nation => H(S,S)",
    ),
    (
        "enable_hashjoin enable_mergejoin enable_indexscan enable_indexonlyscan enable_memoize",
        "select sum(lo_revenue) from supplier, lineorder where s_suppkey = lo_partkey and s_region = 'REGION 1' => I(S)",
    ),
    (
        "enable_hashjoin enable_nestloop",
        "select count(*) from supplier a, odd b where a.s_suppkey = b.a => M(S,O(S))",
    ),
    (
        "enable_hashagg",
        "select d_year, count(*) from dates group by d_year => O(S)",
    ),
];

#[test]
fn operators_of_a_server() {
    for (settings, table) in OPERATORS {
        let names = settings
            .split(' ')
            .filter(|name| version() >= 14 || *name != "enable_memoize");
        let settings: Vec<String> = names.map(|name| format!("{name} = off")).collect();
        let settings: Vec<&str> = settings.iter().map(String::as_str).collect();
        let mut session = Session::new(&settings);
        let memory = session.memory();
        for (sql, expected) in cases(table) {
            let plan = session.explain(&sql);
            // Version 18 reads what EXCEPT takes away beside the rest, and not behind it.
            let expected = match version() {
                18.. if sql.contains(" except ") => "G(M(S,S))",
                _ => expected,
            };
            assert_eq!(
                letters(&plan.shape(&memory, &Corrections::default())),
                expected,
                "{sql}\n{plan:#?}"
            );
        }
    }
}

#[test]
fn the_main_pipeline_is_that_of_the_fact_table() {
    let mut session = Session::hashing(&[]);
    let memory = session.memory();
    for (name, sql) in SSB {
        let plan = session.explain(sql);
        let tables = plan.tables(&memory, &Corrections::default());
        let Footprint::Tables(bytes) = plan.footprint(&memory, &Corrections::default()) else {
            panic!("{name}: {plan:#?}")
        };
        let all: u64 = tables.iter().map(|table| table.bytes.0).sum();
        let largest = tables.iter().map(|table| table.bytes.0).max().unwrap_or(0);
        // Two of its tables, not all of them.
        assert!(bytes.0 < all && bytes.0 >= largest.min(bytes.0), "{name}");
        let sums = tables.iter().enumerate().flat_map(|(i, a)| {
            let later = &tables[i + 1..];
            later.iter().map(|b| a.bytes.0 + b.bytes.0)
        });
        assert!(
            sums.into_iter().any(|sum| sum == bytes.0),
            "{name}: {bytes:?} {tables:?}"
        );
    }
    // A sum computed once beside is larger than the query: its pipeline is the main one.
    let beside = session.explain(&format!(
        "select count(*) from supplier where s_suppkey > ({})",
        plq(3)
    ));
    assert!(matches!(
        beside.footprint(&memory, &Corrections::default()),
        Footprint::Tables(_)
    ));
}

#[test]
fn settings_in_the_answer_go_before_those_known() {
    let mut session = Session::hashing(&["work_mem = '96kB'", "hash_mem_multiplier = 1.5"]);
    let plan = session.explain(&plq(20));
    let known = Memory {
        work_mem: Bytes::gib(1),
        hash_mem_multiplier: 9.0,
    };
    let memory = plan.memory(&known);
    assert_eq!(
        (memory.work_mem, memory.hash_mem_multiplier),
        (Bytes::kib(96), 1.5)
    );
    assert!(plan.tables(&known, &Corrections::default())[0].built.batches > 1);
    assert_eq!(plan.workers(), 0);
    let relations = plan.relations();
    let names: Vec<&str> = relations.iter().map(|relation| &*relation.name).collect();
    assert_eq!(names, ["lineorder", "part"]);
}

/// An operator of an answer.
fn node(kind: &str, more: &str, inputs: &[String]) -> String {
    format!(
        "{{\"Node Type\": \"{kind}\", \"Total Cost\": 100.5, \"Plan Rows\": 1000, \"Plan Width\": 8{more}, \"Plans\": [{}]}}",
        inputs.join(",")
    )
}

fn answer(plan: &str) -> String {
    format!("[{{\"Plan\": {plan}}}]")
}

#[test]
fn answers_of_other_versions() {
    // 18: rows are fractions, and what was forbidden is marked instead of dear.
    let inner = node(
        "Seq Scan",
        ", \"Parent Relationship\": \"Inner\", \"Relation Name\": \"b\", \"Alias\": \"b\"",
        &[],
    );
    let outer = node(
        "Seq Scan",
        ", \"Parent Relationship\": \"Outer\", \"Relation Name\": \"a\", \"Alias\": \"a\", \"Disabled\": false, \"Actual Rows\": 12.50, \"Actual Loops\": 2",
        &[],
    );
    let sides = [outer.clone(), inner];
    let [_, join] = [true, false].map(|disabled| {
        let join = node("Nested Loop", &format!(", \"Disabled\": {disabled}"), &sides);
        let plan = read(&answer(&join)).expect("a plan");
        assert_eq!(plan.is_forced(), disabled);
        join
    });
    let shape = |plan: &str| {
        let plan = read(&answer(plan)).expect("a plan");
        letters(&plan.shape(&Memory::default(), &Corrections::default()))
    };
    // Operators nobody knows yet.
    let strange = node("Quantum Scan", ", \"New Thing\": {\"x\": [1, null]}", &[]);
    assert_eq!(shape(&strange), "S");
    let strange = node("Quantum Join", "", &[outer, join]);
    assert_eq!(shape(&strange), "M(S,H(S,S))");
    // Joins without what they need are passed.
    for kind in [
        "Hash Join",
        "Nested Loop",
        "Merge Join",
        "Sort",
        "Gather",
        "Aggregate",
        "Hash",
        "Memoize",
        "SetOp",
    ] {
        let plan = read(&answer(&node(kind, ", \"Strategy\": \"Hashed\"", &[]))).expect("a plan");
        let _ = plan.footprint(&Memory::default(), &Corrections::default());
        assert_eq!(plan.questions(), []);
    }
}

#[test]
fn what_is_no_answer_is_an_error() {
    for (text, missing) in [
        ("[]", "plan"),
        ("[{}]", "Plan"),
        ("[{\"Plan\": {}}]", "Node Type"),
    ] {
        assert_eq!(read(text).expect_err(text), PlanError::Missing(missing));
    }
    assert!(matches!(read("ERROR"), Err(PlanError::Json(_))));
    assert!(matches!(read("[] []"), Err(PlanError::Json(_))));
    assert!(matches!(
        read(&" ".repeat((4 << 20) + 1)),
        Err(PlanError::TooLarge(_))
    ));
    let mut deep = node("Limit", "", &[]);
    for _ in 0..200 {
        deep = node("Limit", "", &[deep]);
    }
    assert_eq!(read(&answer(&deep)), Err(PlanError::TooDeep));
    // Brackets in texts nest nothing, whatever stands before their quotes.
    let texts = format!(", \"Filter\": \"{}\", \"Alias\": \"\\\\\"", "\\\"[{".repeat(300));
    assert!(read(&answer(&node("Seq Scan", &texts, &[]))).is_ok());
    // As deep as it may be, it is read and taken apart.
    let inner = node(
        "Seq Scan",
        ", \"Parent Relationship\": \"Inner\", \"Alias\": \"b\"",
        &[],
    );
    let mut deep = node("Seq Scan", "", &[]);
    for _ in 0..120 {
        deep = node("Nested Loop", "", &[deep, inner.clone()]);
    }
    let plan = read(&answer(&deep)).expect("a plan");
    let Footprint::Tables(bytes) = plan.footprint(&Memory::default(), &Corrections::default()) else {
        panic!("inner sides are tables")
    };
    assert!(bytes.0 > 0);
    let many = vec![node("Seq Scan", "", &[]); 21_000];
    let many = read(&answer(&node("Append", "", &many)));
    assert_eq!(many.expect_err("many"), PlanError::TooMany);
}

proptest! {
    /// Whatever is in an answer, it is read or refused, and what was read can be looked at.
    #[test]
    fn no_plan_makes_it_panic(
        kinds in prop::collection::vec((0usize..12, 0usize..5, 0.0f64..1e300, 0u64..u64::MAX, 0u64..5), 1..12),
        text in "[('\")EANDOR x1.$ ]{0,30}",
    ) {
        const KINDS: [&str; 12] = [
            "Seq Scan", "Hash Join", "Hash", "Nested Loop", "Merge Join", "Aggregate", "Gather", "Memoize", "Index Scan", "Append",
            "Sort", "Subquery Scan",
        ];
        const ROLES: [&str; 5] = ["Outer", "Inner", "Member", "InitPlan", "SubPlan"];
        let text = text.replace('\\', "").replace('"', "\\\"");
        let mut plan = String::new();
        for (kind, role, rows, width, workers) in kinds {
            let inputs = if plan.is_empty() { String::new() } else { format!("{plan},{plan}") };
            // Twice the last is exponential: bounded by the number of levels.
            plan = format!(
                "{{\"Node Type\":\"{}\",\"Parent Relationship\":\"{}\",\"Parallel Aware\":{},\"Total Cost\":{rows:e},\"Plan Rows\":{rows:e},\
                 \"Plan Width\":{width},\"Relation Name\":\"r\",\"Schema\":\"s\",\"Alias\":\"a\",\"Filter\":\"{text}\",\"Hash Cond\":\"{text}\",\
                 \"Index Cond\":\"{text}\",\"Strategy\":\"Hashed\",\"Workers Planned\":{workers},\"Actual Rows\":{rows:e},\"Actual Loops\":2,\
                 \"Hash Buckets\":{width},\"Hash Batches\":1,\"Peak Memory Usage\":{width},\"Plans\":[{inputs}]}}",
                KINDS[kind], ROLES[role], workers % 2 == 1,
            );
        }
        if let Ok(plan) = read(&answer(&plan)) {
            let memory = Memory::default();
            let mut corrections = Corrections::default();
            let footprint = plan.footprint(&memory, &corrections);
            for (key, _) in plan.questions() {
                corrections.learn(key, 1e9);
            }
            let _ = (plan.footprint(&memory, &corrections), footprint);
            let _ = (plan.alternatives(), plan.hinted(), plan.fingerprint());
        }
    }
}
