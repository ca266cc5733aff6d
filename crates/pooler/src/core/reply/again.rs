//! [`Again`]: a client's messages that run again, because the result of its prepared statement is another since it was parsed.
//!
//! PostgreSQL refuses such a statement ("cached plan must not change result type"), and for a pooler's client that is somebody else's
//! ALTER TABLE. Outside of a transaction block, and where the client has got no answer yet, the statement is parsed anew and nobody notices.

use corun_wire::error::{Reported, code};
use corun_wire::{frontend, header};

/// Messages longer than this do not run again.
const BYTES_MAX: usize = 16 << 10;
/// What the server says, whatever its language: the name of its function.
const ROUTINE: &str = "RevalidateCachedQuery";

/// A batch under way that may run again.
#[derive(Default)]
pub(in crate::core) struct Again {
    batch: Vec<u8>,
    /// A ParameterDescription that the client gets once the rest of the answer has begun.
    description: Vec<u8>,
    runs: bool,
}

impl Again {
    /// Nothing runs again.
    #[inline]
    pub fn forget(&mut self) {
        self.batch.clear();
    }

    /// Whether the client's next messages wait: they come behind the batch that runs again, or behind what is kept back.
    #[inline]
    pub fn goes_first(&self) -> bool {
        self.runs || !self.description.is_empty()
    }

    /// These messages are about to be sent, and nothing else is under way.
    #[inline]
    pub fn keep(&mut self, bytes: &[u8]) {
        if bytes.len() <= BYTES_MAX && is_batch(bytes) {
            self.batch.extend_from_slice(bytes);
        }
    }

    /// Whether there is a batch of which nothing has been answered.
    #[inline]
    pub fn is_kept(&self) -> bool {
        !self.batch.is_empty()
    }

    /// Keeps a description of parameters back.
    pub fn hold(&mut self, message: &[u8]) {
        self.description = message.to_vec();
    }

    /// An answer comes: the client gets it, and first what was kept back.
    #[inline]
    pub fn answered(&mut self) -> Vec<u8> {
        self.batch.clear();
        std::mem::take(&mut self.description)
    }

    /// The server has refused a statement whose result has changed. Returns whether the batch runs again.
    pub fn refused(&mut self) -> bool {
        self.description.clear();
        self.runs = self.is_kept();
        self.runs
    }

    /// The refused batch has ended: the client's messages, if they run again.
    #[inline]
    pub fn ended(&mut self) -> Option<Vec<u8>> {
        std::mem::take(&mut self.runs).then(|| std::mem::take(&mut self.batch))
    }
}

/// Whether an error says that a statement's result is another than when it was parsed.
pub(super) fn is_stale(error: &[u8]) -> bool {
    let reported = Reported::read(error);
    reported.code == code::NOT_SUPPORTED && reported.routine == ROUTINE
}

/// Whether this is one batch that begins with the use of a prepared statement, and nothing more.
fn is_batch(bytes: &[u8]) -> bool {
    let mut rest = bytes;
    let begins = matches!(rest.first(), Some(&frontend::BIND | &frontend::DESCRIBE));
    while begins && let Ok(Some(head)) = header(rest) {
        let Some(behind) = rest.get(head.total..) else {
            return false;
        };
        match head.tag {
            frontend::BIND | frontend::DESCRIBE | frontend::EXECUTE => rest = behind,
            frontend::SYNC => return behind.is_empty(),
            _ => return false,
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;
    use corun_wire::build;

    fn messages(tags: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        for &tag in tags {
            build::message(&mut out, tag, |out| out.extend(b"\0\0"));
        }
        out
    }

    #[test]
    fn only_one_whole_batch_runs_again() {
        for (tags, is) in [
            (&b"BDES"[..], true),
            (b"DS", true),
            (b"BES", true),
            (b"PBES", false),
        ] {
            assert_eq!(is_batch(&messages(tags)), is, "{tags:?}");
        }
        for tags in [&b""[..], b"S", b"BE", b"BESBES", b"BEHS", b"Q", b"BEQ"] {
            assert!(!is_batch(&messages(tags)), "{tags:?}");
        }
        let whole = messages(b"BES");
        assert!(!is_batch(&whole[..whole.len() - 1]));
    }

    #[test]
    fn what_comes_meanwhile_waits() {
        let mut again = Again::default();
        again.keep(&messages(b"DS"));
        assert!(!again.goes_first());
        again.hold(b"described");
        assert!(again.goes_first());
        assert!(again.refused() && again.goes_first());
        assert!(again.ended().is_some() && !again.goes_first());
    }

    #[test]
    fn what_was_answered_does_not_run_again() {
        let mut again = Again::default();
        again.keep(&messages(b"DS"));
        again.hold(b"described");
        assert_eq!(again.answered(), b"described");
        assert!(!again.refused() && again.ended().is_none());
        again.keep(&messages(b"DS"));
        again.hold(b"described");
        assert!(again.refused());
        assert_eq!(again.ended(), Some(messages(b"DS")));
        assert_eq!(again.answered(), b"");
        assert!(again.ended().is_none());
    }
}
