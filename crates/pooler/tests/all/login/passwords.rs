//! Right and wrong passwords in every way of asking for one.

use crate::common::postgres::{PASSWORD, shared};
use crate::common::raw::{Login, Raw};
use crate::common::target::{Mode, Pooling, Target};
use crate::login::{asking, user_of, who};

fn refused(login: &Login, about: &str) {
    let answer = who(login);
    assert!(
        answer.as_ref().is_err_and(|error| error.starts_with("28P01")
            || error.starts_with("28000")
            || error.starts_with("08P01")),
        "{about}: {answer:?}"
    );
}

#[test]
fn only_the_right_password_gets_in() {
    for (auth_type, users) in [
        ("scram-sha-256", &["app_scram"][..]),
        ("md5", &["app_md5", "app_scram"]),
        ("plain", &["app_plain", "app_scram"]),
    ] {
        let target = asking(auth_type);
        for user in users {
            let about = format!("{user} by {auth_type}");
            let login = target.login(user);
            assert_eq!(who(&login), Ok(format!("{user} {user} off")), "{about}");
            for wrong in [
                "",
                "Secret",
                "secret ",
                "secre",
                "secrets",
                "\u{a0}secret",
                "md5a1b2c3",
            ] {
                refused(&login.clone().password(wrong), &format!("{about} with {wrong:?}"));
            }
            let long = "x".repeat(5_000);
            refused(&login.clone().password(&long), &about);
            // After all this the right one still does.
            assert_eq!(who(&login), Ok(format!("{user} {user} off")), "{about}");
        }
    }
}

#[test]
fn an_unknown_user_is_told_what_a_wrong_password_is_told() {
    for auth_type in ["scram-sha-256", "md5", "plain"] {
        let target = asking(auth_type);
        let user = user_of(auth_type);
        let known = who(&target.login(user).password("wrong")).expect_err("a wrong password");
        for name in ["nobody", "", " app_scram", "APP_SCRAM", "app_scram\u{200b}"] {
            let unknown = who(&target.login(name).password("wrong")).expect_err("an unknown user");
            if !name.is_empty() && target.shares_servers() {
                assert_eq!(
                    unknown.replace(name, "X"),
                    known.replace(user, "X"),
                    "{auth_type}, {name:?}"
                );
            }
            refused(&target.login(name), auth_type);
        }
    }
}

#[test]
fn users_without_a_password_cannot_use_an_empty_one() {
    for auth_type in ["scram-sha-256", "md5", "plain"] {
        let target = asking(auth_type);
        if target.shares_servers() {
            for user in ["app", "postgres"] {
                refused(&target.login(user).password(""), auth_type);
                refused(&target.login(user).password("secret"), auth_type);
            }
        }
    }
}

#[test]
fn a_verifier_or_hash_in_the_configuration_logs_in_at_the_server() {
    for (user, auth_type) in [("app_scram", "scram-sha-256"), ("app_md5", "md5")] {
        let stored = shared().value(&format!(
            "select rolpassword from pg_authid where rolname = '{user}'"
        ));
        let pooling = Pooling::new(Mode::Transaction, 3)
            .set("auth_type", auth_type)
            .ours(&format!("[users.{user}]\npassword = \"{stored}\""));
        let target = Target::start(shared(), &pooling);
        let login = target.login(user);
        assert_eq!(who(&login), Ok(format!("{user} {user} off")));
        refused(&login.password("wrong"), user);
    }
}

#[test]
fn names_with_quotes_are_names() {
    let target = asking("scram-sha-256");
    let name = "od'd \"name";
    let mut raw = target.client_as(&target.login(name));
    assert_eq!(raw.value("select session_user"), name);
    for bad in [
        "od'd \"name'--",
        "od'd",
        "x' or '1'='1",
        "app_scram'--",
        "\\",
        "$1",
        "%s%n",
        "a\nb",
        "a\tb",
    ] {
        refused(&target.login(bad), bad);
    }
}

#[test]
fn a_database_that_is_not_there_is_an_error() {
    let target = asking("scram-sha-256");
    for name in [
        "nowhere",
        "app'--",
        "../app",
        "app app",
        "app\" password=x",
        "app;host=127.0.0.2",
    ] {
        let answer = who(&target.login("app_scram").database(name));
        assert!(answer.is_err(), "{name}: {answer:?}");
    }
    assert!(who(&target.login("app_scram")).is_ok());
}

#[test]
fn passwords_may_come_from_a_query() {
    let server = shared();
    for auth_type in ["scram-sha-256", "md5"] {
        let pooling = Pooling::new(Mode::Transaction, 2)
            .set("auth_type", auth_type)
            .file("users.txt", "\"postgres\" \"\"\n")
            .set("auth_user", "postgres")
            .set(
                "auth_query",
                "select usename, passwd from pg_shadow where usename = $1",
            );
        let target = Target::start(server, &pooling);
        let user = user_of(auth_type);
        assert_eq!(who(&target.login(user)), Ok(format!("{user} {user} off")));
        refused(&target.login(user).password("wrong"), "by query");
        refused(&target.login("nobody"), "by query");
        refused(&target.login("x' or usename = 'app_scram"), "by query");
        if target.shares_servers() {
            refused(&target.login("app").password(""), "no password in the catalog");
        }
    }
}

#[test]
fn rules_decide_who_comes_from_where() {
    let server = shared();
    let rules = "# TYPE DATABASE USER ADDRESS METHOD\n\
                 host all app_md5 127.0.0.1/32 reject\n\
                 host postgres app_scram 127.0.0.1/32 reject\n\
                 host all app 10.0.0.0/8 trust\n\
                 host all all 127.0.0.1/32 scram-sha-256\n";
    let pooling = Pooling::new(Mode::Transaction, 2)
        .set("auth_type", "hba")
        .set("auth_hba_file", "{folder}/hba.conf")
        .file("hba.conf", rules);
    let target = Target::start(server, &pooling);
    if !target.shares_servers() {
        return;
    }
    assert!(who(&target.login("app_scram")).is_ok());
    for (login, about) in [
        (target.login("app_md5"), "rejected"),
        (
            target.login("app_scram").database("postgres"),
            "rejected for this database",
        ),
        (target.login("app"), "trusted from elsewhere only"),
        (target.login("app_scram").password("wrong"), "a wrong password"),
    ] {
        refused(&login, about);
    }
}

#[test]
fn logs_do_not_tell_passwords() {
    let server = shared();
    let pooling = Pooling::new(Mode::Transaction, 2).set("auth_type", "plain").file(
        "users.txt",
        "\"app_plain\" \"secret\"\n\"app_scram\" \"secret\"\n",
    );
    let target = Target::start(server, &pooling);
    let _ = who(&target.login("app_plain"));
    let _ = who(&target.login("app_plain").password("a-wrong-one"));
    let _ = Raw::connect(&target.login("nobody").password("another-wrong-one"));
    let log = target.log();
    for word in [PASSWORD, "a-wrong-one", "another-wrong-one", "SCRAM-SHA-256$"] {
        assert!(!log.contains(word), "{word} in {log}");
    }
}
