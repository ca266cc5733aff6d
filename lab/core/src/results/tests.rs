//! Pages of small made-up lists and records.

use super::*;
use crate::row::Row;
use crate::stats::Spread;

const FILE: &str = "2026-01-31-vm/join.jsonl";

fn ratio(case: &str, versus: &str, values: &[f64]) -> Row {
    let spread = Spread::of(values).expect("numbers");
    Row::measured("join", case, "ratio", "x", spread, true)
        .versus(versus)
        .with("engine", "corun")
}

fn rate(engine: &str, value: f64) -> Row {
    Row::measured("join", "a", "tps", "1/s", Spread::one(value), true).with("engine", engine)
}

/// A win, a loss, their control, and rates of both sides.
fn rows() -> Vec<Row> {
    vec![
        rate("corun", 46_330.0),
        rate("stock", 8_625.0),
        ratio("a", "stock", &[2.0, 1.5, 12.34]).with("threads", 2usize),
        ratio("a", "peer", &[0.5, 0.6, 0.7]).with("threads", 2usize),
        ratio("a", "stock", &[0.9, 1.0, 1.1]).with("control", "a/a"),
    ]
}

fn text(rows: &[Row]) -> String {
    rows.iter().map(|row| row.to_json() + "\n").collect()
}

/// A list of one section with this run.
fn list(run: &str) -> String {
    format!(
        "introduction = \"Hello.\"\n[machines]\nvm = \"a small machine\"\n[[section]]\ntitle = \"Joins\"\nmachine = \"vm\"\n\
         notes = \"A note.\"\n[[section.run]]\n{run}"
    )
}

/// The page of a run whose file has this text.
fn page_of(run: &str, text: &str) -> Result<String, ResultsError> {
    render(&list(run), &|_| Ok(text.to_owned()))
}

/// The cells of the rows of the page's tables.
fn cells(page: &str) -> Vec<Vec<String>> {
    let lines = page.lines().filter(|line| line.starts_with("| "));
    lines
        .filter(|line| !line.starts_with("| what ") && !line.starts_with("| --- "))
        .map(|line| {
            line.trim_matches('|')
                .split('|')
                .map(|cell| cell.trim().to_owned())
                .collect()
        })
        .collect()
}

/// The error of a run of [`rows`], as people read it.
fn error_of(run: &str) -> String {
    page_of(run, &text(&rows())).expect_err(run).to_string()
}

#[test]
fn a_section_is_a_table_with_its_machine_its_records_and_its_notes() {
    let run = format!(
        "what = \"a join\"\nfile = \"{FILE}\"\nwhere = {{ case = \"a\" }}\ncontrol = {{ engine = \"corun\" }}\nresults = [\n\
         {{ what = \", fast\", versus = \"stock\", where = {{ versus = \"stock\" }}, \
         corun = {{ unit = \"k\", metric = \"tps\", engine = \"corun\" }}, other = {{ unit = \"k\", metric = \"tps\", engine = \"stock\" }} }},\n\
         {{ versus = \"a peer\", where = {{ versus = \"peer\" }} }},\n]\n"
    );
    let page = page_of(&run, &text(&rows())).expect("a page");
    assert_eq!(
        page,
        format!(
            "<!-- Made from {PUBLISHED} and the records beside it. Do not edit: {REGENERATE} -->\n\n# Results\n\nHello.\n\n\
             - vm: a small machine\n\n2 results, losses among them: 1.\n\n## Joins\n\nMachine: vm, 2026-01-31.\n\n\
             | what | versus | ratio, median (min to max) | A/A | pairs |\n| --- | --- | --- | --- | --- |\n\
             | a join, fast: 46.3 k | stock, 8.62 k | 2.00 (1.50 to 12.3) | 0.90 to 1.10 | 3 |\n\
             | the same | a peer | 0.60 (0.50 to 0.70), **loss** | 0.90 to 1.10 | 3 |\n\n\
             Records in `records/2026-01-31-vm`: `join.jsonl`.\n\nA note.\n"
        )
    );
}

#[test]
fn a_ratio_below_one_that_the_control_explains_is_no_loss() {
    let run = format!(
        "what = \"a\"\nfile = \"{FILE}\"\ncontrol = {{}}\nresults = [{{ where = {{ versus = \"stock\" }} }}]\n"
    );
    let rows = [
        ratio("a", "stock", &[0.8, 0.9, 0.95]),
        ratio("a", "stock", &[0.85, 1.0, 1.3]).with("control", "a/a"),
    ];
    let page = page_of(&run, &text(&rows)).expect("a page");
    assert_eq!(
        cells(&page),
        [["a", "", "0.90 (0.80 to 0.95)", "0.85 to 1.30", "3"]]
    );
}

#[test]
fn controls_of_several_queries_are_the_spread_of_their_medians() {
    let run = format!(
        "what = \"a\"\nfile = \"{FILE}\"\ncontrols = {{ query = [\"q1\", \"q2\"] }}\nresults = [{{ where = {{ query = \"all\" }} }}]\n"
    );
    let control = |query: &str, values: &[f64]| {
        ratio("a", "stock", values)
            .with("query", query)
            .with("control", "a/a")
    };
    let rows = [
        control("q1", &[0.1, 0.9, 1.0]),
        control("q2", &[0.9, 1.2, 9.0]),
        control("q3", &[3.0]),
        ratio("a", "stock", &[2.0, 3.0]).with("query", "all"),
    ];
    let page = page_of(&run, &text(&rows)).expect("a page");
    assert_eq!(
        cells(&page),
        [["a", "", "2.50 (2.00 to 3.00)", "0.90 to 1.20", "2"]]
    );
}

#[test]
fn a_row_without_a_control_shows_the_noise_it_knows_of() {
    let run = format!("what = \"a\"\nfile = \"{FILE}\"\nresults = [{{ }}]\n");
    let row = ratio("a", "stock", &[2.0])
        .with("noise_low", 0.934_193)
        .with("noise_high", 1.070_44);
    let page = page_of(&run, &text(&[row])).expect("a page");
    assert_eq!(cells(&page), [["a", "", "2.00", "0.93 to 1.07", "1"]]);
}

#[test]
fn a_number_that_is_no_ratio_has_its_unit() {
    let run = format!(
        "what = \"rows a second\"\nfile = \"{FILE}\"\nwhere = {{ metric = \"rows_per_s\" }}\nresults = [{{ unit = \"M\" }}]\n"
    );
    let spread = Spread::of(&[420_000.0, 4_720_000.0, 4_736_000.0]).expect("numbers");
    let row = Row::simulated("join", "a", "rows_per_s", "1/s", spread, true);
    let page = page_of(&run, &text(&[row])).expect("a page");
    assert_eq!(
        cells(&page),
        [["rows a second", "", "4.72 M (0.42 to 4.74), simulated", "", "3"]]
    );
}

#[test]
fn turns_by_hand_are_paired_round_by_round() {
    let run = "what = \"8 clients\"\nfile = \"by-hand.jsonl\"\nwhere = { case = \"c8\" }\n\
               control = { side = \"corun_again\", versus = \"corun\" }\n\
               results = [{ versus = \"peer\", where = { side = \"corun\", versus = \"peer\" }, \
               corun = { unit = \"k\", metric = \"tps\", side = \"corun\" } }]\n";
    let turns = "{\"case\": \"c8\", \"side\": \"corun\", \"rounds\": 3, \"tps\": [100, 300, 200]}\n\
                 {\"case\": \"c8\", \"side\": \"peer\", \"rounds\": 3, \"tps\": [100, 200, 100]}\n\
                 {\"case\": \"c8\", \"side\": \"corun_again\", \"rounds\": 3, \"tps\": [110, 300, 180]}\n\
                 {\"case\": \"c9\", \"side\": \"peer\", \"rounds\": 3, \"tps\": [1, 1, 1]}\n\
                 {\"case\": \"c8\", \"side\": \"short\", \"rounds\": 1, \"tps\": [7]}\n";
    let page = page_of(run, turns).expect("a page");
    assert_eq!(
        cells(&page),
        [[
            "8 clients: 0.20 k",
            "peer",
            "1.50 (1.00 to 2.00), by hand",
            "0.90 to 1.10",
            "3"
        ]]
    );
}

#[test]
fn the_first_side_of_the_teams_example_is_the_baseline_and_its_second_run_the_control() {
    let run = "what = \"teams\"\nfile = \"teams.jsonl\"\nwhere = { case = \"even 5 0.4 7 off:1\" }\ncontrol = {}\n\
               results = [{ where = { side = \"on:8\" } }]\n";
    let side = |arguments: &str, side: &str, ratio: f64| {
        format!(
            "{{\"example\": \"teams\", \"arguments\": \"{arguments}\", \"side\": \"{side}\", \"tps\": 7, \"ratio\": {ratio}, \
             \"ratio_min\": {}, \"ratio_max\": {}}}\n",
            ratio - 0.1,
            ratio + 0.1
        )
    };
    let lines: String = [("even 5 0.4 7 off:1", 1.4), ("tpcc 5 0.4 7 off:1", 0.4)]
        .map(|(arguments, ratio)| {
            side(arguments, "off:1", 1.0) + &side(arguments, "off:1", 1.05) + &side(arguments, "on:8", ratio)
        })
        .concat();
    let page = page_of(run, &lines).expect("a page");
    assert_eq!(
        cells(&page),
        [["teams", "", "1.40 (1.30 to 1.50)", "0.95 to 1.15", "7"]]
    );
}

#[test]
fn a_number_that_is_shown_is_quoted_or_has_no_record() {
    let page = page_of(
        "what = \"a\"\nresults = [{ shown = \"3.35\", shown_control = \"1.0\" }]\n",
        "",
    )
    .expect("a page");
    assert_eq!(cells(&page), [["a", "", "3.35, no record", "1.0", ""]]);
    assert!(page.contains("No record was kept."), "{page}");

    let run = |quote: &str| {
        format!(
            "what = \"a\"\nfile = \"2026-01-31-vm/a.txt\"\nresults = [{{ shown = \"1.02\", shown_pairs = 30, quotes = [\"{quote}\"] }}]\n"
        )
    };
    let table = "case   side   median\nc1   corun   1.02\nc1   corun   1.03\n";
    let page = page_of(&run("corun 1.02"), table).expect("a page");
    assert_eq!(cells(&page), [["a", "", "1.02", "", "30"]]);
    for (quote, count) in [("corun 1.0", 0), ("c1 corun", 2)] {
        let error = page_of(&run(quote), table).expect_err(quote).to_string();
        let wanted = format!(
            "the result \"a\": \"{quote}\" stands {count} times in records/2026-01-31-vm/a.txt, not once"
        );
        assert!(error.contains(&wanted), "{error}");
    }
}

#[test]
fn an_entry_must_find_one_row() {
    let run = |result: &str| {
        format!("what = \"a join\"\nfile = \"{FILE}\"\nresults = [{{ versus = \"stock\", {result} }}]\n")
    };
    let start = "records/published.toml: the result \"a join, versus stock\": ";
    for (result, wanted) in [
        (
            "where = { versus = \"nobody\", threads = 2 }",
            format!("no row of records/{FILE} has metric = \"ratio\", threads = 2, versus = \"nobody\""),
        ),
        (
            "where = { case = \"a\" }",
            format!("2 rows of records/{FILE} have case = \"a\", metric = \"ratio\"; they differ in versus"),
        ),
        (
            "where = { threads = \"2\" }",
            format!("no row of records/{FILE} has metric = \"ratio\", threads = \"2\""),
        ),
        (
            "where = { versus = \"peer\" }, unit = \"stone\"",
            "there is no unit \"stone\"".to_owned(),
        ),
        (
            "where = { versus = \"peer\" }, other = { unit = \"k\", metric = \"tps\" }",
            format!("2 rows of records/{FILE} have metric = \"tps\"; they differ in engine"),
        ),
        (
            "shown = \"2\"",
            format!("a number that is `shown` needs `quotes` of its record, records/{FILE}"),
        ),
    ] {
        assert_eq!(error_of(&run(result)), format!("{start}{wanted}"));
    }
}

#[test]
fn a_wrong_answer_and_a_missing_number_are_not_published() {
    let run = format!("what = \"a\"\nfile = \"{FILE}\"\nresults = [{{ }}]\n");
    let wrong = Row {
        answer_ok: Some(false),
        ..ratio("a", "stock", &[2.0])
    };
    let error = page_of(&run, &text(&[wrong])).expect_err("wrong").to_string();
    assert!(error.ends_with("has a wrong answer"), "{error}");
    let gone = Row::unavailable("join", "a", "ratio", "x", "no peer");
    let error = page_of(&run, &text(&[gone])).expect_err("none").to_string();
    assert!(error.ends_with("is unavailable"), "{error}");
}

#[test]
fn damaged_inputs_are_named() {
    let run = format!("what = \"a\"\nfile = \"{FILE}\"\nresults = [{{ }}]\n");
    let error = page_of(&run, "{\"suite\":\"join\"}\n")
        .expect_err("no row")
        .to_string();
    assert!(error.starts_with(&format!("records/{FILE}, line 1: ")), "{error}");
    let error = page_of("what = \"a\"\nresults = [{ versus = \"b\" }]\n", "")
        .expect_err("nothing")
        .to_string();
    assert!(
        error.ends_with("it has neither a `file` nor a number that is `shown`"),
        "{error}"
    );
    let error = page_of("what = \"a\"\nwhat_not = 1\nresults = []\n", "")
        .expect_err("a key")
        .to_string();
    assert!(
        error.starts_with("records/published.toml: ") && error.contains("what_not"),
        "{error}"
    );
    let elsewhere = list("what = \"a\"\nresults = []\n").replace("machine = \"vm\"", "machine = \"pc\"");
    let error = render(&elsewhere, &|_| Ok(String::new()))
        .expect_err("a machine")
        .to_string();
    assert!(error.contains("\"Joins\" names the machine \"pc\""), "{error}");
}
