//! Runs the built program and keeps what it printed.

use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

/// What a run left behind.
#[derive(Debug)]
pub struct Run {
    /// The exit code.
    pub code: i32,
    /// Standard output.
    pub out: String,
    /// Standard error.
    pub err: String,
}

impl Run {
    /// Whether standard output has `words`, wherever its paragraphs break lines.
    #[allow(dead_code, reason = "not every test binary that shares this module needs it")]
    pub fn says(&self, words: &str) -> bool {
        let unbroken: Vec<_> = self.out.split_whitespace().collect();
        unbroken.join(" ").contains(words)
    }
}

/// Runs `corun` in `folder` with `input` on stdin.
pub fn corun_in(folder: &Path, arguments: &[&str], input: &str) -> Run {
    let mut child = Command::new(crate::PROGRAM)
        .args(arguments)
        .current_dir(folder)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program starts");
    let mut stdin = child.stdin.take().expect("piped");
    // The program may leave without reading; then there is nobody to write to.
    let _ = stdin.write_all(input.as_bytes());
    drop(stdin);
    let output = child.wait_with_output().expect("the program ends");
    Run {
        code: output.status.code().expect("it was not killed"),
        out: String::from_utf8(output.stdout).expect("text"),
        err: String::from_utf8(output.stderr).expect("text"),
    }
}

/// Runs `corun` in the temporary folder.
#[allow(dead_code, reason = "not every test binary that shares this module needs it")]
pub fn corun(arguments: &[&str]) -> Run {
    corun_in(&std::env::temp_dir(), arguments, "")
}

/// Checks that a run failed with this code and exactly one `error:` line that contains `primary`, followed by nothing but
/// `detail:` and `hint:` lines, one of which contains `more` (unless that is empty).
#[allow(dead_code, reason = "not every test binary that shares this module needs it")]
pub fn check_error(run: &Run, code: i32, primary: &str, more: &str) {
    assert_eq!(run.code, code, "{run:?}");
    let mut lines = run.err.lines();
    let first = lines.next().unwrap_or_default();
    assert!(first.starts_with("error: ") && first.contains(primary), "{run:?}");
    let rest: Vec<&str> = lines.collect();
    assert!(
        rest.iter()
            .all(|line| line.starts_with("detail: ") || line.starts_with("hint: ")),
        "{run:?}"
    );
    assert!(
        more.is_empty() || rest.iter().any(|line| line.contains(more)),
        "{run:?}"
    );
    assert!(
        !run.err.contains("backtrace") && !run.err.contains("panicked"),
        "{run:?}"
    );
}
