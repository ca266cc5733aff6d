//! Settings of a session: each client's own, whoever used the server before.

use crate::common::fixture::Fixture;
use crate::common::message;
use crate::common::raw::Raw;
use crate::common::target::{Mode, Pooling};

/// Asserts what a client finds set.
fn sees(client: &mut Raw, settings: &[(&str, &str)]) {
    for (name, value) in settings {
        assert_eq!(show(client, name), *value, "{name}");
    }
}

fn show(client: &mut Raw, name: &str) -> String {
    client.value(&format!("select nullif(current_setting('{name}', true), '')"))
}

#[test]
fn each_client_keeps_what_it_set() {
    let fixture = Fixture::transactions(1);
    let (mut a, mut b) = fixture.two();
    for (name, of_a, of_b) in [
        ("timezone", "Asia/Tokyo", "America/New_York"),
        ("search_path", "pg_catalog", "public"),
        ("datestyle", "ISO, DMY", "German, DMY"),
        ("intervalstyle", "iso_8601", "sql_standard"),
        ("extra_float_digits", "0", "3"),
        ("app.mine", "a's", "b's"),
        ("app.\"quoted name\"", "1", "2"),
        ("application_name", "first; 'quoted'", "second \\ \""),
        ("statement_timeout", "11s", "12s"),
        ("work_mem", "1MB", "2MB"),
        ("default_transaction_isolation", "repeatable read", "serializable"),
        ("bytea_output", "escape", "hex"),
        ("client_min_messages", "warning", "error"),
        ("standard_conforming_strings", "off", "on"),
        ("enable_seqscan", "off", "on"),
        ("role", "other", "app"),
    ] {
        let literal = |value: &str| format!("E'{}'", value.replace('\\', "\\\\").replace('\'', "\\'"));
        if name.contains('"') {
            // A name that SET takes in quotes only and `current_setting` without.
            let plain = name.replace('"', "");
            if a.try_rows(&format!("set {name} to {}", literal(of_a))).is_err() {
                continue;
            }
            assert_eq!(show(&mut b, &plain), "null", "{name}");
            assert_eq!(show(&mut a, &plain), of_a, "{name}");
            continue;
        }
        let value = |value: &str| match name {
            "search_path" => value.to_owned(),
            _ => literal(value),
        };
        a.rows(&format!("set {name} to {}", value(of_a)));
        b.rows(&format!("set {name} to {}", value(of_b)));
        for _ in 0..3 {
            assert_eq!(show(&mut a, name), of_a, "{name} of a");
            assert_eq!(show(&mut b, name), of_b, "{name} of b");
        }
        a.rows(&format!("reset {name}"));
        let again = show(&mut a, name);
        assert_ne!(again, of_a, "{name} of a after RESET");
        assert_eq!(show(&mut b, name), of_b, "{name} of b after RESET of a");
        b.rows(&format!("reset {name}"));
        assert_eq!(show(&mut b, name), again, "{name} of b after RESET");
    }
}

#[test]
fn set_local_ends_with_the_transaction() {
    let fixture = Fixture::transactions(1);
    let (mut a, mut b) = fixture.two();
    a.rows("set timezone to 'Asia/Tokyo'");
    for end in ["commit", "rollback"] {
        a.rows("begin; set local timezone to 'Europe/Rome'; set local app.mine to 'local'");
        assert_eq!(show(&mut a, "timezone"), "Europe/Rome");
        a.rows(end);
        assert_ne!(show(&mut b, "timezone"), "Asia/Tokyo");
        assert_eq!(show(&mut b, "app.mine"), "null");
        sees(&mut a, &[("timezone", "Asia/Tokyo"), ("app.mine", "null")]);
    }
    // A SET LOCAL after a SET hides what the end of the transaction brings out.
    a.rows("begin; set timezone to 'Europe/Paris'; set local timezone to 'Europe/Rome'; commit");
    assert_ne!(show(&mut b, "timezone"), "Europe/Paris");
    assert_eq!(show(&mut a, "timezone"), "Europe/Paris");
}

#[test]
fn what_is_rolled_back_was_not_set() {
    let fixture = Fixture::transactions(1);
    let (mut a, mut b) = fixture.two();
    a.rows("set timezone to 'Asia/Tokyo'; set app.mine to 'before'");
    a.rows("begin; set timezone to 'Europe/Rome'; set app.mine to 'after'; rollback");
    assert_eq!(show(&mut b, "app.mine"), "null");
    sees(&mut a, &[("timezone", "Asia/Tokyo"), ("app.mine", "before")]);

    a.rows("begin");
    a.rows("set timezone to 'Europe/Rome'");
    assert!(a.try_rows("select 1 / 0").is_err());
    a.rows("commit");
    b.rows("select 1");
    assert_eq!(show(&mut a, "timezone"), "Asia/Tokyo");

    // One text is one transaction.
    assert!(a.try_rows("set timezone to 'Europe/Rome'; select 1 / 0").is_err());
    b.rows("select 1");
    assert_eq!(show(&mut a, "timezone"), "Asia/Tokyo");
}

#[test]
fn savepoints_keep_and_undo_settings() {
    let fixture = Fixture::transactions(1);
    let (mut a, mut b) = fixture.two();
    a.rows("begin; set app.kept to '1'; savepoint s; set app.mine to 'undone'; set app.kept to '2'; rollback to s; commit");
    b.rows("select 1");
    sees(&mut a, &[("app.mine", "null"), ("app.kept", "1")]);
    a.rows("begin; savepoint s; set app.mine to 'released'; release s");
    a.rows("commit");
    assert_eq!(show(&mut b, "app.mine"), "null");
    assert_eq!(show(&mut a, "app.mine"), "released");
}

#[test]
fn settings_made_by_functions_count() {
    // Otherwise text that a block puts together keeps the client on its server.
    let fixture = Fixture::start(&Pooling::new(Mode::Transaction, 1).corun("doubtful = \"trust\""));
    let (mut a, mut b) = fixture.two();
    a.rows(
        "create function hidden(v text) returns void language plpgsql as
            $$ begin perform set_config('app.mine', v, false); set timezone to 'Asia/Tokyo'; end $$",
    );
    a.rows("select set_config('app.mine', 'by name', false)");
    assert_eq!(show(&mut b, "app.mine"), "null");
    assert_eq!(show(&mut a, "app.mine"), "by name");
    a.rows("select set_config('app.mine', 'for now', true)");
    b.rows("select 1");
    assert_eq!(show(&mut a, "app.mine"), "by name");
    a.rows("select hidden('inside')");
    assert_eq!(show(&mut b, "app.mine"), "null");
    assert_ne!(show(&mut b, "timezone"), "Asia/Tokyo");
    sees(&mut a, &[("app.mine", "inside"), ("timezone", "Asia/Tokyo")]);
    a.rows("do $$ begin execute 'set app.mine to ' || quote_literal('from a block'); end $$");
    assert_eq!(show(&mut b, "app.mine"), "null");
    assert_eq!(show(&mut a, "app.mine"), "from a block");
    // Where the text of the statement says nothing: in an expression of a write, in a prepared statement.
    a.rows("create table t (v text); insert into t values (set_config('app.mine', 'by insert', false))");
    assert_eq!(show(&mut b, "app.mine"), "null");
    assert_eq!(show(&mut a, "app.mine"), "by insert");
}

#[test]
fn settings_made_by_the_extended_protocol_count() {
    let fixture = Fixture::transactions(1);
    let (mut a, mut b) = fixture.two();
    let run =
        |sql: &str, values: &[Option<&str>]| [message::statement(sql, values), message::sync()].concat();
    a.ask(&run("set timezone to 'Asia/Tokyo'", &[]));
    a.ask(&run("select set_config('app.mine', $1, false)", &[Some("bound")]));
    assert_ne!(show(&mut b, "timezone"), "Asia/Tokyo");
    assert_eq!(show(&mut b, "app.mine"), "null");
    sees(&mut a, &[("timezone", "Asia/Tokyo"), ("app.mine", "bound")]);
}

#[test]
fn reset_goes_back_to_what_the_client_logged_in_with() {
    let fixture = Fixture::transactions(1);
    let login = fixture
        .login()
        .parameter("timezone", "Asia/Tokyo")
        .parameter("application_name", "mine")
        .parameter(
            "options",
            "-c work_mem=7MB -c search_path=pg_catalog,public -c app.mine=given\\ with\\ spaces",
        );
    let mut a = fixture.target.client_as(&login);
    let mut b = fixture.client();
    for round in 0..3 {
        for (name, value) in [
            ("timezone", "Asia/Tokyo"),
            ("application_name", "mine"),
            ("work_mem", "7MB"),
            ("search_path", "pg_catalog,public"),
            ("app.mine", "given with spaces"),
        ] {
            assert_ne!(show(&mut b, name), value, "{name} of b");
            assert_eq!(show(&mut a, name), value, "{name} in round {round}");
        }
        a.rows("set timezone to 'Europe/Rome'; set work_mem to '9MB'; set application_name to 'other'; set app.mine to 'x'");
        b.rows("select 1");
        assert_eq!(show(&mut a, "work_mem"), "9MB");
        match round {
            0 => a.rows("reset timezone; reset work_mem; reset application_name; reset app.mine"),
            1 => a.rows("reset all"),
            _ => a.rows("discard all"),
        };
        b.rows("select 1");
    }
}

#[test]
fn discard_all_is_only_for_the_client_that_says_it() {
    let fixture = Fixture::transactions(1);
    let (mut a, mut b) = fixture.two();
    a.rows("set app.mine to 'a''s'; set timezone to 'Asia/Tokyo'");
    b.rows("set app.mine to 'b''s'; set timezone to 'Europe/Rome'");
    b.rows("discard all");
    sees(&mut a, &[("app.mine", "a's"), ("timezone", "Asia/Tokyo")]);
    assert_eq!(show(&mut b, "app.mine"), "null");
    assert_ne!(show(&mut b, "timezone"), "Europe/Rome");
}

#[test]
fn nobody_runs_as_the_role_of_another() {
    let fixture = Fixture::transactions(1);
    let (mut a, mut b) = fixture.two();
    a.rows("set role other");
    for _ in 0..3 {
        assert_eq!(b.value("select current_user"), "app");
        assert_eq!(a.value("select current_user"), "other");
    }
    a.rows("begin; set local role none");
    assert_eq!(a.value("select current_user"), "app");
    a.rows("commit");
    assert_eq!(b.value("select current_user"), "app");
    assert_eq!(a.value("select current_user"), "other");

    // Who acts as another session user may keep its server.
    let fixture = Fixture::transactions(2);
    let login = fixture.target.login("postgres").database(&fixture.database);
    let (mut root, mut second) = (fixture.target.client_as(&login), fixture.target.client_as(&login));
    root.rows("set session authorization app");
    for _ in 0..3 {
        let who = "select session_user || ' ' || current_user";
        assert_eq!(second.value(who), "postgres postgres");
        assert_eq!(root.value(who), "app app");
    }
    root.rows("reset session authorization");
    assert_eq!(second.value("select session_user"), "postgres");
    assert_eq!(root.value("select session_user"), "postgres");
}

#[test]
fn reported_parameters_are_those_of_the_client() {
    let fixture = Fixture::transactions(1);
    let (mut a, mut b) = fixture.two();
    let answer = a.lines("set timezone to 'Asia/Tokyo'");
    assert!(
        answer.contains(&"parameter [\"TimeZone\", \"Asia/Tokyo\"]".to_owned()),
        "{answer:?}"
    );
    b.rows("set timezone to 'Europe/Rome'; set application_name to 'b'");
    for client in [&mut a, &mut b] {
        let answer = client.lines("select 1");
        assert!(
            !answer.iter().any(|line| line.starts_with("parameter")),
            "nothing changed for it: {answer:?}"
        );
    }
    assert_eq!(a.parameters["TimeZone"], "Asia/Tokyo");
    assert_eq!(b.parameters["TimeZone"], "Europe/Rome");
    assert_eq!(b.parameters["application_name"], "b");
    // Undone by the end of the transaction, and told.
    a.rows("begin; set local timezone to 'Europe/Paris'");
    assert_eq!(a.parameters["TimeZone"], "Europe/Paris");
    a.rows("commit");
    assert_eq!(a.parameters["TimeZone"], "Asia/Tokyo");
}

#[test]
fn text_comes_in_the_encoding_of_the_client() {
    let fixture = Fixture::transactions(1);
    let mut latin = fixture
        .target
        .client_as(&fixture.login().parameter("client_encoding", "LATIN1"));
    let mut utf8 = fixture.client();
    utf8.rows("set client_encoding to 'UTF8'");
    for _ in 0..3 {
        latin.send_query("select U&'\\00FC'");
        let rows = latin.until_ready();
        assert!(
            rows.iter()
                .any(|row| row.tag == b'D' && row.body.ends_with(&[0, 0, 0, 1, 0xFC])),
            "{rows:?}"
        );
        assert_eq!(utf8.value("select U&'\\00FC'"), "ü");
    }
}

#[test]
fn session_characteristics_are_settings_too() {
    let fixture = Fixture::transactions(1);
    let (mut a, mut b) = fixture.two();
    b.rows("create table t (v int)");
    a.rows("set session characteristics as transaction read only");
    for n in 0..3 {
        b.rows(&format!("insert into t values ({n})"));
        a.assert_fails("insert into t values (7)", "25006");
    }
}

#[test]
fn a_wrong_startup_parameter_is_refused_as_by_the_server() {
    let fixture = Fixture::transactions(1);
    for (name, value) in [
        ("timezone", "Nowhere/Land"),
        ("no_such_setting", "1"),
        ("options", "-c work_mem=much"),
    ] {
        let login = fixture.login().parameter(name, value);
        // Here or at the first statement: but it must not go unnoticed.
        let refused = match Raw::connect(&login) {
            Err(error) => error.to_string(),
            Ok(mut client) => client.try_rows("select 1").expect_err(name),
        };
        assert!(
            refused.starts_with("22023") || refused.starts_with("42704"),
            "{name}: {refused}"
        );
    }
}
