//! Bytes on their way to one connection: gathered during an event, or refused by the kernel.
//!
//! A connection has a buffer only while something is in it; the buffers come from a small stock.

use std::io::{self, IoSlice};
use std::os::fd::BorrowedFd;

use socket2::SockRef;

/// From here on a piece is written at once, from the caller's memory. Unmeasured.
pub(super) const DIRECT_BYTES: usize = 4 * 1024;

/// More than this is not gathered; it bounds what [`super::Reactor::queued`] does not count.
pub(super) const GATHERED_BYTES_MAX: usize = 64 * 1024;

/// Bytes of one send where the kernel's buffers were made so small. It puts a larger piece into one segment, whatever its buffer, and the
/// other side acknowledges a single segment 40 ms later.
pub(super) fn piece(buffer_bytes: Option<usize>) -> usize {
    buffer_bytes.map_or(usize::MAX, |bytes| bytes.max(PIECE_BYTES_MIN))
}

/// Smaller pieces would only cost more system calls.
const PIECE_BYTES_MIN: usize = 2 * 1024;

/// Buffers kept for the next connection, and the largest of them.
const SPARE_BUFFERS_MAX: usize = 32;
const SPARE_BYTES_MAX: usize = GATHERED_BYTES_MAX;

/// Output of one connection; `buffer[start..]` is still to be written.
#[derive(Debug, Default)]
pub(super) struct Output {
    buffer: Vec<u8>,
    start: usize,
}

/// Empty buffers.
#[derive(Debug, Default)]
pub(super) struct Spare(Vec<Vec<u8>>);

impl Output {
    pub(super) fn len(&self) -> usize {
        self.buffer.len() - self.start
    }

    pub(super) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.buffer[self.start..]
    }

    pub(super) fn push(&mut self, bytes: &[u8], spare: &mut Spare) {
        if self.buffer.capacity() == 0 {
            self.buffer = spare.0.pop().unwrap_or_default();
        }
        // Room at the front is used before more memory is asked for, when that moves less than it gains.
        if self.start > 0
            && self.buffer.len() + bytes.len() > self.buffer.capacity()
            && self.start >= self.len()
        {
            self.buffer.drain(..self.start);
            self.start = 0;
        }
        self.buffer.extend_from_slice(bytes);
    }

    /// Forgets bytes that were written; the buffer goes back when nothing is left.
    pub(super) fn consume(&mut self, count: usize, spare: &mut Spare) {
        self.start += count;
        debug_assert!(self.start <= self.buffer.len());
        if self.start >= self.buffer.len() {
            self.clear(spare);
        }
    }

    pub(super) fn clear(&mut self, spare: &mut Spare) {
        self.start = 0;
        spare.give(std::mem::take(&mut self.buffer));
    }

    /// Everything, as a buffer of its own.
    pub(super) fn take(&mut self) -> Vec<u8> {
        self.buffer.drain(..self.start);
        self.start = 0;
        std::mem::take(&mut self.buffer)
    }

    /// Writes what is queued and then `more`, `piece` bytes at a time, until the kernel takes no more; what it refuses of `more` is
    /// queued. Empty afterwards, or the kernel is full.
    ///
    /// # Errors
    /// When the connection is broken.
    pub(super) fn write(
        &mut self,
        to: BorrowedFd<'_>,
        mut more: &[u8],
        piece: usize,
        spare: &mut Spare,
    ) -> io::Result<()> {
        let socket = SockRef::from(&to);
        let flags = libc::MSG_NOSIGNAL | libc::MSG_DONTWAIT;
        while !self.is_empty() || !more.is_empty() {
            let result = if self.is_empty() {
                socket.send_with_flags(&more[..more.len().min(piece)], flags)
            } else if more.is_empty() || self.len() + more.len() > piece {
                socket.send_with_flags(&self.bytes()[..self.len().min(piece)], flags)
            } else {
                let pieces = [IoSlice::new(self.bytes()), IoSlice::new(more)];
                socket.send_vectored_with_flags(&pieces, flags)
            };
            match result {
                Ok(written) => {
                    let queued = written.min(self.len());
                    if queued > 0 {
                        self.consume(queued, spare);
                    }
                    more = &more[written - queued..];
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    if !more.is_empty() {
                        self.push(more, spare);
                    }
                    return Ok(());
                }
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

impl Spare {
    /// Keeps a buffer for later, or lets go of it.
    pub(super) fn give(&mut self, mut buffer: Vec<u8>) {
        if (1..=SPARE_BYTES_MAX).contains(&buffer.capacity()) && self.0.len() < SPARE_BUFFERS_MAX {
            buffer.clear();
            self.0.push(buffer);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_leave_in_the_order_they_came_and_buffers_are_used_again() {
        let mut spare = Spare::default();
        let mut output = Output::default();
        let mut expected = Vec::new();
        let mut left = Vec::new();
        for round in 0..200u32 {
            let piece: Vec<u8> = (0..round * 7 % 301).map(|byte| (byte + round) as u8).collect();
            output.push(&piece, &mut spare);
            expected.extend_from_slice(&piece);
            let count = output.len().min((round * 13 % 257) as usize);
            left.extend_from_slice(&output.bytes()[..count]);
            output.consume(count, &mut spare);
        }
        left.extend_from_slice(output.bytes());
        assert_eq!(left, expected);
        output.consume(output.len(), &mut spare);
        assert_eq!((output.buffer.capacity(), spare.0.len()), (0, 1));
        output.push(&vec![1; SPARE_BYTES_MAX + 1], &mut spare);
        assert_eq!(spare.0.len(), 0);
        output.clear(&mut spare);
        assert_eq!(spare.0.len(), 0, "a large buffer is given back to the allocator");
    }
}
