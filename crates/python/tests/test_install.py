"""corun's operators inside of datafusion's own session."""

import datetime
import threading

import pyarrow as pa
import pytest
from datafusion import SessionConfig, SessionContext, udaf, udf
from datafusion.object_store import LocalFileSystem
from datafusion.user_defined import Accumulator

import datafusion_corun

JOIN = "select count(*), sum(b.v) from big a join big b on a.k = b.k where a.v < 500"


def plan_of(ctx, query):
    return "\n".join(str(row) for row in ctx.sql("explain " + query).to_pydict()["plan"])


def rows_of(ctx, query):
    return ctx.sql(query).to_pydict()


def answers_of_threads(ctx):
    answers = []

    def ask():
        for _ in range(5):
            answers.append(rows_of(ctx, JOIN)["count(*)"])

    threads = [threading.Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return answers


@pytest.fixture
def files(tmp_path):
    writer = SessionContext()
    rows = "select value as k, value % 1000 as v, cast(value % 7 as varchar) as t"
    path = tmp_path / "big.parquet"
    writer.sql(f"copy ({rows} from generate_series(1, 200000)) to '{path}'").collect()
    return path


@pytest.fixture
def ctx(files):
    ctx = datafusion_corun.install(SessionContext(SessionConfig().with_target_partitions(2)))
    ctx.register_parquet("big", files)
    return ctx


def test_operators_are_replaced(ctx):
    plan = plan_of(ctx, JOIN)
    assert "CorunJoinExec" in plan
    assert " HashJoinExec" not in plan
    whole = ctx.sql(JOIN).execution_plan().display_indent()
    assert "CorunPlanExec" in whole
    assert "HashJoinExec" not in whole


def test_groups_and_shared_parts_are_corun_s(ctx):
    sums = "with s as (select v, sum(k) as k from big group by v) "
    query = sums + "select count(*) from s a join s b on a.k = b.k"
    assert "CorunSharedExec" in plan_of(ctx, query)
    assert "CorunAggregateExec" in plan_of(ctx, "select k % 50000 as g, count(*) from big group by g")


def test_answers_are_those_of_datafusion(ctx, files):
    plain = SessionContext()
    plain.register_parquet("big", files)
    for query in [
        JOIN,
        "select t, count(*), avg(v), approx_distinct(k) > 0 from big group by t order by t",
        "select a.k, b.t from big a left join big b on a.k = b.k + 1 order by a.k limit 5",
        "select t, rank() over (partition by t order by k) as r from big order by t, r limit 3",
        "select upper(t) || '!', abs(-v) from big where k in (select k from big where v = 3) order by k limit 4",
        "select v, grouping(v), sum(k) from big group by rollup (v) order by v limit 3",
        "select date_trunc('month', timestamp '2026-11-29 10:00:00') as m, now() > timestamp '2020-01-01'",
        "select timestamp '2026-07-01 12:00:00' at time zone 'Europe/Berlin' as t",
    ]:
        assert rows_of(ctx, query) == rows_of(plain, query), query


def test_off_is_plain_datafusion(files):
    ctx = datafusion_corun.install(SessionContext(), join="off")
    ctx.register_parquet("big", files)
    assert "CorunPlanExec" not in ctx.sql(JOIN).execution_plan().display_indent()
    assert rows_of(ctx, JOIN)["count(*)"] == [100000]
    ctx.from_arrow(pa.table({"k": [1, 2, 3]}), name="small")
    query = "select count(*) as n from big join small on big.k = small.k"
    assert "Corun" not in plan_of(ctx, query)
    assert rows_of(ctx, query) == {"n": [3]}


def test_options_are_set_later_too(files):
    extension = datafusion_corun.Extension()
    ctx = SessionContext().with_extensions(extension)
    ctx.register_parquet("big", files)
    assert "CorunJoinExec" in plan_of(ctx, JOIN)
    extension.set("join", "off")
    assert "CorunJoinExec" not in plan_of(ctx, JOIN)
    extension.set("corun.join", "auto")
    assert "CorunJoinExec" in plan_of(ctx, JOIN)
    with pytest.raises(datafusion_corun.Error, match="sideways"):
        extension.set("join", "sideways")
    with pytest.raises(datafusion_corun.Error, match="no_such"):
        datafusion_corun.install(no_such="1")


def test_tables_in_memory_are_joined_without_copies(ctx):
    ctx.from_arrow(pa.table({"k": list(range(0, 1000, 10)), "name": [f"n{i}" for i in range(100)]}), name="small")
    query = "select count(*), min(name) from big join small on big.k = small.k"
    assert "CorunJoinExec" in plan_of(ctx, query)
    assert rows_of(ctx, query) == {"count(*)": [99], "min(small.name)": ["n1"]}


def test_data_frames_work_as_well(ctx):
    big = ctx.table("big")
    other = big.select("k").with_column_renamed("k", "j")
    joined = big.join(other, left_on="k", right_on="j", how="inner")
    assert joined.count() == 200000


def test_functions_of_users_are_called(ctx):
    twice = udf(lambda v: pa.compute.multiply(v, 2), [pa.int64()], pa.int64(), "immutable", name="twice")
    ctx.register_udf(twice)
    assert rows_of(ctx, "select sum(twice(v)) as s from big where k <= 10") == {"s": [110]}


def test_a_function_with_the_name_of_a_built_in_one_is_the_user_s(ctx):
    wrong = udf(lambda v: pa.compute.add(v, 1000), [pa.int64()], pa.int64(), "immutable", name="abs")
    ctx.register_udf(wrong)
    assert rows_of(ctx, "select abs(v) as s from big where k = 5") == {"s": [1005]}


class Longest(Accumulator):
    def __init__(self):
        self.longest = 0

    def update(self, values):
        self.longest = max([self.longest, *(len(text) for text in values.to_pylist())])

    def merge(self, states):
        self.longest = max([self.longest, *states[0].to_pylist()])

    def state(self):
        return [pa.scalar(self.longest, type=pa.int64())]

    def evaluate(self):
        return pa.scalar(self.longest, type=pa.int64())


def test_aggregates_of_users_are_called(ctx):
    ctx.register_udaf(udaf(Longest, pa.string(), pa.int64(), [pa.int64()], "immutable", name="longest"))
    assert rows_of(ctx, "select longest(cast(k as varchar)) as l from big") == {"l": [6]}


def test_what_writes_is_done_while_corun_is_paused(ctx, tmp_path):
    ctx.sql("create table made as select k from big where k < 4").collect()
    assert rows_of(ctx, "select sum(k) as s from made") == {"s": [6]}
    path = tmp_path / "out.parquet"
    copy = f"copy (select count(*) as n from big) to '{path}'"
    with pytest.raises(Exception, match="decode_file_format"):
        ctx.sql(copy).collect()
    with pytest.raises(Exception, match="paused"):
        ctx.sql("insert into made values (10)").collect()
    with datafusion_corun.paused(ctx):
        ctx.sql(copy).collect()
        ctx.sql("insert into made values (10)").collect()
        assert "CorunJoinExec" not in plan_of(ctx, JOIN)
    assert "CorunJoinExec" in plan_of(ctx, JOIN)
    ctx.register_parquet("out", path)
    assert rows_of(ctx, "select n, s from out cross join (select sum(k) as s from made)") == {"n": [200000], "s": [16]}
    with pytest.raises(datafusion_corun.Error, match="not installed"):
        with datafusion_corun.paused(SessionContext()):
            pass


def test_errors_are_datafusion_s(ctx):
    with pytest.raises(Exception, match="nothing_here"):
        ctx.sql("select nothing_here from big").collect()
    with pytest.raises(Exception, match="(?i)divide by zero"):
        ctx.sql("select k / (v - v) from big").collect()


def test_little_memory_is_enough(files):
    ctx = datafusion_corun.install(
        SessionContext(SessionConfig().with_target_partitions(2)), memory_limit=8 << 20
    )
    ctx.register_parquet("big", files)
    assert rows_of(ctx, "select count(*) as n from (select k, sum(v) from big group by k)") == {"n": [200000]}


def test_threads_share_a_session(ctx):
    assert answers_of_threads(ctx) == [[100000]] * 20


def test_a_coordinator_lets_threads_run(files):
    ctx = datafusion_corun.install(SessionContext(SessionConfig().with_target_partitions(2)), coordinator=True)
    ctx.register_parquet("big", files)
    assert "CorunJoinExec" in plan_of(ctx, JOIN)
    assert rows_of(ctx, "select v, count(*) as n from big group by v order by v limit 2") == {"v": [0, 1], "n": [200, 200]}
    with pytest.raises(Exception, match="(?i)divide by zero"):
        ctx.sql("select k / (v - v) from big").collect()
    next(iter(ctx.sql("select * from big").execute_stream()))
    assert answers_of_threads(ctx) == [[100000]] * 20


def test_explain_says_why_datafusion_plans(ctx, files):
    ctx.register_object_store("there://", LocalFileSystem(prefix=str(files.parent)), "host")
    ctx.register_parquet("far", f"there://host/{files.name}")
    query = "select count(*) as n from far"
    assert rows_of(ctx, query) == {"n": [200000]}
    plan = plan_of(ctx, query)
    assert "datafusion's own plan" in plan and "there://host" in plan, plan
    assert "own plan" not in plan_of(ctx, JOIN)


def test_what_is_no_session_is_told():
    with pytest.raises(TypeError, match="int is no SessionContext"):
        datafusion_corun.install(1)


def test_dates_and_nulls_cross(ctx):
    table = pa.table({"d": [datetime.date(2026, 11, 29), None], "k": [1, 2]})
    ctx.from_arrow(table, name="days")
    query = "select d, big.k from days join big on days.k = big.k order by big.k"
    assert rows_of(ctx, query) == {"d": [datetime.date(2026, 11, 29), None], "k": [1, 2]}
