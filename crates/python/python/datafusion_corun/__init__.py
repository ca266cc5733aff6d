"""corun's operators for Python.

For programs that use ``datafusion`` already, one call puts corun's operators into a session::

    import datafusion_corun
    from datafusion import SessionContext

    ctx = datafusion_corun.install(SessionContext())

For all others there is a session of corun's own::

    session = datafusion_corun.Session()
    session.register("orders", "orders.parquet")
    session.sql("select count(*) from orders").pandas()
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from . import _internal
from ._internal import Error, Extension, Rows, __version__

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from datafusion import SessionContext

__all__ = [
    "Error",
    "Extension",
    "Plan",
    "Rows",
    "Session",
    "__version__",
    "install",
    "paused",
]

# By session, for those who have no hold of the extension itself.
_installed: dict[str, Extension] = {}


def install(
    ctx: SessionContext | None = None,
    *,
    memory_limit: int | None = None,
    coordinator: bool = False,
    **options: str,
) -> SessionContext:
    """Puts corun's operators into a session, and returns the handle to use from now on.

    ``EXPLAIN`` shows them: ``CorunJoinExec``, ``CorunAggregateExec`` and others. Files that only ``datafusion`` can reach are planned as before;
    writing needs :func:`paused`.

    Args:
        ctx: The session; a new one unless given.
        memory_limit: Bytes that corun's operators may take together; beyond them they use files.
        coordinator: Whether queries of several threads get cores of their own, each beside those that harm it least in the last-level cache.
            One coordinator for a process: sessions that share one share an ``Extension``.
        options: Options of corun's without their prefix, such as ``join="off"`` or ``keep_columns="auto"``.

    Raises:
        Error: An option that there is not, or a value that it does not take.
        TypeError: ``ctx`` is no session of ``datafusion`` 55.
    """
    extension = Extension(memory_limit=memory_limit, coordinator=coordinator)
    for name, value in options.items():
        extension.set(name, value)
    if ctx is None:
        from datafusion import SessionContext

        ctx = SessionContext()
    if not hasattr(ctx, "with_extensions"):
        msg = f"{type(ctx).__name__} is no SessionContext of datafusion 55"
        raise TypeError(msg)
    ctx = ctx.with_extensions(extension)
    _installed[ctx.session_id()] = extension
    return ctx


@contextmanager
def paused(ctx: SessionContext) -> Iterator[SessionContext]:
    """A session without corun's planner for a while, in all threads.

    ``datafusion`` 55 cannot write by a planner of another library, neither files by ``COPY`` and ``DataFrame.write_parquet`` (``FFI does not support
    decode_file_format``) nor rows by ``INSERT``::

        with datafusion_corun.paused(ctx):
            ctx.table("orders").write_parquet("orders.parquet")

    Raises:
        Error: corun is not installed in the session by :func:`install`.
    """
    extension = _installed.get(ctx.session_id())
    if extension is None:
        msg = "corun is not installed in this session: use install(ctx)"
        raise Error(msg)
    extension.use_in(ctx, corun=False)
    try:
        yield ctx
    finally:
        extension.use_in(ctx, corun=True)


class Session:
    """SQL over files, Arrow tables and data frames, on corun's operators.

    Args:
        partitions: Threads that a statement uses at most; all cores unless given.
        memory_limit: Bytes that all statements may take together; beyond them joins, groups and sorts use files.
        settings: Settings of the session, such as ``{"corun.keep_columns": "auto"}``.
        coordinator: Whether statements of several threads get cores of their own, each beside those that harm it least in the last-level
            cache; ``Rows.report`` says how long one waited and where it ran. One for a process is enough: two do not know of each other.

    Raises:
        Error: A setting that there is not, or a value that it does not take.
    """

    def __init__(
        self,
        *,
        partitions: int | None = None,
        memory_limit: int | None = None,
        settings: Mapping[str, str] | None = None,
        coordinator: bool = False,
    ) -> None:
        pairs = list((settings or {}).items())
        self._session = _internal.Session(
            partitions=partitions,
            memory_limit=memory_limit,
            settings=pairs,
            coordinator=coordinator,
        )

    def register(self, name: str, data: Any) -> None:
        """Makes ``data`` a table.

        Args:
            name: The table's name in SQL.
            data: The path of a Parquet or CSV file or of a folder of either, or what speaks Arrow's stream interface: a table of pyarrow's, a
                data frame of Polars' or pandas', ``Rows`` of another statement.

        Raises:
            Error: A file that is not there or not readable.
            TypeError: Data of another kind.
        """
        self._session.register(name, data)

    @property
    def tables(self) -> list[str]:
        """Names of the tables."""
        return self._session.tables

    def sql(self, statement: str, *, progress: bool = False) -> Rows:
        """Runs one statement.

        Args:
            statement: SQL.
            progress: Whether to show how much of the tables has been read; needs ``tqdm``.

        Raises:
            Error: What the statement cannot do, and what to do about it.
            KeyboardInterrupt: Somebody interrupted it; it has ended.
        """
        if not progress:
            return self._session.sql(statement)
        from tqdm.auto import tqdm

        with tqdm(total=100, unit="%", bar_format="{l_bar}{bar}| {elapsed}") as bar:

            def tell(part: float) -> None:
                bar.update(round(100 * part) - bar.n)

            return self._session.sql(statement, progress=tell)

    def explain(self, query: str, *, analyze: bool = False) -> Plan:
        """The plan of a query; with ``analyze`` the query runs, and the plan has its metrics."""
        return Plan(self._session.explain(query, analyze=analyze))


class Plan(str):
    """The text of a plan, which a notebook shows line by line."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        from html import escape

        return f'<pre style="white-space: pre">{escape(self)}</pre>'
