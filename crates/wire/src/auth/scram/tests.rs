//! SCRAM: vectors, exchanges, attacks.

use proptest::prelude::*;

use super::client::{ScramClient, ScramClientError};
use super::server::{ScramRefusal, ScramReply, ScramServer};
use super::*;
use crate::auth::Credentials;

const FEW: NonZeroU32 = NonZeroU32::new(7).unwrap();
const HASH: &[u8] = &[7; 32];

fn initial(mechanism: &str, first: &[u8]) -> Vec<u8> {
    [
        mechanism.as_bytes(),
        b"\0",
        &(first.len() as u32).to_be_bytes(),
        first,
    ]
    .concat()
}

fn secret(password: &[u8]) -> Credentials {
    Credentials {
        password: Some(password.to_vec()),
        ..Credentials::default()
    }
}

fn server(password: &[u8], end_point: Option<&[u8]>) -> ScramServer {
    let verifier = Verifier::derive(password, b"a salt", FEW);
    ScramServer::new(verifier, false, end_point.map(<[u8]>::to_vec), &[1; NONCE_BYTES])
}

fn client(server: &ScramServer, end_point: Option<&[u8]>, secret: Credentials) -> ScramClient {
    let offered: Vec<&[u8]> = server.mechanisms().iter().map(|name| name.as_bytes()).collect();
    ScramClient::choose(
        &offered,
        end_point.is_some(),
        end_point,
        secret,
        &[2; NONCE_BYTES],
    )
    .unwrap()
}

/// Runs an exchange; `change` may touch each message on its way. `Ok` only if both sides are content.
fn exchange(
    server: &mut ScramServer,
    client: &mut ScramClient,
    mut change: impl FnMut(usize, &mut Vec<u8>),
) -> Result<(ClientKeys, ClientKeys), String> {
    let mut message = client.first();
    change(0, &mut message);
    let reply = server
        .respond(&initial(client.mechanism(), &message))
        .map_err(|e| e.to_string())?;
    let ScramReply::Challenge(mut message) = reply else {
        return Err("no challenge".into());
    };
    change(1, &mut message);
    let mut message = client.prove(&message).map_err(|e| e.to_string())?;
    change(2, &mut message);
    let reply = server.respond(&message).map_err(|e| e.to_string())?;
    let ScramReply::Accepted { mut last, keys } = reply else {
        return Err("challenged twice".into());
    };
    change(3, &mut last);
    Ok((client.check(&last).map_err(|e| e.to_string())?, keys))
}

/// The example of RFC 7677, section 3.
#[test]
fn the_example_of_the_rfc() {
    let salt = BASE64.decode("W22ZaJ0SNY7soEsUEjb6gQ==").unwrap();
    let verifier = Verifier::derive(b"pencil", &salt, ITERATIONS_DEFAULT);
    let mut server = ScramServer::new(verifier, false, None, &[0; NONCE_BYTES]);
    server.nonce = "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0".into();
    let challenge = server
        .respond(&initial(SCRAM_SHA_256, b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO"))
        .unwrap();
    let expected = b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096";
    assert_eq!(challenge, ScramReply::Challenge(expected.to_vec()));
    let last = b"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,\
        p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=";
    let ScramReply::Accepted { last, keys } = server.respond(last).unwrap() else {
        panic!("not accepted")
    };
    assert_eq!(last, b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=");
    assert_eq!(keys, ClientKeys::derive(b"pencil", &salt, ITERATIONS_DEFAULT));
}

#[test]
fn verifiers_are_read_as_postgresql_writes_them() {
    let verifier = Verifier::derive("pässword".as_bytes(), b"0123456789abcdef", FEW);
    let text = verifier.to_secret_text();
    assert_eq!(Verifier::parse(&text), Some(verifier.clone()));
    assert!(verifier.matches("pässword".as_bytes()) && !verifier.matches(b"password"));
    for wrong in [
        text.replace("SCRAM", "scram"),
        text.replace("$7:", "$0:"),
        text.replace("$7:", "$+7:"),
        text.replace("$7:", "$99999999999:"),
        text.replace("$7:", "$7"),
        text[..text.len() - 4].to_owned(),
        format!("{text}AAAA"),
        "SCRAM-SHA-256$7:$:".into(),
    ] {
        assert_eq!(Verifier::parse(&wrong), None, "{wrong}");
    }
    let shown = format!("{verifier:?} {:?}", ClientKeys::derive(b"x", b"y", FEW));
    assert_eq!(
        shown,
        "Verifier { iterations: 7, .. } ClientKeys { iterations: 7, .. }"
    );
}

#[test]
fn saslprep_with_postgresql_s_exceptions() {
    let same = |a: &[u8], b: &[u8]| assert_eq!(normalized(a), normalized(b));
    same("I\u{ad}X".as_bytes(), b"IX");
    same("\u{2168}".as_bytes(), b"IX");
    same("\u{aa}".as_bytes(), b"a");
    same("a\u{a0}b".as_bytes(), b"a b");
    for as_it_is in ["user", "\u{7}", "\u{627}1", "\u{ad}", "\u{221}\u{aa}"] {
        assert_eq!(normalized(as_it_is.as_bytes()), as_it_is.as_bytes());
    }
    assert_eq!(normalized(b"\xff\xc2\xaa"), b"\xff\xc2\xaa".as_slice());
}

#[test]
fn every_way_to_bind() {
    let hash = Some(HASH);
    for (offered, known, header) in [
        (None, None, "n,,"),
        (None, hash, "y,,"),
        (hash, None, "n,,"),
        (hash, hash, "p=tls-server-end-point,,"),
    ] {
        let mechanism = match header.starts_with("p=") {
            true => SCRAM_SHA_256_PLUS,
            false => SCRAM_SHA_256,
        };
        let mut server = server(b"pw", offered);
        let mut client = client(&server, known, secret(b"pw"));
        assert_eq!(client.mechanism(), mechanism);
        assert!(client.first().starts_with(header.as_bytes()));
        exchange(&mut server, &mut client, |_, _| {}).unwrap();
    }
    let choose = |offered: &[&[u8]], tls, hash| {
        ScramClient::choose(offered, tls, hash, secret(b"pw"), &[0; NONCE_BYTES]).map(|c| c.mechanism())
    };
    assert_eq!(
        choose(&[b"SCRAM-SHA-1"], true, Some(HASH)),
        Err(ScramClientError::NoMechanism)
    );
    assert_eq!(
        choose(&[SCRAM_SHA_256_PLUS.as_bytes()], false, None),
        Err(ScramClientError::NoMechanism)
    );
}

#[test]
fn somebody_in_between_is_noticed() {
    // The offer of PLUS was taken out on its way: the client says that it could have bound itself.
    let mut there = server(b"pw", Some(HASH));
    let plain: &[&[u8]] = &[SCRAM_SHA_256.as_bytes()];
    let cheated = ScramClient::choose(plain, true, Some(HASH), secret(b"pw"), &[0; NONCE_BYTES]).unwrap();
    let first = initial(SCRAM_SHA_256, &cheated.first());
    assert_eq!(there.respond(&first), Err(ScramRefusal::Downgraded));

    // The client speaks TLS with somebody else, who passes its messages on.
    let mut there = server(b"pw", Some(HASH));
    let mut elsewhere = client(&there, Some(&[8; 32]), secret(b"pw"));
    let error = exchange(&mut there, &mut elsewhere, |_, _| {}).unwrap_err();
    assert_eq!(error, ScramRefusal::BoundElsewhere.to_string());

    // The flag is rewritten from "y" or "p" to "n": the proof covers it.
    for offered in [None, Some(HASH)] {
        let mut there = server(b"pw", offered);
        let mut client = client(&there, Some(HASH), secret(b"pw"));
        let rewrite = |at: usize, message: &mut Vec<u8>| {
            if at == 0 {
                let bare = message.iter().position(|&b| b == b',').unwrap();
                *message = [b"n", &message[bare..]].concat();
            }
        };
        assert!(exchange(&mut there, &mut client, rewrite).is_err());
    }
}

#[test]
fn a_recorded_login_is_worth_nothing() {
    let mut there = server(b"pw", None);
    let mut real = client(&there, None, secret(b"pw"));
    let mut recorded = Vec::new();
    exchange(&mut there, &mut real, |_, message| recorded.push(message.clone())).unwrap();
    // To the same server once more.
    assert!(there.respond(&recorded[2]).is_err());
    assert!(there.respond(&initial(SCRAM_SHA_256, &recorded[0])).is_err());
    // To a new one, whose nonce is another.
    let verifier = Verifier::derive(b"pw", b"a salt", FEW);
    let mut fresh = ScramServer::new(verifier, false, None, &[3; NONCE_BYTES]);
    fresh.respond(&initial(SCRAM_SHA_256, &recorded[0])).unwrap();
    assert!(matches!(
        fresh.respond(&recorded[2]),
        Err(ScramRefusal::Malformed(_))
    ));
}

#[test]
fn keys_learnt_from_a_client_open_the_same_verifier_only() {
    let mut there = server(b"pw", None);
    let mut real = client(&there, None, secret(b"pw"));
    let (own, learnt) = exchange(&mut there, &mut real, |_, _| {}).unwrap();
    assert_eq!(own, learnt);

    let with_keys = || Credentials::new(None, Some(learnt.clone()));
    let mut same = server(b"pw", Some(HASH));
    let mut pooler = client(&same, Some(HASH), with_keys());
    exchange(&mut same, &mut pooler, |_, _| {}).unwrap();

    let salted_otherwise = Verifier::derive(b"pw", b"another salt", FEW);
    let mut other = ScramServer::new(salted_otherwise, false, None, &[1; NONCE_BYTES]);
    let mut pooler = client(&other, None, with_keys());
    let error = exchange(&mut other, &mut pooler, |_, _| {}).unwrap_err();
    assert_eq!(error, ScramClientError::OtherVerifier.to_string());
}

#[test]
fn challenges_a_client_does_not_answer() {
    let there = server(b"pw", None);
    let nonce = nonce(&[2; NONCE_BYTES]);
    let prove = |challenge: &str| client(&there, None, secret(b"pw")).prove(challenge.as_bytes());
    assert!(prove(&format!("r={nonce}x,s=YQ==,i=2")).is_ok());
    for wrong in [
        format!("r={nonce},s=YQ==,i=2"),
        "r=elsewhere,s=YQ==,i=2".into(),
        format!("r={nonce}\u{e4},s=YQ==,i=2"),
        format!("r={nonce}x,s=,i=2"),
        format!("r={nonce}x,s=?,i=2"),
        format!("r={nonce}x,s=YQ==,i=0"),
        format!("r={nonce}x,s=YQ==,i=-1"),
        format!("r={nonce}x,s=YQ==,i="),
        format!("r={nonce}x,s=YQ==,i=2,x=y"),
        format!("m=x,r={nonce}x,s=YQ==,i=2"),
        "e=other-error".into(),
        String::new(),
    ] {
        assert!(prove(&wrong).is_err(), "{wrong}");
    }
    let absurd = prove(&format!("r={nonce}x,s=YQ==,i=2000000000"));
    assert_eq!(absurd, Err(ScramClientError::Iterations(2_000_000_000)));
    assert!(client(&there, None, secret(b"pw")).check(b"v=AAAA").is_err());
}

#[test]
fn a_client_may_wait_for_an_empty_challenge() {
    let mut there = server(b"pw", None);
    let client = client(&there, None, secret(b"pw"));
    let none = [b"SCRAM-SHA-256\0".as_slice(), &(-1i32).to_be_bytes()].concat();
    assert_eq!(there.respond(&none), Ok(ScramReply::Challenge(Vec::new())));
    assert!(matches!(there.respond(&client.first()), Ok(ScramReply::Challenge(c)) if c.starts_with(b"r=")));
}

#[test]
fn mock_verifiers_keep_their_salt_and_let_nobody_in() {
    let seed = hmac::Key::new(hmac::HMAC_SHA256, b"secret");
    let mock = |user| Verifier::mock(&seed, user, ITERATIONS_DEFAULT);
    assert_eq!(mock("a"), mock("a"));
    assert_ne!(mock("a").salt, mock("b").salt);
    let other = hmac::Key::new(hmac::HMAC_SHA256, b"other");
    assert_ne!(
        mock("a").salt,
        Verifier::mock(&other, "a", ITERATIONS_DEFAULT).salt
    );
    // Even one who knows the password behind a verifier is refused where the exchange is doomed.
    let mut doomed = ScramServer::new(Verifier::derive(b"pw", b"s", FEW), true, None, &[0; NONCE_BYTES]);
    let mut real = client(&doomed, None, secret(b"pw"));
    let error = exchange(&mut doomed, &mut real, |_, _| {}).unwrap_err();
    assert_eq!(error, ScramRefusal::WrongPassword.to_string());
}

proptest! {
    #[test]
    fn the_password_opens_and_no_other(
        password in "\\PC{0,20}", other in "\\PC{0,20}", salt in prop::collection::vec(any::<u8>(), 1..40), count in 1u32..20,
    ) {
        let verifier = Verifier::derive(password.as_bytes(), &salt, NonZeroU32::new(count).unwrap());
        prop_assert_eq!(Verifier::parse(&verifier.to_secret_text()), Some(verifier.clone()));
        let login = |typed: &str| {
            let mut server = ScramServer::new(verifier.clone(), false, None, &[1; NONCE_BYTES]);
            let mut client = client(&server, None, secret(typed.as_bytes()));
            exchange(&mut server, &mut client, |_, _| {}).is_ok()
        };
        prop_assert!(login(&password));
        let alike = normalized(password.as_bytes()) == normalized(other.as_bytes());
        prop_assert_eq!(login(&other), alike);
    }

    /// Whoever changes a byte on the way gets nobody in: one side or the other notices.
    #[test]
    fn a_changed_byte_is_noticed(bound: bool, which in 0usize..4, at: prop::sample::Index, with in 1u8..=255) {
        let hash = bound.then_some(HASH);
        let mut server = server(b"pw", hash);
        let mut client = client(&server, hash, secret(b"pw"));
        let result = exchange(&mut server, &mut client, |number, message| {
            if number == which {
                let at = at.index(message.len());
                message[at] ^= with;
            }
        });
        prop_assert!(result.is_err());
    }

    #[test]
    fn any_bytes_let_nobody_in(messages in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..80), 1..5), bound: bool) {
        let mut server = server(b"pw", bound.then_some(HASH));
        for message in &messages {
            let accepted = matches!(server.respond(message), Ok(ScramReply::Accepted { .. }));
            prop_assert!(!accepted);
        }
    }

    /// The same with bytes that look more like messages.
    #[test]
    fn any_attributes_let_nobody_in(
        first in "(n|y|p=tls-server-end-point),(a=x)?,(n=|m=|r=|,|=|[a-z]){0,4}r=[a-zA-Z,]{0,8}",
        last in "(c=(biws|eSws)?)?,?(r=[a-zA-Z]{0,8}AQEBAQEBAQEBAQEBAQEBAQEBAQEB)?,?([a-z]=x,)?(p=[A-Za-z+/]{0,43}=?)?,?",
    ) {
        let mut server = server(b"pw", None);
        let _ = server.respond(&initial(SCRAM_SHA_256, first.as_bytes()));
        let accepted = matches!(server.respond(last.as_bytes()), Ok(ScramReply::Accepted { .. }));
        prop_assert!(!accepted);
        let there = self::server(b"pw", None);
        let mut client = client(&there, None, secret(b"pw"));
        let _ = client.prove(first.as_bytes());
        prop_assert!(client.check(last.as_bytes()).is_err());
    }
}
