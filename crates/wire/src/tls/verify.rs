//! Verification of the certificates of servers and of clients.
//!
//! Whatever the mode, the other side must have the key of the certificate it shows: signatures of the handshake are always
//! checked, or channel binding would be worth nothing.

use std::sync::Arc;

use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::WebPkiSupportedAlgorithms;
use rustls::pki_types::{CertificateDer, ServerName, SubjectPublicKeyInfoDer, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::sign::public_key_to_spki;
use rustls::{
    CertificateError, DigitallySignedStruct, DistinguishedName, Error, PeerMisbehaved, SignatureScheme,
};

use super::certificate;

/// The methods that the verifiers of servers' and of clients' certificates share.
macro_rules! signatures_by_algorithms {
    () => {
        fn verify_tls12_signature(
            &self,
            message: &[u8],
            cert: &CertificateDer<'_>,
            signed: &DigitallySignedStruct,
        ) -> Result<HandshakeSignatureValid, Error> {
            tls12_signature(message, cert, signed, &self.algorithms)
        }

        fn verify_tls13_signature(
            &self,
            message: &[u8],
            cert: &CertificateDer<'_>,
            signed: &DigitallySignedStruct,
        ) -> Result<HandshakeSignatureValid, Error> {
            tls13_signature(message, cert, signed, &self.algorithms)
        }

        fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
            self.algorithms.supported_schemes()
        }
    };
}

/// How a server's certificate is judged.
#[derive(Debug)]
pub(super) struct Servers {
    pub algorithms: WebPkiSupportedAlgorithms,
    /// `None`: any certificate is believed.
    pub chain: Option<Chain>,
}

/// What a server's certificate must go back to.
#[derive(Debug)]
pub(super) struct Chain {
    pub webpki: Arc<WebPkiServerVerifier>,
    /// Certificates believed because they are these: self-signed ones that are their own authority.
    pub exact: Vec<CertificateDer<'static>>,
    /// Whether it must be for the host as well.
    pub full: bool,
}

impl Chain {
    fn verify(
        &self,
        cert: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        now: UnixTime,
    ) -> Result<(), Error> {
        use CertificateError::{NotValidForName, NotValidForNameContext};
        // webpki looks at the name last: an error about it says that all the rest is right.
        let wrong_name = match self
            .webpki
            .verify_server_cert(cert, intermediates, name, &[], now)
        {
            Ok(_) => return Ok(()),
            Err(error @ Error::InvalidCertificate(NotValidForName | NotValidForNameContext { .. })) => error,
            Err(error) if !self.exact.contains(cert) => return Err(error),
            Err(_) => {
                self.valid_now(cert, now)?;
                Error::InvalidCertificate(NotValidForName)
            }
        };
        let named = || {
            let parsed = ParsedCertificate::try_from(cert);
            parsed.is_ok_and(|parsed| rustls::client::verify_server_name(&parsed, name).is_ok())
                || certificate::common_name_is_for(cert, &name.to_str())
        };
        if !self.full || named() {
            Ok(())
        } else {
            Err(wrong_name)
        }
    }

    fn valid_now(&self, cert: &CertificateDer<'_>, now: UnixTime) -> Result<(), Error> {
        let parsed =
            certificate::parsed(cert).ok_or(Error::InvalidCertificate(CertificateError::BadEncoding))?;
        let seconds = i64::try_from(now.as_secs()).unwrap_or(i64::MAX);
        let validity = parsed.validity();
        if seconds > validity.not_after.timestamp() {
            return Err(Error::InvalidCertificate(CertificateError::Expired));
        }
        if seconds < validity.not_before.timestamp() {
            return Err(Error::InvalidCertificate(CertificateError::NotValidYet));
        }
        Ok(())
    }
}

impl ServerCertVerifier for Servers {
    fn verify_server_cert(
        &self,
        cert: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        _ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        if let Some(chain) = &self.chain {
            chain.verify(cert, intermediates, name, now)?;
        }
        Ok(ServerCertVerified::assertion())
    }

    signatures_by_algorithms!();
}

/// How a client's certificate is judged.
#[derive(Debug)]
pub(super) struct Clients {
    pub algorithms: WebPkiSupportedAlgorithms,
    pub webpki: Arc<dyn ClientCertVerifier>,
    /// Without it a client may have no certificate, or one of an unknown authority: it then has no name that the method `cert`
    /// would take, but it may log in with a password.
    pub mandatory: bool,
}

impl ClientCertVerifier for Clients {
    fn client_auth_mandatory(&self) -> bool {
        self.mandatory
    }

    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        self.webpki.root_hint_subjects()
    }

    fn verify_client_cert(
        &self,
        cert: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        if self.mandatory {
            return self.webpki.verify_client_cert(cert, intermediates, now);
        }
        Ok(ClientCertVerified::assertion())
    }

    signatures_by_algorithms!();
}

// rustls checks signatures too, but reads the certificate as webpki does, which refuses version 1: the version that PostgreSQL's
// own instructions for certificates produce with older OpenSSL. Only the public key matters here.

fn tls12_signature(
    message: &[u8],
    cert: &CertificateDer<'_>,
    signed: &DigitallySignedStruct,
    algorithms: &WebPkiSupportedAlgorithms,
) -> Result<HandshakeSignatureValid, Error> {
    let (_, possible) = algorithms
        .mapping
        .iter()
        .find(|(scheme, _)| *scheme == signed.scheme)
        .ok_or(PeerMisbehaved::SignedHandshakeWithUnadvertisedSigScheme)?;
    let parsed = certificate::parsed(cert).ok_or(Error::InvalidCertificate(CertificateError::BadEncoding))?;
    let key = parsed.public_key();
    let bits = &key.subject_public_key.data;
    let valid = possible.iter().any(|algorithm| {
        public_key_to_spki(&algorithm.public_key_alg_id(), bits).as_ref() == key.raw
            && algorithm
                .verify_signature(bits, message, signed.signature())
                .is_ok()
    });
    if valid {
        return Ok(HandshakeSignatureValid::assertion());
    }
    Err(Error::InvalidCertificate(CertificateError::BadSignature))
}

fn tls13_signature(
    message: &[u8],
    cert: &CertificateDer<'_>,
    signed: &DigitallySignedStruct,
    algorithms: &WebPkiSupportedAlgorithms,
) -> Result<HandshakeSignatureValid, Error> {
    let key =
        certificate::public_key(cert).ok_or(Error::InvalidCertificate(CertificateError::BadEncoding))?;
    rustls::crypto::verify_tls13_signature_with_raw_key(
        message,
        &SubjectPublicKeyInfoDer::from(key),
        signed,
        algorithms,
    )
}
