//! Logins to servers: every method, right and wrong.

use proptest::prelude::*;
use ring::rand::SystemRandom;

use super::*;
use crate::auth::authenticator::{Authenticator, Facts, Method, Step};
use crate::auth::md5::Md5Secret;
use crate::auth::scram::{ITERATIONS_DEFAULT, Verifier};
use crate::auth::secret::{Lookup, Mock, Secret};

fn login(credentials: Credentials, options: LoginOptions) -> ServerLogin {
    ServerLogin::new("u", credentials, options, &SystemRandom::new()).unwrap()
}

fn password() -> Credentials {
    Credentials {
        password: Some(b"pw".to_vec()),
        ..Credentials::default()
    }
}

fn clear() -> LoginOptions {
    LoginOptions {
        clear_text: true,
        ..LoginOptions::default()
    }
}

fn body(kind: u32, data: &[u8]) -> Vec<u8> {
    [&kind.to_be_bytes(), data].concat()
}

/// Our client against our server, whose messages are taken apart as the core would.
fn against(secret: &Secret, method: Method, credentials: Credentials) -> Result<Option<ClientKeys>, String> {
    let mock = Mock::from_secret(b"m", false);
    let random = SystemRandom::new();
    let mut server = Authenticator::new(
        method,
        "u",
        Lookup::Found(secret),
        Facts::default(),
        &mock,
        &random,
    );
    let mut client = login(credentials, clear());
    let mut step = server.start();
    loop {
        let bytes = match &step {
            Step::Send(bytes) => bytes,
            Step::Done { send, .. } => send,
            Step::Denied(denial) => return Err(denial.refusal.message.clone()),
        };
        let mut answer = None;
        if !bytes.is_empty() {
            match client.message(&bytes[5..]).map_err(|error| error.to_string())? {
                LoginStep::Send(bytes) => answer = Some(bytes),
                LoginStep::Wait => {}
                LoginStep::Done { .. } => panic!("done before AuthenticationOk"),
            }
        }
        if let Step::Done { .. } = step {
            return match client.message(&body(0, b"")).map_err(|error| error.to_string())? {
                LoginStep::Done { learnt } => Ok(learnt),
                other => panic!("{other:?}"),
            };
        }
        step = server.message(&answer.expect("an answer")[5..]);
    }
}

#[test]
fn every_method_with_what_is_known() {
    let verifier = Verifier::derive(b"pw", b"salt", ITERATIONS_DEFAULT);
    let scram = Secret::Scram(verifier.clone());
    let md5 = Secret::Md5(Md5Secret::of(b"pw", "u"));
    assert_eq!(against(&md5, Method::Password, password()), Ok(None));
    assert_eq!(against(&md5, Method::Md5, password()), Ok(None));
    assert_eq!(
        against(&md5, Method::Md5, Credentials::new(Some(&md5), None)),
        Ok(None)
    );
    let learnt = against(&scram, Method::ScramSha256, password()).unwrap();
    assert_eq!(learnt.as_ref().map(ClientKeys::verifier), Some(verifier));
    let with_keys = Credentials::new(Some(&scram), learnt);
    assert!(against(&scram, Method::ScramSha256, with_keys.clone()).is_ok());
    let wrong = Credentials {
        password: Some(b"wrong".to_vec()),
        ..Credentials::default()
    };
    assert!(
        against(&scram, Method::ScramSha256, wrong)
            .unwrap_err()
            .starts_with("SASL authentication failed")
    );
    for (secret, method, credentials, part) in [
        (
            &scram,
            Method::ScramSha256,
            Credentials::new(Some(&md5), None),
            "SCRAM",
        ),
        (&md5, Method::Md5, with_keys.clone(), "md5"),
        (&scram, Method::Password, with_keys, "plain password"),
    ] {
        let error = against(secret, method, credentials).unwrap_err();
        assert!(error.contains(part) && error.contains("auth_file"), "{error}");
    }
}

#[test]
fn no_password_in_clear_text_unless_allowed() {
    let ask = |options| login(password(), options).message(&body(3, b""));
    assert!(matches!(ask(LoginOptions::default()), Err(LoginError::ClearText)));
    assert!(matches!(ask(clear()), Ok(LoginStep::Send(bytes)) if bytes == b"p\0\0\0\x07pw\0"));
    assert!(matches!(
        ask(LoginOptions {
            tls: true,
            ..LoginOptions::default()
        }),
        Ok(LoginStep::Send(_))
    ));
}

#[test]
fn a_server_cannot_step_aside_from_what_it_began() {
    let offer = body(10, b"SCRAM-SHA-256\0\0");
    let mut skipped = login(password(), clear());
    skipped.message(&offer).unwrap();
    assert!(matches!(
        skipped.message(&body(0, b"")),
        Err(LoginError::Malformed(_))
    ));
    for then in [body(3, b""), body(5, b"salt"), offer.clone()] {
        let mut changed = login(password(), clear());
        changed.message(&offer).unwrap();
        assert!(changed.message(&then).is_err());
    }
    assert!(matches!(
        login(password(), clear()).message(&body(7, b"")),
        Err(LoginError::Unsupported(7))
    ));
    assert!(
        login(password(), clear())
            .message(&body(10, b"SCRAM-SHA-256"))
            .is_err()
    );
}

#[test]
fn secrets_are_not_shown() {
    let shown = format!("{:?} {:?}", login(password(), clear()), password());
    assert!(
        !shown.contains("pw") && shown.contains("password: true"),
        "{shown}"
    );
}

proptest! {
    /// No server that began SCRAM gets us to believe that it has proved itself when it has not, nor to panic.
    #[test]
    fn any_server(messages in prop::collection::vec(prop_oneof![
        prop::collection::vec(any::<u8>(), 0..60),
        (prop::sample::select(vec![0u32, 3, 5, 10, 11, 12]), "(SCRAM-SHA-256(-PLUS)?\0\0)?([rsiev]=[a-zA-Z0-9=]{0,9},?){0,4}")
            .prop_map(|(kind, text)| body(kind, text.as_bytes())),
    ], 1..6)) {
        let mut began = login(password(), clear());
        let _ = began.message(&body(10, b"SCRAM-SHA-256\0\0"));
        for message in &messages {
            let proved = matches!(began.message(message), Ok(LoginStep::Done { .. }));
            prop_assert!(!proved);
        }
    }
}
