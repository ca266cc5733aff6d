//! Keys of clients: which process, which of its clients, and how often a cancel request may still be forwarded.
//!
//! ```text
//!                   process number                                      secret
//!  without peering  0 │ event loop: 10 bits │ slot: 21 bits             random, 4 bytes (protocol 3.2: 32)
//!
//!  with peering     byte 0      1     2           3                     byte 0 1 2   3                   4 …
//!                   0 │ place   │ peer, low byte first │ place          random       random │ forwards   random
//!                       7 bits    16 bits                8 bits         24 bits      6 bits   2 bits
//! ```
//!
//! Peer and forwards stand where PgBouncer has them since 1.21, so processes of both kinds can be each other's peers. Its other 45 bits
//! are random. Here 15 of them say where the client is: a request needs no search through all clients, and no two clients of a process
//! have the same key.

/// Bits of the slot, without peering.
const SLOT_BITS: u32 = 21;
/// Bits of event loop and slot together, with peering.
const PLACE_BITS: u32 = 15;
/// Bits of the event loop at most, with peering.
const LOOP_BITS_MAX: u32 = 10;
/// The byte of a secret whose last bits count the forwards that are left.
const FORWARDS_BYTE: usize = 3;
/// Those bits; a new key has all of them.
const FORWARDS: u8 = 0b11;

/// What keys are made of in this process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::core) struct Keys {
    /// 0: there is no peering.
    pub peer_id: u16,
    pub event_loops: usize,
}

/// Where a cancel request goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::core) enum Destination {
    /// To the client of this process that has the key, if one has.
    Here,
    /// To the process with this number.
    Peer(u16),
    /// Nowhere: it was forwarded too often.
    Nowhere,
}

impl Keys {
    /// The process number a client is told: positive as PostgreSQL's are; 0 is none.
    pub fn pid(&self, event_loop: usize, slot: usize) -> u32 {
        let (event_loop, slot) = (event_loop as u32, slot as u32);
        if self.peer_id == 0 {
            return (event_loop << SLOT_BITS | slot & ((1 << SLOT_BITS) - 1)) + 1;
        }
        let bits = self.slot_bits();
        let place = event_loop << bits | slot & ((1 << bits) - 1);
        let [.., first, last] = (place & ((1 << PLACE_BITS) - 1)).to_be_bytes();
        let [low, high] = self.peer_id.to_le_bytes();
        u32::from_be_bytes([first, low, high, last])
    }

    /// Where in its loop the client with this number may be: the first slot, and how far the others are apart.
    pub fn slots(&self, pid: u32) -> (usize, usize) {
        let apart = 1 << self.slot_bits();
        let place = match self.peer_id {
            0 => pid.wrapping_sub(1),
            _ => pid >> 24 << 8 | pid & 0xff,
        };
        (place as usize & (apart - 1), apart)
    }

    /// Makes random bytes the secret of a client.
    pub fn finish(&self, secret: &mut [u8]) {
        if self.peer_id > 0
            && let Some(byte) = secret.get_mut(FORWARDS_BYTE)
        {
            *byte |= FORWARDS;
        }
    }

    /// Where the request with this key goes. The secret is then the client's, or has one forward less.
    pub fn destination(&self, pid: u32, secret: &mut [u8]) -> Destination {
        if self.peer_id == 0 {
            return Destination::Here;
        }
        let [_, low, high, _] = pid.to_be_bytes();
        let peer = u16::from_le_bytes([low, high]);
        match secret.get_mut(FORWARDS_BYTE) {
            Some(byte) if peer == self.peer_id => {
                *byte |= FORWARDS;
                Destination::Here
            }
            Some(byte) if *byte & FORWARDS > 0 => {
                *byte -= 1;
                Destination::Peer(peer)
            }
            _ => Destination::Nowhere,
        }
    }

    fn slot_bits(&self) -> u32 {
        let loop_bits = self.event_loops.next_power_of_two().trailing_zeros();
        match self.peer_id {
            0 => SLOT_BITS,
            _ => PLACE_BITS - loop_bits.min(LOOP_BITS_MAX),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys(peer_id: u16, event_loops: usize) -> Keys {
        Keys { peer_id, event_loops }
    }

    /// The slots of a loop that are looked at for a number.
    fn candidates(keys: Keys, pid: u32) -> impl Iterator<Item = usize> {
        let (first, apart) = keys.slots(pid);
        (first..1 << SLOT_BITS).step_by(apart)
    }

    #[test]
    fn without_peering_a_number_names_loop_and_slot() {
        let keys = keys(0, 4);
        let number = keys.pid(3, 77);
        assert_eq!((number - 1) >> SLOT_BITS, 3);
        assert!(candidates(keys, number).eq([77]));
        assert!(keys.pid(1023, (1 << SLOT_BITS) - 1) > 0);
    }

    #[test]
    fn with_peering_a_number_names_the_process_where_pgbouncer_looks_for_it() {
        for (peer_id, event_loops) in [(1, 1), (2, 3), (258, 64), (16383, 1024)] {
            let keys = keys(peer_id, event_loops);
            for (event_loop, slot) in [(0, 0), (event_loops - 1, 5), (event_loops / 2, 70_000)] {
                let pid = keys.pid(event_loop, slot);
                let bytes = pid.to_be_bytes();
                assert_eq!(u16::from(bytes[1]) + (u16::from(bytes[2]) << 8), peer_id);
                assert!(pid as i32 > 0, "{pid}");
                assert!(candidates(keys, pid).any(|candidate| candidate == slot));
            }
        }
    }

    #[test]
    fn clients_of_different_loops_have_different_numbers() {
        let keys = keys(9, 5);
        let mut seen = std::collections::HashSet::new();
        for event_loop in 0..5 {
            assert!((0..4096).all(|slot| seen.insert(keys.pid(event_loop, slot))));
        }
    }

    #[test]
    fn a_request_comes_home_with_the_secret_its_client_has() {
        let (own, other) = (keys(7, 2), keys(8, 2));
        for length in [4, 32] {
            let mut secret = vec![0x50; length];
            own.finish(&mut secret);
            let mut sent = secret.clone();
            let pid = own.pid(1, 3);
            assert_eq!(other.destination(pid, &mut sent), Destination::Peer(7));
            assert_ne!(sent, secret);
            assert_eq!(own.destination(pid, &mut sent), Destination::Here);
            assert_eq!(sent, secret);
        }
    }

    #[test]
    fn a_request_is_forwarded_three_times() {
        let (own, other) = (keys(7, 2), keys(8, 2));
        let mut secret = vec![0xa4; 4];
        own.finish(&mut secret);
        let pid = own.pid(0, 0);
        for _ in 0..3 {
            assert_eq!(other.destination(pid, &mut secret), Destination::Peer(7));
        }
        assert_eq!(other.destination(pid, &mut secret), Destination::Nowhere);
        assert_eq!(secret, [0xa4; 4]);
        // At home it arrives even then.
        assert_eq!(own.destination(pid, &mut secret), Destination::Here);
    }

    #[test]
    fn without_peering_nothing_is_forwarded_and_secrets_stay_as_they_are() {
        let keys = keys(0, 2);
        let mut secret = vec![1, 2, 3, 4];
        keys.finish(&mut secret);
        assert_eq!(keys.destination(0x0102_0304, &mut secret), Destination::Here);
        assert_eq!(secret, [1, 2, 3, 4]);
    }

    #[test]
    fn a_secret_that_is_too_short_goes_nowhere() {
        assert_eq!(
            keys(7, 2).destination(keys(8, 2).pid(0, 0), &mut [1]),
            Destination::Nowhere
        );
    }
}
