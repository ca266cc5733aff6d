//! Discovery and measuring on machines that exist only as files and models.

mod campaign;
mod discovery;
mod fixture;
