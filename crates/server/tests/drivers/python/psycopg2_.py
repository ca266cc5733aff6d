"""psycopg 2."""

import datetime as dt
import threading
import uuid
from decimal import Decimal

import psycopg2
import psycopg2.extras

from checks import AUTHORITY, DATABASE, HOST, PASSWORD, PORT, ROWS, TYPES, USER, UTC, Checks, equal, fails

check = Checks("psycopg2")
LOGIN = f"host={HOST} port={PORT} user={USER} password={PASSWORD} dbname={DATABASE} connect_timeout=30"
psycopg2.extras.register_uuid()


def state(error):
    return getattr(error, "pgcode", None)


def rows(session, text, values=None):
    with session.cursor() as cursor:
        cursor.execute(text, values)
        return cursor.fetchall()


@check
def tls():
    with psycopg2.connect(f"{LOGIN} sslmode=verify-full sslrootcert={AUTHORITY}") as session:
        equal(rows(session, "select 1"), [(1,)])


session = psycopg2.connect(f"{LOGIN} sslmode=disable")
session.autocommit = True


@check
def types():
    first, second = rows(session, "select * from types order by id")
    for (name, wanted), found in zip(TYPES.items(), first):
        if isinstance(found, dt.datetime) and found.tzinfo:
            found = found.astimezone(UTC)
        if isinstance(found, memoryview):
            found = bytes(found)
        if found != wanted:
            raise AssertionError(f"{name}: {found!r} instead of {wanted!r}")
    equal(second, (2,) + (None,) * (len(TYPES) - 1))


# psycopg 2 writes the values into the text.
check.each(
    "literal",
    [
        ("numbers", (7, 2**62, 1.25, Decimal("-12.345"))),
        ("text", ("it's \\ Grüße", None, True)),
        ("dates", (dt.date(1999, 12, 31), dt.datetime(2024, 2, 29, 1, 2, 3, 4), dt.time(1, 2, 3))),
        ("zoned", (dt.datetime(2024, 2, 29, 1, 2, 3, 4, tzinfo=UTC),)),
        ("interval", (dt.timedelta(days=3, seconds=4),)),
        ("array", ([1, 2, 3], ["a", "b"])),
        ("bytea", (psycopg2.Binary(b"\x00\xff"),)),
        ("uuid", (uuid.UUID("12345678-1234-5678-1234-567812345678"),)),
    ],
    lambda values: rows(session, "select " + ", ".join(["%s"] * len(values)), values),
)


@check
def filters():
    equal(rows(session, "select id from types where d = %s and n < %s and id in %s", (TYPES["d"], Decimal(0), (1, 2))), [(1,)])


@check
def server_cursor():
    session.autocommit = False
    with session.cursor("big") as cursor:
        cursor.itersize = 10_000
        cursor.execute("select x from numbers order by x")
        equal([row[0] for row in cursor], list(range(1, ROWS + 1)))
    session.commit()
    session.autocommit = True


@check
def copy():
    import io

    out = io.StringIO()
    with session.cursor() as cursor:
        cursor.copy_expert("copy (select x from numbers order by x limit 2) to stdout csv header", out)
        equal(out.getvalue(), "x\n1\n2\n")
        out = io.StringIO()
        cursor.copy_to(out, "types", columns=("id", "t"))
    equal(len(out.getvalue().splitlines()), 2)


@check
def cancel():
    timer = threading.Timer(0.5, session.cancel)
    timer.start()
    long = "select count(distinct a.value * b.value) from generate_series(1, 100000) a(value), generate_series(1, 100000) b(value)"
    fails("57014", lambda: rows(session, long), state)
    timer.join()


@check
def errors():
    fails("42P01", lambda: rows(session, "select * from nothing_here"), state)
    fails("25006", lambda: rows(session, "delete from types"), state)


@check
def transactions():
    session.set_session(readonly=True, isolation_level="SERIALIZABLE", autocommit=False)
    equal(rows(session, "select 1"), [(1,)])
    session.commit()
    fails("22012", lambda: rows(session, "select 1/0"), state)
    fails("25P02", lambda: rows(session, "select 1"), state)
    session.rollback()
    equal(rows(session, "select 1"), [(1,)])
    session.commit()
    session.set_session(readonly=False, autocommit=True)


@check
def reset():
    session.autocommit = False
    session.reset()
    equal(rows(session, "select 1"), [(1,)])
    session.commit()


@check
def dictionaries():
    with session.cursor(cursor_factory=psycopg2.extras.RealDictCursor) as cursor:
        cursor.execute("select count(*), max(id) as most from types")
        equal(dict(cursor.fetchone()), {"count": 2, "most": 2})


session.close()
check.done()
