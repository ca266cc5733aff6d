//! [`TableProbe`]: the probe of a [`JoinTable`] by a key column, as a staged operator: pairs of RIDs a match.
//!
//! ```text
//!   begin      probe key, in order                       needs its line of the table
//!   phase 1    line: absent, one row, several, go on     output, or needs the list or the next line
//!   phase 2    list of a key with several rows           output
//! ```
//!
//! For each key it looks at the lines that [`JoinTable::probe`] looks at, so that a trace says what a join has to wait for; timed joins
//! call that, which compares whole lines at once. Beside [`super::TableJoin`] it leaves rows alone: what is come back to is the table,
//! and nothing else.

use super::rows::{PairSink, RidPair};
use super::{OperatorError, check_rows, load};
use crate::stage::{Context, Reference, Staged, Step};
use crate::table::{JoinTable, Looked};

/// Looks up a key column in a table.
#[derive(Clone, Copy, Debug)]
pub struct TableProbe<'a> {
    table: &'a JoinTable,
    keys: &'a [u32],
}

/// A probe between two phases.
#[derive(Clone, Copy, Debug, Default)]
pub struct TableProbeState {
    /// The line waited for, or the list.
    place: usize,
    tuple: u32,
    in_list: bool,
}

impl<'a> TableProbe<'a> {
    /// Probes `table` with every key, in order.
    ///
    /// # Errors
    /// [`OperatorError::TooManyRows`] when RIDs do not suffice.
    pub fn new(table: &'a JoinTable, keys: &'a [u32]) -> Result<Self, OperatorError> {
        check_rows(keys.len())?;
        Ok(TableProbe { table, keys })
    }

    #[inline(always)]
    fn look<C: Context<'a>>(&self, key: u32, line: usize, context: &mut C) -> Looked {
        let (memory, bytes) = self.table.step_memory(line);
        context.touch(
            corun_model::operators::trace::Access::Load,
            memory.address(),
            bytes,
        );
        self.table.step_look(u64::from(key), line)
    }

    #[inline(always)]
    fn emit_list<C: Context<'a>>(&self, outer: u32, list: u32, output: &mut PairSink<'a>, context: &mut C) {
        let (count, rows) = self.table.step_list(list);
        load(count, 4, context);
        for row in rows {
            let inner = *load(row, 4, context);
            output.push(RidPair { outer, inner }, context);
        }
    }
}

impl<'a> Staged<'a, 1> for TableProbe<'a> {
    type State = TableProbeState;
    type Output = PairSink<'a>;
    const REFERENCES_MIN: usize = 1;

    fn tuples(&self) -> usize {
        self.keys.len()
    }

    fn stages(&self) -> usize {
        1
    }

    #[inline(always)]
    fn begin<C: Context<'a>>(
        &self,
        tuple: usize,
        state: &mut TableProbeState,
        _: &mut PairSink<'a>,
        context: &mut C,
    ) {
        let key = *load(&self.keys[tuple], 4, context);
        *state = TableProbeState {
            place: self.table.step_first(u64::from(key)),
            tuple: tuple as u32,
            in_list: false,
        };
        context.need(self.table.step_memory(state.place).0);
    }

    #[inline(always)]
    fn resume<C: Context<'a>>(
        &self,
        state: &mut TableProbeState,
        output: &mut PairSink<'a>,
        context: &mut C,
    ) -> Step {
        let outer = state.tuple;
        if state.in_list {
            self.emit_list(outer, state.place as u32, output, context);
            return Step::Done;
        }
        let key = *load(&self.keys[outer as usize], 4, context);
        match self.look(key, state.place, context) {
            Looked::Absent => Step::Done,
            Looked::Row(inner) => {
                output.push(RidPair { outer, inner }, context);
                Step::Done
            }
            Looked::List(list) => {
                state.place = list as usize;
                state.in_list = true;
                context.need(Reference::to(self.table.step_list(list).0));
                Step::Wait
            }
            Looked::GoOn(line) => {
                state.place = line;
                context.need(self.table.step_memory(line).0);
                Step::Wait
            }
        }
    }

    #[inline(always)]
    fn plain<C: Context<'a>>(&self, tuple: usize, output: &mut PairSink<'a>, context: &mut C) {
        let key = *load(&self.keys[tuple], 4, context);
        let outer = tuple as u32;
        let mut line = self.table.step_first(u64::from(key));
        loop {
            match self.look(key, line, context) {
                Looked::Absent => return,
                Looked::Row(inner) => return output.push(RidPair { outer, inner }, context),
                Looked::List(list) => return self.emit_list(outer, list, output, context),
                Looked::GoOn(next) => line = next,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicBool;

    use corun_model::operators::mode::{Hiding, Mode, Schedule, Threads};

    use super::*;
    use crate::codes::{Chunk, Codes};
    use crate::stage::{Options, run};
    use crate::table::{BuildOptions, Kind, Pairs, ProbeCursor};
    use crate::workers::Serial;

    #[test]
    fn pairs_are_those_of_the_batch_probe_in_every_schedule() {
        let rows = if cfg!(miri) { 60 } else { 3000 };
        // Some keys twice, some three times, gaps between.
        let build: Vec<u32> = (0..rows).map(|row| row * 7 % (rows / 2) * 3).collect();
        let keys: Vec<u32> = (0..2 * rows).map(|at| at * 13 % (2 * rows)).collect();
        for force in [None, Some(Kind::Buckets32), Some(Kind::Buckets64)] {
            let chunk = Chunk {
                codes: Codes::U32 {
                    values: &build,
                    bias: 0,
                },
                valid: None,
                first_row: 0,
            };
            let options = BuildOptions {
                force,
                ..BuildOptions::default()
            };
            let table = JoinTable::build(&[chunk], &options, &Serial, &AtomicBool::new(false)).unwrap();
            let codes = Codes::U32 {
                values: &keys,
                bias: 0,
            };
            let (mut cursor, mut expected) = (ProbeCursor::default(), Pairs::default());
            while !table.probe(&codes, None, None, &mut cursor, 1 << 20, &mut expected) {}
            let expected: Vec<RidPair> = expected
                .probe
                .iter()
                .zip(&expected.build)
                .map(|(&outer, &inner)| RidPair { outer, inner })
                .collect();
            assert!(expected.len() > keys.len() / 4, "{} pairs", expected.len());
            let schedules = [Schedule::Group, Schedule::Pipeline, Schedule::Amac];
            let hidden = schedules.map(|schedule| {
                let distance = 8;
                Mode::staged(Threads::One, Hiding::Prefetch { schedule, distance })
            });
            for mode in hidden.into_iter().chain([Mode::PLAIN]) {
                let mut places = vec![RidPair::default(); expected.len()];
                let probe = TableProbe::new(&table, &keys).unwrap();
                let mut sinks = [PairSink::new(&mut places)];
                run(mode, &[&probe], &mut sinks, &Options::default()).unwrap();
                assert_eq!(sinks[0].finish(), Ok(expected.len()), "{mode}");
                // Tuples may overtake each other; the rows of one may not.
                places.sort_by_key(|pair| pair.outer);
                assert_eq!(places, expected, "{mode} {force:?}");
            }
        }
    }

    #[test]
    fn its_memory_is_where_it_looks() {
        use crate::stage::traced::trace;
        use corun_model::operators::trace::Event;
        let build: Vec<u32> = (0..500).map(|row| row / 2 * 5).collect();
        let chunk = Chunk {
            codes: Codes::U32 {
                values: &build,
                bias: 0,
            },
            valid: None,
            first_row: 0,
        };
        let table = JoinTable::build(
            &[chunk],
            &BuildOptions::default(),
            &Serial,
            &AtomicBool::new(false),
        )
        .unwrap();
        let mut places = vec![RidPair::default(); build.len() * 2];
        let inside = |range: std::ops::Range<*const u8>, event: &Event| {
            (range.start as u64..range.end as u64).contains(&event.address)
        };
        let bytes = |range: std::ops::Range<*const u32>| range.start.cast()..range.end.cast();
        let keys = bytes(build.as_ptr_range());
        let pairs = places.as_ptr_range();
        let pairs = pairs.start.cast()..pairs.end.cast();
        let (mut in_table, mut elsewhere) = (0, 0);
        let memory = table.memory();
        let probe = TableProbe::new(&table, &build).unwrap();
        trace(
            Mode::PLAIN,
            &[&probe],
            &mut [PairSink::new(&mut places)],
            0,
            &mut |event: Event| {
                if memory
                    .iter()
                    .any(|range| range.contains(&(event.address as usize)))
                {
                    in_table += 1;
                } else {
                    elsewhere += usize::from(!inside(keys.clone(), &event) && !inside(pairs.clone(), &event));
                }
            },
        )
        .unwrap();
        // A line or element, a count and two rows for each of 500 keys.
        assert_eq!((in_table, elsewhere), (500 * 4, 0));
    }
}
