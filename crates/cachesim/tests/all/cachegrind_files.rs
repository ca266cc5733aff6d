//! Output files of cachegrind and callgrind, written by hand and made up: what is read from them, and what is refused.

use corun_cachesim::cachegrind::{Counts, DifferenceError, Event, Problem, Profile};
use corun_cachesim::callgrind::{CallgrindProblem, Executed};
use proptest::prelude::*;

const SMALL: &str = "\
desc: I1 cache:         32768 B, 64 B, 8-way associative
cmd: ./program
events: Ir I1mr ILmr Dr D1mr DLmr Dw D1mw DLmw Bc Bcm Bi Bim
fl=a.c
fn=load
3 100 2 1 60 6 3 10 1 0 20 2
4 100 0 0 20 2 0 10
fl=???
fn=???
0 50 1 1 . . . 5
fl=a.c
fn=load
9 50
summary: 300 3 2 80 8 3 25 1 0 20 2 0 0
";

fn problem(text: &str) -> (usize, Problem) {
    let error = Profile::parse(text).expect_err("it is damaged");
    (error.line, error.problem)
}

#[test]
fn a_file_is_read_by_function() {
    let profile = Profile::parse(SMALL).expect("a whole file");
    assert_eq!(profile.functions().len(), 2);
    let load = &profile.functions()[0];
    assert_eq!((load.file.as_str(), load.name.as_str()), ("a.c", "load"));
    // Both of its places, with columns missing at the end.
    assert_eq!(load.counts.get(Event::Instructions), 250);
    assert_eq!(load.counts.get(Event::ConditionalMispredictions), 2);
    assert_eq!(profile.functions()[1].counts.get(Event::Loads), 0);
    let total = profile.total();
    assert_eq!(total.l1d_load_miss_percent(), Some(10.0));
    assert_eq!(total.last_load_miss_percent(), Some(37.5));
    assert_eq!(total.l1i_miss_percent(), Some(1.0));
    assert_eq!(total.branch_mispredict_percent(), Some(10.0));
    let mix = total.mix().expect("instructions");
    assert!(
        (mix.load_percent + mix.store_percent + mix.branch_percent + mix.other_percent - 100.0).abs() < 1e-9
    );
    assert!((mix.load_percent - 80.0 / 3.0).abs() < 1e-9);
    assert_eq!(profile.named_percent().map(f64::round), Some(83.0));
    let top = profile.top(&[Event::L1iMisses], 9);
    assert_eq!(
        top.iter().map(|f| f.name.as_str()).collect::<Vec<_>>(),
        ["load", "???"]
    );
    assert_eq!(
        profile.share_percent(top[0], &[Event::LastLoadMisses]),
        Some(100.0)
    );
    assert_eq!(profile.top(&[Event::L1dLoadMisses], 9).len(), 1);
}

#[test]
fn nothing_counted_has_no_rate() {
    let profile = Profile::parse("events: Ir\nsummary: 0\n").expect("an empty run");
    assert!(profile.counted(Event::Instructions) && !profile.counted(Event::Loads));
    assert_eq!(profile.total().mix(), None);
    assert_eq!(profile.total().l1d_load_miss_percent(), None);
    assert_eq!(profile.named_percent(), None);
}

#[test]
fn damage_is_named_with_its_line() {
    let with = |from: &str, to: &str| problem(&SMALL.replace(from, to));
    assert_eq!(
        with("summary: 300", "summary: 301").1,
        Problem::Sum {
            event: "Ir",
            found: 300,
            summary: 301
        }
    );
    assert_eq!(with("9 50", "9 x"), (13, Problem::Count("x".to_owned())));
    assert_eq!(with("9 50", "x 50"), (13, Problem::Unknown("x 50".to_owned())));
    assert_eq!(with("9 50", "9 18446744073709551615").0, 13);
    assert_eq!(
        with("Bim", "Bim extra"),
        (3, Problem::UnknownEvent("extra".to_owned()))
    );
    assert_eq!(with("Bim", "Ir"), (3, Problem::Twice("Ir".to_owned())));
    assert_eq!(
        with("9 50", "9 1 2 3 4 5 6 7 8 9 10 11 12 13 14").1,
        Problem::Columns {
            columns: 14,
            events: 13
        }
    );
    assert_eq!(problem("1 2\n"), (1, Problem::NoEvents));
    assert_eq!(problem("events: Ir\n1 2\n"), (2, Problem::NoFunction));
    assert_eq!(problem("events: Ir\nfn=f\nfl=g\n1 2\n"), (4, Problem::NoFunction));
    assert_eq!(problem(&format!("{SMALL}\n1 2\n")), (16, Problem::BehindSummary));
    assert_eq!(problem(""), (0, Problem::Truncated));
}

#[test]
fn a_run_is_taken_from_a_longer_one() {
    let text = |of_f: u64, of_g: u64| {
        format!(
            "events: Ir Dr\nfl=x\nfn=f\n1 {of_f} 2\nfn=g\n1 {of_g} 1\nsummary: {} 3\n",
            of_f + of_g
        )
    };
    let of = |f, g| Profile::parse(&text(f, g)).expect("a whole file");
    let rest = of(100, 7).less(&of(30, 7)).expect("it did more");
    assert_eq!(rest.total().get(Event::Instructions), 70);
    assert_eq!(rest.total().get(Event::Loads), 0);
    assert_eq!(rest.functions().len(), 1);
    // What one function did less, by accident, is not taken from another.
    let rest = of(100, 5).less(&of(30, 7)).expect("it did more");
    assert_eq!(rest.functions()[0].counts.get(Event::Instructions), 70);
    assert_eq!(rest.total().get(Event::Instructions), 68);
    assert_eq!(
        of(1, 1).less(&of(2, 2)),
        Err(DifferenceError::Negative { more: 2, less: 4 })
    );
    let others = Profile::parse("events: Ir\nsummary: 0\n").expect("an empty run");
    assert_eq!(of(1, 1).less(&others), Err(DifferenceError::Events));
}

const CALLS: &str = "\
# callgrind format
version: 1
creator: callgrind-3.19.0
cmd:  ./program --name=value
part: 1
desc: Timerange: Basic block 0 - 9
positions: instr line
events: Ir Dr
summary: 46 9

ob=/usr/bin/program
fl=???
fn=(below main)
0x1000 0 4 1
0x103f 0 4
cob=/lib/libc.so.6
cfi=???
cfn=sort
calls=4 0x2000 0
0x1040 0 30 8
0x1044 0 4
fn=sort'2
0x1100 0 4
ob=/lib/libc.so.6
fl=???
fn=sort
0x2000 0 20 8
fn=sort'2
0x2004 0 10
totals: 46 9
";

#[test]
fn callgrind_is_read_by_instruction() {
    let executed = Executed::parse(CALLS).expect("a whole file");
    assert_eq!(executed.total().get(Event::Instructions), 46);
    let functions = executed.functions(&Executed::default());
    let named: Vec<(&str, &str, u64)> = functions
        .iter()
        .map(|f| {
            (
                f.object.as_str(),
                f.name.as_str(),
                f.counts.get(Event::Instructions),
            )
        })
        .collect();
    assert_eq!(
        named,
        [
            ("/lib/libc.so.6", "sort", 30),
            ("/usr/bin/program", "(below main)", 12),
            ("/usr/bin/program", "sort", 4),
        ]
    );
    let code = executed.code(&Executed::default(), 1);
    assert_eq!(
        code.lines,
        [
            ("/usr/bin/program".to_owned(), 3),
            ("/lib/libc.so.6".to_owned(), 1)
        ]
    );
    assert_eq!(
        (code.bytes(), code.bytes_of("/lib/libc.so.6"), code.bytes_of("x")),
        (256, 64, 0)
    );
    // What is executed less often than asked for is left out, and what the other run did, too.
    assert_eq!(executed.code(&Executed::default(), 5).bytes(), 64);
    assert_eq!(executed.code(&executed, 1).bytes(), 0);
    assert!(executed.functions(&executed).is_empty());
}

#[test]
fn callgrind_with_other_options_is_refused() {
    let problem = |from: &str, to: &str| {
        let error = Executed::parse(&CALLS.replace(from, to)).expect_err("refused");
        (error.line, error.problem)
    };
    assert_eq!(problem("instr line", "line").1, CallgrindProblem::Positions);
    assert!(matches!(
        problem("fn=sort\n", "fn=(7) sort\n").1,
        CallgrindProblem::Compressed(_)
    ));
    assert!(matches!(
        problem("0x1044", "+4").1,
        CallgrindProblem::Compressed(_)
    ));
    assert!(matches!(
        problem("0x1044 0", "0xzz 0").1,
        CallgrindProblem::Address(_)
    ));
    assert_eq!(
        problem("ob=/usr/bin/program\n", "").1,
        CallgrindProblem::NoFunction
    );
    assert!(matches!(
        problem("totals: 46", "totals: 47").1,
        CallgrindProblem::Line(Problem::Sum { .. })
    ));
    assert!(matches!(
        problem("totals: 46 9\n", "").1,
        CallgrindProblem::Line(Problem::Truncated)
    ));
}

/// Counts of some functions, and how their file might be written.
fn written(functions: &[(u8, Vec<u64>)], order: &[usize]) -> String {
    let names = |event: &usize| Event::ALL[*event].name();
    let mut text = format!(
        "events: {}\n",
        order.iter().map(names).collect::<Vec<_>>().join(" ")
    );
    let mut totals = vec![0; order.len()];
    for (name, counts) in functions {
        let columns: Vec<String> = order.iter().map(|event| counts[*event].to_string()).collect();
        text.push_str(&format!(
            "fl=f{}\nfn=f{name}\n1 {}\n",
            name % 2,
            columns.join(" ")
        ));
        for (total, event) in totals.iter_mut().zip(order) {
            *total += counts[*event];
        }
    }
    let totals: Vec<String> = totals.iter().map(u64::to_string).collect();
    format!("{text}summary: {}\n", totals.join(" "))
}

fn counts() -> impl Strategy<Value = Vec<(u8, Vec<u64>)>> {
    let of_function = (0u8..6, prop::collection::vec(0u64..1000, Event::ALL.len()));
    prop::collection::vec(of_function, 0..12)
}

proptest! {
    #[test]
    fn sums_are_those_of_a_naive_reading(
        functions in counts(), order in Just((0..Event::ALL.len()).collect::<Vec<_>>()).prop_shuffle(), kept in 1usize..=13,
    ) {
        let order = &order[..kept];
        let profile = Profile::parse(&written(&functions, order)).expect("a whole file");
        for (place, event) in Event::ALL.into_iter().enumerate() {
            let expected: u64 = match order.contains(&place) {
                true => functions.iter().map(|(_, counts)| counts[place]).sum(),
                false => 0,
            };
            prop_assert_eq!(profile.total().get(event), expected);
            for function in profile.functions() {
                let own = functions.iter().filter(|(name, _)| function.name == format!("f{name}"));
                let expected: u64 = own.map(|(_, counts)| counts[place]).sum();
                prop_assert_eq!(function.counts.get(event), if order.contains(&place) { expected } else { 0 });
            }
        }
        let top = profile.top(&[Event::Loads, Event::Stores], 3);
        let sums: Vec<u64> = top.iter().map(|f| f.counts.sum(&[Event::Loads, Event::Stores])).collect();
        prop_assert!(sums.is_sorted_by(|a, b| a >= b));
    }

    #[test]
    fn a_file_cut_anywhere_is_an_error(functions in counts(), at in any::<prop::sample::Index>()) {
        let order: Vec<usize> = (0..Event::ALL.len()).collect();
        let text = written(&functions, &order);
        // The last line without its end is whole, or a sum that is not.
        let cut = &text[..at.index(text.len() - 1)];
        if let Ok(profile) = Profile::parse(cut) {
            let whole = Profile::parse(&text).expect("a whole file");
            prop_assert_eq!(profile.total(), whole.total());
            prop_assert!(cut.contains("summary:"));
        }
    }

    #[test]
    fn no_text_is_a_panic(text in "(events: |fn=|fl=|summary: |Ir |Dr |[0-9]{1,3} |0x[0-9a-f]{1,4} |ob=|calls=|totals: |\n|'|.){0,40}") {
        let _ = Profile::parse(&text);
        let _ = Executed::parse(&text);
        let _ = Counts::default();
    }
}
