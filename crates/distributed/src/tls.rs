//! Certificates of a cluster: every process has one, signed by one authority, and shows it to everyone it talks to.

use corun_datafusion::EngineError;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use tonic::transport::{Certificate, ClientTlsConfig, Identity, ServerTlsConfig};

/// Where a process's certificate is.
#[derive(Debug, Clone)]
pub struct TlsFiles {
    /// Its certificate, and those between it and the authority (PEM). It has to name the host that others reach it by.
    pub certificate: PathBuf,
    /// The certificate's key (PEM), which nobody else may read but a group, if it is root's.
    pub key: PathBuf,
    /// The authority that signed the certificates of all workers and coordinators (PEM).
    pub authority: PathBuf,
}

impl TlsFiles {
    /// Reads them.
    ///
    /// # Errors
    /// A file that cannot be read or is no PEM; a key that others can read.
    pub fn read(&self) -> Result<Tls, EngineError> {
        let key = fs::metadata(&self.key).map_err(|error| unreadable(&self.key, &error))?;
        // A key of root's may be read by a group, as containers mount it.
        let others = if key.uid() == 0 { 0o037 } else { 0o077 };
        if key.mode() & others != 0 {
            return Err(EngineError::new(format!(
                "the key {} can be read by others than its owner",
                self.key.display()
            ))
            .with_hint(format!("chmod 600 {}", self.key.display())));
        }
        Ok(Tls {
            identity: Identity::from_pem(
                read(&self.certificate, "CERTIFICATE")?,
                read(&self.key, "PRIVATE KEY")?,
            ),
            authority: Certificate::from_pem(read(&self.authority, "CERTIFICATE")?),
        })
    }
}

/// A process's certificate, its key and its authority.
#[derive(Debug, Clone)]
pub struct Tls {
    identity: Identity,
    authority: Certificate,
}

impl Tls {
    pub(crate) fn client(&self) -> ClientTlsConfig {
        ClientTlsConfig::new()
            .identity(self.identity.clone())
            .ca_certificate(self.authority.clone())
    }

    pub(crate) fn server(&self) -> ServerTlsConfig {
        ServerTlsConfig::new()
            .identity(self.identity.clone())
            .client_ca_root(self.authority.clone())
    }
}

fn read(path: &Path, what: &str) -> Result<String, EngineError> {
    let text = fs::read_to_string(path).map_err(|error| unreadable(path, &error))?;
    let begins = text
        .lines()
        .any(|line| line.starts_with("-----BEGIN ") && line.contains(what));
    match begins {
        true => Ok(text),
        false => Err(EngineError::new(format!(
            "{} has no {} in PEM form",
            path.display(),
            what.to_ascii_lowercase()
        ))),
    }
}

fn unreadable(path: &Path, error: &std::io::Error) -> EngineError {
    EngineError::new(format!("cannot read {}", path.display())).with_detail(error.to_string())
}
