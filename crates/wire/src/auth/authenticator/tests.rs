//! Logins of clients: every method, right and wrong.

use proptest::prelude::*;

use super::*;
use crate::auth::scram::client::ScramClient;
use crate::auth::scram::{ITERATIONS_DEFAULT, Verifier};
use crate::auth::secret::{Credentials, PlainSecret};

const NONCE: &[u8; NONCE_BYTES] = &[1; NONCE_BYTES];
const SALT: [u8; 4] = *b"salt";

fn mock(md5: bool) -> Mock {
    Mock::from_secret(b"nobody knows", md5)
}

fn login_with(method: Method, lookup: Lookup<'_>, facts: Facts<'_>) -> Authenticator {
    Authenticator::with_nonce(method, "u", lookup, facts, &mock(false), NONCE, SALT)
}

fn login(method: Method, lookup: Lookup<'_>) -> Authenticator {
    login_with(method, lookup, Facts::default())
}

fn denied(step: Step) -> Denial {
    match step {
        Step::Denied(denial) => denial,
        other => panic!("not denied: {other:?}"),
    }
}

fn sent(step: Step) -> Vec<u8> {
    match step {
        Step::Send(bytes) => bytes,
        other => panic!("nothing sent: {other:?}"),
    }
}

fn is_done(step: &Step) -> bool {
    matches!(step, Step::Done { .. })
}

/// Logs in by SCRAM as libpq does; gives all that was sent, and the last step.
fn scram(mut login: Authenticator, password: &[u8]) -> (Vec<Vec<u8>>, Step) {
    let offer = sent(login.start());
    assert_eq!(&offer[..9], [b'R', 0, 0, 0, 23, 0, 0, 0, 10]);
    let secret = Credentials {
        password: Some(password.to_vec()),
        ..Credentials::default()
    };
    let names: Vec<&[u8]> = offer[9..]
        .split(|&b| b == 0)
        .filter(|name| !name.is_empty())
        .collect();
    let mut client = ScramClient::choose(&names, false, None, secret, &[2; NONCE_BYTES]).unwrap();
    let first = client.first();
    let body = [
        client.mechanism().as_bytes(),
        b"\0",
        &(first.len() as u32).to_be_bytes(),
        &first,
    ]
    .concat();
    let challenge = sent(login.message(&body));
    assert_eq!(challenge[5..9], [0, 0, 0, 11]);
    let step = login.message(&client.prove(&challenge[9..]).unwrap());
    if let Step::Done { send, learnt } = &step {
        assert_eq!(send[5..9], [0, 0, 0, 12]);
        assert_eq!(client.check(&send[9..]).ok().as_ref(), learnt.as_ref());
    }
    (vec![offer, challenge], step)
}

fn secrets() -> [Secret; 3] {
    [
        Secret::Plain(PlainSecret::new(b"pw")),
        Secret::Md5(Md5Secret::of(b"pw", "u")),
        Secret::Scram(Verifier::derive(b"pw", b"salt of sixteen.", ITERATIONS_DEFAULT)),
    ]
}

#[test]
fn passwords_in_clear_text_against_every_secret() {
    for secret in &secrets() {
        let ask = |body: &[u8]| {
            let mut login = login(Method::Password, Lookup::Found(secret));
            assert_eq!(sent(login.start()), [b'R', 0, 0, 0, 8, 0, 0, 0, 3]);
            login.message(body)
        };
        assert!(is_done(&ask(b"pw\0")));
        assert_eq!(denied(ask(b"wrong\0")).refusal.code, "28P01");
        assert_eq!(
            denied(ask(b"\0")).refusal.message,
            "empty password returned by client"
        );
        for broken in [b"".as_slice(), b"pw", b"pw\0pw\0"] {
            assert_eq!(denied(ask(broken)).refusal.code, "08P01");
        }
    }
}

#[test]
fn md5_where_md5_can_be() {
    let [plain, md5, verifier] = secrets();
    for secret in [&plain, &md5] {
        let ask = |answer: &[u8]| {
            let mut login = login(Method::Md5, Lookup::Found(secret));
            assert_eq!(sent(login.start()), b"R\0\0\0\x0c\0\0\0\x05salt");
            login.message(&[answer, b"\0"].concat())
        };
        assert!(is_done(&ask(&Md5Secret::of(b"pw", "u").response(SALT))));
        denied(ask(&Md5Secret::of(b"pw", "u").response(*b"SALT")));
        denied(ask(&Md5Secret::of(b"pw", "v").response(SALT)));
        denied(ask(b"pw"));
    }
    let with_verifier = login(Method::Md5, Lookup::Found(&verifier));
    assert!(is_done(&scram(with_verifier, b"pw").1));
}

#[test]
fn scram_from_verifier_and_password_but_not_from_md5() {
    let [plain, md5, verifier] = secrets();
    for secret in [&plain, &verifier] {
        let login = || login(Method::ScramSha256, Lookup::Found(secret));
        assert!(matches!(
            scram(login(), b"pw").1,
            Step::Done { learnt: Some(_), .. }
        ));
        denied(scram(login(), b"wrong").1);
    }
    denied(scram(login(Method::ScramSha256, Lookup::Found(&md5)), b"pw").1);
}

/// What is sent and said does not tell who exists: the shape is the same, and a name keeps its salt.
#[test]
fn users_that_do_not_exist_look_like_the_others() {
    let [plain, md5, verifier] = secrets();
    let ask = |lookup| {
        let (sent, step) = scram(login(Method::ScramSha256, lookup), b"wrong");
        (sent, denied(step))
    };
    let (sent_to_nobody, told_nobody) = ask(Lookup::Unknown);
    let failed = Refusal::new("28P01", "SASL authentication failed for user \"u\"");
    assert_eq!(told_nobody.refusal, failed);
    assert_eq!(
        ask(Lookup::NoSecret),
        (sent_to_nobody.clone(), told_nobody.clone())
    );
    for secret in [&plain, &verifier, &md5] {
        let (sent, told) = ask(Lookup::Found(secret));
        assert_eq!(told, told_nobody);
        assert_eq!(sent[0], sent_to_nobody[0]);
        assert_eq!(sent[1].len(), sent_to_nobody[1].len());
    }
    let login = |method, md5: bool, lookup| {
        Authenticator::with_nonce(method, "u", lookup, Facts::default(), &mock(md5), NONCE, SALT)
    };
    let first = |md5: bool, lookup| sent(login(Method::Md5, md5, lookup).start());
    assert_eq!(first(true, Lookup::Unknown), first(true, Lookup::Found(&md5)));
    assert_eq!(
        first(false, Lookup::Unknown),
        first(false, Lookup::Found(&verifier))
    );
    for method in [Method::Password, Method::Md5] {
        let mut nobody = login(method, true, Lookup::Unknown);
        sent(nobody.start());
        let message = "password authentication failed for user \"u\"";
        assert_eq!(
            denied(nobody.message(b"pw\0")).refusal,
            Refusal::new("28P01", message)
        );
    }
}

#[test]
fn trust_needs_a_user_and_any_does_not() {
    let start = |method, lookup| login(method, lookup).start();
    assert!(is_done(&start(Method::Trust, Lookup::NoSecret)));
    assert!(is_done(&start(Method::Any, Lookup::Unknown)));
    assert_eq!(
        denied(start(Method::Trust, Lookup::Unknown)).refusal.message,
        "\"trust\" authentication failed for user \"u\""
    );
    assert_eq!(
        denied(start(Method::Reject, Lookup::NoSecret)).refusal.code,
        "28000"
    );
}

#[test]
fn certificates_and_peers() {
    let maps = crate::auth::ident::IdentMaps::parse("m cn u", std::path::Path::new("ident")).unwrap();
    let map = Some(maps.map("m"));
    let cert = |common_name, map| {
        let facts = Facts {
            tls: Some(TlsFacts {
                end_point: None,
                common_name,
            }),
            map,
            ..Facts::default()
        };
        login_with(Method::Cert, Lookup::Unknown, facts).start()
    };
    let peer = |os_user, map| {
        let facts = Facts {
            os_user,
            map,
            ..Facts::default()
        };
        login_with(Method::Peer, Lookup::Unknown, facts).start()
    };
    assert!(is_done(&cert(Some("u"), None)) && is_done(&cert(Some("cn"), map)));
    assert!(is_done(&peer(Some("u"), None)) && is_done(&peer(Some("cn"), map)));
    let nobody = "connection requires a valid client certificate";
    let failed = "certificate authentication failed for user \"u\"";
    let peer_failed = "Peer authentication failed for user \"u\"";
    for (step, message) in [
        (cert(Some("U"), None), failed),
        // A map replaces the rule that names are equal.
        (cert(Some("u"), map), failed),
        (cert(None, None), nobody),
        (cert(Some(""), None), nobody),
        (peer(Some("root"), None), peer_failed),
        (peer(None, None), peer_failed),
    ] {
        assert_eq!(denied(step).refusal, Refusal::new("28000", message));
    }
    let mut over_tcp = login(Method::Cert, Lookup::Unknown);
    denied(over_tcp.start());
}

#[test]
fn channel_binding_is_offered_over_tls_only() {
    let verifier = &secrets()[2];
    let offer = |tls| {
        let facts = Facts {
            tls,
            ..Facts::default()
        };
        sent(login_with(Method::ScramSha256, Lookup::Found(verifier), facts).start())
    };
    assert!(
        offer(Some(TlsFacts {
            end_point: Some(&[1; 32]),
            common_name: None
        }))
        .ends_with(b"SCRAM-SHA-256-PLUS\0SCRAM-SHA-256\0\0")
    );
    assert_eq!(offer(Some(TlsFacts::default())), offer(None));
}

#[test]
fn nothing_happens_out_of_order() {
    let [plain, ..] = secrets();
    let fresh = || login(Method::Password, Lookup::Found(&plain));
    let started = || {
        let mut login = fresh();
        sent(login.start());
        login
    };
    let mut early = fresh();
    denied(early.message(b"pw\0"));
    denied(early.start());
    let mut twice = started();
    denied(twice.message(b"wrong\0"));
    denied(twice.message(b"pw\0"));
    denied(started().message(&[b'x'; BODY_BYTES_MAX + 1]));
    let mut other = started();
    assert_eq!(
        other.unexpected(b'Q').refusal.message,
        "expected password response, got message type 81"
    );
    denied(other.message(b"pw\0"));
}

#[test]
fn secrets_are_not_shown() {
    let all = secrets();
    for secret in &all {
        let mut login = login(Method::Md5, Lookup::Found(secret));
        let step = login.start();
        let shown = format!("{secret:?} {login:?} {:?} {step:?}", mock(true));
        for hidden in ["pw", "nobody", "salt of", "stored", "\"md5"] {
            assert!(!shown.contains(hidden), "{shown}");
        }
    }
}

proptest! {
    /// No bytes of somebody who does not know the password get in, whatever the method and the stored secret.
    #[test]
    fn any_bytes_let_nobody_in(
        which in 0usize..3, asks in 0usize..3, exists: bool,
        messages in prop::collection::vec(prop_oneof![
            prop::collection::vec(any::<u8>(), 0..60),
            "(SCRAM-SHA-256(-PLUS)?)?".prop_map(|name| [name.as_bytes(), b"\0\0\0\0\x0bn,,n=,r=abc"].concat()),
            "md5[0-9a-f]{32}".prop_map(|text| [text.as_bytes(), b"\0"].concat()),
        ], 1..5),
    ) {
        let secret = match which {
            0 => Secret::Plain(PlainSecret::new("no bytes of a test are this".as_bytes())),
            1 => Secret::Md5(Md5Secret::of(b"no bytes of a test are this", "u")),
            _ => Secret::Scram(Verifier::derive(b"no bytes of a test are this", b"s", std::num::NonZeroU32::MIN)),
        };
        let method = [Method::Password, Method::Md5, Method::ScramSha256][asks];
        let lookup = if exists { Lookup::Found(&secret) } else { Lookup::Unknown };
        let mut login = login(method, lookup);
        prop_assert!(matches!(login.start(), Step::Send(_)));
        for message in &messages {
            prop_assert!(!is_done(&login.message(message)));
        }
    }
}
