"""Queries through the wheel against plain datafusion, in turns, with the same answers.

    python bench.py --suite tpch --scale 1 --tables FOLDER --queries FOLDER > rows.jsonl

FOLDER of tables has a Parquet file or a folder of them for each table, FOLDER of queries a file NAME.sql for each query. Rows are those of
`corun-lab bench`: min, median and max of milliseconds a side, and ratios of the rounds.
"""

import argparse
import json
import pathlib
import random
import statistics
import sys
import time

from datafusion import SessionConfig, SessionContext

import datafusion_corun


def session(tables, partitions, corun):
    ctx = SessionContext(SessionConfig().with_target_partitions(partitions))
    if corun:
        # Each turn does its work anew.
        ctx = datafusion_corun.install(ctx, share_work="off", keep_columns="off")
    for path in sorted(tables.iterdir()):
        ctx.register_parquet(path.name.removesuffix(".parquet"), path)
    return ctx


def answer(batches):
    rows = [tuple(row.values()) for batch in batches for row in batch.to_pylist()]
    return sorted(tuple(f"{value:.6g}" if isinstance(value, float) else str(value) for value in row) for row in rows)


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--suite", required=True)
    arguments.add_argument("--scale", required=True)
    arguments.add_argument("--tables", type=pathlib.Path, required=True)
    arguments.add_argument("--queries", type=pathlib.Path, required=True)
    arguments.add_argument("--partitions", type=int, default=2)
    arguments.add_argument("--rounds", type=int, default=5)
    given = arguments.parse_args()
    sides = {
        "corun": session(given.tables, given.partitions, True),
        "datafusion": session(given.tables, given.partitions, False),
        "datafusion_again": session(given.tables, given.partitions, False),
    }
    order = random.Random(1)
    wrong, gains = 0, {"corun": [], "datafusion_again": []}

    def emit(query, metric, unit, values, right, **more):
        case = f"{query}_sf{given.scale}_p{given.partitions}_python"
        spread = {"n": len(values), "min": min(values), "median": statistics.median(values), "max": max(values)}
        row = {"suite": given.suite, "case": case, "metric": metric, "unit": unit, **spread}
        row |= {"answer_ok": right, "label": "measured", "query": query, "scale_factor": float(given.scale), "partitions": given.partitions}
        print(json.dumps(row | more), flush=True)

    for path in sorted(given.queries.glob("*.sql")):
        times, answers = {name: [] for name in sides}, {}
        # The first round warms up.
        for turn in range(given.rounds + 1):
            for name in order.sample(sorted(sides), len(sides)):
                begun = time.perf_counter()
                for statement in path.read_text().split(";"):
                    if statement.strip():
                        batches = sides[name].sql(statement).collect()
                elapsed = time.perf_counter() - begun
                answers.setdefault(name, answer(batches))
                if turn > 0:
                    times[name].append(elapsed * 1e3)
        right = all(rows == answers["datafusion"] for rows in answers.values())
        wrong += not right

        for name, milliseconds in times.items():
            emit(path.stem, "ms", "ms", milliseconds, right, engine=name)
        for subject, baseline in [("corun", "datafusion"), ("datafusion_again", "datafusion")]:
            ratios = [theirs / ours for ours, theirs in zip(times[subject], times[baseline])]
            control = {} if subject == "corun" else {"control": "a/a"}
            emit(path.stem, "ratio", "x", ratios, right, engine=subject, versus=baseline, **control)
            gains[subject].append(statistics.median(ratios))
    for name, ratios in gains.items():
        mean = statistics.geometric_mean(ratios)
        print(f"{name} against datafusion: geometric mean {mean:.3f} of {len(ratios)}, {min(ratios):.3f} to {max(ratios):.3f}", file=sys.stderr)
    mean = {"median": statistics.geometric_mean(gains["corun"]), "median_is": "geometric mean over queries"}
    emit("geomean_all", "ratio", "x", gains["corun"], wrong == 0, engine="corun", versus="datafusion", **mean)
    sys.exit(wrong > 0)


if __name__ == "__main__":
    main()
