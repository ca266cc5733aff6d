"""psycopg 3."""

import datetime as dt
import json
import threading
import time
import uuid
from decimal import Decimal

import psycopg
from psycopg.types.json import Json, Jsonb

from checks import AUTHORITY, DATABASE, HOST, PASSWORD, PORT, ROWS, TYPES, USER, UTC, Checks, equal, fails, same

check = Checks("psycopg")
LOGIN = f"host={HOST} port={PORT} user={USER} password={PASSWORD} dbname={DATABASE} connect_timeout=30"


def connect(more="sslmode=disable", **options):
    return psycopg.connect(f"{LOGIN} {more}", autocommit=True, **options)


@check
def plain():
    with connect() as session:
        equal(session.execute("select 1").fetchone(), (1,))
        equal(session.info.parameter_status("server_encoding"), "UTF8")


@check
def tls():
    with connect(f"sslmode=verify-full sslrootcert={AUTHORITY}") as session:
        same(session.pgconn.ssl_in_use, True)
    with connect(f"sslmode=verify-full sslrootcert={AUTHORITY} channel_binding=require") as session:
        equal(session.execute("select 1").fetchone(), (1,))


@check
def wrong_password():
    try:
        psycopg.connect(LOGIN.replace(PASSWORD, "wrong"))
    except psycopg.OperationalError as error:
        assert "authentication failed" in str(error), error
        return
    raise AssertionError("no error")


session = connect()


@check
def names():
    cursor = session.execute("select count(*), 1, 1, sum(i4), b::text from types group by b limit 1")
    equal([column.name for column in cursor.description], ["count", "?column?", "?column?", "sum", "b"])


def types_with(binary):
    cursor = session.cursor(binary=binary)
    first, second = cursor.execute("select * from types order by id").fetchall()
    names = [column.name for column in cursor.description]
    for name, found in zip(names, first):
        if isinstance(found, dt.datetime) and found.tzinfo:
            found = found.astimezone(UTC)
        wanted = TYPES[name]
        if found != wanted or type(found) is not type(wanted):
            raise AssertionError(f"{name}: {found!r} instead of {wanted!r}")
    equal(second, (2,) + (None,) * (len(names) - 1))


@check
def types_text():
    types_with(False)


@check
def types_binary():
    types_with(True)


VALUES = [
    ("bool", "bool", True),
    ("int2", "int2", -7),
    ("int4", "int4", 70000),
    ("int8", "int8", 2**62),
    ("float8", "float8", 1.25),
    ("numeric", "numeric", Decimal("-12.345")),
    ("text", "text", "Grüße \U0001f600"),
    ("varchar", "varchar", "x"),
    ("bytea", "bytea", b"\x00\x01\xff"),
    ("date", "date", dt.date(1999, 12, 31)),
    ("time", "time", dt.time(23, 59, 59, 999999)),
    ("timestamp", "timestamp", dt.datetime(2024, 2, 29, 1, 2, 3, 4)),
    ("timestamptz", "timestamptz", dt.datetime(2024, 2, 29, 1, 2, 3, 4, tzinfo=UTC)),
    ("interval", "interval", dt.timedelta(days=3, seconds=4, microseconds=5)),
    ("uuid", "uuid", uuid.UUID("12345678-1234-5678-1234-567812345678")),
    ("array", "int8[]", [1, 2, 3]),
    ("array-of-text", "text[]", ["a", "b,c", '"d"', None]),
]


def round_trip(binary):
    def run(value):
        of, value = value
        mark = "%b" if binary else "%t"
        cursor = session.cursor(binary=binary)
        found = cursor.execute(f"select {mark}::{of}", (value,)).fetchone()[0]
        if isinstance(found, dt.datetime) and found.tzinfo:
            found = found.astimezone(UTC)
        equal(found, value)
        equal(cursor.execute(f"select {mark}::{of}", (None,)).fetchone()[0], None)

    return run


check.each("text", [(label, (of, value)) for label, of, value in VALUES], round_trip(False))
check.each("binary", [(label, (of, value)) for label, of, value in VALUES], round_trip(True))


@check
def json_values():
    value = {"a": [1, None, "x"]}
    for of, wrap in [("json", Json), ("jsonb", Jsonb)]:
        found = session.execute(f"select %s::{of}", (wrap(value),)).fetchone()[0]
        same(json.loads(found) if isinstance(found, str) else found, value)


@check
def parameters_without_casts():
    row = session.execute("select t from types where id = %s and b = %s and n < %s", (1, True, Decimal(0))).fetchone()
    equal(row, (TYPES["t"],))
    row = session.execute("select id from types where tsz = %s and d = %s", (TYPES["tsz"], TYPES["d"])).fetchone()
    equal(row, (1,))
    equal(session.execute("select id from types where id = any(%s)", ([1, 5],)).fetchall(), [(1,)])


@check
def prepared():
    for number in range(10):
        row = session.execute("select %s::int8 + count(*) from types", (number,), prepare=True).fetchone()
        equal(row, (number + 2,))


@check
def executemany_and_pipeline():
    with session.pipeline():
        cursors = [session.execute("select %s::int4", (number,)) for number in range(50)]
    equal([cursor.fetchone()[0] for cursor in cursors], list(range(50)))


@check
def server_cursor():
    with session.transaction():
        with session.cursor(name="big") as cursor:
            cursor.itersize = 5000
            cursor.execute("select x, 'row ' || x as text from numbers order by x")
            count = 0
            for row in cursor:
                count += 1
                equal(row[0], count)
        equal(count, ROWS)


@check
def stream():
    count = sum(1 for _ in session.cursor().stream("select x from numbers"))
    equal(count, ROWS)


@check
def client_cursor():
    with psycopg.ClientCursor(session) as cursor:
        equal(cursor.execute("select %s || %s", ("it's", "ok")).fetchone(), ("it'sok",))


@check
def copy():
    with session.cursor().copy("copy (select x from numbers order by x limit 3) to stdout") as copy:
        equal(b"".join(bytes(part) for part in copy), b"1\n2\n3\n")
    with session.cursor().copy("copy (select id, t, n from types order by id) to stdout (format binary)") as copy:
        copy.set_types(["int8", "text", "numeric"])
        equal(list(copy.rows()), [(1, TYPES["t"], TYPES["n"]), (2, None, None)])


LONG = "select count(distinct a.value * b.value) from generate_series(1, 100000) a(value), generate_series(1, 100000) b(value)"


@check
def cancel():
    timer = threading.Timer(0.5, session.cancel_safe)
    timer.start()
    fails("57014", lambda: session.execute(LONG))
    timer.join()
    equal(session.execute("select 1").fetchone(), (1,))


@check
def timeout():
    session.execute("set statement_timeout = '300ms'")
    fails("57014", lambda: session.execute(LONG))
    session.execute("reset statement_timeout")


@check
def errors():
    error = fails("42P01", lambda: session.execute("select * from nothing_here"))
    equal(error.diag.statement_position, "15")
    fails("42601", lambda: session.execute("selec 1"))
    fails("42703", lambda: session.execute("select nope from types"))
    fails("22012", lambda: session.execute("select 1/0"))
    fails("22P02", lambda: session.execute("select 'x'::int"))
    fails("25006", lambda: session.execute("create table x (a int)"))
    fails("25006", lambda: session.execute("insert into types (id) values (3)"))


@check
def transactions():
    other = psycopg.connect(f"{LOGIN} sslmode=disable")
    equal(other.execute("select 1").fetchone(), (1,))
    equal(other.info.transaction_status.name, "INTRANS")
    try:
        with other.transaction():
            fails("22012", lambda: other.execute("select 1/0"))
            fails("25P02", lambda: other.execute("select 1"))
            raise psycopg.Rollback
    except psycopg.Rollback:
        pass
    equal(other.execute("select 2").fetchone(), (2,))
    other.rollback()
    other.read_only = True
    other.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
    equal(other.execute("select 3").fetchone(), (3,))
    other.commit()
    other.close()


@check
def discard():
    session.execute("set application_name = 'x'")
    session.execute("discard all")
    equal(session.execute("show application_name").fetchone(), ("",))


@check
def type_info():
    info = psycopg.types.TypeInfo.fetch(session, "timestamptz")
    equal((info.oid, info.array_oid), (1184, 1185))


@check
def time_zone():
    session.execute("set time zone 'Europe/Berlin'")
    found = session.execute("select tsz from types where id = 1").fetchone()[0]
    equal(found.utcoffset(), dt.timedelta(hours=1))
    equal(found.astimezone(UTC), TYPES["tsz"])
    session.execute("reset time zone")


@check
def closes():
    other = connect()
    pid = other.info.backend_pid
    other.close()
    for _ in range(100):
        if session.execute("select count(*) from pg_stat_activity where pid = %s", (pid,)).fetchone()[0] == 0:
            return
        time.sleep(0.1)
    raise AssertionError("the session is still there")


session.close()
check.done()
