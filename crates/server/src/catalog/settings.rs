//! `pg_settings`: the session's settings, and those that no session has but clients ask for.

use super::facts::{SessionFacts, SettingFact};
use super::rows::{Value, row};
use super::tables::{Rows, Source};

/// Settings that no session has but clients ask for.
const CONSTANTS: &[(&str, &str)] = &[
    ("max_index_keys", "32"),
    ("max_identifier_length", "63"),
    ("block_size", "8192"),
    ("default_table_access_method", "heap"),
];

/// Name, value and description of all settings.
pub(crate) fn settings(facts: &dyn SessionFacts) -> Vec<SettingFact> {
    let mut settings = facts.settings();
    for (name, value) in CONSTANTS {
        if !settings.iter().any(|known| known.name == *name) {
            settings.push(SettingFact {
                name: (*name).to_owned(),
                value: (*value).to_owned(),
                description: String::new(),
            });
        }
    }
    settings.sort_by(|one, other| one.name.cmp(&other.name));
    settings
}

pub(super) fn pg_settings(source: &Source<'_>) -> Rows {
    let settings = settings(source.facts).into_iter();
    settings
        .map(|setting| {
            row![
                setting.name,
                setting.value.clone(),
                Value::Null,
                "Settings",
                setting.description,
                Value::Null,
                "user",
                "string",
                "session",
                Value::Null,
                Value::Null,
                Value::Null,
                setting.value.clone(),
                setting.value,
                Value::Null,
                Value::Null,
                false
            ]
        })
        .collect()
}
