//! Prepared statements of the extended protocol: each client's own names, on whichever server it lands.

use crate::common::fixture::Fixture;
use crate::common::message;
use crate::common::raw::Raw;

fn prepare(client: &mut Raw, name: &str, sql: &str) -> Vec<String> {
    client.ask(&message::prepare(name, sql, &[]))
}

fn run(client: &mut Raw, name: &str, values: &[Option<&str>]) -> Vec<String> {
    let bytes = message::run(name, values);
    client.ask(&bytes)
}

fn row(value: &str) -> Vec<String> {
    [
        "2 []".to_owned(),
        format!("row [Some({value:?})]"),
        "complete SELECT 1".to_owned(),
        "ready I".to_owned(),
    ]
    .to_vec()
}

/// The SQLSTATE of the only error of an answer.
fn code(answer: &[String]) -> String {
    let errors: Vec<&String> = answer.iter().filter(|line| line.starts_with("error ")).collect();
    assert_eq!(errors.len(), 1, "{answer:#?}");
    errors[0]
        .split(" | ")
        .find_map(|field| field.strip_prefix('C'))
        .expect("a code")
        .to_owned()
}

#[test]
fn one_name_means_another_statement_to_each_client() {
    let fixture = Fixture::transactions(1);
    let (mut a, mut b) = fixture.two();
    for name in ["named", ""] {
        assert_eq!(prepare(&mut a, name, "select $1::int + 1"), ["1 []", "ready I"]);
        let other = prepare(&mut b, name, "select $1::text || '!'");
        assert_eq!(other, ["1 []", "ready I"]);
        for _ in 0..3 {
            assert_eq!(run(&mut a, name, &[Some("1")]), row("2"), "{name:?}");
            assert_eq!(run(&mut b, name, &[Some("x")]), row("x!"), "{name:?}");
        }
    }
}

#[test]
fn statements_outlive_transactions_however_they_end() {
    let fixture = Fixture::transactions(1);
    let (mut a, mut b) = fixture.two();
    a.rows("begin");
    prepare(&mut a, "s", "select 'prepared inside'");
    a.rows("rollback");
    b.rows("select 1");
    assert_eq!(run(&mut a, "s", &[]), row("prepared inside"));
    assert_eq!(code(&run(&mut b, "s", &[])), "26000");
}

#[test]
fn describe_tells_each_client_its_own() {
    let fixture = Fixture::transactions(1);
    let (mut a, mut b) = fixture.two();
    prepare(&mut a, "s", "select $1::int as number");
    prepare(&mut b, "s", "select $1::text as words, 1 as one");
    let describe = [message::describe(b'S', "s"), message::sync()].concat();
    for _ in 0..2 {
        let of_a = a.ask(&describe);
        assert_eq!(of_a[0], "parameters [23]");
        assert!(of_a[1].starts_with("columns number: "), "{of_a:?}");
        let of_b = b.ask(&describe);
        assert_eq!(of_b[0], "parameters [25]");
        assert!(
            of_b[1].contains("words: ") && of_b[1].contains("one: "),
            "{of_b:?}"
        );
    }
}

#[test]
fn a_pipeline_uses_statements_old_and_new() {
    let fixture = Fixture::transactions(2);
    let (mut a, mut b) = fixture.two();
    prepare(&mut a, "old", "select 'old'");
    for round in 0..6 {
        // The server changes under it.
        b.rows("begin");
        if round % 2 == 0 {
            b.rows("commit");
        }
        let new = format!("new{round}");
        let pipeline = [
            message::bind("", "old", &[], false),
            message::execute("", 0),
            message::parse(&new, "select 'new'", &[]),
            message::bind("p", &new, &[], false),
            message::bind("", "old", &[], false),
            message::describe(b'S', "old"),
            message::execute("p", 0),
            message::close(b'P', "p"),
            message::execute("", 0),
            message::sync(),
        ]
        .concat();
        let answer = a.ask(&pipeline);
        let kinds = answer.iter().filter_map(|line| line.split(' ').next());
        let kinds = kinds.collect::<Vec<_>>().join(" ");
        let expected = "2 row complete 1 2 2 parameters columns row complete 3 row complete ready";
        assert_eq!(kinds, expected, "{answer:#?}");
        assert_eq!(run(&mut a, &new, &[]), row("new"));
        if round % 2 == 1 {
            b.rows("commit");
        }
    }
}

#[test]
fn errors_about_statements_are_the_servers() {
    let fixture = Fixture::transactions(1);
    let (mut a, mut b) = fixture.two();
    assert_eq!(code(&run(&mut a, "never", &[])), "26000");
    prepare(&mut a, "s", "select 1");
    b.rows("select 1");
    assert_eq!(code(&prepare(&mut a, "s", "select 2")), "42P05");
    b.rows("select 1");
    assert_eq!(run(&mut a, "s", &[]), row("1"));
    assert_eq!(code(&prepare(&mut a, "wrong", "selekt 1")), "42601");
    assert_eq!(code(&run(&mut a, "wrong", &[])), "26000");
    // What comes after an error in a pipeline did not happen.
    let answer = a.ask(
        &[
            message::parse("", "select 1 / 0", &[]),
            message::bind("", "", &[], false),
            message::execute("", 0),
            message::parse("late", "select 1", &[]),
            message::close(b'S', "s"),
            message::sync(),
        ]
        .concat(),
    );
    assert_eq!(code(&answer), "22012");
    assert_eq!(code(&run(&mut a, "late", &[])), "26000");
    assert_eq!(run(&mut a, "s", &[]), row("1"));
    assert_eq!(code(&run(&mut a, "s", &[Some("too many")])), "08P01");
    let unknown = a.ask(&[message::describe(b'S', "unknown"), message::sync()].concat());
    assert_eq!(code(&unknown), "26000");
    // The name in the message is the client's.
    assert!(unknown[0].contains("\"unknown\""), "{unknown:?}");
}

#[test]
fn a_failed_parse_leaves_the_unnamed_statement_gone() {
    let fixture = Fixture::transactions(1);
    let (mut a, mut b) = fixture.two();
    prepare(&mut a, "", "select 'first'");
    b.rows("select 1");
    assert_eq!(run(&mut a, "", &[]), row("first"));
    assert_eq!(code(&prepare(&mut a, "", "selekt")), "42601");
    b.rows("select 1");
    assert_eq!(code(&run(&mut a, "", &[])), "26000");
    // A simple query takes it away, too.
    prepare(&mut a, "", "select 'second'");
    a.rows("select 1");
    assert_eq!(code(&run(&mut a, "", &[])), "26000");
    // That of another client is none of one's own.
    prepare(&mut b, "", "select 'not yours'");
    assert_eq!(code(&run(&mut a, "", &[])), "26000");
    assert_eq!(run(&mut b, "", &[]), row("not yours"));
}

#[test]
fn closed_and_deallocated_statements_are_gone() {
    let fixture = Fixture::transactions(1);
    let (mut a, mut b) = fixture.two();
    let close = [message::close(b'S', "s"), message::sync()].concat();
    for how in [
        "close",
        "deallocate s",
        "deallocate prepare s",
        "deallocate all",
        "discard all",
        "DEALLOCATE ALL; select 1",
    ] {
        for client in [&mut a, &mut b] {
            assert_eq!(
                prepare(client, "s", "select 's'"),
                ["1 []", "ready I"],
                "before {how}"
            );
        }
        b.rows("select 1");
        if how == "close" {
            assert_eq!(a.ask(&close), ["3 []", "ready I"]);
        } else {
            a.rows(how);
        }
        assert_eq!(code(&run(&mut a, "s", &[])), "26000", "after {how}");
        assert_eq!(run(&mut b, "s", &[]), row("s"), "{how} of the other client");
        assert_eq!(b.ask(&close), ["3 []", "ready I"]);
    }
    assert_eq!(
        a.ask(&close),
        ["3 []", "ready I"],
        "closing what is not there is fine"
    );
}

#[test]
fn sql_sees_statements_of_the_protocol() {
    let fixture = Fixture::transactions(2);
    let (mut a, mut b) = fixture.two();
    prepare(&mut a, "s", "select $1::int * 2");
    b.rows("select 1");
    assert_eq!(a.value("execute s(4)"), "8");
    a.rows("prepare by_sql as select 'by sql'");
    b.rows("select 1");
    assert_eq!(run(&mut a, "by_sql", &[]), row("by sql"));
    assert_eq!(code(&prepare(&mut a, "by_sql", "select 2")), "42P05");
}

#[test]
fn types_given_at_parse_count() {
    let fixture = Fixture::transactions(1);
    let (mut a, mut b) = fixture.two();
    let text = "select pg_typeof($1)";
    for (client, oid) in [(&mut a, 23), (&mut b, 1700)] {
        client.ask(&message::prepare("s", text, &[oid]));
    }
    for _ in 0..2 {
        assert_eq!(run(&mut a, "s", &[Some("1")]), row("integer"));
        assert_eq!(run(&mut b, "s", &[Some("1")]), row("numeric"));
    }
}

#[test]
fn one_text_may_mean_different_tables() {
    let fixture = Fixture::transactions(1);
    fixture.sql("create schema one; create schema two; create table one.t as select 1 as a; create table two.t as select 'x'::text as b, 2 as c;
               grant all on schema one, two to public; grant all on one.t, two.t to public");
    let (mut a, mut b) = fixture.two();
    a.rows("set search_path to one");
    b.rows("set search_path to two");
    for name in ["s", ""] {
        for client in [&mut a, &mut b] {
            prepare(client, name, "select * from t");
        }
        for _ in 0..3 {
            assert_eq!(run(&mut a, name, &[]), row("1"));
            assert!(run(&mut b, name, &[]).contains(&"row [Some(\"x\"), Some(\"2\")]".to_owned()));
        }
        // Preparing it anew, after the other has.
        let mut c = fixture.client();
        prepare(&mut c, "c", "select 1");
        c.rows("set search_path to one");
        prepare(&mut c, "again", "select * from t");
        assert_eq!(run(&mut c, "again", &[]), row("1"));
    }
}

#[test]
fn a_changed_table_is_an_error_only_where_the_server_would_say_so() {
    let fixture = Fixture::transactions(1);
    let (mut a, mut b) = fixture.two();
    a.rows("create table t (v int); insert into t values (1)");
    prepare(&mut a, "s", "select * from t");
    prepare(&mut b, "s", "select * from t");
    assert_eq!(run(&mut a, "s", &[]), row("1"));
    assert_eq!(run(&mut b, "s", &[]), row("1"));
    a.rows("alter table t add column w int default 2");
    // Who prepares it after the change must not hear of those who did before.
    let mut c = fixture.client();
    prepare(&mut c, "s", "select * from t");
    assert!(run(&mut c, "s", &[]).contains(&"row [Some(\"1\"), Some(\"2\")]".to_owned()));
    prepare(&mut a, "new", "select * from t");
    assert!(run(&mut a, "new", &[]).contains(&"row [Some(\"1\"), Some(\"2\")]".to_owned()));
    a.rows("drop table t; create table t (x text)");
    a.rows("insert into t values ('again')");
    let mut d = fixture.client();
    prepare(&mut d, "s", "select * from t");
    assert_eq!(run(&mut d, "s", &[]), row("again"));
}
