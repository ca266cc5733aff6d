//! Scans of a snapshot that stop and go on.

use corun_store::{Direction, Options, SnapshotScan, Store, TableDef, Type, Value};

/// However often a scan stops, and whatever others change meanwhile, it returns the rows of one that does not.
#[test]
fn a_scan_goes_on_where_it_stopped() {
    let store = Store::in_memory(Options::default()).unwrap();
    let definition = TableDef::new("t")
        .column("id", Type::I64)
        .column("kind", Type::I16)
        .primary_key(&["id"])
        .index("by_kind", &["kind"]);
    let table = store.create_table(definition).unwrap();
    let mut session = store.session_here().unwrap();
    let transaction = session.begin().unwrap();
    for id in 0..900_i64 {
        let mut row = table.new_row();
        row.set(0, id).unwrap();
        row.set(1, id % 3).unwrap();
        transaction.insert(&table, &row).unwrap();
    }
    transaction.commit().unwrap();
    let snapshot = store.snapshot().unwrap();
    for (name, range) in [
        ("primary", table.primary().all()),
        ("by_kind", table.index("by_kind").unwrap().all()),
        (
            "by_kind",
            table.index("by_kind").unwrap().point(&[1.into()]).unwrap(),
        ),
    ] {
        let index = table.index(name).unwrap();
        let ids = |scan: SnapshotScan<'_>| scan.map(|found| found.row.int(0)).collect::<Vec<_>>();
        let whole = ids(snapshot.scan(&index, &range, Direction::Ascending).unwrap());
        for step in [1, 7, 300] {
            let (mut parts, mut place) = (Vec::new(), None);
            loop {
                let mut scan = match &place {
                    None => snapshot.scan(&index, &range, Direction::Ascending).unwrap(),
                    Some(place) => snapshot.scan_after(&index, &range, place).unwrap(),
                };
                let part: Vec<i64> = scan.by_ref().take(step).map(|found| found.row.int(0)).collect();
                if part.is_empty() {
                    break;
                }
                place = scan.place();
                // The row it stopped at goes, and comes again under another number.
                let transaction = session.begin().unwrap();
                let id = Value::Int(part[part.len() - 1]);
                let primary = table.primary();
                if let Some(found) = transaction.fetch_for_update(&primary, &[id]).unwrap() {
                    let mut row = table.new_row();
                    row.set(0, found.row.int(0)).unwrap();
                    row.set(1, found.row.int(1)).unwrap();
                    transaction.delete(&table, found.rid).unwrap();
                    transaction.insert(&table, &row).unwrap();
                }
                transaction.commit().unwrap();
                parts.extend(part);
            }
            assert_eq!(parts, whole, "{name} in steps of {step}");
        }
    }
}
