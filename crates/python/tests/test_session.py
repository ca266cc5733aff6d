"""Sessions of corun's own."""

import multiprocessing
import os
import signal
import threading
import time

import pandas
import polars
import pyarrow as pa
import pytest

from datafusion_corun import Error, Session


@pytest.fixture
def session():
    session = Session(partitions=2)
    session.register("t", pa.table({"k": [1, 2, 3], "t": ["a", "<b>", None]}))
    return session


def test_arrow_pandas_and_polars_in_and_out(session):
    session.register("p", pandas.DataFrame({"k": [1, 2], "x": [0.5, 1.5]}))
    session.register("l", polars.DataFrame({"k": [2, 3], "y": ["two", "three"]}))
    rows = session.sql("select t.k, x, y from t left join p on t.k = p.k left join l on t.k = l.k order by t.k")
    expected = {"k": [1, 2, 3], "x": [0.5, 1.5, None], "y": [None, "two", "three"]}
    assert rows.arrow().to_pydict() == expected
    assert rows.polars().to_dict(as_series=False) == expected
    assert list(rows.pandas()["k"]) == [1, 2, 3]
    assert len(rows) == 3 and rows.columns == ["k", "x", "y"]
    session.register("again", rows)
    assert session.sql("select count(*) as n from again").arrow().to_pydict() == {"n": [3]}
    assert sorted(session.tables) == ["again", "l", "p", "t"]


def test_a_coordinator_tells_how_a_statement_ran(session):
    assert session.sql("select 1").report is None
    session = Session(partitions=2, coordinator=True)
    session.register("t", pa.table({"k": list(range(1000))}))
    rows = session.sql("select count(*) as n from t a join t b on a.k = b.k")
    assert rows.arrow().to_pydict() == {"n": [1000]}
    assert rows.report["waited_ms"] >= 0 and rows.report["ran_ms"] > 0
    assert set(rows.report["cpus"]) <= os.sched_getaffinity(0)
    with pytest.raises(Error, match="no_such"):
        session.sql("select * from no_such")


def test_files(session, tmp_path):
    session.sql(f"copy (select * from t) to '{tmp_path / 'out.parquet'}'")
    session.register("file", tmp_path / "out.parquet")
    assert session.sql("select count(*) as n from file").arrow().to_pydict() == {"n": [3]}


def test_a_notebook_shows_rows_and_plans(session):
    html = session.sql("select * from t order by k")._repr_html_()
    assert "<th>k</th>" in html and "&lt;b&gt;" in html and "3 rows" in html
    assert "| 1 " in repr(session.sql("select * from t order by k"))
    plan = session.explain("select count(*) from t a join t b on a.k = b.k")
    assert "CorunJoinExec" in plan and "<pre" in plan._repr_html_()
    assert "output_rows" in session.explain("select count(*) from t", analyze=True)
    many = session.sql("select * from generate_series(1, 100)")
    assert "20 of 100 rows" in many._repr_html_()
    none = session.sql("select * from t where k > 5")
    assert "0 rows" in none._repr_html_() and none.arrow().num_rows == 0


def test_progress_ends_at_all(session, capsys):
    told = []
    session._session.sql("select sum(k) from t", progress=told.append)
    assert told[-1] == 1.0 and told == sorted(told)
    session.sql("select sum(k) from t", progress=True)
    assert "100%" in capsys.readouterr().err


def test_errors_say_what_to_do(session, tmp_path):
    with pytest.raises(Error, match="nothing_here"):
        session.sql("select nothing_here from t")
    with pytest.raises(Error, match="no.such"):
        session.register("x", tmp_path / "no.such.parquet")
    with pytest.raises(TypeError, match="int is neither a path nor a table"):
        session.register("x", 1)
    with pytest.raises(Error, match="corun.nothing"):
        Session(settings={"corun.nothing": "1"})
    with pytest.raises(Error, match="partitions is 0"):
        Session(partitions=0)
    assert session.sql("select 1 as one").arrow().to_pydict() == {"one": [1]}


def test_a_statement_is_interrupted(session):
    forever = "select count(*) from generate_series(1, 1000000) a join generate_series(1, 1000000) b on a.value % 2 = b.value % 2"
    threading.Timer(0.5, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
    with pytest.raises(KeyboardInterrupt):
        session.sql(forever)
    assert session.sql("select 1 as one").arrow().to_pydict() == {"one": [1]}


def test_python_runs_meanwhile(session):
    counted = [0]
    stop = threading.Event()

    def count():
        while not stop.is_set():
            counted[0] += 1
            time.sleep(0)

    thread = threading.Thread(target=count)
    thread.start()
    session.sql("select sum(value) from generate_series(1, 20000000)")
    stop.set()
    thread.join()
    assert counted[0] > 0


def ask_in_a_fork(answers):
    try:
        Session().sql("select 1")
        answers.put("ran")
    except Error as error:
        answers.put(str(error))


def test_a_fork_is_told_what_to_do(session):
    session.sql("select 1")
    context = multiprocessing.get_context("fork")
    answers = context.Queue()
    process = context.Process(target=ask_in_a_fork, args=(answers,))
    process.start()
    assert "spawn" in answers.get(timeout=60)
    process.join()
