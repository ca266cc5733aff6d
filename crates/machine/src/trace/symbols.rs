//! Finds functions by name.

use super::TraceError;
use super::demangle::{demangled, without_parameters};
use super::elf::Symbol;

/// Most names an error suggests.
const NEAREST_MAX: usize = 5;

/// Which of a function's names a text is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Match {
    /// Its name in the file's table.
    Linked,
    /// As its author wrote it, with or without parameters.
    Written,
    /// The last parts of that path.
    LastParts,
}

fn matches(symbol: &Symbol, wanted: &str) -> Option<Match> {
    if symbol.name == wanted {
        return Some(Match::Linked);
    }
    let written = demangled(&symbol.name);
    let bare = without_parameters(&written);
    if written == wanted || bare == wanted {
        return Some(Match::Written);
    }
    let last = |name: &str| name.strip_suffix(wanted).is_some_and(|path| path.ends_with("::"));
    (last(&written) || last(bare)).then_some(Match::LastParts)
}

/// The address of the one function a text names; `None` if there is none.
///
/// # Errors
/// [`TraceError::Ambiguous`] when there are several.
pub(super) fn find(symbols: &[Symbol], wanted: &str) -> Result<Option<u64>, TraceError> {
    let mut found: Vec<(Match, &Symbol)> = symbols
        .iter()
        .filter_map(|symbol| Some((matches(symbol, wanted)?, symbol)))
        .collect();
    let Some(best) = found.iter().map(|(how, _)| *how).min() else {
        return Ok(None);
    };
    found.retain(|(how, _)| *how == best);
    // Several names of one function are no reason to ask.
    found.dedup_by_key(|(_, symbol)| symbol.address);
    match &found[..] {
        [(_, only)] => Ok(Some(only.address)),
        several => Err(TraceError::Ambiguous {
            symbol: wanted.to_owned(),
            matches: several
                .iter()
                .map(|(_, symbol)| format!("{} at {:#x}", symbol.name, symbol.address))
                .collect(),
        }),
    }
}

/// Names that come close to one that is not there, best first.
pub(super) fn nearest(symbols: &[Symbol], wanted: &str) -> Vec<String> {
    let lower = wanted.to_lowercase();
    let mut close: Vec<(usize, String)> = Vec::new();
    for symbol in symbols {
        let written = demangled(&symbol.name);
        let bare = without_parameters(&written);
        let last = bare.rsplit("::").next().unwrap_or(bare).to_lowercase();
        let contains =
            !last.is_empty() && (last.contains(&lower) || (last.len() > 3 && lower.contains(&last)));
        let distance = if contains {
            last.len().abs_diff(lower.len())
        } else {
            2 * edits(&last, &lower)
        };
        if contains || distance <= 2 * (lower.len() / 3).clamp(1, 3) {
            close.push((distance, bare.to_owned()));
        }
    }
    close.sort();
    close.dedup_by(|a, b| a.1 == b.1);
    close
        .into_iter()
        .map(|(_, name)| name)
        .take(NEAREST_MAX)
        .collect()
}

/// How many letters must change, come or go to make one word of another.
fn edits(a: &str, b: &str) -> usize {
    // Longer names differ anyway by more than anybody mistypes.
    const LETTERS_MAX: usize = 64;
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
    if a.len().abs_diff(b.len()) > 6 || a.len().max(b.len()) > LETTERS_MAX {
        return usize::MAX / 4;
    }
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, left) in a.iter().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, right) in b.iter().enumerate() {
            let changed = diagonal + usize::from(left != right);
            diagonal = row[j + 1];
            row[j + 1] = changed.min(row[j] + 1).min(row[j + 1] + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn symbols(names: &[(&str, u64)]) -> Vec<Symbol> {
        let symbol = |&(name, address): &(&str, u64)| Symbol {
            name: name.to_owned(),
            address,
            bytes: 1,
        };
        names.iter().map(symbol).collect()
    }

    #[test]
    fn a_function_is_found_by_each_of_its_names() {
        let all = symbols(&[
            ("main", 1),
            ("_ZN5store4Tree5fetchEi", 2),
            ("_ZN4core3fmt5Write9write_fmt17h0123456789abcdefE", 3),
        ]);
        for (name, address) in [
            ("main", Some(1)),
            ("_ZN5store4Tree5fetchEi", Some(2)),
            ("store::Tree::fetch(int)", Some(2)),
            ("store::Tree::fetch", Some(2)),
            ("Tree::fetch", Some(2)),
            ("core::fmt::Write::write_fmt", Some(3)),
            ("write_fmt", Some(3)),
            ("etch", None),
        ] {
            assert_eq!(find(&all, name), Ok(address), "{name}");
        }
    }

    #[test]
    fn several_functions_of_a_name_are_listed_aliases_are_not() {
        let all = symbols(&[("lock", 1), ("lock", 1), ("lock", 9), ("_ZN1a4lockEv", 5)]);
        let error = find(&all, "lock").unwrap_err();
        let TraceError::Ambiguous { matches, .. } = &error else {
            panic!("{error:?}");
        };
        assert_eq!(matches, &["lock at 0x1", "lock at 0x9"]);
        assert_eq!(find(&all[..2], "lock"), Ok(Some(1)));
    }

    #[test]
    fn mistyped_names_have_near_ones() {
        let all = symbols(&[
            ("index_fetch", 1),
            ("index_insert", 2),
            ("main", 3),
            ("_ZN1a8indexingEv", 4),
        ]);
        assert_eq!(nearest(&all, "index_fetsch")[0], "index_fetch");
        assert_eq!(
            nearest(&all, "index"),
            ["a::indexing", "index_fetch", "index_insert"]
        );
        assert_eq!(nearest(&all, "zzzzzzzz"), [] as [&str; 0]);
        assert_eq!((edits("kitten", "sitting"), edits("", "abc")), (3, 3));
    }
}
