//! What a peer cannot do has a reason, and rows tell sides apart.

use super::*;

fn bouncer(version: &str, processes: usize) -> Spec {
    Spec {
        name: "any".to_owned(),
        kind: Kind::PgBouncer {
            program: Ok(pgbouncer::Program {
                path: "pgbouncer".into(),
                version: version.to_owned(),
            }),
            processes,
        },
        pool: POOL,
    }
}

#[test]
fn what_a_peer_cannot_do_has_a_reason() {
    let old = bouncer("1.18.0", 1);
    assert_eq!(old.lacks(Protocol::Extended, Transport::Tcp), None);
    assert!(
        old.lacks(Protocol::Prepared, Transport::Tcp)
            .is_some_and(|why| why.contains("1.18.0"))
    );
    assert_eq!(
        bouncer("1.24.1", 1).lacks(Protocol::Prepared, Transport::Unix),
        None
    );
    assert!(
        bouncer("1.24.1", 2)
            .lacks(Protocol::Simple, Transport::Unix)
            .is_some()
    );
    let missing = Spec {
        kind: Kind::PgBouncer {
            program: Err("not installed".to_owned()),
            processes: 1,
        },
        ..old
    };
    assert_eq!(
        missing.lacks(Protocol::Simple, Transport::Tcp).as_deref(),
        Some("not installed")
    );
}

#[test]
fn rows_tell_sides_apart() {
    let corun = Spec {
        name: CORUN.to_owned(),
        kind: Kind::Corun(Corun::DEFAULT),
        pool: POOL,
    };
    let of = |spec: &Spec, key: &str| {
        let found = spec.parameters().into_iter().find(|(name, _)| name == key);
        found.map(|(_, value)| value.to_string()).unwrap_or_default()
    };
    assert_eq!(
        (of(&corun, "target"), of(&corun, "cohorts")),
        ("corun".to_owned(), "auto".to_owned())
    );
    let two = bouncer("1.18.0", 2);
    assert_eq!(
        (of(&two, "processes"), of(&two, "version")),
        ("2".to_owned(), "1.18.0".to_owned())
    );
    assert_eq!(
        (of(&two, "cohorts"), of(&two, "auto_prepare")),
        ("none".to_owned(), "none".to_owned())
    );
}
