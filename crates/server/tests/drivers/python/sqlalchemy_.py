"""SQLAlchemy 2 over psycopg 3: inspection, reflection, the ORM's reads."""

import datetime as dt
from decimal import Decimal

import sqlalchemy as sa
from sqlalchemy.ext.automap import automap_base
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column

from checks import DATABASE, HOST, PASSWORD, PORT, ROWS, TYPES, USER, UTC, Checks, equal, fails

check = Checks("sqlalchemy")
URL = sa.URL.create("postgresql+psycopg", USER, PASSWORD, HOST, PORT, DATABASE, query={"sslmode": "disable"})
engine = sa.create_engine(URL)


@check
def dialect():
    with engine.connect() as session:
        equal(session.execute(sa.text("select 1")).scalar(), 1)
    equal(engine.dialect.default_schema_name, "public")
    equal(engine.dialect.server_version_info[0], 15)


@check
def inspect_tables():
    inspector = sa.inspect(engine)
    assert {"types", "numbers", "people"} <= set(inspector.get_table_names()), inspector.get_table_names()
    assert {"public", "hr", "shop"} <= set(inspector.get_schema_names()), inspector.get_schema_names()
    equal(inspector.get_table_names(schema="hr"), ["staff"])
    equal(inspector.get_view_names(), [])
    equal(inspector.has_table("types"), True)
    equal(inspector.has_table("nothing"), False)


@check
def inspect_columns():
    columns = {column["name"]: column for column in sa.inspect(engine).get_columns("types")}
    equal(list(columns), list(TYPES))
    for name, of in [("i8", sa.BIGINT), ("n", sa.NUMERIC), ("t", sa.TEXT), ("by", sa.dialects.postgresql.BYTEA),
                     ("d", sa.DATE), ("f8", sa.DOUBLE_PRECISION), ("a", sa.ARRAY), ("b", sa.BOOLEAN)]:
        assert isinstance(columns[name]["type"], of), f"{name}: {columns[name]['type']!r}"
    equal((columns["n"]["type"].precision, columns["n"]["type"].scale), (12, 3))
    equal(columns["tsz"]["type"].timezone, True)


@check
def inspect_keys():
    inspector = sa.inspect(engine)
    key = inspector.get_pk_constraint("orders", schema="shop")
    equal((key["constrained_columns"], key["name"]), (["id"], "orders_pkey"))
    equal(inspector.get_indexes("orders", schema="shop"), [])
    equal(inspector.get_foreign_keys("orders", schema="shop"), [])
    equal(inspector.get_unique_constraints("orders", schema="shop"), [])
    equal(inspector.get_check_constraints("orders", schema="shop"), [])


@check
def reflection():
    metadata = sa.MetaData()
    metadata.reflect(engine)
    metadata.reflect(engine, schema="shop")
    types = metadata.tables["types"]
    with engine.connect() as session:
        row = session.execute(sa.select(types).where(types.c.id == 1)).mappings().one()
    for name, wanted in TYPES.items():
        found = row[name]
        if isinstance(found, dt.datetime) and found.tzinfo:
            found = found.astimezone(UTC)
        if found != wanted:
            raise AssertionError(f"{name}: {found!r} instead of {wanted!r}")


class Base(DeclarativeBase):
    pass


class Order(Base):
    __tablename__ = "orders"
    __table_args__ = {"schema": "shop"}
    id: Mapped[int] = mapped_column(primary_key=True)
    customer: Mapped[str]
    price: Mapped[Decimal] = mapped_column(sa.Numeric(12, 2))


class Number(Base):
    __tablename__ = "numbers"
    x: Mapped[int] = mapped_column(primary_key=True)


@check
def orm_select():
    with Session(engine) as session:
        order = session.get(Order, 2)
        equal((order.customer, order.price), ("Bob", Decimal("20.50")))
        ids = session.scalars(sa.select(Order.id).where(Order.customer.in_(["Ann", "Cid"])).order_by(Order.id)).all()
        equal(ids, [1, 3])
        equal(session.scalar(sa.select(sa.func.count()).select_from(Order)), 3)
        equal(session.scalars(sa.select(Order).order_by(Order.price.desc()).limit(1).offset(1)).one().id, 2)


@check
def orm_expressions():
    with Session(engine) as session:
        rows = session.execute(
            sa.select(Order.customer, sa.func.sum(Order.price).label("sum"), sa.case((Order.id > 1, "old"), else_="new"))
            .group_by(Order.customer, Order.id)
            .order_by(Order.customer)
        ).all()
        equal([(row[0], row[2]) for row in rows], [("Ann", "new"), ("Bob", "old"), ("Cid", "old")])
        inner = sa.select(Order.id).where(Order.price > Decimal("15")).subquery()
        equal(session.scalar(sa.select(sa.func.count()).select_from(inner)), 2)
        part = sa.func.row_number().over(order_by=Order.id.desc()).label("n")
        equal(tuple(session.execute(sa.select(Order.id, part).order_by(Order.id)).all()[0]), (1, 3))
        day = sa.func.date_trunc("day", sa.literal(dt.datetime(2024, 2, 29, 5)))
        equal(session.scalar(sa.select(day)), dt.datetime(2024, 2, 29))
        equal(session.scalar(sa.select(sa.exists().where(Order.id == 1))), True)


@check
def automap():
    base = automap_base()
    base.prepare(autoload_with=engine, schema="shop")
    equal([name for name in base.classes.keys()], ["orders"])
    with Session(engine) as session:
        equal(session.query(base.classes.orders).count(), 3)


@check
def yield_per():
    with Session(engine) as session:
        count = sum(1 for _ in session.scalars(sa.select(Number).execution_options(yield_per=5000)))
        equal(count, ROWS)


@check
def isolation():
    with engine.connect().execution_options(isolation_level="SERIALIZABLE") as session:
        equal(session.get_isolation_level(), "SERIALIZABLE")
        equal(session.execute(sa.text("select 1")).scalar(), 1)
    with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as session:
        equal(session.execute(sa.text("select 1")).scalar(), 1)
    with engine.connect().execution_options(postgresql_readonly=True) as session:
        equal(session.execute(sa.text("select 1")).scalar(), 1)


@check
def savepoints():
    with engine.connect() as session:
        part = session.begin_nested()
        fails("22012", lambda: session.execute(sa.text("select 1/0")), lambda error: error.orig.sqlstate)
        part.rollback()
        equal(session.execute(sa.text("select 1")).scalar(), 1)


@check
def asyncpg_dialect():
    import asyncio

    from sqlalchemy.ext.asyncio import create_async_engine

    async def read():
        other = create_async_engine(URL.set(drivername="postgresql+asyncpg", query={"ssl": "disable"}))
        async with other.connect() as session:
            equal((await session.execute(sa.select(Order.id).where(Order.customer == "Ann"))).scalar(), 1)
            tables = await session.run_sync(lambda sync: sa.inspect(sync).get_table_names(schema="shop"))
            equal(tables, ["orders"])
        await other.dispose()

    asyncio.run(read())


@check
def psycopg2_dialect():
    other = sa.create_engine(URL.set(drivername="postgresql+psycopg2"))
    with Session(other) as session:
        equal(session.get(Order, 1).customer, "Ann")
        equal(sa.inspect(other).get_pk_constraint("orders", schema="shop")["constrained_columns"], ["id"])
    other.dispose()


@check
def pandas_like_chunks():
    with engine.connect().execution_options(stream_results=True) as session:
        result = session.execute(sa.text("select x from numbers order by x"))
        equal(sum(len(part) for part in result.partitions(9999)), ROWS)


engine.dispose()
check.done()
