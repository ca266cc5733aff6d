//! TLS towards clients.

use std::sync::Arc;

use rustls::pki_types::CertificateDer;
use rustls::server::{NoServerSessionStorage, ServerConfig, WebPkiClientVerifier};
use rustls::sign::SingleCertAndKey;

use super::files::{self, TlsFiles};
use super::session::{Peer, TlsSession};
use super::verify::Clients;
use super::{ALPN, TlsError, TlsMode, certificate};

/// What sessions with clients are made from. Cheap to clone; a reload loads a new one.
#[derive(Debug, Clone)]
pub struct TlsServer {
    config: Arc<ServerConfig>,
    clients: Option<Arc<Clients>>,
    end_point: Option<Arc<[u8]>>,
    mode: TlsMode,
    warnings: Vec<String>,
}

impl TlsServer {
    /// Reads the files. With an authority, clients are asked for a certificate; `verify-ca` and `verify-full` insist on one.
    ///
    /// # Errors
    /// Files or settings that are missing, unreadable or do not belong together, with the file and what to do.
    pub fn load(files: &TlsFiles) -> Result<Self, TlsError> {
        let missing = |setting| {
            let why = "TLS towards clients needs a certificate and its key";
            files.missing(setting, format!("{why} (or {}sslmode = disable)", files.prefix))
        };
        let cert = files.cert.as_deref().ok_or_else(|| missing("cert_file"))?;
        let key = files.key.as_deref().ok_or_else(|| missing("key_file"))?;
        let provider = files::provider();
        let algorithms = provider.signature_verification_algorithms;
        let certified = files::certified_key(cert, key, &provider)?;
        let end_point = certified
            .cert
            .first()
            .and_then(certificate::end_point_hash)
            .map(Arc::from);

        let clients = match &files.ca {
            None if files.mode.verifies() => {
                let why = format!(
                    "{}sslmode = verify-ca and verify-full check clients' certificates against it",
                    files.prefix
                );
                return Err(files.missing("ca_file", why));
            }
            None => None,
            Some(ca) => {
                let roots = files::authorities(ca)?.store;
                let webpki = WebPkiClientVerifier::builder_with_provider(roots, provider.clone()).build();
                let webpki =
                    webpki.map_err(|error| TlsError::content("tls_ca_file", ca, error.to_string()))?;
                Some(Arc::new(Clients {
                    algorithms,
                    webpki,
                    mandatory: files.mode.verifies(),
                }))
            }
        };
        let builder =
            ServerConfig::builder_with_provider(provider).with_protocol_versions(&files.versions())?;
        let builder = match &clients {
            Some(clients) => builder.with_client_cert_verifier(clients.clone()),
            None => builder.with_no_client_auth(),
        };
        let mut config = builder.with_cert_resolver(Arc::new(SingleCertAndKey::from(certified)));
        config.alpn_protocols = vec![ALPN.to_vec()];
        config.session_storage = Arc::new(NoServerSessionStorage {});
        config.send_tls13_tickets = 0;
        let warnings = super::readable_by_others(key).into_iter().collect();
        Ok(Self {
            config: Arc::new(config),
            clients,
            end_point,
            mode: files.mode,
            warnings,
        })
    }

    /// A session with a client that asked for one, or began with TLS at once ([`super::negotiate::is_direct`]). The latter must
    /// name the protocol ([`TlsSession::speaks_postgresql`]), or it may be somebody's browser that was sent here.
    ///
    /// # Errors
    /// rustls refuses its own configuration; not seen.
    pub fn accept(&self) -> Result<TlsSession, TlsError> {
        let connection = rustls::ServerConnection::new(self.config.clone())?;
        Ok(TlsSession::new(
            connection.into(),
            Peer::Client { server: self.clone() },
        ))
    }

    /// What TLS must do.
    pub fn mode(&self) -> TlsMode {
        self.mode
    }

    /// What is not wrong but should be looked at: rights of the key's file.
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// Hash of our certificate that logins may be bound to.
    pub fn end_point_hash(&self) -> Option<&[u8]> {
        self.end_point.as_deref()
    }

    /// The common name of a client's certificate, if it goes back to our authorities now.
    pub(super) fn verified_name(&self, chain: &[CertificateDer<'_>]) -> Option<String> {
        let (cert, intermediates) = chain.split_first()?;
        let now = self.config.time_provider.current_time()?;
        let clients = self.clients.as_ref()?;
        clients.webpki.verify_client_cert(cert, intermediates, now).ok()?;
        certificate::common_name(cert)
    }
}
