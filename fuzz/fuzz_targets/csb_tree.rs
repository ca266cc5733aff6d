//! Loads a CSB+-tree with entries that bytes say and compares what it answers with an ordered set.
//!
//! The first byte chooses key type and node size, the second how full nodes are, the third how many of the rest are entries; all
//! behind are questions. Either takes three bytes: a key (two bytes, spread by one of several families) and a RID.
#![no_main]

use std::collections::BTreeSet;

use corun_exec::csb::{CsbTree, Key};
use libfuzzer_sys::fuzz_target;

/// Loads and asks. `make` makes keys; equal numbers may not make different keys, nor ascending ones descending ones.
fn run<K: Key, const LINES: usize>(fill: u8, entries: u8, data: &[u8], make: impl Fn(u16) -> K) {
    let of = |bytes: &[u8]| {
        (
            u16::from_le_bytes([bytes[0], bytes[1]]) % 8192,
            u32::from(bytes[2]),
        )
    };
    let (loaded, asked) = data.split_at(data.len() / 3 * usize::from(entries) / 255 * 3);
    let model: BTreeSet<(u16, u32)> = loaded.chunks_exact(3).map(of).collect();
    let keys: Vec<K> = model.iter().map(|&(number, _)| make(number)).collect();
    let rids: Vec<u32> = model.iter().map(|&(_, rid)| rid).collect();
    let fill = (f64::from(fill) + 1.0) / 256.0;
    let tree = CsbTree::<K, LINES>::bulk_load(&keys, &rids, fill).expect("sorted entries");
    let of_model = |&(number, rid): &(u16, u32)| (make(number), rid);
    assert!(tree.range(..).eq(model.iter().map(of_model)));
    for (number, more) in asked.chunks_exact(3).map(of) {
        let (key, end) = (make(number), number + more as u16);
        assert_eq!(
            tree.lower_bound(key),
            model.range((number, 0)..).next().map(of_model)
        );
        let range = model.range((number, 0)..(end, 0));
        assert!(tree.range(key..make(end)).eq(range.map(of_model)));
        let rids = || model.range((number, 0)..=(number, u32::MAX)).map(|&(_, rid)| rid);
        assert_eq!(tree.get(key), rids().next());
        let mut node = tree.root();
        for _ in 0..tree.height() {
            node = tree.child(node, key);
        }
        assert!(tree.leaf_entries_from(node, key).eq(rids()));
    }
}

fuzz_target!(|data: &[u8]| {
    let [kind, fill, entries, data @ ..] = data else {
        return;
    };
    match kind % 8 {
        0 => run::<i32, 1>(*fill, *entries, data, |number| i32::from(number) - 4000),
        1 => run::<u32, 2>(*fill, *entries, data, |number| {
            u32::MAX - 20_000 + u32::from(number)
        }),
        2 => run::<f32, 1>(*fill, *entries, data, |number| (f32::from(number) - 100.0) / 3.0),
        3 => run::<i64, 1>(*fill, *entries, data, |number| (i64::from(number) - 4000) << 40),
        4 => run::<u64, 2>(*fill, *entries, data, |number| u64::from(number) << 48),
        5 => run::<f64, 1>(*fill, *entries, data, |number| {
            (f64::from(number) - 100.0).powi(3)
        }),
        6 => run::<u64, 1>(*fill, *entries, data, u64::from),
        _ => run::<u32, 4>(*fill, *entries, data, u32::from),
    }
});
