//! Conditions as `EXPLAIN` writes them: taken apart at their ANDs, without their literals, and whether they can be asked again.
//!
//! The text is PostgreSQL's own (fully parenthesised, names quoted where needed), so a scanner that knows quotes and brackets is
//! enough. What it cannot make sense of stays one condition.

use std::ops::Range;

/// Bytes that are looked at while a condition is taken apart, so that nesting costs no time. What is left stays whole.
const LOOKED_MAX: usize = 1 << 20;
/// Brackets around a condition that are taken off; the server writes two at most.
const BRACKETS_MAX: usize = 4;

const AND: &str = " AND ";
const OR: &str = " OR ";

/// A conjunction's parts, outer brackets removed.
pub(super) fn conjuncts(text: &str) -> Vec<&str> {
    let mut parts = Vec::new();
    let mut open = vec![text];
    let mut budget = LOOKED_MAX;
    while let Some(part) = open.pop() {
        let inner = stripped(part);
        let Some(left) = budget.checked_sub(part.len()) else {
            parts.push(inner);
            continue;
        };
        budget = left;
        let cut = places_of(AND, inner);
        if cut.is_empty() {
            parts.push(inner);
        } else {
            let mut from = 0;
            for at in cut {
                open.push(&inner[from..at]);
                from = at + AND.len();
            }
            open.push(&inner[from..]);
        }
    }
    parts
}

/// Removes brackets around the whole.
fn stripped(text: &str) -> &str {
    let mut text = text.trim();
    for _ in 0..BRACKETS_MAX {
        if !(text.starts_with('(') && text.ends_with(')')) {
            break;
        }
        let mut depth = 0_usize;
        let mut closes_early = false;
        scan(text, |at, byte| {
            depth = match byte {
                b'(' => depth + 1,
                b')' => depth.saturating_sub(1),
                _ => depth,
            };
            closes_early |= depth == 0 && at + 1 < text.len();
        });
        if closes_early || depth != 0 {
            break;
        }
        text = text[1..text.len() - 1].trim();
    }
    text
}

/// Where a word stands outside of brackets. `BETWEEN` is written as two comparisons by the server, so each ` AND ` is a
/// conjunction.
pub(super) fn places_of(word: &str, text: &str) -> Vec<usize> {
    let (mut depth, mut found) = (0_usize, Vec::new());
    scan(text, |at, byte| match byte {
        b'(' | b'[' => depth += 1,
        b')' | b']' => depth = depth.saturating_sub(1),
        b' ' if depth == 0 && text[at..].starts_with(word) => found.push(at),
        _ => {}
    });
    found
}

/// How many alternatives a condition has, if it is an OR of equalities of one expression with different constants: at most one of
/// them holds for a row.
pub(super) fn exclusive(text: &str) -> Option<usize> {
    let text = stripped(text);
    let (mut from, mut values) = (0, Vec::new());
    let mut column = None;
    let cuts = places_of(OR, text);
    for cut in cuts.into_iter().chain([text.len()]) {
        let (left, right) = stripped(&text[from..cut]).split_once(" = ")?;
        // A constant: nothing but a literal, perhaps of a named type.
        let bare = without_literals(right);
        let is_constant = bare.starts_with('?') && !bare.contains([' ', '(', '$', '.']);
        if !is_constant || *column.get_or_insert(left) != left {
            return None;
        }
        values.push(right);
        from = (cut + OR.len()).min(text.len());
    }
    let all = values.len();
    values.sort_unstable();
    values.dedup();
    (all > 1 && values.len() == all).then_some(all)
}

/// What a condition is made of.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Piece {
    /// A string, without the `E` before it.
    String,
    /// A name in double quotes.
    Name,
    Number,
    /// A name, a key word or a parameter.
    Word,
    Sign,
}

/// The pieces of a condition and where they stand. All begin and end at characters.
fn pieces(text: &str) -> impl Iterator<Item = (Piece, Range<usize>)> {
    let bytes = text.as_bytes();
    let mut at = 0;
    std::iter::from_fn(move || {
        let from = at;
        let run = |inside: fn(u8) -> bool| {
            let end = bytes[from..].iter().position(|byte| !inside(*byte));
            end.map_or(bytes.len(), |length| from + length)
        };
        let (piece, end) = match *bytes.get(from)? {
            b'\'' => (Piece::String, quoted_end(bytes, from)),
            b'"' => (Piece::Name, quoted_end(bytes, from)),
            b'0'..=b'9' => (Piece::Number, run(|byte| is_word(byte) || byte == b'.')),
            b'$' => (Piece::Word, run(|byte| is_word(byte) || byte == b'$')),
            byte if is_word(byte) => (Piece::Word, run(|byte| is_word(byte) || byte == b'$')),
            _ => (Piece::Sign, from + 1),
        };
        at = end;
        Some((piece, from..end))
    })
}

/// Where what begins with a quote has ended. Doubled quotes are part of it; in E'..' a backslash protects the next character.
fn quoted_end(bytes: &[u8], from: usize) -> usize {
    let quote = bytes[from];
    let escapes = quote == b'\'' && from > 0 && bytes[from - 1] == b'E';
    let mut at = from + 1;
    while let Some(&byte) = bytes.get(at) {
        at += match byte {
            b'\\' if escapes => 2,
            byte if byte != quote => 1,
            _ if bytes.get(at + 1) == Some(&quote) => 2,
            _ => return at + 1,
        };
    }
    bytes.len()
}

/// Calls `see` with each byte outside of quotes.
fn scan(text: &str, mut see: impl FnMut(usize, u8)) {
    for (_, range) in pieces(text).filter(|(piece, _)| !matches!(piece, Piece::String | Piece::Name)) {
        range.for_each(|at| see(at, text.as_bytes()[at]));
    }
}

/// The text with `?` for strings and numbers, so that values of one shape look alike.
pub(super) fn without_literals(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut gap = false;
    for (piece, range) in pieces(text) {
        let literal = matches!(piece, Piece::String | Piece::Number);
        match (literal, gap) {
            (false, _) => out.push_str(&text[range]),
            (true, false) => out.push('?'),
            (true, true) => {}
        }
        gap = literal;
    }
    out
}

fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || byte >= 0x80
}

/// The names before dots: relations whose columns a condition speaks of, as the query calls them.
pub(super) fn qualifiers(text: &str) -> Vec<String> {
    let before_dot = |range: &Range<usize>| text.as_bytes().get(range.end) == Some(&b'.');
    pieces(text)
        .filter(|(_, range)| before_dot(range))
        .filter_map(|(piece, range)| match piece {
            Piece::Name => Some(text[range.start + 1..range.end - 1].replace("\"\"", "\"")),
            Piece::Word if !text[range.clone()].starts_with('$') => Some(text[range].to_owned()),
            _ => None,
        })
        .collect()
}

/// Whether a condition can be asked on its own: it computes from the row and its own constants with operators only. Calls of
/// functions are not repeated, for what they do is unknown; parameters and sub-plans have no meaning outside of their query.
pub(super) fn can_be_asked(text: &str) -> bool {
    let bytes = text.as_bytes();
    let mut plain = true;
    scan(text, |at, byte| match byte {
        b'$' | b';' => plain = false,
        b'(' => plain &= at == 0 || !(is_word(bytes[at - 1]) || bytes[at - 1] == b'"'),
        _ => {}
    });
    let words = ["SubPlan", "InitPlan", "OPERATOR", "CURRENT", "SESSION"];
    plain && !text.contains('\0') && !words.iter().any(|word| text.contains(word))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn conjunctions_are_taken_apart() {
        let of = |text| {
            let mut parts = conjuncts(text);
            parts.sort_unstable();
            parts
        };
        assert_eq!(of("(a.x = 1)"), ["a.x = 1"]);
        assert_eq!(
            of("((a.x = 1) AND ((b.y > 2) OR (b.z < 3)) AND ((c.u = 1) AND (c.v = 2)))"),
            ["(b.y > 2) OR (b.z < 3)", "a.x = 1", "c.u = 1", "c.v = 2"]
        );
        assert_eq!(
            of("((a.x = ' AND ('::text) AND (a.\"q AND )\" = 2))"),
            ["a.\"q AND )\" = 2", "a.x = ' AND ('::text"]
        );
        assert_eq!(of("(a.x) OR (b.y)"), ["(a.x) OR (b.y)"]);
        assert_eq!(of("((a.x = E'\\' AND '::text))"), ["a.x = E'\\' AND '::text"]);
        assert_eq!(of("((("), ["((("]);
        assert_eq!(of(""), [""]);
    }

    #[test]
    fn alternatives_of_one_column_exclude_each_other() {
        let of = exclusive;
        assert_eq!(
            of("((part.p_category = 'MFGR#11'::bpchar) OR (part.p_category = 'A OR B'::bpchar))"),
            Some(2)
        );
        assert_eq!(of("((d.y = 1) OR (d.y = 2) OR (d.y = 3))"), Some(3));
        for other in [
            "(d.y = 1)",
            "((d.y = 1) OR (d.y = 1))",
            "((d.y = 1) OR (d.z = 2))",
            "((d.y = 1) OR (d.y > 2))",
            "((d.y = d.z) OR (d.y = 2))",
            "((d.y = $1) OR (d.y = 2))",
            "((d.y = f(1)) OR (d.y = 2))",
            "",
        ] {
            assert_eq!(of(other), None, "{other}");
        }
    }

    #[test]
    fn literals_become_marks() {
        let bare = |text| without_literals(text);
        assert_eq!(
            bare("part.p_category = 'MFGR#12'::bpchar"),
            "part.p_category = ?::bpchar"
        );
        assert_eq!(bare("t1.c2 >= 19920101"), "t1.c2 >= ?");
        assert_eq!(bare("a.x = 1.5e3"), "a.x = ?");
        assert_eq!(bare("a.x = 'it''s' || b.\"C 'x' 1\""), "a.x = ? || b.\"C 'x' 1\"");
        assert_eq!(bare("a.x = ANY ('{1,2}'::integer[])"), "a.x = ANY (?::integer[])");
        assert_eq!(bare("a.x = $1"), "a.x = $1");
        assert_eq!(bare("ä.x = 'ü'"), "ä.x = ?");
    }

    #[test]
    fn only_operators_and_constants_are_asked_again() {
        for good in [
            "(part.p_category = 'MFGR#12'::bpchar)",
            "((s.s_region = 'ASIA (x)'::text) OR (s.s_nation = ANY ('{a,$1}'::text[])))",
            "(d.d_year >= 1992)",
            "NOT (a.b)",
        ] {
            assert!(can_be_asked(good), "{good}");
        }
        for bad in [
            "(f(a.x) = 1)",
            "(a.x = $1)",
            "(hashed SubPlan 1)",
            "(a.x = (InitPlan 1).col1)",
            "(a.\"F\"(1) = 2)",
            "(a.x OPERATOR(public.=) 1)",
            "(a.x = CURRENT_USER)",
            "(a.x = 1); drop table a",
        ] {
            assert!(!can_be_asked(bad), "{bad}");
        }
    }

    #[test]
    fn names_before_dots_are_found_as_a_whole() {
        let of = |text| qualifiers(text);
        assert_eq!(of("(lo.k = xp.k)"), ["lo", "xp"]);
        assert_eq!(of("(k = 1.5)"), Vec::<String>::new());
        assert_eq!(of("(\"P q\".k = \"a\"\".b\".c)"), ["P q", "a\".b"]);
        assert_eq!(
            of("(\"user\".k = 'x.y'::text) AND (ä1.b > E'\\'c.d')"),
            ["user", "ä1"]
        );
        assert_eq!(of("'open.x"), Vec::<String>::new());
        assert_eq!(of("\"open.x"), Vec::<String>::new());
        assert_eq!(of("E.x"), ["E"]);
    }

    proptest! {
        #[test]
        fn nothing_makes_it_panic(text in "[('\")E\\\\ANDORäx1.$ \\[\\]]{0,60}") {
            let parts = conjuncts(&text);
            prop_assert!(!parts.is_empty());
            let _ = without_literals(&text);
            let _ = exclusive(&text);
            let _ = can_be_asked(&text);
            let _ = qualifiers(&text);
        }

        #[test]
        fn a_conjunction_has_the_parts_it_was_made_of(parts in prop::collection::vec("[a-z]\\.[a-z] = '[A-Z ()]{0,4}'", 2..6)) {
            let text = format!("(({}))", parts.join(") AND ("));
            let mut expected: Vec<&str> = parts.iter().map(String::as_str).collect();
            let mut found = conjuncts(&text);
            expected.sort_unstable();
            found.sort_unstable();
            prop_assert_eq!(found, expected);
        }
    }
}
