//! The module `datafusion_corun._internal`: the extension of `datafusion`'s sessions, and sessions of corun's own.

mod rows;
mod session;

use crate::planner::Extension;
use datafusion_ffi::execution::FFI_TaskContextProvider;
use datafusion_ffi::proto::logical_extension_codec::FFI_LogicalExtensionCodec;
use datafusion_ffi::proto::physical_extension_codec::FFI_PhysicalExtensionCodec;
use datafusion_ffi::query_planner::FFI_QueryPlanner;
use parking_lot::Mutex;
use pyo3::create_exception;
use pyo3::exceptions::{PyException, PyTypeError};
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyDict};
use std::ffi::CStr;
use std::time::Duration;

create_exception!(
    datafusion_corun,
    Error,
    PyException,
    "What corun cannot do, and what to do about it."
);

/// How long a statement runs before Python is asked whether somebody interrupts it.
const LOOK_EVERY: Duration = Duration::from_millis(100);

const CONTEXTS: &CStr = c"datafusion_task_context_provider";
const LOGICAL: &CStr = c"datafusion_logical_extension_codec";
const PHYSICAL: &CStr = c"datafusion_physical_extension_codec";
const PLANNER: &CStr = c"datafusion_query_planner";

pub(crate) fn failed(error: impl std::fmt::Display) -> PyErr {
    Error::new_err(error.to_string())
}

/// A copy of what a capsule holds.
///
/// # Safety
/// A capsule of this name holds a `T`, as DataFusion's foreign interface of this version says.
unsafe fn held<T: Clone>(capsule: &Bound<'_, PyAny>, name: &CStr) -> PyResult<T> {
    let capsule = capsule.cast::<PyCapsule>().map_err(|_| {
        PyTypeError::new_err(format!(
            "{name:?} is no capsule; is this a SessionContext of datafusion 55?"
        ))
    })?;
    let pointer = capsule.pointer_checked(Some(name))?;
    // SAFETY: as the caller says, and the capsule outlives this line.
    Ok(unsafe { pointer.cast::<T>().as_ref() }.clone())
}

fn contexts(session: &Bound<'_, PyAny>) -> PyResult<FFI_TaskContextProvider> {
    let capsule = session.call_method0("__datafusion_task_context_provider__")?;
    // SAFETY: the name is the interface's for this type.
    unsafe { held(&capsule, CONTEXTS) }
}

/// corun for sessions of `datafusion`: give it to `SessionContext.with_extensions`.
#[pyclass(frozen, name = "Extension", module = "datafusion_corun")]
struct PyExtension {
    extension: Extension,
    /// The planners of the session that it was installed in last: before, and since.
    planners: Mutex<Option<(Py<PyAny>, Py<PyCapsule>)>>,
}

#[pymethods]
impl PyExtension {
    #[new]
    #[pyo3(signature = (*, memory_limit = None, coordinator = false))]
    fn new(memory_limit: Option<usize>, coordinator: bool) -> PyResult<Self> {
        Ok(PyExtension {
            extension: Extension::new(memory_limit, coordinator).map_err(failed)?,
            planners: Mutex::default(),
        })
    }

    /// Sets an option for all statements planned from now on.
    fn set(&self, name: &str, value: &str) -> PyResult<()> {
        let name = match name.contains('.') {
            true => name.to_owned(),
            false => format!("corun.{name}"),
        };
        self.extension.set(&name, value).map_err(failed)
    }

    fn __datafusion_session_components__<'py>(
        &self,
        py: Python<'py>,
        ctx: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let tables = TablesCodec(self.extension.logical_codec(contexts(ctx)?));
        let plans = PlansCodec(self.extension.physical_codec(contexts(ctx)?));
        let components = PyDict::new(py);
        components.set_item("logical_extension_codecs", (Py::new(py, tables)?,))?;
        components.set_item("physical_extension_codecs", (Py::new(py, plans)?,))?;
        let class = py.import("datafusion")?.getattr("SessionExtensionComponents")?;
        class.call((), Some(&components))
    }

    fn __datafusion_session_planner__<'py>(
        &self,
        py: Python<'py>,
        ctx: &Bound<'py, PyAny>,
        fallback: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        let logical = ctx.call_method0("__datafusion_logical_extension_codec__")?;
        let physical = ctx.call_method0("__datafusion_physical_extension_codec__")?;
        let before = fallback.clone().unbind();
        // SAFETY: the names are the interface's for these types.
        let (fallback, logical, physical) = unsafe {
            (
                held::<FFI_QueryPlanner>(fallback, PLANNER)?,
                held::<FFI_LogicalExtensionCodec>(&logical, LOGICAL)?,
                held::<FFI_PhysicalExtensionCodec>(&physical, PHYSICAL)?,
            )
        };
        let planner = self.extension.planner(fallback, logical, physical);
        let planner = PyCapsule::new(py, planner, Some(PLANNER.to_owned()))?;
        *self.planners.lock() = Some((before, planner.clone().unbind()));
        Ok(planner)
    }

    /// Gives the session that this was installed in last the planner that it had before, or corun's again.
    fn use_in(&self, ctx: &Bound<'_, PyAny>, corun: bool) -> PyResult<()> {
        let planner = match self.planners.lock().as_ref() {
            None => return Err(Error::new_err("this extension is not installed in a session")),
            Some((_, since)) if corun => since.clone_ref(ctx.py()).into_any(),
            Some((before, _)) => before.clone_ref(ctx.py()),
        };
        ctx.call_method1("set_query_planner", (planner,)).map(drop)
    }
}

/// What a session takes the codec for tables from.
#[pyclass(frozen, module = "datafusion_corun")]
struct TablesCodec(FFI_LogicalExtensionCodec);

#[pymethods]
impl TablesCodec {
    #[classattr]
    fn __datafusion_codec_id__() -> &'static str {
        "datafusion_corun.tables.1"
    }

    #[pyo3(signature = (_session = None))]
    fn __datafusion_logical_extension_codec__<'py>(
        &self,
        py: Python<'py>,
        _session: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        PyCapsule::new(py, self.0.clone(), Some(LOGICAL.to_owned()))
    }
}

/// What a session takes the codec for plans from.
#[pyclass(frozen, module = "datafusion_corun")]
struct PlansCodec(FFI_PhysicalExtensionCodec);

#[pymethods]
impl PlansCodec {
    #[classattr]
    fn __datafusion_codec_id__() -> &'static str {
        "datafusion_corun.plans.1"
    }

    #[pyo3(signature = (_session = None))]
    fn __datafusion_physical_extension_codec__<'py>(
        &self,
        py: Python<'py>,
        _session: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        PyCapsule::new(py, self.0.clone(), Some(PHYSICAL.to_owned()))
    }
}

/// Waits for work on this library's threads; Python runs meanwhile, and can interrupt it.
fn wait<T: Send>(py: Python<'_>, work: impl Future<Output = T> + Send) -> PyResult<T> {
    wait_and_tell(py, work, |_| Ok(()))
}

/// [`wait`], with something to do every now and then.
fn wait_and_tell<T: Send>(
    py: Python<'_>,
    work: impl Future<Output = T> + Send,
    tell: impl Fn(Python<'_>) -> PyResult<()> + Send + Sync,
) -> PyResult<T> {
    let threads = crate::threads::handle().map_err(failed)?;
    py.detach(|| {
        threads.block_on(async {
            tokio::pin!(work);
            loop {
                tokio::select! {
                    done = &mut work => return Ok(done),
                    () = tokio::time::sleep(LOOK_EVERY) => Python::attach(|py| {
                        py.check_signals()?;
                        tell(py)
                    })?,
                }
            }
        })
    })
}

#[pymodule]
fn _internal(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    module.add("Error", module.py().get_type::<Error>())?;
    module.add_class::<PyExtension>()?;
    module.add_class::<session::Session>()?;
    module.add_class::<rows::Rows>()
}
