//! Checkpoints: a snapshot of all tables in chunks of files, and the manifest that says which files count.
//!
//! ```text
//!   begin ─► chunk, chunk, ... (any thread) ─► finish: sync file ─► new manifest ─► sync ─► rename over the old ─► sync names
//!            a crash up to here leaves the old one ─────────────────────────────────────┘ └─ from here on the new one
//! ```
//!
//! A checkpoint writes what has changed since the one before, as chunks of a new file; what has not is in the files before, which the
//! manifest names beside the new one. [`CheckpointMap`] knows which chunks count.
//!
//! Order of calls: [`Manifest::read`]; for a fresh folder [`Manifest::create`], else [`CheckpointReader::open`] and the log
//! after [`Manifest::ts`]; later [`CheckpointWriter`], one at a time. Chunks are opaque bytes with a name.
//! What it is not: it does not decide when to write.

mod bytes;
mod chunk;
mod error;
mod manifest;
mod map;
mod reader;
mod writer;

pub use self::chunk::{ChunkName, Role};
pub use self::error::CheckpointError;
pub use self::manifest::{CheckpointFile, Manifest};
pub(crate) use self::map::{CheckpointMap, Need};
pub use self::reader::{CheckpointReader, Part};
pub(crate) use self::writer::Busy;
pub use self::writer::CheckpointWriter;
