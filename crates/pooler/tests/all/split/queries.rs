//! Random queries: joins, conditions, groups, DISTINCT, HAVING, ORDER BY, LIMIT, sub-selects, parameters.

use crate::common::random::Random;

/// A query and what is known of the order of its rows.
pub struct Query {
    pub text: String,
    pub values: Vec<Option<String>>,
    pub order: Order,
}

/// How rows of two runs are compared.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Order {
    /// Any order.
    None,
    /// By all columns there are, so that equal rows are equal.
    Total,
    /// By these output columns; others may differ between rows that are equal in them.
    By(Vec<usize>),
}

/// The columns of a row, as bytes.
type Row = Vec<Option<Vec<u8>>>;

impl Query {
    /// Rows of an answer in groups, in the order that is certain: rows between which the order is not certain are sorted.
    pub fn comparable(&self, rows: impl Iterator<Item = Row>) -> Vec<Vec<Row>> {
        let columns = match &self.order {
            Order::Total => return rows.map(|row| vec![row]).collect(),
            Order::None => &[][..],
            Order::By(columns) => columns,
        };
        let of = |row: &Row| -> Row { columns.iter().map(|&column| row[column].clone()).collect() };
        let mut groups: Vec<Vec<Row>> = Vec::new();
        for row in rows {
            match groups.last_mut() {
                Some(group) if of(&group[0]) == of(&row) => group.push(row),
                _ => groups.push(vec![row]),
            }
        }
        let text = self.text.to_lowercase();
        let limited = self.order != Order::None && (text.contains(" limit ") || text.contains(" offset "));
        let last = groups.len().saturating_sub(1);
        for (number, group) in groups.iter_mut().enumerate() {
            // At the edges of LIMIT and OFFSET, which of equal rows are taken is not certain.
            if limited && (number == 0 || number == last) {
                for row in group.iter_mut() {
                    *row = of(row);
                }
            }
            group.sort();
        }
        groups
    }
}

struct Maker<'a> {
    random: &'a mut Random,
    values: Vec<Option<String>>,
    /// Tables that are joined: item, line, author.
    has: [bool; 3],
}

const ITEM: &[&str] = &[
    "i_n",
    "i_title",
    "i_code",
    "i_vc",
    "i_ch",
    "i_price",
    "i_day",
    "i_at",
    "i_local",
    "i_flag",
    "i_uuid",
    "i_big",
    "i_small",
    "i_bytes",
    "i_a_id",
    "item.i_id",
    "i_free",
    "i_float",
];
const LINE: &[&str] = &[
    "l_id",
    "line.i_id",
    "l_qty",
    "l_amount",
    "l_note",
    "l_day",
    "l_big",
];
const AUTHOR: &[&str] = &["a_id", "a_name", "a_rank"];
/// Columns that identify a row of each.
const UNIQUE: [&str; 3] = ["item.i_id", "l_id", "a_id"];

/// Makes a query in which the table of the key stands once.
pub fn query(random: &mut Random, key: &str) -> Query {
    let mut maker = Maker {
        random,
        values: Vec::new(),
        has: [false; 3],
    };
    maker.query(key)
}

impl Maker<'_> {
    fn percent(&mut self, percent: usize) -> bool {
        self.random.percent(percent)
    }

    fn query(&mut self, key: &str) -> Query {
        let (from, joined) = self.from(key.starts_with("line"));
        let mut conditions = joined;
        for _ in 0..self.random.below(3) {
            conditions.push(self.condition());
        }
        let mut text;
        let order;
        match self.random.below(10) {
            0..=3 => (text, order) = self.rows(&from, &conditions),
            4 => (text, order) = self.whole(&from, &conditions),
            _ => (text, order) = self.groups(&from, &conditions, key),
        }
        if self.percent(3) {
            text = text.to_uppercase().replace("IT''S", "it''s");
        }
        Query {
            text,
            values: std::mem::take(&mut self.values),
            order,
        }
    }

    fn parameter(&mut self, value: String) -> String {
        let value = if self.percent(4) { None } else { Some(value) };
        self.values.push(value);
        format!("${}", self.values.len())
    }

    fn small(&mut self) -> String {
        let number = (self.random.below(30) as i64 - 5).to_string();
        if self.percent(30) {
            let parameter = self.parameter(number);
            format!("{parameter}::int")
        } else {
            number
        }
    }

    fn from(&mut self, line_first: bool) -> (String, Vec<String>) {
        // What stands behind FROM, a condition beside, and whether items, lines and authors are in it.
        let joins: [(&str, &str, [bool; 3]); 9] = [
            ("item", "", [true, false, false]),
            ("line", "", [false, true, false]),
            ("item, line", "item.i_id = line.i_id", [true, true, false]),
            ("item join line on item.i_id = line.i_id", "", [true, true, false]),
            (
                "item left join line on item.i_id = line.i_id and l_qty > 2",
                "",
                [true, true, false],
            ),
            (
                "line left join item on item.i_id = line.i_id",
                "",
                [true, true, false],
            ),
            (
                "item join line using (i_id) join author on i_a_id = a_id",
                "",
                [true; 3],
            ),
            (
                "author cross join line, item",
                "line.i_id = item.i_id and (i_a_id = a_id)",
                [true; 3],
            ),
            (
                "(item inner join line on line.i_id = item.i_id) left join author on a_id = i_a_id",
                "",
                [true; 3],
            ),
        ];
        let at = match self.random.below(9) {
            0..=2 => usize::from(line_first),
            5 => 4 + usize::from(line_first),
            choice @ 3..=4 => choice - 1,
            choice => choice,
        };
        let (from, condition, has) = joins[at];
        self.has = has;
        let conditions = if condition.is_empty() {
            vec![]
        } else {
            vec![condition.to_owned()]
        };
        (from.to_owned(), conditions)
    }

    fn columns(&self) -> Vec<&'static str> {
        let lists = [ITEM, LINE, AUTHOR];
        let tables = self.has.iter().zip(lists).filter(|(has, _)| **has);
        tables.flat_map(|(_, list)| list.iter().copied()).collect()
    }

    fn column(&mut self) -> &'static str {
        let all = self.columns();
        all[self.random.below(all.len())]
    }

    fn number(&mut self) -> String {
        let all: &[&str] = match self.has {
            [true, false, _] => &["i_n", "i_a_id", "i_big", "i_small", "i_price", "item.i_id"],
            [false, ..] => &["l_qty", "l_amount", "l_big", "l_id"],
            _ => &[
                "i_n",
                "i_big",
                "i_small",
                "i_price",
                "l_qty",
                "l_amount",
                "l_big",
                "item.i_id",
            ],
        };
        all[self.random.below(all.len())].to_owned()
    }

    fn condition(&mut self) -> String {
        let number = self.number();
        match self.random.below(17) {
            0 => format!("{number} > {}", self.small()),
            1 => format!("{number} between {} and {}", self.small(), self.small()),
            2 => format!("{number} in ({}, {}, 3)", self.small(), self.small()),
            3 => format!("({number} < {} or {number} is null)", self.small()),
            4 => format!("not ({number} = {})", self.small()),
            5 => format!(
                "{number} > (select max(l_id) - {} from line)",
                self.random.below(100)
            ),
            6 => format!(
                "{number} <= (select count(*) from item x where x.i_n > {})",
                self.small()
            ),
            7 => format!(
                "{number} in (select l_qty from line where l_id > {})",
                self.small()
            ),
            8 if self.has[0] => {
                "exists (select 1 from line x where x.i_id = item.i_id and x.l_qty > 1)".to_owned()
            }
            9 if self.has[0] => "(select count(*) from line x where x.i_id = item.i_id) < 3".to_owned(),
            10 if self.has[0] => "i_title like '%a%'".to_owned(),
            11 if self.has[0] => format!(
                "i_title >= {}",
                self.random.pick(&["'a'", "'B'", "'it''s'", "'M'"])
            ),
            12 if self.has[0] => {
                let value = self.random.text(&["2000-01-01", "1999-12-30"]);
                let parameter = self.parameter(value);
                format!("i_day >= {parameter}")
            }
            13 if self.has[0] => "coalesce(i_flag, true)".to_owned(),
            14 => "(select n_id from nothing) is null".to_owned(),
            15 if self.has[0] => "upper(i_title) in (select upper(a_name) from author)".to_owned(),
            16 => format!("{number} > all (select a_rank from author where a_id > 5)"),
            _ => "true".to_owned(),
        }
    }

    fn expression(&mut self) -> String {
        let number = self.number();
        match self.random.below(10) {
            0 => format!("{number} + 1"),
            1 => format!("abs({number})"),
            2 => format!("case when {number} > 3 then 'many' else 'few' end"),
            3 => format!("{number} % 3"),
            4 if self.has[0] => "extract(year from i_day)".to_owned(),
            5 if self.has[0] => "lower(i_title)".to_owned(),
            6 if self.has[0] => "coalesce(i_title, 'none')".to_owned(),
            7 if self.has[0] => "date_trunc('hour', i_at)".to_owned(),
            _ => self.column().to_owned(),
        }
    }

    fn direction(&mut self) -> &'static str {
        [
            "",
            " asc",
            " desc",
            " desc nulls last",
            " asc nulls first",
            " desc nulls first",
        ][self.random.below(6)]
    }

    /// A number below `end`, or a parameter that is one.
    fn count(&mut self, end: usize) -> String {
        let count = self.random.below(end).to_string();
        if self.percent(30) {
            self.parameter(count)
        } else {
            count
        }
    }

    fn limit(&mut self) -> String {
        let mut text = String::new();
        if self.percent(50) {
            text.push_str(&format!(" limit {}", self.count(12)));
            if self.percent(40) {
                text.push_str(&format!(" offset {}", self.count(8)));
            }
        } else if self.percent(10) {
            text.push_str(" offset 3");
        }
        text
    }

    fn tail(from: &str, conditions: &[String]) -> String {
        if conditions.is_empty() {
            format!(" from {from}")
        } else {
            format!(" from {from} where {}", conditions.join(" and "))
        }
    }

    /// ORDER BY for these outputs. `unique`: expressions that make it total.
    fn order(&mut self, outputs: &[String], unique: &[String], hidden: bool) -> (String, Order) {
        match self.random.below(if unique.is_empty() { 3 } else { 5 }) {
            0 => (String::new(), Order::None),
            1 | 2 => {
                let mut by = Vec::new();
                let mut items = Vec::new();
                for _ in 0..=self.random.below(2) {
                    let at = self.random.below(outputs.len());
                    by.push(at);
                    let item = if self.percent(40) {
                        (at + 1).to_string()
                    } else {
                        outputs[at].clone()
                    };
                    items.push(format!("{item}{}", self.direction()));
                }
                let limit = self.limit();
                (format!(" order by {}{limit}", items.join(", ")), Order::By(by))
            }
            _ => {
                let mut items = Vec::new();
                if hidden {
                    let expression = self.expression();
                    items.push(format!("{expression}{}", self.direction()));
                }
                for item in unique {
                    items.push(format!("{item}{}", self.direction()));
                }
                let limit = self.limit();
                (format!(" order by {}{limit}", items.join(", ")), Order::Total)
            }
        }
    }

    fn outputs(&mut self) -> Vec<String> {
        let mut outputs = Vec::new();
        for _ in 0..=self.random.below(4) {
            let output = if self.percent(70) {
                self.column().to_owned()
            } else {
                self.expression()
            };
            outputs.push(output);
        }
        outputs
    }

    /// Rows, or distinct ones.
    fn rows(&mut self, from: &str, conditions: &[String]) -> (String, Order) {
        let tail = Self::tail(from, conditions);
        if self.percent(30) {
            let mut outputs = self.outputs();
            outputs.push(self.number());
            let list = outputs.join(", ");
            let (order, kind) = self.order(&outputs, &[], false);
            // Rows differ, so the order is total where it is by all columns.
            let (order, kind) = if kind != Order::None && self.percent(50) {
                let all: Vec<String> = (1..=outputs.len())
                    .map(|n| format!("{n}{}", self.direction()))
                    .collect();
                self.values.truncate(count_parameters(&format!("{list}{tail}")));
                let limit = self.limit();
                (format!(" order by {}{limit}", all.join(", ")), Order::Total)
            } else {
                (order, kind)
            };
            return (format!("select distinct {list}{tail}{order}"), kind);
        }
        if self.percent(10) {
            let unique = self.unique();
            let (order, kind) = self.order(&unique.clone(), &unique, true);
            let kind = if let Order::By(_) = kind {
                Order::None
            } else {
                kind
            };
            if order.contains(" limit") && kind == Order::None
                || order.contains(" order by 1")
                || order.contains(", 1")
            {
                return (format!("select *{tail}"), Order::None);
            }
            return (format!("select *{tail}{order}"), kind);
        }
        let outputs = self.outputs();
        let unique = self.unique();
        let (order, kind) = self.order(&outputs, &unique, true);
        let mut list = outputs.clone();
        // An alias hides nothing that ORDER BY means.
        if let (Order::Total | Order::None, true) = (&kind, self.percent(30)) {
            list[0] = format!("{} as x", list[0]);
        }
        (format!("select {}{tail}{order}", list.join(", ")), kind)
    }

    /// Columns that identify a joined row.
    fn unique(&self) -> Vec<String> {
        let all = self.has.iter().zip(UNIQUE).filter(|(has, _)| **has);
        all.map(|(_, name)| name.to_owned()).collect()
    }

    fn aggregate(&mut self) -> String {
        let number = self.number();
        let plain: &[&str] = if self.has[0] {
            &["i_day", "i_at", "i_title", "i_code", "i_big", "i_local"]
        } else {
            &["l_day", "l_note", "l_amount", "l_qty"]
        };
        let plain = plain[self.random.below(plain.len())];
        let filter = if self.percent(20) {
            format!(" filter (where {number} > 2)")
        } else {
            String::new()
        };
        let column = self.column();
        match self.random.below(12) {
            0 | 1 => format!("count(*){filter}"),
            2 => format!("count({column}){filter}"),
            3 | 4 => format!("sum({number}){filter}"),
            5 => format!("avg({number}){filter}"),
            6 => format!("min({plain}){filter}"),
            7 => format!("max({plain}){filter}"),
            8 => format!("count(distinct {column})"),
            9 => {
                let function = self.random.text(&["sum", "avg", "min"]);
                format!("{function}(distinct {number})")
            }
            10 => format!("bool_or({number} > 4){filter}"),
            _ => {
                let other = self.number();
                format!("coalesce(sum({number}), 0) - count({other}) * 2")
            }
        }
    }

    /// One row of all.
    fn whole(&mut self, from: &str, conditions: &[String]) -> (String, Order) {
        let tail = Self::tail(from, conditions);
        let outputs: Vec<String> = (0..=self.random.below(4)).map(|_| self.aggregate()).collect();
        let having = if self.percent(20) {
            format!(" having {} > {}", "count(*)", self.random.below(30))
        } else {
            String::new()
        };
        (
            format!("select {}{tail}{having}", outputs.join(", ")),
            Order::None,
        )
    }

    fn groups(&mut self, from: &str, conditions: &[String], key: &str) -> (String, Order) {
        let tail = Self::tail(from, conditions);
        let mut keys = Vec::new();
        if self.percent(40) {
            keys.push(key.to_owned());
        }
        for _ in 0..self.random.below(3) {
            let key = if self.percent(70) {
                self.column().to_owned()
            } else {
                self.expression()
            };
            keys.push(key);
        }
        if keys.is_empty() {
            keys.push(self.number());
        }
        let mut outputs: Vec<String> = keys.iter().filter(|_| self.random.percent(80)).cloned().collect();
        let all_keys = outputs.len() == keys.len();
        for _ in 0..self.random.below(3) {
            let aggregate = self.aggregate();
            outputs.push(aggregate);
        }
        if outputs.is_empty() {
            outputs.push("count(*)".to_owned());
        }
        let having = if self.percent(30) {
            let aggregate = self.aggregate();
            if aggregate.starts_with("bool") {
                format!(" having {aggregate}")
            } else if aggregate.starts_with("min") || aggregate.starts_with("max") {
                format!(" having {aggregate} is not null")
            } else {
                format!(" having {aggregate} > {}", self.small())
            }
        } else {
            String::new()
        };
        let by: Vec<String> = keys
            .iter()
            .map(|key| match outputs.iter().position(|output| output == key) {
                Some(at) if self.random.percent(30) => (at + 1).to_string(),
                _ => key.clone(),
            })
            .collect();
        let (order, kind) = self.order(&outputs, &keys, false);
        // Hidden sort keys that are aggregates.
        let (order, kind) = if order.is_empty() && self.percent(30) {
            let aggregate = self.aggregate();
            let unique: Vec<String> = keys
                .iter()
                .map(|key| format!("{key}{}", self.direction()))
                .collect();
            let limit = self.limit();
            (
                format!(
                    " order by {aggregate}{}, {}{limit}",
                    self.direction(),
                    unique.join(", ")
                ),
                Order::Total,
            )
        } else {
            (order, kind)
        };
        let distinct = if self.percent(10) && all_keys && !order.contains("order") {
            "distinct "
        } else {
            ""
        };
        (
            format!(
                "select {distinct}{}{tail} group by {}{having}{order}",
                outputs.join(", "),
                by.join(", ")
            ),
            kind,
        )
    }
}

/// The greatest parameter in a text.
fn count_parameters(text: &str) -> usize {
    let digits = |rest: &str| rest.chars().take_while(char::is_ascii_digit).collect::<String>();
    text.split('$')
        .skip(1)
        .filter_map(|rest| digits(rest).parse().ok())
        .max()
        .unwrap_or(0)
}
