//! What the queue owes after sequences of messages and answers.

use super::*;
use crate::core::reply::change::Name;
use crate::session::prepared::{Prepared, Statements};
use crate::understand::{Limits, Understanding};

fn copy(id: u64) -> Change {
    Change::Parsed {
        copy: Some((id, None)),
        name: None,
    }
}

fn named(id: u64, name: &str) -> Change {
    Change::Parsed {
        copy: Some((id, None)),
        name: Some(Name {
            name: name.as_bytes().into(),
            before: None,
        }),
    }
}

/// What was before another unnamed statement was parsed: the server had that of this stamp.
fn unnamed(stamp: u64) -> Change {
    Change::Unnamed(Unnamed {
        client: None,
        server: Some((1, stamp)),
    })
}

#[test]
fn a_pipeline_with_an_injected_parse() {
    let mut expects = Expects::default();
    expects.close(true, Change::Nothing);
    expects.parse(true, copy(1));
    expects.step(Step::Execute, 0);
    assert!(!expects.settled());
    expects.sync(false);
    expects.parse(false, copy(2));
    expects.sync(false);
    assert_eq!(expects.outstanding(), 2);
    assert!(expects.unsure(true) && !expects.unsure(false));
    assert!(expects.close_complete());
    assert!(expects.parse_complete());
    assert!(expects.ready().is_some());
    assert!(expects.unsure(true));
    assert!(!expects.parse_complete());
    assert!(!expects.unsure(true));
    assert!(expects.ready().is_some());
    assert!(expects.settled());
    assert_eq!(expects.ready(), None);
}

#[test]
fn an_error_skips_to_the_sync() {
    let mut expects = Expects::default();
    expects.parse(false, named(1, "a"));
    expects.step(Step::Bind, 7);
    expects.close(true, Change::Evicted { id: 9, stamp: 3 });
    expects.parse(false, named(2, "b"));
    expects.sync(false);
    expects.parse(true, copy(3));
    expects.sync(false);
    assert!(!expects.parse_complete());
    let undone = expects.error();
    assert_eq!(undone.stamp, 7);
    assert_eq!(
        undone.changes,
        [named(2, "b"), Change::Evicted { id: 9, stamp: 3 }]
    );
    assert!(expects.ready().is_some());
    assert!(expects.parse_complete());
    assert!(expects.ready().is_some());
    assert!(expects.settled());
}

#[test]
fn a_refused_parse_takes_what_was_there_with_it() {
    let refused = |swallow, change| {
        let mut expects = Expects::default();
        expects.parse(swallow, change);
        expects.sync(false);
        expects.error().changes
    };
    let replacing = Change::Parsed {
        copy: Some((1, Some(5))),
        name: None,
    };
    assert_eq!(refused(true, replacing), [copy(1)]);
    assert_eq!(refused(false, unnamed(5)), [Change::Unnamed(Unnamed::default())]);
}

#[test]
fn what_was_before_the_unnamed_statement_passes_to_the_next_batch() {
    let mut expects = Expects::default();
    // Bind (fails), Parse, Parse, Sync; Execute (fails), Parse, Sync.
    expects.step(Step::Bind, 0);
    expects.parse(false, unnamed(1));
    expects.parse(false, unnamed(2));
    expects.sync(false);
    expects.step(Step::Execute, 0);
    expects.parse(false, unnamed(3));
    expects.sync(false);
    assert_eq!(expects.error(), Undone::default());
    assert!(expects.ready().is_some());
    assert_eq!(expects.error().changes, [unnamed(1)]);
}

#[test]
fn a_batch_that_replaces_the_unnamed_statement_is_sure_of_it() {
    let mut expects = Expects::default();
    expects.parse(false, unnamed(1));
    assert!(!expects.unsure(false));
    expects.sync(false);
    assert!(expects.unsure(false));
    expects.parse(false, unnamed(2));
    assert!(!expects.unsure(false));
    expects.sync(false);
    expects.parse_complete();
    expects.ready();
    assert!(expects.unsure(false));
    expects.parse_complete();
    assert!(!expects.unsure(false));
}

#[test]
fn a_text_that_discards_makes_names_unsure_until_it_is_answered() {
    let mut expects = Expects::default();
    expects.discards(1);
    expects.query(unnamed(0));
    assert!(expects.unsure(true));
    expects.ready();
    assert!(!expects.unsure(true));
    expects.discards(1);
    assert!(!expects.takes_away(1));
    // Execute (discards), Close a, Parse b, Close b, Bind (fails).
    let closed = |name: &str| Change::Closed {
        name: name.as_bytes().into(),
        prepared: prepared(),
    };
    expects.step(Step::Execute, 0);
    assert!(expects.takes_away(1) && !expects.takes_away(2));
    expects.close(false, closed("a"));
    expects.parse(false, named(4, "b"));
    expects.close(false, closed("b"));
    expects.step_complete(Step::Execute);
    let (names, ids) = expects.discarded();
    assert!(names.len() == 1 && names.contains(&b"b"[..]));
    assert!(ids.len() == 1 && ids.contains(&4));
    assert_eq!(expects.error().changes, [closed("b"), named(4, "b")]);
}

fn prepared() -> Prepared {
    let statements = Statements::new(0);
    let mut understanding = Understanding::new(Limits::default());
    let understood = || understanding.of(b"select 1");
    Prepared {
        statement: statements.intern(b"select 1", &[0, 0], b"", understood),
        stamp: 1,
    }
}

#[test]
fn an_error_before_a_query_skips_the_query() {
    // Execute (fails), Query, Sync: one ReadyForQuery.
    let mut expects = Expects::default();
    expects.step(Step::Execute, 0);
    expects.query(Change::Nothing);
    expects.sync(false);
    assert_eq!(expects.outstanding(), 2);
    expects.error();
    assert_eq!(expects.outstanding(), 1);
    assert!(expects.ready().is_some_and(|sent| sent.sync));
    assert!(expects.settled());
    // Execute, Query (fails), Sync: two.
    expects.step(Step::Execute, 0);
    expects.query(Change::Nothing);
    expects.sync(false);
    expects.step_complete(Step::Execute);
    expects.error();
    assert!(expects.ready().is_some_and(|sent| !sent.sync));
    assert!(expects.ready().is_some_and(|sent| sent.sync));
    assert!(expects.settled());
}

#[test]
fn what_follows_an_error_before_the_sync_is_not_owed() {
    let mut expects = Expects::default();
    expects.parse(false, copy(1));
    assert_eq!(expects.error().changes, [copy(1)]);
    assert!(expects.skipping() && !expects.settled());
    // A server that says goodbye behind it is not free.
    expects.error();
    assert!(expects.skipping() && !expects.settled());
    expects.sync(false);
    assert_eq!(expects.outstanding(), 1);
    assert!(expects.ready().is_some());
    assert!(expects.settled());
}

#[test]
fn a_copy_of_the_extended_protocol_ignores_syncs() {
    // Execute, Sync (ignored), data, Sync (ignored), CopyDone, Sync.
    let mut expects = Expects::default();
    expects.step(Step::Execute, 0);
    expects.sync(false);
    expects.copy_in();
    assert_eq!(expects.outstanding(), 0);
    expects.sync(false);
    assert!(!expects.settled());
    expects.copy_end();
    assert!(!expects.settled());
    expects.sync(false);
    assert_eq!(expects.outstanding(), 1);
    assert!(expects.ready().is_some());
    assert!(expects.settled());
    // All of it sent before the server says that it copies in, and an end of a copy that is none before it.
    let mut expects = Expects::default();
    expects.step(Step::Bind, 0);
    expects.copy_end();
    expects.step(Step::Execute, 0);
    expects.sync(false);
    expects.copy_end();
    expects.step_complete(Step::Bind);
    expects.copy_in();
    assert_eq!(expects.outstanding(), 0);
    assert!(!expects.settled());
    expects.sync(false);
    assert_eq!(expects.outstanding(), 1);
    assert!(expects.ready().is_some());
    assert!(expects.settled());
}

#[test]
fn a_copy_of_a_simple_query() {
    let mut expects = Expects::default();
    expects.query(Change::Nothing);
    expects.copy_in();
    assert!(!expects.settled());
    expects.copy_end();
    assert_eq!(expects.outstanding(), 1);
    assert!(expects.ready().is_some());
    assert!(expects.settled());
    // The server gives up.
    expects.query(Change::Nothing);
    expects.copy_in();
    assert_eq!(expects.error(), Undone::default());
    assert!(expects.ready().is_some());
    assert!(expects.settled());
}

#[test]
fn ends_of_copies_that_end_nothing_take_no_room() {
    let mut expects = Expects::default();
    expects.parse(false, Change::Nothing);
    for _ in 0..100_000 {
        expects.copy_end();
    }
    assert!(expects.bytes() < 4096, "{} bytes", expects.bytes());
    expects.step(Step::Bind, 0);
    expects.sync(false);
    assert!(!expects.parse_complete());
    expects.step_complete(Step::Bind);
    assert!(expects.ready().is_some());
    assert!(expects.settled());
}

#[test]
fn too_much_that_is_owed_must_wait_until_half_of_it_has_come() {
    let mut expects = Expects::default();
    for _ in 0..OWED_MAX {
        assert!(!expects.is_full());
        expects.step(Step::Bind, 0);
    }
    assert!(expects.is_full() && !expects.has_room_again());
    for _ in 0..OWED_MAX / 2 - 1 {
        expects.step_complete(Step::Bind);
    }
    assert!(!expects.has_room_again());
    expects.step_complete(Step::Bind);
    assert!(expects.has_room_again(), "told");
    assert!(!expects.has_room_again(), "once");
    // Names count as well.
    let name = "n".repeat(NAME_BYTES * OWED_MAX / 2);
    expects.parse(false, named(1, &name));
    assert!(expects.is_full());
}

#[test]
fn a_copy_takes_away_the_syncs_before_its_end_and_nothing_else() {
    let mut expects = Expects::default();
    expects.query(Change::Nothing);
    expects.sync(false);
    expects.parse(false, named(1, "a"));
    expects.sync(false);
    expects.copy_end();
    expects.parse(false, named(2, "b"));
    expects.sync(false);
    assert_eq!(expects.outstanding(), 4);
    expects.copy_in();
    assert_eq!(expects.outstanding(), 2);
    assert!(expects.ready().is_some(), "the copy's own");
    assert!(expects.unsure(true));
    assert!(!expects.parse_complete() && !expects.parse_complete());
    assert!(expects.ready().is_some());
    assert!(expects.settled());
}
