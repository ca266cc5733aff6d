//! Estimates that are off, and what is learnt from counts.

use corun_model::cache::locality::Footprint;
use corun_pooler::plans::{Corrections, Explained, Memory};

use super::data::{Session, plq};
use crate::skipped::outdated;

/// What makes plans with a cross join dear enough for a count where nested loops are off.
const DISABLED: &str = "what a disabled join costs";

/// Three columns that say the same, taken for independent: PostgreSQL expects `n / 8` rows where there are `n / 2`. The series makes
/// the whole dear enough for a count.
fn correlated(limit: u32) -> String {
    format!(
        "select sum(lo_revenue) from correlated x, lineorder, generate_series(1, 20) where x.k = lo_partkey and x.a < {limit} and x.b < {} and x.c < {}",
        limit * 2,
        limit * 3
    )
}

/// As [`plq`], dear enough for a count.
fn dear_plq(terms: usize) -> String {
    plq(terms).replace(
        "from part, lineorder",
        "from part, lineorder, generate_series(1, 20)",
    )
}

fn counted(plan: &Explained, memory: &Memory, corrections: &Corrections) -> f64 {
    let tables = plan.tables(memory, corrections);
    assert_eq!(tables.len(), 1, "{tables:?}");
    tables[0].built.counted.0 as f64
}

/// Bytes that the only hash table of an executed plan took.
fn peak(plan: &Explained, memory: &Memory) -> f64 {
    let tables = plan.tables(memory, &Corrections::default());
    tables[0].seen.expect("executed").peak.0 as f64
}

/// Asks all that may be asked about a plan.
fn learn(session: &mut Session, plan: &Explained, corrections: &mut Corrections) {
    let questions = plan.questions();
    assert!(!questions.is_empty(), "{plan:?}");
    for (key, text) in questions {
        assert!(!corrections.knows(&key));
        corrections.learn(key, session.0.value(&text).parse().expect("a count"));
        assert!(corrections.knows(&key));
    }
}

#[test]
fn correlated_columns_before_and_after() {
    if outdated(DISABLED, 17) {
        return;
    }
    let mut session = Session::hashing(&[]);
    let memory = session.memory();
    let mut corrections = Corrections::default();
    let plan = session.analyze(&correlated(25));
    let real = peak(&plan, &memory);
    let before = counted(&plan, &memory, &corrections) / real - 1.0;
    assert!(before < -0.5, "{before}");

    assert_eq!(plan.questions().len(), 1);
    learn(&mut session, &plan, &mut corrections);
    let after = counted(&plan, &memory, &corrections) / real - 1.0;
    assert!(after.abs() < 0.001, "{after}");

    // Other values of the same shape, planned only: corrected by what was learnt of these.
    let other = session.explain(&correlated(20));
    let real = peak(&session.analyze(&correlated(20)), &memory);
    let uncorrected = counted(&other, &memory, &Corrections::default()) / real - 1.0;
    let by_shape = counted(&other, &memory, &corrections) / real - 1.0;
    println!(
        "correlated columns: {:.1} % before, {:.2} % after; other values {:.1} % before, {:.1} % by shape",
        before * 100.0,
        after * 100.0,
        uncorrected * 100.0,
        by_shape * 100.0
    );
    assert!(
        by_shape.abs() < uncorrected.abs() / 2.0,
        "{uncorrected} {by_shape}"
    );
}

#[test]
fn a_cheap_count_corrects_as_well() {
    let mut session = Session::hashing(&[]);
    let memory = session.memory();
    // A nation lies in one region, which PostgreSQL does not know.
    let sql = "select sum(lo_revenue) from supplier, lineorder where s_suppkey = lo_suppkey \
        and s_nation = 'NATION 7' and s_region = 'REGION 1'";
    let plan = session.explain(sql);
    let mut corrections = Corrections::default();
    let questions = plan.questions();
    let [(key, text)] = &questions[..] else {
        panic!("{questions:?} {plan:#?}")
    };
    let real: f64 = session.0.value(text).parse().expect("a count");
    corrections.learn(*key, real);
    assert!(corrections.knows(key));
    let rows = |corrections: &Corrections| plan.tables(&memory, corrections)[0].rows;
    assert!((rows(&corrections) - real).abs() < 0.5);
    assert!(rows(&Corrections::default()) < real / 3.0);
    // The same relation under the same conditions in another query, with the conditions the other way round.
    let other = session.explain(
        "select count(*) from lineorder, supplier where s_region = 'REGION 1' and s_nation = 'NATION 7' and lo_suppkey = s_suppkey",
    );
    let (key, _) = other.questions()[0];
    assert!(corrections.knows(&key));
    println!(
        "correlated columns by a count: {:.0} expected, {real} there, {:.0} after",
        rows(&Corrections::default()),
        rows(&corrections)
    );
}

#[test]
fn nothing_is_asked_that_costs_or_calls() {
    let mut session = Session::hashing(&[]);
    // The scan is most of the plan.
    let dear =
        session.explain("select count(*) from correlated x, supplier where x.k = s_suppkey and x.a < 25");
    assert_eq!(dear.questions(), []);
    // A function, whatever it does.
    let calls = session.explain(
        "select sum(a.lo_revenue) from supplier, lineorder a, lineorder b where s_suppkey = a.lo_suppkey and a.lo_orderkey = b.lo_orderkey and lower(s_region) = 'region 1'",
    );
    assert!(
        !calls
            .questions()
            .iter()
            .any(|(_, text)| text.contains("supplier"))
    );
    // Without any condition there is nothing to be wrong about.
    let whole = session.explain("select count(*) from supplier, lineorder where s_suppkey = lo_suppkey");
    assert_eq!(whole.questions(), []);
}

#[test]
fn what_was_learnt_is_of_use_however_it_is_read() {
    if outdated(DISABLED, 17) {
        return;
    }
    let mut session = Session::hashing(&[]);
    let memory = session.memory();
    session.set(&["search_path = public"]);
    let mut corrections = Corrections::default();
    let plan = session.explain(&dear_plq(9));
    learn(&mut session, &plan, &mut corrections);
    // A join of a join: the part's factor goes into the table of both.
    let sql = plq(9).replace("from part, lineorder", "from part, lineorder, supplier")
        + " and lo_suppkey = s_suppkey and s_region = 'REGION 1'";
    let plan = session.explain(&sql);
    let before = plan.tables(&memory, &Corrections::default());
    let after = plan.tables(&memory, &corrections);
    let changed: Vec<f64> = before
        .iter()
        .zip(&after)
        .filter(|(before, _)| before.relations.contains("part"))
        .map(|(before, after)| after.rows / before.rows)
        .collect();
    assert!(!changed.is_empty(), "{before:?}");
    assert!(
        changed.iter().all(|factor| (1.1..1.3).contains(factor)),
        "{changed:?}"
    );
    // Beyond the tables: the footprint.
    let bytes = |corrections: &Corrections| match plan.footprint(&memory, corrections) {
        Footprint::Tables(bytes) => bytes,
        Footprint::Streams => panic!("{plan:?}"),
    };
    assert!(bytes(&corrections) >= bytes(&Corrections::default()));
}

#[test]
fn corrections_are_bounded_and_age() {
    if outdated(DISABLED, 17) {
        return;
    }
    let mut session = Session::hashing(&[]);
    let key = session.explain(&correlated(25)).questions()[0].0;
    let mut corrections = Corrections::default();
    corrections.learn(key, f64::NAN);
    corrections.learn(key, -1.0);
    assert!(!corrections.knows(&key));
    corrections.learn(key, 50_000.0);
    assert!(corrections.knows(&key));
    let other = session.explain(&dear_plq(3)).questions()[0].0;
    for _ in 0..20_000 {
        corrections.learn(other, 5.0);
    }
    assert!(!corrections.knows(&key), "too old to be believed");
    assert!(corrections.knows(&other));
    // The size of the table corrects alternatives before anything is learnt.
    let (statistics, known) = session.known(&["part"]);
    let plan = session.explain(&plq(9));
    let rows = plan.tables(&statistics.memory, &known)[0].rows;
    assert!((rows / 36_000.0 - 1.0).abs() < 0.03, "{rows}");
}
