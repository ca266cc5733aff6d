//! Other plans by settings, and what happens where there are none.

use corun_model::cache::locality::{Classifier, Footprint, Locality, Thresholds};
use corun_model::cache::plan_choice::{COST_MARGIN, ChoiceRule, choose};
use corun_model::units::Bytes;
use corun_pooler::plans::{Corrections, Estimate, Form, HINTS_SETTING, has_hints};

use super::data::{Session, plq};
use crate::skipped::lacks;

/// Asks about a statement as the proxy does: its own plan, then each form in a transaction.
fn estimate(session: &mut Session, sql: &str) -> Estimate {
    let memory = session.memory();
    let corrections = Corrections::default();
    let own = session.explain(sql);
    let mut estimate = Estimate::new(&own, &memory, &corrections);
    let mut forms = own.alternatives();
    assert!(forms.len() <= 3);
    while let Some(form) = forms.pop() {
        let plan = session.in_form(&form, |session| session.explain(sql));
        forms.extend(plan.refined(&form));
        estimate.add(form, &plan, &memory, &corrections);
    }
    estimate
}

#[test]
fn hash_and_index_are_each_others_form() {
    let mut session = Session::new(&[]);
    for (cost, own_streams) in [("4", false), ("1", true)] {
        session.set(&[&format!("random_page_cost = {cost}")]);
        let found = estimate(&mut session, &plq(1));
        let streams: Vec<bool> = found
            .candidates()
            .iter()
            .map(|candidate| candidate.footprint == Footprint::Streams)
            .collect();
        assert_eq!(streams[0], own_streams, "{found:?}");
        assert!(streams[1..].contains(&!own_streams), "{found:?}");
        assert!(found.own().form.is_own());
        // They go to the choice as they are.
        let classifier = Classifier::new(Bytes::mib(4), Thresholds::default()).expect("4 MiB");
        let trees = found.sub_trees();
        let chosen = choose(&trees, ChoiceRule::SameStrength, COST_MARGIN, &classifier).expect("a choice");
        assert_eq!(
            chosen.locality == Locality::Weak,
            trees[chosen.index].footprint() == Footprint::Streams
        );
    }
}

#[test]
fn a_form_changes_the_plan_and_not_the_answer() {
    let mut session = Session::new(&[]);
    let own = session.0.value(&plq(2));
    let found = estimate(&mut session, &plq(2));
    assert!(found.candidates().len() > 1);
    for candidate in &found.candidates()[1..] {
        let (answer, plan) = session.in_form(&candidate.form, |session| {
            (session.0.value(&plq(2)), session.explain(&plq(2)))
        });
        assert_eq!(answer, own);
        assert_eq!(plan.fingerprint(), candidate.fingerprint);
        // The setting ends with its transaction.
        assert_eq!(session.explain(&plq(2)).fingerprint(), found.own().fingerprint);
    }
}

#[test]
fn what_a_server_ignores_is_no_candidate() {
    // All it could vary is forbidden already.
    let mut session = Session::new(&["enable_nestloop = off", "enable_mergejoin = off"]);
    let sql = "select count(*) from part, lineorder where p_partkey = lo_partkey";
    let memory = session.memory();
    let own = session.explain(sql);
    let mut found = Estimate::new(&own, &memory, &Corrections::default());
    let same = own.alternatives().remove(0);
    assert!(!found.add(same, &own, &memory, &Corrections::default()));
    assert_eq!(found.candidates().len(), 1);
    // No join, no form.
    assert_eq!(session.explain("select count(*) from part").alternatives(), []);
    // What cannot be done any other way costs what nothing costs.
    let forced =
        session.explain("select count(*) from supplier a, supplier b where a.s_suppkey < b.s_suppkey");
    assert!(forced.is_forced());
    assert!(!own.is_forced());
    assert!(!found.add(Form::own(), &forced, &memory, &Corrections::default()));
}

#[test]
fn kept_answers_of_an_index_join_are_a_table() {
    if lacks("Memoize", 14) {
        return;
    }
    let mut session = Session::new(&["enable_hashjoin = off", "enable_mergejoin = off"]);
    let sql =
        "select sum(p_partkey) from skewed, part where lo_partkey = p_partkey and skewed.lo_partkey < 30";
    let memory = session.memory();
    let kept = session.explain(sql);
    let footprint = kept.footprint(&memory, &Corrections::default());
    assert!(
        matches!(footprint, Footprint::Tables(bytes) if bytes.0 > 0),
        "{kept:?}"
    );
    let forms = kept.alternatives();
    let without = forms
        .iter()
        .find(|form| form.settings() == [("enable_memoize", "off")])
        .unwrap_or_else(|| panic!("{forms:?}"));
    let plan = session.in_form(without, |session| session.explain(sql));
    assert_ne!(plan.fingerprint(), kept.fingerprint());
    let footprint = plan.footprint(&memory, &Corrections::default());
    assert_eq!(footprint, Footprint::Streams, "{plan:?}");
}

#[test]
fn hints_are_a_comment() {
    let mut session = Session::hashing(&[]);
    // The extension is not there.
    let loaded = session
        .0
        .rows(&format!("select current_setting('{HINTS_SETTING}', true)"));
    assert!(!has_hints(loaded[0][0].as_deref()));
    assert!(has_hints(Some("on")));
    let own = session.explain(&plq(1));
    let hinted = own.hinted();
    assert_eq!(hinted.len(), 1, "{hinted:?}");
    let hints = hinted[0].hints().expect("hints");
    let expected = "/*+ NestLoop(lineorder part) Leading((lineorder part)) */ ";
    assert_eq!(hints, expected);
    assert_eq!(hinted[0].settings(), []);
    // A server without the extension reads past them.
    let plan = session.explain(&format!("{hints}{}", plq(1)));
    assert_eq!(plan.fingerprint(), own.fingerprint());
    // Two joins: three combinations beside its own.
    let two = session.explain(
        "select count(*) from lineorder, part, supplier where lo_partkey = p_partkey and lo_suppkey = s_suppkey",
    );
    assert_eq!(two.hinted().len(), 3, "{:?}", two.hinted());
    // A name that needs quotes has no place in a comment.
    let odd = session
        .explain("select count(*) from lineorder \"*/ x\", part where \"*/ x\".lo_partkey = p_partkey");
    assert_eq!(odd.hinted(), []);
}
