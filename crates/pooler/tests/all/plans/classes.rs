//! Which runs are asked about, and when estimates are forgotten.

use corun_pooler::plans::{Changed, Classes, Corrections, Estimate, Look, Statistics};

use super::data::{Session, plq, relations};
use crate::common::postgres::{new_database, shared, version};

fn estimates(queries: &[String]) -> Vec<Estimate> {
    let mut session = Session::hashing(&[]);
    let memory = session.memory();
    queries
        .iter()
        .map(|sql| Estimate::new(&session.explain(sql), &memory, &Corrections::default()))
        .collect()
}

fn category(number: u64) -> String {
    plq(1).replace("MFGR#11", &format!("MFGR#{}{}", number / 5 + 1, number % 5 + 1))
}

#[test]
fn values_that_do_not_matter_share_an_estimate() {
    let of_categories = estimates(&(0..20).map(category).collect::<Vec<_>>());
    let mut classes = Classes::new(4);
    let shape = 7;
    for (values, estimate) in (0..8).zip(&of_categories) {
        assert_eq!(classes.look(shape, values), Look::Unknown);
        classes.learn(shape, values, estimate.clone());
        // Again the same values: known, but nothing new about others.
        assert!(matches!(classes.look(shape, values), Look::Known(_)));
        classes.learn(shape, values, estimate.clone());
    }
    // Eight sets agreed: others need not be asked about, but for one run in sixteen.
    let looks: Vec<Look> = (100..132).map(|values| classes.look(shape, values)).collect();
    let due = looks.iter().filter(|look| matches!(look, Look::Due(_))).count();
    let known = looks.iter().filter(|look| matches!(look, Look::Known(_))).count();
    assert_eq!((due, known), (2, 30));
    // Another shape knows nothing of it.
    assert_eq!(classes.look(8, 0), Look::Unknown);
    // A larger table: each set of values for itself again.
    let larger = estimates(&[plq(3)]).remove(0);
    classes.learn(shape, 200, larger.clone());
    assert_eq!(classes.look(shape, 201), Look::Unknown);
    match classes.look(shape, 200) {
        Look::Known(known) => assert_eq!(*known, larger),
        other => panic!("{other:?}"),
    }
    classes.forget(shape);
    assert_eq!(classes.look(shape, 200), Look::Unknown);
}

#[test]
fn shapes_are_bounded() {
    let estimate = estimates(&[plq(1)]).remove(0);
    let mut classes = Classes::new(4);
    for shape in 0..100 {
        classes.learn(shape, 0, estimate.clone());
    }
    assert_eq!(classes.len(), 4);
    assert!(matches!(classes.look(99, 0), Look::Known(_)));
    assert_eq!(classes.look(0, 0), Look::Unknown);
    for values in 0..1000 {
        // Plans that differ each time never become one estimate.
        let other = estimates_alternating(&estimate, values);
        classes.learn(99, values, other);
    }
    assert_eq!(classes.look(99, 5), Look::Unknown);
    classes.clear();
    assert!(classes.is_empty());
}

fn estimates_alternating(one: &Estimate, values: u64) -> Estimate {
    use std::sync::OnceLock;
    static OTHER: OnceLock<Estimate> = OnceLock::new();
    let other = OTHER.get_or_init(|| estimates(&[plq(12)]).remove(0));
    assert!(!one.agrees(other));
    if values.is_multiple_of(2) {
        one.clone()
    } else {
        other.clone()
    }
}

#[test]
fn a_change_of_what_estimates_stand_on_is_seen() {
    let database = new_database();
    let sql = |text: &str| shared().sql_in(&database, text);
    sql(
        "create table a (k int, v text); insert into a select i, 'x' from generate_series(1, 1000) i; create table \"B b\" (k int)",
    );
    let mut looked = relations(&["a", "B b"]);
    let ask = |looked: &[corun_pooler::plans::Relation]| {
        let rows = sql(&Statistics::question(looked));
        Statistics::read(&rows).unwrap_or_else(|| panic!("{rows:?}"))
    };
    let mut before = ask(&looked);
    assert_eq!(before.tables(), []);
    assert_eq!(ask(&looked).since(&before), Changed::Nothing);
    for change in [
        "analyze a",
        "create index a_k on a (k)",
        "alter table a add column w int",
        "alter table a alter column w type bigint",
        "create statistics s on k, v from a",
        "insert into a select 1 from generate_series(1, 10000); analyze a",
        "truncate a",
        "drop table \"B b\"; create table \"B b\" (k int)",
        "drop index a_k",
    ] {
        sql(change);
        // A session's counters arrive before it is gone.
        shared().wait_until(&format!(
            "select count(*) = 0 from pg_stat_activity where datname = '{database}'"
        ));
        if version() < 15 {
            // Up to version 14 they go through another process, which may take its time.
            std::thread::sleep(std::time::Duration::from_secs(1));
        }
        let after = ask(&looked);
        assert_eq!(after.since(&before), Changed::Statistics, "{change}");
        before = after;
    }
    sql(&format!("alter database {database} set work_mem = '7MB'"));
    let after = ask(&looked);
    assert_eq!(after.since(&before), Changed::Settings);
    assert_eq!(after.memory.work_mem.0, 7 << 20);
    sql("analyze");
    looked.truncate(1);
    assert!(ask(&looked).tables().len() <= 1);
    // 12 has no multiplier, and never analysed tables have no rows.
    let row = |cells: [Option<&str>; 4]| cells.map(|cell| cell.map(str::to_owned)).to_vec();
    let old = [
        row([Some("s"), Some("t"), Some("-1"), Some("1 2")]),
        row([Some("s"), Some("u"), Some("1e+06"), Some("1 2")]),
        row([None, None, Some("work_mem"), Some("65536")]),
        row([None, None, Some("hash_mem_multiplier"), None]),
        row([None, None, Some("version"), Some("120022")]),
        row([None, None, Some("planner"), Some("x")]),
    ];
    let read = Statistics::read(&old).expect("an answer");
    assert_eq!(
        (read.memory.work_mem.0, read.memory.hash_mem_multiplier),
        (64 << 20, 1.0)
    );
    assert_eq!(
        (read.version, read.tables().len(), read.tables()[0].1),
        (120_022, 1, 1e6)
    );
    for lost in [2, 4] {
        let mut rows = old.to_vec();
        rows.remove(lost);
        assert_eq!(Statistics::read(&rows), None);
    }
    let strange = row([None, None, Some("work_mem"), Some("99999999999999999999MB")]);
    assert_eq!(Statistics::read(&[strange]), None);
    // What is no answer is none.
    assert_eq!(Statistics::read(&[]), None);
    assert_eq!(Statistics::read(&[vec![Some("x".to_owned())]]), None);
}
