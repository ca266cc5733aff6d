//! Workers of a store and what their jobs may do to each other.
//!
//! A program of its own: the CTX points that are on are the whole process's. Here they are those that a store's users have; the tests in
//! `all` turn every point on.

mod jobs;
mod members;
mod pending;
