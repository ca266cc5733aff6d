//! Rules: what they match and how mistakes are told.

use super::*;

fn rules(text: &str) -> Rules {
    Rules::parse(text, Path::new("pg_hba.conf")).unwrap()
}

fn problem(text: &str) -> String {
    Rules::parse(text, Path::new("/etc/pg_hba.conf"))
        .unwrap_err()
        .to_string()
}

fn from<'a>(address: &str, user: &'a str, database: &'a str, tls: bool) -> Question<'a> {
    let address = (address != "local").then(|| address.parse().unwrap());
    Question {
        database,
        user,
        address,
        tls,
        replication: false,
    }
}

const FILE: &str = r#"
# TYPE  DATABASE        USER            ADDRESS                 METHOD
local   all             postgres                                peer map=admins
local   all             all                                     trust
host    sameuser        all             10.0.0.0/8              md5
hostssl "all", app      "al ice",bob    192.168.1.0 255.255.255.0  scram-sha-256
hostnossl all           all             192.168.1.7/32          reject
hostssl all             all             192.168.1.7/32          cert
host    replication     repl            ::/0                    password
host    all             all             fd00::/8                scram-sha-256 # inside
"#;

#[test]
fn the_first_rule_that_fits_decides() {
    let rules = rules(FILE);
    let line = |question: Question<'_>| {
        rules
            .first_match(&question)
            .map(|rule| (rule.line, rule.method))
            .ok()
    };
    for ((address, user, database, tls), expected) in [
        (("local", "postgres", "x", false), Some((3, Method::Peer))),
        (("local", "u", "x", false), Some((4, Method::Trust))),
        (("10.200.0.1", "u", "u", false), Some((5, Method::Md5))),
        (("::ffff:10.200.0.1", "u", "u", true), Some((5, Method::Md5))),
        (("10.200.0.1", "u", "x", false), None),
        (("11.0.0.1", "u", "u", false), None),
        (
            ("192.168.1.9", "al ice", "all", true),
            Some((6, Method::ScramSha256)),
        ),
        (
            ("192.168.1.9", "bob", "app", true),
            Some((6, Method::ScramSha256)),
        ),
        // A quoted all is a database called so.
        (("192.168.1.9", "bob", "other", true), None),
        (("192.168.1.9", "bob", "app", false), None),
        (("192.168.1.7", "bob", "other", true), Some((8, Method::Cert))),
        (("192.168.1.7", "bob", "other", false), None),
        (("fdab::1", "u", "x", false), Some((10, Method::ScramSha256))),
        // The word stands for connections that are no client's, not for a database called so.
        (("2001::1", "repl", "replication", false), None),
    ] {
        let found = line(from(address, user, database, tls));
        assert_eq!(found, expected, "{address} {user} {database} {tls}");
    }
    let replicating = |question: Question<'static>| Question {
        replication: true,
        ..question
    };
    // `all` is no replication.
    for (address, user, expected) in [
        ("2001::1", "repl", Some((9, Method::Password))),
        ("fdab::1", "u", None),
        ("local", "postgres", None),
        ("10.200.0.1", "u", None),
    ] {
        let found = line(replicating(from(address, user, user, false)));
        assert_eq!(found, expected, "{address} {user}");
    }
    assert_eq!(rules.0[0].map.as_deref(), Some("admins"));
}

#[test]
fn refusals_are_told_as_postgresql_tells_them() {
    let rules = rules(FILE);
    let told = |question: Question<'_>| {
        let denial = rules.first_match(&question).unwrap_err();
        (denial.refusal.code, denial.refusal.message, denial.reason)
    };
    let (code, message, reason) = told(from("192.168.1.7", "bob", "x", false));
    assert_eq!((code, reason.as_str()), ("28000", "rejected by line 7"));
    assert_eq!(
        message,
        r#"pg_hba.conf rejects connection for host "192.168.1.7", user "bob", database "x", no encryption"#
    );
    let (_, message, _) = told(from("1.2.3.4", "bob", "x", true));
    assert_eq!(
        message,
        r#"no pg_hba.conf entry for host "1.2.3.4", user "bob", database "x", SSL encryption"#
    );
    let replicating = Question {
        replication: true,
        ..from("1.2.3.4", "bob", "x", true)
    };
    assert_eq!(
        told(replicating).1,
        r#"no pg_hba.conf entry for replication connection from host "1.2.3.4", user "bob", SSL encryption"#
    );
    let none = Rules::default();
    let denial = none.first_match(&from("local", "u", "d", false)).unwrap_err();
    assert_eq!(
        denial.refusal.message,
        r#"no pg_hba.conf entry for host "[local]", user "u", database "d", no encryption"#
    );
}

#[test]
fn what_cannot_be_honoured_is_refused_with_its_line() {
    for (text, part) in [
        ("\n\nhost all all 1.2.3.4/33 trust", "/etc/pg_hba.conf:3: "),
        ("local all", "users are missing"),
        ("local all all", "method is missing"),
        ("host all all", "address is missing"),
        ("host all all 1.2.3.4", "mask"),
        ("host all all 1.2.3.4 trust", "mask"),
        ("host all all 1.2.3.4 ffff::", "mask"),
        ("host all all 1.2.3.4/ trust", "bits"),
        ("host all all 1.2.3.4/+8 trust", "bits"),
        ("host all all ::1/129 trust", "bits"),
        ("host all all db.example.org trust", "host names"),
        ("host all all samenet trust", "samenet"),
        ("host @dbs all all trust", "other files"),
        ("host all @users all trust", "other files"),
        ("host all +staff all trust", "role"),
        ("host samerole all all trust", "role"),
        ("host /^a all all trust", "regular"),
        ("host all /^a all trust", "regular"),
        ("host all all all peer", "local"),
        ("host all all all cert", "hostssl"),
        ("local all all cert", "hostssl"),
        ("host all all all ldap", "not supported"),
        ("host all all all any", "not supported"),
        (
            "hostssl all all all scram-sha-256 clientcert=verify-full",
            "clientcert",
        ),
        ("host all all all md5 map=x", "not supported"),
        ("local all all peer map=", "not supported"),
        ("host,local all all all md5", "not a list"),
        ("hostgssenc all all all md5", "GSSAPI"),
        ("include other.conf", "include"),
        ("here all all all md5", "unknown kind"),
        ("host all \"bob all md5", "quote"),
    ] {
        assert!(problem(text).contains(part), "{text}: {}", problem(text));
    }
}

#[test]
fn all_networks_and_none() {
    let has = |network: &str, client: &str| {
        let network = Network::cidr(network.parse().unwrap(), 0).unwrap();
        network.has(client.parse().unwrap())
    };
    assert!(has("0.0.0.0", "9.9.9.9") && has("::", "::1"));
    assert!(!has("0.0.0.0", "::1") && !has("::", "9.9.9.9"));
    let one = Network::cidr("::1".parse().unwrap(), 128).unwrap();
    assert!(one.has("::1".parse().unwrap()) && !one.has("::2".parse().unwrap()));
}

proptest::proptest! {
    /// Whatever the file says, reading it does not panic, and a rule with `reject` is never handed out.
    #[test]
    fn any_text(text in "(local|host|hostssl|[a-z\"#,\\\\/@+. \n0-9:]{0,12}| all| 1.2.3.4/[0-9]{1,3}| reject| trust|\n){0,40}") {
        if let Ok(rules) = Rules::parse(&text, Path::new("f")) {
            for question in [from("local", "all", "all", false), from("1.2.3.4", "u", "d", true)] {
                if let Ok(rule) = rules.first_match(&question) {
                    assert_ne!(rule.method, Method::Reject);
                }
            }
        }
    }

    /// A network written as bits has exactly the addresses that share them.
    #[test]
    fn bits_and_addresses(base: u32, other: u32, bits in 0u32..=32) {
        let network = Network::cidr(IpAddr::V4(base.into()), bits).unwrap();
        let shares = bits == 0 || (base ^ other) >> (32 - bits) == 0;
        assert_eq!(network.has(IpAddr::V4(other.into())), shares);
    }
}
