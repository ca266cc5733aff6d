//! Both sides against each other, through memory.

use std::path::Path;

use proptest::prelude::*;
use rcgen::{
    BasicConstraints, Certificate, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa,
    KeyPair, PKCS_ECDSA_P256_SHA256, PKCS_ECDSA_P384_SHA384, PKCS_ED25519, SignatureAlgorithm,
};
use rustls::pki_types::CertificateDer;

use super::*;

type Authority = CertifiedIssuer<'static, KeyPair>;

fn authority(name: &str, kind: &'static SignatureAlgorithm) -> Authority {
    let mut params = CertificateParams::default();
    params.distinguished_name.push(DnType::CommonName, name);
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    CertifiedIssuer::self_signed(params, KeyPair::generate_for(kind).unwrap()).unwrap()
}

fn issue(by: &Authority, common_name: &str, hosts: &[&str]) -> (Certificate, KeyPair) {
    let hosts: Vec<String> = hosts.iter().map(|host| (*host).to_owned()).collect();
    let mut params = CertificateParams::new(hosts).unwrap();
    params.distinguished_name.push(DnType::CommonName, common_name);
    params.extended_key_usages = vec![
        ExtendedKeyUsagePurpose::ServerAuth,
        ExtendedKeyUsagePurpose::ClientAuth,
    ];
    let key = KeyPair::generate().unwrap();
    (params.signed_by(&key, by).unwrap(), key)
}

/// Files of one test: an authority, a server and a client of its, and another authority with its client.
struct Files {
    folder: tempfile::TempDir,
    server: CertificateDer<'static>,
}

impl Files {
    fn new() -> Self {
        Self::with(&["db.example.org", "127.0.0.1"], "server")
    }

    fn with(hosts: &[&str], common_name: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, text: String| std::fs::write(folder.path().join(name), text).unwrap();
        let mut server = None;
        for (place, hosts) in [("", hosts), ("other-", &["elsewhere"][..])] {
            let ca = authority(&format!("{place}authority"), &PKCS_ECDSA_P256_SHA256);
            let (cert, key) = issue(&ca, common_name, hosts);
            write(&format!("{place}ca.crt"), ca.pem());
            write(&format!("{place}server.crt"), cert.pem());
            write(&format!("{place}server.key"), key.serialize_pem());
            server.get_or_insert(cert.der().clone());
            let (cert, key) = issue(&ca, "ada", &[]);
            write(&format!("{place}client.crt"), cert.pem());
            write(&format!("{place}client.key"), key.serialize_pem());
        }
        Self {
            folder,
            server: server.unwrap(),
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn of(&self, mode: TlsMode, ca: Option<&str>, own: Option<&str>) -> TlsFiles {
        TlsFiles {
            mode,
            ca: ca.map(|name| self.path(name)),
            cert: own.map(|name| self.path(&format!("{name}.crt"))),
            key: own.map(|name| self.path(&format!("{name}.key"))),
            ..TlsFiles::default()
        }
    }

    fn server(&self) -> TlsServer {
        TlsServer::load(&self.of(TlsMode::Require, None, Some("server"))).unwrap()
    }

    fn client(&self, mode: TlsMode) -> TlsClient {
        TlsClient::load(&self.of(mode, Some("ca.crt"), None)).unwrap()
    }
}

/// Lets both sides talk until both are content, `piece` bytes at a time.
fn handshake(client: &mut TlsSession, server: &mut TlsSession, piece: usize) -> Result<(), TlsError> {
    let (mut to_server, mut to_client, mut plain) = (Vec::new(), Vec::new(), Vec::new());
    client.flush(&mut to_server);
    for _ in 0..20 {
        for part in std::mem::take(&mut to_server).chunks(piece) {
            server.received(part, &mut plain, &mut to_client)?;
        }
        for part in std::mem::take(&mut to_client).chunks(piece) {
            client.received(part, &mut plain, &mut to_server)?;
        }
        if to_server.is_empty() {
            break;
        }
    }
    assert!(plain.is_empty() && !client.is_handshaking() && !server.is_handshaking());
    Ok(())
}

fn pair(client: &TlsClient, host: &str, server: &TlsServer) -> Result<(TlsSession, TlsSession), TlsError> {
    let (mut client, mut server) = (client.connect(host)?, server.accept()?);
    handshake(&mut client, &mut server, usize::MAX)?;
    Ok((client, server))
}

#[test]
fn both_versions_talk_and_say_goodbye() {
    let files = Files::new();
    for (protocols, name) in [
        (TlsProtocols::Tls12, "TLSv1.2/"),
        (TlsProtocols::Secure, "TLSv1.3/"),
        (TlsProtocols::Tls13, "TLSv1.3/"),
    ] {
        let client = TlsClient::load(&TlsFiles {
            protocols,
            ..files.of(TlsMode::Require, None, None)
        })
        .unwrap();
        for piece in [1, 7, usize::MAX] {
            let (mut client, mut server) = (
                client.connect("db.example.org").unwrap(),
                files.server().accept().unwrap(),
            );
            assert_eq!(client.description(), "");
            handshake(&mut client, &mut server, piece).unwrap();
            assert!(client.description().starts_with(name) && server.speaks_postgresql());

            let text: Vec<u8> = (0..100_000u32).map(|at| (at % 251) as u8).collect();
            let (mut cipher, mut plain, mut reply) = (Vec::new(), Vec::new(), Vec::new());
            client.send(&text, &mut cipher);
            for part in cipher.chunks(piece.max(100)) {
                assert_eq!(
                    server.received(part, &mut plain, &mut reply).unwrap(),
                    Progress::Open
                );
            }
            assert!(plain == text && reply.is_empty());

            let (mut cipher, mut plain) = (Vec::new(), Vec::new());
            server.send(b"last words", &mut cipher);
            server.close(&mut cipher);
            cipher.extend(b"not of this session");
            assert_eq!(
                client.received(&cipher, &mut plain, &mut reply).unwrap(),
                Progress::PeerClosed
            );
            assert_eq!(plain, b"last words");
        }
    }
}

#[test]
fn what_is_sent_early_waits_for_the_handshake() {
    let files = Files::new();
    let (mut client, mut server) = (
        files.client(TlsMode::VerifyFull).connect("127.0.0.1").unwrap(),
        files.server().accept().unwrap(),
    );
    let mut hello = Vec::new();
    client.send(b"startup", &mut hello);
    assert!(!hello.windows(7).any(|w| w == b"startup"));
    let (mut plain, mut reply) = (Vec::new(), Vec::new());
    assert_eq!(
        server.received(&hello, &mut plain, &mut reply).unwrap(),
        Progress::Handshaking
    );
    let mut back = Vec::new();
    client.received(&reply, &mut Vec::new(), &mut back).unwrap();
    assert_eq!(
        server.received(&back, &mut plain, &mut reply).unwrap(),
        Progress::Open
    );
    assert_eq!(plain, b"startup");
}

#[test]
fn who_believes_which_server() {
    let files = Files::new();
    let own = files.server();
    let other = TlsServer::load(&files.of(TlsMode::Require, None, Some("other-server"))).unwrap();
    for (mode, right, wrong_host, stranger) in [
        (TlsMode::Prefer, true, true, true),
        (TlsMode::Require, true, true, true),
        (TlsMode::VerifyCa, true, true, false),
        (TlsMode::VerifyFull, true, false, false),
    ] {
        let client = files.client(mode);
        for (host, server, believed) in [
            ("db.example.org", &own, right),
            ("127.0.0.1", &own, right),
            ("other.example.org", &own, wrong_host),
            ("127.0.0.2", &own, wrong_host),
            ("no name/", &own, wrong_host),
            ("elsewhere", &other, stranger),
        ] {
            assert_eq!(pair(&client, host, server).is_ok(), believed, "{mode:?} {host}");
        }
    }
}

#[test]
fn common_names_count_where_there_is_no_other() {
    let files = Files::with(&[], "db.example.org");
    let client = files.client(TlsMode::VerifyFull);
    assert!(pair(&client, "db.example.org", &files.server()).is_ok());
    assert!(pair(&client, "server.example.org", &files.server()).is_err());
    let files = Files::with(&["db.example.org"], "server");
    assert!(pair(&files.client(TlsMode::VerifyFull), "server", &files.server()).is_err());
}

#[test]
fn a_certificate_may_be_its_own_authority() {
    let files = Files::new();
    std::fs::copy(files.path("ca.crt"), files.path("self.crt")).unwrap();
    let ca = authority("localhost", &PKCS_ECDSA_P256_SHA256);
    std::fs::write(files.path("self.crt"), ca.pem()).unwrap();
    std::fs::write(files.path("self.key"), ca.key().serialize_pem()).unwrap();
    let server = TlsServer::load(&files.of(TlsMode::Require, None, Some("self"))).unwrap();
    let client = |mode, ca| TlsClient::load(&files.of(mode, Some(ca), None)).unwrap();
    assert!(pair(&client(TlsMode::VerifyFull, "self.crt"), "localhost", &server).is_ok());
    assert!(pair(&client(TlsMode::VerifyFull, "self.crt"), "db", &server).is_err());
    assert!(pair(&client(TlsMode::VerifyCa, "self.crt"), "db", &server).is_ok());
    assert!(pair(&client(TlsMode::VerifyCa, "ca.crt"), "localhost", &server).is_err());
}

#[test]
fn who_is_the_client() {
    let files = Files::new();
    for (mode, nobody, stranger) in [
        (TlsMode::Require, true, true),
        (TlsMode::VerifyCa, false, false),
        (TlsMode::VerifyFull, false, false),
    ] {
        for protocols in [TlsProtocols::Tls12, TlsProtocols::Tls13] {
            let server = TlsFiles {
                protocols,
                ..files.of(mode, Some("ca.crt"), Some("server"))
            };
            let server = TlsServer::load(&server).unwrap();
            let name = |own| {
                let client = TlsClient::load(&files.of(TlsMode::Require, None, own)).unwrap();
                pair(&client, "db.example.org", &server).map(|(client, server)| {
                    assert_eq!(client.client_common_name(), None);
                    server.client_common_name()
                })
            };
            assert_eq!(name(Some("client")).unwrap().as_deref(), Some("ada"));
            assert_eq!(name(None).ok(), nobody.then_some(None));
            // Of another authority: not believed, but not refused where certificates are not asked for.
            assert_eq!(name(Some("other-client")).ok(), stranger.then_some(None));
        }
    }
    let (_, server) = pair(
        &TlsClient::load(&files.of(TlsMode::Require, None, Some("client"))).unwrap(),
        "x",
        &files.server(),
    )
    .unwrap();
    assert_eq!(
        server.client_common_name(),
        None,
        "without an authority nobody is anybody"
    );
}

/// Somebody who shows a certificate must have its key.
#[test]
fn a_stolen_certificate_is_of_no_use() {
    let files = Files::new();
    let provider = rustls::crypto::ring::default_provider();
    let other = std::fs::read(files.path("other-server.key")).unwrap();
    use rustls::pki_types::{PrivateKeyDer, pem::PemObject as _};
    let key = provider
        .key_provider
        .load_private_key(PrivateKeyDer::from_pem_slice(&other).unwrap())
        .unwrap();
    let stolen = rustls::sign::CertifiedKey::new(vec![files.server.clone()], key);
    let resolver = std::sync::Arc::new(rustls::sign::SingleCertAndKey::from(stolen));
    for version in [&rustls::version::TLS12, &rustls::version::TLS13] {
        let config = rustls::ServerConfig::builder_with_protocol_versions(&[version])
            .with_no_client_auth()
            .with_cert_resolver(resolver.clone());
        for mode in [TlsMode::Require, TlsMode::VerifyFull] {
            let mut thief = rustls::ServerConnection::new(std::sync::Arc::new(config.clone())).unwrap();
            let mut client = files.client(mode).connect("db.example.org").unwrap();
            let (mut hello, mut flight) = (Vec::new(), Vec::new());
            client.flush(&mut hello);
            thief.read_tls(&mut hello.as_slice()).unwrap();
            thief.process_new_packets().unwrap();
            while thief.wants_write() {
                thief.write_tls(&mut flight).unwrap();
            }
            let error = client
                .received(&flight, &mut Vec::new(), &mut Vec::new())
                .unwrap_err();
            assert!(error.to_string().contains("BadSignature"), "{error}");
        }
    }
}

#[test]
fn both_sides_bind_to_the_same_hash() {
    let files = Files::new();
    let (client, server) = pair(&files.client(TlsMode::Require), "x", &files.server()).unwrap();
    let hash = ring::digest::digest(&ring::digest::SHA256, &files.server);
    assert_eq!(client.end_point_hash().as_deref(), Some(hash.as_ref()));
    assert_eq!(server.end_point_hash(), client.end_point_hash());
    assert_eq!(
        files
            .client(TlsMode::Require)
            .connect("x")
            .unwrap()
            .end_point_hash(),
        None
    );
}

#[test]
fn the_signature_decides_the_hash() {
    let hash = |kind| {
        let ca = authority("a", kind);
        (certificate::end_point_hash(ca.der()), ca.der().to_vec())
    };
    let (found, der) = hash(&PKCS_ECDSA_P384_SHA384);
    assert_eq!(
        found.as_deref(),
        Some(ring::digest::digest(&ring::digest::SHA384, &der).as_ref())
    );
    assert_eq!(hash(&PKCS_ED25519).0, None);
    assert_eq!(
        certificate::end_point_hash(&CertificateDer::from(vec![0x30, 0])),
        None
    );
}

#[test]
fn files_that_do_not_fit_are_named() {
    let files = Files::new();
    let server = |files: &TlsFiles| TlsServer::load(files).unwrap_err().to_string();
    let client = |files: &TlsFiles| TlsClient::load(files).unwrap_err().to_string();
    let good = files.of(TlsMode::Require, None, Some("server"));
    let with = |cert: &str, key: &str| TlsFiles {
        cert: Some(files.path(cert)),
        key: Some(files.path(key)),
        ..good.clone()
    };
    std::fs::write(
        files.path("enc.key"),
        "-----BEGIN ENCRYPTED PRIVATE KEY-----\nAAAA\n-----END ENCRYPTED PRIVATE KEY-----\n",
    )
    .unwrap();
    let (no_cert, no_key) = (
        TlsFiles {
            cert: None,
            ..good.clone()
        },
        TlsFiles {
            key: None,
            ..good.clone()
        },
    );
    let in_mode = |mode| TlsFiles { mode, ..good.clone() };
    let named = TlsFiles {
        prefix: "client_tls_",
        ..no_cert.clone()
    };
    for (told, part) in [
        (server(&with("server.crt", "none.key")), "none.key"),
        (server(&with("server.crt", "client.key")), "does not belong"),
        (server(&with("server.key", "server.key")), "no certificate"),
        (server(&with("server.crt", "server.crt")), "no private key"),
        (server(&with("server.crt", "enc.key")), "passphrase"),
        (server(&no_cert), "tls_cert_file"),
        (server(&named), "client_tls_cert_file is missing"),
        (server(&in_mode(TlsMode::VerifyCa)), "tls_ca_file"),
        (client(&in_mode(TlsMode::VerifyFull)), "tls_ca_file"),
        (client(&no_key), "tls_key_file"),
    ] {
        assert!(told.contains(part), "{part}: {told}");
    }
    use std::os::unix::fs::PermissionsExt as _;
    let rights = |mode| {
        std::fs::set_permissions(files.path("server.key"), std::fs::Permissions::from_mode(mode)).unwrap()
    };
    rights(0o600);
    assert!(files.server().warnings().is_empty());
    rights(0o604);
    assert_eq!(files.server().warnings().len(), 1);
}

#[test]
fn clients_that_speak_something_else() {
    let files = Files::new();
    let config = || {
        rustls::ClientConfig::builder()
            .with_root_certificates(rustls::RootCertStore::empty())
            .with_no_client_auth()
    };
    let client = |config: rustls::ClientConfig| {
        let name = rustls::pki_types::ServerName::try_from("x").unwrap();
        rustls::ClientConnection::new(config.into(), name).unwrap()
    };
    let mut of_the_web = config();
    of_the_web.alpn_protocols = vec![b"http/1.1".to_vec()];
    let (mut hello, mut alert) = (Vec::new(), Vec::new());
    client(of_the_web).write_tls(&mut hello).unwrap();
    let mut server = files.server().accept().unwrap();
    assert!(server.received(&hello, &mut Vec::new(), &mut alert).is_err());
    assert!(!alert.is_empty(), "an alert says why");
    // A client that names no protocol is let through, and known to have named none.
    let mut nameless = config();
    nameless
        .dangerous()
        .set_certificate_verifier(std::sync::Arc::new(verify::Servers {
            algorithms: rustls::crypto::ring::default_provider().signature_verification_algorithms,
            chain: None,
        }));
    let (mut client, mut server) = (
        TlsSession::new(client(nameless).into(), session::Peer::Server),
        files.server().accept().unwrap(),
    );
    handshake(&mut client, &mut server, usize::MAX).unwrap();
    assert!(!server.speaks_postgresql());
    // A startup packet in clear text where TLS was announced.
    let mut server = files.server().accept().unwrap();
    assert!(
        server
            .received(&[0, 0, 0, 8, 0, 3, 0, 0], &mut Vec::new(), &mut Vec::new())
            .is_err()
    );
}

#[test]
fn modes_have_pgbouncer_s_names() {
    for (name, required, verifies) in [
        ("disable", false, false),
        ("allow", false, false),
        ("prefer", false, false),
        ("require", true, false),
        ("verify-ca", true, true),
        ("verify-full", true, true),
    ] {
        let (mode, _) = TlsMode::WORDS.iter().find(|(_, word)| *word == name).unwrap();
        assert_eq!((mode.required(), mode.verifies()), (required, verifies));
    }
    assert_eq!(TlsMode::WORDS.len(), 6);
    assert_eq!(readable_by_others(Path::new("/nowhere")), None);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    /// Whatever comes, neither side panics, and nothing of it is taken for text of the other side.
    #[test]
    fn any_bytes(bytes in prop::collection::vec(any::<u8>(), 0..400), header: bool, flip: Option<prop::sample::Index>) {
        let files = Files::new();
        let bytes = if header { [&[0x16, 3, 1, 0, 200], bytes.as_slice()].concat() } else { bytes };
        let mut plain = Vec::new();
        let mut hello = Vec::new();
        let mut client = files.client(TlsMode::Require).connect("x").unwrap();
        client.flush(&mut hello);
        let _ = client.received(&bytes, &mut plain, &mut Vec::new());
        let _ = files.server().accept().unwrap().received(&bytes, &mut plain, &mut Vec::new());
        if let Some(flip) = flip {
            let at = flip.index(hello.len());
            hello[at] ^= 1;
            let _ = files.server().accept().unwrap().received(&hello, &mut plain, &mut Vec::new());
            let (mut client, mut server) = pair(&files.client(TlsMode::Require), "x", &files.server()).unwrap();
            let mut cipher = Vec::new();
            client.send(b"select", &mut cipher);
            let at = flip.index(cipher.len());
            cipher[at] ^= 1;
            let mut text = Vec::new();
            let _ = server.received(&cipher, &mut text, &mut Vec::new());
            // Type and version in the header of a record have no meaning here and are not protected; all else is.
            prop_assert!(text.is_empty() || (text == b"select" && at < 3));
        }
        prop_assert!(plain.is_empty());
    }
}
