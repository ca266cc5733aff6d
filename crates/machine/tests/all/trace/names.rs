//! Functions by name, and source lines of what was traced.

use std::process::Command;

use corun_machine::trace::{FunctionEntries, Lines, TraceError, TraceSource};

use crate::trace::fixture::{compiled, fails, next, run};

#[test]
fn lines_and_inlined_functions_of_an_address() {
    let source = r#"
static inline __attribute__((always_inline)) long inner(volatile long *p) { return *p + 1; }
NOINLINE long outer(volatile long *p) { return inner(p) * 3; }
long main_value;
int main(void) { main_value = 1; return outer(&main_value); }
"#;
    let program = compiled(source, &["-g"]);
    let mut tracer = program.call_of("outer").expect("started");
    let (_, kept) = next(&mut tracer);
    let mut lines = Lines::new(tracer.modules());
    let entry = lines.place(kept.ran[0].address);
    assert_eq!((entry.function.as_deref(), entry.offset), (Some("outer"), 0));
    let frames: Vec<Vec<Option<String>>> = kept
        .ran
        .iter()
        .map(|ran| {
            lines
                .place(ran.address)
                .frames
                .into_iter()
                .map(|frame| frame.function)
                .collect()
        })
        .collect();
    let names = ["inner", "outer"].map(|name| Some(name.to_owned()));
    assert!(frames.iter().any(|frames| frames[..] == names), "{frames:?}");
    let frame = &lines.place(kept.ran[0].address).frames[0];
    assert!(
        frame
            .file
            .as_ref()
            .is_some_and(|file| file.ends_with("program.c")),
        "{frame:?}"
    );
    assert!(frame.line.is_some() && frame.column.is_some());
    let nowhere = lines.place(1);
    assert_eq!(
        (nowhere.module, nowhere.function, nowhere.frames.len()),
        (None, None, 0)
    );
}

#[test]
fn a_separate_debug_file_gives_names_and_lines() {
    let program = compiled(
        "NOINLINE int secret(int n) { return n + 4; } int main(void) { return secret(1); }",
        &["-g"],
    );
    let path = program.path.to_str().expect("a plain path");
    let debug = format!("{path}.debug");
    run("objcopy", &["--only-keep-debug", path, &debug]);
    run("strip", &[path]);
    assert!(matches!(
        fails(program.call_of("secret")),
        TraceError::Stripped { .. }
    ));
    run("objcopy", &[&format!("--add-gnu-debuglink={debug}"), path]);
    let mut tracer = program.call_of("secret").expect("started");
    let (_, kept) = next(&mut tracer);
    let place = Lines::new(tracer.modules()).place(kept.ran[0].address);
    assert_eq!(place.function.as_deref(), Some("secret"));
    assert_eq!(place.frames[0].function.as_deref(), Some("secret"));
}

#[test]
fn entries_that_can_be_patched_are_found_wherever_the_program_is_loaded() {
    let source = r#"
NOINLINE int work(int n) { return n + 4; }
__attribute__((noinline, noipa, patchable_function_entry(0))) int plain(int n) { return n + 5; }
int main(void) { return work(plain(1)); }
"#;
    let patchable = "-fpatchable-function-entry=5";
    for (flags, expected) in [
        (&[patchable, "-fcf-protection=none"][..], true),
        (&[patchable, "-fcf-protection"], true),
        (&[patchable, "-no-pie"], true),
        (&[], false),
    ] {
        let program = compiled(source, flags);
        for function in ["work", "plain"] {
            let mut tracer = program.call_of(function).expect("started");
            let (_, kept) = next(&mut tracer);
            let module = tracer
                .modules()
                .iter()
                .find(|module| module.holds(kept.ran[0].address));
            let module = module.expect("the program");
            let entries = FunctionEntries::of(module);
            let linked = |address: u64| address - module.bias;
            let can = kept
                .ran
                .iter()
                .find(|ran| entries.is_patchable(linked(ran.address)));
            assert_eq!(
                can.is_some(),
                expected && function == "work",
                "{flags:?} {function}"
            );
            assert_eq!(entries.symbol(linked(kept.ran[0].address)), Some(function));
            if let Some(ran) = can {
                // Five of these, one byte each, wait to be overwritten.
                assert_eq!(
                    (ran.bytes, entries.symbol(linked(ran.address))),
                    (1, Some("work")),
                    "{flags:?}"
                );
            }
        }
    }
}

#[test]
fn a_function_of_a_shared_library() {
    let library = compiled("int shared_work(int n) { return n * 5; }", &["-shared", "-fPIC"]);
    let folder = library.folder.path().to_str().expect("a plain path");
    std::fs::rename(&library.path, library.folder.path().join("libwork.so")).expect("renamed");
    let (search, at_run_time) = (format!("-L{folder}"), format!("-Wl,-rpath,{folder}"));
    let program = compiled(
        "int shared_work(int); int main(void) { return shared_work(2); }",
        &[&search, "-lwork", &at_run_time],
    );
    for name in ["shared_work", "libwork.so:shared_work"] {
        let mut tracer = program.call_of(name).expect(name);
        let (_, kept) = next(&mut tracer);
        let place = Lines::new(tracer.modules()).place(kept.ran[0].address);
        let module = &tracer.modules()[place.module.expect("a file")];
        assert_eq!(module.name(), "libwork.so");
        assert_eq!(
            tracer.modules()[0].path,
            program.path.canonicalize().expect("there")
        );
    }
    let error = fails(program.call_of("libother.so:shared_work"));
    assert!(
        matches!(&error, TraceError::NoModule { name, loaded } if name == "libother.so" && loaded.contains(&"libwork.so".to_owned())),
        "{error:?}"
    );
}

#[test]
fn names_that_are_missing_or_several() {
    let second = compiled(
        "static int twice(int n) { return n * 3; } __attribute__((noinline)) int other(int n) { return twice(n); }",
        &["-c"],
    );
    let object = second.path.to_str().expect("a plain path").to_owned();
    let program = compiled(
        "int other(int); static NOINLINE int twice(int n) { return n * 2; } NOINLINE int index_fetch(int n) { return n; }
         int main(void) { return twice(1) + other(1) + index_fetch(1); }",
        &["-O0", "-x", "none", &object],
    );
    // The second file keeps its own `twice` only without optimisation.
    let error = fails(program.call_of("index_fetsch"));
    let TraceError::NoSymbol { nearest, .. } = &error else {
        panic!("{error:?}");
    };
    assert_eq!(nearest[0], "index_fetch");
    assert_eq!(
        error.hint().as_deref().map(|hint| hint.contains("index_fetch")),
        Some(true)
    );

    let source = "static NOINLINE int twice(int n) { return n * 3; } int other(int n) { return twice(n); }";
    let second = compiled(source, &["-c"]);
    let object = second.path.to_str().expect("a plain path").to_owned();
    let program = compiled(
        "int other(int); static NOINLINE int twice(int n) { return n * 2; } int main(void) { return twice(1) + other(1); }",
        &[&object],
    );
    let error = fails(program.call_of("twice"));
    assert!(
        matches!(&error, TraceError::Ambiguous { matches, .. } if matches.len() == 2),
        "{error:?}"
    );
    // As the error says: by address.
    let TraceError::Ambiguous { matches, .. } = error else {
        unreachable!();
    };
    for one in matches {
        let address = one.rsplit(' ').next().expect("an address").to_owned();
        let mut tracer = program.call_of(&address).expect("started");
        next(&mut tracer);
    }
}

#[test]
fn a_rust_function_by_its_path() {
    let folder = tempfile::tempdir().expect("a folder");
    let (source, path) = (folder.path().join("tenant.rs"), folder.path().join("tenant"));
    std::fs::write(
        &source,
        "mod tree { #[inline(never)] pub fn descend(n: usize) -> usize { std::hint::black_box(n) + 1 } }
         fn main() { std::process::exit(tree::descend(4) as i32) }",
    )
    .expect("written");
    let rustc = std::env::var("RUSTC").unwrap_or_else(|_| "rustc".to_owned());
    let text = |path: &std::path::Path| path.to_str().expect("a plain path").to_owned();
    run(
        &rustc,
        &[
            "--edition",
            "2024",
            "-g",
            "-O",
            "-o",
            &text(&path),
            &text(&source),
        ],
    );
    for name in ["tenant::tree::descend", "tree::descend"] {
        let options = crate::trace::fixture::function_options(name);
        let mut tracer = corun_machine::trace::Tracer::start(Command::new(&path), options).expect(name);
        let (_, kept) = next(&mut tracer);
        let place = Lines::new(tracer.modules()).place(kept.ran[0].address);
        assert_eq!(place.function.as_deref(), Some("tenant::tree::descend"));
        assert!(
            place.frames.last().is_some_and(|frame| frame.line == Some(1)),
            "{place:?}"
        );
    }
}
