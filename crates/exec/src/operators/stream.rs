//! [`Stream`]: in which order the rows of the probe side come.
//!
//! A clustered stream is rows in the order of memory, which the hardware prefetches by itself; an unclustered one is RIDs in
//! any order, each a miss (paper 000, section 5).

use corun_model::operators::trace::Access;

use super::{OperatorError, check_rows};
use crate::stage::Context;

/// The RIDs of a probe side of a known number of rows, in some order.
#[derive(Clone, Copy, Debug)]
pub struct Stream<'a> {
    rows: usize,
    /// `None`: all rows in order.
    order: Option<&'a [u32]>,
}

impl<'a> Stream<'a> {
    /// Rows `0..rows` in order.
    ///
    /// # Errors
    /// [`OperatorError::TooManyRows`] when RIDs do not suffice.
    pub fn clustered(rows: usize) -> Result<Self, OperatorError> {
        check_rows(rows)?;
        Ok(Stream { rows, order: None })
    }

    /// These rows of `rows` in this order; some may come twice or never.
    ///
    /// # Errors
    /// [`OperatorError::RidOutOfRange`] names the first RID that is not below `rows`;
    /// [`OperatorError::TooManyRows`] when RIDs do not suffice.
    pub fn unclustered(order: &'a [u32], rows: usize) -> Result<Self, OperatorError> {
        check_rows(rows)?;
        if let Some(position) = order.iter().position(|&rid| rid as usize >= rows) {
            return Err(OperatorError::RidOutOfRange {
                position,
                rid: order[position],
                rows,
            });
        }
        Ok(Stream {
            rows,
            order: Some(order),
        })
    }

    /// Tuples of the stream.
    pub fn tuples(&self) -> usize {
        self.order.map_or(self.rows, <[u32]>::len)
    }

    /// Rows the RIDs refer to.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// The RID of a tuple, below [`Stream::rows`].
    ///
    /// # Panics
    /// When `tuple` is out of range of an unclustered stream.
    #[inline(always)]
    pub fn rid<C: Context<'a>>(&self, tuple: usize, context: &mut C) -> u32 {
        match self.order {
            None => tuple as u32,
            Some(order) => {
                let rid = &order[tuple];
                context.touch(Access::Load, std::ptr::from_ref(rid).cast(), size_of::<u32>());
                *rid
            }
        }
    }

    /// Checks that the stream was made for a probe side of this many rows.
    pub(crate) fn check(&self, rows: usize) -> Result<(), OperatorError> {
        if self.rows != rows {
            return Err(OperatorError::StreamOfOtherRows {
                stream: self.rows,
                rows,
            });
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stage::Quiet;

    #[test]
    fn rids_are_checked_once() {
        let order = [2, 0, 3, 2];
        let stream = Stream::unclustered(&order, 4).unwrap();
        assert_eq!((stream.tuples(), stream.rows()), (4, 4));
        assert_eq!(stream.rid(2, &mut Quiet), 3);
        assert_eq!(
            Stream::unclustered(&order, 3).unwrap_err(),
            OperatorError::RidOutOfRange {
                position: 2,
                rid: 3,
                rows: 3
            }
        );
        assert_eq!(
            stream.check(5),
            Err(OperatorError::StreamOfOtherRows { stream: 4, rows: 5 })
        );
    }

    #[test]
    fn a_clustered_stream_is_every_row() {
        let stream = Stream::clustered(3).unwrap();
        let rids: Vec<u32> = (0..stream.tuples())
            .map(|tuple| stream.rid(tuple, &mut Quiet))
            .collect();
        assert_eq!(rids, [0, 1, 2]);
        assert!(Stream::clustered(usize::MAX).is_err());
    }
}
