//! SSB tables as plain structs, with the columns the queries use.

use arrow::array::{AsArray, RecordBatch};
use arrow::datatypes::Int32Type;

use crate::dataset::{Dataset, TableData};

/// A row of `lineorder`.
#[derive(Debug, Clone, Copy)]
#[expect(missing_docs, reason = "the columns of the specification")]
pub struct Lineorder {
    pub custkey: i32,
    pub partkey: i32,
    pub suppkey: i32,
    pub orderdate: i32,
    pub quantity: i32,
    pub extendedprice: i32,
    pub discount: i32,
    pub revenue: i32,
    pub supplycost: i32,
}

/// A row of `customer`.
#[derive(Debug, Clone)]
#[expect(missing_docs, reason = "the columns of the specification")]
pub struct Customer {
    pub custkey: i32,
    pub city: String,
    pub nation: String,
    pub region: String,
}

/// A row of `supplier`.
#[derive(Debug, Clone)]
#[expect(missing_docs, reason = "the columns of the specification")]
pub struct Supplier {
    pub suppkey: i32,
    pub city: String,
    pub nation: String,
    pub region: String,
}

/// A row of `part`.
#[derive(Debug, Clone)]
#[expect(missing_docs, reason = "the columns of the specification")]
pub struct Part {
    pub partkey: i32,
    pub mfgr: String,
    pub category: String,
    pub brand1: String,
}

/// A row of `date`.
#[derive(Debug, Clone)]
#[expect(missing_docs, reason = "the columns of the specification")]
pub struct Day {
    pub datekey: i32,
    pub year: i32,
    pub yearmonthnum: i32,
    pub yearmonth: String,
    pub weeknuminyear: i32,
}

/// The five tables.
#[derive(Debug, Clone, Default)]
#[expect(missing_docs, reason = "one vector a table")]
pub struct Database {
    pub lineorder: Vec<Lineorder>,
    pub customer: Vec<Customer>,
    pub supplier: Vec<Supplier>,
    pub part: Vec<Part>,
    pub date: Vec<Day>,
}

impl Database {
    /// Reads the tables out of `data`.
    ///
    /// # Panics
    /// If `data` is not an SSB data set.
    pub fn read(data: &Dataset) -> Database {
        let rows = |name: &str| {
            Rows::of(
                data.table(name)
                    .unwrap_or_else(|| panic!("SSB has a table {name}")),
            )
        };
        let (lineorder, customer, supplier) = (rows("lineorder"), rows("customer"), rows("supplier"));
        let (part, date) = (rows("part"), rows("date"));
        Database {
            lineorder: lineorder.map(|row| Lineorder {
                custkey: row.int("lo_custkey"),
                partkey: row.int("lo_partkey"),
                suppkey: row.int("lo_suppkey"),
                orderdate: row.int("lo_orderdate"),
                quantity: row.int("lo_quantity"),
                extendedprice: row.int("lo_extendedprice"),
                discount: row.int("lo_discount"),
                revenue: row.int("lo_revenue"),
                supplycost: row.int("lo_supplycost"),
            }),
            customer: customer.map(|row| Customer {
                custkey: row.int("c_custkey"),
                city: row.text("c_city"),
                nation: row.text("c_nation"),
                region: row.text("c_region"),
            }),
            supplier: supplier.map(|row| Supplier {
                suppkey: row.int("s_suppkey"),
                city: row.text("s_city"),
                nation: row.text("s_nation"),
                region: row.text("s_region"),
            }),
            part: part.map(|row| Part {
                partkey: row.int("p_partkey"),
                mfgr: row.text("p_mfgr"),
                category: row.text("p_category"),
                brand1: row.text("p_brand1"),
            }),
            date: date.map(|row| Day {
                datekey: row.int("d_datekey"),
                year: row.int("d_year"),
                yearmonthnum: row.int("d_yearmonthnum"),
                yearmonth: row.text("d_yearmonth"),
                weeknuminyear: row.int("d_weeknuminyear"),
            }),
        }
    }
}

/// Rows of a table, read cell by cell.
struct Rows<'a>(Vec<&'a RecordBatch>);

impl<'a> Rows<'a> {
    fn of(table: &'a TableData) -> Self {
        Rows(table.batches().collect())
    }

    fn map<T>(&self, make: impl Fn(Row<'_>) -> T) -> Vec<T> {
        let rows = self
            .0
            .iter()
            .flat_map(|batch| (0..batch.num_rows()).map(|row| Row { batch, row }));
        rows.map(make).collect()
    }
}

struct Row<'a> {
    batch: &'a RecordBatch,
    row: usize,
}

impl Row<'_> {
    fn int(&self, column: &str) -> i32 {
        self.batch[column].as_primitive::<Int32Type>().value(self.row)
    }

    fn text(&self, column: &str) -> String {
        self.batch[column].as_string::<i32>().value(self.row).to_owned()
    }
}
