//! The client's side of SCRAM-SHA-256 (RFC 5802, 7677), in small steps so that a test can leave one out or repeat one.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ring::{digest, hmac, pbkdf2};

/// A login under way.
pub struct Scram {
    first_bare: String,
    header: &'static str,
    binding: Vec<u8>,
}

fn mac(key: &[u8], text: &[u8]) -> Vec<u8> {
    hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, key), text)
        .as_ref()
        .to_vec()
}

impl Scram {
    /// Without channel binding (`n`), or with one the client could have done (`y`).
    pub fn new(nonce: &str, header: &'static str) -> Scram {
        Scram {
            first_bare: format!("n=,r={nonce}"),
            header,
            binding: Vec::new(),
        }
    }

    /// With channel binding by the hash of the server's certificate.
    pub fn bound(nonce: &str, certificate_hash: &[u8]) -> Scram {
        Scram {
            first_bare: format!("n=,r={nonce}"),
            header: "p=tls-server-end-point,,",
            binding: certificate_hash.to_vec(),
        }
    }

    /// The body of `SASLInitialResponse`.
    pub fn first(&self, mechanism: &str) -> Vec<u8> {
        let text = format!("{}{}", self.header, self.first_bare);
        let mut body = mechanism.as_bytes().to_vec();
        body.push(0);
        body.extend_from_slice(&(text.len() as u32).to_be_bytes());
        body.extend_from_slice(text.as_bytes());
        body
    }

    /// The client's last message, and the signature the server must answer with; `None` if the server's first message is not one.
    pub fn last(&self, server_first: &str, password: &str) -> Option<(String, String)> {
        let part = |name: &str| server_first.split(',').find_map(|part| part.strip_prefix(name));
        let (nonce, salt, rounds) = (part("r=")?, part("s=")?, part("i=")?);
        let salt = STANDARD.decode(salt).ok()?;
        let mut salted = [0; 32];
        pbkdf2::derive(
            pbkdf2::PBKDF2_HMAC_SHA256,
            rounds.parse().ok()?,
            &salt,
            password.as_bytes(),
            &mut salted,
        );
        let client_key = mac(&salted, b"Client Key");
        let stored = digest::digest(&digest::SHA256, &client_key);
        let bound = STANDARD.encode([self.header.as_bytes(), &self.binding].concat());
        let without_proof = format!("c={bound},r={nonce}");
        let all = format!("{},{server_first},{without_proof}", self.first_bare);
        let proof: Vec<u8> = mac(stored.as_ref(), all.as_bytes())
            .iter()
            .zip(&client_key)
            .map(|(a, b)| a ^ b)
            .collect();
        let signature = mac(&mac(&salted, b"Server Key"), all.as_bytes());
        Some((
            format!("{without_proof},p={}", STANDARD.encode(proof)),
            format!("v={}", STANDARD.encode(signature)),
        ))
    }
}
