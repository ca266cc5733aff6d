//! What both test programs need: scratch folders with real files in them, a session over them, and answers as lines of text.

use arrow::array::RecordBatch;
use arrow::util::display::{ArrayFormatter, FormatOptions};
use corun_server::data::{Data, DataConfig, FileRights};
use datafusion::execution::SessionStateBuilder;
use datafusion::prelude::SessionContext;
use std::path::Path;

/// May name files to read and to write.
#[allow(dead_code, reason = "one of the programs does not use it")]
pub const ALL: FileRights = FileRights {
    read: true,
    write: true,
};

/// Opens a folder as the only catalog, `corun`.
pub fn open(folder: &Path) -> Data {
    Data::open(config(folder)).expect("the folder opens")
}

pub fn config(folder: &Path) -> DataConfig {
    DataConfig {
        catalogs: vec![("corun".to_owned(), folder.to_owned())],
        ..DataConfig::default()
    }
}

/// A session over the data, with corun's operators.
pub fn session(data: &Data) -> SessionContext {
    let state = corun_datafusion::install(SessionStateBuilder::new().with_default_features()).build();
    let context = SessionContext::new_with_state(state);
    data.install(&context).expect("the catalogs are shown");
    context
}

/// Columns by `|`, rows as they come.
pub fn lines(batches: &[RecordBatch]) -> Vec<String> {
    let options = FormatOptions::default().with_null("NULL");
    let mut lines = Vec::new();
    for batch in batches {
        let columns: Vec<ArrayFormatter> = batch
            .columns()
            .iter()
            .map(|column| ArrayFormatter::try_new(column, &options).expect("a column that can be shown"))
            .collect();
        for row in 0..batch.num_rows() {
            let cells: Vec<String> = columns
                .iter()
                .map(|column| column.value(row).to_string())
                .collect();
            lines.push(cells.join("|"));
        }
    }
    lines
}

/// Writes a Parquet file with one column of numbers.
#[allow(dead_code, reason = "one of the programs does not use it")]
pub fn numbers(path: &Path, column: &str, values: &[i64]) {
    use arrow::array::{ArrayRef, Int64Array};
    use std::sync::Arc;
    let array: ArrayRef = Arc::new(Int64Array::from(values.to_vec()));
    let batch = RecordBatch::try_from_iter([(column, array)]).expect("one column");
    parquet(path, &[batch]);
}

/// Writes batches as a Parquet file, and the folders above it.
#[allow(dead_code, reason = "one of the programs does not use it")]
pub fn parquet(path: &Path, batches: &[RecordBatch]) {
    std::fs::create_dir_all(path.parent().expect("a folder")).expect("folders are made");
    let file = std::fs::File::create(path).expect("a file is made");
    let mut writer = parquet::arrow::ArrowWriter::try_new(file, batches[0].schema(), None).expect("a writer");
    for batch in batches {
        writer.write(batch).expect("rows are written");
    }
    writer.close().expect("the file is closed");
}
