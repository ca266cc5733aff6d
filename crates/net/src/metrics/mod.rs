//! What a server shows of itself: how long things took ([`Histogram`]), numbers in the text format that Prometheus reads ([`Text`]), and as
//! much of HTTP as that takes ([`http`]).
//!
//! Not here: what is counted, and the sockets of whoever answers.

mod histogram;
pub mod http;
mod text;

pub use histogram::Histogram;
pub use text::{CONTENT_TYPE, Labels, Text};
