//! Breakpoints in a process's code: one byte (`int3`) each, and what was there before.
//!
//! One byte at a time, so that a thread that runs the code meanwhile sees either the old instruction or the breakpoint.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;

/// The instruction that stops a thread with SIGTRAP; the thread then stands behind it.
const INT3: u8 = 0xcc;

/// The breakpoints of one process that this thread traces.
pub(super) struct Breakpoints {
    /// `/proc/PID/mem`: a tracer may write where the process itself may not.
    memory: File,
    /// What was at each address before the first breakpoint there, and whether one is there now.
    places: BTreeMap<u64, Place>,
}

struct Place {
    original: u8,
    planted: bool,
}

fn open(process: u32) -> io::Result<File> {
    OpenOptions::new()
        .read(true)
        .write(true)
        .open(format!("/proc/{process}/mem"))
}

impl Breakpoints {
    /// None yet, in the memory this process has now.
    pub fn new(process: u32) -> io::Result<Self> {
        Ok(Self {
            memory: open(process)?,
            places: BTreeMap::new(),
        })
    }

    /// Puts one at each of these addresses.
    pub fn plant(&mut self, addresses: &[u64]) -> io::Result<()> {
        for &address in addresses {
            let original = match self.places.get(&address) {
                Some(place) if place.planted => continue,
                Some(place) => place.original,
                None => {
                    let mut byte = [0];
                    self.memory.read_exact_at(&mut byte, address)?;
                    byte[0]
                }
            };
            self.memory.write_all_at(&[INT3], address)?;
            self.places.insert(
                address,
                Place {
                    original,
                    planted: true,
                },
            );
        }
        Ok(())
    }

    /// Takes one out.
    pub fn lift(&mut self, address: u64) -> io::Result<()> {
        if let Some(place) = self.places.get_mut(&address).filter(|place| place.planted) {
            self.memory.write_all_at(&[place.original], address)?;
            place.planted = false;
        }
        Ok(())
    }

    /// Takes all out. Memory that is gone has none.
    pub fn lift_all(&mut self) {
        for (&address, place) in &mut self.places {
            if place.planted {
                let _ = self.memory.write_all_at(&[place.original], address);
                place.planted = false;
            }
        }
    }

    /// Takes all out of a copy of the memory that another process got when it was forked, whenever that was.
    pub fn lift_from_copy(&self, process: u32) {
        let Ok(memory) = open(process) else {
            return;
        };
        for (&address, place) in &self.places {
            let mut byte = [0];
            if memory.read_exact_at(&mut byte, address).is_ok() && byte[0] == INT3 {
                let _ = memory.write_all_at(&[place.original], address);
            }
        }
    }

    /// Whether one is at this address.
    pub fn is_planted(&self, address: u64) -> bool {
        self.places.get(&address).is_some_and(|place| place.planted)
    }

    /// Whether one is, or was.
    pub fn is_known(&self, address: u64) -> bool {
        self.places.contains_key(&address)
    }

    /// Code at an address as the program has it, whether breakpoints are in it or not; how many bytes could be read.
    pub fn code(&self, address: u64, bytes: &mut [u8]) -> usize {
        let mut there = self.memory.read_at(bytes, address).unwrap_or(0);
        if there == 0 {
            // Across the end of what is mapped nothing may be read at once: try up to the end of the page.
            let rest = (4_096 - (address % 4_096)) as usize;
            if rest < bytes.len() {
                there = self.memory.read_at(&mut bytes[..rest], address).unwrap_or(0);
            }
        }
        for (&place_address, place) in self.places.range(address..address.saturating_add(there as u64)) {
            if place.planted {
                bytes[(place_address - address) as usize] = place.original;
            }
        }
        there
    }

    /// Reads the process's memory; whether all of it could be.
    pub fn read(&self, address: u64, bytes: &mut [u8]) -> bool {
        self.memory.read_exact_at(bytes, address).is_ok()
    }

    /// Writes the process's memory; whether all of it could be.
    pub fn write(&self, address: u64, bytes: &[u8]) -> bool {
        self.memory.write_all_at(bytes, address).is_ok()
    }

    /// The 8 bytes at an address.
    pub fn word(&self, address: u64) -> Option<u64> {
        let mut bytes = [0; 8];
        self.read(address, &mut bytes).then(|| u64::from_le_bytes(bytes))
    }
}
