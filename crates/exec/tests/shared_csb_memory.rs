//! How much memory a shared tree takes. One test in a program of its own, as the memory that waits for readers is the whole process's: a thread of
//! another test that loses the processor while it reads would hold it up.

use corun_exec::shared_csb::SharedCsbTree;

#[test]
fn memory_stays_bounded() {
    ascending_inserts_leave_nodes_nearly_full();
    a_queue_stays_small();
    growing_and_shrinking_at_random_stays_small();
}

fn ascending_inserts_leave_nodes_nearly_full() {
    let tree = SharedCsbTree::<1>::new();
    for number in 0..100_000 {
        assert_eq!(tree.insert(&[number], number as u32), Ok(true));
    }
    tree.check();
    let entries: Vec<_> = (0..100_000).map(|number| ([number], number as u32)).collect();
    let full = SharedCsbTree::<1>::bulk_load(&entries, 0.9).unwrap();
    assert_eq!(tree.height(), full.height());
    // What groups of other sizes left behind is in it too.
    assert!(
        tree.bytes() < full.bytes() * 2,
        "{} against {}",
        tree.bytes(),
        full.bytes()
    );
}

fn a_queue_stays_small() {
    let tree = SharedCsbTree::<2>::new();
    let waiting = 5_000;
    let mut bytes = 0;
    for number in 0..400_000_u64 {
        tree.insert(&[3, number], number as u32).unwrap();
        if let Some(oldest) = number.checked_sub(waiting) {
            assert!(tree.remove(&[3, oldest], oldest as u32));
        }
        if number == 50_000 {
            bytes = tree.bytes();
        }
    }
    tree.check();
    assert_eq!(tree.len(), waiting as usize);
    assert!(tree.bytes() <= bytes * 2, "{bytes} grew to {}", tree.bytes());
}

fn growing_and_shrinking_at_random_stays_small() {
    let tree = SharedCsbTree::<1>::new();
    let number = |index: u64| index.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let mut bytes = 0;
    for round in 0..6 {
        for index in 0..30_000 {
            tree.insert(&[number(index)], index as u32).unwrap();
        }
        if round == 1 {
            bytes = tree.bytes();
        }
        tree.check();
        for index in 0..30_000 {
            assert!(tree.remove(&[number(index)], index as u32));
        }
        tree.check();
    }
    assert!(tree.bytes() <= bytes * 2, "{bytes} grew to {}", tree.bytes());
}
