//! [`Estimate`]: what is known of a statement before it runs: the plan PostgreSQL takes, and the other forms it has.

use corun_model::cache::locality::Footprint;
use corun_model::cache::plan_choice::{JoinOperator, SubTree};

use super::shape::HashTable;
use super::{Corrections, Explained, Form, Memory};

/// Sizes that differ by no more count as the same.
const SAME_SIZE: f64 = 0.25;

/// One plan.
#[derive(Clone, Debug, PartialEq)]
pub struct Candidate {
    /// How to get it.
    pub form: Form,
    /// The planner's cost.
    pub cost: f64,
    /// What its main pipeline keeps touching.
    pub footprint: Footprint,
    /// Its hash joins' tables.
    pub tables: Vec<HashTable>,
    /// Parallel workers it is planned with.
    pub workers: usize,
    /// Which plan it is.
    pub fingerprint: u64,
}

impl Candidate {
    fn new(form: Form, plan: &Explained, memory: &Memory, corrections: &Corrections) -> Self {
        let reading = plan.reading(memory, corrections);
        Self {
            form,
            cost: plan.cost(),
            footprint: reading.footprint(),
            tables: reading.tables,
            workers: plan.workers(),
            fingerprint: plan.fingerprint(),
        }
    }

    /// Whether the other is the same plan, about as large. Tables with about as many rows count as alike even where one of them
    /// has just got twice as many buckets.
    fn agrees(&self, other: &Candidate) -> bool {
        let near = |a: f64, b: f64| (a - b).abs() <= SAME_SIZE * a.min(b);
        let (a, b) = (self.footprint.bytes().0 as f64, other.footprint.bytes().0 as f64);
        let rows = self.tables.iter().zip(&other.tables);
        let same_rows = !self.tables.is_empty()
            && self.tables.len() == other.tables.len()
            && rows.into_iter().all(|(a, b)| near(a.rows, b.rows));
        self.form == other.form
            && self.fingerprint == other.fingerprint
            && (self.footprint == Footprint::Streams) == (other.footprint == Footprint::Streams)
            && (near(a, b) || same_rows)
    }
}

/// The plans of one statement. The first is PostgreSQL's own.
#[derive(Clone, Debug, PartialEq)]
pub struct Estimate {
    /// Never empty.
    candidates: Vec<Candidate>,
}

impl Estimate {
    /// Begins with the plan PostgreSQL takes.
    pub fn new(own: &Explained, memory: &Memory, corrections: &Corrections) -> Self {
        Self {
            candidates: vec![Candidate::new(Form::own(), own, memory, corrections)],
        }
    }

    /// Adds what the server answered under a form. `false`: it ignored the form, has no such plan, or has it already.
    pub fn add(&mut self, form: Form, plan: &Explained, memory: &Memory, corrections: &Corrections) -> bool {
        let fingerprint = plan.fingerprint();
        let known = |candidate: &Candidate| candidate.fingerprint == fingerprint;
        let new = !plan.is_forced() && !self.candidates.iter().any(known);
        if new {
            let candidate = Candidate::new(form, plan, memory, corrections);
            self.candidates.push(candidate);
        }
        new
    }

    /// Leaves out what only hints can get: they have no place in a statement that was prepared.
    pub fn keep_settings(&mut self) {
        self.candidates
            .retain(|candidate| candidate.form.hints().is_none());
    }

    /// All plans; the first is PostgreSQL's own.
    pub fn candidates(&self) -> &[Candidate] {
        &self.candidates
    }

    /// PostgreSQL's own plan.
    pub fn own(&self) -> &Candidate {
        &self.candidates[0]
    }

    /// The candidates in their order for [`corun_model::cache::plan_choice::choose`]: whole plans, each with its main pipeline's tables as one
    /// and the cost of the whole.
    pub fn sub_trees(&self) -> Vec<SubTree> {
        let tree = |candidate: &Candidate| SubTree {
            first: match candidate.footprint {
                Footprint::Tables(table) => JoinOperator::Hash { table },
                Footprint::Streams => JoinOperator::Index,
            },
            second: None,
            cost: candidate.cost,
        };
        self.candidates.iter().map(tree).collect()
    }

    /// Whether the other has the same plans, with sizes within a quarter.
    pub fn agrees(&self, other: &Estimate) -> bool {
        self.candidates.len() == other.candidates.len()
            && self
                .candidates
                .iter()
                .zip(&other.candidates)
                .all(|(a, b)| a.agrees(b))
    }
}
