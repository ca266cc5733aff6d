//! The documents are true: every command of `corun`, `corun-sql` and `corun-lab` in a block marked `sh` runs and succeeds, with every `cc` command before it, every `make` target and script named
//! exists, every relative link leads somewhere, and the manual's contents list every page.
//!
//! Blocks marked `console` are a command after `$` and exactly what it prints. Blocks marked `text` are drawings or commands
//! too long for a test; they are not run. Blocks marked `rust` are doctests of the crate that includes the document.

use std::collections::BTreeSet;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use crate::common::{files, read, root};

/// Longest a documented command may take; each is meant to answer in seconds.
const TIME_LIMIT: Duration = Duration::from_secs(180);

/// The folder with the programs; `make test` builds all three before.
pub fn programs() -> &'static Path {
    let folder = Path::new(crate::PROGRAM).parent().expect("a folder");
    for name in ["corun", "corun-sql"] {
        assert!(
            folder.join(name).is_file(),
            "{name} is not built: run `make build` before"
        );
    }
    folder
}

fn documents() -> Vec<String> {
    let documents: Vec<String> = files()
        .into_iter()
        .filter(|file| file.ends_with(".md") && (!file.contains('/') || file.starts_with("docs/src/")))
        .collect();
    for expected in [
        "README.md",
        "ARCHITECTURE.md",
        "CHANGELOG.md",
        "docs/src/SUMMARY.md",
    ] {
        assert!(
            documents.iter().any(|file| file == expected),
            "{expected} is missing"
        );
    }
    documents
}

/// The lines of every fenced block whose language is `language`, with continuation lines (`\` at the end) joined.
fn blocks(text: &str, language: &str) -> Vec<Vec<String>> {
    let mut blocks = Vec::new();
    let mut inside = false;
    let mut wanted = false;
    let mut continued = false;
    for line in text.lines() {
        if let Some(info) = line.trim_start().strip_prefix("```") {
            inside = !inside;
            wanted = inside && info.trim() == language;
            continued = false;
            if wanted {
                blocks.push(Vec::new());
            }
        } else if wanted {
            let block: &mut Vec<String> = blocks.last_mut().expect("a block is open");
            let (part, more) = match line.strip_suffix('\\') {
                Some(part) => (part.trim(), true),
                None => (line.trim(), false),
            };
            match block.last_mut() {
                Some(last) if continued => {
                    last.push(' ');
                    last.push_str(part);
                }
                _ => block.push(part.to_owned()),
            }
            continued = more;
        }
    }
    assert!(!inside, "a fenced block is not closed");
    blocks
}

/// Runs one documented line in `folder` with the three programs on the path: whether it succeeded, and what it printed. `None`: it took
/// too long.
fn execute(line: &str, folder: &Path) -> Option<(ExitStatus, String)> {
    let path = format!(
        "{}:{}",
        programs().display(),
        std::env::var("PATH").unwrap_or_default()
    );
    let log = folder.join(".command.log");
    let output = std::fs::File::create(&log).expect("log created");
    let mut child = Command::new("sh")
        .args(["-c", line])
        .current_dir(folder)
        .env("PATH", path)
        // The shell's history and the like stay in the scratch folder.
        .env("HOME", folder)
        .stdin(Stdio::null())
        .stdout(output.try_clone().expect("log shared"))
        .stderr(output)
        .process_group(0)
        .spawn()
        .expect("sh runs");
    let started = Instant::now();
    let status = loop {
        if let Some(status) = child.try_wait().expect("the child can be waited for") {
            break status;
        }
        if started.elapsed() > TIME_LIMIT {
            // The whole group: a killed `sh` would leave its program running.
            let _ = Command::new("kill")
                .args(["-KILL", "--", &format!("-{}", child.id())])
                .status();
            let _ = child.wait();
            return None;
        }
        std::thread::sleep(Duration::from_millis(20));
    };
    let text = String::from_utf8_lossy(&std::fs::read(&log).expect("log readable")).into_owned();
    Some((status, text))
}

/// [`execute`]s a line that must succeed. `Err` tells what went wrong.
fn run(line: &str, folder: &Path) -> Result<(), String> {
    let Some((status, text)) = execute(line, folder) else {
        return Err(format!("still running after {} s", TIME_LIMIT.as_secs()));
    };
    if status.success() {
        return Ok(());
    }
    let tail: Vec<&str> = text.lines().rev().take(12).collect();
    Err(format!(
        "{status}\n    {}",
        tail.into_iter().rev().collect::<Vec<_>>().join("\n    ")
    ))
}

#[test]
fn documented_commands_succeed() {
    let mut ran = 0;
    let mut seen = BTreeSet::new();
    let mut wrong = Vec::new();
    for file in documents() {
        // One folder for each document, so that a later command may read what an earlier one wrote.
        let folder = tempfile::tempdir().expect("a scratch folder");
        // Programs of the repository that a document compiles.
        for name in ["crates", "lab"] {
            std::os::unix::fs::symlink(root().join(name), folder.path().join(name)).expect("a link");
        }
        for line in blocks(&read(&file), "sh")
            .into_iter()
            .flatten()
            .filter(|line| line.starts_with("corun") || line.starts_with("cc "))
        {
            // A command that several pages show runs once, unless it leaves a file for the next.
            if !seen.insert(line.clone()) && !line.contains('.') {
                continue;
            }
            ran += usize::from(line.starts_with("corun"));
            if let Err(error) = run(&line, folder.path()) {
                wrong.push(format!("{file}: {line}\n    {error}"));
            }
        }
    }
    assert!(ran >= 10, "only {ran} documented commands were found");
    assert!(
        wrong.is_empty(),
        "documented commands fail:\n{}",
        wrong.join("\n")
    );
}

#[test]
fn documented_output_is_what_the_program_prints() {
    let folder = tempfile::tempdir().expect("a scratch folder");
    let mut seen = 0;
    for file in documents() {
        for block in blocks(&read(&file), "console") {
            let line = block[0].strip_prefix("$ ").expect("a command after `$`");
            let (_, printed) = execute(line, folder.path()).expect("an answer in time");
            let printed: Vec<&str> = printed.lines().map(str::trim_end).collect();
            assert_eq!(printed, block[1..], "{file}: {line}");
            seen += 1;
        }
    }
    assert!(seen > 0, "no documented output was found");
}

#[test]
fn a_failing_command_is_noticed() {
    let folder = tempfile::tempdir().expect("a scratch folder");
    assert_eq!(run("corun --version", folder.path()), Ok(()));
    let error =
        run("corun-sql sql -c 'select broken from'", folder.path()).expect_err("a syntax error fails");
    assert!(error.contains("error:"), "{error}");
}

#[test]
fn documented_targets_and_scripts_exist() {
    let makefile = read("Makefile");
    let targets: BTreeSet<&str> = makefile
        .lines()
        .filter_map(|line| line.split_once(':').map(|(target, _)| target))
        .filter(|target| !target.is_empty() && target.chars().all(|c| c.is_ascii_lowercase() || c == '-'))
        .collect();
    let mut seen = 0;
    let mut wrong = Vec::new();
    for file in documents() {
        let text = read(&file);
        for line in ["sh", "text"]
            .into_iter()
            .flat_map(|language| blocks(&text, language))
            .flatten()
        {
            let mut words = line.split_whitespace();
            match words.next() {
                Some("make") => {
                    let target = words
                        .find(|word| !word.contains('='))
                        .unwrap_or("help")
                        .to_owned();
                    seen += 1;
                    if !targets.contains(target.as_str()) {
                        wrong.push(format!("{file}: make {target}"));
                    }
                }
                Some(script) if script.starts_with("scripts/") || script.starts_with(".ci/") => {
                    seen += 1;
                    if !root().join(script).is_file() {
                        wrong.push(format!("{file}: {script}"));
                    }
                }
                _ => {}
            }
        }
    }
    assert!(seen >= 5, "only {seen} targets and scripts were found");
    assert!(wrong.is_empty(), "documented, but missing:\n{}", wrong.join("\n"));
}

#[test]
fn links_lead_somewhere_and_the_contents_are_complete() {
    let mut wrong = Vec::new();
    let summary = read("docs/src/SUMMARY.md");
    for file in documents() {
        let here = root().join(&file).parent().expect("a folder").to_path_buf();
        for target in links(&read(&file)) {
            let path = target.split('#').next().unwrap_or_default();
            let outside = target.contains("://") || target.starts_with("mailto:") || path.is_empty();
            if !outside && !here.join(path).exists() {
                wrong.push(format!("{file}: {target}"));
            }
        }
        if let Some(page) = file.strip_prefix("docs/src/")
            && page != "SUMMARY.md"
            && !summary.contains(&format!("({page})"))
        {
            wrong.push(format!("docs/src/SUMMARY.md does not list {page}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Targets of `[text](target)` and of `src`/`srcset`/`href` attributes, outside code.
fn links(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut inside = false;
    for line in text.lines() {
        if line.trim_start().starts_with("```") {
            inside = !inside;
        } else if !inside {
            for (opening, closing) in [("](", ')'), ("src=\"", '"'), ("srcset=\"", '"'), ("href=\"", '"')] {
                for part in line.split(opening).skip(1) {
                    found.extend(part.split(closing).next().map(str::to_owned));
                }
            }
        }
    }
    found
}

#[test]
fn rust_blocks_are_doctests_of_some_crate() {
    let crates: Vec<String> = files()
        .into_iter()
        .filter(|file| file.starts_with("crates/") && file.ends_with("/src/lib.rs"))
        .map(|file| read(&file))
        .collect();
    let with_rust: Vec<String> = documents()
        .into_iter()
        .filter(|file| !blocks(&read(file), "rust").is_empty())
        .collect();
    let included = |file: &str| {
        let text = format!("#[doc = include_str!(\"../../../{file}\")]");
        crates.iter().any(|source| source.contains(&text))
    };
    let missing: Vec<&String> = with_rust.iter().filter(|file| !included(file)).collect();
    assert!(with_rust.len() >= 5, "only {with_rust:?} have Rust blocks");
    assert!(missing.is_empty(), "no crate runs the Rust blocks of {missing:?}");
}

#[test]
fn every_option_of_the_session_is_documented() {
    let sql = "select name from information_schema.df_settings where name not like 'datafusion.%'";
    let output = Command::new(programs().join("corun-sql"))
        .args(["sql", "--format", "csv", "-c", sql])
        .output()
        .expect("corun runs");
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let text = String::from_utf8_lossy(&output.stdout);
    // The first line is the heading; DataFusion lists an extension's options without their prefix.
    let options: Vec<String> = text
        .lines()
        .skip(1)
        .filter(|line| !line.is_empty())
        .map(|line| format!("corun.{}", line.trim_start_matches("corun.")))
        .collect();
    assert!(
        options.iter().any(|option| option == "corun.join"),
        "no options listed: {text}"
    );
    let page = read("docs/src/datafusion/options.md");
    let missing: Vec<&String> = options
        .iter()
        .filter(|option| !page.contains(&format!("`{option}`")))
        .collect();
    assert!(
        missing.is_empty(),
        "docs/src/datafusion/options.md does not explain {missing:?}"
    );
}

#[test]
fn blocks_and_links_are_found() {
    let text = "a\n```sh\ncorun-sql sql \\\n  -c 'x'\n# note\nmake demo\n```\n```text\ncorun never\n```\n[b](c.md#d) `x`";
    assert_eq!(
        blocks(text, "sh"),
        [["corun-sql sql -c 'x'", "# note", "make demo"]]
    );
    assert_eq!(blocks(text, "text"), [["corun never"]]);
    assert_eq!(links(text), ["c.md#d"]);
}
