"""Drives DuckDB for `corun-lab bench`: one JSON request a line in, one JSON reply a line out.

Requests: {"op": "hello"}, {"op": "threads", "threads": N}, {"op": "load", "table": T, "path": P}, {"op": "view", "table": T, "path": P},
{"op": "drop", "table": T}, {"op": "run", "sql": S}, {"op": "explain", "sql": S}. A failed request is answered with {"error": TEXT}; the end of the
input ends the driver. Only execute and fetch are timed.
"""

import json
import sys
import time

import duckdb


def quoted(name):
    return '"' + name.replace('"', '""') + '"'


def cell(value):
    return "NULL" if value is None else str(value)


class Driver:
    def __init__(self):
        self.connection = duckdb.connect(":memory:")
        self.connection.execute("SET enable_progress_bar = false")

    def hello(self, _request):
        return {"version": duckdb.__version__}

    def threads(self, request):
        self.connection.execute("SET threads = %d" % int(request["threads"]))
        return {}

    def load(self, request):
        table = quoted(request["table"])
        self.connection.execute("DROP TABLE IF EXISTS " + table)
        self.connection.execute("CREATE TABLE " + table + " AS SELECT * FROM read_parquet(?)", [request["path"]])
        rows = self.connection.execute("SELECT count(*) FROM " + table).fetchone()[0]
        return {"rows": rows}

    def view(self, request):
        path = request["path"].replace("'", "''")
        self.connection.execute("CREATE OR REPLACE VIEW %s AS SELECT * FROM read_parquet('%s')" % (quoted(request["table"]), path))
        return {}

    def drop(self, request):
        self.connection.execute("DROP TABLE IF EXISTS " + quoted(request["table"]))
        return {}

    def run(self, request):
        start = time.perf_counter_ns()
        rows = self.connection.execute(request["sql"]).fetchall()
        elapsed = time.perf_counter_ns() - start
        return {"nanoseconds": elapsed, "rows": [[cell(value) for value in row] for row in rows]}

    def explain(self, request):
        rows = self.connection.execute("EXPLAIN " + request["sql"]).fetchall()
        return {"text": "\n".join(str(row[-1]) for row in rows)}


def main():
    driver = Driver()
    operations = {
        "hello": driver.hello,
        "threads": driver.threads,
        "load": driver.load,
        "view": driver.view,
        "drop": driver.drop,
        "run": driver.run,
        "explain": driver.explain,
    }
    for line in sys.stdin:
        try:
            request = json.loads(line)
            reply = operations[request["op"]](request)
        except Exception as error:  # Every failure must reach the other side as a reply.
            reply = {"error": "%s: %s" % (type(error).__name__, error)}
        sys.stdout.write(json.dumps(reply) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
