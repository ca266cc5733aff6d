//! Logins against the real thing: our client side logs in to PostgreSQL, libpq logs in to our server side.

mod talk;

use std::net::TcpListener;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use crate::common::assert_contains;
use crate::common::postgres::{Options, Postgres};
use corun_wire::auth::md5::Md5Secret;
use corun_wire::auth::scram::{ClientKeys, ITERATIONS_DEFAULT, Verifier};
use corun_wire::auth::{Credentials, Method, Secret};
use corun_wire::tls::{TlsClient, TlsFiles, TlsMode, TlsServer};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};
use talk::{Server, login};

use crate::skipped::skipped;

/// An authority, a server's certificate for 127.0.0.1 and a client's for the user `ada`.
struct Certificates {
    folder: tempfile::TempDir,
}

impl Certificates {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, text: String| {
            let path = folder.path().join(name);
            std::fs::write(&path, text).unwrap();
            use std::os::unix::fs::PermissionsExt as _;
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
        };
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, "authority");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let ca = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
        write("ca.crt", ca.pem());
        for (file, name, hosts) in [
            ("server", "server", vec!["127.0.0.1".to_owned()]),
            ("client", "ada", vec![]),
        ] {
            let mut params = CertificateParams::new(hosts).unwrap();
            params.distinguished_name.push(DnType::CommonName, name);
            let key = KeyPair::generate().unwrap();
            write(&format!("{file}.crt"), params.signed_by(&key, &ca).unwrap().pem());
            write(&format!("{file}.key"), key.serialize_pem());
        }
        Self { folder }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn text(&self, name: &str) -> String {
        std::fs::read_to_string(self.path(name)).unwrap()
    }

    fn files(&self, mode: TlsMode, own: Option<&str>) -> TlsFiles {
        TlsFiles {
            mode,
            ca: Some(self.path("ca.crt")),
            cert: own.map(|name| self.path(&format!("{name}.crt"))),
            key: own.map(|name| self.path(&format!("{name}.key"))),
            ..TlsFiles::default()
        }
    }

    /// A server that has the server's certificate and asks clients for theirs.
    fn postgres(&self, hba: &[&str]) -> Postgres {
        Postgres::start_with(Options {
            hba: hba.iter().map(|&rule| rule.to_owned()).collect(),
            certificate: Some((self.text("server.crt"), self.text("server.key"))),
            client_authority: Some(self.text("ca.crt")),
            ..Options::default()
        })
    }
}

fn password(text: &str) -> Credentials {
    Credentials {
        password: Some(text.as_bytes().to_vec()),
        ..Credentials::default()
    }
}

#[test]
fn our_client_side_logs_in_to_postgresql() {
    let certificates = Certificates::new();
    let postgres = certificates.postgres(&[
        "hostssl all ada 127.0.0.1/32 cert",
        "host all scram 127.0.0.1/32 scram-sha-256",
        "host all md5 127.0.0.1/32 md5",
        "host all clear 127.0.0.1/32 password",
        "host all free 127.0.0.1/32 trust",
    ]);
    postgres.sql(
        "create role scram login password 'geheim'; create role clear login password 'geheim'; create role free login;
         create role ada login; set password_encryption = 'md5'; create role md5 login password 'geheim';",
    );
    let log_in = |user, credentials, way| login(postgres.port(), user, credentials, way);
    let tls = TlsClient::load(&certificates.files(TlsMode::VerifyFull, None)).unwrap();
    let ada = TlsClient::load(&certificates.files(TlsMode::VerifyFull, Some("client"))).unwrap();
    let md5 = Credentials {
        md5: Some(Md5Secret::of(b"geheim", "md5")),
        ..Credentials::default()
    };

    for way in [None, Some(&tls)] {
        for (user, credentials) in [
            ("scram", password("geheim")),
            ("md5", password("geheim")),
            ("md5", md5.clone()),
            ("clear", password("geheim")),
            ("free", Credentials::default()),
        ] {
            let result = log_in(user, credentials, way);
            assert!(result.is_ok(), "{user} {}: {result:?}", way.is_some());
        }
        for user in ["scram", "md5", "clear"] {
            let error = log_in(user, password("falsch"), way).unwrap_err();
            assert_eq!(
                error,
                format!("28P01 password authentication failed for user \"{user}\"")
            );
        }
    }
    assert!(log_in("ada", Credentials::default(), Some(&ada)).is_ok());
    // Bound to the channel where there is one.
    for way in [None, Some(&tls)] {
        let (_, bound) = log_in("scram", password("geheim"), way).unwrap();
        assert_eq!(bound, way.is_some());
    }
    let refused = log_in("ada", Credentials::default(), Some(&tls)).unwrap_err();
    assert_contains(&refused, "28000");

    // With keys and no password, which is what the proxy has after a client logged in to it with the same verifier.
    let keys = log_in("scram", password("geheim"), None).unwrap().0.unwrap();
    let stored = postgres.value("select rolpassword from pg_authid where rolname = 'scram'");
    assert_eq!(keys.verifier().to_secret_text(), stored);
    let with_keys = |keys: &ClientKeys| Credentials {
        keys: Some(keys.clone()),
        ..Credentials::default()
    };
    for way in [None, Some(&tls)] {
        let (_, bound) = log_in("scram", with_keys(&keys), way).unwrap();
        assert_eq!(bound, way.is_some());
    }
    postgres.sql("alter role scram password 'geheim'"); // another salt
    let refused = log_in("scram", with_keys(&keys), None).unwrap_err();
    assert_contains(&refused, "verifier");
    let both = Credentials {
        keys: Some(keys),
        ..password("geheim")
    };
    assert!(log_in("scram", both, None).is_ok());
}

/// Passwords outside ASCII: what PostgreSQL stores for them is what we would have stored.
#[test]
fn passwords_are_prepared_as_postgresql_does() {
    let postgres = Postgres::start();
    let mut passwords: Vec<String> = [
        "pencil",
        "pässword",
        "I\u{ad}X",
        "\u{2168}",
        "\u{aa}",
        "a\u{a0}b",
        "\u{627}1",
        "\u{ad}",
        "\u{221}x",
    ]
    .map(str::to_owned)
    .into();
    // Characters of many blocks in threes, by a fixed sequence.
    let mut seed = 1u32;
    let mut next = || {
        seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        let ranges = [
            0xa0..0x250,
            0x300..0x370,
            0x5d0..0x650,
            0x1e00..0x2100,
            0x2100..0x2200,
            0x3000..0x3100,
            0xf900..0xfb50,
            0xff00..0x10000,
            0x1d400..0x1d500,
            0xe0000..0xe0080,
        ];
        let range = &ranges[(seed >> 16) as usize % ranges.len()];
        seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        char::from_u32(range.start + (seed >> 12) % (range.end - range.start)).unwrap_or('x')
    };
    for _ in 0..300 {
        passwords.push([next(), 'a', next(), next()].iter().collect());
    }
    let mut script = String::from("create role r login;\n");
    for password in &passwords {
        let quoted = password.replace('\'', "''");
        script += &format!(
            "alter role r password '{quoted}'; select rolpassword from pg_authid where rolname = 'r';\n"
        );
    }
    let stored: Vec<String> = postgres.sql(&script).into_iter().flatten().flatten().collect();
    assert_eq!(stored.len(), passwords.len());
    let mut prepared = 0;
    for (password, stored) in passwords.iter().zip(&stored) {
        let verifier = Verifier::parse(stored).unwrap();
        assert!(
            verifier.matches(password.as_bytes()),
            "{password:?}: {:x?}",
            password.chars().map(u32::from).collect::<Vec<_>>()
        );
        prepared +=
            u32::from(*corun_wire::auth::scram::normalized(password.as_bytes()) != *password.as_bytes());
    }
    assert!(
        prepared > 20,
        "passwords that differ from what is hashed: {prepared}"
    );
}

/// What psql says, or the rows it has, and what the server learnt of it.
type Talk = (Result<String, String>, Result<Option<ClientKeys>, String>);

/// Runs psql against a server of ours, with a user and a password.
fn psql(server: Server, (user, password): (&str, &str), more: &str, certificates: &Certificates) -> Talk {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let serving = std::thread::spawn(move || server.serve(listener.accept().unwrap().0));
    let output = Command::new("psql")
        .args(["-X", "-A", "-t", "-c", "select 1"])
        .arg(format!(
            "host=127.0.0.1 port={port} user={user} dbname=d connect_timeout=120 gssencmode=disable {more}"
        ))
        .env("PGPASSWORD", password)
        .env("HOME", certificates.folder.path())
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let told = if output.status.success() {
        Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
    } else {
        Err(String::from_utf8_lossy(&output.stderr).trim().to_owned())
    };
    (told, serving.join().unwrap())
}

/// What psql was refused with ends so.
#[track_caller]
fn assert_ends(told: Result<String, String>, end: &str) {
    assert!(told.as_ref().is_err_and(|told| told.ends_with(end)), "{told:?}");
}

#[test]
fn libpq_logs_in_to_our_server_side() {
    let certificates = Certificates::new();
    let home = &certificates;
    let right = ("u", "geheim");
    let verifier = Verifier::derive(b"geheim", b"sixteen bytes ok", ITERATIONS_DEFAULT);
    let plain = || Secret::parse(b"geheim");
    let scram = || Some(Secret::Scram(verifier.clone()));
    let md5 = || Some(Secret::Md5(Md5Secret::of(b"geheim", "u")));
    let load = |mode| Some(TlsServer::load(&certificates.files(mode, Some("server"))).unwrap());
    let server = |method, secret, tls| Server::new("u", method, secret, tls);
    let full = format!(
        "sslmode=verify-full sslrootcert={}",
        certificates.path("ca.crt").display()
    );
    let bound = format!("{full} channel_binding=require");

    for tls in [false, true] {
        let (more, tls) = if tls {
            (full.as_str(), load(TlsMode::Require))
        } else {
            ("sslmode=disable", None)
        };
        for (method, secret) in [
            (Method::ScramSha256, scram()),
            (Method::ScramSha256, plain()),
            (Method::Md5, scram()),
            (Method::Md5, md5()),
            (Method::Md5, plain()),
            (Method::Password, scram()),
            (Method::Password, md5()),
            (Method::Trust, None),
        ] {
            let (told, served) = psql(server(method, secret.clone(), tls.clone()), right, more, home);
            assert_eq!(told.as_deref(), Ok("in"), "{method:?} {secret:?} {served:?}");
            if method == Method::ScramSha256 {
                assert!(served.unwrap().unwrap().verifier().matches(b"geheim"));
            }
            if method != Method::Trust {
                // As PgBouncer says it.
                let by_scram = matches!(
                    (method, &secret),
                    (Method::ScramSha256, _) | (Method::Md5, Some(Secret::Scram(_)))
                );
                let what = if by_scram { "SASL" } else { "password" };
                let (told, _) = psql(server(method, secret, tls.clone()), ("u", "falsch"), more, home);
                assert_ends(
                    told,
                    &format!("FATAL:  {what} authentication failed for user \"u\""),
                );
            }
        }
        let server = server(Method::ScramSha256, scram(), tls);
        let (nobody, _) = psql(server, ("v", "geheim"), more, home);
        assert_ends(nobody, "FATAL:  SASL authentication failed for user \"v\"");
    }

    let tls = || load(TlsMode::Require);
    let unbound = format!("{full} channel_binding=disable");
    for (secret, more) in [(scram(), &bound), (plain(), &bound), (scram(), &unbound)] {
        let server = server(Method::ScramSha256, secret, tls());
        let told = psql(server, right, more, home).0;
        assert_eq!(told.as_deref(), Ok("in"), "{more}");
    }
    for refused in [
        server(Method::Md5, md5(), tls()),
        Server {
            binds: false,
            ..server(Method::ScramSha256, scram(), tls())
        },
    ] {
        let told = psql(refused, right, &bound, home).0.unwrap_err();
        assert_contains(&told, "channel binding");
    }

    // Certificates of clients.
    let own = |name: &str| certificates.path(name).display().to_string();
    let with_cert = format!(
        "{full} sslcert={} sslkey={}",
        own("client.crt"),
        own("client.key")
    );
    let ada = |mode| Server::new("ada", Method::Cert, None, load(mode));
    for mode in [TlsMode::Require, TlsMode::VerifyCa] {
        let (told, _) = psql(ada(mode), ("ada", ""), &with_cert, home);
        assert_eq!(told.as_deref(), Ok("in"));
        let (other, _) = psql(ada(mode), ("u", ""), &with_cert, home);
        assert_ends(other, "FATAL:  certificate authentication failed for user \"u\"");
    }
    let (without, _) = psql(ada(TlsMode::Require), ("ada", ""), &full, home);
    assert_ends(without, "FATAL:  connection requires a valid client certificate");
    assert!(psql(ada(TlsMode::VerifyCa), ("ada", ""), &full, home).0.is_err());
}

/// The whole way of a pooler that knows only the verifier: a client logs in to it, and it logs in to the server as that client.
#[test]
fn a_client_s_proof_opens_the_server_s_door() {
    let certificates = Certificates::new();
    let postgres = certificates.postgres(&[]);
    postgres.sql("create role u login password 'gehe\u{ad}im \u{2168}'");
    let stored = postgres.value("select rolpassword from pg_authid where rolname = 'u'");
    let secret = Secret::parse(stored.as_bytes());
    let tls = Some(TlsServer::load(&certificates.files(TlsMode::Require, Some("server"))).unwrap());
    let server = Server::new("u", Method::ScramSha256, secret.clone(), tls);
    let more = format!(
        "sslmode=verify-full sslrootcert={} channel_binding=require",
        certificates.path("ca.crt").display()
    );
    let (told, served) = psql(server, ("u", "geheim IX"), &more, &certificates);
    assert_eq!(told.as_deref(), Ok("in"), "{served:?}");
    let credentials = Credentials::new(secret.as_ref(), served.unwrap());
    let to_server = TlsClient::load(&certificates.files(TlsMode::VerifyFull, None)).unwrap();
    for way in [Some(&to_server), None] {
        let logged_in = login(postgres.port(), "u", credentials.clone(), way);
        let told = logged_in.map(|(keys, bound)| (keys.is_some(), bound));
        assert_eq!(told, Ok((true, way.is_some())));
    }
}

/// Certificates as people make them with OpenSSL: of version 1, and with signatures whose hash is another than SHA-256, which
/// decides what a login is bound to. Both sides in turn are PostgreSQL's.
#[test]
fn every_certificate_binds() {
    let certificates = Certificates::new();
    let openssl = |args: &str| {
        Command::new("openssl")
            .args(args.split(' '))
            .current_dir(certificates.folder.path())
            .stdin(Stdio::null())
            .output()
            .is_ok_and(|out| out.status.success())
    };
    if !openssl("version") {
        skipped("openssl is not installed");
        return;
    }
    let postgres = certificates.postgres(&[]);
    postgres.sql("create role u login password 'geheim'");
    let client = TlsClient::load(&TlsFiles {
        mode: TlsMode::Require,
        ..TlsFiles::default()
    })
    .unwrap();
    for (kind, binds) in [
        ("rsa:2048 -sha256", true),
        ("rsa:2048 -sha1", true),
        ("rsa:2048 -sha512", true),
        (
            "rsa:2048 -sha384 -sigopt rsa_padding_mode:pss -sigopt rsa_pss_saltlen:48",
            true,
        ),
        ("ec -pkeyopt ec_paramgen_curve:secp384r1 -sha384", true),
        ("ed25519", false),
        ("version 1", true),
    ] {
        let own = "-nodes -subj /CN=127.0.0.1 -keyout made.key";
        let commands = match kind {
            "version 1" => vec![
                format!("req -new -newkey rsa:2048 {own} -out made.csr"),
                "x509 -req -in made.csr -signkey made.key -days 3 -out made.crt".to_owned(),
            ],
            kind => vec![format!("req -x509 -days 3 {own} -out made.crt -newkey {kind}")],
        };
        assert!(commands.iter().all(|command| openssl(command)), "{kind}");
        // PostgreSQL shows it to our client side.
        postgres.put("server.crt", &certificates.text("made.crt"));
        postgres.put("server.key", &certificates.text("made.key"));
        postgres.reload();
        let logged_in = login(postgres.port(), "u", password("geheim"), Some(&client));
        let bound = logged_in.map(|(_, bound)| bound);
        assert_eq!(bound, Ok(binds), "{kind}");
        // We show it to libpq.
        let tls = Some(
            TlsServer::load(&TlsFiles {
                ca: None,
                ..certificates.files(TlsMode::Require, Some("made"))
            })
            .unwrap(),
        );
        let secret = Secret::parse(b"geheim");
        let server = |tls| Server::new("u", Method::ScramSha256, secret.clone(), tls);
        let more = "sslmode=require channel_binding=require";
        let (told, _) = psql(server(tls.clone()), ("u", "geheim"), more, &certificates);
        assert_eq!(told.is_ok(), binds, "{kind}: {told:?}");
        let (told, _) = psql(server(tls), ("u", "geheim"), "sslmode=require", &certificates);
        assert_eq!(told.as_deref(), Ok("in"), "{kind}");
    }
}
