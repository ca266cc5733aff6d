//! Building: survey, plan, scatter, fill, place; each a parallel pass over private data.
//!
//! ```text
//! chunks --survey--> counts, bounds, distinct estimate --plan--> kind, lines
//!        --scatter-> (key, row) by partition --fill--> index, counts --place--> duplicate lists
//! ```
//!
//! One thread with many rows that look unique fills lines directly instead, see [`super::direct`].
//!
//! A partition is a run of neighbouring buckets that fits a core's L2, so the random writes of filling stay in it
//! (radix-partitioned building: Manegold et al., TKDE 2002; Balkesen et al., ICDE 2013). Probes see one table.
//! Only the build is partitioned; partitioning the probe side too was rejected because it would materialise it.

use std::marker::PhantomData;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};

use corun_model::cache::reuse::Reuse;

use super::dense::build_unique;
use super::direct::Direct;
use super::fill::{Crowded, DensePart, Fill, Filled, LinePart, Lists, Part, Place};
use super::hash::{Mixer, partition};
use super::layout::{LIST_PIECE, Line, Line32, Line64, ROW_MAX, SEVERAL};
use super::plan::{self, BuildOptions, ESTIMATE_FROM_ROWS, Kind, SMALL_ROWS};
use super::scatter::{Scattered, scatter};
use super::simd::{Compare, Instructions, Isa, Portable, with_compare};
use super::survey::Survey;
use super::{BuildError, Index, JoinTable};
use crate::codes::{Chunk, Span, split};
use crate::huge::{HugeBuf, Plain, Unwritten};
use crate::workers::{Serial, Workers, collect};

/// Tries with different hashes before the last one, which accepts any crowding.
const ATTEMPTS: u32 = 3;

/// Lines a key may pass in all but the last try. Random keys at the planned load pass fewer than ten.
const PASSED_MAX: usize = 64;

/// Lines zeroed between two looks at the cancellation: 2 MiB, a huge page, whose first touch may take a millisecond and
/// more where a hypervisor has to find the memory.
const ZEROED_LINES: usize = 1 << 15;

/// Everything a build knows about its surroundings.
struct Site<'a> {
    chunks: &'a [Chunk<'a>],
    runs: Vec<Vec<Span>>,
    options: &'a BuildOptions,
    workers: &'a dyn Workers,
    cancel: &'a AtomicBool,
    isa: Isa,
}

/// What the surveys add up to.
struct Facts {
    rows: usize,
    min: u64,
    max: u64,
    distinct_estimate: usize,
    histograms: Vec<Vec<u32>>,
}

/// How lines are cut into partitions and filled.
struct Grid {
    /// Partitions, as a power of two.
    bits: u32,
    /// Without scattering; there is one partition then.
    direct: bool,
}

/// An index with its duplicate lists.
struct Built<T: Plain> {
    index: HugeBuf<T>,
    duplicates: HugeBuf<u32>,
    distinct: usize,
}

/// Builds a table; see [`JoinTable::build`].
pub(crate) fn build(
    chunks: &[Chunk<'_>],
    options: &BuildOptions,
    workers: &dyn Workers,
    cancel: &AtomicBool,
) -> Result<JoinTable, BuildError> {
    let total = check_rows(chunks)?;
    let workers = if total < SMALL_ROWS { &Serial } else { workers };
    let threads = workers.threads().max(1);
    let site = Site {
        chunks,
        runs: split(chunks, threads),
        options,
        workers,
        cancel,
        isa: Isa::within(options.instructions),
    };
    for attempt in 0..ATTEMPTS {
        let mixer = Mixer::new(options.seed, attempt);
        let bits = plan::partition_bits(total, threads, options);
        if let Ok(table) = site.attempt(mixer, bits, attempt > 0, PASSED_MAX)? {
            return Ok(table);
        }
    }
    // One partition with room for every row and no limit to passing cannot be crowded, however bad the keys.
    let last = site.attempt(Mixer::new(options.seed, ATTEMPTS), 0, true, usize::MAX - 1)?;
    Ok(last.unwrap_or_else(|Crowded| unreachable!("a partition with a slot for every row was full")))
}

/// The number of rows, if all row numbers can be stored.
fn check_rows(chunks: &[Chunk<'_>]) -> Result<usize, BuildError> {
    let mut total = 0_usize;
    for chunk in chunks {
        let rows = chunk.codes.len();
        if let Some(valid) = chunk.valid {
            assert_eq!(
                valid.len(),
                rows,
                "validity and codes of a chunk differ in length"
            );
        }
        total = total.saturating_add(rows);
        let end = u64::from(chunk.first_row) + rows as u64;
        if end > u64::from(ROW_MAX) + 1 {
            return Err(BuildError::TooManyRows { rows: end });
        }
    }
    if total > ROW_MAX as usize {
        Err(BuildError::TooManyRows { rows: total as u64 })
    } else {
        Ok(total)
    }
}

impl Site<'_> {
    fn check_cancelled(&self) -> Result<(), BuildError> {
        if self.cancel.load(Ordering::Relaxed) {
            Err(BuildError::Cancelled)
        } else {
            Ok(())
        }
    }

    /// The first pass.
    fn survey(&self, mixer: Mixer, bits: Option<u32>) -> Result<Facts, BuildError> {
        let rows: usize = self.chunks.iter().map(|chunk| chunk.codes.len()).sum();
        let estimate = rows >= ESTIMATE_FROM_ROWS;
        let surveys = collect(self.workers, self.runs.len(), |task| {
            Survey::take(self.chunks, &self.runs[task], mixer, bits, estimate, self.cancel)
        });
        self.check_cancelled()?;
        let mut facts = Facts {
            rows: 0,
            min: u64::MAX,
            max: 0,
            distinct_estimate: 0,
            histograms: Vec::new(),
        };
        let mut sketch = super::survey::Sketch::default();
        for survey in surveys {
            facts.rows += survey.rows;
            facts.min = facts.min.min(survey.min);
            facts.max = facts.max.max(survey.max);
            sketch.merge(&survey.sketch);
            facts.histograms.push(survey.histogram);
        }
        facts.distinct_estimate = match sketch.distinct() {
            _ if !estimate => facts.rows,
            (distinct, true) => distinct,
            (distinct, false) => plan::room_for(facts.rows, distinct),
        };
        Ok(facts)
    }

    /// One try with one hash. `by_rows`: make room for all rows instead of the estimated number of different keys.
    fn attempt(
        &self,
        mixer: Mixer,
        bits: u32,
        by_rows: bool,
        passed_max: usize,
    ) -> Result<Result<JoinTable, Crowded>, BuildError> {
        let total = self.chunks.iter().map(|chunk| chunk.codes.len()).sum();
        let direct = plan::is_direct(total, self.runs.len());
        // Filling directly needs no histograms.
        let facts = self.survey(mixer, (!direct).then_some(bits))?;
        if facts.rows == 0 {
            return Ok(Ok(JoinTable::empty()?));
        }
        let distinct = if by_rows {
            facts.rows
        } else {
            facts.distinct_estimate
        };
        let finish = |index, duplicates, distinct| JoinTable {
            id: super::next_id(),
            index,
            duplicates,
            members: None,
            mixer,
            isa: self.isa,
            bounds: Some((facts.min, facts.max)),
            rows: facts.rows,
            distinct,
            prefetch_from_bytes: self.options.prefetch_from_bytes,
            reuse: Reuse::Keep,
        };
        let kind = plan::kind(facts.rows, facts.min, facts.max, self.options);
        // Lines of 32-bit keys are filled faster by partitions: 15.5 against 18.8 CPU ns a row at 16 M rows.
        let direct =
            direct && kind == Kind::Buckets64 && plan::looks_unique(facts.rows, facts.distinct_estimate);
        let bits = if direct { 0 } else { bits };
        let grid = Grid { bits, direct };
        match kind {
            Kind::Dense => {
                let built = self.dense(&facts)?;
                let index = Index::Dense { values: built.index };
                Ok(Ok(finish(index, built.duplicates, built.distinct)))
            }
            Kind::Buckets32 => {
                let per_partition = plan::lines_per_partition::<Line32>(distinct, bits);
                let built = with_compare!(self.isa, C => {
                    self.lines::<Line32, C>(&facts, mixer, &grid, per_partition, passed_max)?
                });
                Ok(built.map(|built| {
                    let index = Index::Lines32 {
                        lines: built.index,
                        bits,
                    };
                    finish(index, built.duplicates, built.distinct)
                }))
            }
            Kind::Buckets64 => {
                let per_partition = plan::lines_per_partition::<Line64>(distinct, bits);
                let built = with_compare!(self.isa, C => {
                    self.lines::<Line64, C>(&facts, mixer, &grid, per_partition, passed_max)?
                });
                Ok(built.map(|built| {
                    let index = Index::Lines64 {
                        lines: built.index,
                        bits,
                    };
                    finish(index, built.duplicates, built.distinct)
                }))
            }
        }
    }

    /// Builds an index of lines.
    fn lines<L: Line, C: Compare<L>>(
        &self,
        facts: &Facts,
        mixer: Mixer,
        grid: &Grid,
        per_partition: usize,
        passed_max: usize,
    ) -> Result<Result<Built<L>, Crowded>, BuildError> {
        let (min, bits) = (facts.min, grid.bits);
        let shape = LineShape::<L, C> {
            per_partition,
            total: per_partition << bits,
            mixer,
            min,
            passed_max: passed_max.min(per_partition),
            line: PhantomData,
        };
        if grid.direct {
            return self.direct(&shape);
        }
        let place = |code| partition(mixer.mix(code), bits);
        let counted;
        let histograms = if facts
            .histograms
            .iter()
            .all(|histogram| histogram.len() == 1 << bits)
        {
            &facts.histograms
        } else {
            counted = self.histograms(1 << bits, place)?;
            &counted
        };
        let scattered = scatter(
            self.chunks,
            &self.runs,
            histograms,
            place,
            |code| L::key(code, min),
            self.workers,
            self.cancel,
        )?;
        self.fill(&scattered, &shape, shape.total)
    }

    /// Counts each run's rows of each partition.
    fn histograms(
        &self,
        partitions: usize,
        place: impl Fn(u64) -> usize + Sync,
    ) -> Result<Vec<Vec<u32>>, BuildError> {
        let histograms = collect(self.workers, self.runs.len(), |task| {
            let mut histogram = vec![0_u32; partitions];
            for span in &self.runs[task] {
                if self.cancel.load(Ordering::Relaxed) {
                    break;
                }
                self.chunks[span.chunk].for_each(span.start, span.end, |code, _| histogram[place(code)] += 1);
            }
            histogram
        });
        self.check_cancelled()?;
        Ok(histograms)
    }

    /// Builds an index of lines in one partition, without scattering.
    fn direct<L: Line, C: Compare<L>>(
        &self,
        shape: &LineShape<L, C>,
    ) -> Result<Result<Built<L>, Crowded>, BuildError> {
        let index = Unwritten::<L>::new(shape.total)?;
        for start in (0..shape.total).step_by(ZEROED_LINES) {
            self.check_cancelled()?;
            // SAFETY: inside the array, which nobody else uses; zero bytes are a line.
            unsafe { zeroed_slice(&index, start..shape.total.min(start + ZEROED_LINES)) };
        }
        // SAFETY: every line was zeroed above, and the array is used by nobody else.
        let lines = unsafe { std::slice::from_raw_parts_mut(index.as_ptr(), shape.total) };
        let fill = Direct {
            chunks: self.chunks,
            runs: &self.runs,
            part: shape.part(0, lines),
            entry: Filled::default(),
            cancel: self.cancel,
        };
        // SAFETY: the shape's instructions are those of `self.isa`, which was detected.
        let filled = unsafe { C::enter(fill) };
        self.check_cancelled()?;
        let Ok(filled) = filled else {
            return Ok(Err(Crowded));
        };
        // SAFETY: all lines were zeroed above.
        let mut index = unsafe { index.assume_written() };
        let duplicates = self.place(shape, &mut index, &[filled], |_, mut part, mut lists| {
            lists.assign(&mut part);
            let place = Direct {
                chunks: self.chunks,
                runs: &self.runs,
                part,
                entry: lists,
                cancel: self.cancel,
            };
            // SAFETY: the shape's instructions are those of `self.isa`, which was detected.
            let placed = unsafe { C::enter(place) };
            assert!(
                placed.is_ok() || self.cancel.load(Ordering::Relaxed),
                "the lines took these keys before"
            );
        })?;
        Ok(Ok(Built {
            index,
            duplicates,
            distinct: filled.distinct,
        }))
    }

    /// Builds a dense index. Its partitions are by offset, so the survey's histograms, by hash, do not serve.
    fn dense(&self, facts: &Facts) -> Result<Built<u32>, BuildError> {
        let min = facts.min;
        let slots = facts.max - min + 1;
        if plan::looks_unique(facts.rows, facts.distinct_estimate) {
            let far = slots as usize * 4 > self.options.l2_bytes / 2;
            let place = (min, slots as usize);
            if let Some(index) = build_unique(self.chunks, &self.runs, place, far, self.workers, self.cancel)?
            {
                return Ok(Built {
                    index,
                    duplicates: HugeBuf::zeroed(0)?,
                    distinct: facts.rows,
                });
            }
        }
        let shift = plan::dense_shift(facts.rows, slots, self.options);
        let partitions = ((slots - 1) >> shift) as usize + 1;
        let histograms = if partitions == 1 {
            let rows_of = |histogram: &Vec<u32>| vec![histogram.iter().sum::<u32>()];
            facts.histograms.iter().map(rows_of).collect()
        } else {
            self.histograms(partitions, |code| ((code - min) >> shift) as usize)?
        };
        let scattered = scatter(
            self.chunks,
            &self.runs,
            &histograms,
            |code| ((code - min) >> shift) as usize,
            |code| (code - min) as u32,
            self.workers,
            self.cancel,
        )?;
        // One more element, which stays 0, answers all codes out of range.
        let elements = slots as usize + 1;
        let built = self.fill(&scattered, &DenseShape { shift, elements }, elements)?;
        Ok(built.unwrap_or_else(|Crowded| unreachable!("every offset has its own element")))
    }

    /// The third and fourth pass: fills all partitions and writes their duplicate lists.
    fn fill<S: Shape>(
        &self,
        scattered: &Scattered<S::Key>,
        shape: &S,
        elements: usize,
    ) -> Result<Result<Built<S::Element>, Crowded>, BuildError> {
        let partitions = scattered.partitions();
        let index = Unwritten::<S::Element>::new(elements)?;
        let stop = AtomicBool::new(false);
        let filled = collect(self.workers, partitions, |number| {
            if stop.load(Ordering::Relaxed) || self.cancel.load(Ordering::Relaxed) {
                return Err(Crowded);
            }
            let (keys, rows) = scattered.partition(number);
            // SAFETY: the shapes' ranges are disjoint and inside the array, zero bytes are an element, and each
            // partition is one task's.
            let part = unsafe { zeroed_slice(&index, shape.range(number)) };
            // SAFETY: the shape's instructions are those of `self.isa`, which was detected.
            let filled = unsafe {
                S::Instructions::enter(Fill {
                    part: shape.part(number, part),
                    keys,
                    rows,
                })
            };
            if filled.is_err() {
                stop.store(true, Ordering::Relaxed);
            }
            filled
        });
        self.check_cancelled()?;
        let filled: Vec<Filled> = match filled.into_iter().collect() {
            Ok(filled) => filled,
            Err(Crowded) => return Ok(Err(Crowded)),
        };
        // SAFETY: the shapes' ranges cover the array, and every task zeroed its range.
        let mut index = unsafe { index.assume_written() };
        let distinct = filled.iter().map(|part| part.distinct).sum();
        let duplicates = self.place(shape, &mut index, &filled, |number, mut part, mut lists| {
            lists.assign(&mut part);
            let (keys, rows) = scattered.partition(number);
            let place = Place {
                part,
                keys,
                rows,
                lists,
            };
            // SAFETY: the shape's instructions are those of `self.isa`, which was detected.
            unsafe { S::Instructions::enter(place) };
        })?;
        Ok(Ok(Built {
            index,
            duplicates,
            distinct,
        }))
    }

    /// Makes room for the duplicate lists and lets `write` fill them, partition by partition.
    fn place<S: Shape>(
        &self,
        shape: &S,
        index: &mut HugeBuf<S::Element>,
        filled: &[Filled],
        write: impl Fn(usize, S::Part<'_>, Lists<'_>) + Sync,
    ) -> Result<HugeBuf<u32>, BuildError> {
        let mut starts = vec![0_usize];
        for part in filled {
            starts.push(starts[starts.len() - 1] + part.duplicates_length);
        }
        let total = starts[filled.len()];
        if total == 0 {
            return Ok(HugeBuf::zeroed(0)?);
        }
        if total > SEVERAL as usize {
            return Err(BuildError::TooManyRows { rows: total as u64 });
        }
        let lists = Unwritten::<u32>::new(total + LIST_PIECE)?;
        // SAFETY: the last elements, after all tasks' ranges.
        unsafe { lists.as_ptr().add(total).write_bytes(0, LIST_PIECE) };
        let index = Shared(index.as_mut_ptr());
        self.workers.run(filled.len(), &|number| {
            if filled[number].duplicates_length == 0 || self.cancel.load(Ordering::Relaxed) {
                return;
            }
            let range = shape.range(number);
            // SAFETY: ranges of both arrays are disjoint between tasks, each number is run once, the index is written
            // and borrowed mutably for this whole function, and zero bytes are a `u32`.
            let (part, lists) = unsafe {
                let part = std::slice::from_raw_parts_mut(index.get().add(range.start), range.len());
                (part, zeroed_slice(&lists, starts[number]..starts[number + 1]))
            };
            let first = starts[number] as u32;
            write(number, shape.part(number, part), Lists { lists, first });
        });
        self.check_cancelled()?;
        // SAFETY: the tasks' ranges cover the array but for its end, written above, and every task wrote its range.
        Ok(unsafe { lists.assume_written() })
    }
}

/// A pointer that tasks share because each works on its own part of what it points to.
struct Shared<T>(*mut T);

// SAFETY: used for disjoint ranges only, see `Site::place`; `T: Plain` is `Send` and `Sync`.
unsafe impl<T: Plain> Sync for Shared<T> {}

impl<T> Shared<T> {
    /// A method, so that closures capture the whole wrapper.
    fn get(&self) -> *mut T {
        self.0
    }
}

/// Zeroes a range and returns it.
///
/// # Safety
/// The range must lie inside the memory and be used by nobody else while the slice lives.
#[allow(clippy::mut_from_ref)]
unsafe fn zeroed_slice<T: Plain>(memory: &Unwritten<T>, range: Range<usize>) -> &mut [T] {
    // SAFETY: in range and unshared by the caller's promise; zero bytes are a valid `T` (`Plain`).
    unsafe {
        let first = memory.as_ptr().add(range.start);
        first.write_bytes(0, range.len());
        std::slice::from_raw_parts_mut(first, range.len())
    }
}

/// How an index's array is cut into partitions.
trait Shape: Sync {
    /// Elements of the array.
    type Element: Plain;

    /// What is scattered of a code.
    type Key: Plain;

    /// A partition being filled.
    type Part<'a>: Part<Key = Self::Key>;

    /// What filling is compiled with.
    type Instructions: Instructions;

    /// The elements of a partition. Ranges of different numbers are disjoint and together cover the array.
    fn range(&self, number: usize) -> Range<usize>;

    /// The partition in these elements.
    fn part<'a>(&self, number: usize, elements: &'a mut [Self::Element]) -> Self::Part<'a>;
}

/// Partitions of `1 << shift` elements; the last one ends where the array does.
struct DenseShape {
    shift: u32,
    elements: usize,
}

impl Shape for DenseShape {
    type Element = u32;
    type Key = u32;
    type Part<'a> = DensePart<'a>;
    type Instructions = Portable;

    fn range(&self, number: usize) -> Range<usize> {
        let start = number << self.shift;
        let end = start + (1 << self.shift);
        // The element for codes out of range may stand alone after the last partition; it then belongs to that one.
        start..if end + 1 >= self.elements {
            self.elements
        } else {
            end
        }
    }

    fn part<'a>(&self, number: usize, values: &'a mut [u32]) -> DensePart<'a> {
        DensePart {
            values,
            first: (number << self.shift) as u32,
        }
    }
}

/// Partitions of equally many lines.
struct LineShape<L, C> {
    per_partition: usize,
    total: usize,
    mixer: Mixer,
    min: u64,
    passed_max: usize,
    line: PhantomData<(L, C)>,
}

impl<L: Line, C: Compare<L>> Shape for LineShape<L, C> {
    type Element = L;
    type Key = L::Key;
    type Part<'a> = LinePart<'a, L, C>;
    type Instructions = C;

    fn range(&self, number: usize) -> Range<usize> {
        number * self.per_partition..(number + 1) * self.per_partition
    }

    fn part<'a>(&self, number: usize, lines: &'a mut [L]) -> LinePart<'a, L, C> {
        LinePart {
            lines,
            first: number * self.per_partition,
            total: self.total,
            mixer: self.mixer,
            min: self.min,
            passed_max: self.passed_max,
            compare: PhantomData,
        }
    }
}
