//! Every path through the unsafe code of the shared CSB+-tree once, on data small enough for Miri: `make miri` runs this file,
//! and so does every `cargo test`. Breadth and size are the property tests' job, inside the crate.

use corun_exec::shared_csb::SharedCsbTree;

/// Loads, grows by single entries, reads both ways, shrinks to nothing.
fn live<const W: usize>(entries: u64) {
    let key = |number: u64| {
        let mut key = [3; W];
        key[W - 1] = number / 2;
        key
    };
    let sorted: Vec<_> = (0..entries).map(|number| (key(number), number as u32)).collect();
    let loaded = SharedCsbTree::<W>::bulk_load(&sorted, 0.6).unwrap();
    loaded.check();

    let tree = SharedCsbTree::<W>::new();
    for number in (0..entries).map(|index| index * 37 % entries) {
        assert_eq!(tree.insert(&key(number), number as u32), Ok(true));
    }
    tree.check();
    if W == 8 || !cfg!(miri) {
        assert!(tree.height() >= 2, "inner nodes have split");
    }
    for tree in [&loaded, &tree] {
        let mut cursor = tree.cursor();
        cursor.seek(&[0; W]);
        for &entry in &sorted {
            assert_eq!(cursor.next(), Some(entry));
        }
        assert_eq!(cursor.next(), None);
        for &entry in sorted.iter().rev() {
            assert_eq!(cursor.prev(), Some(entry));
        }
        assert_eq!(tree.get(&key(0)), Some(0));
        // Two groups; of each key the smallest RID, and one that is above all.
        let many = entries.min(35);
        let keys: Vec<_> = (0..many).map(key).chain([[u64::MAX; W]]).collect();
        let first = (0..many).map(|number| Some(number as u32 / 2 * 2)).chain([None]);
        assert_eq!(tree.get_many(&keys), first.collect::<Vec<_>>());
        assert_eq!(tree.insert_unique(&key(2), 9), Ok(Err(2)));
        assert_eq!(tree.insert_unique(&[u64::MAX; W], 9), Ok(Ok(())));
        assert!(tree.remove(&[u64::MAX; W], 9));
        for &(key, rid) in &sorted {
            assert!(tree.remove(&key, rid));
        }
        tree.check();
        assert!(tree.is_empty() && tree.height() == 0);
    }
}

#[test]
fn one_word() {
    live::<1>(if cfg!(miri) { 60 } else { 1000 });
}

#[test]
fn two_words() {
    live::<2>(if cfg!(miri) { 50 } else { 1000 });
}

#[test]
fn four_words() {
    live::<4>(if cfg!(miri) { 40 } else { 1000 });
}

#[test]
fn eight_words() {
    live::<8>(if cfg!(miri) { 130 } else { 1000 });
}

#[test]
fn threads_change_and_read_one_tree() {
    let per_thread: u64 = if cfg!(miri) { 30 } else { 2000 };
    let tree = &SharedCsbTree::<1>::new();
    std::thread::scope(|scope| {
        for thread in 0..3_u64 {
            scope.spawn(move || {
                for number in 0..per_thread {
                    let key = [number * 3 + thread];
                    if thread == 0 {
                        assert_eq!(tree.insert_unique(&key, 0), Ok(Ok(())));
                    } else {
                        assert_eq!(tree.insert(&key, thread as u32), Ok(true));
                    }
                    assert_eq!(tree.get(&key), Some(thread as u32));
                }
                for number in (0..per_thread).step_by(2) {
                    assert!(tree.remove(&[number * 3 + thread], thread as u32));
                }
            });
        }
        scope.spawn(move || {
            for _ in 0..2 {
                let mut cursor = tree.cursor();
                cursor.seek(&[0]);
                let mut before = None;
                while let Some(entry) = cursor.next() {
                    assert!(before.is_none_or(|before| entry > before));
                    assert_eq!(entry.0[0] % 3, u64::from(entry.1));
                    before = Some(entry);
                }
            }
        });
    });
    tree.check();
    let mut cursor = tree.cursor();
    cursor.seek(&[0]);
    for number in (1..per_thread).step_by(2) {
        for thread in 0..3 {
            assert_eq!(cursor.next(), Some(([number * 3 + thread], thread as u32)));
        }
    }
    assert_eq!(cursor.next(), None);
}
