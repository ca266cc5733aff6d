//! [`Form`]: how to make PostgreSQL take another plan for one execution.
//!
//! Paper 002 varies the operators of the first two joins between hash and index (section 5.1). A server that is not patched can be
//! told so in two ways, and no result depends on either:
//!
//! | way | what is sent | what it varies |
//! | --- | --- | --- |
//! | planner settings | `SET LOCAL enable_hashjoin = off` before the statement, in its transaction | all joins of the plan alike |
//! | pg_hint_plan, where the server has it | a comment at the head of the statement | each of the two joins on its own |
//!
//! A setting forbids a method, or makes it very dear, so the joins above change with the first two; the cost that PostgreSQL names
//! for the whole says whether that is worth anything. Where it has no other plan it says so
//! ([`Explained::is_forced`](super::Explained::is_forced)), and where the settings changed nothing the fingerprint is the same.

use super::Explained;
use super::corrections::Corrections;
use super::shape::{JoinKind, MainJoin};
use corun_model::pooler::pg_hash::Memory;

/// Forms that are asked about, at most.
const FORMS_MAX: usize = 3;

const INDEX: &[(&str, &str)] = &[("enable_hashjoin", "off"), ("enable_mergejoin", "off")];
const HASH: &[(&str, &str)] = &[("enable_nestloop", "off"), ("enable_mergejoin", "off")];
const NO_MEMOIZE: &[(&str, &str)] = &[("enable_memoize", "off")];
const INDEX_NO_MEMOIZE: &[(&str, &str)] = &[
    ("enable_hashjoin", "off"),
    ("enable_mergejoin", "off"),
    ("enable_memoize", "off"),
];

/// How to get a plan.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Form {
    settings: &'static [(&'static str, &'static str)],
    hints: Option<String>,
}

impl Form {
    /// The plan PostgreSQL itself takes.
    pub fn own() -> Self {
        Self::default()
    }

    fn by(settings: &'static [(&'static str, &'static str)]) -> Self {
        Self {
            settings,
            hints: None,
        }
    }

    /// Whether nothing needs to be said.
    pub fn is_own(&self) -> bool {
        self.settings.is_empty() && self.hints.is_none()
    }

    /// Planner settings for the transaction of the statement: name and value.
    pub fn settings(&self) -> &[(&'static str, &'static str)] {
        self.settings
    }

    /// A comment for pg_hint_plan, to stand at the head of the text, before `EXPLAIN` as well.
    pub fn hints(&self) -> Option<&str> {
        self.hints.as_deref()
    }
}

impl Explained {
    /// Settings worth asking about, at most three: those under which one of the first two joins of the main pipeline could use
    /// another method. Empty for a plan without joins. The answers need not differ.
    pub fn alternatives(&self) -> Vec<Form> {
        let joins = self.main_joins();
        let mut forms = Vec::new();
        let mut ask = |settings| forms.push(Form::by(settings));
        // A hash or merge join can only become one by index if one side is a relation alone.
        let mut by_key = joins
            .iter()
            .filter(|join| matches!(join.kind, JoinKind::Hash | JoinKind::Merge | JoinKind::Material));
        if by_key.any(|join| join.relation) {
            ask(INDEX);
        }
        if joins
            .iter()
            .any(|join| join.kind != JoinKind::Hash && join.equality)
        {
            ask(HASH);
        }
        if joins.iter().any(|join| join.kind == JoinKind::Memoize) {
            ask(NO_MEMOIZE);
        }
        forms.truncate(FORMS_MAX);
        forms
    }

    /// One more form, after the server answered to `form` with this plan: where it keeps answers of an index join, the same
    /// without.
    pub fn refined(&self, form: &Form) -> Option<Form> {
        let memoize = self
            .main_joins()
            .iter()
            .any(|join| join.kind == JoinKind::Memoize);
        (form.settings == INDEX && memoize).then(|| Form::by(INDEX_NO_MEMOIZE))
    }

    /// The same by hints, for a server that has pg_hint_plan ([`HINTS_SETTING`](super::HINTS_SETTING)): each of the first two
    /// joins the other way, then both. Their order stays. Empty where a name cannot stand in a comment.
    pub fn hinted(&self) -> Vec<Form> {
        let joins = self.main_joins();
        let nameable = |join: &MainJoin| join.outer.iter().chain(&join.inner).all(|name| is_plain(name));
        if joins.is_empty() || !joins.iter().all(nameable) {
            return Vec::new();
        }
        let mut forms = Vec::new();
        for flips in 1..1_usize << joins.len() {
            let possible = |(at, join): (usize, &MainJoin)| {
                let hashed = join.kind == JoinKind::Hash;
                flips >> at & 1 == 0 || if hashed { join.relation } else { join.equality }
            };
            if !joins.iter().enumerate().all(possible) {
                continue;
            }
            let mut text = String::from("/*+");
            for (at, join) in joins.iter().enumerate() {
                let hashed = (join.kind == JoinKind::Hash) != (flips >> at & 1 == 1);
                let mut names: Vec<&str> = join.outer.iter().chain(&join.inner).map(String::as_str).collect();
                names.sort_unstable();
                names.dedup();
                let method = if hashed { "HashJoin" } else { "NestLoop" };
                text.push_str(&format!(" {method}({})", names.join(" ")));
            }
            // Which of two is the inner side is said once more, since it is what stands in the table.
            if let Some(first) = joins.first()
                && let ([outer], [inner]) = (&first.outer[..], &first.inner[..])
            {
                let mut order = format!("({outer} {inner})");
                if let Some([next]) = joins.get(1).map(|join| &join.inner[..]) {
                    order = format!("({order} {next})");
                }
                text.push_str(&format!(" Leading({order})"));
            }
            text.push_str(" */ ");
            forms.push(Form {
                settings: &[],
                hints: Some(text),
            });
        }
        forms.truncate(FORMS_MAX);
        forms
    }

    fn main_joins(&self) -> Vec<MainJoin> {
        self.reading(&Memory::default(), &Corrections::default()).joins
    }
}

/// Whether a name can stand in a comment as it is.
fn is_plain(name: &str) -> bool {
    !name.is_empty()
        && !name.starts_with(|c: char| c.is_ascii_digit())
        && name
            .bytes()
            .all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_')
}
