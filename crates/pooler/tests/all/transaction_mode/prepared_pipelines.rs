//! Which statements a client has after pipelines in which something fails, is taken back, or is all discarded.

use crate::common::fixture::Fixture;
use crate::common::message::{
    self, bind, close, copy_data, copy_done, describe, execute, parse, query, sync,
};
use crate::common::raw::Raw;

/// Sends messages that end in so many `ReadyForQuery`: the kinds of the answers, errors as their codes.
fn kinds(client: &mut Raw, messages: &[Vec<u8>], readies: usize) -> Vec<String> {
    client.send(&messages.concat());
    let is_whole =
        |seen: &[message::Message]| seen.iter().filter(|message| message.tag == b'Z').count() == readies;
    let seen = client.until(is_whole);
    seen.iter()
        // Before version 14 a server repeats its parameters when they are reset.
        .filter(|message| message.tag != b'S')
        .map(|message| match message.tag {
            b'E' => message.field(b'C').unwrap_or_default(),
            b'Z' => format!("Z{}", char::from(message.body[0])),
            tag => char::from(tag).to_string(),
        })
        .collect()
}

/// Prepares a statement, which succeeds.
fn prepare(client: &mut Raw, name: &str, sql: &str) {
    let answer = kinds(client, &[parse(name, sql, &[]), sync()], 1);
    assert_eq!(answer, ["1", "ZI"], "{name}: {sql}");
}

/// What a client gets that runs a statement without parameters and rows of one column.
const RUNS: [&str; 4] = ["2", "D", "C", "ZI"];

fn run(client: &mut Raw, name: &str) -> Vec<String> {
    kinds(client, &[bind("", name, &[], false), execute("", 0), sync()], 1)
}

#[test]
fn nobody_gets_the_unnamed_statement_of_another() {
    let fixture = Fixture::transactions(1);
    let (mut a, mut b) = fixture.two();
    prepare(&mut a, "", "select 'mine'");
    assert_eq!(run(&mut b, ""), ["26000", "ZI"]);
    assert_eq!(kinds(&mut b, &[describe(b'S', ""), sync()], 1), ["26000", "ZI"]);
    assert_eq!(run(&mut a, ""), RUNS);
    // Nor after it was closed, or was part of what the server skipped.
    assert_eq!(kinds(&mut a, &[close(b'S', ""), sync()], 1), ["3", "ZI"]);
    let skipped = [bind("", "", &[], false), parse("", "select 1", &[]), sync()];
    assert_eq!(kinds(&mut b, &skipped, 1), ["26000", "ZI"]);
    for client in [&mut a, &mut b] {
        assert_eq!(run(client, ""), ["26000", "ZI"]);
    }
}

#[test]
fn a_name_that_was_given_and_closed_behind_an_error_is_free() {
    let fixture = Fixture::transactions(1);
    let (mut a, mut b) = fixture.two();
    let pipeline = [
        parse("kept", "select 'kept'", &[]),
        bind("", "never", &[], false),
        parse("s", "select 1", &[]),
        close(b'S', "s"),
        close(b'S', "kept"),
        parse("kept", "select 'another'", &[]),
        sync(),
    ];
    assert_eq!(kinds(&mut a, &pipeline, 1), ["1", "26000", "ZI"]);
    b.rows("select 1");
    prepare(&mut a, "s", "select 's'");
    assert_eq!(run(&mut a, "s"), RUNS);
    let answer = a.ask(&message::run("kept", &[]));
    assert_eq!(answer[1], "row [Some(\"kept\")]");
}

#[test]
fn a_batch_waits_for_what_the_one_before_makes_of_names() {
    let fixture = Fixture::transactions(1);
    let (mut a, _) = fixture.two();
    let pipeline = [
        parse("s", "selekt", &[]),
        sync(),
        // The unnamed statement is its own; `s` depends on the batch before.
        parse("", "select 1", &[]),
        bind("", "", &[], false),
        execute("", 0),
        bind("p", "s", &[], false),
        sync(),
        parse("s", "select 2", &[]),
        bind("", "s", &[], false),
        execute("", 0),
        sync(),
    ];
    assert_eq!(
        kinds(&mut a, &pipeline, 3),
        [
            "42601", "ZI", "1", "2", "D", "C", "26000", "ZI", "1", "2", "D", "C", "ZI"
        ]
    );
    // A query among them that is skipped, and the Sync behind it.
    let pipeline = [
        parse("s", "select 3", &[]),
        query("select 4"),
        close(b'S', "s"),
        sync(),
        parse("s", "select 5", &[]),
        sync(),
    ];
    assert_eq!(kinds(&mut a, &pipeline, 2), ["42P05", "ZI", "42P05", "ZI"]);
    let answer = a.ask(&message::run("s", &[]));
    assert_eq!(answer[1], "row [Some(\"2\")]");
}

#[test]
fn what_is_prepared_behind_a_discard_stays() {
    let fixture = Fixture::transactions(1);
    let (mut a, mut b) = fixture.two();
    for discard in ["discard all", "deallocate all"] {
        prepare(&mut a, "old", "select 1");
        // As drivers do that take a connection from their pool.
        let pipeline = [
            query(discard),
            parse("new", "select 2", &[]),
            bind("", "new", &[], false),
            execute("", 0),
            sync(),
            parse("old", "select 3", &[]),
            sync(),
        ];
        assert_eq!(
            kinds(&mut a, &pipeline, 3),
            ["C", "ZI", "1", "2", "D", "C", "ZI", "1", "ZI"],
            "{discard}"
        );
        b.rows("select 1");
        assert_eq!(run(&mut a, "new"), RUNS);
        assert_eq!(run(&mut a, "old"), RUNS);
        // Within one batch.
        let pipeline = [
            parse("", "deallocate all", &[]),
            bind("", "", &[], false),
            execute("", 0),
            close(b'S', "old"),
            parse("newer", "select 4", &[]),
            sync(),
            parse("", "deallocate all", &[]),
            bind("", "", &[], false),
            execute("", 0),
            parse("newer", "select 5", &[]),
            bind("", "new", &[], false),
            sync(),
        ];
        assert_eq!(
            kinds(&mut a, &pipeline, 2),
            ["1", "2", "C", "3", "1", "ZI", "1", "2", "C", "1", "26000", "ZI"]
        );
        b.rows("select 1");
        assert_eq!(run(&mut a, "newer"), RUNS);
        assert_eq!(run(&mut a, "new"), ["26000", "ZI"]);
        assert_eq!(run(&mut a, "old"), ["26000", "ZI"]);
        // It does not wait for the end of a transaction, and no rollback undoes it.
        a.rows("begin; deallocate all; rollback");
        assert_eq!(run(&mut a, "newer"), ["26000", "ZI"]);
        // Where it fails nothing is gone.
        prepare(&mut a, "new", "select 5");
        assert!(a.try_rows("begin; select 1 / 0; deallocate all").is_err());
        a.rows("rollback");
        assert_eq!(run(&mut a, "new"), RUNS);
        a.rows("deallocate all");
    }
}

#[test]
fn errors_name_the_statement_that_was_used_of_two_with_one_text() {
    let fixture = Fixture::transactions(1);
    let (mut a, _) = fixture.two();
    let names = ["one", "two", "three"];
    for name in names {
        prepare(&mut a, name, "select 1");
    }
    for name in names {
        let wrong = bind("", name, &[Some("too many")], false);
        // Also where the statement is closed behind the error.
        a.try_send(&[wrong, sync(), close(b'S', name), sync()].concat())
            .expect("a pipeline is sent");
        let answer = a.until(|seen| seen.iter().filter(|message| message.tag == b'Z').count() == 2);
        let said = answer[0].field(b'M').unwrap_or_default();
        assert!(said.contains(&format!("\"{name}\"")), "{said}");
    }
}

#[test]
fn a_query_within_an_open_batch_is_answered() {
    let fixture = Fixture::transactions(1);
    let (mut a, _) = fixture.two();
    prepare(&mut a, "s", "select 1");
    for (text, last) in [
        ("select 2", "C"),
        ("deallocate never", "26000"),
        ("execute never", "26000"),
    ] {
        let open = [parse("", "select 1", &[]), query(text)];
        let seen = kinds(&mut a, &open, 1);
        assert!(seen.contains(&last.to_owned()), "{text}: {seen:?}");
        assert_eq!(kinds(&mut a, &[sync()], 1), ["ZI"]);
    }
    assert_eq!(run(&mut a, "s"), RUNS);
}

/// Servers end such a connection themselves since version 14.
#[test]
fn what_does_not_belong_into_a_copy_ends_the_connection() {
    let fixture = Fixture::transactions(1);
    let (mut a, mut b) = fixture.two();
    a.rows("create table t (v int)");
    a.send(&query("copy t from stdin"));
    a.until(|seen| seen.iter().any(|message| message.tag == b'G'));
    a.send(&[sync(), bind("", "", &[], false), sync(), query("select 'lost'")].concat());
    let errors = a.until_closed();
    let codes: Vec<String> = errors.iter().filter_map(|message| message.field(b'C')).collect();
    assert_eq!(codes.first().map(String::as_str), Some("08P01"), "{errors:?}");
    assert!(errors.iter().all(|message| message.tag == b'E'), "{errors:?}");
    assert_eq!(b.value("select count(*) from t"), "0");
}

#[test]
fn a_copy_whose_first_syncs_are_ignored_keeps_its_server() {
    let fixture = Fixture::transactions(1);
    let (mut a, mut b) = fixture.two();
    a.rows("create table t (v int)");
    let start = [
        parse("", "copy t from stdin", &[]),
        bind("", "", &[], false),
        execute("", 0),
        sync(),
    ];
    a.try_send(&start.concat()).expect("a copy is begun");
    let seen = a.until(|seen| seen.iter().any(|message| message.tag == b'G'));
    assert_eq!(seen.len(), 3);
    a.try_send(&[copy_data(b"1\n"), sync(), copy_done()].concat())
        .expect("data are sent");
    // Its end is answered after a Sync only; nobody else gets the server before that.
    b.try_send(&query("select 'other'")).expect("a query is sent");
    assert_eq!(kinds(&mut a, &[sync()], 1), ["C", "ZI"]);
    b.until_ready();
    assert_eq!(a.value("select sum(v) from t"), "1");
}
