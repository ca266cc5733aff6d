//! What the paper states, and what this run says to it. Sentences are made of the rows: nothing here knows how it comes out.

use super::super::figures as cases;
use super::super::rows::metric;
use super::view::View;
use lab_core::report::finding::{Agreement, Finding};
use lab_core::row::Row;

/// Below this a gain is no gain.
const PERCENT_MIN: f64 = 2.0;

fn percent(paper: &str, paper_percent: f64, what: &str, here: Option<f64>) -> Option<Finding> {
    let here = here?;
    Some(Finding {
        paper: paper.to_owned(),
        here: format!("{what} {here:.0} %"),
        agreement: Agreement::of_percent(paper_percent, here, PERCENT_MIN),
    })
}

fn is(row: &Row, mode: &str, points: &str) -> bool {
    row.text("mode") == mode && (points.is_empty() || row.text("points") == points)
}

/// What the paper says about a case that this run has numbers for.
pub(super) fn of(view: View<'_>, case: &str) -> Vec<Finding> {
    let saved = |row: &Row| is(row, "held_team", "");
    let findings = match case {
        cases::FIGURE_5 => {
            let judged = view.judged(case);
            let at = |metric: &str, cache: &str| {
                view.value(case, metric, |row| {
                    saved(row)
                        && row.text("cache") == cache
                        && row.number("team_size") == Some(10.0)
                        && Some(row.text("l1i")) == judged
                })
            };
            vec![
                percent(
                    "a team of ten misses 82 to 87 % less, warm and cold (section 3.4.1)",
                    82.0,
                    "at the judged cache, warm, a team of ten that stays together saves",
                    at(metric::REDUCTION, "warm"),
                ),
                percent(
                    "each additional thread misses 91 % less, warm (33 of 373; section 3.4.1)",
                    91.0,
                    "at the judged cache, warm, each additional member saves",
                    at(metric::MEMBER_REDUCTION, "warm"),
                ),
                percent(
                    "each additional thread misses 96 % less, cold (33 of 985; section 3.4.1)",
                    96.0,
                    "at the judged cache, cold, each additional member saves",
                    at(metric::MEMBER_REDUCTION, "cold"),
                ),
            ]
        }
        cases::FIGURE_6 => vec![speed(
            view,
            case,
            "ten threads run 31 % faster (section 3.4.2)",
            31.0,
            10.0,
            |row| is(row, "team", "default") && row.parameter("float") == Some(&false.into()),
        )],
        cases::FIGURE_9 => {
            let of = |metric: &str, mode: &str| {
                view.value(case, metric, |row| {
                    is(row, mode, "")
                        && row.text("processor") == "athlon_xp"
                        && row.number("divisor") != Some(1.0)
                })
            };
            let fewer = of(metric::MISPREDICTS, "serial")
                .zip(of(metric::MISPREDICTS, "held_team"))
                .map(|(serial, team)| (1.0 - team / serial) * 100.0);
            vec![percent(
                "64 % fewer mispredicted branches (section 3.4.4)",
                64.0,
                "with a simple simulated predictor a team saves",
                fewer,
            )]
        }
        cases::FIGURE_13 => vec![
            percent(
                "Payment misses 60 to 65 % less (section 4.3)",
                60.0,
                "at a 16 KiB cache it saves up to",
                best(view, case, "16k/8/64"),
            ),
            speed(
                view,
                case,
                "Payment runs 16 to 39 % faster (section 4.3)",
                16.0,
                0.0,
                |row| is(row, "team", ""),
            ),
        ],
        cases::FIGURE_14 => vec![percent(
            "the mix misses 56 % less (section 4.3)",
            56.0,
            "at a 16 KiB cache it saves up to",
            best(view, case, "16k/8/64"),
        )],
        _ => Vec::new(),
    };
    findings.into_iter().flatten().collect()
}

fn best(view: View<'_>, case: &str, l1i: &str) -> Option<f64> {
    let rows = view.metric(case, metric::REDUCTION);
    rows.filter(|row| row.text("mode") == "team" && row.text("l1i") == l1i)
        .filter_map(Row::median)
        .max_by(f64::total_cmp)
}

/// The best speed of a team over serial execution, in percent; `size` 0 is any.
fn speed(
    view: View<'_>,
    case: &str,
    paper: &str,
    paper_percent: f64,
    size: f64,
    wanted: impl Fn(&Row) -> bool,
) -> Option<Finding> {
    let ratios = view.metric(case, metric::RATIO);
    let ratio = ratios
        .filter(|row| wanted(row) && (size == 0.0 || row.number("team_size") == Some(size)))
        .filter_map(Row::median)
        .max_by(f64::total_cmp)?;
    let gain = (ratio - 1.0) * 100.0;
    Some(Finding {
        paper: paper.to_owned(),
        here: format!("at best {ratio:.2}x of serial speed"),
        agreement: Agreement::of_percent(paper_percent, gain, PERCENT_MIN),
    })
}
