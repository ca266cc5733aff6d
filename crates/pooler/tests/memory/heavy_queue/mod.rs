//! The queue of heavy queries, with many clients in it.

mod crowd;
#[path = "../../all/heavy_queue/fixture.rs"]
#[allow(dead_code, reason = "the other tests of the queue use the rest")]
mod fixture;
