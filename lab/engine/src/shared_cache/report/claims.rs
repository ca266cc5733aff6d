//! What the paper states, and what this run says to it. Sentences are made of the rows: nothing here knows how it comes out.

use super::view::{View, is_of};
use crate::shared_cache::engines::Kind;
use crate::shared_cache::figures::{MODERATE, STRONG, WEAK};
use crate::shared_cache::statement::Statement;
use lab_core::report::finding::{Agreement, Finding};
use lab_core::row::Row;

/// Below this percentage a slow-down is none.
const PERCENT_MIN: f64 = 3.0;

fn percent(slowdown: f64) -> f64 {
    (slowdown - 1.0) * 100.0
}

/// A loss the paper gives as a number.
fn loss(paper: &'static str, paper_percent: f64, who: &str, slowdown: Option<f64>) -> Option<Finding> {
    let here = percent(slowdown?);
    let agreement = Agreement::of_percent(paper_percent, here, PERCENT_MIN);
    Some(Finding {
        paper: paper.to_owned(),
        here: format!("{who} {here:+.0} %"),
        agreement,
    })
}

/// What the paper says about a figure that this run has numbers for; about corun's operators, which run all of it.
pub(super) fn of(view: View<'_>, figure: &str) -> Vec<Finding> {
    let (moderate, index) = (Statement::hash(MODERATE), Statement::index(WEAK));
    let at = |kind, target, beside| view.slowdown(figure, kind, target, beside);
    let corun = |target, beside| at(Kind::Corun, target, beside);
    let found = match figure {
        "1" => vec![
            loss(
                "a hash join loses 56 % beside an index join (section 1.2)",
                56.0,
                "corun's hash join:",
                corun(moderate, index),
            ),
            loss(
                "a hash join loses 56 % beside an index join (section 1.2)",
                56.0,
                "DataFusion's hash join beside corun's index join:",
                at(Kind::Stock, moderate, index),
            ),
            index_is_calm(view),
        ],
        "4" => vec![
            index_hurts_more(view),
            middle_is_worst(view, Kind::Corun),
            middle_is_worst(view, Kind::Stock),
        ],
        "table1" => vec![strong_is_safe(view), weak_is_calm(view)],
        "5" => vec![protected(view), weak_keeps_its_time(view)],
        "6" => super::policies::KS.map(|k| policies_help(view, k)).to_vec(),
        "7.3" => vec![choice_pays(view)],
        "7.4" => vec![pairs_by_class(view)],
        _ => Vec::new(),
    };
    found.into_iter().flatten().collect()
}

fn index_is_calm(view: View<'_>) -> Option<Finding> {
    let index = Statement::index(WEAK);
    let beside = |other| view.slowdown("1", Kind::Corun, index, other);
    let (hash, same) = (beside(Statement::hash(MODERATE))?, beside(index)?);
    Some(Finding::order(
        "an index join is not affected much by either (section 1.2)",
        hash.max(same) < 1.15,
        format!("it is slowed down {hash:.2}x beside the hash join and {same:.2}x beside itself"),
    ))
}

/// Of Figure 4, beside the index join and beside the same hash join, moderate sizes only.
fn index_hurts_more(view: View<'_>) -> Option<Finding> {
    let index = Statement::index(WEAK).to_string();
    let worst = |same: bool| {
        let rows = view.slowdowns("4").filter(|(row, _)| {
            is_of(row, Kind::Corun)
                && row.text("class") == "moderate"
                && row.text("query").starts_with("hash")
                && if same {
                    row.text("corunner") == row.text("query")
                } else {
                    row.text("corunner") == index
                }
        });
        rows.map(|(_, spread)| spread.median).max_by(f64::total_cmp)
    };
    let (by_index, by_same) = (worst(false)?, worst(true)?);
    Some(Finding::order(
        "an index join slows a moderate hash join down more than another hash join does (section 4.2.1)",
        by_index > by_same,
        format!("at worst {by_index:.2}x beside the index join, {by_same:.2}x beside the same hash join"),
    ))
}

/// The moderate sizes suffer most.
fn middle_is_worst(view: View<'_>, kind: Kind) -> Option<Finding> {
    let index = Statement::index(WEAK).to_string();
    let worst = |class: &str| {
        let rows = view.slowdowns("4").filter(|(row, _)| {
            is_of(row, kind)
                && row.text("class") == class
                && row.text("query").starts_with("hash")
                && row.text("corunner") == index
        });
        rows.map(|(_, spread)| spread.median).max_by(f64::total_cmp)
    };
    let (strong, moderate, weak) = (worst("strong")?, worst("moderate")?, worst("weak")?);
    Some(Finding::order(
        "moderate tables suffer most beside an index join (section 4.2.1)",
        moderate >= strong && moderate >= weak,
        format!(
            "with {} {strong:.2}x strong, {moderate:.2}x moderate, {weak:.2}x weak, each at worst",
            super::view::kind_name(kind)
        ),
    ))
}

fn strong_is_safe(view: View<'_>) -> Option<Finding> {
    let strong = Statement::hash(STRONG);
    let slowdown = view.slowdown("table1", Kind::Corun, strong, strong)?;
    Some(Finding::order(
        "two strong hash joins hardly slow each other down (table 1)",
        slowdown < 1.1,
        format!("{slowdown:.2}x"),
    ))
}

fn weak_is_calm(view: View<'_>) -> Option<Finding> {
    let weak = Statement::hash(WEAK);
    let all = [
        Statement::hash(STRONG),
        Statement::hash(MODERATE),
        weak,
        Statement::index(WEAK),
    ];
    let worst = all
        .iter()
        .filter_map(|&beside| view.slowdown("table1", Kind::Corun, weak, beside))
        .max_by(f64::total_cmp)?;
    Some(Finding::order(
        "a weak hash join is hardly slowed down by anybody (table 1)",
        worst < 1.1,
        format!("at worst {worst:.2}x"),
    ))
}

/// Share of the moderate query's loss that streaming takes away; the paper's partition took all but a little.
fn protected(view: View<'_>) -> Option<Finding> {
    let (moderate, index) = (Statement::hash(MODERATE), Statement::index(WEAK));
    let plain = view.slowdown("5", Kind::Corun, moderate, index)?;
    let streaming = view.slowdown("5", Kind::Streaming, moderate, index)?;
    Some(Finding::order(
        "with 4 of 32 colours for the index join the moderate query's time is 33 % shorter (section 7.1)",
        streaming < plain && percent(plain) >= PERCENT_MIN,
        format!("streaming changes its slow-down from {plain:.2}x to {streaming:.2}x"),
    ))
}

fn weak_keeps_its_time(view: View<'_>) -> Option<Finding> {
    let index = Statement::index(WEAK);
    let (plain, streaming) = (
        view.alone("5", Kind::Corun, index)?,
        view.alone("5", Kind::Streaming, index)?,
    );
    Some(Finding::order(
        "the weak query keeps its performance (section 7.1)",
        streaming < plain * 1.05,
        format!("the index join alone takes {plain:.0} ms, streaming {streaming:.0} ms"),
    ))
}

/// Section 7.4's observation 2: the moderate SSB queries lose most beside index joins.
fn pairs_by_class(view: View<'_>) -> Option<Finding> {
    let worst = |queries: &[&str]| {
        let rows = view.slowdowns("7.4").filter(|(row, _)| {
            is_of(row, Kind::Corun) && queries.contains(&row.text("query")) && row.text("mix") == "hash/index"
        });
        rows.map(|(_, spread)| spread.median).max_by(f64::total_cmp)
    };
    let hash = worst(&["hash_q3.1", "hash_q4.1", "hash_q4.2"])?;
    let index = worst(&["index_q1.1", "index_q2.1", "index_q3.2", "index_q4.3"])?;
    Some(Finding::order(
        "beside each other, the hash join queries lose 16 to 35 %, the index join queries 7 to 12 % (section 7.4)",
        hash > index,
        format!("at worst {:+.0} % and {:+.0} %", percent(hash), percent(index)),
    ))
}

/// Of one query of Figure 6: its hash joins lose less under SLS or MLS than by default.
fn policies_help(view: View<'_>, k: usize) -> Option<Finding> {
    let query = Statement::hash(k).to_string();
    let under = |policy: &str| {
        let mut rows = view.slowdowns("6");
        rows.find(|(row, _)| row.text("policy") == policy && row.text("query") == query)
            .map(|(_, spread)| spread.median)
    };
    let default = under("fifo")?;
    let best = [under("sls"), under("mls")]
        .into_iter()
        .flatten()
        .min_by(f64::total_cmp)?;
    Some(Finding::order(
        "hash joins lose less under SLS and MLS than by default (section 7.2)",
        best < default,
        format!("PLQ_{k} {default:.2}x by default, {best:.2}x under the better policy"),
    ))
}

/// Section 7.3: choosing plans shortens the average instance.
fn choice_pays(view: View<'_>) -> Option<Finding> {
    let mut ratios = view.figure("7.3").filter(|row| row.metric == "ratio");
    let best = ratios.by_ref().filter_map(Row::median).max_by(f64::total_cmp)?;
    gained(
        "choosing plans by locality shortens the average of four instances by 16.5 % (section 7.3)",
        16.5,
        best,
    )
}

/// A gain the paper gives as percent of the time saved.
fn gained(paper: &'static str, paper_percent: f64, ratio: f64) -> Option<Finding> {
    let here = (1.0 - 1.0 / ratio) * 100.0;
    let agreement = Agreement::of_percent(paper_percent, here, PERCENT_MIN);
    Some(Finding {
        paper: paper.to_owned(),
        here: format!("{here:+.0} % saved"),
        agreement,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_loss_agrees_within_a_factor_of_two() {
        let of = |slowdown| {
            loss("x", 56.0, "it:", Some(slowdown))
                .expect("a number")
                .agreement
        };
        assert_eq!(of(1.5), Agreement::Agrees);
        assert_eq!((of(1.1), of(2.5)), (Agreement::Differs, Agreement::Differs));
        assert_eq!((of(1.01), of(0.9)), (Agreement::Disagrees, Agreement::Disagrees));
        assert_eq!(loss("x", 56.0, "it:", None), None);
    }

    #[test]
    fn sentences_have_both_sides() {
        let told = loss("a hash join loses 56 %", 56.0, "here:", Some(1.4)).expect("a number");
        assert_eq!(
            told.sentence(),
            "Paper: a hash join loses 56 %. Here: here: +40 %. This agrees with the paper."
        );
    }
}
