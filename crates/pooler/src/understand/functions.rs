//! What calling a function means: PostgreSQL's own by a list, others by configuration.

use std::collections::BTreeSet;
use std::sync::LazyLock;

use super::Pins;

/// What is known of a function by its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Known {
    /// PostgreSQL's own; reads only.
    Reads,
    /// PostgreSQL's own; volatile, or about the server it runs on.
    Primary,
    /// Somebody's who said in the configuration that it reads only.
    Configured,
    /// Anybody's.
    No,
}

/// Functions that the configuration says only read: `name` or `schema.name`, in lower case unless they were quoted when created.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReadFunctions(BTreeSet<Box<str>>);

impl ReadFunctions {
    /// From names as in the configuration.
    pub fn new<'a>(names: impl IntoIterator<Item = &'a str>) -> Self {
        ReadFunctions(names.into_iter().map(Box::from).collect())
    }
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
pub(super) fn known(schema: Option<&str>, name: &str, configured: &ReadFunctions) -> Known {
    if matches!(schema, None | Some("pg_catalog"))
        && let Some(class) = class(name)
    {
        return match class {
            "r" | "s" => Known::Reads,
            _ => Known::Primary,
        };
    }
    let listed = match schema {
        None => configured.0.contains(name),
        Some(schema) => configured.0.contains(format!("{schema}.{name}").as_str()),
    };
    if listed { Known::Configured } else { Known::No }
}

/// Whether PostgreSQL is shipped with a function of that name, none of which is volatile or about the session.
pub(crate) fn only_reads(name: &str) -> bool {
    known(None, name, &ReadFunctions::default()) == Known::Reads
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
        let none = ReadFunctions::default();
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
            assert_eq!(known(None, name, &none), Known::Reads, "{name}");
            assert_eq!(known(Some("pg_catalog"), name, &none), Known::Reads, "{name}");
            assert_eq!(known(Some("public"), name, &none), Known::No, "{name}");
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
            assert_eq!(known(None, name, &none), Known::Primary, "{name}");
        }
        assert_eq!(known(None, "my_function", &none), Known::No);
        let some = ReadFunctions::new(["my_function", "app.other"]);
        assert_eq!(known(None, "my_function", &some), Known::Configured);
        assert_eq!(known(Some("app"), "other", &some), Known::Configured);
        assert_eq!(known(None, "other", &some), Known::No);
    }
}
