//! [`Lists`]: the list of each operation, the team that is made of one, and what is counted of teams (paper 003, Figure 11 and
//! Table 4).
//!
//! What it is not: it does not know who runs; a member in a list waits.

use corun_model::teams::{NextTeam, OperationStatistics, TeamList};

use super::member::{Member, Place};
use super::ring::Ring;

/// A list of an operation.
struct List {
    ring: Ring,
    /// Where in `Lists::occupied` it is while it has members.
    entry: usize,
}

/// All lists of a scheduler, by operation. There are as many as the largest number of an operation that was asked for.
#[derive(Default)]
pub(super) struct Lists {
    waiting: Vec<List>,
    /// The lists that have members, the one that has had some for longest first.
    occupied: Vec<TeamList>,
    last_joined: Option<u16>,
    /// One for each list.
    operations: Vec<OperationStatistics>,
    /// Teams so far.
    teams: u64,
    /// How many of them before statistics began.
    teams_before: u64,
    /// Members that were ready when a team was formed, over these teams.
    ready_sum: u64,
}

impl Lists {
    /// Puts a member last in a list.
    ///
    /// # Safety
    /// The member exists and is in no ring, and it exists as long as it is in this one.
    pub unsafe fn join(&mut self, member: *mut Member, list: u16) {
        let number = usize::from(list);
        while self.waiting.len() <= number {
            self.operations.push(OperationStatistics {
                operation: self.waiting.len() as u16,
                ..Default::default()
            });
            self.waiting.push(List {
                ring: Ring::new(),
                entry: usize::MAX,
            });
        }
        let waiting = &mut self.waiting[number];
        // SAFETY: as the caller says.
        unsafe {
            (*member).list = list;
            (*member).place = Place::Waiting;
            waiting.ring.push_back(&raw mut (*member).node);
        }
        if waiting.ring.len() == 1 {
            waiting.entry = self.occupied.len();
            self.occupied.push(TeamList {
                operation: list,
                members: 1,
                since: self.teams,
            });
        } else {
            self.occupied[waiting.entry].members += 1;
        }
        self.last_joined = Some(list);
    }

    /// Moves members of a list to `running`, which is empty: the next team. `strays` others are ready. False if nobody waits.
    pub fn form(&mut self, next_team: NextTeam, size_max: usize, strays: usize, running: &mut Ring) -> bool {
        let choice = next_team.choose(&self.occupied, self.teams, self.last_joined);
        let Some(entry) = choice else { return false };
        let number = usize::from(self.occupied[entry].operation);
        let waiting: u64 = self.occupied.iter().map(|list| u64::from(list.members)).sum();
        self.ready_sum += waiting + strays as u64;
        self.teams += 1;
        let ring = &mut self.waiting[number].ring;
        let size = ring.len().min(size_max);
        for _ in 0..size {
            let node = ring.pop_front();
            // SAFETY: members in rings exist, and this one is in none now. Its node is its first field.
            unsafe {
                (*node.cast::<Member>()).place = Place::Running;
                running.push_back(node);
            }
        }
        if ring.len() == 0 {
            // In order, so that of lists that wait equally long the first comes first.
            self.occupied.remove(entry);
            for (place, moved) in self.occupied.iter().enumerate().skip(entry) {
                self.waiting[usize::from(moved.operation)].entry = place;
            }
        } else {
            self.occupied[entry].members -= size as u32;
            self.occupied[entry].since = self.teams;
        }
        let operation = &mut self.operations[number];
        operation.teams += 1;
        operation.in_ += size as u64;
        true
    }

    /// Counts a member that left its team after `switches` CTX calls. `finished`: at the end of its operation.
    pub fn left(&mut self, list: u16, finished: bool, switches: u64) {
        let operation = &mut self.operations[usize::from(list)];
        operation.out += u64::from(finished);
        operation.ctx_calls += switches;
    }

    /// Counts of every operation that had teams.
    pub fn statistics(&self) -> Vec<OperationStatistics> {
        let had = self.operations.iter().filter(|one| one.teams > 0);
        had.copied().collect()
    }

    /// Members that were ready when a team was formed, on average; 0 without teams.
    pub fn ready_average(&self) -> f64 {
        let teams = self.teams - self.teams_before;
        if teams == 0 {
            0.0
        } else {
            self.ready_sum as f64 / teams as f64
        }
    }

    /// Begins statistics anew.
    pub fn reset_statistics(&mut self) {
        for one in &mut self.operations {
            *one = OperationStatistics {
                operation: one.operation,
                ..Default::default()
            };
        }
        self.teams_before = self.teams;
        self.ready_sum = 0;
    }
}
