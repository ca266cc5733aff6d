//! Random programs: whatever members do, each does its steps in its own order and nobody is lost.
//!
//! The oracle keeps the rules that every schedule must: at a CTX point in a team the next member of the team goes on; a member that
//! parks is woken by the one that says so.

use std::cell::RefCell;

use corun_exec::ctx;
use corun_exec::teams::{
    Lost, NextTeam, Operation, TeamOptions, TeamsMode, Token, control, latch, operation, park, yield_now,
};
use proptest::prelude::*;

use super::scheduler;

/// A step of a member.
#[derive(Clone, Debug)]
enum Step {
    Operation(u16),
    Ctx,
    CtxInLatch,
    Yield,
    /// Wakes a member and then waits for being woken itself. The last thing each member does is to wake all, so that nobody waits
    /// for ever.
    WakeAndPark(usize),
    Spawn,
    Mode(bool),
    Panic,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => (0_u16..5).prop_map(Step::Operation),
        8 => Just(Step::Ctx),
        2 => Just(Step::CtxInLatch),
        2 => Just(Step::Yield),
        2 => (0_usize..8).prop_map(Step::WakeAndPark),
        1 => Just(Step::Spawn),
        1 => any::<bool>().prop_map(Step::Mode),
        1 => Just(Step::Panic),
    ]
}

/// What is known of the members.
#[derive(Default)]
struct World {
    /// Steps done, by member.
    done: Vec<usize>,
    children: usize,
    tokens: Vec<Option<Token>>,
    ended: usize,
}

fn wake_all(world: &RefCell<World>) {
    let tokens = world.borrow().tokens.clone();
    for token in tokens.into_iter().flatten() {
        token.unpark();
    }
}

proptest! {
    #[test]
    fn every_member_does_every_step_in_order(
        programs in prop::collection::vec(prop::collection::vec(step(), 0..40), 1..12),
        team_size_max in 1_usize..6,
        next_team in prop_oneof![Just(NextTeam::LastMember), Just(NextTeam::Largest), Just(NextTeam::Oldest)],
        float in any::<bool>(),
    ) {
        let world = RefCell::new(World {
            done: vec![0; programs.len()],
            tokens: vec![None; programs.len()],
            ..World::default()
        });
        let mut scheduler = scheduler(TeamOptions { team_size_max, next_team, float, ..TeamOptions::default() });
        let results = scheduler.scope(|scope| {
            for (number, program) in programs.iter().enumerate() {
                let world = &world;
                scope.spawn(format!("{number}"), move || {
                    world.borrow_mut().tokens[number] = Token::current();
                    struct Ends<'a>(&'a RefCell<World>);
                    impl Drop for Ends<'_> {
                        fn drop(&mut self) {
                            self.0.borrow_mut().ended += 1;
                            wake_all(self.0);
                        }
                    }
                    let _ends = Ends(world);
                    for (place, step) in program.iter().enumerate() {
                        // A local that must survive every switch.
                        let mine = std::hint::black_box(number * 1000 + place);
                        match step {
                            Step::Operation(number) => operation(Operation(*number)),
                            Step::Ctx => ctx!(prefetch = &raw const mine),
                            Step::CtxInLatch => {
                                let _latch = latch();
                                let before: usize = world.borrow().done.iter().sum();
                                ctx!();
                                assert_eq!(world.borrow().done.iter().sum::<usize>(), before);
                            }
                            Step::Yield => yield_now(),
                            Step::WakeAndPark(other) => {
                                let token = world.borrow().tokens.get(*other).cloned().flatten();
                                if let Some(token) = token {
                                    token.unpark();
                                }
                                // Waits only for somebody who will still end, which wakes it.
                                if world.borrow().ended == 0 {
                                    park(Some(std::time::Instant::now() + std::time::Duration::from_micros(50)));
                                }
                            }
                            Step::Spawn => scope.spawn("child", move || {
                                operation(Operation(1));
                                ctx!();
                                world.borrow_mut().children += 1;
                                usize::MAX
                            }),
                            Step::Mode(serial) => {
                                let mode = if *serial { TeamsMode::Serial } else { TeamsMode::Teams };
                                control().expect("a member").set_mode(mode);
                            }
                            Step::Panic => {
                                world.borrow_mut().done[number] = place + 1;
                                std::panic::resume_unwind(Box::new(mine));
                            }
                        }
                        assert_eq!(mine, number * 1000 + place);
                        let done = &mut world.borrow_mut().done[number];
                        assert_eq!(*done, place, "in its own order");
                        *done = place + 1;
                    }
                    number
                });
            }
        });
        let world = world.into_inner();
        let mut children = 0;
        for (number, program) in programs.iter().enumerate() {
            let panics = program.iter().position(|step| matches!(step, Step::Panic));
            let steps = &program[..panics.map_or(program.len(), |place| place + 1)];
            prop_assert_eq!(world.done[number], steps.len());
            children += steps.iter().filter(|step| matches!(step, Step::Spawn)).count();
            match (&results[number], panics) {
                (Ok(returned), None) => prop_assert_eq!(*returned, number),
                (Err(Lost::Panicked(payload)), Some(place)) => {
                    prop_assert_eq!(payload.downcast_ref::<usize>(), Some(&(number * 1000 + place)));
                }
                (result, _) => prop_assert!(false, "member {} ended as {:?}", number, result),
            }
        }
        prop_assert_eq!(world.children, children);
        prop_assert_eq!(results.len(), programs.len() + children);
        prop_assert_eq!(world.ended, programs.len());
        let statistics = scheduler.statistics();
        prop_assert!(statistics.iter().all(|one| one.out <= one.in_ && one.in_ <= one.teams * team_size_max as u64));
    }
}
