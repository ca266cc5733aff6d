//! TLS towards servers.

use std::net::IpAddr;
use std::sync::Arc;

use rustls::client::{ClientConfig, Resumption, WebPkiServerVerifier};
use rustls::pki_types::ServerName;
use rustls::sign::SingleCertAndKey;

use super::files::{self, TlsFiles};
use super::session::{Peer, TlsSession};
use super::verify::{Chain, Servers};
use super::{ALPN, TlsError, TlsMode};

/// What sessions with servers are made from. Cheap to clone; a reload loads a new one.
#[derive(Debug, Clone)]
pub struct TlsClient {
    config: Arc<ClientConfig>,
    mode: TlsMode,
    /// As in [`TlsFiles`].
    prefix: &'static str,
    warnings: Vec<String>,
}

impl TlsClient {
    /// Reads the files. Certificate and key are shown to servers that ask for them (`cert` in their pg_hba.conf).
    ///
    /// # Errors
    /// Files or settings that are missing, unreadable or do not belong together, with the file and what to do.
    pub fn load(files: &TlsFiles) -> Result<Self, TlsError> {
        let provider = files::provider();
        let algorithms = provider.signature_verification_algorithms;
        let chain = match &files.ca {
            _ if !files.mode.verifies() => None,
            None => {
                let why = format!(
                    "{}sslmode = verify-ca and verify-full check servers' certificates against it",
                    files.prefix
                );
                return Err(files.missing("ca_file", why));
            }
            Some(ca) => {
                let known = files::authorities(ca)?;
                let webpki =
                    WebPkiServerVerifier::builder_with_provider(known.store, provider.clone()).build();
                let webpki =
                    webpki.map_err(|error| TlsError::content("tls_ca_file", ca, error.to_string()))?;
                Some(Chain {
                    webpki,
                    exact: known.exact,
                    full: files.mode == TlsMode::VerifyFull,
                })
            }
        };
        let own = match (&files.cert, &files.key) {
            (Some(cert), Some(key)) => Some(files::certified_key(cert, key, &provider)?),
            (None, None) => None,
            (Some(_), None) => {
                return Err(files.missing(
                    "key_file",
                    format!("{}cert_file is of no use without it", files.prefix),
                ));
            }
            (None, Some(_)) => {
                return Err(files.missing(
                    "cert_file",
                    format!("{}key_file is of no use without it", files.prefix),
                ));
            }
        };
        let builder = ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(&files.versions())?
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(Servers { algorithms, chain }));
        let mut config = match own {
            Some(own) => builder.with_client_cert_resolver(Arc::new(SingleCertAndKey::from(own))),
            None => builder.with_no_client_auth(),
        };
        config.alpn_protocols = vec![ALPN.to_vec()];
        config.resumption = Resumption::disabled();
        let warnings = files
            .key
            .as_deref()
            .and_then(super::readable_by_others)
            .into_iter()
            .collect();
        Ok(Self {
            config: Arc::new(config),
            mode: files.mode,
            prefix: files.prefix,
            warnings,
        })
    }

    /// A session with the server reached as `host`, a name or an address, as the configuration has it. The ClientHello is there
    /// to send at once ([`TlsSession::flush`]).
    ///
    /// # Errors
    /// A host that is no name a certificate could be for, under `verify-full`.
    pub fn connect(&self, host: &str) -> Result<TlsSession, TlsError> {
        let name = match ServerName::try_from(host.to_owned()) {
            Ok(name) => name,
            Err(_) if self.mode == TlsMode::VerifyFull => {
                return Err(TlsError::Value(format!(
                    "\"{host}\" is not a host name or address that a certificate could be checked against: correct host, or use \
                     {}sslmode = verify-ca",
                    self.prefix
                )));
            }
            // Not looked at in the other modes, and addresses are not sent to the server.
            Err(_) => ServerName::from(IpAddr::from([0, 0, 0, 0])),
        };
        let connection = rustls::ClientConnection::new(self.config.clone(), name)?;
        Ok(TlsSession::new(connection.into(), Peer::Server))
    }

    /// What TLS must do.
    pub fn mode(&self) -> TlsMode {
        self.mode
    }

    /// Whether TLS is asked for before anything else is said: in all modes but `allow`.
    pub fn asks_first(&self) -> bool {
        self.mode != TlsMode::Allow
    }

    /// What is not wrong but should be looked at: rights of the key's file.
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }
}
