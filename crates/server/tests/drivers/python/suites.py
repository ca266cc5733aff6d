"""Compares two runs of a test suite, as pytest's JUnit files: suites.py ON_POSTGRESQL HERE.

Prints a table of each file's results in both, then the tests that pass on PostgreSQL and not here, grouped by the error's first line.
Exit code 1 if there are any."""

import collections
import re
import sys
import xml.etree.ElementTree as tree


def results(path):
    """{(file, test): (result, first line of the error)}. A test with an error in its teardown has two cases: the worse counts."""
    found = {}
    order = ["skipped", "passed", "failed", "error"]
    for case in tree.parse(path).getroot().iter("testcase"):
        result, why = "passed", ""
        for part in case:
            if part.tag in ("failure", "error", "skipped"):
                result = {"failure": "failed", "error": "error", "skipped": "skipped"}[part.tag]
                why = first_line(part.text or part.get("message") or "")
        # Classes are named after the server's version, too.
        name = re.sub(r"_postgresql\+\w+?((_\d+)+|$)", "", case.get("classname")).split(".")
        file = "/".join(part for part in name if part[:1].islower())
        key = (file, ".".join(part for part in name if not part[:1].islower()) + "::" + case.get("name"))
        if key not in found or order.index(result) > order.index(found[key][0]):
            found[key] = (result, why)
    return found


def first_line(text):
    """What the database said, else the last exception."""
    said = re.findall(r"^(?:sqlalchemy|psycopg2?|asyncpg)[\w.]*(?:Error|Exception|Supported|[A-Z]\w+): (.*)$", text, re.M)
    if said:
        return said[-1]
    lines = [line for line in text.strip().splitlines() if line and not line.startswith(" ")]
    return lines[-1] if lines else ""


def cause(line):
    """The same for errors that differ by names and numbers only."""
    return re.sub(r"\"[^\"]*\"|'[^']*'|\b\d+\b", "_", line)[:110]


def main():
    postgresql, here = results(sys.argv[1]), results(sys.argv[2])
    kinds = ["passed", "failed", "error", "skipped"]
    counts = collections.defaultdict(lambda: [0] * 8)
    for side, run in enumerate([postgresql, here]):
        for (file, _), (result, _) in run.items():
            for row in (file, "all"):
                counts[row][side * 4 + kinds.index(result)] += 1
    print(f"{'':50} {'PostgreSQL':^27}   {'here':^27}")
    print(f"{'file':50} " + "   ".join(" ".join(f"{kind[:7]:>6}" for kind in ["passed", "failed", "errors", "skip"]) for _ in range(2)))
    for file in sorted(counts, key=lambda file: (file == "all", file)):
        row = counts[file]
        print(f"{file:50} " + "   ".join(" ".join(f"{n:6}" for n in row[at : at + 4]) for at in (0, 4)))
    passed = {test for test, (result, _) in postgresql.items() if result == "passed"}
    worse = {test: here.get(test, ("skipped", "did not run")) for test in passed if here.get(test, ("", ""))[0] != "passed"}
    causes = collections.defaultdict(list)
    for test, (result, why) in worse.items():
        causes[cause(why)].append((result, test, why))
    print(f"\npassed on PostgreSQL: {len(passed)}; of these here: {len(passed) - len(worse)} passed, {len(worse)} not")
    for name, tests in sorted(causes.items(), key=lambda item: -len(item[1])):
        print(f"\n{len(tests)} x {name}")
        for result, (file, test), why in sorted(tests):
            print(f"  {result} {file}::{test}  {why[:160]}")
    sys.exit(1 if worse else 0)


main()
