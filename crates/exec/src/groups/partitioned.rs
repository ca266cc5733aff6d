//! [`Partitioned`]: records by the high bits of their keys' hashes, in chunks.

use super::layout::Layout;
use crate::huge::OutOfMemory;
use crate::table::hash::partition;

/// Bytes of a partition's first chunk; each further one is twice as large.
const FIRST_CHUNK_BYTES: usize = 1 << 8;

/// Most bytes of a chunk. Measured: 16 KiB and 64 KiB are equally fast.
const CHUNK_BYTES_MAX: usize = 32 << 10;

/// Records by partition, and at most one record of the NULL key.
#[derive(Debug)]
pub struct Partitioned {
    record_words: usize,
    first_bit: u32,
    bits: u32,
    partitions: Vec<Partition>,
    pub(super) null_group: Option<Vec<u64>>,
    records: usize,
    bytes: usize,
}

/// Whole records of one partition.
#[derive(Debug, Default)]
struct Partition {
    full: Vec<Vec<u64>>,
    open: Vec<u64>,
}

impl Partition {
    /// Bytes of the next chunk, if its records are not larger.
    fn next_bytes(&self) -> usize {
        (self.open.capacity() * 8 * 2).clamp(FIRST_CHUNK_BYTES, CHUNK_BYTES_MAX)
    }

    /// Begins a chunk and returns its bytes.
    #[cold]
    fn renew(&mut self, record_words: usize) -> Result<usize, OutOfMemory> {
        let words = (self.next_bytes() / 8 / record_words).max(1) * record_words;
        let failed = |_| OutOfMemory { bytes: words * 8 };
        let mut chunk = Vec::new();
        chunk.try_reserve_exact(words).map_err(failed)?;
        self.full.try_reserve(1).map_err(failed)?;
        let chunk_bytes = chunk.capacity() * 8;
        let before = std::mem::replace(&mut self.open, chunk);
        if !before.is_empty() {
            self.full.push(before);
        }
        Ok(chunk_bytes)
    }

    fn chunks(&self) -> impl Iterator<Item = &Vec<u64>> {
        self.full
            .iter()
            .chain(Some(&self.open))
            .filter(|chunk| !chunk.is_empty())
    }
}

impl Partitioned {
    /// No records yet, for `1 << bits` partitions by the bits of the hash from `first_bit` on.
    pub(super) fn new(layout: &Layout, first_bit: u32, bits: u32) -> Result<Self, OutOfMemory> {
        let count = 1_usize << bits;
        let mut partitions = Vec::new();
        partitions.try_reserve_exact(count).map_err(|_| OutOfMemory {
            bytes: count * size_of::<Partition>(),
        })?;
        partitions.resize_with(count, Partition::default);
        Ok(Partitioned {
            record_words: layout.record_words(),
            first_bit,
            bits,
            partitions,
            null_group: None,
            records: 0,
            bytes: 0,
        })
    }

    /// Partitions, `1 << partition_bits`.
    pub fn partitions(&self) -> usize {
        self.partitions.len()
    }

    /// Records of all partitions, without that of the NULL key.
    pub fn len(&self) -> usize {
        self.records
    }

    /// No records but perhaps that of the NULL key?
    pub fn is_empty(&self) -> bool {
        self.records == 0
    }

    /// Allocated bytes of the records.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// The records of a partition, in chunks of whole records.
    ///
    /// # Panics
    /// When there is no such partition.
    pub fn records(&self, partition: usize) -> impl Iterator<Item = &[u64]> {
        self.partitions[partition].chunks().map(Vec::as_slice)
    }

    /// Takes the records of a partition out, in chunks of whole records: a consumer frees each when it is done with it.
    ///
    /// # Panics
    /// When there is no such partition.
    pub fn take(&mut self, partition: usize) -> Vec<Vec<u64>> {
        let taken = std::mem::take(&mut self.partitions[partition]);
        let mut chunks = taken.full;
        if !taken.open.is_empty() {
            chunks.push(taken.open);
        }
        self.records -= chunks.iter().map(Vec::len).sum::<usize>() / self.record_words;
        self.bytes -= chunks.iter().map(Vec::capacity).sum::<usize>() * 8;
        chunks
    }

    /// Puts records, in one chunk, where those of a partition were taken from.
    pub(super) fn put(&mut self, partition: usize, records: Vec<u64>) {
        self.records += records.len() / self.record_words;
        self.bytes += records.capacity() * 8;
        self.partitions[partition].open = records;
    }

    /// Records of the partition that has the most.
    pub(super) fn most_records(&self) -> usize {
        let words = self.partitions.iter().map(|partition| {
            let chunks = partition.chunks();
            chunks.map(Vec::len).sum::<usize>()
        });
        words.max().unwrap_or(0) / self.record_words
    }

    /// The record of the NULL key, if there was a row of it; its key words mean nothing. [`Layout::combine`] merges
    /// several.
    pub fn null_group(&self) -> Option<&[u64]> {
        self.null_group.as_deref()
    }

    /// Upper bound of the bytes that [`Partitioned::scatter`] of so many records allocates.
    pub(super) fn bytes_for(&self, records: usize) -> usize {
        // Chunks that are filled hold the records. The last chunk of a partition is the first one that is begun, or
        // at most twice as large as one that was filled.
        let first: usize = self.partitions.iter().map(Partition::next_bytes).sum();
        let record_bytes = self.record_words * 8;
        let largest = self.partitions.len().min(records).saturating_mul(record_bytes);
        records
            .saturating_mul(record_bytes)
            .saturating_mul(3)
            .saturating_add(first)
            .saturating_add(largest)
    }

    /// Appends `records` to the partitions of their `hashes`.
    pub(super) fn scatter(&mut self, records: &[u64], hashes: &[u64]) -> Result<(), OutOfMemory> {
        match self.record_words {
            1 => self.scatter_fixed::<1>(records, hashes),
            2 => self.scatter_fixed::<2>(records, hashes),
            3 => self.scatter_fixed::<3>(records, hashes),
            4 => self.scatter_fixed::<4>(records, hashes),
            5 => self.scatter_fixed::<5>(records, hashes),
            6 => self.scatter_fixed::<6>(records, hashes),
            7 => self.scatter_fixed::<7>(records, hashes),
            8 => self.scatter_fixed::<8>(records, hashes),
            words => self.scatter_all(records.chunks_exact(words), hashes),
        }
    }

    fn scatter_fixed<const WORDS: usize>(
        &mut self,
        records: &[u64],
        hashes: &[u64],
    ) -> Result<(), OutOfMemory> {
        self.scatter_all(records.as_chunks::<WORDS>().0.iter(), hashes)
    }

    #[inline(always)]
    fn scatter_all<R: AsRef<[u64]>>(
        &mut self,
        records: impl ExactSizeIterator<Item = R>,
        hashes: &[u64],
    ) -> Result<(), OutOfMemory> {
        debug_assert_eq!(records.len(), hashes.len());
        self.records += records.len();
        for (record, &hash) in records.zip(hashes) {
            let record = record.as_ref();
            let part = &mut self.partitions[partition(hash << self.first_bit, self.bits)];
            if part.open.capacity() - part.open.len() < record.len() {
                self.bytes += part.renew(self.record_words)?;
            }
            part.open.extend_from_slice(record);
        }
        Ok(())
    }
}
