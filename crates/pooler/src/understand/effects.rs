//! [`Effects`]: what code may do to the session that runs it.

use std::collections::BTreeSet;

use super::Pins;

/// What code may do to the session.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Effects {
    /// What it may leave behind.
    pub pins: Pins,
    /// Settings may differ afterwards.
    pub settings: bool,
    /// Those among them that the server's view of its settings does not list: custom ones (`a.b`) and `role`.
    pub names: BTreeSet<Box<str>>,
    /// Anything else, that cannot be seen.
    pub unreadable: bool,
}

impl Effects {
    /// Whether there are none.
    pub fn is_nothing(&self) -> bool {
        self.pins.is_empty() && !self.settings && !self.unreadable
    }

    /// These and others.
    pub fn add(&mut self, other: &Effects) {
        self.pins |= other.pins;
        self.settings |= other.settings;
        self.unreadable |= other.unreadable;
        self.names.extend(other.names.iter().cloned());
    }

    /// Those of something that nothing is known of.
    pub(crate) fn unreadable() -> Effects {
        Effects {
            unreadable: true,
            ..Effects::default()
        }
    }

    /// Whether everything of `other` is among these.
    pub(crate) fn has(&self, other: &Effects) -> bool {
        self.pins.contains(other.pins)
            && self.settings >= other.settings
            && self.unreadable >= other.unreadable
            && self.names.is_superset(&other.names)
    }

    /// A setting is changed by its name.
    pub(super) fn change_setting(&mut self, name: &str) {
        let name = name.to_ascii_lowercase();
        match name.as_str() {
            "session_authorization" => self.pins |= Pins::SESSION_AUTHORIZATION,
            "seed" => self.pins |= Pins::OTHER,
            _ => {}
        }
        if name == "role" || name.contains('.') {
            self.names.insert(name.into());
        }
    }
}
