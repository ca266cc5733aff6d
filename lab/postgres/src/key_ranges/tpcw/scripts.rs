//! The interactions as scripts of `pgbench`, and the variables these are given.

use std::fmt::Write;
use std::path::{Path, PathBuf};

use super::Scale;
use super::interactions::{BEST_SELLER, Draw, INTERACTIONS, Interaction, Step, Word};
use super::words::{SUBJECTS, beginnings};
use crate::fixture;
use lab_core::error::BenchError;

/// How many of the last orders Best Seller looks at.
const LATELY: usize = 3_333;

impl Word {
    /// What `:word` may be, and the beginning of the names its choices have as variables of `pgbench`.
    pub fn choices(self) -> (&'static str, Vec<String>) {
        match self {
            Word::Subject => ("subject", SUBJECTS.map(str::to_owned).to_vec()),
            Word::Title => ("title", beginnings(2)),
            Word::Author => ("author", beginnings(3)),
        }
    }
}

impl Interaction {
    /// The script of `pgbench`. It has no texts in its own variables, so a word is chosen by branches, all with the same statement.
    pub fn script(&self) -> String {
        let mut text = String::new();
        for step in self.steps {
            // Writing into a text cannot fail.
            let _ = match step {
                Step::Set(name, draw) => writeln!(text, "\\set {name} {}", draw.expression()),
                Step::Ask(sql) | Step::Do(sql) => writeln!(text, "{sql};"),
                Step::Keep(sql) => writeln!(text, "{sql} \\gset"),
                Step::AskFor(word, sql) => {
                    text.push_str(&branches(*word, sql));
                    Ok(())
                }
            };
        }
        text
    }
}

impl Draw {
    fn expression(self) -> String {
        match self {
            Draw::Customer => "random(1, :customers)".to_owned(),
            Draw::Item => "random(1, :items)".to_owned(),
            Draw::ItemOfThird(third) => {
                format!("random(1 + {third} * (:items / 3), {} * (:items / 3))", third + 1)
            }
            Draw::Between(low, high) => format!("random({low}, {high})"),
        }
    }
}

fn branches(word: Word, sql: &str) -> String {
    let (name, choices) = word.choices();
    let count = choices.len();
    let mut text = format!("\\set word random(1, {count})\n");
    for choice in 1..=count {
        let test = if choice == 1 { "if" } else { "elif" };
        let sql = sql.replace(":word", &format!(":{name}{choice}"));
        let _ = writeln!(text, "\\{test} :word = {choice}\n{sql};");
    }
    text.push_str("\\endif\n");
    text
}

/// The variables that scripts are given.
pub fn variables(scale: Scale) -> Vec<(String, String)> {
    let sizes = [("items", scale.items), ("customers", scale.customers)];
    let sizes = sizes.map(|(name, count)| (name.to_owned(), count.to_string()));
    let words = [Word::Subject, Word::Title, Word::Author]
        .into_iter()
        .flat_map(|word| {
            let (name, choices) = word.choices();
            let numbered = choices.into_iter().enumerate();
            numbered.map(move |(place, choice)| (format!("{name}{}", place + 1), choice))
        });
    sizes.into_iter().chain(words).collect()
}

/// Writes the script of each interaction into a folder; each with its share, in the order of [`INTERACTIONS`].
pub fn write(folder: &Path) -> Result<Vec<(PathBuf, u32)>, BenchError> {
    let script = |interaction: &Interaction| {
        let file = folder.join(format!("{}.sql", interaction.name));
        fixture::write(&file, interaction.script())?;
        Ok((file, interaction.share))
    };
    INTERACTIONS.iter().map(script).collect()
}

/// Writes a script of Best Seller that asks for the last order first and sends its number as a value.
pub fn write_constant(folder: &Path) -> Result<PathBuf, BenchError> {
    let file = folder.join("best_sellers_constant.sql");
    let text = format!(
        "select max(o_id) - {LATELY} as since from orders \\gset\n{}",
        branches(
            Word::Subject,
            &BEST_SELLER.replace(&format!("(select max(o_id) - {LATELY} from orders)"), ":since")
        )
    );
    fixture::write(&file, text)?;
    Ok(file)
}

#[cfg(test)]
mod tests;
