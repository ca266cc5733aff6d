//! Traces in files: one [`Event`] a line, as JSON, so that an operator's accesses can be kept and replayed.
//!
//! ```text
//! {"role":{"worker":0},"access":"load","address":140737488347136,"bytes":64}
//! {"role":"helper","access":"prefetch","address":4096,"bytes":8}
//! ```
//!
//! [`fn@write`] them, [`read`] them. Addresses are those of the process that was traced and mean nothing outside it but which bytes
//! lie together.
//!
//! Not here: a compact format. Traces of many millions of accesses are better simulated while they arise ([`crate::Hierarchy::sink`]).

use std::io::{self, BufRead, Read, Write};

use corun_model::operators::trace::Event;

/// Longest line taken, in bytes. An event is about 90 long; a file without line ends must not be read into memory whole.
const LINE_BYTES_MAX: usize = 4096;

/// A trace that cannot be read. Lines count from 1.
#[derive(Debug, thiserror::Error)]
pub enum TraceError {
    /// The source failed.
    #[error("line {line} of the trace cannot be read: {source}")]
    Io {
        /// Which line.
        line: u64,
        /// What the system said.
        source: io::Error,
    },
    /// The line is not an event.
    #[error("line {line} of the trace is not an access event: {source}")]
    Parse {
        /// Which line.
        line: u64,
        /// What the parser said.
        source: serde_json::Error,
    },
    /// The line does not end.
    #[error("line {line} of the trace is longer than {LINE_BYTES_MAX} bytes")]
    TooLong {
        /// Which line.
        line: u64,
    },
}

/// Writes events, one a line. Hand in something buffered, and flush it.
///
/// # Errors
/// Those of `writer`.
pub fn write<'a>(mut writer: impl Write, events: impl IntoIterator<Item = &'a Event>) -> io::Result<()> {
    for event in events {
        serde_json::to_writer(&mut writer, event)?;
        writer.write_all(b"\n")?;
    }
    Ok(())
}

/// Reads events until the source ends or a line is wrong. Every line is one event; an empty one is an error.
pub fn read<R: BufRead>(reader: R) -> Reader<R> {
    Reader {
        reader,
        buffer: Vec::new(),
        line: 0,
        ended: false,
    }
}

/// The iterator of [`read`]. After an error it ends.
#[derive(Debug)]
pub struct Reader<R> {
    reader: R,
    buffer: Vec<u8>,
    line: u64,
    ended: bool,
}

impl<R: BufRead> Reader<R> {
    fn next_event(&mut self) -> Result<Option<Event>, TraceError> {
        self.line += 1;
        let line = self.line;
        self.buffer.clear();
        let read = self
            .reader
            .by_ref()
            // One byte more than is allowed tells a line that is too long from one that just fits.
            .take(LINE_BYTES_MAX as u64 + 1)
            .read_until(b'\n', &mut self.buffer)
            .map_err(|source| TraceError::Io { line, source })?;
        if read == 0 {
            return Ok(None);
        }
        if read > LINE_BYTES_MAX {
            return Err(TraceError::TooLong { line });
        }
        serde_json::from_slice(&self.buffer)
            .map(Some)
            .map_err(|source| TraceError::Parse { line, source })
    }
}

impl<R: BufRead> Iterator for Reader<R> {
    type Item = Result<Event, TraceError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.ended {
            return None;
        }
        let next = self.next_event().transpose();
        self.ended = !matches!(next, Some(Ok(_)));
        next
    }
}

#[cfg(test)]
mod tests {
    use corun_model::operators::trace::{Access, ThreadRole};

    use super::*;

    const LINES: &str = concat!(
        r#"{"role":{"worker":3},"access":"store","address":18446744073709551615,"bytes":64}"#,
        "\n",
        r#"{"role":"helper","access":"prefetch","address":4096,"bytes":8}"#,
        "\n"
    );

    fn events() -> [Event; 2] {
        [
            Event {
                role: ThreadRole::Worker(3),
                access: Access::Store,
                address: u64::MAX,
                bytes: 64,
            },
            Event {
                role: ThreadRole::Helper,
                access: Access::Prefetch,
                address: 4096,
                bytes: 8,
            },
        ]
    }

    #[test]
    fn what_is_written_is_read_back() {
        let mut file = Vec::new();
        write(&mut file, &events()).unwrap();
        assert_eq!(String::from_utf8(file).unwrap(), LINES);
        let back: Vec<Event> = read(LINES.as_bytes()).map(Result::unwrap).collect();
        assert_eq!(back, events());
        // The last line end may be missing.
        assert_eq!(read(LINES.trim_end().as_bytes()).count(), 2);
    }

    #[test]
    fn errors_name_the_line_and_end_the_trace() {
        for bad in [
            "",
            "{}",
            r#"{"role":"helper","access":"load","address":-1,"bytes":8}"#,
            "x",
        ] {
            let text = format!("{LINES}{bad}\n{LINES}");
            let all: Vec<_> = read(text.as_bytes()).collect();
            assert_eq!(all.len(), 3, "{bad}");
            match &all[2] {
                Err(error @ TraceError::Parse { line: 3, .. }) => {
                    assert!(
                        error
                            .to_string()
                            .starts_with("line 3 of the trace is not an access event")
                    );
                }
                other => panic!("{other:?} for {bad}"),
            }
        }
    }

    #[test]
    fn a_line_without_end_is_not_swallowed() {
        let mut all = read(io::BufReader::new(io::repeat(b' ').take(1 << 40)));
        assert!(matches!(all.next(), Some(Err(TraceError::TooLong { line: 1 }))));
        assert!(all.next().is_none());
    }

    #[test]
    fn a_failing_source_is_told_with_its_line() {
        struct Fails;
        impl Read for Fails {
            fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
                Err(io::Error::other("gone"))
            }
        }
        let mut all = read(io::BufReader::new(LINES.as_bytes().chain(Fails)));
        assert!(all.by_ref().take(2).all(|event| event.is_ok()));
        assert!(matches!(all.next(), Some(Err(TraceError::Io { line: 3, .. }))));
    }
}
