//! Checkpoints: a snapshot of all tables in one file, and the manifest that says which file counts.
//!
//! ```text
//!   begin ─► chunk, chunk, ... (any thread) ─► finish: sync file ─► new manifest ─► sync ─► rename over the old ─► sync names
//!            a crash up to here leaves the old one ─────────────────────────────────────┘ └─ from here on the new one
//! ```
//!
//! Order of calls: [`Manifest::read`]; for a fresh folder [`Manifest::create`], else [`CheckpointReader::open`] and the log
//! after [`Manifest::ts`]; later [`CheckpointWriter`], one at a time. Chunks are opaque bytes with a number for their kind.
//! What it is not: it decides neither when nor what to write.

mod bytes;
mod error;
mod manifest;
mod reader;
mod writer;

pub use self::error::CheckpointError;
pub use self::manifest::Manifest;
pub use self::reader::CheckpointReader;
pub use self::writer::CheckpointWriter;

#[cfg(test)]
mod tests;
