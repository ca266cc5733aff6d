//! What addresses are, by hand: a lookup of one page in the buffer table, its descriptor and page, and what lies around.

use std::collections::HashMap;

use corun_cachesim::private_caches::lackey::{LackeyError, Memory, Tape, Taped, executions};
use corun_cachesim::private_caches::recording::Block;
use corun_cachesim::private_caches::touch::{Place, Use};

const MAPS: &str = "\
00400000-00500000 r-xp 00000000 fe:00 1 /usr/bin/postgres
00500000-00600000 r--p 00100000 fe:00 1 /usr/bin/postgres
00600000-00700000 rw-p 00000000 00:00 0
10000000-20000000 rw-s 00000000 00:01 2 /dev/zero (deleted)
nonsense
";

fn allocations() -> Vec<(String, u64)> {
    [
        ("XLOG Ctl", 0x1000),
        ("Buffer Descriptors", 0x10_0000),
        ("Buffer Blocks", 0x20_0000),
        ("Shared Buffer Lookup Table", 0x80_0000),
        ("Proc Header", 0x90_0000),
        ("Backend Status Array", 0xa0_0000),
        ("Proc Array", 0xb0_0000),
    ]
    .map(|(name, offset)| (name.to_owned(), offset))
    .to_vec()
}

fn tape(lines: &str) -> Tape {
    let mut tape = Tape::default();
    for line in lines.lines() {
        tape.line(line.as_bytes());
    }
    tape
}

fn taped(lines: &str) -> Taped {
    Taped {
        statement: "point".to_owned(),
        at: Vec::new(),
        tape: tape(lines),
    }
}

/// Reads a page: lock, buffer table, descriptor, lock again, page.
fn lookup(lock: u64, entry: u64, buffer: u64, line: u64) -> String {
    format!(
        "I  00400010,4\n M {:x},4\n L {:x},8\n L {:x},8\n M {:x},4\n M {:x},4\n L {:x},8\n",
        0x1000_0080 + lock * 128,
        0x1080_0000,
        0x1080_1000 + entry * 64,
        0x1010_0000 + buffer * 64,
        0x1000_0080 + lock * 128,
        0x1020_0000 + buffer * 8192 + line * 64,
    )
}

#[test]
fn a_page_is_found_by_its_table_its_descriptor_and_its_lock() {
    let memory = Memory::new(MAPS, &allocations()).expect("a map");
    let block = |page| Block { relation: 0, page };
    // Buffer 9 holds a catalog's page.
    let buffers = HashMap::from([(3, block(30)), (4, block(40)), (5, block(50))]);
    let all = [
        taped(&lookup(1, 100, 3, 7)),
        taped(&lookup(2, 200, 4, 8)),
        taped(&lookup(1, 300, 5, 9)),
        taped(&lookup(5, 400, 9, 9)),
    ];
    let found = executions(&memory, &buffers, &all).expect("understood");
    let places = |at: usize| -> Vec<(Place, Use)> {
        let touches = found[at].touches.iter();
        touches
            .filter(|touch| !matches!(touch.place, Place::Code { .. }))
            .map(|touch| (touch.place, touch.what))
            .collect()
    };
    for (at, page, line) in [(0, 30, 7), (1, 40, 8), (2, 50, 9)] {
        assert_eq!(found[at].blocks, [block(page)]);
        let expected = [
            (Place::Lock { block: 0 }, Use::Store),
            // The head of the table, which all lookups come by.
            (Place::Common { page: 0, line: 0 }, Use::Load),
            (Place::Entry { block: 0, nth: 0 }, Use::Load),
            (Place::Descriptor { block: 0 }, Use::Store),
            (Place::Lock { block: 0 }, Use::Store),
            (Place::Block { block: 0, line }, Use::Load),
        ];
        assert_eq!(places(at), expected, "{at}");
    }
    assert!(found[3].blocks.is_empty());
    assert!(
        places(3)
            .iter()
            .all(|(place, _)| matches!(place, Place::Common { .. })),
        "{:?}",
        places(3)
    );
}

#[test]
fn memory_is_private_shared_or_code_by_its_mapping_and_name() {
    let memory = Memory::new(MAPS, &allocations()).expect("a map");
    let lines = "\
I  00400000,4
I  00400004,4
 L 00500000,8
 S 00600000,8
 L 7f0000000000,8
 L 1000f000,8
 L 10900000,8
 S 10900100,8
 S 10a00000,8
 L 10b00000,8
==12== a word of valgrind
LOG:  a word of the server
 S 0060003c,8
";
    let found = executions(&memory, &HashMap::new(), &[taped(lines)]).expect("understood");
    assert_eq!(found[0].instructions, 2);
    let kinds: String = found[0]
        .touches
        .iter()
        .map(|touch| match touch.place {
            Place::Private { .. } => 'p',
            Place::Code { .. } => 'x',
            Place::Common { .. } => 'c',
            _ => '?',
        })
        .collect();
    // Code; constants; data; unmapped; shared; the head and a part of the processes; the backend's status; an array for all; and a store
    // into two lines, of which the first was the last one of its set.
    assert_eq!(kinds, "xcppccppcpp");
}

#[test]
fn a_tape_is_cut_where_a_page_is_come_to_again() {
    let memory = Memory::new(MAPS, &allocations()).expect("a map");
    let work: String = (0..400)
        .map(|line| format!(" L {:x},8\n", 0x60_0000 + line * 64))
        .collect();
    let visit = lookup(1, 100, 3, 7) + " L 10206000,8\n L 10206040,8\n";
    let lines = format!("{work}{visit}{work}{visit}{work}");
    let pieces = tape(&lines).cut(&memory, 3);
    assert_eq!(pieces.len(), 3);
    assert_eq!(tape(&lines).cut(&memory, 4).len(), 1);
}

#[test]
fn what_is_missing_is_named() {
    assert_eq!(
        Memory::new("00600000-00700000 rw-p 0 0:0 0", &allocations()).err(),
        Some(LackeyError::NoSharedMemory(0xb0_0000))
    );
    let some: Vec<_> = allocations()
        .into_iter()
        .filter(|(name, _)| name != "Buffer Blocks")
        .collect();
    assert_eq!(
        Memory::new(MAPS, &some).err(),
        Some(LackeyError::NotAllocated("Buffer Blocks"))
    );
}
