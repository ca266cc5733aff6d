//! Old public words: none is left but where the list below says so. The list is the specification; the code only looks.

use crate::common::{code_only, files, read};

/// Where a word is looked for.
#[derive(Clone, Copy, Debug, PartialEq)]
enum In {
    /// Names of folders and files, part by part.
    Paths,
    /// Names in Rust code, part by part: `LanePolicy` and `lane_min` have the part `lane`. Comments and texts do not count.
    Names,
    /// The whole text of every file: names part by part, and words of comments, messages and manual pages.
    Words,
    /// The whole text of every file, as it stands here; no letter, digit or `_` before or behind it.
    Text,
}

/// An old word, and what stands there now.
struct Old {
    word: &'static str,
    place: In,
    now: &'static str,
    /// Beginnings of paths where the word may stand, beside [`MAY_TELL`].
    but: &'static [&'static str],
}

const fn old(word: &'static str, place: In, now: &'static str, but: &'static [&'static str]) -> Old {
    Old {
        word,
        place,
        now,
        but,
    }
}

/// What may say what a thing was called: the glossary's table, the change log, old measurements, and this list.
const MAY_TELL: &[&str] = &[
    "docs/src/glossary.md",
    "CHANGELOG.md",
    "records/",
    "crates/corun/tests/repository/names.rs",
];

/// Lanes of a vector register, which keep their name.
const SIMD: &str = "crates/exec/src/";
/// The table of renamed keys and console tables, and the test of a hint that has no alias.
const RENAMED: &[&str] = &[
    SIMD,
    "crates/pooler/src/config/renamed.rs",
    "crates/pooler/src/understand/hint.rs",
];
/// The kernel's switch for hardware threads, which is called so.
const HARDWARE_THREADS: &[&str] = &[
    "crates/machine/src/smt",
    "crates/machine/tests/all/smt.rs",
    "lab/postgres/src/characterize/smt.rs",
];
/// Where old names of suites are aliases: the command line's own tests, and the texts of reports that repeat a command line.
const ALIASES: &[&str] = &["lab/corun-lab/tests/"];
/// Where commands of sibling programs are run through `corun`: their tests, and the page that explains it.
const SIBLINGS: &[&str] = &[
    "crates/corun/tests/cli/",
    "crates/cli/src/siblings.rs",
    "docs/src/datafusion/corun-sql.md",
    "docs/src/introduction.md",
];

const OLD: &[Old] = &[
    // The pooler's vocabulary.
    old("lane", In::Words, "heavy_queue, or core_pool", RENAMED),
    old("lanes", In::Words, "heavy_queue, or core_pools", RENAMED),
    // Acronyms of papers. Rows keep them as values of the key `suite`, which is a text and no name.
    old("caric", In::Paths, "key_ranges, private_caches", &[]),
    old("caric", In::Names, "key_ranges, private_caches", &[]),
    old("mcc", In::Paths, "heavy_queue", &[]),
    old("mcc", In::Names, "heavy_queue", &[]),
    old("smt", In::Paths, "memory_latency", HARDWARE_THREADS),
    old("steps", In::Paths, "instruction_cache", &["peers/steps-sqlite/"]),
    old("StepsError", In::Text, "InstructionCacheError", &[]),
    old("bench caric", In::Text, "bench key-ranges", ALIASES),
    old("bench mcc", In::Text, "bench heavy-queue", ALIASES),
    old("bench smt", In::Text, "bench memory-latency", ALIASES),
    old("bench steps", In::Text, "bench instruction-cache", ALIASES),
    old("simulate caric", In::Text, "simulate private-caches", ALIASES),
    // Commands that moved to sibling programs.
    old("corun autosteps", In::Text, "corun-lab autosteps", SIBLINGS),
    old("corun bench", In::Text, "corun-lab bench", SIBLINGS),
    old("corun characterize", In::Text, "corun-lab characterize", SIBLINGS),
    old("corun demo", In::Text, "corun-lab demo", SIBLINGS),
    old("corun simulate", In::Text, "corun-lab simulate", SIBLINGS),
    old("corun sql", In::Text, "corun-sql sql", SIBLINGS),
    // Crates and folders.
    old("fusion::", In::Text, "corun_datafusion::", &[]),
    old(
        "oltp::",
        In::Text,
        "corun_workloads::",
        &["lab/engine/src/transactions/"],
    ),
    old(
        "use bench::",
        In::Text,
        "use lab_core::, lab_engine::, lab_cpu::, lab_postgres::",
        &[],
    ),
    old("use exec::", In::Text, "use corun_exec::", &[]),
    old("use fusion::", In::Text, "use corun_datafusion::", &[]),
    old("use model::", In::Text, "use corun_model::", &[]),
    old(
        "use store::",
        In::Text,
        "use corun_store::",
        &["crates/store/src/lib.rs"],
    ),
    old("bench/records", In::Text, "records", &[]),
    old("crates/bench", In::Text, "lab", &[]),
    old("crates/fusion", In::Text, "crates/datafusion", &[]),
    old("crates/oltp", In::Text, "lab/workloads", &[]),
    old("crates/proxy", In::Text, "crates/pooler", &[]),
];

/// The parts of a text's names in small letters: `LanePolicy` has `lane` and `policy`, `lane_min` has `lane` and `min`.
fn parts(text: &str) -> Vec<String> {
    let mut parts = Vec::new();
    let mut part = String::new();
    let mut before = ' ';
    for c in text.chars() {
        let ends = !c.is_ascii_alphanumeric() || c.is_ascii_uppercase() && !before.is_ascii_uppercase();
        if ends && !part.is_empty() {
            parts.push(std::mem::take(&mut part));
        }
        if c.is_ascii_alphanumeric() {
            part.push(c.to_ascii_lowercase());
        }
        before = c;
    }
    parts.extend((!part.is_empty()).then_some(part));
    parts
}

/// Whether `word` stands in `text` by itself; an end of it that is no letter goes with anything but `:`.
fn has_text(text: &str, word: &str) -> bool {
    let is_name = |c: char| c.is_alphanumeric() || c == '_';
    let open = |c: Option<char>| c.is_some_and(|c| is_name(c) || c == ':');
    let ends_in_name = word.ends_with(is_name);
    text.match_indices(word).any(|(at, _)| {
        let behind = text[at + word.len()..].chars().next();
        !(open(text[..at].chars().next_back()) || ends_in_name && behind.is_some_and(is_name))
    })
}

fn line_has(line: &str, old: &Old) -> bool {
    match old.place {
        In::Text => has_text(line, old.word),
        In::Paths | In::Names | In::Words => parts(line).iter().any(|part| part == old.word),
    }
}

/// Text files in which somebody may read an old word.
fn is_read(file: &str) -> bool {
    let endings = [
        ".rs", ".md", ".toml", ".sh", ".py", ".snap", ".svg", ".service", ".1", ".ini", ".yml", ".yaml",
    ];
    endings.iter().any(|ending| file.ends_with(ending))
        || file.starts_with("scripts/")
        || file.starts_with("packaging/")
        || file == "Makefile"
}

/// Lines of a file with words that may not stand there.
fn found_in(file: &str, text: &str, olds: &[&Old]) -> Vec<String> {
    let mut found = Vec::new();
    let code = if file.ends_with(".rs") {
        code_only(text)
    } else {
        String::new()
    };
    for old in olds {
        let text = if old.place == In::Names { &code } else { text };
        // A line is looked at closely only where the letters are there at all.
        let near = |line: &str| line.to_ascii_lowercase().contains(&old.word.to_ascii_lowercase());
        for (number, line) in text.lines().enumerate() {
            if near(line) && line_has(line, old) {
                found.push(format!(
                    "{file}:{}: `{}` is now {}",
                    number + 1,
                    old.word,
                    old.now
                ));
            }
        }
    }
    found
}

fn may_stand(file: &str, old: &Old) -> bool {
    MAY_TELL
        .iter()
        .chain(old.but)
        .any(|begin| file.starts_with(begin))
}

#[test]
fn no_old_public_word_is_left() {
    let mut found = Vec::new();
    for file in files() {
        let olds: Vec<&Old> = OLD.iter().filter(|old| !may_stand(&file, old)).collect();
        let in_path = |old: &&&Old| old.place == In::Paths && line_has(&file, old);
        for old in olds.iter().filter(in_path) {
            found.push(format!("{file}: `{}` in its path is now {}", old.word, old.now));
        }
        let olds: Vec<&Old> = olds.into_iter().filter(|old| old.place != In::Paths).collect();
        if is_read(&file) && !olds.is_empty() {
            found.extend(found_in(&file, &read(&file), &olds));
        }
    }
    assert!(found.is_empty(), "old public words:\n{}", found.join("\n"));
}

#[test]
fn places_that_may_have_old_words_exist() {
    let files = files();
    for begin in MAY_TELL.iter().chain(OLD.iter().flat_map(|old| old.but)) {
        assert!(files.iter().any(|file| file.starts_with(begin)), "{begin}");
    }
}

#[test]
fn old_words_are_seen_where_they_stand() {
    let find = |word: &str, place: In, text: &str| {
        let old = OLD
            .iter()
            .find(|old| old.word == word && old.place == place)
            .unwrap_or_else(|| panic!("{word} in {place:?}"));
        found_in("any.rs", text, &[old]).len()
    };
    assert_eq!(
        find("lane", In::Words, "let lane_min = LanePolicy::Mls; // SHOW LANE;"),
        1
    );
    assert_eq!(
        find("lane", In::Words, "\"the lane\"\nPlanError, planes, Milane"),
        1
    );
    assert_eq!(
        find(
            "caric",
            In::Names,
            "struct CaricArgs;\nlet suite = \"caric\"; // caric"
        ),
        1
    );
    assert_eq!(
        find(
            "corun bench",
            In::Text,
            "`corun bench join`\n`corun-lab bench`, corun benches"
        ),
        1
    );
    assert_eq!(
        find(
            "fusion::",
            In::Text,
            "fusion::install\ncorun_datafusion::install, crate::fusion::x"
        ),
        1
    );
}
