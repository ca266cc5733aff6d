//! What a paper states beside what a run says to it.

use super::page::Tile;

/// How a statement of a paper fares.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Agreement {
    /// As the paper has it.
    Agrees,
    /// In the same direction, by less than half or more than twice.
    Differs,
    /// Not at all.
    Disagrees,
    /// The run's spread, or a side against itself, holds what agrees and what does not.
    Undecided,
}

impl Agreement {
    /// Of two amounts in percent; below `none` this run's is nothing.
    pub fn of_percent(paper: f64, here: f64, none: f64) -> Agreement {
        match here {
            here if here < none => Agreement::Disagrees,
            here if here < paper / 2.0 || here > paper * 2.0 => Agreement::Differs,
            _ => Agreement::Agrees,
        }
    }

    /// How many statements hold, as a tile.
    pub fn tile(verdicts: &[Agreement]) -> Tile {
        let count = |wanted: Agreement| verdicts.iter().filter(|&&verdict| verdict == wanted).count();
        Tile {
            value: format!("{} of {}", count(Agreement::Agrees), verdicts.len()),
            name: "statements of the paper hold here".to_owned(),
            note: format!(
                "{} more in direction, {} not{}",
                count(Agreement::Differs),
                count(Agreement::Disagrees),
                match count(Agreement::Undecided) {
                    0 => String::new(),
                    undecided => format!(", {undecided} undecided"),
                }
            ),
        }
    }
}

/// A statement of a paper beside this run's numbers.
#[derive(Clone, Debug, PartialEq)]
pub struct Finding {
    /// The paper's words, shortened, with the section.
    pub paper: String,
    /// This run's.
    pub here: String,
    /// What they are to each other.
    pub agreement: Agreement,
}

impl Finding {
    /// One sentence each.
    pub fn sentence(&self) -> String {
        let verdict = match self.agreement {
            Agreement::Agrees => "This agrees with the paper.",
            Agreement::Differs => "The direction is the paper's, the size is not.",
            Agreement::Disagrees => "This does not agree with the paper.",
            Agreement::Undecided => "The spread holds both: this run does not decide it.",
        };
        format!("Paper: {}. Here: {}. {verdict}", self.paper, self.here)
    }
}
