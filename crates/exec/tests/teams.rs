//! Teams as their users see them: members, operations, CTX points, parks.
#![cfg(all(target_os = "linux", target_arch = "x86_64", not(miri)))]


fn scheduler(options: TeamOptions) -> Scheduler {
    let scheduler = Scheduler::new(options).expect("Linux on x86-64");
    set_points(|_| true);
    scheduler
}

fn team() -> Scheduler {
    scheduler(TeamOptions::default())
}

#[test]
fn members_of_a_team_take_turns_at_ctx_points() {
    let log = RefCell::new(String::new());
    let results = team().scope(|scope| {
        for name in ['a', 'b', 'c'] {
            let log = &log;
            scope.spawn(name, move || {
                operation(Operation(3));
                for step in 0..3 {
                    log.borrow_mut().push_str(&format!("{name}{step} "));
                    ctx!();
                }
                name
            });
        }
    });
    assert_eq!(log.into_inner(), "a0 b0 c0 a1 b1 c1 a2 b2 c2 ");
    let names: Vec<char> = results.into_iter().map(|name| name.expect("a name")).collect();
    assert_eq!(names, ['a', 'b', 'c']);
}
