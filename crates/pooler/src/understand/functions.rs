//! What calling one of PostgreSQL's own functions means, by a list.

use std::sync::LazyLock;

use super::Pins;

/// What is known of a function by its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Known {
    /// PostgreSQL's own; reads only.
    Reads,
    /// PostgreSQL's own; volatile, or about the server it runs on.
    Primary,
    /// Anybody's.
    No,
}

/// PostgreSQL's own functions, each with its class.
static BUILT_IN: LazyLock<Vec<(&'static str, &'static str)>> = LazyLock::new(|| {
    let lines = include_str!("functions.txt").lines();
    lines
        .filter(|line| !line.starts_with('#'))
        .filter_map(|line| line.split_once(' '))
        .collect()
});

fn class(name: &str) -> Option<&'static str> {
    let at = BUILT_IN.binary_search_by(|(other, _)| (*other).cmp(name)).ok()?;
    Some(BUILT_IN[at].1)
}

/// Looks a function up by its schema, if the text names one, and its name.
pub(super) fn known(schema: Option<&str>, name: &str) -> Known {
    let own = matches!(schema, None | Some("pg_catalog"));
    match class(name).filter(|_| own) {
        Some("r" | "s") => Known::Reads,
        Some(_) => Known::Primary,
        None => Known::No,
    }
}

/// Whether PostgreSQL is shipped with a function of that name, none of which is volatile or about the session.
pub(crate) fn only_reads(name: &str) -> bool {
    known(None, name) == Known::Reads
}

/// Whether PostgreSQL is shipped with a function of that name that gives the same in every part of a query.
pub(crate) fn runs_in_parts(name: &str) -> bool {
    class(name) == Some("s")
}

/// Functions of PostgreSQL's own that run a text handed to them.
const RUN_TEXT: [&str; 6] = [
    "lo_import",
    "query_to_xml",
    "query_to_xml_and_xmlschema",
    "query_to_xmlschema",
    "ts_rewrite",
    "ts_stat",
];

/// Functions of PostgreSQL's own that leave something in the session, whatever their arguments are.
const LEAVE: [(&str, Pins); 12] = [
    ("pg_advisory_lock", Pins::ADVISORY_LOCK),
    ("pg_advisory_lock_shared", Pins::ADVISORY_LOCK),
    ("pg_try_advisory_lock", Pins::ADVISORY_LOCK),
    ("pg_try_advisory_lock_shared", Pins::ADVISORY_LOCK),
    ("pg_backup_start", Pins::OTHER),
    ("pg_start_backup", Pins::OTHER),
    ("pg_copy_logical_replication_slot", Pins::OTHER),
    ("pg_copy_physical_replication_slot", Pins::OTHER),
    ("pg_create_logical_replication_slot", Pins::OTHER),
    ("pg_create_physical_replication_slot", Pins::OTHER),
    ("pg_replication_origin_session_setup", Pins::OTHER),
    ("setseed", Pins::OTHER),
];

/// Whether a function of PostgreSQL's own runs a text handed to it.
pub(super) fn runs_text(name: &str) -> bool {
    RUN_TEXT.contains(&name)
}

/// What a function of PostgreSQL's own leaves in the session; of `set_config` that depends on its arguments.
pub(super) fn left_by(name: &str) -> Pins {
    let found = LEAVE.iter().find(|(known, _)| *known == name);
    found.map_or(Pins::NONE, |(_, pins)| *pins)
}

/// Functions of PostgreSQL's own that may change the session.
pub(crate) fn change_session() -> impl Iterator<Item = &'static str> {
    let leave = LEAVE.iter().map(|(name, _)| *name);
    leave.chain(RUN_TEXT).chain(["set_config"])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_is_sorted_and_says_what_it_should() {
        assert!(BUILT_IN.len() > 2000);
        assert!(BUILT_IN.windows(2).all(|pair| pair[0].0 < pair[1].0));
        for name in [
            "abs",
            "lower",
            "count",
            "sum",
            "now",
            "extract",
            "like_escape",
            "row_number",
            "unnest",
        ] {
            assert_eq!(known(None, name), Known::Reads, "{name}");
            assert_eq!(known(Some("pg_catalog"), name), Known::Reads, "{name}");
            assert_eq!(known(Some("public"), name), Known::No, "{name}");
        }
        for name in [
            "nextval",
            "random",
            "set_config",
            "pg_advisory_lock",
            "txid_current",
            "pg_backend_pid",
            "current_setting",
        ] {
            assert_eq!(known(None, name), Known::Primary, "{name}");
        }
        assert_eq!(known(None, "my_function"), Known::No);
    }
}
