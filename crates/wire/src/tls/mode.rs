//! What TLS must do, and in which versions.

/// What TLS must do, in libpq's words.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum TlsMode {
    /// No TLS.
    Disable,
    /// Where the other side asks for it.
    Allow,
    /// Where the other side can.
    Prefer,
    /// Always; certificates are not checked.
    Require,
    /// Always, and the certificate comes from the authority.
    VerifyCa,
    /// The same, and the host name is the certificate's.
    VerifyFull,
}

impl TlsMode {
    /// Every value with the word for it.
    pub const WORDS: &'static [(Self, &'static str)] = &[
        (Self::Disable, "disable"),
        (Self::Allow, "allow"),
        (Self::Prefer, "prefer"),
        (Self::Require, "require"),
        (Self::VerifyCa, "verify-ca"),
        (Self::VerifyFull, "verify-full"),
    ];

    /// The word for it.
    pub fn word(self) -> &'static str {
        word(Self::WORDS, self)
    }

    /// Whether connections without TLS are refused.
    pub fn required(self) -> bool {
        self >= Self::Require
    }

    /// Whether the certificate of the other side is checked.
    pub fn verifies(self) -> bool {
        self >= Self::VerifyCa
    }
}

/// Which versions of TLS are spoken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum TlsProtocols {
    /// 1.2 and 1.3.
    Secure,
    /// 1.2 only.
    Tls12,
    /// 1.3 only.
    Tls13,
}

impl TlsProtocols {
    /// Every value with the word for it.
    pub const WORDS: &'static [(Self, &'static str)] = &[
        (Self::Secure, "secure"),
        (Self::Tls12, "tlsv1.2"),
        (Self::Tls13, "tlsv1.3"),
    ];

    /// The word for it.
    pub fn word(self) -> &'static str {
        word(Self::WORDS, self)
    }
}

fn word<T: PartialEq>(words: &[(T, &'static str)], value: T) -> &'static str {
    let found = words.iter().find(|(known, _)| *known == value);
    found.map_or("", |(_, word)| word)
}
