"""Polars for `corun-lab bench`; `sql_driver.py`, which follows this text, has the loop."""

import importlib.metadata
import os
import time


def cell(value):
    return "NULL" if value is None else str(value)


class Driver:
    """Polars reads how many threads it may have when it is imported, so `threads` comes before all that needs it."""

    def hello(self, _request):
        return {"version": importlib.metadata.version("polars")}

    def threads(self, request):
        os.environ["POLARS_MAX_THREADS"] = str(int(request["threads"]))
        import polars

        if polars.thread_pool_size() != int(request["threads"]):
            raise RuntimeError("it has %d threads already" % polars.thread_pool_size())
        self.polars = polars
        self.context = polars.SQLContext()
        return {}

    def view(self, request):
        self.context.register(request["table"], self.polars.scan_parquet(request["path"]))
        return {}

    def drop(self, request):
        self.context.unregister(request["table"])
        return {}

    def run(self, request):
        start = time.perf_counter_ns()
        rows = self.context.execute(request["sql"], eager=False).collect(engine="streaming").rows()
        elapsed = time.perf_counter_ns() - start
        return {"nanoseconds": elapsed, "rows": [[cell(value) for value in row] for row in rows]}

    def explain(self, request):
        return {"text": self.context.execute(request["sql"], eager=False).explain()}


