//! TLS with clients: what was sent before it does not count, and channel binding cannot be talked away.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::time::Duration;

use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;

use crate::common::fixture::cancel;
use crate::common::message::{self, errors, message};
use crate::common::postgres::shared;
use crate::common::raw::{Login, Raw};
use crate::common::scram::Scram;
use crate::common::target::{Kind, Mode, Pooling, Target, kind};
use crate::login::who;

/// A target with TLS, and what a client needs to trust it. `None` where the target is the server, which has no TLS here.
fn with_tls(mode: &str, auth_type: &str) -> Option<(Target, Arc<rustls::ClientConfig>)> {
    if kind() == Kind::Direct {
        return None;
    }
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).expect("a certificate");
    let pem = made.cert.pem();
    let pooling = Pooling::new(Mode::Transaction, 2)
        .set("auth_type", auth_type)
        .set("client_tls_sslmode", mode)
        .set("client_tls_cert_file", "{folder}/server.crt")
        .set("client_tls_key_file", "{folder}/server.key")
        .file("server.crt", &pem)
        .file("server.key", &made.signing_key.serialize_pem());
    let mut roots = rustls::RootCertStore::empty();
    roots
        .add(CertificateDer::from_pem_slice(pem.as_bytes()).expect("PEM"))
        .expect("a root");
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("versions")
        .with_root_certificates(roots)
        .with_no_client_auth();
    Some((Target::start(shared(), &pooling), Arc::new(config)))
}

fn over(login: Login, tls: &Arc<rustls::ClientConfig>) -> Login {
    Login {
        tls: Some(Arc::clone(tls)),
        ..login
    }
}

#[test]
fn logins_work_over_tls() {
    let Some((target, tls)) = with_tls("allow", "scram-sha-256") else {
        return;
    };
    let login = over(target.login("app_scram"), &tls);
    assert_eq!(who(&login), Ok("app_scram app_scram off".to_owned()));
    assert!(who(&login.clone().password("wrong")).is_err());
    assert!(
        who(&target.login("app_scram")).is_ok(),
        "TLS is allowed, not required"
    );
    let mut raw = target.client_as(&login);
    let long = "x".repeat(3 << 20);
    assert_eq!(
        raw.value(&format!("select length('{long}')")),
        (3 << 20).to_string()
    );
}

#[test]
fn where_tls_is_required_nobody_gets_in_without() {
    let Some((target, tls)) = with_tls("require", "trust") else {
        return;
    };
    assert!(who(&over(target.login("app"), &tls)).is_ok());
    let refused = who(&target.login("app"));
    assert!(refused.is_err(), "{refused:?}");
}

#[test]
fn plain_bytes_before_tls_do_not_count() {
    let Some((target, tls)) = with_tls("allow", "trust") else {
        return;
    };
    let login = target.login("app");
    let startup = message::startup(0, &[("user", "app"), ("database", "app")]);
    for injected in [
        startup.clone(),
        message::query("select 1"),
        b"x".to_vec(),
        [startup, message::query("select 'injected'")].concat(),
    ] {
        let mut socket = TcpStream::connect((login.host.as_str(), login.port)).expect("connected");
        socket
            .set_read_timeout(Some(Duration::from_secs(5)))
            .expect("timeout");
        socket
            .write_all(&[message::ssl_request(), injected].concat())
            .expect("sent");
        let mut answer = [0u8; 1];
        if socket.read(&mut answer).unwrap_or(0) == 0 || answer[0] != b'S' {
            continue;
        }
        // Should the handshake succeed, nothing may have been taken from before it.
        let name = rustls::pki_types::ServerName::try_from("localhost").expect("a name");
        let mut session = rustls::ClientConnection::new(Arc::clone(&tls), name).expect("a session");
        let mut shaken = true;
        while session.is_handshaking() && shaken {
            shaken = session.complete_io(&mut socket).is_ok();
        }
        if shaken {
            let mut stream = rustls::StreamOwned::new(session, socket);
            let mut rest = Vec::new();
            let _ = stream.read_to_end(&mut rest);
            assert!(
                !rest.contains(&b'Z'),
                "bytes from before the handshake were obeyed: {rest:02x?}"
            );
        }
    }
    assert!(who(&over(login, &tls)).is_ok());
}

/// Sends the first and the last message of a login.
fn exchange(raw: &mut Raw, scram: &Scram, mechanism: &str) {
    raw.send(&message(b'p', &scram.first(mechanism)));
    let first = raw.read().expect("the server's first");
    let (last, _) = scram
        .last(&String::from_utf8_lossy(&first.body[4..]), "secret")
        .expect("a last message");
    raw.send(&message(b'p', last.as_bytes()));
}

#[test]
fn channel_binding_is_offered_and_cannot_be_talked_away() {
    let Some((target, tls)) = with_tls("require", "scram-sha-256") else {
        return;
    };
    if kind() == Kind::PgBouncer {
        return; // 1.18 has none.
    }
    let login = over(target.login("app_scram"), &tls);
    let started = || {
        let mut raw = Raw::started(&login);
        let question = raw.read().expect("a question");
        assert!(
            question.texts().join(" ").contains("SCRAM-SHA-256-PLUS"),
            "{question:?}"
        );
        raw
    };
    assert!(who(&login).is_ok(), "the client binds where it can");
    // A client that could bind and believes the server could not: somebody in the middle removed the offer.
    let mut raw = started();
    let hash = raw.certificate.clone().expect("a certificate");
    raw.send(&message(b'p', &Scram::new("n", "y,,").first("SCRAM-SHA-256")));
    assert_eq!(raw.read().expect("an answer").tag, b'E');
    // The channel of somebody in the middle has another certificate.
    let mut other = hash;
    other[0] ^= 1;
    let mut raw = started();
    exchange(&mut raw, &Scram::bound("n", &other), "SCRAM-SHA-256-PLUS");
    assert_eq!(raw.read().expect("an answer").tag, b'E');
    // Without binding, as a client that cannot: fine.
    let mut raw = started();
    exchange(&mut raw, &Scram::new("n", "n,,"), "SCRAM-SHA-256");
    assert!(raw.until_ready().iter().all(|m| m.tag != b'E'));
}

#[test]
fn cancels_work_beside_tls() {
    let Some((target, tls)) = with_tls("allow", "trust") else {
        return;
    };
    let mut raw = target.client_as(&over(target.login("app"), &tls));
    raw.send_query("select pg_sleep(60), 'beside tls'");
    shared().wait_until("select count(*) = 1 from pg_stat_activity where wait_event = 'PgSleep' and query like '%beside tls%' and pid <> pg_backend_pid()");
    cancel(&target.login("app"), &raw.key);
    assert_eq!(errors(&raw.until_ready()), ["57014"]);
}
