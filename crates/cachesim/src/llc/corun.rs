//! The simulation itself: cores take turns by their clocks.
//!
//! Not here: checks. What arrives has passed those of [`Domain`].

use std::ops::Range;

use corun_model::operators::trace::{Access, Event};

use super::colours::Colouring;
use super::stream::{AtEnd, Overlap, Stream, Treatment};
use super::{Domain, LevelCounts, LlcError, Run};
use crate::cache::{SetAssociative, WayMask};

/// Runs checked streams on a checked domain.
pub(super) fn run(domain: &Domain, streams: &[Stream<'_>]) -> Result<Vec<Run>, LlcError> {
    let timing = Timing::of(domain);
    let mut shared = SetAssociative::with_replacement(domain.llc, domain.replacement);
    let mut cores: Vec<Core<'_>> = streams.iter().map(|stream| Core::new(domain, stream)).collect();
    let mut first_rounds_left = cores.len();
    while first_rounds_left > 0 {
        // Of equal clocks the lowest number. Some core is not idle: one that has not ended its first round never is.
        let mut next = None;
        let mut least_ns = f64::INFINITY;
        for (at, core) in cores.iter().enumerate() {
            if core.clock_ns < least_ns {
                (next, least_ns) = (Some(at), core.clock_ns);
            }
        }
        let Some(at) = next else {
            break;
        };
        let core = &mut cores[at];
        if let Some(event) = core.events.next() {
            core.event(&event, &timing, &mut shared);
            continue;
        }
        if core.run.is_none() {
            core.run = Some(core.counted().ok_or(LlcError::Nothing(at))?);
            first_rounds_left -= 1;
        }
        // A round that took no time would be restarted for ever, and no other stream would get a turn.
        if core.stream.at_end == AtEnd::Restart && core.clock_ns > core.round_from_ns {
            core.round_from_ns = core.clock_ns;
            core.events = core.stream.source.events();
        } else {
            core.clock_ns = f64::INFINITY;
        }
    }
    Ok(cores.into_iter().filter_map(|core| core.run).collect())
}

/// How long accesses take, in nanoseconds, by the number of levels that missed.
struct Timing {
    waited_ns: Vec<f64>,
    overlapped_ns: Vec<f64>,
    /// Lines of the level nearest to the core: what an access is cut into.
    line_bytes: u64,
}

impl Timing {
    fn of(domain: &Domain) -> Self {
        let waited_ns: Vec<f64> = domain
            .private
            .iter()
            .map(|level| level.latency_ns)
            .chain([domain.llc_ns, domain.memory_ns])
            .collect();
        let nearest = domain.private.first().map_or(domain.llc, |level| level.geometry);
        Self {
            overlapped_ns: waited_ns.iter().map(|ns| ns / domain.parallelism).collect(),
            waited_ns,
            line_bytes: nearest.line().0,
        }
    }
}

/// A core and its stream.
struct Core<'a> {
    // Fixed.
    stream: &'a Stream<'a>,
    fill: Option<WayMask>,
    line_shift: u32,
    /// The address space, where it stands in a tag.
    space_tag: u64,
    rest: Placed,
    /// By address.
    objects: Vec<(Range<u64>, Placed)>,
    // Changing.
    events: Box<dyn Iterator<Item = Event> + 'a>,
    private: Vec<SetAssociative>,
    /// Infinite when the core is idle for good.
    clock_ns: f64,
    /// When the round began.
    round_from_ns: f64,
    warm_up_left: u64,
    /// When the warm-up was over.
    counted_from_ns: f64,
    counts: Vec<LevelCounts>,
    /// The first round's outcome, once there is one.
    run: Option<Run>,
}

/// A treatment made ready.
struct Placed {
    colouring: Option<Colouring>,
    overlap: Overlap,
}

impl Placed {
    fn new(domain: &Domain, treatment: Treatment) -> Self {
        Self {
            colouring: treatment.colours.and_then(|mask| domain.colouring(mask)),
            overlap: treatment.overlap,
        }
    }
}

impl<'a> Core<'a> {
    fn new(domain: &Domain, stream: &'a Stream<'a>) -> Self {
        let line_shift = domain.llc.line().0.trailing_zeros();
        let mut objects: Vec<_> = stream
            .objects
            .iter()
            // An empty object has no line, and would hide one that begins at its address.
            .filter(|object| !object.addresses.is_empty())
            .map(|object| (object.addresses.clone(), Placed::new(domain, object.treatment)))
            .collect();
        objects.sort_by_key(|(addresses, _)| addresses.start);
        Self {
            stream,
            fill: stream.ways,
            line_shift,
            space_tag: u64::from(stream.space) << (u64::BITS - line_shift),
            rest: Placed::new(domain, stream.rest),
            objects,
            events: stream.source.events(),
            private: domain
                .private
                .iter()
                .map(|level| SetAssociative::new(level.geometry))
                .collect(),
            clock_ns: 0.0,
            round_from_ns: 0.0,
            warm_up_left: stream.warm_up_events,
            counted_from_ns: 0.0,
            counts: vec![LevelCounts::default(); domain.private.len() + 1],
            run: None,
        }
    }

    /// What the round that just ended did; `None` if that took no time.
    fn counted(&self) -> Option<Run> {
        let time_ns = self.clock_ns - self.counted_from_ns;
        (self.warm_up_left == 0 && time_ns > 0.0).then(|| Run {
            time_ns,
            levels: self.counts.clone(),
        })
    }

    /// One access. One of zero bytes touches nothing and takes no time; one past the end of the address space ends there.
    fn event(&mut self, event: &Event, timing: &Timing, shared: &mut SetAssociative) {
        if event.bytes > 0 {
            self.clock_ns += self.stream.work_ns;
            let last = event.address.saturating_add(u64::from(event.bytes) - 1);
            let mut address = event.address;
            loop {
                self.clock_ns += self.line(event.access, address, timing, shared);
                // The last byte of this line; the next line starts behind it.
                let end = address | (timing.line_bytes - 1);
                if end >= last {
                    break;
                }
                address = end + 1;
            }
        }
        if self.warm_up_left > 0 {
            self.warm_up_left -= 1;
            self.counted_from_ns = self.clock_ns;
            if self.warm_up_left == 0 {
                self.counts.fill(LevelCounts::default());
            }
        }
    }

    /// One access within one line of the nearest level: how long it takes, in nanoseconds.
    #[inline]
    fn line(&mut self, access: Access, address: u64, timing: &Timing, shared: &mut SetAssociative) -> f64 {
        let line = address >> self.line_shift;
        let first_byte = line << self.line_shift;
        let behind = self
            .objects
            .partition_point(|(addresses, _)| addresses.start <= first_byte);
        let placed = match self.objects[..behind].last() {
            Some((addresses, placed)) if first_byte < addresses.end => placed,
            _ => &self.rest,
        };
        let prefetch = access == Access::Prefetch;
        let mut missed = 0;
        for cache in &mut self.private {
            if self.counts[missed].count(prefetch, cache.access(address)) {
                break;
            }
            missed += 1;
        }
        if missed == self.private.len() {
            let set = match &placed.colouring {
                None => shared.set_of(line),
                Some(colouring) => colouring.set_of(line),
            };
            let hit = shared.access_in_set(set, line | self.space_tag, self.fill);
            missed += usize::from(!self.counts[missed].count(prefetch, hit));
        }
        match (access, placed.overlap) {
            (Access::Load, Overlap::Dependent) => timing.waited_ns[missed],
            _ => timing.overlapped_ns[missed],
        }
    }
}

impl LevelCounts {
    /// Counts one look-up; gives back whether it hit.
    #[inline]
    fn count(&mut self, prefetch: bool, hit: bool) -> bool {
        if prefetch {
            self.prefetched += u64::from(!hit);
        } else {
            self.accesses += 1;
            self.misses += u64::from(!hit);
        }
        hit
    }
}
