//! RFC vectors.
