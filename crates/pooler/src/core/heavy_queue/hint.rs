//! Queries that run with other joins by a comment for pg_hint_plan, where the session of the server has it.
//!
//! ```text
//!  the client:  Query "select ..."               error at character 8
//!  the server:  Query "/*+ HashJoin(a b) */ select ..."    error at character 29 ─► moved back
//! ```
//!
//! There is no transaction around it and nothing to be undone, so it is cheaper than settings ([`super::form`]). Only simple queries are run
//! so: a statement that was prepared outlives its first run, and would carry the comment along.

use crate::core::parts::{Asked, AskedForm};
use crate::core::reply::filter::{ReplyFilter, Verdict, framed};
use crate::plans::has_hints;
use corun_wire::error::Fields;
use corun_wire::{backend, build, frontend};

/// Whether a request could run with a comment at its head. A text with hints of its own is left alone, and so is one that may ask for
/// its own text.
pub(super) fn may_carry(asked: &Asked) -> bool {
    let has = |what: &[u8]| {
        let mut parts = asked.sql.windows(what.len());
        parts.any(|part| part.eq_ignore_ascii_case(what))
    };
    asked.form == AskedForm::Simple && !has(b"/*+") && !has(b"current_query") && !has(b"pg_stat_")
}

/// Whether a question about hints found a server that knows them, for this request.
pub(super) fn can_carry(asked: &Asked, told: Option<&str>) -> bool {
    has_hints(told) && may_carry(asked)
}

/// The message of a simple query with hints at its head. `None`: it cannot have any.
pub(super) fn with_hints(asked: &Asked, hints: &str) -> Option<Vec<u8>> {
    if !may_carry(asked) {
        return None;
    }
    let mut out = Vec::with_capacity(asked.sql.len() + hints.len() + 6);
    build::message(&mut out, frontend::QUERY, |out| {
        out.extend(hints.as_bytes());
        out.extend(&*asked.sql);
        out.push(0);
    });
    Some(out)
}

/// A query under way with hints at its head.
pub(super) struct Hinted {
    /// Characters of the hints.
    characters: usize,
}

impl Hinted {
    /// With these.
    pub(super) fn new(hints: &str) -> Self {
        Self {
            characters: hints.len(),
        }
    }
}

impl ReplyFilter for Hinted {
    fn message(&mut self, tag: u8, body: &[u8], whole: bool) -> Verdict {
        let moved = match tag {
            backend::READY => return Verdict::Last,
            backend::ERROR | backend::NOTICE if whole => moved_back(body, self.characters),
            _ => None,
        };
        moved.map_or(Verdict::Usual, |body| Verdict::Instead(framed(tag, &body)))
    }

    fn needs_whole(&self, tag: u8) -> bool {
        tag == backend::NOTICE
    }
}

/// The body of an error or notice about a text that had so many characters before it which its client does not know of. `None`: it says
/// nothing of a place.
fn moved_back(body: &[u8], characters: usize) -> Option<Vec<u8>> {
    let mut out = Vec::with_capacity(body.len());
    let (mut fields, mut moved) = (Fields::of(body), false);
    for (field, value) in fields.by_ref() {
        if field != b'P' {
            out.push(field);
            out.extend(value);
            out.push(0);
            continue;
        }
        moved = true;
        let at: usize = std::str::from_utf8(value).ok()?.parse().ok()?;
        // A place within the comment is none of the client's.
        if let Some(own) = at.checked_sub(characters).filter(|own| *own > 0) {
            out.push(b'P');
            out.extend(own.to_string().as_bytes());
            out.push(0);
        }
    }
    // A field that is cut off is none to be moved back.
    let whole = fields.rest().first().is_none_or(|&byte| byte == 0);
    out.extend(fields.rest());
    (moved && whole).then_some(out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn asked(sql: &str, form: AskedForm) -> Asked {
        let mut bytes = Vec::new();
        build::query(&mut bytes, sql);
        Asked {
            bytes,
            sql: sql.as_bytes().into(),
            types: vec![0, 0],
            values: vec![0; 4],
            formats: Vec::new(),
            form,
        }
    }

    #[test]
    fn hints_stand_before_everything_else() {
        let hints = "/*+ NestLoop(a b) */ ";
        let sql = "/* corun: heavy_queue=analytic */ select 1";
        let message = with_hints(&asked(sql, AskedForm::Simple), hints).expect("a simple query");
        let mut expected = Vec::new();
        build::query(&mut expected, &format!("{hints}{sql}"));
        assert_eq!(message, expected);
        let parsed = AskedForm::Extended {
            parses: true,
            describes: true,
            names: false,
        };
        assert!(with_hints(&asked(sql, parsed), hints).is_none());
        for own in [
            "/*+ SeqScan(a) */ select 1 from a",
            "select /*+ late */ 1",
            "select Current_Query()",
            "select query from pg_stat_activity",
        ] {
            let own = asked(own, AskedForm::Simple);
            assert!(with_hints(&own, hints).is_none() && !can_carry(&own, Some("on")));
        }
        let plain = asked("select 1", AskedForm::Simple);
        assert!(can_carry(&plain, Some("on")));
        assert!(!can_carry(&plain, Some("off")) && !can_carry(&plain, None));
    }

    #[test]
    fn places_are_moved_back() {
        let body = |place: &str| format!("SERROR\0C42703\0Mno\0{place}Fparse.c\0\0").into_bytes();
        assert_eq!(moved_back(&body("P29\0"), 21), Some(body("P8\0")));
        assert_eq!(moved_back(&body("P22\0"), 21), Some(body("P1\0")));
        assert_eq!(
            moved_back(&body("P21\0"), 21),
            Some(body("")),
            "within the comment"
        );
        assert_eq!(moved_back(&body(""), 21), None);
        assert_eq!(
            moved_back(&body("p29\0"), 21),
            None,
            "a place in a text of the server's own"
        );
        for wrong in ["SERROR", "Px\0\0", "P29", ""] {
            assert_eq!(moved_back(wrong.as_bytes(), 21), None, "{wrong}");
        }
    }

    proptest! {
        #[test]
        fn what_is_moved_there_comes_back(own in 1_usize..100_000, hints in 1_usize..1000, message in "[a-z]{0,20}") {
            let body = |at: usize| format!("M{message}\0P{at}\0\0").into_bytes();
            prop_assert_eq!(moved_back(&body(own + hints), hints), Some(body(own)));
        }

        #[test]
        fn anything_may_come(body in prop::collection::vec(any::<u8>(), 0..64), hints in 0_usize..50) {
            let _ = moved_back(&body, hints);
        }
    }
}
