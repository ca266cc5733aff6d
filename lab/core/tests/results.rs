//! The committed page of results is what the records and the list of published results make.

use std::path::Path;

use lab_core::results::{PAGE, REGENERATE, generate};

#[test]
fn the_page_of_results_is_what_the_records_make() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let made = generate(&root).unwrap_or_else(|error| panic!("{error}"));
    let committed = std::fs::read_to_string(root.join(PAGE)).unwrap_or_default();
    let different = made
        .lines()
        .zip(committed.lines())
        .position(|(made, committed)| made != committed)
        .unwrap_or_else(|| made.lines().count().min(committed.lines().count()));
    assert!(
        made == committed,
        "{PAGE} is not what the records make, from line {} on. Make it again: {REGENERATE}",
        different + 1
    );
}
