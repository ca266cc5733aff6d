"""What the Python programs have in common: where the server is, and checks that print `DRIVER CHECK ok` or `DRIVER CHECK FAIL why`."""

import asyncio
import datetime as dt
import inspect
import os
from decimal import Decimal

HOST = os.environ["CORUN_HOST"]
PORT = int(os.environ["CORUN_PORT"])
USER = os.environ["CORUN_USER"]
PASSWORD = os.environ["CORUN_PASSWORD"]
DATABASE = os.environ["CORUN_DATABASE"]
AUTHORITY = os.environ["CORUN_AUTHORITY"]
ROWS = 100_000

UTC = dt.timezone.utc
# The first row of the table `types`; the second one is null but for its id.
TYPES = {
    "id": 1,
    "b": True,
    "i2": -2,
    "i4": -4,
    "i8": -(2**63),
    "f4": 0.5,
    "f8": 1e300,
    "n": Decimal("-1234.500"),
    "t": "Grüße, 'x' \"y\"",
    "by": b"\x00\xff",
    "d": dt.date(2024, 2, 29),
    "tm": dt.time(1, 2, 3, 4),
    "ts": dt.datetime(2024, 2, 29, 12, 34, 56, 500000),
    "tsz": dt.datetime(2024, 2, 29, 12, 34, 56, 500000, tzinfo=UTC),
    "a": [1, None, 3],
    "ta": ["x", 'y "z"', None],
}


def equal(found, wanted):
    if found != wanted or type(found) is not type(wanted):
        raise AssertionError(f"{found!r} instead of {wanted!r}")


def same(found, wanted):
    """Values that may be of another type."""
    if found != wanted:
        raise AssertionError(f"{found!r} instead of {wanted!r}")


def fails(sqlstate, run, of=lambda error: getattr(error, "sqlstate", None)):
    """Runs what must fail with this SQLSTATE; returns the error."""
    try:
        run()
    except Exception as error:  # noqa: BLE001
        equal(of(error), sqlstate)
        return error
    raise AssertionError(f"no error, instead of {sqlstate}")


class Checks:
    def __init__(self, driver):
        self.driver = driver
        self.count = 0

    def say(self, name, error=None):
        self.count += 1
        if error is None:
            print(f"{self.driver} {name} ok", flush=True)
            return
        text = " ".join(f"{type(error).__name__}: {error}".split())[:300]
        print(f"{self.driver} {name} FAIL {text}", flush=True)

    def __call__(self, function):
        """Runs a check, named after its function."""
        name = function.__name__.strip("_").replace("_", "-")
        try:
            result = function()
            if inspect.isawaitable(result):
                asyncio.get_event_loop().run_until_complete(asyncio.wait_for(result, 120))
            self.say(name)
        except Exception as error:  # noqa: BLE001
            self.say(name, error)
        return function

    def each(self, name, values, run):
        """A check for each of several values."""
        for label, value in values:
            try:
                run(value)
                self.say(f"{name}-{label}")
            except Exception as error:  # noqa: BLE001
                self.say(f"{name}-{label}", error)

    def done(self):
        print(f"{self.driver} done {self.count}", flush=True)
