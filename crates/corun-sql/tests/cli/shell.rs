//! The shell at a terminal: prompts, widths, the pager, Ctrl-C.

use crate::terminal::Terminal;

const PROMPT: &str = "corun> ";
const CTRL_C: &str = "\u{3}";
const CTRL_D: &str = "\u{4}";

fn shell(size: (u16, u16), environment: &[(&str, &str)]) -> (Terminal, tempfile::TempDir) {
    let folder = tempfile::tempdir().expect("a folder");
    let mut terminal = Terminal::start(size, folder.path(), environment, "sql");
    terminal.wait_for(PROMPT);
    (terminal, folder)
}

/// Types a text, and waits for the next prompt; what was shown between, without the echo.
fn answer(terminal: &mut Terminal, text: &str) -> String {
    terminal.type_keys(&format!("{text}\r"));
    // The echo ends with the line.
    terminal.wait_for("\n");
    terminal.wait_for(PROMPT)
}

#[test]
fn tables_fit_the_terminal_and_records_are_proposed() {
    for (columns, cut) in [(80, 'x'), (120, 'x')] {
        let (mut terminal, _folder) = shell((columns, 24), &[("PAGER", "")]);
        let shown = answer(
            &mut terminal,
            "select repeat('x', 300) as a, 1 as b, '漢字' as c;",
        );
        let lines: Vec<&str> = shown.lines().filter(|line| line.contains('\u{2026}')).collect();
        assert_eq!(lines.len(), 1, "{shown:?}");
        assert!(
            lines[0].contains(&format!("{cut}\u{2026} | 1 | 漢字")),
            "{shown:?}"
        );
        // Two of the characters are wide.
        assert_eq!(
            lines[0].trim_end().chars().count() + 2,
            columns as usize,
            "{shown:?}"
        );
        assert!(
            shown.contains("cells cut; \\x auto shows them whole)"),
            "{shown:?}"
        );
        answer(&mut terminal, "\\x auto");
        let shown = answer(&mut terminal, "select repeat('x', 300) as a, 1 as b;");
        assert!(
            shown.contains("-[ RECORD 1 ]-") && shown.contains("b | 1"),
            "{shown:?}"
        );
        terminal.type_keys(CTRL_D);
        assert_eq!(terminal.end(), Some(0));
    }
}

#[test]
fn a_statement_may_span_lines_and_comes_back_whole() {
    let (mut terminal, _folder) = shell((80, 24), &[]);
    terminal.type_keys("select 'one;\r");
    terminal.wait_for("corun-> ");
    terminal.type_keys("two' as word\r");
    terminal.wait_for("corun-> ");
    let shown = answer(&mut terminal, ";");
    assert!(shown.contains("one;\\ntwo"), "{shown:?}");
    // The arrow up brings it back.
    terminal.type_keys("\u{1b}[A");
    terminal.wait_for("word");
    let shown = answer(&mut terminal, "");
    assert!(shown.contains("one;\\ntwo"), "{shown:?}");
    let shown = answer(&mut terminal, ".tables");
    assert!(shown.contains("hint: \\dt lists tables"), "{shown:?}");
    terminal.type_keys("\\q\r");
    assert_eq!(terminal.end(), Some(0));
}

#[test]
fn what_does_not_fit_the_screen_goes_through_the_pager() {
    let (mut terminal, _folder) = shell((80, 24), &[("PAGER", "sed 's/^/paged:/'")]);
    let long = "select * from generate_series(1, 30) as t(n);";
    let shown = answer(&mut terminal, long);
    assert!(
        shown.contains("paged:") && shown.contains("(30 rows"),
        "{shown:?}"
    );
    let short = "select * from generate_series(1, 10) as t(n);";
    assert!(!answer(&mut terminal, short).contains("paged:"));
    answer(&mut terminal, "\\pset pager always");
    assert!(answer(&mut terminal, short).contains("paged:"));
    answer(&mut terminal, "\\pset pager off");
    assert!(!answer(&mut terminal, long).contains("paged:"));
    // A file gets all of it, and nobody pages it.
    answer(&mut terminal, "\\pset pager on");
    assert!(
        !answer(
            &mut terminal,
            &format!("{} \\g all.txt", long.trim_end_matches(';'))
        )
        .contains("paged:")
    );
}

#[test]
fn a_pager_that_is_left_early_ends_the_statement() {
    let (mut terminal, _folder) = shell((80, 24), &[("PAGER", "head -n 3")]);
    let shown = answer(
        &mut terminal,
        "select * from generate_series(1, 1000000000) as t(n);",
    );
    assert!(!shown.contains("error"), "{shown:?}");
    let (mut terminal, _folder) = shell((80, 24), &[("PAGER", "no-such-pager-anywhere")]);
    let shown = answer(&mut terminal, "select * from generate_series(1, 100000) as t(n);");
    assert!(
        shown.contains("error: the pager \"no-such-pager-anywhere\" cannot be run"),
        "{shown:?}"
    );
}

#[test]
fn ctrl_c_stops_what_runs_and_nothing_else() {
    let (mut terminal, _folder) = shell((80, 24), &[]);
    terminal.type_keys("select 1 as one \\watch 0.01\r");
    terminal.wait_for("run 3, every 0.01 s");
    terminal.type_keys(CTRL_C);
    terminal.wait_for("cancelled");
    terminal.wait_for(PROMPT);
    terminal.type_keys("select count(*) from generate_series(1, 1000000000000);\r");
    std::thread::sleep(std::time::Duration::from_millis(300));
    terminal.type_keys(CTRL_C);
    terminal.wait_for("cancelled");
    terminal.wait_for(PROMPT);
    let shown = answer(&mut terminal, "select 41 + 1 as n;");
    assert!(shown.contains("42"), "{shown:?}");
}
