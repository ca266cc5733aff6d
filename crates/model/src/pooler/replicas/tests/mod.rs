//! Fleets and sessions against plain rules, on random histories and by hand.

mod by_hand;
mod histories;
mod sessions;

use std::time::Duration;

use super::{Lsn, Probe};

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

fn primary(sent: u64, lsn: u64, timeline: u32) -> Probe {
    Probe {
        sent: ms(sent),
        lsn: Some(Lsn(lsn)),
        timeline: Some(timeline),
        system: Some(7),
        ..Probe::default()
    }
}

fn replica(sent: u64, replayed: u64, timeline: u32) -> Probe {
    Probe {
        in_recovery: true,
        received: Some(Lsn(replayed)),
        replay_age: Some(Duration::ZERO),
        ..primary(sent, replayed, timeline)
    }
}
