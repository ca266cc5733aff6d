//! What the repository-wide tests share: the root folder, the tracked files, and Rust sources without comments and texts.
//!
//! Not a test itself. Each test program uses a part of it, hence the `dead_code` allowance.
#![allow(dead_code)]

use std::path::{Path, PathBuf};
use std::process::Command;

/// The folder of the workspace manifest.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../..")
        .canonicalize()
        .expect("the workspace folder exists")
}

/// Text of a file below the root.
pub fn read(path: &str) -> String {
    std::fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// Every file git tracks or would track, relative to the root: new files count before they are committed, ignored ones never.
pub fn files() -> Vec<String> {
    let output = Command::new("git")
        // Continuous integration often checks out as another user.
        .args([
            "-c",
            "safe.directory=*",
            "ls-files",
            "-z",
            "--cached",
            "--others",
            "--exclude-standard",
        ])
        .current_dir(root())
        .output()
        .expect("git runs");
    assert!(
        output.status.success(),
        "git ls-files: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    let list = String::from_utf8(output.stdout).expect("file names are UTF-8");
    // A file deleted but not yet committed is still in the index.
    let files: Vec<String> = list
        .split('\0')
        .filter(|name| !name.is_empty() && root().join(name).is_file())
        .map(str::to_owned)
        .collect();
    assert!(
        files.iter().any(|file| file == "Cargo.toml"),
        "git ls-files gave no workspace manifest"
    );
    files
}

/// The folder of the crate a file belongs to: `crates/NAME/...`, `lab/NAME/...`.
pub fn crate_of(file: &str) -> Option<&str> {
    let below = file
        .strip_prefix("crates/")
        .or_else(|| file.strip_prefix("lab/"))?;
    below.split('/').next()
}

/// Runs Cargo on this workspace without the network and returns what it prints.
pub fn cargo(arguments: &[&str]) -> String {
    let output = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
        .args(arguments)
        .arg("--offline")
        .current_dir(root())
        .output()
        .expect("cargo runs");
    assert!(
        output.status.success(),
        "cargo {arguments:?}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8(output.stdout).expect("cargo prints UTF-8")
}

/// A Rust source with comments, string texts and character literals blanked out, line breaks kept.
pub fn code_only(source: &str) -> String {
    let bytes = source.as_bytes();
    let mut out = String::with_capacity(source.len());
    let mut at = 0;
    // Copies the line breaks of a skipped stretch, so that line numbers stay true.
    let skip = |out: &mut String, from: usize, to: usize| {
        out.push(' ');
        out.extend(source[from..to].chars().filter(|&c| c == '\n'));
    };
    while at < bytes.len() {
        let rest = &source[at..];
        let word_before = out
            .chars()
            .next_back()
            .is_some_and(|c| c.is_alphanumeric() || c == '_');
        let end = if rest.starts_with("//") {
            at + rest.find('\n').unwrap_or(rest.len())
        } else if rest.starts_with("/*") {
            at + block_comment_len(rest)
        } else if !word_before && let Some(len) = raw_string_len(rest) {
            at + len
        } else if rest.starts_with('"') {
            at + quoted_len(rest, '"')
        } else if let Some(len) = char_literal_len(rest) {
            at + len
        } else {
            let c = rest.chars().next().expect("not at the end");
            out.push(c);
            at += c.len_utf8();
            continue;
        };
        skip(&mut out, at, end);
        at = end;
    }
    out
}

/// Length of a `/* ... */` comment, which may nest.
fn block_comment_len(text: &str) -> usize {
    let (mut depth, mut at) = (0usize, 0);
    while at < text.len() {
        if text[at..].starts_with("/*") {
            depth += 1;
            at += 2;
        } else if text[at..].starts_with("*/") {
            depth -= 1;
            at += 2;
            if depth == 0 {
                return at;
            }
        } else {
            at += text[at..].chars().next().map_or(1, char::len_utf8);
        }
    }
    text.len()
}

/// Length of `r"..."`, `r#"..."#`, `br"..."`, if one starts here.
fn raw_string_len(text: &str) -> Option<usize> {
    let start = if text.starts_with("br") || text.starts_with("cr") {
        2
    } else {
        usize::from(text.starts_with('r'))
    };
    let hashes = text[start..].bytes().take_while(|&b| b == b'#').count();
    let open = start + hashes;
    if start == 0 || !text[open..].starts_with('"') {
        return None;
    }
    let close = format!("\"{}", "#".repeat(hashes));
    Some(
        text[open + 1..]
            .find(&close)
            .map_or(text.len(), |found| open + 1 + found + close.len()),
    )
}

/// Length of a literal in quotes with backslash escapes.
fn quoted_len(text: &str, quote: char) -> usize {
    let mut escaped = false;
    for (at, c) in text.char_indices().skip(1) {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            _ if c == quote => return at + c.len_utf8(),
            _ => {}
        }
    }
    text.len()
}

/// Length of `'x'` or `'\n'`, if one starts here; a lifetime is not one.
fn char_literal_len(text: &str) -> Option<usize> {
    let mut chars = text.strip_prefix('\'')?.chars();
    let first = chars.next()?;
    (first == '\\' || chars.next() == Some('\'')).then(|| quoted_len(text, '\''))
}

/// Whether `word` stands in `code` by itself, not as a part of a longer name.
pub fn has_word(code: &str, word: &str) -> bool {
    let is_name = |c: char| c.is_alphanumeric() || c == '_';
    code.match_indices(word).any(|(at, _)| {
        !code[..at].chars().next_back().is_some_and(is_name)
            && !code[at + word.len()..].chars().next().is_some_and(is_name)
    })
}
