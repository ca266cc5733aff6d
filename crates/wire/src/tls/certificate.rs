//! What is read out of certificates: the hash that logins are bound to, names, the public key.

use ring::digest;
use rustls::pki_types::CertificateDer;
use x509_parser::certificate::X509Certificate;
use x509_parser::extensions::GeneralName;
use x509_parser::prelude::FromDer as _;
use x509_parser::signature_algorithm::RsaSsaPssParams;

pub(super) fn parsed<'a>(cert: &'a CertificateDer<'_>) -> Option<X509Certificate<'a>> {
    X509Certificate::from_der(cert).ok().map(|(_, parsed)| parsed)
}

/// The channel binding tls-server-end-point (RFC 5929): hash of a server's certificate by the algorithm of its signature, with
/// SHA-256 in the place of MD5 and SHA-1. `None` where the signature has no hash of its own (Ed25519) or an unknown one.
pub fn end_point_hash(cert: &CertificateDer<'_>) -> Option<Vec<u8>> {
    let parsed = parsed(cert)?;
    let algorithm = &parsed.signature_algorithm;
    let name = algorithm.algorithm.to_id_string();
    let name = match name.as_str() {
        "1.2.840.113549.1.1.10" => {
            let params = RsaSsaPssParams::try_from(algorithm.parameters.as_ref()?).ok()?;
            params.hash_algorithm_oid().to_id_string()
        }
        _ => name,
    };
    let hash = match name.as_str() {
        // Signatures by RSA with MD5 and SHA-1, ECDSA and DSA with SHA-1; and SHA-1 itself, the default of RSASSA-PSS.
        "1.2.840.113549.1.1.4"
        | "1.2.840.113549.1.1.5"
        | "1.2.840.10045.4.1"
        | "1.2.840.10040.4.3"
        | "1.3.14.3.2.26" => &digest::SHA256,
        "1.2.840.113549.1.1.11"
        | "1.2.840.10045.4.3.2"
        | "2.16.840.1.101.3.4.3.2"
        | "2.16.840.1.101.3.4.2.1" => &digest::SHA256,
        "1.2.840.113549.1.1.12"
        | "1.2.840.10045.4.3.3"
        | "2.16.840.1.101.3.4.3.3"
        | "2.16.840.1.101.3.4.2.2" => &digest::SHA384,
        "1.2.840.113549.1.1.13"
        | "1.2.840.10045.4.3.4"
        | "2.16.840.1.101.3.4.3.4"
        | "2.16.840.1.101.3.4.2.3" => &digest::SHA512,
        _ => return None,
    };
    Some(digest::digest(hash, cert).as_ref().to_vec())
}

/// The common name of a certificate's subject; `None` where there is none, several, or one with a zero byte in it, which could
/// be read as another name than the authority signed.
pub fn common_name(cert: &CertificateDer<'_>) -> Option<String> {
    let parsed = parsed(cert)?;
    let mut names = parsed.subject().iter_common_name();
    let name = names.next()?.as_str().ok()?;
    (names.next().is_none() && !name.contains('\0')).then(|| name.to_owned())
}

/// The subject public key info in DER.
pub(super) fn public_key(cert: &CertificateDer<'_>) -> Option<Vec<u8>> {
    Some(parsed(cert)?.public_key().raw.to_vec())
}

/// Whether a certificate without any alternative name of a host is one for `host` by its common name, as libpq believes; a star
/// stands for one whole first label.
pub(super) fn common_name_is_for(cert: &CertificateDer<'_>, host: &str) -> bool {
    let Some(parsed) = parsed(cert) else { return false };
    let names_a_host =
        |name: &GeneralName<'_>| matches!(name, GeneralName::DNSName(_) | GeneralName::IPAddress(_));
    match parsed.subject_alternative_name() {
        Ok(None) => {}
        Ok(Some(names)) if !names.value.general_names.iter().any(names_a_host) => {}
        _ => return false,
    }
    common_name(cert).is_some_and(|name| name_matches(&name, host))
}

fn name_matches(name: &str, host: &str) -> bool {
    if name.eq_ignore_ascii_case(host) {
        return true;
    }
    let is_address = host.parse::<std::net::IpAddr>().is_ok();
    match (name.strip_prefix("*."), host.split_once('.')) {
        (Some(domain), Some((label, rest))) => {
            !is_address && !label.is_empty() && domain.contains('.') && domain.eq_ignore_ascii_case(rest)
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::name_matches;

    #[test]
    fn stars_stand_for_one_label() {
        assert!(name_matches("db.example.org", "DB.example.org"));
        assert!(name_matches("*.example.org", "db.example.org"));
        assert!(name_matches("10.0.0.1", "10.0.0.1"));
        for (name, host) in [
            ("*.example.org", "a.db.example.org"),
            ("*.example.org", "example.org"),
            ("*.example.org", ".example.org"),
            ("*.org", "example.org"),
            ("*", "localhost"),
            ("d*.example.org", "db.example.org"),
            ("*.0.0.1", "10.0.0.1"),
        ] {
            assert!(!name_matches(name, host), "{name} {host}");
        }
    }
}
