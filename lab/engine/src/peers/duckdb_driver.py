"""DuckDB for `corun-lab bench`; `sql_driver.py`, which follows this text, has the loop."""

import concurrent.futures
import threading
import time

import duckdb


def quoted(name):
    return '"' + name.replace('"', '""') + '"'


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

    def streams(self, request):
        """Lists of statements, each list on a connection and a thread of its own, all at once."""
        statements = request["statements"]
        cursors = [self.connection.cursor() for _ in request["streams"]]
        together = threading.Barrier(len(cursors) + 1)

        def stream(cursor, numbers):
            together.wait()
            done = []
            for number in numbers:
                begun = time.perf_counter_ns()
                rows = cursor.execute(statements[number]).fetchall()
                done.append((number, time.perf_counter_ns() - begun, rows))
            return done

        with concurrent.futures.ThreadPoolExecutor(len(cursors)) as pool:
            running = [pool.submit(stream, cursor, numbers) for cursor, numbers in zip(cursors, request["streams"])]
            together.wait()
            begun = time.perf_counter_ns()
            done = [one for future in running for one in future.result()]
            elapsed = time.perf_counter_ns() - begun
        # Equal answers of a statement are sent once.
        answers = {}
        for number, _, rows in done:
            known = answers.setdefault(number, [])
            if rows not in known:
                known.append(rows)
        texts = [[number, [[cell(value) for value in row] for row in rows]] for number, known in answers.items() for rows in known]
        return {"nanoseconds": elapsed, "latencies": [took for _, took, _ in done], "answers": texts}

    def explain(self, request):
        rows = self.connection.execute("EXPLAIN " + request["sql"]).fetchall()
        return {"text": "\n".join(str(row[-1]) for row in rows)}


