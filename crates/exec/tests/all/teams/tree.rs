//! The shared tree under teams: members of several schedulers change and read it, and stop half way down to let others.

use std::collections::BTreeMap;

use corun_exec::shared_csb::SharedCsbTree;
use corun_exec::teams::{Operation, TeamOptions, operation, pinned};

use super::{all, scheduler};

#[test]
fn members_find_what_they_put_in() {
    const MEMBERS: u64 = 12;
    const STEPS: u64 = 1500;
    let tree = SharedCsbTree::<1>::new();
    std::thread::scope(|threads| {
        for worker in 0..2_u64 {
            let tree = &tree;
            threads.spawn(move || {
                let results = scheduler(TeamOptions {
                    team_size_max: 8,
                    ..Default::default()
                })
                .scope(|scope| {
                    for member in 0..MEMBERS {
                        scope.spawn("client", move || {
                            let own = worker * MEMBERS + member;
                            // Keys of different members are neighbours; what this one has put in and not taken out.
                            let mut oracle = BTreeMap::new();
                            let mut random = own * 7919 + 1;
                            for step in 0..STEPS {
                                random = random
                                    .wrapping_mul(6364136223846793005)
                                    .wrapping_add(1442695040888963407);
                                let key = (random >> 40) % 500 * 24 + own;
                                operation(Operation((step % 3) as u16));
                                pinned(|_| match random >> 33 & 3 {
                                    0 => {
                                        let removed = oracle.remove(&key);
                                        assert_eq!(
                                            tree.remove(&[key], removed.unwrap_or(7)),
                                            removed.is_some()
                                        );
                                    }
                                    1 => assert_eq!(tree.get(&[key]), oracle.get(&key).copied()),
                                    2 => {
                                        let mut cursor = tree.cursor();
                                        cursor.seek(&[key]);
                                        let next = std::iter::from_fn(|| cursor.next())
                                            .find(|(found, _)| found[0] % 24 == own);
                                        let expected = oracle.range(key..).next();
                                        assert_eq!(next, expected.map(|(&key, &rid)| ([key], rid)));
                                    }
                                    _ => {
                                        let there = oracle.get(&key).copied();
                                        let inserted =
                                            tree.insert_unique(&[key], step as u32).expect("memory");
                                        assert_eq!(inserted.err(), there);
                                        oracle.entry(key).or_insert(step as u32);
                                    }
                                });
                            }
                            oracle.len()
                        });
                    }
                });
                let left: usize = all(results).into_iter().sum();
                assert!(left > 0);
            });
        }
    });
    tree.check();
}
