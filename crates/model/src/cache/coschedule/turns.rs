//! Whose turn it is: owners of queries take turns by weight, before the policy chooses among the queries of one.
//!
//! Start-time fair queueing (Goyal, Vin, Cheng: SIGCOMM 1996, section 2) over starts instead of packets. Each owner has a tag, which grows by
//! `SCALE / weight` with each of its starts; the owner with the least tag is next. One that had nothing waiting goes on from the tag of the last
//! start: it neither saves turns up nor owes any. While one owner alone waits nothing of this is asked.

use super::query::Waiting;
use std::collections::BTreeMap;

/// What a tag grows by at weight 1.
const SCALE: u64 = 1 << 20;

/// How many turns an owner gets, compared with the others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Weight(u32);

impl Weight {
    /// The least weight.
    pub const MIN: u32 = 1;
    /// The greatest, so that the least still gets one turn in about a hundred.
    pub const MAX: u32 = 100;

    /// A weight; `None` if it is not between [`Weight::MIN`] and [`Weight::MAX`].
    pub fn new(weight: u32) -> Option<Self> {
        (Self::MIN..=Self::MAX).contains(&weight).then_some(Self(weight))
    }

    /// As a number.
    pub fn get(self) -> u32 {
        self.0
    }
}

impl Default for Weight {
    /// 10: others can have more and less.
    fn default() -> Self {
        Self(10)
    }
}

/// Whose a query is. Queries of hosts that know no owners are all of one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Owner {
    /// Which; the host chooses the numbers.
    pub id: u64,
    /// Its weight now; that of the query that starts counts.
    pub weight: Weight,
}

/// Whose queries may be started next.
#[derive(Clone, Copy, Debug)]
pub(super) enum Turn {
    /// One owner waits, or nobody.
    Anyone,
    Of(u64),
}

impl Turn {
    pub(super) fn has(self, waiting: &Waiting) -> bool {
        match self {
            Turn::Anyone => true,
            Turn::Of(id) => waiting.query.owner.id == id,
        }
    }
}

/// Tags of the owners.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Turns {
    /// Of those that are ahead of `now`; the others are at `now`.
    tags: BTreeMap<u64, u64>,
    /// The tag of the last start.
    now: u64,
}

impl Turns {
    fn tag(&self, id: u64) -> u64 {
        self.tags.get(&id).map_or(self.now, |tag| self.now.max(*tag))
    }

    /// Whose turn it is among those that wait, who stand in order of arrival: the least tag, of equal ones who came first.
    pub(super) fn next(&self, waiting: &[Waiting]) -> Turn {
        let first = waiting.first().map(|waiting| waiting.query.owner.id);
        if waiting
            .iter()
            .all(|waiting| Some(waiting.query.owner.id) == first)
        {
            return Turn::Anyone;
        }
        let next = waiting.iter().map(|waiting| waiting.query.owner.id);
        next.min_by_key(|id| self.tag(*id)).map_or(Turn::Anyone, Turn::Of)
    }

    /// A query of this owner starts.
    pub(super) fn started(&mut self, owner: Owner) {
        self.now = self.tag(owner.id);
        self.tags
            .insert(owner.id, self.now + SCALE / u64::from(owner.weight.get()));
        let now = self.now;
        self.tags.retain(|_, tag| *tag > now);
    }
}
