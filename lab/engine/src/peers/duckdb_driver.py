"""DuckDB for `corun-lab bench`; `sql_driver.py`, which follows this text, has the loop."""

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


