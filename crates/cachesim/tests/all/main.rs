//! The simulators of caches: by hand, against the plainest ones that can be written, against valgrind's, and against what papers show.

mod against_naive;
mod cachegrind_files;
mod cachegrind_kernels;
mod instruction_cache_against_naive;
mod instruction_cache_by_hand;
mod interference;
mod llc_against_cachegrind;
mod llc_against_naive;
mod llc_closed_forms;
mod llc_paper_002;
mod machines;
mod private_caches_cores;
mod private_caches_lackey;
mod private_caches_replay;
mod private_caches_run;
mod shared_array;
mod simulated_core;
mod skipped;
