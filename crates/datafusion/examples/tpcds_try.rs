use corun_datafusion::{Engine, EngineOptions, Joins};
use std::path::Path;
use std::time::Instant;
fn main() {
    let args: Vec<String> = std::env::args().collect();
    let folder = Path::new(&args[1]);
    let rounds: usize = args[2].parse().unwrap();
    let filter: Vec<&str> = args.get(3).map(|s| s.split(',').collect()).unwrap_or_default();
    let explain = args.get(4).is_some();
    let analyze = args.get(4).is_some_and(|a| a == "analyze");
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap();
    let engines: Vec<(Joins, Engine)> = [Joins::Corun, Joins::Stock]
        .into_iter()
        .map(|joins| {
            let engine = Engine::new(&EngineOptions {
                partitions: 2,
                joins,
                ..Default::default()
            })
            .unwrap();
            for table in folder.join("tables").read_dir().unwrap() {
                let path = table.unwrap().path();
                let name = path.file_name().unwrap().to_string_lossy().into_owned();
                runtime.block_on(engine.register_path(&name, &path)).unwrap();
            }
            (joins, engine)
        })
        .collect();
    let mut names: Vec<_> = folder
        .join("queries")
        .read_dir()
        .unwrap()
        .map(|f| f.unwrap().path())
        .collect();
    names.sort();
    let mut log_sum = 0.0;
    let mut count = 0;
    let mut totals = [0.0, 0.0];
    for path in names {
        let name = path.file_stem().unwrap().to_string_lossy().into_owned();
        if !filter.is_empty() && filter[0] != "" && !filter.contains(&name.as_str()) {
            continue;
        }
        let sql = std::fs::read_to_string(&path).unwrap();
        if explain {
            for (joins, engine) in &engines {
                println!(
                    "=== {name} {joins:?}\n{}",
                    runtime.block_on(engine.explain(&sql, analyze)).unwrap()
                );
            }
            continue;
        }
        let mut times = [vec![], vec![]];
        let mut rows: [Vec<String>; 2] = [vec![], vec![]];
        for round in 0..=rounds {
            for side in if round % 2 == 0 { [0, 1] } else { [1, 0] } {
                let engine = engines[side].1.clone();
                let text = sql.clone();
                let start = Instant::now();
                let output = runtime
                    .block_on(runtime.spawn(async move { engine.query(&text).await }))
                    .unwrap();
                let elapsed = start.elapsed().as_secs_f64() * 1e3;
                match output {
                    Ok(output) => {
                        if round == 0 {
                            let mut text: Vec<String> =
                                arrow::util::pretty::pretty_format_batches(&output.batches)
                                    .unwrap()
                                    .to_string()
                                    .lines()
                                    .map(|l| l.to_string())
                                    .collect();
                            text.sort();
                            rows[side] = text;
                        }
                    }
                    Err(error) => println!("{name} side {side}: {error}"),
                }
                if round > 0 {
                    times[side].push(elapsed);
                }
            }
        }
        let mut median = |side: usize| {
            let t = &mut times[side];
            t.sort_by(f64::total_cmp);
            t[t.len() / 2]
        };
        let (c, s) = (median(0), median(1));
        let same = rows[0] == rows[1];
        println!(
            "{name} corun {c:8.1} stock {s:8.1} ratio {:.2} {}",
            s / c,
            if same { "" } else { "DIFFERS" }
        );
        log_sum += (s / c).ln();
        count += 1;
        totals[0] += c;
        totals[1] += s;
    }
    println!(
        "geomean {:.3} of {count}; sums {:.0} {:.0}",
        (log_sum / count as f64).exp(),
        totals[0],
        totals[1]
    );
}
