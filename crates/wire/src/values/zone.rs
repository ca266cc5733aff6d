//! [`TimeZone`]: how far local time is from UTC, as the server's calendar of time zones knows it.

/// A session's time zone. Implemented by whoever has the tables of time zones.
pub trait TimeZone {
    /// Seconds that local time is east of UTC at a moment, in seconds since 1970-01-01 00:00 UTC.
    fn offset_at(&self, unix_seconds: i64) -> i32;

    /// The same at a local time, given as if it were UTC. Of a time that occurs twice PostgreSQL takes the one in standard time; of one
    /// that is skipped the one that the offset before the change leads to.
    fn offset_of_local(&self, local_seconds: i64) -> i32;
}

/// A time zone that never changes: seconds east of UTC.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FixedOffset(pub i32);

impl FixedOffset {
    /// UTC.
    pub const UTC: Self = Self(0);
}

impl TimeZone for FixedOffset {
    fn offset_at(&self, _: i64) -> i32 {
        self.0
    }

    fn offset_of_local(&self, _: i64) -> i32 {
        self.0
    }
}
