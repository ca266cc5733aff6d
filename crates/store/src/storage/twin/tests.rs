//! The twin itself: what it keeps, what it may lose, and its switches. What it is not: a test of the log.

use super::super::read_all;
use super::*;

/// A disk with a synced and an unsynced half in one file.
fn half_synced() -> Twin {
    let twin = Twin::new(0);
    let file = twin.create("a").unwrap();
    file.append(&[1; 2000]).unwrap();
    file.sync().unwrap();
    twin.sync_names().unwrap();
    file.append(&[2; 3000]).unwrap();
    file.append(&[3; 3000]).unwrap();
    twin
}

#[test]
fn synced_bytes_stay_and_the_rest_may_be_lost_torn_or_reordered() {
    let twin = half_synced();
    let (mut none, mut all, mut torn, mut reordered) = (0, 0, 0, 0);
    for seed in 0..1000 {
        let bytes = twin.crash(seed).bytes("a").unwrap();
        assert_eq!(bytes[..2000], [1; 2000], "seed {seed}");
        let rest = &bytes[2000..];
        match rest.iter().position(|byte| *byte == 0) {
            None if rest.is_empty() => none += 1,
            None if rest.len() == 6000 => all += 1,
            None => torn += 1,
            Some(hole) => {
                let back = rest[hole..].iter().any(|byte| *byte != 0);
                reordered += usize::from(back);
            }
        }
        // A sector arrives whole or not at all.
        for sector in bytes.get(2048..).unwrap_or_default().chunks(512).take(5) {
            assert!(sector.iter().all(|byte| *byte == sector[0]), "seed {seed}");
        }
    }
    for (what, count) in [
        ("none", none),
        ("all", all),
        ("torn", torn),
        ("reordered", reordered),
    ] {
        assert!(count > 20, "{what}: {count}");
    }
    assert_eq!(twin.bytes("a").unwrap().len(), 8000, "the disk itself goes on");
}

#[test]
fn the_same_seed_gives_the_same_crash() {
    let twin = half_synced();
    for seed in 0..50 {
        assert_eq!(
            twin.crash(seed).bytes("a").unwrap(),
            twin.crash(seed).bytes("a").unwrap()
        );
    }
}

#[test]
fn names_without_a_sync_may_be_lost_and_a_rename_may_be_undone() {
    let twin = Twin::new(0);
    twin.put("old", b"old");
    let file = twin.create("new").unwrap();
    file.append(b"new").unwrap();
    file.sync().unwrap();
    twin.rename("new", "old").unwrap();
    let mut found = [0; 2];
    for seed in 0..200 {
        match twin.crash(seed).bytes("old").unwrap().as_slice() {
            b"old" => found[0] += 1,
            b"new" => found[1] += 1,
            other => panic!("{other:?}"),
        }
    }
    assert!(found[0] > 10 && found[1] > 10, "{found:?}");
    twin.sync_names().unwrap();
    for seed in 0..50 {
        let after = twin.crash(seed);
        assert_eq!(after.bytes("old").unwrap(), b"new");
        assert_eq!(after.names().unwrap(), ["old"]);
    }
}

#[test]
fn a_full_disk_takes_what_fits() {
    let twin = Twin::new(0);
    let file = twin.create("a").unwrap();
    twin.full_at(Some(10));
    file.append(&[1; 8]).unwrap();
    assert_eq!(file.append(&[2; 8]).unwrap_err().kind(), ErrorKind::StorageFull);
    assert_eq!(read_all(&*file).unwrap(), [1, 1, 1, 1, 1, 1, 1, 1, 2, 2]);
    twin.full_at(None);
    file.append(&[3; 8]).unwrap();
}

#[test]
fn what_is_reserved_is_the_file_s_own() {
    let twin = Twin::new(0);
    let (one, other) = (twin.create("a").unwrap(), twin.create("b").unwrap());
    twin.full_at(Some(100));
    one.append(&[1; 10]).unwrap();
    one.reserve(60).unwrap();
    assert_eq!((one.length().unwrap(), twin.used()), (10, 60));
    assert_eq!(other.reserve(41).unwrap_err().kind(), ErrorKind::StorageFull);
    other.append(&[2; 40]).unwrap();
    assert!(other.append(&[2]).is_err());
    one.append(&[1; 50]).unwrap();
    assert!(one.append(&[1]).is_err());
    one.truncate(20).unwrap();
    other.append(&[2; 40]).unwrap();
    assert!(one.append(&[1]).is_err());
}

#[test]
fn a_failed_sync_loses_its_bytes_for_good() {
    let twin = half_synced();
    let file = twin.open("a").unwrap();
    twin.fail_sync_after(0);
    assert!(file.sync().is_err());
    file.sync().unwrap();
    for seed in 0..20 {
        assert_eq!(twin.crash(seed).bytes("a").unwrap(), [1; 2000]);
    }
}

#[test]
fn a_lying_disk_loses_what_was_synced() {
    let twin = Twin::new(0);
    twin.lose_syncs(true);
    let file = twin.create("a").unwrap();
    file.append(&[1; 600]).unwrap();
    file.sync().unwrap();
    twin.sync_names().unwrap();
    assert!((0..100).any(|seed| twin.crash(seed).names().unwrap().is_empty()));
}

#[test]
fn a_stopped_or_read_only_disk_takes_no_effect_and_still_reads() {
    let twin = half_synced();
    let file = twin.open("a").unwrap();
    twin.stop_after(1);
    file.append(&[4; 4]).unwrap();
    assert!(file.append(&[5; 4]).is_err());
    assert!(twin.create("b").is_err());
    assert!(file.sync().is_err());
    assert_eq!(file.length().unwrap(), 8006, "half of the append that failed");

    let twin = half_synced();
    twin.read_only(true);
    for error in [
        twin.create("b").err(),
        twin.remove("a").err(),
        twin.sync_names().err(),
        twin.lock().err(),
    ] {
        assert_eq!(error.unwrap().kind(), ErrorKind::ReadOnlyFilesystem);
    }
    assert_eq!(twin.bytes("a").unwrap().len(), 8000);
}

#[test]
fn a_disk_has_one_owner_and_flips_are_seen() {
    let twin = half_synced();
    let guard = twin.lock().unwrap();
    assert_eq!(twin.clone().lock().err().unwrap().kind(), ErrorKind::WouldBlock);
    drop(guard);
    drop(twin.lock().unwrap());
    twin.flip("a", 3, 1).unwrap();
    assert_eq!(twin.crash(0).bytes("a").unwrap()[..5], [1, 1, 1, 3, 1]);
    assert!(twin.flip("a", 9000, 1).is_err());
}

#[test]
fn a_killed_program_leaves_what_it_wrote_until_power_fails() {
    let twin = half_synced();
    twin.full_at(Some(0));
    let after = twin.kill();
    assert_eq!(after.bytes("a").unwrap().len(), 8000);
    after.open("a").unwrap().append(&[9; 9]).unwrap();
    assert_eq!(
        (twin.bytes("a").unwrap().len(), after.bytes("a").unwrap().len()),
        (8000, 8009)
    );
    assert!((0..50).any(|seed| after.crash(seed).bytes("a").unwrap().len() == 2000));
}

#[test]
fn bytes_written_over_others_leave_each_sector_as_it_was_or_new() {
    let twin = Twin::new(0);
    let file = twin.create("a").unwrap();
    file.append(&[1; 4096]).unwrap();
    file.sync().unwrap();
    twin.sync_names().unwrap();
    file.write_at(1000, &[2; 2000]).unwrap();
    // Past the end there is nothing but zeros between.
    file.write_at(5000, &[3; 100]).unwrap();
    let seen = twin.bytes("a").unwrap();
    assert_eq!(
        (seen.len(), &seen[999..1001], &seen[4096..4097]),
        (5100, &[1, 2][..], &[0][..])
    );
    let mut mixed = 0;
    for seed in 0..200 {
        let bytes = twin.crash(seed).bytes("a").unwrap();
        assert!(bytes.len() >= 4096);
        assert_eq!(
            (&bytes[..1000], &bytes[3000..4096]),
            (&[1; 1000][..], &[1; 1096][..])
        );
        let sectors: Vec<u8> = bytes[1024..2560].chunks(512).map(|sector| sector[0]).collect();
        assert!(
            bytes[1024..2560]
                .chunks(512)
                .all(|sector| sector.iter().all(|byte| *byte == sector[0]))
        );
        mixed += usize::from(sectors.contains(&1) && sectors.contains(&2));
    }
    assert!(mixed > 10, "{mixed}");
}
