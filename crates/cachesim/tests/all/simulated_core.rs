//! The simulated core: by hand, and its caches against sets that are lists.

use corun_cachesim::core::{Core, CoreError, CoreShape, Counts, PredictorShape};
use corun_cachesim::{Geometry, Replacement};
use corun_model::teams::instructions::{DataAccess, Event, Flow, Instruction, InstructionSink};
use corun_model::units::{Bytes, Ways};
use proptest::prelude::*;

fn geometry(size: u64, ways: u32, line: u64) -> Geometry {
    Geometry::new(Bytes(size), Ways(ways), Bytes(line)).unwrap()
}

fn shape() -> CoreShape {
    CoreShape {
        l1i: geometry(64, 2, 16),
        l1d: geometry(32, 2, 16),
        l2: geometry(128, 4, 16),
        replacement: Replacement::Lru,
        predictor: PredictorShape::default(),
        by_thread: true,
    }
}

fn run(core: &mut Core, thread: u32, address: u64, bytes: u8, flow: Flow, accesses: &[DataAccess]) {
    core.event(&Event::Instruction(Instruction {
        thread,
        address,
        bytes,
        flow,
        accesses,
    }));
}

#[test]
fn each_kind_of_event_is_counted() {
    let mut core = Core::new(shape()).unwrap();
    core.event(&Event::Begin { thread: 1 });
    // Two lines of code, and two of data, one of which was just fetched as code: L2 has it, L1-D has not.
    let data = [
        DataAccess {
            address: 12,
            bytes: 8,
            write: false,
        },
        DataAccess {
            address: 1000,
            bytes: 0,
            write: true,
        },
    ];
    run(&mut core, 1, 15, 2, Flow::Next, &data);
    let first = Counts {
        operations: 1,
        instructions: 1,
        l1i_misses: 2,
        l2_instruction_misses: 2,
        data_lines: 2,
        l1d_misses: 2,
        ..Counts::default()
    };
    assert_eq!(core.counts(), first);
    run(&mut core, 2, 17, 5, Flow::Call { target: 100 }, &[]);
    run(
        &mut core,
        2,
        17,
        1,
        Flow::Conditional {
            taken: true,
            target: 0,
        },
        &[],
    );
    run(&mut core, 2, 17, 1, Flow::IndirectJump { target: 0 }, &[]);
    run(&mut core, 2, 17, 1, Flow::Return { target: 22 }, &[]);
    run(&mut core, 2, 17, 1, Flow::Return { target: 22 }, &[]);
    run(&mut core, 2, 17, 1, Flow::System, &[]);
    let second = Counts {
        instructions: 6,
        branches: 5,
        conditional: 1,
        conditional_mispredicted: 1,
        indirect_mispredicted: 1,
        returns_mispredicted: 1,
        ..Counts::default()
    };
    assert_eq!((core.counts_of(1), core.counts_of(2)), (first, second));
    assert_eq!(core.counts_of(3), Counts::default());
    assert_eq!(core.counts() - first, second);
    assert_eq!((second.mispredicted(), first.l2_misses()), (3, 2));
    core.forget_counts();
    run(&mut core, 1, 15, 2, Flow::Next, &[]);
    assert_eq!(core.counts().l1i_misses, 0, "the caches were kept");
    core.flush();
    run(&mut core, 1, 15, 2, Flow::Next, &[]);
    assert_eq!((core.counts().l1i_misses, core.counts().l2_misses()), (2, 2));
    assert_eq!(core.counts_of(1), core.counts());
}

#[test]
fn cores_that_cannot_be() {
    let tree = CoreShape {
        l2: geometry(65 * 16, 65, 16),
        replacement: Replacement::TreePlru,
        ..shape()
    };
    assert_eq!(Core::new(tree).unwrap_err(), CoreError::TreeWays(65));
    for (history_bits, target_bits) in [(0, 4), (4, 0), (25, 4), (4, 25)] {
        let predictor = PredictorShape {
            history_bits,
            target_bits,
        };
        let error = Core::new(CoreShape { predictor, ..shape() }).unwrap_err();
        assert_eq!(error, CoreError::Predictor(history_bits, target_bits));
    }
}

/// Sets of lines, most recently used first.
struct Lists(Vec<Vec<u64>>, Geometry);

impl Lists {
    fn new(geometry: Geometry) -> Self {
        Self(vec![Vec::new(); geometry.sets() as usize], geometry)
    }

    fn hits(&mut self, address: u64) -> bool {
        let line = address / self.1.line().0;
        let sets = self.1.sets();
        let set = &mut self.0[(line % sets) as usize];
        let before = set.len();
        set.retain(|&held| held != line);
        let hit = set.len() < before;
        set.insert(0, line);
        set.truncate(self.1.ways().0 as usize);
        hit
    }
}

/// The first byte of each line among these.
fn firsts(address: u64, bytes: u64, geometry: Geometry) -> Vec<u64> {
    let line = geometry.line().0;
    let mut lines: Vec<u64> = (address..address + bytes)
        .map(|byte| byte / line * line)
        .collect();
    lines.dedup();
    lines
}

proptest! {
    #[test]
    fn caches(
        steps in prop::collection::vec((0u64..600, 1u8..16, prop::collection::vec((0u64..600, 0u32..40), 0..3)), 0..200)
    ) {
        let shape = shape();
        let mut core = Core::new(shape).unwrap();
        let (mut l1i, mut l1d, mut l2) = (Lists::new(shape.l1i), Lists::new(shape.l1d), Lists::new(shape.l2));
        let mut expected = Counts::default();
        for (address, bytes, data) in steps {
            let accesses: Vec<DataAccess> = data
                .into_iter()
                .map(|(address, bytes)| DataAccess { address, bytes, write: false })
                .collect();
            run(&mut core, 1, address, bytes, Flow::Next, &accesses);
            expected.instructions += 1;
            for line in firsts(address, u64::from(bytes), shape.l1i) {
                if !l1i.hits(line) {
                    expected.l1i_misses += 1;
                    expected.l2_instruction_misses += u64::from(!l2.hits(line));
                }
            }
            for access in accesses {
                for line in firsts(access.address, u64::from(access.bytes), shape.l1d) {
                    expected.data_lines += 1;
                    if !l1d.hits(line) {
                        expected.l1d_misses += 1;
                        expected.l2_data_misses += u64::from(!l2.hits(line));
                    }
                }
            }
        }
        prop_assert_eq!(core.counts(), expected);
    }
}
