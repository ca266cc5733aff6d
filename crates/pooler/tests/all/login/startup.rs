//! Startup packets that ask for more than a login: another user, a superuser, replication. What comes of them is what would come
//! of them directly, or nothing.

use crate::common::message;
use crate::common::postgres::shared;
use crate::common::raw::{Login, PATIENCE, Raw};
use crate::common::target::{Mode, Pooling, Target};
use crate::login::who;

fn trusting() -> Target {
    Target::start(shared(), &Pooling::new(Mode::Transaction, 2))
}

/// The same identity as directly, or none.
fn no_more_than_directly(target: &Target, change: impl Fn(Login) -> Login, about: &str) {
    let direct = who(&change(shared().login("app")));
    let through = who(&change(target.login("app")));
    if let Ok(identity) = &through {
        assert_eq!(Ok(identity), direct.as_ref(), "{about}");
    }
    // And nobody after it on the same server is more.
    assert_eq!(
        who(&target.login("app")),
        Ok("app app off".to_owned()),
        "after {about}"
    );
}

#[test]
fn parameters_make_nobody_another_user() {
    let target = trusting();
    for (name, value) in [
        ("session_authorization", "postgres"),
        ("role", "postgres"),
        ("role", "other"),
        ("is_superuser", "on"),
        ("options", "-c session_authorization=postgres"),
        ("options", "-c role=postgres"),
        ("options", "--session-authorization=postgres"),
        ("options", "-crole=postgres"),
        ("options", "-c role=other -c is_superuser=on"),
        ("options", "-c session_preload_libraries=nothing"),
        ("options", "-c local_preload_libraries=nothing"),
        ("options", "-d 5 -c log_statement=all"),
        ("options", "-c allow_system_table_mods=on"),
        ("options", "-P"),
        ("options", "-O"),
        ("options", "-c work_mem='1MB'; set role postgres"),
        ("options", "-c app.x=1\\'; set role postgres; --"),
        ("application_name", "x'; set role postgres; --"),
        ("application_name", "x\"; set role postgres; --"),
        ("app.x", "x'; set role postgres; --"),
        ("app.x'; set role postgres; --", "1"),
        ("timezone", "UTC'; set role postgres; --"),
        ("search_path", "public; set role postgres"),
        ("client_encoding", "UTF8'; set role postgres; --"),
        ("replication", "true"),
        ("replication", "database"),
        ("zero_damaged_pages", "on"),
        ("user", "postgres"),
        ("database", "postgres"),
        ("_pq_.unknown", "1"),
        ("password", "x"),
    ] {
        no_more_than_directly(
            &target,
            |login| login.parameter(name, value),
            &format!("{name}={value}"),
        );
    }
}

#[test]
fn long_names_are_not_somebody_elses() {
    let target = trusting();
    let long = "app".to_owned() + &"x".repeat(200);
    no_more_than_directly(&target, |login| login.user(&long), "a long name");
    let server = shared();
    // PostgreSQL cuts names at 63 bytes: the long name is this user there.
    let cut = "u".repeat(63);
    server.sql(&format!("create user {cut} password 'secret'"));
    no_more_than_directly(
        &target,
        |login| login.user(&(cut.clone() + "more")).password("wrong"),
        "a cut name",
    );
}

#[test]
fn zeros_cut_nothing_in_two() {
    let target = trusting();
    // Each of these is one packet as it stands; names and values are between the zeros.
    for body in [
        &b"user\0app\0database\0app\0\0user\0postgres\0\0"[..],
        b"user\0app\0database\0app\0\0\0",
        b"user\0app\0user\0postgres\0database\0app\0\0",
        b"user\0postgres\0user\0app\0database\0app\0\0",
        b"\0user\0app\0\0",
        b"user\0app\0\0database\0app\0",
        b"user\0app\0database\0app\0options\0-c role=postgres\0options\0\0\0",
        b"USER\0postgres\0user\0app\0database\0app\0\0",
        b"user\0app\0database\0app\0role\0postgres\0\0",
        // Words that PostgreSQL takes for no replication, and names that small letters make another.
        b"user\0app\0database\0app\0replication\0f\0USER\0postgres\0\0",
        b"user\0app\0database\0app\0replication\0Off\0DATABASE\0postgres\0\0",
        b"user\0app\0database\0app\0replication\0database\0options\0-c user=postgres\0\0",
        b"user\0app\0database\0app\0replication\0database\0options\0-c DataBase=postgres\0\0",
    ] {
        let outcome = |login: &Login| -> Option<String> {
            let mut raw = Raw::open(login).expect("a connection");
            let packet = [
                &(8 + body.len() as u32).to_be_bytes()[..],
                &(3u32 << 16).to_be_bytes(),
                body,
            ]
            .concat();
            raw.send(&packet);
            raw.try_send(&message::query(
                "select current_database() || ' ' || session_user || ' ' || current_user || ' ' || current_setting('is_superuser')",
            ))
            .ok()?;
            raw.set_patience(PATIENCE);
            loop {
                let answer = raw.read().ok()?;
                match answer.tag {
                    b'E' => return None,
                    b'D' => return answer.columns().into_iter().next().flatten(),
                    _ => {}
                }
            }
        };
        let through = outcome(&target.login("app"));
        if through.is_some() {
            assert_eq!(
                through,
                outcome(&shared().login("app")),
                "{:?}",
                String::from_utf8_lossy(body)
            );
        }
    }
}

#[test]
fn the_protocol_is_negotiated() {
    let target = trusting();
    // A version of the future and options nobody knows: the server says what it can, and goes on.
    for (minor, options) in [(99u16, &[][..]), (0, &[("_pq_.something", "1")][..])] {
        let kinds = |login: &Login| -> Vec<u8> {
            let mut raw = Raw::open(login).expect("a connection");
            let mut parameters = vec![("user", "app"), ("database", "app")];
            parameters.extend_from_slice(options);
            raw.send(&message::startup(minor, &parameters));
            raw.until_ready()
                .iter()
                .map(|m| m.tag)
                .filter(|tag| matches!(tag, b'v' | b'R' | b'E' | b'Z'))
                .collect()
        };
        assert_eq!(
            kinds(&target.login("app")),
            kinds(&shared().login("app")),
            "3.{minor} {options:?}"
        );
    }
    // 3.2 is a version; whoever does not know it says so.
    let mut login = target.login("app");
    login.minor = 2;
    let mut raw = target.client_as(&login);
    assert_eq!(raw.value("select 1"), "1");
    let key = raw.key.1.len();
    assert!((4..=256).contains(&key), "a secret of {key} bytes");
}
