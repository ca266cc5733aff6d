//! The analytic statements over live tables, and how an answer is judged that is another one at every moment.
//!
//! No answer can be computed before: transactions change the tables all the time. But every snapshot lies between two whole
//! transactions, so what TPC-C demands of its tables (clause 3.3.2 of the specification) holds on each. Statements that look
//! for places where it does not must return no row; statements that report something carry a column that compares their
//! total with the same total reached on another way. A join that loses or repeats rows, and a statement that reads two tables
//! as of two moments, show in both.

use arrow::array::{Array, AsArray, RecordBatch};
use corun_datafusion::QueryOutput;

use corun_workloads::answers::{NULL_TEXT, row_text};

/// What makes an answer right.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Check {
    /// There is no row.
    NoRow,
    /// There is a row, and the last column is true in every one.
    Consistent,
}

/// One statement.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Statement {
    /// Its name in tables and rows.
    pub name: &'static str,
    /// Its text.
    pub sql: String,
    /// How its answers are judged.
    pub check: Check,
}

impl Statement {
    /// `None` for a right answer, otherwise what is wrong with it, in one line.
    pub fn judge(&self, answer: &QueryOutput) -> Option<String> {
        let rows = || {
            let batches = answer.batches.iter();
            batches.flat_map(|batch| (0..batch.num_rows()).map(move |row| (batch, row)))
        };
        let wrong = match self.check {
            Check::NoRow => rows().next().map(|row| (row, "a row where none may be")),
            Check::Consistent if rows().next().is_none() => return Some(format!("{}: no row", self.name)),
            Check::Consistent => rows()
                .find(|&(batch, row)| !last_is_true(batch, row))
                .map(|row| (row, "two ways to one total differ")),
        };
        wrong.map(|((batch, row), what)| {
            let names: Vec<&str> = answer
                .schema
                .fields()
                .iter()
                .map(|field| field.name().as_str())
                .collect();
            let cells = row_text(batch, row).replace(NULL_TEXT, "NULL");
            format!("{}: {what}: {} = {cells}", self.name, names.join("|"))
        })
    }
}

/// Whether the last column of a row holds true: not false, not NULL, not something else.
fn last_is_true(batch: &RecordBatch, row: usize) -> bool {
    let last = batch.columns().last().and_then(|column| column.as_boolean_opt());
    last.is_some_and(|flags| flags.is_valid(row) && flags.value(row))
}

/// All statements, for tables that were loaded with `orders_loaded` orders in each district.
pub fn statements(orders_loaded: i32) -> Vec<Statement> {
    let of = |name, check, sql: &str| Statement {
        name,
        check,
        sql: sql.replace("{orders_loaded}", &orders_loaded.to_string()),
    };
    vec![
        of("order_lines", Check::NoRow, ORDER_LINES),
        of("delivered_lines", Check::Consistent, DELIVERED_LINES),
        of("next_order", Check::NoRow, NEXT_ORDER),
        of("payments", Check::NoRow, PAYMENTS),
        of("balances", Check::NoRow, BALANCES),
        of("stock_sold", Check::NoRow, STOCK_SOLD),
        of("top_items", Check::Consistent, TOP_ITEMS),
        of("waiting_customers", Check::Consistent, WAITING_CUSTOMERS),
    ]
}

/// Condition 6: an order has as many lines as it says.
const ORDER_LINES: &str = "select o_w_id, o_d_id, o_id, o_ol_cnt, lines
from orders left join (
    select ol_w_id, ol_d_id, ol_o_id, count(*) as lines from order_line group by ol_w_id, ol_d_id, ol_o_id
) on o_w_id = ol_w_id and o_d_id = ol_d_id and o_id = ol_o_id
where o_ol_cnt is distinct from lines";

/// Condition 7: the lines of an order are delivered if it is, and every line has its order.
const DELIVERED_LINES: &str = "select count(*) as lines,
    sum(case when (ol_delivery_d is null) <> (o_carrier_id is null) then 1 else 0 end) as torn,
    count(*) = (select count(*) from order_line)
        and sum(case when (ol_delivery_d is null) <> (o_carrier_id is null) then 1 else 0 end) = 0 as consistent
from order_line join orders on ol_w_id = o_w_id and ol_d_id = o_d_id and ol_o_id = o_id";

/// Condition 2: a district's next order follows its last.
const NEXT_ORDER: &str = "select w_name, d_w_id, d_id, d_next_o_id, last
from district join warehouse on d_w_id = w_id left join (
    select o_w_id, o_d_id, max(o_id) as last from orders group by o_w_id, o_d_id
) on d_w_id = o_w_id and d_id = o_d_id
where d_next_o_id - 1 is distinct from last";

/// Conditions 1, 8 and 9: what was paid is booked in the warehouse, in its districts and in the history.
const PAYMENTS: &str = "select w_id, w_ytd, booked, paid
from warehouse
left join (select d_w_id, sum(d_ytd) as booked from district group by d_w_id) on w_id = d_w_id
left join (select h_w_id, sum(h_amount) as paid from history group by h_w_id) on w_id = h_w_id
where (w_ytd is distinct from booked) or (w_ytd is distinct from paid)";

/// Condition 12: a customer owes and has paid what was delivered.
const BALANCES: &str = "select c_w_id, c_d_id, c_id, c_balance, c_ytd_payment, delivered
from customer left join (
    select o_w_id, o_d_id, o_c_id, sum(ol_amount) as delivered
    from order_line join orders on ol_w_id = o_w_id and ol_d_id = o_d_id and ol_o_id = o_id
    where ol_delivery_d is not null
    group by o_w_id, o_d_id, o_c_id
) on c_w_id = o_w_id and c_d_id = o_d_id and c_id = o_c_id
where c_balance + c_ytd_payment <> coalesce(delivered, 0)";

/// What New Order writes into two tables: a stock's totals are those of the lines entered since the load.
const STOCK_SOLD: &str = "select s_w_id, s_i_id, s_order_cnt, s_ytd, lines, sold
from stock left join (
    select ol_supply_w_id, ol_i_id, count(*) as lines, sum(ol_quantity) as sold
    from order_line where ol_o_id > {orders_loaded} group by ol_supply_w_id, ol_i_id
) on s_w_id = ol_supply_w_id and s_i_id = ol_i_id
where s_order_cnt <> coalesce(lines, 0) or s_ytd <> coalesce(sold, 0)";

/// The ten items with the highest revenue; the revenue of all items is that of all lines.
const TOP_ITEMS: &str = "select i_id, i_name, lines, revenue,
    sum(revenue) over () = (select sum(ol_amount) from order_line) as consistent
from (
    select i_id, i_name, count(*) as lines, sum(ol_amount) as revenue
    from order_line join item on ol_i_id = i_id group by i_id, i_name
)
order by revenue desc, i_id limit 10";

/// The ten customers that wait for most orders; all together wait for as many as stand in the queue (condition 5).
const WAITING_CUSTOMERS: &str = "select c_w_id, c_d_id, c_id, c_last, waiting,
    sum(waiting) over () = (select count(*) from new_order) as consistent
from (
    select c_w_id, c_d_id, c_id, c_last, count(*) as waiting
    from customer join orders on c_w_id = o_w_id and c_d_id = o_d_id and c_id = o_c_id
    where o_carrier_id is null
    group by c_w_id, c_d_id, c_id, c_last
)
order by waiting desc, c_w_id, c_d_id, c_id limit 10";

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{ArrayRef, BooleanArray, Int64Array};

    use super::*;

    fn answer(numbers: Vec<Option<i64>>, flags: Vec<Option<bool>>) -> QueryOutput {
        let numbers: ArrayRef = Arc::new(Int64Array::from(numbers));
        let flags: ArrayRef = Arc::new(BooleanArray::from(flags));
        let batch = RecordBatch::try_from_iter_with_nullable([("n", numbers, true), ("ok", flags, true)])
            .expect("two columns");
        QueryOutput {
            schema: batch.schema(),
            batches: vec![batch],
        }
    }

    fn judge(check: Check, answer: &QueryOutput) -> Option<String> {
        let statement = Statement {
            name: "s",
            sql: String::new(),
            check,
        };
        statement.judge(answer)
    }

    #[test]
    fn no_row_means_none() {
        assert_eq!(judge(Check::NoRow, &answer(vec![], vec![])), None);
        assert_eq!(
            judge(Check::NoRow, &answer(vec![None], vec![Some(true)])),
            Some("s: a row where none may be: n|ok = NULL|true".to_owned())
        );
    }

    #[test]
    fn consistent_means_true_everywhere_and_not_nothing() {
        let of = |flags: Vec<Option<bool>>| {
            let numbers = (0..).take(flags.len()).map(Some).collect();
            judge(Check::Consistent, &answer(numbers, flags))
        };
        assert_eq!(of(vec![Some(true), Some(true)]), None);
        assert_eq!(of(vec![]), Some("s: no row".to_owned()));
        assert_eq!(
            of(vec![Some(true), Some(false)]),
            Some("s: two ways to one total differ: n|ok = 1|false".to_owned())
        );
        assert!(of(vec![None]).is_some());
    }

    #[test]
    fn names_are_unique_and_nothing_is_left_to_fill_in() {
        let statements = statements(3000);
        let mut names: Vec<&str> = statements.iter().map(|statement| statement.name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), 8);
        assert!(statements.iter().all(|statement| !statement.sql.contains('{')));
        assert!(
            statements
                .iter()
                .any(|statement| statement.sql.contains("ol_o_id > 3000"))
        );
    }
}
