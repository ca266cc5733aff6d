//! The design's absences, checked on the sources: where `unsafe` may stand, where DataFusion's types may be named, that `model`
//! reads neither clock nor file nor random number, that no file knows the machine it was written on, and the length of files.

use crate::common::{code_only, crate_of, files, has_word, read, root};

/// Crates that may contain `unsafe`.
const MAY_BE_UNSAFE: &[&str] = &["exec", "machine", "net", "python", "resctrl", "store", "topology"];

/// Longest Rust file; past it a second noun has appeared.
const LINES_MAX: usize = 700;

fn rust_files() -> Vec<(String, String)> {
    let sources: Vec<(String, String)> = files()
        .into_iter()
        .filter(|file| (file.starts_with("crates/") || file.starts_with("lab/")) && file.ends_with(".rs"))
        .map(|file| (file.clone(), read(&file)))
        .collect();
    assert!(sources.len() > 6, "found only {} Rust files", sources.len());
    sources
}

/// First line that has `word` as code, counted from one.
fn line_with(code: &str, word: &str) -> Option<usize> {
    code.lines()
        .position(|line| has_word(line, word))
        .map(|line| line + 1)
}

#[test]
fn unsafe_stays_in_the_crates_that_may_have_it() {
    let mut wrong = Vec::new();
    for (file, source) in rust_files() {
        let owner = crate_of(&file).expect("below crates/ or lab/");
        if !MAY_BE_UNSAFE.contains(&owner)
            && let Some(line) = line_with(&code_only(&source), "unsafe")
        {
            wrong.push(format!("{file}:{line}"));
        }
    }
    assert!(
        wrong.is_empty(),
        "`unsafe` outside {MAY_BE_UNSAFE:?}:\n{}",
        wrong.join("\n")
    );
}

/// Whether this code names a module of DataFusion, as opposed to a variable or a text that happens to be called so.
fn names_datafusion(line: &str) -> bool {
    let line = line.trim_start().trim_start_matches("pub ");
    let imported = ["use ", "extern crate "].iter().any(|word| {
        line.strip_prefix(word)
            .is_some_and(|path| path.trim_start_matches("::").starts_with("datafusion"))
    });
    imported
        || line.match_indices("datafusion").any(|(at, _)| {
            // `corun_datafusion` is ours.
            if line[..at].ends_with(|c: char| c.is_alphanumeric() || c == '_') {
                return false;
            }
            let rest = line[at..].trim_start_matches(|c: char| c.is_alphanumeric() || c == '_');
            rest.starts_with("::")
        })
}

#[test]
fn datafusion_is_named_in_few_crates_only() {
    let mut wrong = Vec::new();
    for (file, source) in rust_files() {
        if !matches!(
            crate_of(&file),
            Some("datafusion" | "distributed" | "python" | "server")
        ) && let Some(line) = code_only(&source).lines().position(names_datafusion)
        {
            wrong.push(format!("{file}:{}", line + 1));
        }
    }
    assert!(
        wrong.is_empty(),
        "DataFusion's types outside `corun-datafusion`, `corun-distributed`, `corun-python` and `corun-server`:\n{}",
        wrong.join("\n")
    );
}

/// Parts of the standard library that reach the outside world or a clock.
const OUTSIDE: &[&str] = &["fs", "io", "net", "env", "process", "thread", "os"];
/// Names that read a clock or a random number, or wait.
const IMPURE: &[&str] = &[
    "Instant",
    "SystemTime",
    "tokio",
    "rand",
    "RandomState",
    "thread_local",
    "static mut",
];

/// What in this code reaches outside, if anything.
fn impure(code: &str) -> Option<String> {
    if let Some(word) = IMPURE.iter().find(|word| has_word(code, word)) {
        return Some((*word).to_owned());
    }
    let dense: String = code.split_whitespace().collect();
    for (at, _) in dense.match_indices("std::") {
        let path = &dense[at + 5..];
        let parts = match path.strip_prefix('{') {
            // `use std::{fmt, fs::File}`: every branch counts.
            Some(branches) => branches.split(';').next().unwrap_or_default(),
            None => path
                .split(|c: char| !(c.is_alphanumeric() || c == '_'))
                .next()
                .unwrap_or_default(),
        };
        if let Some(part) = OUTSIDE.iter().find(|part| has_word(parts, part)) {
            return Some(format!("std::{part}"));
        }
    }
    None
}

#[test]
fn model_reads_no_clock_no_file_no_random_number() {
    let mut seen = 0;
    for (file, source) in rust_files() {
        if file.starts_with("crates/model/src/") {
            seen += 1;
            assert_eq!(impure(&code_only(&source)), None, "{file} must stay pure");
        }
    }
    assert!(seen > 0, "no sources of model found");
}

#[test]
fn no_file_knows_the_machine_it_was_written_on() {
    // Put together here, so that this file does not contain them.
    let folders = ["root", "home", "Users", "work"].map(|folder| format!("/{folder}/"));
    let mut wrong = Vec::new();
    for file in files() {
        let bytes = std::fs::read(root().join(&file)).expect("readable");
        let text = String::from_utf8_lossy(&bytes);
        for (number, line) in text.lines().enumerate() {
            // Longer words, relative paths and web addresses are not absolute paths.
            let absolute = |folder: &String| {
                line.match_indices(folder.as_str()).any(|(at, _)| {
                    !line[..at]
                        .chars()
                        .next_back()
                        .is_some_and(|c| c.is_alphanumeric() || "._-)}]$~*>".contains(c))
                })
            };
            if folders.iter().any(absolute) {
                wrong.push(format!(
                    "{file}:{}: {}",
                    number + 1,
                    line.trim().chars().take(120).collect::<String>()
                ));
            }
        }
    }
    assert!(
        wrong.is_empty(),
        "paths of somebody's machine:\n{}",
        wrong.join("\n")
    );
}

#[test]
fn files_stay_short_and_modules_open_with_their_purpose() {
    let mut wrong = Vec::new();
    for (file, source) in rust_files() {
        let lines = source.lines().count();
        if lines > LINES_MAX {
            wrong.push(format!("{file}: {lines} lines (at most {LINES_MAX})"));
        }
        let opening = source
            .lines()
            .find(|line| !line.trim().is_empty() && !line.starts_with("#!"));
        if !opening.is_some_and(|line| line.starts_with("//!")) {
            wrong.push(format!("{file}: does not open with `//!`"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn the_scanners_see_what_they_look_for() {
    let source = "// unsafe here\nlet a = \"unsafe\"; /* unsafe /* nested */ unsafe */ let q = '\"'; r#\"unsafe \" \"#;\nfn f<'a>(x: &'a str) { unsafe { g() } }\n";
    let code = code_only(source);
    assert_eq!(code.lines().count(), source.lines().count());
    assert_eq!(line_with(&code, "unsafe"), Some(3));
    assert_eq!(
        line_with(
            &code_only("#![forbid(unsafe_code)] // unsafe\n'\\'' \"un\\\"safe unsafe\""),
            "unsafe"
        ),
        None
    );

    assert!(names_datafusion("use datafusion::prelude::*;"));
    assert!(names_datafusion("pub use datafusion_common as common;"));
    assert!(names_datafusion("let x: datafusion_expr::Expr = y;"));
    assert!(names_datafusion("engine::datafusion::x()"));
    assert!(!names_datafusion("let datafusion = row(side);"));
    assert!(!names_datafusion("use corun_datafusion::Engine;"));

    assert_eq!(impure("let x = std::fs::read(p);"), Some("std::fs".to_owned()));
    assert_eq!(
        impure("use std::{collections::BTreeMap, io::Read};"),
        Some("std::io".to_owned())
    );
    assert_eq!(impure("let now = Instant::now();"), Some("Instant".to_owned()));
    assert_eq!(
        impure("use std::time::Duration; use std::{fmt, ops::Add}; let process = 1;"),
        None
    );
}

/// Hops of a simple query through the pooler, and back.
const HOPS_MAX: usize = 12;

#[test]
fn the_walk_of_a_query_is_as_architecture_tells_it() {
    let text = read("ARCHITECTURE.md");
    let mut walked: Vec<String> = Vec::new();
    for row in text
        .lines()
        .filter(|line| line.contains(" | `core/") || line.contains(" | `understand/"))
    {
        let names: Vec<&str> = row.split('`').skip(1).step_by(2).take(2).collect();
        let [file, function] = names[..] else {
            panic!("no file and function in {row}");
        };
        let source = read(&format!("crates/pooler/src/{file}"));
        let declared = format!("fn {function}");
        assert!(
            source
                .match_indices(&declared)
                .any(|(at, _)| source[at + declared.len()..].starts_with(['(', '<'])),
            "{file} has no {function}"
        );
        assert!(
            !walked.iter().any(|known| known == file),
            "{file} is entered twice"
        );
        walked.push(file.to_owned());
    }
    assert!((6..=HOPS_MAX).contains(&walked.len()), "{walked:?}");
}

#[test]
fn files_that_fuzz_targets_share_exist() {
    let mut looked_at = 0;
    for file in files()
        .into_iter()
        .filter(|file| file.starts_with("fuzz/") && file.ends_with(".rs"))
    {
        let folder = file.rsplit_once('/').map_or("", |(folder, _)| folder);
        for path in read(&file)
            .lines()
            .filter_map(|line| line.strip_prefix("#[path = \"")?.strip_suffix("\"]"))
        {
            looked_at += 1;
            assert!(
                root().join(folder).join(path).is_file(),
                "{file} shares {path}, which is not there"
            );
        }
    }
    assert!(looked_at > 6, "only {looked_at} shared files");
}
