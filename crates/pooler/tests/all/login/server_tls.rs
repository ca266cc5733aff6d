//! TLS with servers: which of them the proxy talks to, by `server_tls_sslmode`, and what clients hear of those it does not.

use crate::common::assert_contains;
use crate::common::message;
use crate::common::postgres::{Options, Postgres};
use crate::common::raw::{Login, Raw};
use crate::common::target::{Kind, Mode, Pooling, Target, kind};

/// A certificate for these names, PEM, and its key.
fn certificate(names: &[&str]) -> (String, String) {
    let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
    let made = rcgen::generate_simple_self_signed(names).expect("a certificate");
    (made.cert.pem(), made.signing_key.serialize_pem())
}

fn server(certificate: Option<(String, String)>) -> Postgres {
    Postgres::start_with(Options {
        certificate,
        hba: vec!["host all app_scram 127.0.0.1/32 scram-sha-256".to_owned()],
        ..Options::default()
    })
}

/// Whether the proxy's connection to the server has TLS, or what clients hear, at once, that cannot get one.
fn through(server: &Postgres, mode: &str, authority: Option<&str>, user: &str) -> Result<String, String> {
    let mut pooling = Pooling::new(Mode::Transaction, 2).set("server_tls_sslmode", mode);
    if let Some(authority) = authority {
        pooling = pooling
            .set("server_tls_ca_file", "{folder}/authority.crt")
            .file("authority.crt", authority);
    }
    let target = Target::start(server, &pooling);
    let login = target.login(user);
    let mut raw = match Raw::connect(&login) {
        Ok(raw) => raw,
        Err(refused) => {
            assert!(
                refused.to_string().contains("TLS"),
                "it was left waiting: {refused}"
            );
            return Err(refusal(&login));
        }
    };
    let rows = raw.try_rows("select ssl from pg_stat_ssl where pid = pg_backend_pid()")?;
    Ok(rows[0][0].clone().unwrap_or_default())
}

/// What a login without a password hears, with its detail.
fn refusal(login: &Login) -> String {
    let answer = Raw::started(login).until_closed();
    let error = message::first_error(&answer).expect("an error");
    let field = |code| error.field(code).unwrap_or_default();
    format!("{}: {}", field(b'M'), field(b'D'))
}

#[test]
fn servers_with_tls() {
    if kind() != Kind::Corun {
        return;
    }
    let ours = certificate(&["localhost", "127.0.0.1"]);
    let (another, _) = certificate(&["localhost", "127.0.0.1"]);
    let authority = ours.0.clone();
    let server = server(Some(ours));
    let (yes, no) = (Ok("t".to_owned()), Ok("f".to_owned()));
    for user in ["app", "app_scram"] {
        assert_eq!(through(&server, "disable", None, user), no);
        assert_eq!(through(&server, "prefer", None, user), yes);
        assert_eq!(through(&server, "require", None, user), yes);
        assert_eq!(through(&server, "verify-ca", Some(&authority), user), yes);
        assert_eq!(through(&server, "verify-full", Some(&authority), user), yes);
    }
    for mode in ["verify-ca", "verify-full"] {
        let refused = through(&server, mode, Some(&another), "app").expect_err("not our authority");
        assert!(
            refused.contains("TLS") && refused.contains("certificate"),
            "{mode}: {refused}"
        );
    }
}

#[test]
fn a_server_by_another_name() {
    if kind() != Kind::Corun {
        return;
    }
    let named = certificate(&["db.example"]);
    let authority = named.0.clone();
    let server = server(Some(named));
    assert_eq!(
        through(&server, "verify-ca", Some(&authority), "app"),
        Ok("t".to_owned())
    );
    let refused = through(&server, "verify-full", Some(&authority), "app").expect_err("another name");
    assert_contains(&refused, "certificate");
}

#[test]
fn servers_without_tls() {
    if kind() != Kind::Corun {
        return;
    }
    let server = server(None);
    let (authority, _) = certificate(&["127.0.0.1"]);
    assert_eq!(through(&server, "prefer", None, "app"), Ok("f".to_owned()));
    for mode in ["require", "verify-ca", "verify-full"] {
        let authority = (mode != "require").then_some(authority.as_str());
        let refused = through(&server, mode, authority, "app").expect_err("no TLS");
        assert!(refused.contains("TLS"), "{mode}: {refused}");
    }
}
