//! One table a section: the rows of [`settings!`] are the struct's fields, their types, defaults and meanings at once.
//!
//! The reader, the check, `SHOW CONFIG`, `SET`, the importer and the documentation all go through these rows, so a key
//! cannot exist in one and be missing in another. Not here: where the values come from (`read`), or what they mean
//! together (`check`).

use super::values::Raw;

/// A text as a TOML string.
pub(crate) fn quote(text: &str) -> String {
    let mut quoted = String::from("\"");
    for letter in text.chars() {
        match letter {
            '"' => quoted.push_str("\\\""),
            '\\' => quoted.push_str("\\\\"),
            letter if letter.is_control() => quoted.push_str(&format!("\\u{:04X}", u32::from(letter))),
            letter => quoted.push(letter),
        }
    }
    quoted.push('"');
    quoted
}

/// A name as a part of the heading of a TOML table: bare where it can be.
pub(crate) fn quote_name(name: &str) -> String {
    let bare = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-';
    match !name.is_empty() && name.bytes().all(bare) {
        true => name.to_owned(),
        false => quote(name),
    }
}

/// Texts as a TOML array.
pub(crate) fn quote_list(texts: impl IntoIterator<Item = String>) -> String {
    let quoted: Vec<String> = texts.into_iter().map(|text| quote(&text)).collect();
    format!("[{}]", quoted.join(", "))
}

/// What can stand as the value of a key.
pub trait Setting: Sized {
    /// What a person writes, such as `seconds`.
    const KIND: &'static str;

    /// Whether numbers and truth values of this kind stand in TOML without quotes.
    const BARE: bool = false;

    /// Reads a value.
    ///
    /// # Errors
    /// Says what was expected; never repeats the value, which may be a secret.
    fn read(raw: &Raw) -> Result<Self, String>;

    /// The value as it would be written; stars for a secret, empty for what is not set.
    fn show(&self) -> String;

    /// The value as TOML, secrets included: for files, never for a screen.
    fn toml(&self) -> String {
        let shown = self.show();
        let is_bare = Self::BARE && (shown.parse::<i64>().is_ok() || shown.parse::<bool>().is_ok());
        if is_bare { shown } else { quote(&shown) }
    }

    /// The number a range is checked against.
    fn number(&self) -> Option<u64> {
        None
    }
}

/// The settings of one table of the file, whichever section it is of.
pub(super) trait Settings {
    /// Sets one key; `None` when no key has this name.
    ///
    /// # Errors
    /// Says which values the key takes.
    fn set(&mut self, key: &str, raw: &Raw) -> Option<Result<(), String>>;

    /// One key's value as TOML, secrets included; `None` when no key has this name.
    fn toml(&self, key: &str) -> Option<String>;
}

/// When a change of a key takes effect.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effect {
    /// At the next `RELOAD` (or hang-up signal), for what begins afterwards.
    Reload,
    /// At the next start.
    Restart,
}

/// The table of the file that a key belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Section {
    /// `[proxy]`
    Proxy,
    /// `[databases.NAME]`
    Database,
    /// `[users.NAME]`
    User,
    /// `[corun]`
    Corun,
    /// `[ranges.NAME]`
    Range,
    /// `[splits.NAME]`
    Split,
    /// `[peers.ID]`
    Peer,
}

impl Section {
    /// All of them, in the order of the documentation.
    pub const ALL: [Section; 7] = [
        Section::Proxy,
        Section::Database,
        Section::User,
        Section::Corun,
        Section::Range,
        Section::Split,
        Section::Peer,
    ];

    /// The heading in the file.
    pub fn heading(self) -> &'static str {
        match self {
            Section::Proxy => "[proxy]",
            Section::Database => "[databases.NAME]",
            Section::User => "[users.NAME]",
            Section::Corun => "[corun]",
            Section::Range => "[ranges.NAME]",
            Section::Split => "[splits.NAME]",
            Section::Peer => "[peers.ID]",
        }
    }

    /// The name of the table in the file.
    pub(super) fn table(self) -> &'static str {
        let inside = self.heading().trim_matches(['[', ']']);
        inside.split_once('.').map_or(inside, |(table, _)| table)
    }

    /// Whether the file has such a table for each name.
    pub(super) fn is_named(self) -> bool {
        self.heading().contains('.')
    }

    /// The headings of all sections, `word` before the last.
    pub(super) fn headings(word: &str) -> String {
        let [first @ .., last] = Section::ALL.map(Section::heading);
        format!("{} {word} {last}", first.join(", "))
    }
}

/// One documented key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Key {
    /// Where it stands.
    pub section: Section,
    /// Its name in the file.
    pub name: &'static str,
    /// What a person writes there.
    pub kind: String,
    /// The value without it; empty where there is none.
    pub default: String,
    /// When a change takes effect.
    pub effect: Effect,
    /// What it does.
    pub meaning: &'static str,
}

/// Whether a value keeps to its range. `range` is `[]` or `[first, last]`.
pub(super) fn within<T: Setting>(value: T, range: &[u64]) -> Result<T, String> {
    if let ([first, last], Some(number)) = (range, value.number())
        && !(*first..=*last).contains(&number)
    {
        return Err(format!("a value from {first} to {last}"));
    }
    Ok(value)
}

/// The kind of a key with its range.
pub(super) fn kind_of<T: Setting>(range: &[u64]) -> String {
    match range {
        [first, last] => format!("{}, {first} to {last}", T::KIND),
        _ => T::KIND.to_owned(),
    }
}

/// Makes a struct of settings out of its table; see the module.
macro_rules! settings {
    (
        $(#[$outer:meta])*
        $name:ident at $section:ident {
            $( $field:ident: $type:ty = $default:expr, $([$first:literal, $last:literal],)? $effect:ident, $meaning:literal; )*
        }
    ) => {
        $(#[$outer])*
        #[derive(Debug, Clone, PartialEq)]
        pub struct $name {
            $( #[doc = $meaning] pub $field: $type, )*
        }

        impl Default for $name {
            fn default() -> Self {
                $name { $( $field: $default, )* }
            }
        }

        impl $name {
            /// The section of these keys.
            pub const SECTION: $crate::config::Section = $crate::config::Section::$section;

            /// Every key with its documentation, in the order of the table.
            pub fn keys() -> Vec<$crate::config::Key> {
                let default = Self::default();
                vec![ $( $crate::config::Key {
                    section: Self::SECTION,
                    name: stringify!($field),
                    kind: $crate::config::settings::kind_of::<$type>(&[$($first, $last)?]),
                    default: <$type as $crate::config::Setting>::show(&default.$field),
                    effect: $crate::config::Effect::$effect,
                    meaning: $meaning,
                }, )* ]
            }

            /// Sets one key; `None` when no key has this name.
            ///
            /// # Errors
            /// Says which values the key takes.
            pub fn set(&mut self, key: &str, raw: &$crate::config::Raw) -> Option<Result<(), String>> {
                match key {
                    $( stringify!($field) => Some(
                        <$type as $crate::config::Setting>::read(raw)
                            .and_then(|value| $crate::config::settings::within(value, &[$($first, $last)?]))
                            .map(|value| self.$field = value)
                    ), )*
                    _ => None,
                }
            }

            /// Every key with its value as text; stars for secrets.
            pub fn show(&self) -> Vec<(&'static str, String)> {
                vec![ $( (stringify!($field), <$type as $crate::config::Setting>::show(&self.$field)), )* ]
            }
        }

        impl $crate::config::settings::Settings for $name {
            fn set(&mut self, key: &str, raw: &$crate::config::Raw) -> Option<Result<(), String>> {
                $name::set(self, key, raw)
            }

            fn toml(&self, key: &str) -> Option<String> {
                match key {
                    $( stringify!($field) => Some(<$type as $crate::config::Setting>::toml(&self.$field)), )*
                    _ => None,
                }
            }
        }
    };
}
pub(super) use settings;
