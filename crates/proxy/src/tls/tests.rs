//! Both sides against each other.
