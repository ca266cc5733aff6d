//! The rows of a statement, for whoever reads Arrow.

use arrow::array::{RecordBatch, RecordBatchIterator, RecordBatchReader};
use arrow::datatypes::SchemaRef;
use arrow::error::ArrowError;
use arrow::ffi_stream::{ArrowArrayStreamReader, FFI_ArrowArrayStream};
use arrow::util::display::{ArrayFormatter, FormatOptions};
use arrow::util::pretty::pretty_format_batches;
use corun_datafusion::{QueryOutput, Report};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyDict};
use std::ffi::CStr;

use super::failed;

const STREAM: &CStr = c"arrow_array_stream";
/// Rows that a notebook or a terminal shows.
const SHOWN: usize = 20;

/// Rows, which cost nothing more to read: as Arrow, pandas or Polars.
#[pyclass(frozen, module = "datafusion_corun")]
pub(super) struct Rows {
    output: QueryOutput,
    report: Option<Report>,
}

#[pymethods]
impl Rows {
    fn __len__(&self) -> usize {
        self.output.num_rows()
    }

    /// Names of the columns.
    #[getter]
    fn columns(&self) -> Vec<String> {
        let fields = self.output.schema.fields();
        fields.iter().map(|field| field.name().clone()).collect()
    }

    /// How a coordinator ran the statement: `waited_ms`, `ran_ms` and `cpus`, none of which it gave to one that was too short to wait. `None`:
    /// there was no coordinator.
    #[getter]
    fn report<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyDict>>> {
        let Some(report) = &self.report else {
            return Ok(None);
        };
        let shown = PyDict::new(py);
        shown.set_item("waited_ms", report.waited_ns as f64 / 1e6)?;
        shown.set_item("ran_ms", report.ran_ns as f64 / 1e6)?;
        shown.set_item("cpus", report.cpus.iter().map(|cpu| cpu.0).collect::<Vec<_>>())?;
        Ok(Some(shown))
    }

    #[pyo3(signature = (_requested_schema = None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        _requested_schema: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        let batches: Vec<Result<RecordBatch, ArrowError>> =
            self.output.batches.iter().cloned().map(Ok).collect();
        let reader = RecordBatchIterator::new(batches, self.output.schema.clone());
        let stream = FFI_ArrowArrayStream::new(Box::new(reader));
        PyCapsule::new(py, stream, Some(STREAM.to_owned()))
    }

    /// A `pyarrow.Table` of the same memory.
    fn arrow<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        slf.py().import("pyarrow")?.call_method1("table", (slf,))
    }

    /// A `pandas.DataFrame`.
    fn pandas<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        Rows::arrow(slf)?.call_method0("to_pandas")
    }

    /// A `polars.DataFrame`.
    fn polars<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        slf.py().import("polars")?.call_method1("DataFrame", (slf,))
    }

    fn __repr__(&self) -> PyResult<String> {
        let table = pretty_format_batches(&self.first()).map_err(failed)?;
        Ok(format!("{table}\n{}", self.count()))
    }

    fn _repr_html_(&self) -> PyResult<String> {
        let mut html = String::from("<table><thead><tr>");
        for field in self.output.schema.fields() {
            html.push_str(&format!("<th>{}</th>", escaped(field.name())));
        }
        html.push_str("</tr></thead><tbody>");
        let options = FormatOptions::default();
        for batch in self.first() {
            let columns = batch.columns().iter();
            let columns = columns.map(|column| ArrayFormatter::try_new(column.as_ref(), &options));
            let columns: Vec<ArrayFormatter<'_>> = columns.collect::<Result<_, _>>().map_err(failed)?;
            for row in 0..batch.num_rows() {
                html.push_str("<tr>");
                for column in &columns {
                    html.push_str(&format!("<td>{}</td>", escaped(&column.value(row).to_string())));
                }
                html.push_str("</tr>");
            }
        }
        html.push_str(&format!("</tbody></table><p>{}</p>", self.count()));
        Ok(html)
    }
}

impl Rows {
    pub(super) fn new(output: QueryOutput, report: Option<Report>) -> Rows {
        Rows { output, report }
    }

    /// The first rows, and the schema even of none.
    fn first(&self) -> Vec<RecordBatch> {
        let mut left = SHOWN;
        let mut first = vec![RecordBatch::new_empty(self.output.schema.clone())];
        for batch in &self.output.batches {
            let rows = batch.num_rows().min(left);
            first.push(batch.slice(0, rows));
            left -= rows;
        }
        first
    }

    fn count(&self) -> String {
        match self.output.num_rows() {
            1 => "1 row".to_owned(),
            rows if rows > SHOWN => format!("{SHOWN} of {rows} rows"),
            rows => format!("{rows} rows"),
        }
    }
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
}

/// The batches of an object that speaks Arrow's stream interface, such as a table of pyarrow's, a data frame of Polars' or pandas'.
pub(super) fn batches_of(data: &Bound<'_, PyAny>) -> PyResult<(SchemaRef, Vec<RecordBatch>)> {
    let method = data.getattr("__arrow_c_stream__").map_err(|_| {
        let kind = data.get_type().name().map_or_else(|_| "this".to_owned(), |name| name.to_string());
        PyTypeError::new_err(format!(
            "{kind} is neither a path nor a table: give a file, a folder, or what speaks Arrow's stream interface (pyarrow, Polars, pandas)"
        ))
    })?;
    let capsule = method.call0()?;
    let capsule = capsule.cast::<PyCapsule>()?;
    let stream = capsule
        .pointer_checked(Some(STREAM))?
        .cast::<FFI_ArrowArrayStream>();
    // SAFETY: a capsule of this name holds such a stream, which is moved out of it once, as Arrow's interface says.
    let reader = unsafe { ArrowArrayStreamReader::from_raw(stream.as_ptr()) }.map_err(failed)?;
    let schema = reader.schema();
    let batches = reader.collect::<Result<_, _>>().map_err(failed)?;
    Ok((schema, batches))
}
