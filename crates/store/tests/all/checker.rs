//! The checker of histories ([`history`]) on histories written by hand: it must report every anomaly, and nothing else.

use std::collections::{BTreeMap, BTreeSet};

use crate::history::{Anomaly, History, Op, Txn, Value};

/// A history written by hand: reads and writes of each transaction, all at once unless times are set.
fn by_hand(present: &[u32], txns: &[&[Op]]) -> History {
    let txn = |ops: &&[Op]| Txn {
        ops: ops.to_vec(),
        committed: true,
        from: 0,
        to: 100,
        ..Txn::default()
    };
    History {
        txns: txns.iter().map(txn).collect(),
        present: present.iter().copied().collect(),
    }
}

fn list(items: &[u32]) -> Value {
    Value::List {
        epoch: 0,
        items: items.to_vec(),
    }
}

#[test]
fn the_checker_finds_every_anomaly() {
    use Anomaly::*;
    use Op::{Append, Delete, Read};
    let only = |history: &History, anomaly: Anomaly| {
        assert_eq!(history.anomalies(), BTreeSet::from([anomaly]), "{history:?}");
    };
    let r = |key, items: &[u32]| Read(key, list(items));
    let absent = |key| Read(key, Value::Absent);
    let again = |key, items: &[u32]| {
        Read(
            key,
            Value::List {
                epoch: 1,
                items: items.to_vec(),
            },
        )
    };

    let fine = by_hand(
        &[1, 2],
        &[
            &[r(1, &[]), Append(1, 10)],
            &[r(1, &[10]), Append(2, 11)],
            &[r(1, &[10]), r(2, &[11])],
        ],
    );
    assert!(fine.anomalies().is_empty());
    // Dirty writes: each overwrites the other's.
    only(
        &by_hand(
            &[1, 2],
            &[
                &[Append(1, 10), Append(2, 12)],
                &[Append(1, 11), Append(2, 13)],
                &[r(1, &[10, 11]), r(2, &[13, 12])],
            ],
        ),
        G0,
    );
    // Of what was aborted, or rolled back to a savepoint.
    let mut history = by_hand(&[1], &[&[Append(1, 10)], &[r(1, &[10])]]);
    history.txns[0].committed = false;
    only(&history, G1a);
    let mut history = by_hand(&[1], &[&[], &[r(1, &[10])]]);
    history.txns[0].undone = vec![10];
    only(&history, G1a);
    let mut history = by_hand(&[1], &[&[r(1, &[]), Delete(1)], &[absent(1)]]);
    history.txns[0].committed = false;
    only(&history, G1a);
    // A part of what another wrote. (To have read it first and last is a circle, too.)
    let found = by_hand(
        &[1],
        &[
            &[Append(1, 10), Append(1, 11)],
            &[r(1, &[10])],
            &[r(1, &[10, 11])],
        ],
    )
    .anomalies();
    assert!(found.contains(&G1b), "{found:?}");
    // Each read what the other wrote.
    only(
        &by_hand(
            &[1, 2],
            &[&[Append(1, 10), r(2, &[11])], &[Append(2, 11), r(1, &[10])]],
        ),
        G1c,
    );
    // Read skew; a lost update.
    only(
        &by_hand(
            &[1, 2],
            &[
                &[Append(1, 10), Append(2, 11)],
                &[r(1, &[]), r(2, &[11])],
                &[r(1, &[10])],
            ],
        ),
        GSingle,
    );
    only(
        &by_hand(
            &[1],
            &[
                &[r(1, &[]), Append(1, 10)],
                &[r(1, &[]), Append(1, 11)],
                &[r(1, &[10, 11])],
            ],
        ),
        GSingle,
    );
    // Write skew.
    only(
        &by_hand(
            &[1, 2],
            &[
                &[r(1, &[]), r(2, &[]), Append(1, 10)],
                &[r(1, &[]), r(2, &[]), Append(2, 11)],
                &[r(1, &[10]), r(2, &[11])],
            ],
        ),
        G2Item,
    );
    // Phantoms: both found nothing, both inserted.
    only(
        &by_hand(
            &[],
            &[
                &[absent(1), absent(2), Append(1, 10)],
                &[absent(1), absent(2), Append(2, 11)],
                &[again(1, &[10]), again(2, &[11])],
            ],
        ),
        G2,
    );
    // Deleted, inserted again; one saw the second list and not that the first was gone.
    let later = by_hand(
        &[1],
        &[
            &[r(1, &[]), Append(1, 10)],
            &[r(1, &[10]), Delete(1)],
            &[absent(1), Append(1, 11)],
            &[again(1, &[11])],
        ],
    );
    assert!(later.anomalies().is_empty());
    let mut skew = later.clone();
    skew.present.insert(2);
    skew.txns[2].ops.push(Append(2, 12));
    skew.txns.push(Txn {
        ops: vec![r(1, &[10]), r(2, &[12])],
        ..skew.txns[0].clone()
    });
    only(&skew, GSingle);
    // What no history can have.
    only(
        &by_hand(
            &[1],
            &[&[Append(1, 10)], &[Append(1, 11)], &[r(1, &[10])], &[r(1, &[10])]],
        ),
        Lost,
    );
    only(&by_hand(&[1], &[&[r(1, &[10])]]), Incompatible);
    only(
        &by_hand(&[1], &[&[r(1, &[]), Delete(1)], &[r(1, &[]), Delete(1)]]),
        Lost,
    );
    only(
        &by_hand(
            &[1],
            &[
                &[Append(1, 10)],
                &[Append(1, 11)],
                &[Append(1, 12)],
                &[r(1, &[10, 11])],
                &[r(1, &[10, 12, 11])],
            ],
        ),
        Incompatible,
    );
    // In order, but not in that of real time: one began after the other's end and did not see it.
    let mut stale = by_hand(&[1], &[&[r(1, &[]), Append(1, 10)], &[r(1, &[])], &[r(1, &[10])]]);
    assert!(stale.anomalies().is_empty());
    (stale.txns[0].to, stale.txns[1].from, stale.txns[1].to) = (5, 6, 7);
    only(&stale, NotStrict);
    // In order, but commit timestamps are in another.
    let mut turned = by_hand(&[1], &[&[Append(1, 10)], &[Append(1, 11)], &[r(1, &[10, 11])]]);
    (turned.txns[0].ts, turned.txns[1].ts) = (Some(1), Some(2));
    assert!(turned.anomalies().is_empty());
    (turned.txns[0].ts, turned.txns[1].ts) = (Some(2), Some(1));
    only(&turned, Timestamps);
    // Snapshots: one that misses what its timestamp covers, one that shows more.
    for (ts, items) in [(1, &[][..]), (1, &[10, 11]), (2, &[10])] {
        let mut history = by_hand(
            &[1],
            &[
                &[Append(1, 10)],
                &[Append(1, 11)],
                &[r(1, &[10, 11])],
                &[r(1, items)],
            ],
        );
        (history.txns[0].ts, history.txns[1].ts, history.txns[3].snapshot) = (Some(1), Some(2), Some(ts));
        only(&history, Timestamps);
    }
    // One that is no prefix is a skew as well.
    let mut torn = by_hand(
        &[1, 2],
        &[
            &[Append(1, 10), Append(2, 11)],
            &[r(1, &[10]), r(2, &[])],
            &[r(2, &[11])],
        ],
    );
    (torn.txns[0].ts, torn.txns[1].snapshot) = (Some(1), Some(1));
    assert_eq!(torn.anomalies(), BTreeSet::from([GSingle, Timestamps]));
}

#[test]
fn brute_force_tells_orders_from_others() {
    let r = |key, items: &[u32]| Op::Read(key, list(items));
    let skew = by_hand(
        &[1, 2],
        &[&[r(1, &[]), Op::Append(2, 10)], &[r(2, &[]), Op::Append(1, 11)]],
    );
    let last = BTreeMap::from([(1, list(&[11])), (2, list(&[10]))]);
    assert!(!skew.has_serial_order(&last));
    let mut fine = skew.clone();
    fine.txns[1].ops[0] = r(2, &[10]);
    assert!(fine.has_serial_order(&last));
    assert!(!fine.has_serial_order(&BTreeMap::from([(1, list(&[11])), (2, list(&[]))])));
    fine.txns[0].ops.push(Op::Delete(1));
    assert!(!fine.has_serial_order(&last));
}
