//! The page of the analytic part, from made-up numbers.

use super::*;
use crate::demo::summary::tests::result;

#[test]
fn the_page_names_the_ratio_the_control_and_the_machine() {
    let result = result();
    let provenance = Provenance {
        facts: vec![("processor".to_owned(), "a <test>".to_owned())],
    };
    let html = page(Some((&result, &Summary::of(&result))), None, &provenance).render();
    for text in [
        "2.00x",
        "stock against itself 1.00..1.00",
        "a &lt;test&gt;",
        "all right",
        "prefers-color-scheme",
    ] {
        assert!(html.contains(text), "{text}");
    }
    assert!(!html.contains("NaN"), "missing numbers are written as a dash");
}

#[test]
fn wrong_answers_are_on_the_page() {
    let mut result = result();
    result.turns[0].clients[0].executions[0].correct = false;
    let html = page(
        Some((&result, &Summary::of(&result))),
        None,
        &Provenance::default(),
    )
    .render();
    assert!(html.contains("1 wrong") && !html.contains("all right"));
}

#[test]
fn each_part_alone_and_both_together_make_a_page() {
    let (analytic, live) = (result(), live::summary::tests::result());
    let (summary, live_summary) = (Summary::of(&analytic), LiveSummary::of(&live));
    let render = |with_analytic: bool, with_live: bool| {
        page(
            with_analytic.then_some((&analytic, &summary)),
            with_live.then_some((&live, &live_summary)),
            &Provenance::default(),
        )
        .render()
    };
    let both = render(true, true);
    for (text, of_live) in [
        ("Star Schema Benchmark at scale", false),
        ("Peak memory", false),
        ("TPC-C with 2 warehouses", true),
        ("Live data: transactions", true),
    ] {
        assert!(both.contains(text), "{text}");
        assert_eq!(render(true, false).contains(text), !of_live, "{text}");
        assert_eq!(render(false, true).contains(text), of_live, "{text}");
    }
    assert!(!both.contains("NaN"));
}
