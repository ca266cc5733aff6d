"""asyncpg: prepares every statement and takes everything in binary, and asks the system tables for types that it does not know."""

import asyncio
import datetime as dt
import io
import ssl
import uuid
from decimal import Decimal

import asyncpg

from checks import AUTHORITY, DATABASE, HOST, PASSWORD, PORT, ROWS, TYPES, USER, UTC, Checks, equal, same

asyncio.set_event_loop(asyncio.new_event_loop())
run = asyncio.get_event_loop().run_until_complete
check = Checks("asyncpg")
LOGIN = {"host": HOST, "port": PORT, "user": USER, "password": PASSWORD, "database": DATABASE}


async def fails(sqlstate, work):
    try:
        await work
    except asyncpg.PostgresError as error:
        equal(error.sqlstate, sqlstate)
        return error
    raise AssertionError(f"no error, instead of {sqlstate}")


@check
async def tls():
    context = ssl.create_default_context(cafile=AUTHORITY)
    session = await asyncpg.connect(**LOGIN, ssl=context)
    equal(await session.fetchval("select 1"), 1)
    await session.close()


@check
async def wrong_password():
    await fails("28P01", asyncpg.connect(**{**LOGIN, "password": "wrong"}, ssl=False))


session = run(asyncpg.connect(**LOGIN, ssl=False))


@check
async def types():
    first, second = await session.fetch("select * from types order by id")
    for name, wanted in TYPES.items():
        if first[name] != wanted or type(first[name]) is not type(wanted):
            raise AssertionError(f"{name}: {first[name]!r} instead of {wanted!r}")
    equal(tuple(second.values()), (2,) + (None,) * (len(TYPES) - 1))


@check
async def names():
    row = await session.fetchrow("select count(*), sum(i4) from types")
    equal(list(row.keys()), ["count", "sum"])


VALUES = [
    ("bool", True),
    ("int2", -7),
    ("int4", 70000),
    ("int8", 2**62),
    ("float4", 0.5),
    ("float8", 1.25),
    ("numeric", Decimal("-12.345")),
    ("text", "Grüße"),
    ("varchar", "x"),
    ("bytea", b"\x00\xff"),
    ("date", dt.date(1999, 12, 31)),
    ("time", dt.time(23, 59, 59, 999999)),
    ("timestamp", dt.datetime(2024, 2, 29, 1, 2, 3, 4)),
    ("timestamptz", dt.datetime(2024, 2, 29, 1, 2, 3, 4, tzinfo=UTC)),
    ("interval", dt.timedelta(days=3, seconds=4, microseconds=5)),
    ("uuid", uuid.UUID("12345678-1234-5678-1234-567812345678")),
    ("json", '{"a": 1}'),
    ("jsonb", '{"a": 1}'),
    ("int8[]", [1, None, 3]),
    ("text[]", ["a", None, "b,c"]),
    ("date[]", [dt.date(1999, 12, 31)]),
]


def round_trip(value):
    of, value = value

    async def work():
        same(await session.fetchval(f"select $1::{of}", value), value)
        same(await session.fetchval(f"select $1::{of}", None), None)

    run(work())


check.each("value", [(of.replace("[]", "-array"), (of, value)) for of, value in VALUES], round_trip)


@check
async def parameters_without_casts():
    text = "select id from types where id = $1 and b = $2 and n = $3 and t = $4 and d = $5 and ts = $6 and tsz = $7 and by = $8"
    wanted = [TYPES[name] for name in ("id", "b", "n", "t", "d", "ts", "tsz", "by")]
    equal(await session.fetchval(text, *wanted), 1)
    equal(await session.fetchval("select count(*) from types where id = any($1::bigint[])", [1, 2, 3]), 2)
    equal(await session.fetchval("select count(*) from numbers limit $1", 1), ROWS)


@check
async def prepared():
    statement = await session.prepare("select $1::int8 + count(*) as n from types")
    equal([of.name for of in statement.get_parameters()], ["int8"])
    equal([(of.name, of.type.name) for of in statement.get_attributes()], [("n", "int8")])
    for number in range(10):
        equal(await statement.fetchval(number), number + 2)


@check
async def cursor():
    async with session.transaction(readonly=True):
        count = 0
        async for row in session.cursor("select x from numbers order by x", prefetch=1000):
            count += 1
            equal(row["x"], count)
        equal(count, ROWS)
        cursor = await session.cursor("select x from numbers order by x")
        equal([row["x"] for row in await cursor.fetch(3)], [1, 2, 3])
        await cursor.forward(5)
        equal((await cursor.fetchrow())["x"], 9)


@check
async def copy():
    out = io.BytesIO()
    await session.copy_from_query("select x from numbers where x < $1 order by x", 3, output=out)
    equal(out.getvalue(), b"1\n2\n")
    out = io.BytesIO()
    await session.copy_from_table("types", columns=["id"], output=out, format="csv", header=True)
    equal(sorted(out.getvalue().split()), [b"1", b"2", b"id"])


LONG = "select count(distinct a.value * b.value) from generate_series(1, 100000) a(value), generate_series(1, 100000) b(value)"


@check
async def cancel():
    try:
        await session.fetchval(LONG, timeout=0.5)
    except asyncio.TimeoutError:
        equal(await session.fetchval("select 1"), 1)
        return
    raise AssertionError("it was not cancelled")


@check
async def statement_timeout():
    await session.execute("set statement_timeout = 300")
    await fails("57014", session.fetchval(LONG))
    await session.execute("reset statement_timeout")


@check
async def errors():
    error = await fails("42P01", session.fetch("select * from nothing_here"))
    equal(error.position, "15")
    await fails("42601", session.execute("selec 1"))
    await fails("22012", session.fetch("select 1/0"))
    await fails("25006", session.execute("create table x (a int)"))


@check
async def transactions():
    async with session.transaction(isolation="repeatable_read"):
        equal(await session.fetchval("select 1"), 1)
        try:
            async with session.transaction():
                await session.fetch("select 1/0")
        except asyncpg.DivisionByZeroError:
            pass
        equal(await session.fetchval("select 2"), 2)


@check
async def pool():
    async with asyncpg.create_pool(**LOGIN, ssl=False, min_size=2, max_size=4) as pool:
        async def one(number):
            async with pool.acquire() as of_pool:
                await of_pool.execute("set application_name = 'pooled'")
                return await of_pool.fetchval("select $1::int4 * 2", number)

        equal(await asyncio.gather(*[one(number) for number in range(20)]), [2 * number for number in range(20)])
        equal(await pool.fetchval("show application_name"), "")


@check
async def introspection():
    # A type that asyncpg does not know by its number makes it ask pg_type; so does this.
    await session.set_type_codec("json", encoder=str, decoder=lambda text: "decoded " + text, schema="pg_catalog")
    equal(await session.fetchval("select '{}'::json"), "decoded {}")
    await session.reset_type_codec("json", schema="pg_catalog")


@check
async def reset():
    await session.execute("set application_name = 'x'")
    await session.reset()
    equal(await session.fetchval("show application_name"), "")


run(session.close())
check.done()
