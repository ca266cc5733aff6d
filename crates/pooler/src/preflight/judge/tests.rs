//! What each fact is judged to be: edges of every limit, and that every refusal says what to do.

use super::*;
use corun_wire::error::Reported;

const ROOMY: Facts = Facts {
    in_recovery: false,
    connections_max: 100,
    reserved: 3,
    connected: 10,
    titles: true,
    activities: true,
    read_only: false,
    pid: 1,
};

#[test]
fn pools_must_fit_into_the_server() {
    let level = |wanted| connections("s", &ROOMY, wanted, false).level;
    assert_eq!(
        (level(87), level(88), level(97)),
        (Level::Ok, Level::Warn, Level::Warn)
    );
    let line = connections("s", &ROOMY, 98, false);
    assert_eq!(line.level, Level::Fail);
    assert_eq!(
        line.text,
        "pools may open 98 connections, and the server has 97 (max_connections 100 less 3 reserved)"
    );
    assert!(line.hint.is_some());
    assert!(connections("s", &ROOMY, 1, true).text.ends_with("adds a pool"));
}

#[test]
fn limits_of_open_files() {
    let text = "Limit   Soft Limit  Hard Limit Units\nMax processes  1 2 processes\nMax open files            1024                 524288               files\n";
    assert_eq!(files(text), Some((1024, 524_288)));
    assert_eq!(
        files("Max open files  unlimited unlimited files"),
        Some((u64::MAX, u64::MAX))
    );
    assert_eq!(files("nothing"), None);
    assert_eq!(descriptors(Some((1024, 2048)), 900, 60).level, Level::Ok);
    let hint = |hard| {
        let line = descriptors(Some((1024, hard)), 1000, 40);
        assert_eq!(line.level, Level::Warn);
        line.hint.unwrap_or_default()
    };
    assert!(hint(524_288).contains("ulimit -n 1104"), "{}", hint(524_288));
    assert!(hint(1024).contains("hard limit"), "{}", hint(1024));
    assert_eq!(descriptors(None, 1, 1).level, Level::Warn);
}

#[test]
fn versions() {
    let level = |number| version("s", number, "x").level;
    assert_eq!(level(9_06_24), Level::Fail);
    assert_eq!(
        (level(10_00_01), level(15_00_04), level(18_00_00)),
        (Level::Ok, Level::Ok, Level::Ok)
    );
    assert_eq!(level(19_00_00), Level::Warn);
    assert!(version("s", 16_00_01, "16.1").text.contains("tested with 15"));
}

#[test]
fn roles_of_one_server_and_of_a_group() {
    let replica = Facts {
        in_recovery: true,
        ..ROOMY
    };
    assert_eq!(role("s", &ROOMY, false).level, Level::Ok);
    assert_eq!(role("s", &replica, true).level, Level::Ok);
    assert_eq!(role("s", &replica, false).level, Level::Warn);
    let read_only = Facts {
        read_only: true,
        ..ROOMY
    };
    assert_eq!(role("s", &read_only, false).level, Level::Warn);
    let group = [("shop".to_owned(), vec!["a".to_owned(), "b".to_owned()])];
    let judged = |a: Option<bool>, b: Option<bool>| {
        let mut roles = Roles::default();
        for (place, role) in [("a", a), ("b", b)] {
            if let Some(role) = role {
                roles.insert(place.to_owned(), role);
            }
        }
        let line = groups(&group, &roles).remove(0);
        (line.level, line.text)
    };
    assert_eq!(
        judged(Some(false), Some(true)),
        (Level::Ok, "primary a, replicas: b".to_owned())
    );
    assert_eq!(judged(Some(false), None).1, "primary a, replicas: none");
    assert_eq!(judged(Some(true), None).0, Level::Fail);
    assert_eq!(judged(Some(false), Some(false)).0, Level::Fail);
}

#[test]
fn clocks_that_differ() {
    let at = Duration::from_secs;
    assert_eq!(clock("s", at(1000), at(1004), at(0)).level, Level::Ok);
    assert_eq!(clock("s", at(1000), at(1010), at(6)).level, Level::Ok);
    let line = clock("s", at(1000), at(1030), at(0));
    assert_eq!(
        (line.level, line.text.as_str()),
        (Level::Warn, "30 s ahead of this machine's")
    );
    assert_eq!(
        clock("s", at(1030), at(1000), at(0)).text,
        "30 s behind this machine's"
    );
}

#[test]
fn limits_of_roles_and_databases() {
    let line = |wanted, limits| login("s", "a", "x", Asked::Scram, wanted, limits);
    assert_eq!(line(20, (-1, -1)).level, Level::Ok);
    assert_eq!(line(20, (-1, -1)).text, "a to database x: scram-sha-256");
    assert_eq!(line(20, (20, 20)).level, Level::Ok);
    assert_eq!(line(20, (5, -1)).level, Level::Fail);
    assert!(
        line(20, (-1, 5))
            .hint
            .is_some_and(|hint| hint.contains("ALTER DATABASE"))
    );
}

#[test]
fn every_refusal_says_what_to_do() {
    let said = |code: &str, message: &str| {
        let said = Reported {
            code: code.to_owned(),
            message: message.to_owned(),
            ..Reported::default()
        };
        refused("s", "a", "x", &TalkError::Refused(said))
    };
    for (code, message, hint) in [
        ("28P01", "password authentication failed", "auth_file"),
        ("28000", "no pg_hba.conf entry for host", "host x a ADDRESS/32"),
        ("28000", "role \"a\" does not exist", "role"),
        ("3D000", "database \"x\" does not exist", "dbname"),
        ("53300", "sorry, too many clients already", "limit"),
    ] {
        let line = said(code, message);
        assert_eq!((line.level, line.check), (Level::Fail, "login"), "{code}");
        assert!(
            line.hint.as_deref().is_some_and(|text| text.contains(hint)),
            "{line:?}"
        );
    }
    let missing = refused(
        "s",
        "a",
        "x",
        &TalkError::Login(LoginError::Missing("a SCRAM login", "it")),
    );
    assert_eq!((missing.level, missing.check), (Level::Warn, "login"));
}

#[test]
fn what_others_may_read_along() {
    assert_eq!(tls("s", Some("TLSv1.3"), false).level, Level::Ok);
    assert_eq!(tls("s", None, true).level, Level::Ok);
    assert_eq!(tls("s", None, false).level, Level::Warn);
    assert_eq!(
        (between("s", 7, 7).level, between("s", 7, 8).level),
        (Level::Ok, Level::Warn)
    );
    assert_eq!(reset("s", Ok(0)).level, Level::Ok);
    assert_eq!(
        (reset("s", Ok(1)).level, reset("s", Err("no".to_owned())).level),
        (Level::Fail, Level::Fail)
    );
    let silent = Facts {
        titles: false,
        ..ROOMY
    };
    let level = |facts, binds| titles("s", facts, binds).level;
    assert_eq!(
        (level(&silent, true), level(&silent, false)),
        (Level::Warn, Level::Ok)
    );
    let blind = Facts {
        activities: false,
        ..ROOMY
    };
    assert_eq!(level(&blind, false), Level::Warn);
}
