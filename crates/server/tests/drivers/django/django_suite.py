"""Runs applications of Django's own test suite against corun-sql and against PostgreSQL, each on databases of its own, and compares.

    django_suite.py SUITE WORK RESULTS [--only corun|postgres] [APPLICATION...]

SUITE is the folder `tests` of Django's sources. Environment: CORUN_SQL, CORUN_PG_BIN, CORUN_AS (words before PostgreSQL's programs).
Outcomes stay in RESULTS; those of PostgreSQL that are there are not asked for again. Exit code 1: a test works on PostgreSQL only.
"""

import json
import os
import re
import shutil
import socket
import subprocess
import sys
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

HERE = Path(__file__).resolve().parent
# What needs PostGIS or PostgreSQL's extensions, and one that starts programs for minutes.
LEFT_OUT = {"gis_tests", "postgres_tests", "admin_scripts"}
APPLICATION_SECONDS = int(os.environ.get("CORUN_APPLICATION_SECONDS", "900"))
DATABASES = ["postgres", "django", "other"]


def applications(suite):
    """Those with a test that uses a database."""
    uses = re.compile(r"class \w+\([^)]*\b(Transaction|LiveServer)?TestCase\b")
    folders = sorted(path for path in suite.iterdir() if path.is_dir() and path.name not in LEFT_OUT)
    return [folder.name for folder in folders if any(uses.search(path.read_text()) for path in folder.rglob("*.py"))]


def free_port():
    with socket.socket() as it:
        it.bind(("127.0.0.1", 0))
        return it.getsockname()[1]


class Corun:
    """A server and stores of its own for each application."""

    def __init__(self, work):
        self.work = work / "corun"
        self.process = None

    def begin(self):
        shutil.rmtree(self.work, ignore_errors=True)
        self.work.mkdir(parents=True)
        self.port = free_port()
        self.log = open(self.work / "log", "w")
        stores = [part for name in DATABASES for part in ("--store", name)]
        command = [os.environ["CORUN_SQL"], "serve", "--listen", f"127.0.0.1:{self.port}", *stores]
        self.process = subprocess.Popen(command, cwd=self.work, stdout=self.log, stderr=self.log)
        for _ in range(300):
            try:
                socket.create_connection(("127.0.0.1", self.port)).close()
                return
            except OSError:
                if self.process.poll() is not None:
                    break
                time.sleep(0.1)
        sys.exit(f"error: corun-sql does not start: {(self.work / 'log').read_text()[-500:]}")

    def end(self):
        died = self.process.poll()
        if died is None:
            self.process.kill()
            self.process.wait()
        self.log.close()
        return died


class PostgreSQL:
    """One server; databases are made anew for each application."""

    def __init__(self, work):
        self.work = work / "postgres"
        self.programs = Path(os.environ["CORUN_PG_BIN"])
        self.ahead = os.environ.get("CORUN_AS", "").split()
        self.port = free_port()
        self.process = None

    def start(self):
        data = self.work / "data"
        if not data.exists():
            self.work.mkdir(parents=True, exist_ok=True)
            if self.ahead:
                shutil.chown(self.work, "postgres")
            command = [*self.ahead, self.programs / "initdb", "-D", data, "-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale=C.UTF-8", "-N"]
            subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        settings = ["fsync=off", "listen_addresses=127.0.0.1", f"port={self.port}", f"unix_socket_directories={self.work}"]
        command = [*self.ahead, self.programs / "postgres", "-D", data]
        for setting in settings:
            command += ["-c", setting]
        self.process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        for _ in range(300):
            if subprocess.run([self.programs / "pg_isready", "-q", "-h", "127.0.0.1", "-p", str(self.port)]).returncode == 0:
                return
            time.sleep(0.1)
        sys.exit("error: PostgreSQL does not start")

    def begin(self):
        if self.process is None:
            self.start()
        for name in DATABASES[1:]:
            for statement in (f"DROP DATABASE IF EXISTS {name} WITH (FORCE)", f"CREATE DATABASE {name}"):
                command = [self.programs / "psql", "-qX", "-h", "127.0.0.1", "-p", str(self.port), "-U", "postgres", "-c", statement]
                subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def end(self):
        return None

    def stop(self):
        if self.process is not None:
            self.process.terminate()
            self.process.wait()


def run(server, suite, results, application):
    outcomes = results / f"{application}.json"
    outcomes.unlink(missing_ok=True)
    outcomes.touch()
    server.begin()
    environment = dict(os.environ, CORUN_HOST="127.0.0.1", CORUN_PORT=str(server.port), CORUN_USER="postgres", CORUN_OUTCOMES=str(outcomes))
    environment |= {"PYTHONPATH": str(HERE), "PYTHONDONTWRITEBYTECODE": "1", "PYTHONWARNINGS": "ignore"}
    command = [sys.executable, "runtests.py", application, "--settings=django_settings", "--parallel=1", "--keepdb", "--noinput"]
    begun = time.time()
    with open(results / f"{application}.log", "w") as log:
        try:
            code = subprocess.run(command, cwd=suite, env=environment, stdout=log, stderr=log, timeout=APPLICATION_SECONDS).returncode
        except subprocess.TimeoutExpired:
            code = "timeout"
            log.write(f"\nTimeout: the application took more than {APPLICATION_SECONDS} seconds\n")
    died = server.end()
    if died is not None:
        with open(results / f"{application}.log", "a") as log:
            log.write(f"\nServer: ended by itself with {died}\n")
    print(f"{results.name} {application}: {code}, {time.time() - begun:.0f} s" + ("" if died is None else f", THE SERVER ENDED: {died}"), flush=True)


def read(results, application):
    """Outcome and reason of each test, and of whatever is no test (a class or the whole application that could not be made ready)."""
    tests, others = {}, {}
    path = results / f"{application}.json"
    for line in path.read_text().splitlines() if path.exists() else []:
        line = json.loads(line)
        where = others if "(" in line["test"] else tests
        where[line["test"]] = (line["outcome"], line["why"])
    log = results / f"{application}.log"
    last = [line for line in (log.read_text(errors="replace").splitlines() if log.exists() else []) if re.match(r"[\w.]+(Error|Exception|Server|Timeout)\b.*:", line)]
    return tests, others, last[-1] if last else "did not run"


def instead(name, others, last):
    """Why a test did not run."""
    for other, (outcome, why) in others.items():
        if (within := re.search(r"\((.*)\)", other)) and name.startswith(within[1]):
            return outcome, why
    return "error", last


def compare(results, names):
    print(f"{'application':34} {'PostgreSQL: tests':>17} {'passed':>6} {'failed':>6} {'errors':>6} {'skipped':>7} | {'corun: passed':>13} {'failed':>6} {'errors':>6} {'skipped':>7} {'only PG':>7}")
    totals, missing = Counter(), []
    for name in names:
        theirs, _, _ = read(results / "postgres", name)
        ours, others, last = read(results / "corun", name)
        row = Counter(f"pg {outcome}" for outcome, _ in theirs.values())
        for test, (outcome, _) in sorted(theirs.items()):
            got, why = ours.get(test) or instead(test, others, last)
            row[f"us {got}"] += 1
            if outcome == "passed" and got != "passed":
                row["only"] += 1
                missing.append((test, got, why.split("\n")[0]))
        line(name, len(theirs), row)
        totals += row + Counter(tests=len(theirs))
    line("all", totals["tests"], totals)
    with open(results / "only-postgres.txt", "w") as out:
        for test, got, why in missing:
            out.write(f"{test} {got} {why}\n")
            print(f"only PostgreSQL: {test}: {got}: {why[:200]}")
    return 1 if missing else 0


def line(name, tests, row):
    theirs = f"{row['pg passed']:6} {row['pg failed']:6} {row['pg error']:6} {row['pg skipped']:7}"
    print(f"{name:34} {tests:17} {theirs} | {row['us passed']:13} {row['us failed']:6} {row['us error']:6} {row['us skipped']:7} {row['only']:7}")


def main():
    suite, work, results, *names = sys.argv[1:]
    suite, work, results = Path(suite), Path(work), Path(results)
    only = None
    if names[:1] == ["--only"]:
        only, names = names[1], names[2:]
    names = names or applications(suite)
    for side in ("corun", "postgres"):
        (results / side).mkdir(parents=True, exist_ok=True)
    postgres = PostgreSQL(work)

    def side(which):
        for name in names:
            if which == "corun":
                run(Corun(work), suite, results / which, name)
            elif not (results / which / f"{name}.json").exists():
                run(postgres, suite, results / which, name)

    try:
        with ThreadPoolExecutor(2) as pool:
            list(pool.map(side, [only] if only else ["corun", "postgres"]))
    finally:
        postgres.stop()
    return compare(results, names)


if __name__ == "__main__":
    sys.exit(main())
