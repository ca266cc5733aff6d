"""Runs the workload queries on DuckDB over the Parquet files that record_answers.rs wrote, and compares cell by cell.

Usage: python3 cross_check.py FOLDER

Numbers may differ by one part in 10^9: DuckDB divides and averages in double precision where DataFusion stays decimal
(with at least six fractional digits, hence also an absolute 10^-6). Text and dates must be equal. Rows are compared
sorted, because rows that tie in the ORDER BY may come in any order.
"""

import pathlib
import sys

import duckdb


def text_of(value):
    """The canonical text the Rust side writes, as far as it is not a number."""
    if value is None:
        return "\0"
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)


def number_of(text):
    try:
        return float(text)
    except ValueError:
        return None


def same_cell(ours, theirs):
    if ours == theirs:
        return True
    a, b = number_of(ours), number_of(theirs)
    return a is not None and b is not None and abs(a - b) <= max(1e-6, 1e-9 * abs(b))


def sort_key(row):
    """Sorts by text cells first and by numbers after, so that last digits cannot change the order of most rows."""
    cells = [(number_of(cell), cell) for cell in row]
    return ([c for n, c in cells if n is None], [round(n, 4) for n, _ in cells if n is not None])


def check(folder):
    connection = duckdb.connect()
    for table in sorted(path for path in folder.iterdir() if path.is_dir()):
        connection.execute(f"create view \"{table.name}\" as select * from '{table}/*.parquet'")
    wrong = 0
    queries = sorted(folder.glob("*.sql"))
    for query in queries:
        rows = connection.execute(query.read_text()).fetchall()
        theirs = sorted(([text_of(value) for value in row] for row in rows), key=sort_key)
        lines = query.with_suffix(".answer").read_text().split("\n")[:-1]
        ours = sorted((line.split("\t") for line in lines), key=sort_key)
        differences = [
            (a, b) for a, b in zip(ours, theirs) if len(a) != len(b) or not all(map(same_cell, a, b))
        ]
        if len(ours) != len(theirs) or differences:
            wrong += 1
            print(f"{folder.name} {query.stem}: {len(ours)} rows against {len(theirs)}; {differences[:2]}")
    print(f"{folder.name}: {len(queries) - wrong} of {len(queries)} answers agree with DuckDB {duckdb.__version__}")
    return wrong


if __name__ == "__main__":
    folders = [path for path in sorted(pathlib.Path(sys.argv[1]).iterdir()) if path.is_dir()]
    sys.exit(1 if sum(check(folder) for folder in folders) else 0)
