//! What the paper states, and what this run says to it. Sentences are made of the rows: nothing here knows how it comes out.

use super::view::View;
use lab_core::report::finding::{Agreement, Finding};

/// The helper the paper settles on.
const BEST_HELPER: &str = "backward-spin";
const WORK_AHEAD: &str = "one/staged/workahead128-backward-spin";
const PARALLEL: &str = "two/plain";
const BI_THREADED: &str = "bi2/plain";

/// Below this a gain is no gain.
const PERCENT_MIN: f64 = 2.0;

/// A gain in percent, told as `wins` followed by it, or as `loses` where it is a loss.
fn gain(
    paper: &str,
    paper_percent: f64,
    (wins, loses): (&str, &str),
    here_percent: Option<f64>,
) -> Option<Finding> {
    let here = here_percent?;
    let agreement = Agreement::of_percent(paper_percent, here, PERCENT_MIN);
    Some(Finding {
        paper: paper.to_owned(),
        here: format!("{} {:.0} %", if here < 0.0 { loses } else { wins }, here.abs()),
        agreement,
    })
}

/// Percent of the time that a ratio saves.
fn saved(ratio: f64) -> f64 {
    (1.0 - 1.0 / ratio) * 100.0
}

/// Percent of throughput that a ratio adds.
fn added(ratio: f64) -> f64 {
    (ratio - 1.0) * 100.0
}

/// What the paper says about a case that this run has numbers for.
pub(super) fn of(view: View<'_>, case: &str) -> Vec<Finding> {
    let time = ("its best size saves", "its best size takes longer by");
    let set_saves = |paper, percent| gain(paper, percent, time, view.best_set(case, BEST_HELPER).map(saved));
    let throughput = ("it adds", "it loses");
    let adds = |paper, percent, mode| gain(paper, percent, throughput, view.ratio(case, mode).map(added));
    let findings = match case {
        "fig4a_index" => vec![
            set_saves(
                "a backward, waiting work-ahead set saves up to 33 % of the time (section 6.1)",
                33.0,
            ),
            backward_first(view, case),
        ],
        "fig4b_index" | "fig11b_join_index" | "fig14b_hash_join" => events(view, case),
        "fig4c_index" => vec![helper_takes(
            view,
            case,
            "the helper takes up to 97 % of the misses (section 6.1)",
            97.0,
        )],
        "fig5_index_unclustered" => vec![set_saves(
            "for unclustered probes the set gains 41 % (section 6.1)",
            41.0,
        )],
        "fig6a_index" => vec![
            adds(
                "a bi-threaded traversal adds up to 69 % throughput (section 6.2)",
                69.0,
                BI_THREADED,
            ),
            adds(
                "the work-ahead set adds up to 68 % (section 6.2)",
                68.0,
                WORK_AHEAD,
            ),
            exceeds(
                view,
                case,
                "the set is up to 10 % ahead of independent operators (section 6.2)",
                10.0,
                WORK_AHEAD,
            ),
        ],
        "fig6b_hash_join" => vec![
            adds(
                "independent hash joins add up to 48 % throughput (section 6.2)",
                48.0,
                PARALLEL,
            ),
            adds(
                "a bi-threaded one adds up to 50 % (section 6.2)",
                50.0,
                BI_THREADED,
            ),
            adds(
                "the work-ahead set adds up to 55 % (section 6.2)",
                55.0,
                WORK_AHEAD,
            ),
            exceeds(
                view,
                case,
                "the set is up to 4.3 % ahead of independent operators (section 6.2)",
                4.3,
                WORK_AHEAD,
            ),
        ],
        "fig7a_index" | "fig7b_hash_join" => vec![shared_misses(view, case)],
        "fig8_mixed" => vec![
            exceeds(
                view,
                case,
                "bi-threading is 26 % ahead of two operators in parallel (section 6.3)",
                26.0,
                BI_THREADED,
            ),
            exceeds(
                view,
                case,
                "the set is 29 % ahead of them (section 6.3)",
                29.0,
                WORK_AHEAD,
            ),
        ],
        "fig9_column_join" => vec![bi_threading_first(view, case)],
        "fig10_join_index" => vec![prefetch_is_idle(view, case)],
        "fig11a_join_index" => vec![set_saves(
            "the set saves up to 22 % of the time (appendix A.1.1)",
            22.0,
        )],
        "fig12_join_index" => vec![helper_takes(
            view,
            case,
            "the helper takes up to 75 % of the misses (appendix A.1.1)",
            75.0,
        )],
        "fig13_join_index_outer" => vec![set_saves(
            "the set saves up to 22 % of the time (appendix A.1.1)",
            22.0,
        )],
        "fig14a_hash_join" => vec![
            set_saves("the set saves up to 34 % of the time (appendix A.2)", 34.0),
            backward_first(view, case),
        ],
        "fig15_hash_join" => vec![helper_takes(
            view,
            case,
            "the main thread keeps as few as 25 % of the misses, the helper takes 75 % (appendix A.2)",
            75.0,
        )],
        "direct_join_index" => vec![loses(
            view,
            case,
            "direct",
            "a helper that reads the join index itself is slightly slower than the set (appendix)",
        )],
        "skips_duplicates_join_index" => vec![loses(
            view,
            case,
            "one/staged/workahead128-backward-spin-skips_duplicates",
            "a helper that skips duplicate lines is slower than one that does not (appendix)",
        )],
        _ => Vec::new(),
    };
    findings.into_iter().flatten().collect()
}

/// Backward beats forward, both waiting.
fn backward_first(view: View<'_>, case: &str) -> Option<Finding> {
    let [backward, forward] = [BEST_HELPER, "forward-spin"].map(|helper| view.best_set(case, helper));
    let (backward, forward) = (backward?, forward?);
    Some(Finding::order(
        "backward preloading is faster than forward (section 6.1)",
        backward > forward,
        format!("the best sizes run at {backward:.2}x and {forward:.2}x of serial speed"),
    ))
}

/// A technique's throughput over that of independent operators.
fn exceeds(view: View<'_>, case: &str, paper: &str, percent: f64, mode: &str) -> Option<Finding> {
    let ahead = view.ratio(case, mode)? / view.ratio(case, PARALLEL)?;
    gain(
        paper,
        percent,
        ("it is ahead by", "it is behind by"),
        Some(added(ahead)),
    )
}

/// The largest share of the misses that the helper of a backward, waiting set takes on any machine of siblings.
fn helper_takes(view: View<'_>, case: &str, paper: &str, percent: f64) -> Option<Finding> {
    let machines = view.machines(case);
    let machine = machines.iter().find(|(_, placement)| *placement == "siblings")?;
    let of = |role: &str| {
        view.by_size(case, "misses_per_probe", BEST_HELPER, |row| {
            (row.text("hierarchy"), row.text("placement")) == *machine && row.text("thread_role") == role
        })
    };
    let shares = of("main").into_iter().zip(of("helper"));
    let best = shares
        .map(|((_, main), (_, helper))| helper / (main + helper).max(f64::MIN_POSITIVE) * 100.0)
        .max_by(f64::total_cmp)?;
    let what = format!(
        "simulated on siblings of {}, it takes up to",
        machine.0.replace('_', " ")
    );
    gain(paper, percent, (&what, &what), Some(best))
}

/// The two threads of a bi-threaded operator together miss as often as one thread does.
fn shared_misses(view: View<'_>, case: &str) -> Option<Finding> {
    let machines = view.machines(case);
    let machine = *machines.iter().find(|(_, placement)| *placement == "siblings")?;
    let misses = |mode: &str, role: &str| {
        view.value(case, "misses_per_probe", mode, |row| {
            (row.text("hierarchy"), row.text("placement")) == machine && row.text("thread_role") == role
        })
    };
    let serial = misses("one/plain", "main")?;
    let both = misses(BI_THREADED, "main")? + misses(BI_THREADED, "worker1")?;
    Some(Finding::order(
        "a bi-threaded operator misses about as often as one thread, spread over two (section 6.2)",
        (both / serial.max(f64::MIN_POSITIVE) - 1.0).abs() < 0.1,
        format!("simulated on siblings, {both:.2} misses a probe against {serial:.2}"),
    ))
}

/// Simulated events: backward least, waiting forward most, fewer in larger sets.
fn events(view: View<'_>, case: &str) -> Vec<Option<Finding>> {
    let at = |helper: &str| view.by_size(case, "machine_clears_per_probe", helper, |_| true);
    let common = |points: &[(f64, f64)]| points.iter().find(|point| point.0 == 128.0).map(|point| point.1);
    let least = || {
        let (backward, forward, waiting) = (at(BEST_HELPER), at("forward"), at("forward-spin"));
        let (b, f, w) = (common(&backward)?, common(&forward)?, common(&waiting)?);
        Some(Finding::order(
            "backward preloading interferes least, waiting forward most (section 6.1)",
            b < f && f <= w,
            format!(
                "simulated at 128 lines, {b:.2} events a probe backward, {f:.2} forward, {w:.2} forward and waiting"
            ),
        ))
    };
    let fewer = || {
        let points = at(BEST_HELPER);
        let (first, last) = (points.first()?, points.last()?);
        Some(Finding::order(
            "larger sets interfere less (section 6.1)",
            last.1 < first.1,
            format!(
                "simulated, {:.3} events a probe at {} lines, {:.3} at {}",
                first.1, first.0, last.1, last.0
            ),
        ))
    };
    vec![least(), fewer()]
}

fn bi_threading_first(view: View<'_>, case: &str) -> Option<Finding> {
    let [parallel, bi, set] = [PARALLEL, BI_THREADED, WORK_AHEAD].map(|mode| view.ratio(case, mode));
    let (parallel, bi, set) = (parallel?, bi?, set?);
    Some(Finding::order(
        "over columns, bi-threading gains most; independent operators and the set gain similarly little (section 6.4)",
        bi > set && bi >= parallel * 0.95,
        format!(
            "bi-threading runs at {bi:.2}x, independent operators at {parallel:.2}x, the set at {set:.2}x of serial speed"
        ),
    ))
}

fn prefetch_is_idle(view: View<'_>, case: &str) -> Option<Finding> {
    let one_thread = view.ratios(case).filter(|(row, _)| {
        row.text("threads") == "one" && row.text("prefetch") != "none" && row.text("mode") != "auto"
    });
    let best = one_thread
        .map(|(_, spread)| spread.median)
        .max_by(f64::total_cmp)?;
    Some(Finding::order(
        "prefetch instructions change nothing, most of them seem to be dropped (appendix A)",
        best < 1.05,
        format!("on one thread they run at up to {best:.2}x of serial speed"),
    ))
}

/// An experiment is slower than the paper's set.
fn loses(view: View<'_>, case: &str, experiment: &str, paper: &str) -> Option<Finding> {
    let set = view.ratio(case, WORK_AHEAD)?;
    let tried = view.ratios(case).filter(|(row, _)| {
        let mode = row.text("mode");
        mode.starts_with(experiment) && mode != WORK_AHEAD
    });
    let best = tried.map(|(_, spread)| spread.median).max_by(f64::total_cmp)?;
    Some(Finding::order(
        paper,
        best < set,
        format!("it runs at {best:.2}x of serial speed, the set at {set:.2}x"),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gain_agrees_within_a_factor_of_two() {
        let of = |here| {
            gain("x", 30.0, ("it saves", "it loses"), Some(here))
                .expect("a number")
                .agreement
        };
        assert_eq!(of(28.0), Agreement::Agrees);
        assert_eq!((of(10.0), of(70.0)), (Agreement::Differs, Agreement::Differs));
        assert_eq!((of(1.0), of(-40.0)), (Agreement::Disagrees, Agreement::Disagrees));
        assert_eq!(gain("x", 30.0, ("it saves", "it loses"), None), None);
    }

    #[test]
    fn a_loss_is_told_as_one() {
        let told = |here| {
            gain("x", 30.0, ("it saves", "it loses"), Some(here))
                .expect("a number")
                .here
        };
        assert_eq!(
            (told(12.0), told(-75.2)),
            ("it saves 12 %".to_owned(), "it loses 75 %".to_owned())
        );
    }

    #[test]
    fn ratios_become_the_papers_percentages() {
        assert!((saved(1.5) - 33.333).abs() < 0.01);
        assert!((added(1.69) - 69.0).abs() < 1e-9);
    }
}
