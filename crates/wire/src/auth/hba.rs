//! Rules of who may come in how: `pg_hba.conf`, as PostgreSQL writes it.
//!
//! The first rule that fits decides; where none fits the client is refused, as it is by `reject`. Taken: `local`, `host`,
//! `hostssl`, `hostnossl`, `hostnogssenc`; databases `all`, `sameuser`, `replication` and names; users `all` and names;
//! addresses `all`, CIDR, and address with mask; methods `trust`, `reject`, `md5`, `scram-sha-256`, `password`, `cert`, `peer`,
//! with the option `map=` for the last two. What would need the server's catalog (`samerole`, `+group`), a name service, other
//! files (`@file`, `include`) or regular expressions is refused when the file is read: a rule that silently does not fit would
//! let the next one decide.

use std::net::IpAddr;
use std::path::Path;

use super::authenticator::{Denial, Method};
use super::tokens::{self, Line, Token};
use crate::error::code;

pub use super::tokens::FileError;

/// What a rule is asked about a connection.
#[derive(Debug, Clone, Copy)]
pub struct Question<'a> {
    /// The database asked for.
    pub database: &'a str,
    /// The user it is asked as.
    pub user: &'a str,
    /// Where from; `None` over a Unix socket.
    pub address: Option<IpAddr>,
    /// Whether it asks for the log of the whole cluster, which only rules for `replication` allow.
    pub replication: bool,
    /// Whether the connection has TLS.
    pub tls: bool,
}

/// A rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rule {
    /// The line it stands in, from 1.
    pub line: usize,
    /// How clients show who they are.
    pub method: Method,
    /// The map of names of `cert` and `peer` ([`super::ident`]), if one is named.
    pub map: Option<String>,
    kind: Kind,
    databases: Vec<Token>,
    users: Vec<Token>,
    network: Network,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Local,
    Host,
    HostSsl,
    HostNoSsl,
}

/// Addresses that are `bits` where `mask` has ones; those of IPv4 have a `width` of 32, those of IPv6 of 128.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Network {
    All,
    Of { width: u32, bits: u128, mask: u128 },
}

/// How many bits an address has, and these.
fn bits_of(address: IpAddr) -> (u32, u128) {
    match address {
        IpAddr::V4(address) => (32, address.to_bits().into()),
        IpAddr::V6(address) => (128, address.to_bits()),
    }
}

impl Network {
    fn of(address: IpAddr, mask: IpAddr) -> Option<Self> {
        let ((width, bits), (width_of_mask, mask)) = (bits_of(address), bits_of(mask));
        let bits = bits & mask;
        (width == width_of_mask).then_some(Self::Of { width, bits, mask })
    }

    fn cidr(address: IpAddr, shared: u32) -> Option<Self> {
        let (width, bits) = bits_of(address);
        let mask = u128::MAX.checked_shl(width.checked_sub(shared)?).unwrap_or(0);
        let bits = bits & mask;
        Some(Self::Of { width, bits, mask })
    }

    fn has(self, client: IpAddr) -> bool {
        // A client that came over IPv4 to an IPv6 socket is one of IPv4.
        let (client_width, client) = bits_of(client.to_canonical());
        match self {
            Self::All => true,
            Self::Of { width, bits, mask } => width == client_width && client & mask == bits,
        }
    }
}

impl Rule {
    fn fits(&self, question: &Question<'_>) -> bool {
        let place = match (self.kind, question.address) {
            (Kind::Local, None) => true,
            (Kind::Local, Some(_)) | (_, None) => false,
            (Kind::Host, Some(client)) => self.network.has(client),
            (Kind::HostSsl, Some(client)) => question.tls && self.network.has(client),
            (Kind::HostNoSsl, Some(client)) => !question.tls && self.network.has(client),
        };
        let database = |token: &Token| match token.is("replication") {
            of_replication if of_replication || question.replication => {
                of_replication == question.replication
            }
            _ if token.is("sameuser") => question.database == question.user,
            _ => token.is("all") || token.text == question.database,
        };
        let user = |token: &Token| token.is("all") || token.text == question.user;
        place && self.databases.iter().any(database) && self.users.iter().any(user)
    }
}

/// All rules of a file, in its order.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Rules(Vec<Rule>);

impl Rules {
    /// Reads a file.
    ///
    /// # Errors
    /// With file and line.
    pub fn load(path: &Path) -> Result<Self, FileError> {
        let bytes = tokens::read(path)?;
        let text = String::from_utf8(bytes).map_err(|error| {
            let read = &error.as_bytes()[..error.utf8_error().valid_up_to()];
            let ends = read.iter().filter(|&&b| b == b'\n').count();
            FileError::at(path, ends + 1, "the line is not UTF-8")
        })?;
        Self::parse(&text, path)
    }

    /// Reads the text of a file called `path`.
    ///
    /// # Errors
    /// With file and line.
    pub fn parse(text: &str, path: &Path) -> Result<Self, FileError> {
        tokens::each_line(text, path, rule).map(Self)
    }

    /// The first rule that fits a connection. It is never one with method `reject`.
    ///
    /// # Errors
    /// What a refused client is told, as PostgreSQL says it, and our reason.
    pub fn first_match(&self, question: &Question<'_>) -> Result<&Rule, Denial> {
        match self.0.iter().find(|rule| rule.fits(question)) {
            Some(rule) if rule.method == Method::Reject => Err(refused(question, Some(rule))),
            Some(rule) => Ok(rule),
            None => Err(refused(question, None)),
        }
    }
}

fn refused(question: &Question<'_>, rule: Option<&Rule>) -> Denial {
    let host = question
        .address
        .map_or("[local]".to_owned(), |address| address.to_canonical().to_string());
    let user = question.user;
    let database = question.database;
    let what = match (rule, question.replication) {
        (Some(_), false) => "pg_hba.conf rejects connection for",
        (None, false) => "no pg_hba.conf entry for",
        (Some(_), true) => "pg_hba.conf rejects replication connection for",
        (None, true) => "no pg_hba.conf entry for replication connection from",
    };
    let database = match question.replication {
        true => String::new(),
        false => format!(" database \"{database}\","),
    };
    let encryption = if question.tls {
        "SSL encryption"
    } else {
        "no encryption"
    };
    Denial::new(
        code::INVALID_AUTHORIZATION,
        format!("{what} host \"{host}\", user \"{user}\",{database} {encryption}"),
        rule.map_or("no rule fits".to_owned(), |rule| {
            format!("rejected by line {}", rule.line)
        }),
    )
}

fn rule(line: &Line) -> Result<Rule, String> {
    let mut fields = line.fields.iter();
    let kind = match one(fields.next(), "the kind of connection")?.text.as_str() {
        "local" => Kind::Local,
        "host" | "hostnogssenc" => Kind::Host,
        "hostssl" => Kind::HostSsl,
        "hostnossl" => Kind::HostNoSsl,
        "hostgssenc" => {
            return Err("hostgssenc never fits: GSSAPI encryption is not supported; remove the line".into());
        }
        word if word.starts_with("include") => {
            return Err(format!(
                "{word} is not supported: put the rules of the other file here"
            ));
        }
        word => {
            return Err(format!(
                "unknown kind of connection \"{word}\": local, host, hostssl and hostnossl exist"
            ));
        }
    };
    let databases = names(fields.next(), "database", |token| {
        token.is("samerole") || token.is("samegroup")
    })?;
    let users = names(fields.next(), "user", |token| {
        !token.quoted && token.text.starts_with('+')
    })?;
    let network = if kind == Kind::Local {
        Network::All
    } else {
        network(&mut fields)?
    };
    let method = one(fields.next(), "the method")?;
    let method = match (method.text.as_str(), kind) {
        ("trust", _) => Method::Trust,
        ("reject", _) => Method::Reject,
        ("md5", _) => Method::Md5,
        ("scram-sha-256", _) => Method::ScramSha256,
        ("password", _) => Method::Password,
        ("peer" | "ident", Kind::Local) => Method::Peer,
        ("peer", _) => return Err("peer works on local connections only".into()),
        ("cert", Kind::HostSsl) => Method::Cert,
        ("cert", _) => return Err("cert works on hostssl connections only".into()),
        (other, _) => {
            return Err(format!(
                "method \"{other}\" is not supported: trust, reject, md5, scram-sha-256, password, cert and peer are"
            ));
        }
    };
    let mut map = None;
    for option in fields.flatten() {
        match option.text.split_once('=') {
            Some(("map", name)) if matches!(method, Method::Cert | Method::Peer) && !name.is_empty() => {
                map = Some(name.to_owned())
            }
            Some(("clientcert", _)) => {
                return Err("option clientcert is not supported: have TLS ask every client for a certificate (sslmode verify-ca), or use method cert".into());
            }
            _ => {
                return Err(format!(
                    "option \"{}\" is not supported with method {}",
                    option.text,
                    method.name()
                ));
            }
        }
    }
    Ok(Rule {
        line: line.number,
        method,
        map,
        kind,
        databases,
        users,
        network,
    })
}

fn one<'a>(field: Option<&'a Vec<Token>>, what: &str) -> Result<&'a Token, String> {
    match field.map(Vec::as_slice) {
        Some([token]) => Ok(token),
        Some(_) => Err(format!("{what} must be one word, not a list")),
        None => Err(format!("{what} is missing")),
    }
}

/// The databases or users of a rule: keywords and names. What `is_role` stands for those in a role.
fn names(
    field: Option<&Vec<Token>>,
    what: &str,
    is_role: impl Fn(&Token) -> bool,
) -> Result<Vec<Token>, String> {
    let tokens = field.ok_or_else(|| format!("the {what}s are missing"))?;
    for token in tokens {
        let text = &token.text;
        if is_role(token) {
            return Err(format!(
                "{text} is not supported: who is in which role is not known here; name the {what}s"
            ));
        }
        if !token.quoted && text.starts_with('@') {
            return Err(format!(
                "{text}: lists in other files are not supported; name the {what}s here"
            ));
        }
        if text.starts_with('/') {
            return Err(format!(
                "{text}: regular expressions are not supported; name the {what}s"
            ));
        }
    }
    Ok(tokens.clone())
}

fn network<'a>(fields: &mut impl Iterator<Item = &'a Vec<Token>>) -> Result<Network, String> {
    let token = one(fields.next(), "the address")?;
    if token.is("all") {
        return Ok(Network::All);
    }
    let text = token.text.as_str();
    if token.is("samehost") || token.is("samenet") {
        return Err(format!(
            "{text} is not supported: write the networks as address/bits"
        ));
    }
    let parse = |text: &str| {
        text.parse::<IpAddr>().map_err(|_| {
            format!("\"{text}\" is not an address; host names are not supported, write address/bits")
        })
    };
    if let Some((address, bits)) = text.split_once('/') {
        let address = parse(address)?;
        let digits = !bits.is_empty() && bits.bytes().all(|b| b.is_ascii_digit());
        let bits = bits.parse().ok().filter(|_| digits);
        return bits
            .and_then(|bits| Network::cidr(address, bits))
            .ok_or_else(|| format!("\"{text}\": the number of bits is not one of this kind of address"));
    }
    let address = parse(text)?;
    let mask = one(
        fields.next(),
        "the mask (or the number of bits behind the address)",
    )?;
    let wrong = || {
        format!(
            "\"{}\" is not a mask for {address}; write it as address/bits",
            mask.text
        )
    };
    Network::of(address, mask.text.parse().map_err(|_| wrong())?).ok_or_else(wrong)
}

#[cfg(test)]
mod tests;
