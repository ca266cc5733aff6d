//! The replay of kept recordings misses what the recordings themselves miss: half of the executions of each statement are left out of
//! the model, and the model, asked for their keys, must come to their pages and miss as often.

use corun_cachesim::private_caches::cores::Cores;
use corun_cachesim::private_caches::layout::Layout;
use corun_cachesim::private_caches::platform::Platform;
use corun_cachesim::private_caches::recording::{Block, Execution, Recording};
use corun_cachesim::private_caches::workload::{Kind, ROWS, Sizes, WAREHOUSES, Workload};

/// As large as recorded.
const SIZES: Sizes = Sizes {
    items: ROWS,
    customers: ROWS,
    warehouses: WAREHOUSES,
    skew: 0.0,
    best_seller_steps: 0,
};

fn kept() -> Recording {
    Workload::kept(Kind::Point, SIZES)
        .expect("readable")
        .recording()
        .clone()
}

/// Misses of the second level and of the first, of the last of three rounds of these on one core.
fn misses(platform: &Platform, layout: &Layout, runs: &[(&Execution, Vec<Block>)]) -> [f64; 2] {
    let mut cores = Cores::new(platform);
    let mut missed = [0.0; 2];
    for round in 0..3 {
        for (execution, blocks) in runs {
            for touch in &execution.touches {
                let address = layout.address(touch.place, blocks, 0);
                let of = cores.access(0, address, touch.what, true);
                if round == 2 {
                    missed[0] += f64::from(u8::from(of.l2));
                    missed[1] += f64::from(u8::from(of.l1));
                }
            }
        }
    }
    missed
}

fn halves(recording: &Recording, statement: &str) -> [Vec<Execution>; 2] {
    let all: Vec<Execution> = recording.of(statement).cloned().collect();
    [0, 1].map(|half| all.iter().skip(half).step_by(2).cloned().collect())
}

#[test]
fn the_replay_of_other_keys_misses_as_their_trace_does() {
    let recording = kept();
    let same = Layout::new(&recording, |_| 1.0);
    for (statement, tolerance) in [
        ("point", 0.05),
        ("item", 0.10),
        ("customer", 0.10),
        ("stock_update", 0.10),
    ] {
        let [model, traced] = halves(&recording, statement);
        assert!(model.len() >= 3 && traced.len() >= 3, "{statement}");
        let half = Recording {
            executions: model,
            ..recording.clone()
        };
        let workload = Workload::new(Kind::Point, SIZES, half);
        let replayed: Vec<_> = traced
            .iter()
            .enumerate()
            .map(|(key, execution)| {
                let found = workload
                    .statement(statement, key as u64, &execution.at, 0)
                    .expect("recorded");
                (&workload.recording().executions[found.execution], found.blocks)
            })
            .collect();
        let raw: Vec<_> = traced
            .iter()
            .map(|execution| (execution, execution.blocks.clone()))
            .collect();
        for name in Platform::NAMES {
            let platform = Platform::preset(name).expect("a preset");
            let [raw, model] = [
                misses(&platform, &same, &raw),
                misses(&platform, workload.layout(), &replayed),
            ];
            for (level, [raw, model]) in [("L2", [raw[0], model[0]]), ("L1", [raw[1], model[1]])] {
                // A few lines more or less are as many as one key's.
                let allowed = (tolerance * raw).max(6.0 * traced.len() as f64);
                assert!(
                    (raw - model).abs() <= allowed,
                    "{statement} on {name}: {level} misses {raw}, replayed {model}"
                );
            }
        }
    }
}

#[test]
fn recorded_pages_are_where_the_keys_say() {
    let recording = kept();
    let same = Layout::new(&recording, |_| 1.0);
    let mut checked = 0;
    for execution in recording
        .executions
        .iter()
        .filter(|execution| !execution.at.is_empty())
    {
        let on = |axis| {
            let found = execution.at.iter().find(|(known, _)| *known == axis);
            found.map_or(0.0, |&(_, at)| at)
        };
        for (block, moved) in execution.blocks.iter().zip(same.blocks(execution, on, 0)) {
            let relation = &recording.relations[block.relation as usize];
            // Appended rows lie where the backend's last page was; leaves that were split lie behind the others.
            if relation.level > 0
                || relation.name.starts_with('c')
                || relation.name == "history"
                || relation.pages < 40
            {
                continue;
            }
            let off = i64::from(block.page) - i64::from(moved.page);
            assert!(
                off.abs() <= 1 + i64::from(relation.pages) / 100,
                "{}: {} has page {} of {}, expected {}",
                execution.statement,
                relation.name,
                block.page,
                relation.pages,
                moved.page
            );
            checked += 1;
        }
    }
    assert!(checked >= 50, "{checked}");
}
