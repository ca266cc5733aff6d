//! [`TeamOutcome`]: which teams clients formed (paper 003, Table 4).

use corun_exec::teams::Operation;
use serde::Serialize;

/// The teams of a run, its warm-up included, those of all workers together.
#[derive(Clone, Debug, Default, Serialize)]
pub struct TeamOutcome {
    /// By operation, in the order of their numbers; those nobody ran are left out.
    pub operations: Vec<OperationOutcome>,
    /// Members that could have run whenever a team was chosen, summed up over these choices.
    pub ready: u64,
    /// How often a team was chosen.
    pub choices: u64,
}

/// The teams of one operation.
#[derive(Clone, Debug, Serialize)]
pub struct OperationOutcome {
    /// Its number.
    #[serde(skip)]
    pub operation: Operation,
    /// Its name.
    pub name: String,
    /// Teams that ran it.
    pub teams: u64,
    /// Members that began it in a team.
    pub entered: u64,
    /// Members that ended it in the team, not astray.
    pub left: u64,
}

impl OperationOutcome {
    /// Members of a team on average when it began.
    pub fn members_in(&self) -> f64 {
        per(self.entered, self.teams)
    }

    /// Members of a team on average that ended the operation in it.
    pub fn members_out(&self) -> f64 {
        per(self.left, self.teams)
    }

    /// Which part of the members went astray, from 0 to 1.
    pub fn stray_rate(&self) -> f64 {
        per(self.entered.saturating_sub(self.left), self.entered)
    }
}

fn per(part: u64, of: u64) -> f64 {
    if of == 0 { 0.0 } else { part as f64 / of as f64 }
}

impl TeamOutcome {
    /// Members ready to run on average whenever a team was chosen.
    pub fn members_ready(&self) -> f64 {
        per(self.ready, self.choices)
    }

    /// All operations as one: the average over all teams.
    pub fn all(&self) -> OperationOutcome {
        let sum = |of: fn(&OperationOutcome) -> u64| self.operations.iter().map(of).sum();
        OperationOutcome {
            operation: Operation(u16::MAX),
            name: "all".to_owned(),
            teams: sum(|operation| operation.teams),
            entered: sum(|operation| operation.entered),
            left: sum(|operation| operation.left),
        }
    }

    /// Adds another worker's.
    pub(super) fn merge(&mut self, other: TeamOutcome) {
        self.ready += other.ready;
        self.choices += other.choices;
        for more in other.operations {
            match self
                .operations
                .binary_search_by_key(&more.operation.0, |known| known.operation.0)
            {
                Ok(at) => {
                    let known = &mut self.operations[at];
                    known.teams += more.teams;
                    known.entered += more.entered;
                    known.left += more.left;
                }
                Err(at) => self.operations.insert(at, more),
            }
        }
    }

    /// Gives operations the names the engine has for them.
    pub(super) fn name(&mut self, name: &dyn Fn(Operation) -> String) {
        for operation in &mut self.operations {
            operation.name = name(operation.operation);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(number: u16, teams: u64, entered: u64, left: u64) -> TeamOutcome {
        TeamOutcome {
            operations: vec![OperationOutcome {
                operation: Operation(number),
                name: String::new(),
                teams,
                entered,
                left,
            }],
            ready: 30,
            choices: 10,
        }
    }

    #[test]
    fn teams_of_workers_are_added_by_operation() {
        let mut all = one(3, 10, 80, 20);
        all.merge(one(1, 2, 8, 8));
        all.merge(one(3, 10, 20, 10));
        all.name(&|operation| format!("fetch {}", operation.0));
        let names: Vec<_> = all
            .operations
            .iter()
            .map(|operation| operation.name.as_str())
            .collect();
        assert_eq!(names, ["fetch 1", "fetch 3"]);
        let fetch = &all.operations[1];
        assert_eq!(
            (fetch.members_in(), fetch.members_out(), fetch.stray_rate()),
            (5.0, 1.5, 0.7)
        );
        assert_eq!(
            (all.all().entered, all.all().teams, all.members_ready()),
            (108, 22, 3.0)
        );
        assert_eq!(TeamOutcome::default().members_ready(), 0.0);
    }
}
