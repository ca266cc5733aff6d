//! Certificates, keys and authorities from PEM files.

use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::sign::CertifiedKey;
use rustls::version::{TLS12, TLS13};
use rustls::{RootCertStore, SupportedProtocolVersion};

use super::{TlsError, TlsMode, TlsProtocols, certificate};

/// Largest file read, in bytes: a bundle of all public authorities is a quarter of a megabyte.
const FILE_BYTES_MAX: u64 = 4 << 20;

/// The TLS settings of one side, as a configuration has them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TlsFiles {
    /// What TLS must do; in messages `sslmode` behind the prefix.
    pub mode: TlsMode,
    /// Authorities; in messages `ca_file` behind the prefix.
    pub ca: Option<PathBuf>,
    /// Our certificate; in messages `cert_file` behind the prefix.
    pub cert: Option<PathBuf>,
    /// Its key; in messages `key_file` behind the prefix.
    pub key: Option<PathBuf>,
    /// Versions.
    pub protocols: TlsProtocols,
    /// What the names of these settings begin with where they come from, such as `client_tls_`: messages name them so.
    pub prefix: &'static str,
}

impl Default for TlsFiles {
    /// No TLS, and no files; settings called `tls_...`.
    fn default() -> Self {
        Self {
            mode: TlsMode::Disable,
            ca: None,
            cert: None,
            key: None,
            protocols: TlsProtocols::Secure,
            prefix: "tls_",
        }
    }
}

impl TlsFiles {
    /// That a setting is missing, and what needs it.
    pub(super) fn missing(&self, setting: &str, why: impl Into<String>) -> TlsError {
        TlsError::missing(format!("{}{setting}", self.prefix), why.into())
    }

    pub(super) fn versions(&self) -> Vec<&'static SupportedProtocolVersion> {
        match self.protocols {
            TlsProtocols::Secure => vec![&TLS13, &TLS12],
            TlsProtocols::Tls12 => vec![&TLS12],
            TlsProtocols::Tls13 => vec![&TLS13],
        }
    }
}

/// Authorities believed in.
#[derive(Debug, Clone)]
pub(super) struct Authorities {
    pub store: Arc<RootCertStore>,
    /// The same as they were read: a certificate among them is believed as it is.
    pub exact: Vec<CertificateDer<'static>>,
}

pub(super) fn provider() -> Arc<CryptoProvider> {
    Arc::new(rustls::crypto::ring::default_provider())
}

pub(super) fn authorities(path: &Path) -> Result<Authorities, TlsError> {
    let what = "tls_ca_file";
    let exact = certificates(what, path)?;
    let mut store = RootCertStore::empty();
    for (at, cert) in exact.iter().enumerate() {
        store.add(cert.clone()).map_err(|error| {
            let problem = format!("certificate {} is not one of an authority: {error}", at + 1);
            TlsError::content(what, path, problem)
        })?;
    }
    Ok(Authorities {
        store: Arc::new(store),
        exact,
    })
}

/// A certificate with what is between it and its authority, and its key, which must belong together.
pub(super) fn certified_key(
    cert: &Path,
    key: &Path,
    provider: &CryptoProvider,
) -> Result<CertifiedKey, TlsError> {
    let wrong = |problem: String| TlsError::content("tls_key_file", key, problem);
    let chain = certificates("tls_cert_file", cert)?;
    let pem = read("tls_key_file", key)?;
    let der = PrivateKeyDer::from_pem_slice(&pem).map_err(|_| {
        let encrypted = pem.windows(9).any(|w| w == b"ENCRYPTED");
        wrong(if encrypted {
            "the key is encrypted: store it without a passphrase, readable by corun's user only".into()
        } else {
            "no private key in PEM form found (PKCS#8, PKCS#1 or SEC1)".into()
        })
    })?;
    let signing = provider.key_provider.load_private_key(der).map_err(|error| {
        wrong(format!(
            "the key cannot be used: {error}; RSA from 2048 bits, P-256, P-384 and Ed25519 can"
        ))
    })?;
    let public = certificate::public_key(&chain[0])
        .ok_or_else(|| TlsError::content("tls_cert_file", cert, "the first certificate cannot be read"))?;
    // rustls would compare the two as well, but refuses certificates of version 1, which PostgreSQL takes.
    if signing.public_key().is_some_and(|spki| spki.as_ref() != public) {
        return Err(wrong(format!(
            "the key does not belong to the first certificate of {}",
            cert.display()
        )));
    }
    Ok(CertifiedKey::new(chain, signing))
}

fn certificates(what: &'static str, path: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let pem = read(what, path)?;
    let wrong = |problem: String| TlsError::content(what, path, problem);
    let all: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&pem).collect();
    match all {
        Ok(all) if all.is_empty() => Err(wrong("no certificate in PEM form found".into())),
        Ok(all) => Ok(all),
        Err(error) => Err(wrong(format!("a certificate is damaged: {error}"))),
    }
}

fn read(what: &'static str, path: &Path) -> Result<Vec<u8>, TlsError> {
    let failed = |source| TlsError::File {
        what,
        path: path.to_owned(),
        source,
    };
    if std::fs::metadata(path).map_err(failed)?.len() > FILE_BYTES_MAX {
        let problem = "the file is larger than 4 MiB, too large for certificates";
        return Err(TlsError::content(what, path, problem));
    }
    std::fs::read(path).map_err(failed)
}

/// A warning where a file with secrets may be read by everybody on the machine; `None` where it may not, or is not there.
pub fn readable_by_others(path: &Path) -> Option<String> {
    let mode = std::fs::metadata(path).ok()?.mode();
    (mode & 0o004 != 0).then(|| {
        format!(
            "{} may be read by every user of this machine (mode {:03o}): chmod o-rwx it",
            path.display(),
            mode & 0o777
        )
    })
}
