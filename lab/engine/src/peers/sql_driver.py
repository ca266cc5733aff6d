# What drives a class `Driver` above this text: one JSON request a line in, one JSON reply a line out.
#
# Requests: {"op": "hello"}, {"op": "threads", "threads": N}, {"op": "load", "table": T, "path": P}, {"op": "view", "table": T, "path": P},
# {"op": "drop", "table": T}, {"op": "run", "sql": S}, {"op": "streams", "statements": [S], "streams": [[NUMBER]]} (DuckDB only),
# {"op": "explain", "sql": S}; each is the method of its name. A failed request is answered
# with {"error": TEXT}; the end of the input ends the driver. Only execute and fetch are timed.
import json
import sys


def cell(value):
    return "NULL" if value is None else str(value)


OPERATIONS = {"hello", "threads", "load", "view", "drop", "run", "streams", "explain"}


def main():
    driver = Driver()
    for line in sys.stdin:
        try:
            request = json.loads(line)
            if request["op"] not in OPERATIONS:
                raise ValueError("no operation is named " + request["op"])
            reply = getattr(driver, request["op"])(request)
        except Exception as error:  # Every failure must reach the other side as a reply.
            reply = {"error": "%s: %s" % (type(error).__name__, error)}
        sys.stdout.write(json.dumps(reply) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
