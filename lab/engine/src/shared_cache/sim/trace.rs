//! [`Trace`]: the accesses of one operator, recorded once, small enough to keep, and the same on every run and machine.
//!
//! ```text
//!   the process   [ rows ]  ......  [ table ]  ... [ output ]        wherever the allocator put them
//!                     │                 │              │
//!   the trace     1 * 2^40          2 * 2^40       3 * 2^40          region by region, from fixed addresses on
//! ```
//!
//! The calls: [`Recorder::region`] for every piece of memory the operator touches, hand it the events, [`Recorder::finish`]. An access
//! outside the regions is an error: what was touched is to be known. An event takes 8 bytes.
//!
//! Not here: the operators ([`super::operators`]).

use std::ops::Range;

use corun_cachesim::llc::Source;
use corun_model::operators::trace::{Access, Event, ThreadRole};
use corun_model::units::Bytes;

use super::error::SimError;

/// Addresses of a region begin at its number, from 1, times this.
const REGION_SHIFT: u32 = 40;
/// Most regions: an address has 48 bits.
const REGIONS_MAX: usize = 254;
/// Most events of a trace: 512 MiB of memory.
const EVENTS_MAX: usize = 64 << 20;

const ADDRESS_BITS: u32 = 48;
const BYTES_BITS: u32 = 12;

/// What a piece of memory is to the query.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// What it comes back to again and again: a hash table with its rows, the groups of an aggregation.
    Table,
    /// Shared data that is read in order. In the buffer pool.
    Scanned,
    /// Shared data of which a row here and a row there is read: an index, rows behind it. In the buffer pool.
    Sought,
    /// Small memory of its own that it uses for every row: batches between operators.
    State,
}

/// A piece of memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Region {
    /// What it is.
    pub role: Role,
    /// Its addresses in the trace.
    pub addresses: Range<u64>,
}

/// A recorded operator.
#[derive(Clone, Debug)]
pub struct Trace {
    regions: Vec<Region>,
    events: Vec<u64>,
    warm_up_events: u64,
}

impl Trace {
    /// The memory it touches.
    pub fn regions(&self) -> &[Region] {
        &self.regions
    }

    /// Events, warm-up included.
    pub fn events(&self) -> u64 {
        self.events.len() as u64
    }

    /// Events that only fill the caches.
    pub fn warm_up_events(&self) -> u64 {
        self.warm_up_events
    }

    /// Bytes of all regions of a role.
    pub fn bytes(&self, role: Role) -> Bytes {
        let of = self.regions.iter().filter(|region| region.role == role);
        Bytes(
            of.map(|region| region.addresses.end - region.addresses.start)
                .sum(),
        )
    }
}

impl Source for Trace {
    fn events(&self) -> Box<dyn Iterator<Item = Event> + '_> {
        Box::new(self.events.iter().map(|&packed| unpack(packed)))
    }
}

fn pack(access: Access, address: u64, bytes: u32) -> u64 {
    let access = match access {
        Access::Load => 0,
        Access::Store => 1,
        Access::Prefetch => 2,
    };
    address | u64::from(bytes) << ADDRESS_BITS | access << (ADDRESS_BITS + BYTES_BITS)
}

fn unpack(packed: u64) -> Event {
    let access = match packed >> (ADDRESS_BITS + BYTES_BITS) {
        0 => Access::Load,
        1 => Access::Store,
        _ => Access::Prefetch,
    };
    Event {
        role: ThreadRole::Worker(0),
        access,
        address: packed & ((1 << ADDRESS_BITS) - 1),
        bytes: (packed >> ADDRESS_BITS & ((1 << BYTES_BITS) - 1)) as u32,
    }
}

/// Takes events and makes a [`Trace`].
#[derive(Debug, Default)]
pub struct Recorder {
    /// Real addresses of each region.
    real: Vec<Range<u64>>,
    regions: Vec<Region>,
    events: Vec<u64>,
    warm_up_events: u64,
    /// The region of the last event: most often also that of the next.
    last: usize,
    /// The first thing that went wrong.
    error: Option<SimError>,
}

impl Recorder {
    /// Names a piece of memory of the process. An empty one is left out.
    pub fn region(&mut self, role: Role, real: Range<usize>) {
        if real.is_empty() {
            return;
        }
        if self.regions.len() == REGIONS_MAX {
            self.error
                .get_or_insert(SimError::Trace("touches too many regions"));
            return;
        }
        let begin = (self.regions.len() as u64 + 1) << REGION_SHIFT;
        // At the begin of a line, wherever the allocator put it: small differences there would change what shares a line.
        self.regions.push(Region {
            role,
            addresses: begin..begin + (real.end - real.start) as u64,
        });
        self.real.push(real.start as u64..real.end as u64);
    }

    /// The memory of a slice.
    pub fn slice<T>(&mut self, role: Role, slice: &[T]) {
        let range = slice.as_ptr_range();
        self.region(role, range.start as usize..range.end as usize);
    }

    /// The next event.
    #[inline]
    pub fn event(&mut self, event: Event) {
        if self
            .real
            .get(self.last)
            .is_none_or(|real| !real.contains(&event.address))
        {
            match self.real.iter().position(|real| real.contains(&event.address)) {
                Some(at) => self.last = at,
                None => {
                    self.error
                        .get_or_insert(SimError::Trace("touches memory that it has not named"));
                    return;
                }
            }
        }
        if self.events.len() == EVENTS_MAX || event.bytes >> BYTES_BITS != 0 {
            self.error.get_or_insert(SimError::Trace(
                "has too many accesses, or too large ones, to be kept",
            ));
            return;
        }
        let address = event.address - self.real[self.last].start + self.regions[self.last].addresses.start;
        self.events.push(pack(event.access, address, event.bytes));
    }

    /// A load by a plain loop.
    #[inline]
    pub fn load<T>(&mut self, value: &T, bytes: usize) {
        self.touch(Access::Load, value, bytes);
    }

    /// A load or store by a plain loop.
    #[inline]
    pub fn touch<T>(&mut self, access: Access, value: &T, bytes: usize) {
        self.event(Event {
            role: ThreadRole::Worker(0),
            access,
            address: std::ptr::from_ref(value) as usize as u64,
            bytes: bytes as u32,
        });
    }

    /// Everything so far only fills the caches.
    pub fn warmed_up(&mut self) {
        self.warm_up_events = self.events.len() as u64;
    }

    /// The trace.
    ///
    /// # Errors
    /// [`SimError::Trace`] if an access lay outside all regions, or there were too many.
    pub fn finish(self) -> Result<Trace, SimError> {
        match self.error {
            Some(error) => Err(error),
            None => Ok(Trace {
                regions: self.regions,
                events: self.events,
                warm_up_events: self.warm_up_events,
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_come_back_as_they_were_but_for_where_the_memory_lay() {
        let (table, rows) = (vec![0_u64; 100], vec![0_u32; 7]);
        let mut recorder = Recorder::default();
        recorder.slice(Role::Table, &table);
        recorder.slice(Role::Scanned, &rows);
        recorder.slice::<u8>(Role::State, &[]);
        recorder.load(&table[99], 8);
        recorder.warmed_up();
        recorder.touch(Access::Store, &rows[6], 4);
        recorder.touch(Access::Prefetch, &table[1], 1);
        let trace = recorder.finish().expect("all named");
        assert_eq!((trace.events(), trace.warm_up_events()), (3, 1));
        assert_eq!(
            (trace.bytes(Role::Table), trace.bytes(Role::State)),
            (Bytes(800), Bytes(0))
        );
        let [table, rows] = [0, 1].map(|at: usize| trace.regions()[at].addresses.start);
        assert_eq!([table >> 40, rows >> 40], [1, 2]);
        let events: Vec<_> = Source::events(&trace)
            .map(|event| (event.access, event.address, event.bytes))
            .collect();
        let expected = [
            (Access::Load, table + 99 * 8, 8),
            (Access::Store, rows + 24, 4),
            (Access::Prefetch, table + 8, 1),
        ];
        assert_eq!(events, expected);
    }

    #[test]
    fn an_access_that_nobody_named_is_an_error() {
        let (known, unknown) = (Box::new([0_u64; 8]), Box::new([0_u64; 8]));
        let mut recorder = Recorder::default();
        recorder.slice(Role::State, &known[..]);
        recorder.load(&known[7], 8);
        recorder.load(&unknown[3], 8);
        let error = recorder.finish().expect_err("unknown memory");
        assert!(error.to_string().contains("not named"), "{error}");
    }
}
