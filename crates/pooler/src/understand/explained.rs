//! [`inner`]: the query behind `EXPLAIN (CORUN)`, as the text has it.

use std::sync::Arc;

/// The option that PostgreSQL does not know: what the proxy would do with a query.
pub(super) const OPTION: &str = "corun";

/// What stands behind the brackets of `EXPLAIN (...) query`, without semicolons and comments at its end. The text must be one
/// statement that the grammar knows.
pub(super) fn inner(text: &str) -> Option<Arc<str>> {
    let tokens = pg_query::scan_tokens(text).ok()?;
    let mut words = tokens.iter().filter_map(|token| {
        let (begin, end) = (
            usize::try_from(token.start).ok()?,
            usize::try_from(token.end).ok()?,
        );
        let word = text.get(begin..end)?;
        let comment = word.starts_with("--") || word.starts_with("/*");
        (!comment).then_some((begin, end, word))
    });
    let (_, _, explain) = words.next()?;
    if !explain.eq_ignore_ascii_case("explain") || words.next()?.2 != "(" {
        return None;
    }
    let mut depth = 1;
    while depth > 0 {
        match words.next()?.2 {
            "(" => depth += 1,
            ")" => depth -= 1,
            _ => {}
        }
    }
    let mut words = words.filter(|(_, _, word)| *word != ";");
    let (begin, mut end, _) = words.next()?;
    if let Some((_, last, _)) = words.next_back() {
        end = last;
    }
    Some(Arc::from(text.get(begin..end)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_query_is_found() {
        for (text, expected) in [
            ("explain (corun) select 1", Some("select 1")),
            (
                "/* a */ EXPLAIN -- (\n (verbose, CORUN /* ) */ on) select (1), ')' from \"ä\" ; -- b",
                Some("select (1), ')' from \"ä\""),
            ),
            ("explain (corun) (select 1)", Some("(select 1)")),
            ("explain select 1", None),
            ("select 1", None),
            ("explain (corun)", None),
        ] {
            assert_eq!(inner(text).as_deref(), expected, "{text}");
        }
    }
}
