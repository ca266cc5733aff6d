//! Certificates made for a test, for the programs of several crates.

use corun_distributed::TlsFiles;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// An authority, whose certificates are files.
pub(crate) struct Authority {
    issuer: CertifiedIssuer<'static, KeyPair>,
    folder: PathBuf,
    name: &'static str,
}

impl Authority {
    pub(crate) fn new(folder: &Path, name: &'static str) -> Authority {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().expect("a key");
        let issuer = CertifiedIssuer::self_signed(params, key).expect("an authority");
        Authority {
            issuer,
            folder: folder.to_owned(),
            name,
        }
    }

    pub(crate) fn files(&self, host: &str) -> TlsFiles {
        let names = match host {
            "localhost" => vec!["localhost".to_owned(), "127.0.0.1".to_owned()],
            other => vec![other.to_owned()],
        };
        let key = KeyPair::generate().expect("a key");
        let params = CertificateParams::new(names).expect("names");
        let certificate = params.signed_by(&key, &self.issuer).expect("signed");
        let write = |what: &str, text: &str| {
            let path = self.folder.join(format!("{}-{host}-{what}.pem", self.name));
            fs::write(&path, text).expect("written");
            fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).expect("permissions");
            path
        };
        TlsFiles {
            certificate: write("certificate", &certificate.pem()),
            key: write("key", &key.serialize_pem()),
            authority: write("authority", &self.issuer.pem()),
        }
    }
}
