//! [`Reply`]: rows and descriptions as a server sent them.

/// Descriptions that are kept at most.
const DESCRIPTIONS_MAX: usize = 4;

/// What a server returns to a query of the proxy's own, as it came.
#[derive(Debug, Default)]
pub(in crate::core) struct Reply {
    /// Bodies of DataRow messages, one after the other.
    rows: Vec<u8>,
    /// Where each ends.
    ends: Vec<usize>,
    /// Bodies of RowDescription and ParameterDescription messages with their types, at most [`DESCRIPTIONS_MAX`].
    pub descriptions: Vec<(u8, Vec<u8>)>,
    /// Body of the first ErrorResponse.
    pub error: Option<Vec<u8>>,
    /// Memory for rows; with more it keeps none.
    pub limit: usize,
    /// It got more.
    pub overflowed: bool,
}

impl Reply {
    /// Keeps rows of up to so many bytes.
    pub fn new(limit: usize) -> Self {
        Self {
            limit,
            ..Self::default()
        }
    }

    /// Takes a description.
    pub fn describe(&mut self, tag: u8, body: &[u8]) {
        if self.descriptions.len() < DESCRIPTIONS_MAX {
            self.descriptions.push((tag, body.to_vec()));
        }
    }

    /// Takes a row.
    pub fn row(&mut self, body: &[u8]) {
        let taken = self.rows.len() + self.ends.len() * size_of::<usize>();
        if self.overflowed || taken + body.len() > self.limit {
            self.overflowed = true;
            self.rows = Vec::new();
            self.ends = Vec::new();
            return;
        }
        self.rows.extend(body);
        self.ends.push(self.rows.len());
    }

    /// The rows, in order.
    pub fn rows(&self) -> impl ExactSizeIterator<Item = &[u8]> {
        (0..self.ends.len()).map(|row| {
            let start = if row == 0 { 0 } else { self.ends[row - 1] };
            &self.rows[start..self.ends[row]]
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_beyond_the_limit_are_none() {
        let mut reply = Reply::new(64);
        reply.row(b"abc");
        reply.row(b"");
        reply.row(b"de");
        let rows: Vec<&[u8]> = reply.rows().collect();
        assert_eq!(rows, [&b"abc"[..], b"", b"de"]);
        reply.row(&[0; 64]);
        assert!(reply.overflowed);
        assert_eq!(reply.rows().len(), 0);
        reply.row(b"x");
        assert_eq!(reply.rows().len(), 0);
    }
}
