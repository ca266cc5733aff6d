//! The settings of PostgreSQL that clients send, and what each takes.

/// What a setting takes.
#[derive(Debug, Clone, Copy)]
pub(super) enum Takes {
    /// Any text.
    Text,
    Bool,
    /// Whole numbers of a range.
    Whole(i64, i64),
    /// Milliseconds, with a unit or without.
    Time,
    /// One of these, in any case.
    One(&'static [&'static str]),
    /// UTF-8 by one of its names.
    Encoding,
    DateStyle,
    TimeZone,
    /// Nothing: it is as it is.
    Fixed,
}

pub(super) struct Setting {
    pub(super) name: &'static str,
    pub(super) default: &'static str,
    pub(super) takes: Takes,
    /// Whether clients are told (ParameterStatus).
    pub(super) reported: bool,
    pub(super) description: &'static str,
}

const fn setting(
    name: &'static str,
    default: &'static str,
    takes: Takes,
    reported: bool,
    description: &'static str,
) -> Setting {
    Setting {
        name,
        default,
        takes,
        reported,
        description,
    }
}

/// What the server says it is. Drivers choose their statements by it; the system tables are those of this version.
pub(in crate::session) const SERVER_VERSION: &str = "15.0";

pub(super) const SETTINGS: &[Setting] = &[
    setting(
        "application_name",
        "",
        Takes::Text,
        true,
        "Name of the client's program.",
    ),
    setting(
        "bytea_output",
        "hex",
        Takes::One(&["hex"]),
        false,
        "How bytea is written.",
    ),
    setting(
        "check_function_bodies",
        "on",
        Takes::Bool,
        false,
        "No meaning here.",
    ),
    setting(
        "client_encoding",
        "UTF8",
        Takes::Encoding,
        true,
        "Encoding of texts.",
    ),
    setting(
        "client_min_messages",
        "notice",
        Takes::One(&[
            "debug5", "debug4", "debug3", "debug2", "debug1", "debug", "log", "notice", "warning", "error",
        ]),
        false,
        "Which messages are sent.",
    ),
    setting(
        "DateStyle",
        "ISO, MDY",
        Takes::DateStyle,
        true,
        "How dates are written.",
    ),
    setting(
        "default_table_access_method",
        "heap",
        Takes::Text,
        false,
        "No meaning here.",
    ),
    setting("default_tablespace", "", Takes::Text, false, "No meaning here."),
    setting(
        "default_toast_compression",
        "pglz",
        Takes::Text,
        false,
        "No meaning here.",
    ),
    setting(
        "default_transaction_isolation",
        "read committed",
        Takes::One(&[
            "read committed",
            "read uncommitted",
            "repeatable read",
            "serializable",
        ]),
        false,
        "Isolation of transactions; without a store each statement reads its own moment.",
    ),
    setting(
        "default_transaction_read_only",
        "on",
        Takes::Bool,
        true,
        "Whether transactions only read.",
    ),
    setting(
        "extra_float_digits",
        "1",
        Takes::Whole(-15, 3),
        false,
        "Digits of floats; always as many as needed.",
    ),
    setting(
        "idle_in_transaction_session_timeout",
        "0",
        Takes::Time,
        false,
        "How long a transaction may idle.",
    ),
    setting(
        "idle_session_timeout",
        "0",
        Takes::Time,
        false,
        "How long a session may idle.",
    ),
    setting(
        "in_hot_standby",
        "off",
        Takes::Fixed,
        true,
        "Whether the server follows another.",
    ),
    setting(
        "integer_datetimes",
        "on",
        Takes::Fixed,
        true,
        "Whether times are whole numbers.",
    ),
    setting(
        "IntervalStyle",
        "postgres",
        Takes::One(&["postgres"]),
        true,
        "How intervals are written.",
    ),
    setting(
        "is_superuser",
        "off",
        Takes::Fixed,
        true,
        "Whether the user may do everything.",
    ),
    setting("jit", "off", Takes::Bool, false, "No meaning here."),
    setting(
        "lc_messages",
        "C",
        Takes::Text,
        false,
        "Language of messages; always English.",
    ),
    setting("lc_monetary", "C", Takes::Text, false, "No meaning here."),
    setting("lc_numeric", "C", Takes::Text, false, "No meaning here."),
    setting("lc_time", "C", Takes::Text, false, "No meaning here."),
    setting(
        "lock_timeout",
        "0",
        Takes::Time,
        false,
        "No meaning here: nothing is locked.",
    ),
    setting(
        "max_identifier_length",
        "63",
        Takes::Fixed,
        false,
        "Longest name.",
    ),
    setting(
        "max_index_keys",
        "32",
        Takes::Fixed,
        false,
        "Most columns of an index.",
    ),
    setting("row_security", "on", Takes::Bool, false, "No meaning here."),
    setting(
        "search_path",
        "\"$user\", public",
        Takes::Text,
        false,
        "Schemas in which names are looked for.",
    ),
    setting(
        "server_encoding",
        "UTF8",
        Takes::Fixed,
        true,
        "Encoding of the data.",
    ),
    setting(
        "server_version",
        SERVER_VERSION,
        Takes::Fixed,
        true,
        "Version that clients are told.",
    ),
    setting(
        "server_version_num",
        "150000",
        Takes::Fixed,
        false,
        "The same as a number.",
    ),
    setting("session_authorization", "", Takes::Fixed, true, "The user."),
    setting(
        "standard_conforming_strings",
        "on",
        Takes::One(&["on"]),
        true,
        "Whether backslashes in texts are plain.",
    ),
    setting(
        "statement_timeout",
        "0",
        Takes::Time,
        false,
        "How long a statement may run; 0: for ever.",
    ),
    setting(
        "synchronize_seqscans",
        "on",
        Takes::Bool,
        false,
        "No meaning here: rows come in the order of their numbers.",
    ),
    setting(
        "synchronous_commit",
        "on",
        Takes::One(&["on", "off", "local", "remote_write", "remote_apply"]),
        false,
        "Whether a commit is on disk before the client hears of it; with off it is within a moment.",
    ),
    setting(
        "TimeZone",
        "UTC",
        Takes::TimeZone,
        true,
        "Time zone of texts of timestamptz.",
    ),
    setting(
        "transaction_isolation",
        "read committed",
        Takes::One(&[
            "read committed",
            "read uncommitted",
            "repeatable read",
            "serializable",
        ]),
        false,
        "Isolation of this transaction.",
    ),
    setting(
        "transaction_read_only",
        "on",
        Takes::Bool,
        false,
        "Whether this transaction only reads.",
    ),
    setting(
        "work_mem",
        "4MB",
        Takes::Text,
        false,
        "No meaning here: memory is limited for all sessions together.",
    ),
    setting(
        "xmloption",
        "content",
        Takes::One(&["content", "document"]),
        false,
        "No meaning here.",
    ),
];
