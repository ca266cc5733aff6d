//! What every reactor does, whatever it is built on.

mod closing;
mod flow;
mod making;
mod many;

pub use closing::*;
pub use flow::*;
pub use making::*;
pub use many::*;
