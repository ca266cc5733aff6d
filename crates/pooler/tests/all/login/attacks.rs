//! Attacks on the exchange of a login: skipping it, replaying it, talking the other side into something weaker.

use std::time::Duration;

use crate::common::message::{self, Message, message};
use crate::common::raw::Raw;
use crate::common::scram::Scram;
use crate::common::target::Target;
use crate::login::{asking, user_of};

fn started(target: &Target, user: &str) -> (Raw, Message) {
    let mut raw = Raw::started(&target.login(user));
    let answer = raw.read().expect("a question");
    (raw, answer)
}

/// Sends what is left of an attack: it must end in an error or the end, without a login or a row.
fn fails(mut raw: Raw, bytes: &[u8], about: &str) {
    let _ = raw.try_send(bytes);
    raw.set_patience(Duration::from_secs(3));
    loop {
        match raw.read() {
            Ok(answer) => {
                assert!(!matches!(answer.tag, b'Z' | b'D' | b'K'), "{about}: {answer:?}");
                assert!(answer.tag != b'R' || answer.u32_at(0) != 0, "{about}: logged in");
            }
            Err(error) => {
                // Silence is no login either, but then nothing may come of it later.
                let _ = error;
                return;
            }
        }
    }
}

fn password(text: &str) -> Vec<u8> {
    message(b'p', &[text.as_bytes(), b"\0"].concat())
}

#[test]
fn the_exchange_cannot_be_skipped() {
    for auth_type in ["scram-sha-256", "md5", "plain"] {
        let target = asking(auth_type);
        let user = user_of(auth_type);
        let query = message::query("select 'inside'");
        let whole = [message::statement("select 'inside'", &[]), message::sync()].concat();
        let alone = [
            ("a query in place of the password", query.clone()),
            ("a pipeline in place of the password", whole),
        ];
        let before_a_query = [
            ("an empty password", password("")),
            ("a wrong password", password("wrong")),
            ("a password message without an end", message(b'p', b"wrong")),
            ("an empty password message", message(b'p', b"")),
            ("a second startup", message::startup(0, &[("user", "postgres")])),
            ("a request for TLS now", message::ssl_request()),
            ("a message of a server", message(b'R', &[0; 4])),
            ("a long password message", message(b'p', &vec![b'x'; 70_000])),
        ]
        .map(|(about, bytes)| (about, [bytes, query.clone()].concat()));
        for (about, bytes) in alone.into_iter().chain(before_a_query) {
            let (raw, question) = started(&target, user);
            assert_eq!(question.tag, b'R', "{question:?}");
            assert_ne!(question.u32_at(0), 0);
            fails(raw, &bytes, &format!("{auth_type}: {about}"));
        }
    }
}

/// Answers with a first SCRAM message; the server's, if it gives one.
fn first_answer(raw: &mut Raw, scram: &Scram, mechanism: &str) -> Option<String> {
    raw.send(&message(b'p', &scram.first(mechanism)));
    match raw.read() {
        Ok(answer) if answer.tag == b'R' && answer.u32_at(0) == 11 => {
            Some(String::from_utf8_lossy(&answer.body[4..]).into_owned())
        }
        _ => None,
    }
}

#[test]
fn a_recorded_login_cannot_be_played_again() {
    let target = asking("scram-sha-256");
    let scram = Scram::new("the-same-nonce-every-time", "n,,");
    let (mut raw, _) = started(&target, "app_scram");
    let first = first_answer(&mut raw, &scram, "SCRAM-SHA-256").expect("the server's first");
    let (last, _) = scram.last(&first, "secret").expect("a proof");
    raw.send(&message(b'p', last.as_bytes()));
    assert!(
        raw.until(|seen| seen.last().is_some_and(|m| m.tag == b'Z'))
            .iter()
            .all(|m| m.tag != b'E')
    );
    for _ in 0..3 {
        let (mut raw, _) = started(&target, "app_scram");
        let again = first_answer(&mut raw, &scram, "SCRAM-SHA-256").expect("the server's first");
        assert_ne!(again, first, "the server's nonce must be new");
        fails(raw, &message(b'p', last.as_bytes()), "replayed");
    }
}

#[test]
fn a_manipulated_proof_is_refused() {
    let target = asking("scram-sha-256");
    // The last message up to its proof, and the proof.
    type Change = fn(&str, &str) -> String;
    let change: [(&str, Change); 9] = [
        ("another nonce", |head, proof| {
            head.replacen("r=", "r=x", 1) + proof
        }),
        ("the client's nonce only", |head, proof| {
            let start = head.find("r=").expect("a nonce");
            format!("{}r=n{proof}", &head[..start])
        }),
        ("no proof", |head, _| head.to_owned()),
        ("an empty proof", |head, _| format!("{head},p=")),
        ("a proof of zeros", |head, _| {
            format!("{head},p={}=", "A".repeat(43))
        }),
        ("a short proof", |head, _| format!("{head},p=AAAA")),
        ("a proof that is not base64", |head, _| format!("{head},p=???")),
        ("another binding", |head, proof| {
            head.replacen("c=biws", "c=eSws", 1) + proof
        }),
        ("nothing", |_, _| String::new()),
    ];
    for (about, change) in change {
        let scram = Scram::new("n", "n,,");
        let (mut raw, _) = started(&target, "app_scram");
        let first = first_answer(&mut raw, &scram, "SCRAM-SHA-256").expect("the server's first");
        let (last, _) = scram.last(&first, "secret").expect("a proof");
        let (head, proof) = last.split_at(last.find(",p=").expect("a proof"));
        let changed = change(head, proof);
        assert_ne!(changed, last);
        fails(raw, &message(b'p', changed.as_bytes()), about);
    }
}

#[test]
fn nothing_weaker_than_what_is_asked_for() {
    let target = asking("scram-sha-256");
    for (about, body) in [
        ("a plain password", b"secret\0".to_vec()),
        (
            "an md5 password",
            b"md5d41d8cd98f00b204e9800998ecf8427e\0".to_vec(),
        ),
        ("an unknown mechanism", Scram::new("n", "n,,").first("PLAIN")),
        ("SHA-1", Scram::new("n", "n,,").first("SCRAM-SHA-1")),
        (
            "channel binding without TLS",
            Scram::bound("n", b"hash").first("SCRAM-SHA-256-PLUS"),
        ),
        ("no mechanism", Scram::new("n", "n,,").first("")),
        ("no nonce", Scram::new("", "n,,").first("SCRAM-SHA-256")),
        (
            "channel binding named without being chosen",
            Scram::bound("n", b"hash").first("SCRAM-SHA-256"),
        ),
        (
            "another user to act for",
            Scram::new("n", "n,a=postgres,").first("SCRAM-SHA-256"),
        ),
        (
            "an extension one must understand",
            Scram::new("n,m=x", "n,,").first("SCRAM-SHA-256"),
        ),
        (
            "a length that lies",
            b"SCRAM-SHA-256\0\x7f\xff\xff\xffn,,n=,r=x".to_vec(),
        ),
        (
            "a negative length and no answer after",
            b"SCRAM-SHA-256\0\xff\xff\xff\xff".to_vec(),
        ),
        ("nothing at all", Vec::new()),
    ] {
        let (mut raw, question) = started(&target, "app_scram");
        assert_eq!(question.u32_at(0), 10, "SASL is asked for");
        let offered = question.texts().join(" ");
        assert!(!offered.contains("PLUS"), "no channel to bind to: {offered}");
        let _ = raw.try_send(&message(b'p', &body));
        fails(
            raw,
            &[password("secret"), message::query("select 'inside'")].concat(),
            about,
        );
    }
}

#[test]
fn many_attempts_do_not_wear_it_out() {
    let target = asking("scram-sha-256");
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let target = &target;
            scope.spawn(move || {
                for n in 0..25 {
                    let login = target.login("app_scram").password(&format!("guess {thread} {n}"));
                    assert!(Raw::connect(&login).is_err());
                }
            });
        }
    });
    assert!(crate::login::who(&target.login("app_scram")).is_ok());
}
