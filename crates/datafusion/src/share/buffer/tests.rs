//! Readers of one buffer in every order that a seeded scheduler comes upon: nobody waits for ever, nobody misses a row.

use super::*;
use arrow::array::{AsArray, Int64Array};
use arrow::datatypes::{DataType, Field, Int64Type, Schema};
use datafusion::execution::memory_pool::GreedyMemoryPool;
use datafusion::execution::runtime_env::RuntimeEnvBuilder;
use datafusion::physical_plan::metrics::ExecutionPlanMetricsSet;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Waker};

/// A generator of numbers that are the same in each run.
struct Draw(u64);

impl Draw {
    fn below(&mut self, limit: usize) -> usize {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % limit
    }
}

fn input(batches: usize, fails: bool, made: Arc<AtomicUsize>) -> SendableRecordBatchStream {
    let schema = Arc::new(Schema::new(vec![Field::new("n", DataType::Int64, false)]));
    let of = Arc::clone(&schema);
    let stream = futures::stream::unfold(0, move |next| {
        let (of, made) = (Arc::clone(&of), Arc::clone(&made));
        async move {
            // Others get their turn in between.
            tokio::task::yield_now().await;
            if next == batches {
                let failed = fails.then(|| exec_err!("the part has failed"));
                return failed.map(|error| (error, next + 1));
            }
            if next > batches {
                return None;
            }
            made.fetch_add(1, Ordering::Relaxed);
            let column = Arc::new(Int64Array::from(vec![next as i64; 100]));
            Some((Ok(RecordBatch::try_new(of, vec![column]).unwrap()), next + 1))
        }
    });
    Box::pin(RecordBatchStreamAdapter::new(schema, stream))
}

fn context(bytes: usize) -> Arc<TaskContext> {
    let runtime = RuntimeEnvBuilder::new().with_memory_pool(Arc::new(GreedyMemoryPool::new(bytes)));
    Arc::new(TaskContext::default().with_runtime(runtime.build_arc().unwrap()))
}

type Step = Pin<Box<dyn Future<Output = (Reader, Result<Option<RecordBatch>>)>>>;

enum State {
    Waits,
    Reads(Step, i64),
    Done,
}

fn step(mut reader: Reader) -> Step {
    Box::pin(async move {
        let next = reader.next().await;
        (reader, next)
    })
}

/// One run: readers begin, read, come late and go as `draw` says. Those that stay see all batches in order, or the error.
async fn run(seed: u64, keeper: bool) {
    let mut draw = Draw(seed);
    let readers = 1 + draw.below(5);
    let batches = draw.below(20);
    let fails = draw.below(4) == 0;
    // Some of the batches have room in memory.
    let context = context([1 << 20, 3000, 0][draw.below(3)]);
    let made = Arc::new(AtomicUsize::new(0));
    let metrics = SpillMetrics::new(&ExecutionPlanMetricsSet::new(), 0);
    let all = (1..=readers as Ticket).chain(keeper.then_some(0));
    let told = Arc::new(AtomicUsize::new(0));
    let ends = Arc::clone(&told);
    let tell = move |filled: Filled| {
        if !matches!(filled, Filled::More(_)) {
            ends.fetch_add(1, Ordering::Relaxed);
        }
    };
    let buffer = Buffer::start(
        "a part",
        all,
        input(batches, fails, Arc::clone(&made)),
        &context,
        metrics,
        tell,
    );
    let mut states: Vec<State> = (0..readers).map(|_| State::Waits).collect();
    let mut steps = 0;
    while states.iter().any(|state| !matches!(state, State::Done)) {
        steps += 1;
        assert!(steps < 100_000, "seed {seed}: somebody waits for ever");
        if draw.below(3) == 0 {
            tokio::task::yield_now().await;
        }
        if keeper && states.len() < 8 && draw.below(20) == 0 {
            let ticket = states.len() as Ticket + 1;
            assert!(buffer.expect(ticket), "seed {seed}: all batches are kept");
            states.push(State::Waits);
        }
        let at = draw.below(states.len());
        let ticket = at as Ticket + 1;
        let state = std::mem::replace(&mut states[at], State::Done);
        states[at] = match state {
            State::Done => State::Done,
            State::Waits if draw.below(10) == 0 => {
                buffer.forget(ticket);
                State::Done
            }
            State::Waits => State::Reads(step(buffer.read(ticket).expect("it was expected")), 0),
            // Gone in the middle of a wait.
            State::Reads(step, _) if draw.below(50) == 0 => {
                drop(step);
                State::Done
            }
            State::Reads(mut current, seen) => {
                match current.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
                    Poll::Pending => {
                        tokio::task::yield_now().await;
                        State::Reads(current, seen)
                    }
                    Poll::Ready((reader, Ok(Some(batch)))) => {
                        assert_eq!(
                            batch.column(0).as_primitive::<Int64Type>().value(0),
                            seen,
                            "seed {seed}"
                        );
                        State::Reads(step(reader), seen + 1)
                    }
                    Poll::Ready((_, Ok(None))) => {
                        assert!(
                            !fails && seen == batches as i64,
                            "seed {seed}: {seen} of {batches}"
                        );
                        State::Done
                    }
                    Poll::Ready((_, Err(error))) => {
                        assert!(
                            fails && error.to_string().contains("has failed"),
                            "seed {seed}: {error}"
                        );
                        State::Done
                    }
                }
            }
        };
    }
    assert!(made.load(Ordering::Relaxed) <= batches);
    buffer.forget(0);
    drop(buffer);
    for _ in 0..10 {
        tokio::task::yield_now().await;
    }
    assert!(told.load(Ordering::Relaxed) <= 1, "seed {seed}");
    assert_eq!(
        context.memory_pool().reserved(),
        0,
        "seed {seed}: memory is given back"
    );
}

#[tokio::test]
async fn readers_in_any_order_get_all_rows() {
    for seed in 0..2000 {
        run(seed, false).await;
        run(seed, true).await;
    }
}

/// Only as much is made as the fastest reader wants.
#[tokio::test]
async fn nothing_is_made_that_nobody_wants() {
    let made = Arc::new(AtomicUsize::new(0));
    let metrics = SpillMetrics::new(&ExecutionPlanMetricsSet::new(), 0);
    let context = context(1 << 20);
    let buffer = Buffer::start(
        "a part",
        [1, 2].into_iter(),
        input(100, false, Arc::clone(&made)),
        &context,
        metrics,
        |_| {},
    );
    let mut reader = buffer.read(1).unwrap();
    for _ in 0..5 {
        reader.next().await.unwrap().unwrap();
    }
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
    assert_eq!(made.load(Ordering::Relaxed), 5 + AHEAD);
}

#[tokio::test]
async fn a_panic_of_the_part_is_its_readers_error() {
    let schema = Arc::new(Schema::empty());
    let stream = futures::stream::poll_fn(|_| -> Poll<Option<Result<RecordBatch>>> { panic!("thirteen") });
    let input = Box::pin(RecordBatchStreamAdapter::new(schema, stream));
    let metrics = SpillMetrics::new(&ExecutionPlanMetricsSet::new(), 0);
    let buffer = Buffer::start(
        "a part",
        [1, 2].into_iter(),
        input,
        &context(1 << 20),
        metrics,
        |_| {},
    );
    for ticket in [1, 2] {
        let error = buffer.read(ticket).unwrap().next().await.unwrap_err();
        assert!(error.to_string().contains("thirteen"), "{error}");
    }
}
