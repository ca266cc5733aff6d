//! Checkpoints and manifests: whole or not at all at every crash point, checked when read, from several threads.

use std::sync::Arc;
use std::thread;

use corun_store::Ts;
use corun_store::checkpoint::{
    CheckpointError, CheckpointFile, CheckpointReader, CheckpointWriter, ChunkName, Manifest, Role,
};
use corun_store::log::{Log, LogEnd, LogOptions, LogReader, OnDamage};
use corun_store::park::ThreadPark;
use corun_store::storage::{Folder, Storage, Twin};

const STORE: u64 = 99;

/// What the checkpoint at `ts` holds: catalog and chunks.
fn content(ts: u64) -> (Vec<u8>, Vec<(u32, Vec<u8>)>) {
    let catalog = format!("catalog {ts}").into_bytes();
    (
        catalog,
        (0..5)
            .map(|chunk| {
                (
                    chunk as u32 + 1,
                    vec![(ts + chunk) as u8; (ts * 700 + chunk * 333) as usize],
                )
            })
            .collect(),
    )
}

/// A chunk that each checkpoint has of its own: no later one says anything of its range.
fn own(ts: u64) -> (u32, Vec<u8>) {
    (1000 + ts as u32, vec![ts as u8; 100])
}

fn whole(table: u32) -> ChunkName {
    let (range, role) = (7, Role::Whole);
    ChunkName { table, range, role }
}

/// Writes the checkpoint at `ts` beside the newest file of the one before.
fn write(storage: &Arc<dyn Storage>, ts: u64) -> Result<Manifest, CheckpointError> {
    let (catalog, chunks) = content(ts);
    let before = Manifest::read(&**storage)?.map_or_else(Vec::new, |manifest| manifest.files);
    let kept: Vec<CheckpointFile> = before
        .into_iter()
        .next_back()
        .filter(|file| file.ts != Ts(ts))
        .into_iter()
        .collect();
    let writer = CheckpointWriter::begin(Arc::clone(storage), STORE, Ts(ts), &catalog, &kept)?;
    for (table, bytes) in chunks.iter().chain([&own(ts)]) {
        writer.chunk(whole(*table), bytes)?;
    }
    writer.finish(&kept)
}

/// The commit of the checkpoint in force, which must be whole.
fn check(storage: &dyn Storage) -> Result<Option<u64>, CheckpointError> {
    let Some(manifest) = Manifest::read(storage)? else {
        return Ok(None);
    };
    assert_eq!(manifest.store_id, STORE);
    let reader = CheckpointReader::open(storage, &manifest)?;
    if manifest.files.is_empty() {
        assert_eq!((manifest.ts, reader.head(), reader.parts()), (Ts(0), &[][..], 0));
        return Ok(Some(0));
    }
    let (catalog, mut expected) = content(manifest.ts.0);
    assert_eq!(reader.head(), catalog);
    expected.extend(manifest.files.iter().map(|file| own(file.ts.0)));
    let part = |index| {
        let part = reader.part(index)?;
        let [(Role::Whole, _, bytes)] = &part.chunks[..] else {
            panic!("{part:?}");
        };
        Ok((part.table, bytes.clone()))
    };
    let read: Result<Vec<_>, CheckpointError> = (0..reader.parts()).map(part).collect();
    let mut read = read?;
    read.sort();
    expected.sort();
    assert_eq!(read, expected);
    Ok(Some(manifest.ts.0))
}

fn of(twin: &Twin) -> Arc<dyn Storage> {
    Arc::new(twin.clone())
}

#[test]
fn the_newest_checkpoint_counts_and_the_others_go() {
    let folder = tempfile::tempdir().unwrap();
    for storage in [
        of(&Twin::new(1)),
        Arc::new(Folder::open(folder.path()).unwrap()) as Arc<dyn Storage>,
    ] {
        assert_eq!(check(&*storage).unwrap(), None);
        let manifest = Manifest::create(&*storage, STORE).unwrap();
        assert_eq!(Manifest::read(&*storage).unwrap(), Some(manifest));
        assert_eq!(check(&*storage).unwrap(), Some(0));
        let again = Manifest::create(&*storage, STORE + 1).unwrap_err();
        assert!(again.to_string().contains("already exists"), "{again}");
        for ts in [1, 5, 5, 5, 9] {
            let manifest = write(&storage, ts).unwrap();
            assert_eq!(Manifest::read(&*storage).unwrap(), Some(manifest));
            assert_eq!(check(&*storage).unwrap(), Some(ts));
            assert!(storage.names().unwrap().len() <= 3, "two files and the manifest");
        }
        // One that is not finished does not count, and leaves nothing for long.
        let unfinished = CheckpointWriter::begin(Arc::clone(&storage), STORE, Ts(12), b"", &[]).unwrap();
        unfinished.chunk(whole(1), &[1; 1000]).unwrap();
        drop(unfinished);
        assert_eq!(check(&*storage).unwrap(), Some(9));
        write(&storage, 13).unwrap();
        assert_eq!(storage.names().unwrap().len(), 3);
        let older = write(&storage, 8).err().unwrap();
        assert!(
            matches!(older, CheckpointError::Older { ts: 8, newest: 13 }),
            "{older}"
        );
    }
}

#[test]
fn threads_write_and_read_chunks_together() {
    let folder = tempfile::tempdir().unwrap();
    let storage: Arc<dyn Storage> = Arc::new(Folder::open(folder.path()).unwrap());
    let writer = CheckpointWriter::begin(Arc::clone(&storage), STORE, Ts(3), b"catalog", &[]).unwrap();
    thread::scope(|scope| {
        for thread in 0..4_u32 {
            let writer = &writer;
            scope.spawn(move || {
                for number in 0..100 {
                    let name = ChunkName {
                        range: u32::from(number),
                        ..whole(thread)
                    };
                    writer
                        .chunk(name, &vec![number; 1000 + usize::from(number) * 7])
                        .unwrap();
                }
            });
        }
    });
    let reader = CheckpointReader::open(&*storage, &writer.finish(&[]).unwrap()).unwrap();
    assert_eq!(reader.parts(), 400);
    let mut found: Vec<(u32, u8)> = thread::scope(|scope| {
        let readers: Vec<_> = (0..4)
            .map(|part| {
                let reader = &reader;
                scope.spawn(move || {
                    let of_part = (0..100).map(|at| reader.part(part * 100 + at).unwrap());
                    let check = |part: corun_store::checkpoint::Part| {
                        let bytes = &part.chunks[0].2;
                        let number = bytes[0];
                        assert!(*bytes == vec![number; 1000 + usize::from(number) * 7]);
                        (part.table, number)
                    };
                    of_part.map(check).collect::<Vec<_>>()
                })
            })
            .collect();
        readers
            .into_iter()
            .flat_map(|reader| reader.join().unwrap())
            .collect()
    });
    found.sort_unstable();
    assert!(
        found
            .into_iter()
            .eq((0..4).flat_map(|thread| (0..100).map(move |number| (thread, number))))
    );
    assert!(matches!(
        reader.part(400),
        Err(CheckpointError::NoSuchPart {
            index: 400,
            count: 400
        })
    ));
}

#[test]
fn a_crash_at_any_point_leaves_the_old_or_the_new_one_whole() {
    let mut seen = [0; 3];
    for effects in 0.. {
        let mut finished = false;
        for seed in 0..40 {
            let disk = Twin::new(seed);
            let storage = of(&disk);
            Manifest::create(&*storage, STORE).unwrap();
            write(&storage, 4).unwrap();
            // Of an attempt before.
            disk.put("checkpoint-00000000000000000007-0.corun", b"left over");
            disk.stop_after(effects);
            let written = write(&storage, 7);
            let after = if seed % 4 == 0 {
                disk.kill()
            } else {
                disk.crash(seed * 1000 + effects)
            };
            let newest = check(&after)
                .unwrap_or_else(|error| panic!("{effects}, seed {seed}: {error}"))
                .unwrap();
            if written.is_ok() {
                assert_eq!(newest, 7, "{effects}, seed {seed}");
                finished = true;
                seen[2] += 1;
            } else {
                seen[usize::from(newest == 7)] += 1;
            }
            assert!(newest == 4 || newest == 7);
            // And the next one, at the same commit.
            write(&of(&after), 7).unwrap();
            assert_eq!(check(&after.crash(seed)).unwrap(), Some(7));
            assert!(after.names().unwrap().len() <= 3);
        }
        if finished && effects > 30 {
            break;
        }
    }
    assert!(seen.into_iter().all(|count| count > 10), "{seen:?}");
}

#[test]
fn a_kill_at_any_point_of_one_and_a_crash_at_any_point_of_the_next_leave_one_of_them_whole() {
    let mut seen = [0; 3];
    for effects in 0..28 {
        for then in (0..30).step_by(2) {
            for seed in 0..6 {
                let disk = Twin::new(seed);
                let storage = of(&disk);
                Manifest::create(&*storage, STORE).unwrap();
                write(&storage, 4).unwrap();
                disk.stop_after(effects);
                let first = write(&storage, 7).is_ok();
                let disk = disk.kill();
                disk.stop_after(then);
                let second = write(&of(&disk), 8).is_ok();
                let after = disk.crash(seed * 1000 + then);
                let newest =
                    check(&after).unwrap_or_else(|error| panic!("{effects}, {then}, seed {seed}: {error}"));
                let least = if second {
                    8
                } else if first {
                    7
                } else {
                    4
                };
                let newest = newest.unwrap();
                assert!(newest >= least, "{effects}, {then}, seed {seed}: {newest}");
                seen[[4, 7, 8].iter().position(|ts| *ts == newest).unwrap()] += 1;
            }
        }
    }
    assert!(seen.into_iter().all(|count| count > 50), "{seen:?}");
}

#[test]
fn a_crash_while_the_first_manifest_is_made_leaves_a_fresh_folder() {
    for effects in 0..8 {
        for seed in 0..30 {
            let disk = Twin::new(seed);
            disk.stop_after(effects);
            let made = Manifest::create(&disk, STORE).is_ok();
            let after = disk.crash(seed);
            let found = check(&after).unwrap();
            assert!(!made || found == Some(0));
            if found.is_none() {
                Manifest::create(&after, STORE).unwrap();
            }
            assert_eq!(check(&after.crash(seed)).unwrap(), Some(0));
        }
    }
}

/// Commits, a checkpoint of them, removal of the log before it, more commits; power off after each effect.
#[test]
fn no_commit_is_lost_between_checkpoint_and_log() {
    let options = || LogOptions {
        segment_bytes: 4096,
        ..LogOptions::default()
    };
    let park = ThreadPark::current();
    let commit = |log: &Log, number: u64| -> u64 {
        let mut durable = 0;
        for _ in 0..number {
            let next = (log.last().0 + 1).to_le_bytes().repeat(60);
            let waited = log
                .append(&next, &park, |_| {})
                .and_then(|ts| log.wait_durable(ts, &park).map(|()| ts.0));
            match waited {
                Ok(ts) => durable = ts,
                Err(_) => break,
            }
        }
        durable
    };
    for effects in 0..90 {
        for seed in 0..8 {
            let disk = Twin::new(seed);
            let storage = of(&disk);
            Manifest::create(&*storage, STORE).unwrap();
            let log = Log::start(Arc::clone(&storage), STORE, LogEnd::default(), options()).unwrap();
            let mut durable = commit(&log, 30);
            disk.stop_after(effects);
            if write(&storage, 20).is_ok() {
                let _ = log.remove_before(Ts(20));
            }
            durable = durable.max(commit(&log, 20));
            let mut disk = disk.crash(seed * 100 + effects);
            drop(log);
            // Twice, the second time after a crash of what came back.
            for round in 0..2 {
                let checkpoint = check(&disk).unwrap().unwrap();
                let mut reader = LogReader::open(of(&disk), STORE, Ts(checkpoint), OnDamage::Refuse).unwrap();
                let mut last = checkpoint;
                while let Some(segment) = reader
                    .next_segment()
                    .unwrap_or_else(|error| panic!("{effects}, {seed}: {error}"))
                {
                    for (ts, range) in segment.blocks {
                        last += 1;
                        assert_eq!(ts.0, last);
                        assert_eq!(segment.bytes[range], last.to_le_bytes().repeat(60));
                    }
                }
                assert!(
                    last >= durable,
                    "{effects}, seed {seed}, round {round}: {durable} was durable, {last} is left"
                );
                let log = Log::start(of(&disk), STORE, reader.end().unwrap(), options()).unwrap();
                durable = commit(&log, 5);
                assert_eq!(durable, last + 5);
                disk = disk.crash(seed);
            }
        }
    }
}

#[test]
fn a_checkpoint_that_cannot_be_written_changes_nothing() {
    let disk = Twin::new(1);
    let storage = of(&disk);
    Manifest::create(&*storage, STORE).unwrap();
    write(&storage, 4).unwrap();
    disk.full_at(Some(20_000));
    let error = write(&storage, 9).unwrap_err();
    assert!(
        error.to_string().contains("disk is full") && error.to_string().contains("checkpoint-0"),
        "{error}"
    );
    assert_eq!(check(&disk).unwrap(), Some(4));
    disk.full_at(None);

    let writer = CheckpointWriter::begin(of(&disk), STORE, Ts(9), b"", &[]).unwrap();
    disk.read_only(true);
    assert!(writer.chunk(whole(1), b"x").is_err());
    disk.read_only(false);
    assert!(writer.chunk(whole(1), b"y").is_err(), "an error stays");
    assert!(writer.finish(&[]).is_err());
    for syncs in 0..2 {
        disk.fail_sync_after(syncs);
        assert!(write(&of(&disk), 9).is_err());
        for seed in 0..10 {
            assert_eq!(check(&disk.crash(seed)).unwrap(), Some(4));
        }
    }
    write(&storage, 9).unwrap();
    assert_eq!(check(&disk).unwrap(), Some(9));
}

/// Whether a byte of the file at commit 3 belongs to a chunk that the one at commit 5 has replaced.
fn is_dead(at: u64, bytes: u64) -> bool {
    let chunks: usize = content(3).1.iter().map(|(_, bytes)| bytes.len()).sum();
    let first = 32 + content(3).0.len() as u64;
    let last = first + chunks as u64;
    assert!(last < bytes);
    (first..last).contains(&at)
}

#[test]
fn every_flipped_byte_is_seen() {
    let disk = Twin::new(1);
    Manifest::create(&disk, STORE).unwrap();
    write(&of(&disk), 3).unwrap();
    let manifest = write(&of(&disk), 5).unwrap();
    let [older, newer] = &manifest.files[..] else {
        panic!("{manifest:?}");
    };
    let manifest_bytes = disk.bytes("corun.manifest").unwrap().len() as u64;
    for (name, length) in [
        ("corun.manifest".to_string(), manifest_bytes),
        (older.name.clone(), older.bytes),
        (newer.name.clone(), newer.bytes),
    ] {
        for at in (0..length).filter(|at| at % 37 == 0 || *at < 40 || *at + 200 > length) {
            let broken = disk.kill();
            broken.flip(&name, at, at as u8).unwrap();
            if name == older.name && is_dead(at, older.bytes) {
                // Chunks that a newer file has replaced are not read.
                assert_eq!(check(&broken).unwrap(), Some(5));
                continue;
            }
            let error = check(&broken).unwrap_err();
            let said = error.to_string();
            assert!(said.contains(&name), "byte {at}: {said}");
            match error {
                CheckpointError::Damaged { offset, .. } => assert!(offset <= at, "byte {at}: {said}"),
                _ => panic!("byte {at}: {said}"),
            }
        }
        for cut in 0..length.min(120) {
            let broken = disk.kill();
            broken.put(&name, &disk.bytes(&name).unwrap()[..cut as usize]);
            assert!(
                matches!(check(&broken), Err(CheckpointError::Damaged { .. })),
                "cut to {cut}"
            );
        }
    }
    // Each missing; the one in the place of the other.
    for (name, other) in [(&older.name, &newer.name), (&newer.name, &older.name)] {
        let broken = disk.kill();
        broken.remove(name).unwrap();
        let error = check(&broken).unwrap_err();
        assert!(
            matches!(error, CheckpointError::Storage(_)) && error.to_string().contains(name),
            "{error}"
        );
        broken.put(name, &disk.bytes(other).unwrap());
        let error = check(&broken).unwrap_err();
        assert!(
            matches!(error, CheckpointError::Damaged { .. }) && error.to_string().contains(name),
            "{error}"
        );
    }
}

#[test]
fn folders_that_are_no_store_are_refused() {
    let said = |name: &str, bytes: &[u8]| {
        let disk = Twin::new(1);
        disk.put(name, bytes);
        Manifest::read(&disk).unwrap_err().to_string()
    };
    let foreign = said("holiday.jpg", b"");
    assert!(
        foreign.contains("no folder of a store") && foreign.contains("holiday.jpg"),
        "{foreign}"
    );
    for name in [
        "log-00000000000000000001.corun",
        "checkpoint-00000000000000000001-0.corun",
    ] {
        assert!(said(name, b"").contains("part of a store is missing"), "{name}");
    }
    assert!(said("corun.manifest", b"hello").contains("too short"));
    assert!(said("corun.manifest", &[b'x'; 64]).contains("first bytes"));
    let mut newer = b"corunman".to_vec();
    newer.extend_from_slice(&5_u32.to_le_bytes());
    newer.resize(64, 0);
    let sum = crc32fast::hash(&[&newer[..12], &newer[16..]].concat());
    newer[12..16].copy_from_slice(&sum.to_le_bytes());
    assert!(said("corun.manifest", &newer).contains("format version 5"));

    // The checkpoint of another store, and of another commit.
    let (one, two) = (Twin::new(1), Twin::new(2));
    let name = write(&of(&one), 3).unwrap().files.remove(0).name;
    Manifest::create(&two, STORE + 1).unwrap();
    let writer = CheckpointWriter::begin(of(&two), STORE + 1, Ts(3), &content(3).0, &[]).unwrap();
    let chunks = content(3).1;
    chunks
        .iter()
        .chain([&own(3)])
        .for_each(|(table, bytes)| writer.chunk(whole(*table), bytes).unwrap());
    writer.finish(&[]).unwrap();
    one.put(&name, &two.bytes(&name).unwrap());
    assert!(matches!(
        check(&one),
        Err(CheckpointError::OtherStore {
            found: 100,
            wanted: 99,
            ..
        })
    ));
}
