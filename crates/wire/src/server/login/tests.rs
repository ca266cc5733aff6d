//! Logins from the first byte on: with and without TLS, right and wrong.

use std::path::Path;

use ring::rand::SystemRandom;

use super::*;
use crate::auth::server_login::LoginOptions;
use crate::auth::{Credentials, LoginStep, ServerLogin};
use crate::{HEADER_BYTES, backend, header};

struct Server {
    rules: Rules,
    maps: IdentMaps,
    users: Userlist,
    mock: Mock,
    random: SystemRandom,
}

impl Server {
    fn new(rules: &str) -> Self {
        let path = Path::new("file");
        Self {
            rules: Rules::parse(rules, path).expect("rules"),
            maps: IdentMaps::default(),
            users: Userlist::parse(b"\"ann\" \"secret\"", path).expect("users"),
            mock: Mock::from_secret(b"seed", false),
            random: SystemRandom::new(),
        }
    }

    fn policy(&self) -> Policy<'_> {
        Policy {
            rules: &self.rules,
            maps: &self.maps,
            users: &self.users,
            database: &database_asked_for,
            mock: &self.mock,
            random: &self.random,
            offers_tls: true,
            requires_tls: false,
        }
    }
}

const TCP: Connection<'_> = Connection {
    address: Some(IpAddr::V4(std::net::Ipv4Addr::LOCALHOST)),
    tls: None,
    os_user: None,
};

fn startup(parameters: &[(&str, &str)], minor: u8) -> Vec<u8> {
    let mut out = Vec::new();
    build::startup(&mut out, parameters.iter().copied());
    out[7] = minor;
    out
}

fn first(login: &mut Login, server: &Server, connection: &Connection<'_>, bytes: &[u8]) -> LoginAction {
    login.received(bytes).expect("not too much");
    login.next(connection, &server.policy())
}

fn refused(action: LoginAction) -> Refusal {
    match action {
        LoginAction::Refused(denial) => denial.refusal,
        other => panic!("not refused: {other:?}"),
    }
}

/// A client of ours talks until it is in, or refused.
fn talk(server: &Server, password: &str) -> Result<Entered, Refusal> {
    let mut login = Login::new();
    let credentials = Credentials {
        password: Some(password.as_bytes().to_vec()),
        ..Credentials::default()
    };
    let mut client = ServerLogin::new("ann", credentials, LoginOptions::default(), &server.random)
        .expect("random numbers");
    login
        .received(&startup(&[("user", "ann")], 0))
        .expect("not too much");
    loop {
        match login.next(&TCP, &server.policy()) {
            LoginAction::Send(bytes) => {
                let head = header(&bytes).expect("a message").expect("whole");
                assert_eq!((head.tag, head.total), (backend::AUTHENTICATION, bytes.len()));
                match client.message(&bytes[HEADER_BYTES..]).expect("a login") {
                    LoginStep::Send(answer) => login.received(&answer).expect("not too much"),
                    other => panic!("{other:?}"),
                }
            }
            LoginAction::Entered(entered) => {
                // The server proves that it knows the password, too.
                client
                    .message(&entered.send[HEADER_BYTES..])
                    .expect("its signature");
                return Ok(entered);
            }
            LoginAction::Refused(denial) => return Err(denial.refusal),
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn scram_right_and_wrong() {
    let server = Server::new("host all all 127.0.0.0/8 scram-sha-256");
    let entered = talk(&server, "secret").expect("the right password");
    assert_eq!(entered.startup.database(), "ann");
    let refusal = talk(&server, "Secret").expect_err("the wrong password");
    assert_eq!(refusal.code, code::INVALID_PASSWORD);
}

#[test]
fn without_a_rule_nobody_gets_in() {
    for rules in ["", "host all bob all trust", "host all all all reject"] {
        let server = Server::new(rules);
        let action = first(&mut Login::new(), &server, &TCP, &startup(&[("user", "ann")], 0));
        assert_eq!(refused(action).code, code::INVALID_AUTHORIZATION, "{rules}");
    }
}

#[test]
fn no_password_in_clear_text_without_tls() {
    let server = Server::new("host all all all password\nlocal all all password");
    let packet = startup(&[("user", "ann")], 0);
    let refusal = refused(first(&mut Login::new(), &server, &TCP, &packet));
    assert!(refusal.message.contains("clear text"), "{refusal:?}");
    // Nobody listens in on a Unix socket.
    let action = first(&mut Login::new(), &server, &Connection::default(), &packet);
    assert!(matches!(action, LoginAction::Send(_)), "{action:?}");
}

#[test]
fn tls_is_offered_and_may_be_required() {
    let server = Server::new("host all all all trust");
    let mut login = Login::new();
    let action = first(&mut login, &server, &TCP, &build::SSL_REQUEST);
    assert!(
        matches!(action, LoginAction::BeginTls { answer: true, .. }),
        "{action:?}"
    );
    let action = first(&mut Login::new(), &server, &TCP, &[0x16, 3, 1]);
    assert!(matches!(action, LoginAction::BeginTls { answer: false, received } if received == [0x16, 3, 1]));
    let behind = [&build::SSL_REQUEST[..], b"Q"].concat();
    let refusal = refused(first(&mut Login::new(), &server, &TCP, &behind));
    assert_eq!(refusal.code, code::PROTOCOL_VIOLATION);
    // No TLS over a Unix socket.
    let action = first(
        &mut Login::new(),
        &server,
        &Connection::default(),
        &build::SSL_REQUEST,
    );
    assert!(matches!(action, LoginAction::Send(bytes) if bytes == b"N"));
    let mut login = Login::new();
    login
        .received(&startup(&[("user", "ann")], 0))
        .expect("not too much");
    let policy = Policy {
        requires_tls: true,
        ..server.policy()
    };
    assert_eq!(refused(login.next(&TCP, &policy)).message, "SSL required");
}

#[test]
fn rules_are_asked_about_the_database_that_a_client_gets() {
    let server = Server::new("host secret ann all reject\nhost all all all trust");
    // Who names none, or one that is called as the user, gets this one.
    let database = |startup: &Startup| match startup.database() {
        asked if asked == startup.user() => "secret".to_owned(),
        asked => asked.to_owned(),
    };
    let policy = Policy {
        database: &database,
        ..server.policy()
    };
    let action = |parameters: &[(&str, &str)]| {
        let mut login = Login::new();
        login.received(&startup(parameters, 0)).expect("not too much");
        login.next(&TCP, &policy)
    };
    for parameters in [
        &[("user", "ann")][..],
        &[("user", "ann"), ("database", "ann")],
        &[("user", "ann"), ("database", "secret")],
    ] {
        let refusal = refused(action(parameters));
        assert!(refusal.message.contains("database \"secret\""), "{refusal:?}");
    }
    let other = action(&[("user", "ann"), ("database", "d")]);
    assert!(matches!(other, LoginAction::Entered(_)), "{other:?}");
}

#[test]
fn cancels_replication_and_too_much() {
    let server = Server::new("host all all all trust");
    let mut cancel = Vec::new();
    build::cancel(&mut cancel, 7, &[9; 32]);
    let action = first(&mut Login::new(), &server, &TCP, &cancel);
    assert!(matches!(action, LoginAction::Cancel { pid: 7, secret } if secret == [9; 32]));
    let packet = startup(&[("user", "ann"), ("replication", "true")], 0);
    let refusal = refused(first(&mut Login::new(), &server, &TCP, &packet));
    assert_eq!(refusal.code, code::NOT_SUPPORTED);
    let mut login = Login::new();
    assert!(login.received(&[0; RECEIVED_BYTES_MAX]).is_ok());
    assert!(login.received(&[0]).is_err());
}

#[test]
fn what_is_sent_behind_the_login_is_kept() {
    let server = Server::new("host all all all trust");
    let packet = startup(&[("user", "ann"), ("database", "d")], 0);
    let action = first(
        &mut Login::new(),
        &server,
        &TCP,
        &[&packet[..], b"Q\0\0\0\x05\0"].concat(),
    );
    let LoginAction::Entered(entered) = action else {
        panic!("{action:?}");
    };
    assert_eq!(
        (entered.rest.as_slice(), entered.startup.database()),
        (&b"Q\0\0\0\x05\0"[..], "d")
    );
}

#[test]
fn what_a_client_is_told_by_its_protocol() {
    let tags = |startup: &Startup| {
        let secret = vec![1; startup.secret_bytes()];
        let out = welcome(startup, [("server_version", "17")].into_iter(), 5, &secret);
        let mut rest = &out[..];
        let mut tags = String::new();
        while let Some(head) = header(rest).expect("messages") {
            tags.push(char::from(head.tag));
            if head.tag == backend::KEY_DATA {
                tags.push_str(&(head.total - HEADER_BYTES - 4).to_string());
            }
            rest = &rest[head.total..];
        }
        tags
    };
    let mut startup = Startup::default();
    assert_eq!(tags(&startup), "RSK4Z");
    startup.minor = 2;
    assert_eq!(tags(&startup), "RSK32Z");
    startup.minor = 3;
    assert_eq!(tags(&startup), "vRSK32Z");
    startup.minor = 0;
    startup.parameters.push(("_pq_.new".to_owned(), "1".to_owned()));
    assert_eq!(tags(&startup), "vRSK4Z");
}
