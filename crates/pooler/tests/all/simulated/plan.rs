//! What a statement asks of the stand-in for PostgreSQL: the few kinds it knows, told by how the text begins.

/// A kind of statement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Plan {
    Empty,
    Begin,
    Commit,
    Rollback,
    /// A setting and its value; the value is a row where a function sets it.
    Set(String, String, bool),
    /// One setting, or all.
    Reset(Option<String>),
    Show(String),
    /// What the session has set, and these names beside.
    ReadBack(Vec<String>),
    /// Which of five things there are: a temporary table is the only one of them here.
    Pins,
    Discard,
    Deallocate(String),
    Temporary(bool),
    CopyIn,
    CopyOut,
    /// Rows that tell the text, so that nobody can have another's.
    Select {
        rows: usize,
        width: usize,
    },
    Sleep,
    /// What the proxy asks about a text.
    Explain(String),
    /// Settings that the proxy asks for beside.
    Current,
    Write,
    Fail,
    /// The grammar refuses it.
    Wrong,
}

/// Statements of a text, cut at semicolons outside of quotes.
pub fn statements(text: &str) -> Vec<String> {
    let (mut cut, mut quoted) = (vec![String::new()], false);
    for c in text.chars() {
        quoted ^= c == '\'';
        match cut.last_mut() {
            Some(last) if c != ';' || quoted => last.push(c),
            _ => cut.push(String::new()),
        }
    }
    let cut: Vec<String> = cut
        .iter()
        .map(|one| one.trim().to_owned())
        .filter(|one| !one.is_empty())
        .collect();
    // PostgreSQL knows rows of two kinds of empty text: none at all, and semicolons; both are one empty statement.
    if cut.is_empty() { vec![String::new()] } else { cut }
}

/// The texts in quotes, in their order.
fn quoted(text: &str) -> Vec<String> {
    let (mut found, mut rest) = (Vec::new(), text);
    while let Some(start) = rest.find('\'') {
        let (mut value, mut chars) = (String::new(), rest[start + 1..].char_indices().peekable());
        let mut end = rest.len();
        while let Some((at, c)) = chars.next() {
            match (c, chars.peek().map(|next| next.1)) {
                ('\'', Some('\'')) | ('\\', Some('\\')) => {
                    value.push(c);
                    chars.next();
                }
                ('\'', _) => {
                    end = start + 1 + at + 1;
                    break;
                }
                _ => value.push(c),
            }
        }
        found.push(value);
        rest = &rest[end..];
    }
    found
}

/// The number behind a word, or another.
fn number(text: &str, word: &str, otherwise: usize) -> usize {
    let behind = text.split(word).nth(1).unwrap_or_default().trim_start();
    let digits: String = behind.chars().take_while(char::is_ascii_digit).take(4).collect();
    digits.parse().unwrap_or(otherwise)
}

/// What a statement asks for.
pub fn plan(statement: &str) -> Plan {
    let mut text = statement.trim();
    while let Some((_, behind)) = text.strip_prefix("/*").and_then(|inside| inside.split_once("*/")) {
        text = behind.trim_start();
    }
    if let Some(explained) = text.strip_prefix("EXPLAIN (FORMAT JSON, VERBOSE, SETTINGS) ") {
        return Plan::Explain(explained.to_owned());
    }
    let lower = text.to_ascii_lowercase();
    let words: Vec<&str> = lower.split_ascii_whitespace().collect();
    let word = |at: usize| words.get(at).copied().unwrap_or_default();
    let bare = |at: usize| word(at).replace('"', "");
    if lower.contains("syntax") {
        return Plan::Wrong;
    }
    if lower.contains("fail") {
        return Plan::Fail;
    }
    match word(0) {
        "" => Plan::Empty,
        "begin" => Plan::Begin,
        "commit" => Plan::Commit,
        "rollback" => Plan::Rollback,
        // Theirs only ends with the transaction; nothing here depends on it but what is explained.
        "set" if word(1) == "local" => Plan::Set(format!("local {}", bare(2)), bare(4), false),
        "set" => Plan::Set(bare(1), quoted(text).first().cloned().unwrap_or_default(), false),
        "reset" => Plan::Reset(Some(bare(1)).filter(|name| name != "all")),
        "show" => Plan::Show(bare(1)),
        "discard" => Plan::Discard,
        "deallocate" => Plan::Deallocate(bare(1)),
        "create" => Plan::Temporary(true),
        "drop" => Plan::Temporary(false),
        "copy" if lower.contains("stdin") => Plan::CopyIn,
        "copy" => Plan::CopyOut,
        "insert" | "update" | "delete" => Plan::Write,
        "select" if word(1).starts_with("pg_catalog.set_config(") => {
            let mut parts = quoted(text).into_iter();
            Plan::Set(
                parts.next().unwrap_or_default(),
                parts.next().unwrap_or_default(),
                true,
            )
        }
        "select" if word(1) == "name::pg_catalog.text," => {
            // A format and the source asked for; then each name twice and the format.
            Plan::ReadBack(quoted(text).into_iter().skip(2).step_by(3).collect())
        }
        "select" if word(1).starts_with("pg_catalog.current_setting(") => Plan::Current,
        "select" if word(1) == "pg_catalog.pg_my_temp_schema()" => Plan::Pins,
        // It has no functions of its own.
        "select" if word(1) == "'f'," => Plan::Select { rows: 0, width: 0 },
        "select" if lower.contains("sleep") => Plan::Sleep,
        "select" => Plan::Select {
            rows: number(&lower, "rows", 1).min(64),
            width: number(&lower, "wide", 0).min(4096),
        },
        _ => Plan::Wrong,
    }
}

impl Plan {
    /// The command's tag where it is always the same.
    pub fn tag(&self) -> &'static str {
        match self {
            Self::Begin => "BEGIN",
            Self::Commit => "COMMIT",
            Self::Rollback => "ROLLBACK",
            Self::Set(..) => "SET",
            Self::Reset(_) => "RESET",
            Self::Show(_) => "SHOW",
            Self::Discard => "DISCARD ALL",
            Self::Deallocate(_) => "DEALLOCATE",
            Self::Temporary(true) => "CREATE TABLE",
            Self::Temporary(false) => "DROP TABLE",
            Self::Write => "INSERT 0 1",
            _ => "",
        }
    }

    /// Columns of its rows; 0: it has none.
    pub fn columns(&self) -> usize {
        match self {
            Self::Set(_, _, true) | Self::Show(_) | Self::Select { .. } | Self::Sleep => 1,
            Self::Explain(_) => 1,
            Self::Current => 3,
            Self::ReadBack(_) => 2,
            Self::Pins => 6,
            _ => 0,
        }
    }

    /// Whether it may run in a transaction that has failed.
    pub fn ends_transaction(&self) -> bool {
        matches!(self, Self::Commit | Self::Rollback)
    }
}
