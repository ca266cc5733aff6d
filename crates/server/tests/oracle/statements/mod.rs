//! Random statements of the language that the server writes with, over a model of what tables there are.
//!
//! Order of calls: [`Statements::new`], then [`Statements::next`] and, when both servers have answered alike, [`Statements::done`]. What
//! leaves PostgreSQL a choice (which of several matching rows an `UPDATE FROM` takes, whether rows that swap keys collide) is not
//! written. What it is not: a model of rows; PostgreSQL is that.

mod kinds;
mod known;
mod rows;
mod tables;

use super::random::Random;
pub use kinds::Kind;
pub use known::Known;

/// A column of the model.
#[derive(Clone, Debug)]
pub struct Column {
    pub name: String,
    pub kind: Kind,
    /// In a unique key.
    pub in_key: bool,
    /// Its values come from a sequence.
    pub numbered: bool,
    /// `GENERATED ALWAYS`.
    pub always: bool,
}

/// A table of the model.
#[derive(Clone, Debug)]
pub struct Table {
    pub name: String,
    pub columns: Vec<Column>,
    /// Columns of the primary key.
    pub primary: Vec<usize>,
}

/// What tables there are.
#[derive(Clone, Debug, Default)]
pub struct Model {
    pub tables: Vec<Table>,
    made: usize,
}

/// What follows of a statement that succeeds.
#[derive(Clone, Debug)]
pub enum Then {
    Nothing,
    Model(Model),
    Begin,
    Commit,
    Rollback,
    Savepoint(String),
    RollbackTo(String),
    Release(String),
}

/// A statement, and how answers to it are compared.
#[derive(Clone, Debug)]
pub struct Step {
    pub sql: String,
    /// Rows come in an order that is given.
    pub ordered: bool,
    /// Columns are computed: numbers may be of other types and have other zeros at their end.
    pub computed: bool,
    /// Of several rows, which one fails first is not said.
    pub several: bool,
    /// By the extended protocol.
    pub extended: bool,
    /// The table that it may have changed.
    pub table: Option<String>,
    pub then: Then,
}

impl Step {
    /// A statement that returns what is stored, in any order.
    pub fn of(sql: impl Into<String>) -> Step {
        Step {
            sql: sql.into(),
            ordered: false,
            computed: false,
            several: false,
            extended: false,
            table: None,
            then: Then::Nothing,
        }
    }

    fn then(mut self, then: Then) -> Step {
        self.then = then;
        self
    }

    fn writes(mut self, table: &Table) -> Step {
        self.table = Some(table.name.clone());
        self.several = true;
        self
    }

    fn computed(mut self) -> Step {
        self.computed = true;
        self
    }

    fn ordered(mut self) -> Step {
        self.ordered = true;
        self
    }
}

/// The source of statements.
pub struct Statements {
    random: Random,
    pub model: Model,
    /// At BEGIN and at each savepoint.
    saved: Vec<(Option<String>, Model)>,
    /// Tables with sequences of which a failed statement may have taken numbers.
    uncertain: bool,
    set_to: u64,
    /// The statement has a value that cannot be put into its column.
    wrong: bool,
}

impl Statements {
    pub fn new(seed: u64) -> Statements {
        Statements {
            random: Random::new(seed),
            model: Model::default(),
            saved: Vec::new(),
            uncertain: false,
            set_to: 100,
            wrong: false,
        }
    }

    /// The next statement; `state` is the transaction's: `I`, `T` or `E`.
    pub fn next(&mut self, state: char) -> Step {
        let mut step = self.any(state);
        // Texts of several statements are for the simple protocol.
        step.extended = !step.sql.contains(';') && self.random.percent(25);
        step
    }

    fn any(&mut self, state: char) -> Step {
        self.wrong = false;
        if state == 'E' {
            return self.after_an_error();
        }
        if let Some(step) = self.sequences_again() {
            return step;
        }
        if self.model.tables.is_empty() || (self.model.tables.len() < 4 && self.random.percent(4)) {
            return self.create_table();
        }
        match self.random.below(100) {
            0..=2 if state == 'I' => self.begin(),
            3..=12 if state == 'I' => self.definition(),
            3..=8 => self.within_transaction(),
            9..=12 if self.random.percent(25) => self.definition(),
            13..=15 => self.mistake(),
            16..=45 => self.insert(),
            46..=58 => {
                self.wrong = Known::LateConstants.is_avoided();
                self.update()
            }
            59..=66 => self.delete(),
            67..=72 => {
                self.wrong = Known::LateConstants.is_avoided();
                self.merge()
            }
            _ => self.select(),
        }
    }

    /// Both servers have answered: without an error?
    pub fn done(&mut self, step: &Step, succeeded: bool) {
        if !succeeded {
            self.uncertain = true;
            return;
        }
        match &step.then {
            Then::Nothing => {}
            Then::Model(model) => self.model = model.clone(),
            Then::Begin => self.saved = vec![(None, self.model.clone())],
            Then::Commit => self.saved.clear(),
            Then::Rollback => {
                if let Some((_, model)) = self.saved.first() {
                    self.model = model.clone();
                }
                self.saved.clear();
                self.uncertain = true;
            }
            Then::Savepoint(name) => self.saved.push((Some(name.clone()), self.model.clone())),
            Then::RollbackTo(name) => {
                if let Some(at) = self.position(name) {
                    self.saved.truncate(at + 1);
                    self.model = self.saved[at].1.clone();
                }
                self.uncertain = true;
            }
            Then::Release(name) => {
                if let Some(at) = self.position(name) {
                    self.saved.truncate(at);
                }
            }
        }
    }

    /// What a COMMIT after a failure does.
    pub fn rolled_back(&mut self, step: &Step) {
        let then = match step.then {
            Then::Commit => Then::Rollback,
            ref other => other.clone(),
        };
        self.done(&Step::of("").then(then), true);
    }

    fn position(&self, name: &str) -> Option<usize> {
        self.saved
            .iter()
            .rposition(|(saved, _)| saved.as_deref() == Some(name))
    }

    fn begin(&mut self) -> Step {
        let mut text = self.random.text(BEGINS);
        if Known::StartTransaction.is_avoided() {
            text = text.replace("start transaction", "begin");
        }
        if Known::SetvalReadOnly.is_avoided() {
            text = text.replace(" read only", "");
        }
        Step::of(text).then(Then::Begin)
    }

    fn after_an_error(&mut self) -> Step {
        let savepoints: Vec<String> = self.saved.iter().filter_map(|(name, _)| name.clone()).collect();
        match self.random.below(10) {
            0 => self.select(),
            1 => Step::of("commit").then(Then::Commit),
            2..=3 if savepoints.is_empty() => Step::of("rollback").then(Then::Rollback),
            2..=7 if !savepoints.is_empty() => {
                let name = savepoints[self.random.below(savepoints.len())].clone();
                Step::of(format!("rollback to {name}")).then(Then::RollbackTo(name))
            }
            _ => Step::of("rollback").then(Then::Rollback),
        }
    }

    fn within_transaction(&mut self) -> Step {
        let name = self.random.text(&["s1", "s2", "s3"]);
        match self.random.below(12) {
            0..=3 => Step::of(format!("savepoint {name}")).then(Then::Savepoint(name)),
            4..=5 => Step::of(format!("rollback to savepoint {name}")).then(Then::RollbackTo(name)),
            6 => Step::of(format!("release savepoint {name}")).then(Then::Release(name)),
            7..=9 => Step::of("commit").then(Then::Commit),
            _ => Step::of("rollback").then(Then::Rollback),
        }
    }

    /// Sequences do not go back with what has failed, and how many numbers a statement takes before it fails is not said.
    fn sequences_again(&mut self) -> Option<Step> {
        if !std::mem::take(&mut self.uncertain) {
            return None;
        }
        let mut calls = Vec::new();
        for table in &self.model.tables {
            for column in table.columns.iter().filter(|column| column.numbered) {
                self.set_to += 10;
                let sequence = format!("{}_{}_seq", table.name, column.name);
                calls.push(format!("select setval('{sequence}', {})", self.set_to));
            }
        }
        (!calls.is_empty()).then(|| Step::of(calls.join("; ")))
    }

    /// One of the tables.
    fn table(&mut self) -> Table {
        self.model.tables[self.random.below(self.model.tables.len())].clone()
    }

    /// One of a table's columns.
    fn column<'t>(&mut self, table: &'t Table) -> &'t Column {
        &table.columns[self.random.below(table.columns.len())]
    }
}

const BEGINS: &[&str] = &[
    "begin",
    "begin",
    "begin isolation level repeatable read",
    "start transaction isolation level serializable",
    "begin read only",
];
