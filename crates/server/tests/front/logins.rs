//! Who gets in, and how.

use std::net::SocketAddr;
use std::time::Duration;

use corun_server::front::{Access, AccessError, AccessFiles, FrontConfig};
use corun_wire::build;

use crate::clients::{failed, printed};
use crate::{Server, wait};

#[test]
fn scram_with_and_without_channel_binding() {
    let server = Server::secured(FrontConfig::default());
    let bound = "user=ann password=secret sslmode=require channel_binding=require";
    assert_eq!(printed(&server, bound, &["who"]), "ann\n");
    // On this machine without TLS, too.
    assert_eq!(
        printed(&server, "user=ann password=secret sslmode=disable", &["who"]),
        "ann\n"
    );
    for wrong in ["user=ann password=wrong", "user=nobody password=secret"] {
        let told = failed(&server, wrong, &["who"]);
        assert!(told.contains("SASL authentication failed"), "{told}");
    }
}

#[test]
fn others_need_users_and_tls() {
    let all = [SocketAddr::from(([0, 0, 0, 0], 5432))];
    let folder = tempfile::tempdir().expect("a folder");
    let users = folder.path().join("users.txt");
    std::fs::write(&users, crate::USERS).expect("written");
    let none = AccessFiles::default();
    assert!(matches!(Access::load(&none, &all), Err(AccessError::NoUsers(_))));
    let plain = AccessFiles {
        users: Some(users),
        ..AccessFiles::default()
    };
    assert!(matches!(Access::load(&plain, &all), Err(AccessError::NoTls(_))));
    let allowed = AccessFiles {
        allow_plaintext: true,
        ..plain.clone()
    };
    assert!(Access::load(&allowed, &all).is_ok());
    let half = AccessFiles {
        tls_cert: Some("x".into()),
        ..plain
    };
    assert!(matches!(Access::load(&half, &all), Err(AccessError::HalfTls)));
}

#[test]
fn a_database_that_is_not_there() {
    let server = Server::open(FrontConfig::default());
    let told = failed(&server, "user=ann dbname=none", &["who"]);
    assert!(
        told.contains("FATAL:  database \"none\" does not exist"),
        "{told}"
    );
}

#[test]
fn rules_are_asked_about_the_database_that_a_client_gets() {
    let server = Server::start(FrontConfig::default(), |folder| {
        let hba = folder.join("hba.conf");
        let rules = "host first ann all reject\nhost all all all trust\n";
        std::fs::write(&hba, rules).expect("written");
        AccessFiles {
            hba: Some(hba),
            ..AccessFiles::default()
        }
    });
    // psql names one that is called as the user where it is given none.
    for database in ["dbname=''", "dbname=ann", "dbname=first"] {
        let told = failed(&server, &format!("user=ann {database}"), &["where"]);
        assert!(
            told.contains("pg_hba.conf rejects connection") && told.contains("database \"first\""),
            "{database}: {told}"
        );
    }
    let mut raw = crate::hostile::Raw::connect(&server);
    let mut startup = Vec::new();
    build::startup(&mut startup, [("user", "ann")].into_iter());
    raw.send(&startup);
    let told = raw.rest();
    assert!(String::from_utf8_lossy(&told).contains("pg_hba.conf rejects connection"));
    assert_eq!(printed(&server, "user=ann dbname=d", &["where"]), "d\n");
    assert_eq!(printed(&server, "user=bob dbname=bob", &["where"]), "first\n");
}

#[test]
fn no_more_sessions_than_there_may_be() {
    let config = FrontConfig {
        connections_max: 3,
        user_connections_max: Some(2),
        ..FrontConfig::default()
    };
    let server = Server::open(config);
    let log_in = |user: &str| crate::hostile::Raw::log_in(&server, user);
    let (first, _second) = (log_in("ann"), log_in("ann"));
    let told = failed(&server, "user=ann", &["who"]);
    assert!(told.contains("too many connections for role \"ann\""), "{told}");
    let _third = log_in("bob");
    let told = failed(&server, "user=carl", &["who"]);
    assert!(told.contains("sorry, too many clients already"), "{told}");
    drop(first);
    wait("a session ends", || {
        server.seen.sessions.load(std::sync::atomic::Ordering::SeqCst) == 2
    });
    assert_eq!(printed(&server, "user=ann", &["who"]), "ann\n");
}

#[test]
fn who_does_not_log_in_is_sent_away() {
    let config = FrontConfig {
        login_timeout: Duration::from_millis(300),
        ..FrontConfig::default()
    };
    let server = Server::open(config);
    let mut raw = crate::hostile::Raw::connect(&server);
    let told = raw.rest();
    assert!(String::from_utf8_lossy(&told).contains("canceling authentication due to timeout"));
}

#[test]
fn who_idles_is_sent_away_where_that_is_asked_for() {
    let config = FrontConfig {
        idle_timeout: Some(Duration::from_millis(300)),
        ..FrontConfig::default()
    };
    let server = Server::open(config);
    let mut raw = crate::hostile::Raw::log_in(&server, "ann");
    let told = raw.rest();
    assert!(String::from_utf8_lossy(&told).contains("57P05"));
}

#[test]
fn files_that_are_read_again_hold_for_the_next_login() {
    let server = Server::secured(FrontConfig::default());
    let ann = "user=ann password=secret sslmode=require";
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .expect("a runtime");
    let target = format!(
        "host=127.0.0.1 port={} user=ann password=secret dbname=d",
        server.port()
    );
    let session = runtime.block_on(tokio_postgres::connect(&target, tokio_postgres::NoTls));
    let (session, connection) = session.expect("ann is let in");
    runtime.spawn(connection);
    let users = server.folder().join("users.txt");
    std::fs::write(&users, "\"bob\" \"new\"\n").expect("written");
    assert_eq!(
        printed(&server, ann, &["who"]),
        "ann\n",
        "nobody has asked for it yet"
    );
    server.access.reload().expect("right");
    assert_eq!(
        printed(&server, "user=bob password=new sslmode=require", &["who"]),
        "bob\n"
    );
    let told = failed(&server, ann, &["who"]);
    assert!(told.contains("SASL authentication failed"), "{told}");
    // Who is in goes on.
    runtime.block_on(session.simple_query("who")).expect("it goes on");
    // With a mistake in one file everything stays as it was.
    std::fs::write(&users, "\"ann\" \"secret\"\n").expect("written");
    std::fs::write(server.folder().join("server.key"), "no key").expect("written");
    assert!(matches!(server.access.reload(), Err(AccessError::Tls(_))));
    assert_eq!(
        printed(&server, "user=bob password=new sslmode=require", &["who"]),
        "bob\n"
    );
}
