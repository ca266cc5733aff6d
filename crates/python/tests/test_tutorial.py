"""The tutorial runs from its first cell to its last."""

import pathlib

import nbformat
from nbclient import NotebookClient


def test_the_tutorial_runs():
    path = pathlib.Path(__file__).parent.parent / "examples" / "tutorial.ipynb"
    notebook = nbformat.read(path, as_version=4)
    NotebookClient(notebook, timeout=300, kernel_name="python3").execute()
    shown = [output for cell in notebook.cells if cell.cell_type == "code" for output in cell.outputs]
    html = "".join(output["data"].get("text/html", "") for output in shown if "data" in output)
    assert "CorunJoinExec" in html
    assert "<td>E</td><td>100000</td>" in html
