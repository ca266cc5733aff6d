//! The documentation of every key, made from the tables.

use super::settings::{Effect, Key, Section};
use super::{Corun, Database, Peer, Proxy, Range, Split, User};

/// Every key of every section, in the order of the documentation.
pub fn keys() -> Vec<Key> {
    [
        Proxy::keys(),
        Database::keys(),
        User::keys(),
        Corun::keys(),
        Range::keys(),
        Split::keys(),
        Peer::keys(),
    ]
    .concat()
}

/// The keys as Markdown, a table for each section.
pub fn documentation() -> String {
    let mut text = String::new();
    let keys = keys();
    for section in Section::ALL {
        text.push_str(&format!(
            "## `{}`\n\n| key | value | default | change | meaning |\n| --- | --- | --- | --- | --- |\n",
            section.heading()
        ));
        for key in keys.iter().filter(|key| key.section == section) {
            text.push_str(&row(key));
        }
        text.push('\n');
    }
    text.truncate(text.trim_end().len());
    text.push('\n');
    text
}

fn row(key: &Key) -> String {
    let default = if key.default.is_empty() {
        "-".to_owned()
    } else {
        format!("`{}`", key.default)
    };
    let change = match key.effect {
        Effect::Reload => "reload",
        Effect::Restart => "restart",
    };
    format!(
        "| `{}` | {} | {default} | {change} | {} |\n",
        key.name, key.kind, key.meaning
    )
}
