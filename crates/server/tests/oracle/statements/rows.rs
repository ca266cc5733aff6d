//! Statements that read and write rows, and those that are wrong.

use super::{Column, Kind, Known, Statements, Step, Table};

const COMPARISONS: &[&str] = &["=", "=", "<>", "<", "<=", ">", ">="];

impl Statements {
    /// A condition over a table that the statement knows by `alias`.
    fn condition(&mut self, table: &Table, alias: &str) -> String {
        let column = self.column(table).clone();
        let of = format!("{alias}.{}", column.name);
        let literal = column.kind.literal(&mut self.random);
        match self.random.below(16) {
            0 => format!("{of} is null"),
            1 => format!("{of} is not null"),
            2 => format!("{of} in ({literal}, {})", column.kind.literal(&mut self.random)),
            3 => format!(
                "{of} between {literal} and {}",
                column.kind.literal(&mut self.random)
            ),
            4 => format!("not ({of} = {literal})"),
            5 => format!(
                "({} and {})",
                self.condition(table, alias),
                self.condition(table, alias)
            ),
            6 => format!(
                "({} or {})",
                self.condition(table, alias),
                self.condition(table, alias)
            ),
            7..=8 => match self.partner(column.kind) {
                Some((other, with)) => {
                    let not = match Known::NotIn.is_avoided() {
                        true => "",
                        false => self.random.pick(&["", "", "not "]),
                    };
                    match self.random.percent(50) {
                        true => format!(
                            "{not}exists (select 1 from {} z where z.{with} = {of})",
                            other.name
                        ),
                        false => format!(
                            "{of} {not}in (select z.{with} from {} z where z.{with} is not null)",
                            other.name
                        ),
                    }
                }
                None => "true".to_owned(),
            },
            9 if column.kind.is_text() => format!("{of} like 'a%'"),
            _ => format!("{of} {} {literal}", self.random.pick(COMPARISONS)),
        }
    }

    /// `where ...`, mostly.
    fn filter(&mut self, table: &Table, alias: &str) -> String {
        match self.random.percent(88) {
            true => format!(" where {}", self.condition(table, alias)),
            false => String::new(),
        }
    }

    /// A condition that at most one row fulfils.
    fn one_row(&mut self, table: &Table, alias: &str) -> Option<String> {
        if table.primary.is_empty() {
            return None;
        }
        let parts: Vec<String> = table
            .primary
            .iter()
            .map(|at| {
                let column = &table.columns[*at];
                let literal = column.kind.literal(&mut self.random);
                format!("{alias}.{} = {literal}", column.name)
            })
            .collect();
        Some(parts.join(" and "))
    }

    /// Some table and its column that is compared with this kind.
    fn partner(&mut self, kind: Kind) -> Option<(Table, String)> {
        let table = self.table();
        let columns: Vec<&Column> = table
            .columns
            .iter()
            .filter(|column| column.kind.compares_with(kind))
            .collect();
        if columns.is_empty() {
            return None;
        }
        let column = columns[self.random.below(columns.len())].name.clone();
        Some((table, column))
    }

    /// Another table of which at most one row has the value of a column here: the columns.
    fn by_key(&mut self, table: &Table) -> Option<(Table, String, String)> {
        let other = self.table();
        if other.name == table.name || other.primary.len() != 1 {
            return None;
        }
        let key = &other.columns[other.primary[0]];
        let columns: Vec<&Column> = table
            .columns
            .iter()
            .filter(|column| column.kind.compares_with(key.kind))
            .collect();
        if columns.is_empty() {
            return None;
        }
        let column = columns[self.random.below(columns.len())].name.clone();
        Some((other.clone(), column, key.name.clone()))
    }

    fn returning(&mut self, table: &Table, alias: &str, step: Step) -> Step {
        let column = self.column(table).clone();
        let (name, kind) = (column.name, column.kind);
        match self.random.below(10) {
            0..=1 => Step {
                sql: format!("{} returning {alias}.*", step.sql),
                ..step
            },
            2 => Step {
                sql: format!(
                    "{} returning {alias}.{name} as r, {alias}.{name} is null as n",
                    step.sql
                ),
                ..step
            },
            3 => {
                let of = kind.expression(&format!("{alias}.{name}"), &mut self.random);
                Step {
                    sql: format!("{} returning {of} as e", step.sql),
                    ..step
                }
                .computed()
            }
            _ => step,
        }
    }

    /// A value for a column: mostly a literal, sometimes NULL, DEFAULT, or a wrong one.
    fn value(&mut self, column: &Column) -> String {
        match self.random.below(100) {
            0..=5 => "null".to_owned(),
            6..=13 => "default".to_owned(),
            // One in a statement: which of two is met first is not said.
            14..=15 if !self.wrong => {
                self.wrong = true;
                column.kind.wrong(&mut self.random)
            }
            16..=18 if column.kind.is_integer() => {
                format!("{} + 1", self.random.below(8))
            }
            _ => column.kind.literal(&mut self.random),
        }
    }

    /// Columns that an INSERT names; identities that are always generated are named seldom.
    fn named(&mut self, table: &Table) -> Vec<Column> {
        let all = self.random.percent(60);
        let mut named: Vec<Column> = table
            .columns
            .iter()
            .filter(|column| {
                let rare = if column.always {
                    5
                } else if column.numbered {
                    30
                } else if all {
                    100
                } else {
                    75
                };
                self.random.percent(rare)
            })
            .cloned()
            .collect();
        if named.is_empty() {
            named.push(table.columns[table.columns.len() - 1].clone());
        }
        if self.random.percent(15) {
            named.reverse();
        }
        named
    }

    pub(super) fn insert(&mut self) -> Step {
        let table = self.table();
        let named = self.named(&table);
        let names: Vec<&str> = named.iter().map(|column| column.name.as_str()).collect();
        let whole = names.len() == table.columns.len()
            && names
                .iter()
                .zip(&table.columns)
                .all(|(name, column)| *name == column.name)
            && self.random.percent(50);
        let list = if whole {
            String::new()
        } else {
            format!(" ({})", names.join(", "))
        };
        let source = match self.random.below(20) {
            0 => return Step::of(format!("insert into {} default values", table.name)).writes(&table),
            1..=3 => self.selected(&named),
            _ => None,
        };
        let source = source.unwrap_or_else(|| {
            let rows = [1, 1, 1, 2, 3, 5][self.random.below(6)];
            self.wrong = rows > 1 && Known::LateConstants.is_avoided();
            let rows: Vec<String> = (0..rows)
                .map(|_| {
                    let values: Vec<String> = named.iter().map(|column| self.value(column)).collect();
                    format!("({})", values.join(", "))
                })
                .collect();
            format!("values {}", rows.join(", "))
        });
        let conflict = self.conflict(&table);
        let sql = format!("insert into {} as t{list} {source}{conflict}", table.name);
        let step = Step::of(sql).writes(&table);
        self.returning(&table, "t", step)
    }

    /// `SELECT` of as many columns of some table as are wanted, of types that fit.
    fn selected(&mut self, wanted: &[Column]) -> Option<String> {
        let from = self.table();
        let mut items = Vec::new();
        for column in wanted {
            let fits: Vec<&Column> = from
                .columns
                .iter()
                .filter(|of| column.kind.takes(of.kind))
                .collect();
            items.push(match fits.is_empty() {
                true => format!("{}::{}", column.kind.literal(&mut self.random), column.kind.sql()),
                false => {
                    let of = fits[self.random.below(fits.len())];
                    match of.kind.is_integer() && self.random.percent(50) {
                        true => format!("q.{} + {}", of.name, self.random.below(20)),
                        false => format!("q.{}", of.name),
                    }
                }
            });
        }
        let filter = self.filter(&from, "q");
        // Numbers of a sequence are given in the order of the rows, and of two with one key the first may stay.
        let order: Vec<String> = (1..=items.len()).map(|at| at.to_string()).collect();
        Some(format!(
            "select {} from {} q{filter} order by {}",
            items.join(", "),
            from.name,
            order.join(", ")
        ))
    }

    fn conflict(&mut self, table: &Table) -> String {
        if !self.random.percent(22) {
            return String::new();
        }
        let key: Vec<&str> = table
            .primary
            .iter()
            .map(|at| table.columns[*at].name.as_str())
            .collect();
        if key.is_empty() || self.random.percent(25) {
            return match self.random.percent(85) || Known::ConflictTarget.is_avoided() {
                true => " on conflict do nothing".to_owned(),
                false => format!(" on conflict ({}) do nothing", self.column(table).name),
            };
        }
        let key = key.join(", ");
        if self.random.percent(25) {
            return format!(" on conflict ({key}) do nothing");
        }
        let column = self.column(table).clone();
        let name = column.name;
        let value = match self.random.below(4) {
            0 if !Known::ConflictKey.is_avoided() => self.value_of_update(&table.columns[0].clone(), "t"),
            1 if column.kind.is_integer() => format!("t.{name} + excluded.{name}"),
            _ => format!("excluded.{name}"),
        };
        let name = match value.starts_with("excluded") || value.contains("excluded") {
            true => name,
            false => table.columns[0].name.clone(),
        };
        let filter = match self.random.percent(25) && !Known::ConditionSubqueries.is_avoided() {
            true => self.filter(table, "t"),
            false => String::new(),
        };
        format!(" on conflict ({key}) do update set {name} = {value}{filter}")
    }

    fn value_of_update(&mut self, column: &Column, alias: &str) -> String {
        let name = format!("{alias}.{}", column.name);
        match self.random.below(10) {
            0..=3 => self.value(column),
            4 => match self.partner(column.kind) {
                Some((other, with)) if column.kind.takes(column.kind) && !column.in_key => {
                    let of = match column.kind {
                        Kind::Bool | Kind::Uuid | Kind::Bytes => return self.value(column),
                        _ => "max",
                    };
                    format!("(select {of}(q.{with}) from {} q)", other.name)
                }
                _ => self.value(column),
            },
            _ => column.kind.expression(&name, &mut self.random),
        }
    }

    /// `SET` of one or two columns; keys get values of columns only where one row is changed.
    fn assignments(&mut self, table: &Table, alias: &str, one: bool) -> String {
        let mut parts = Vec::new();
        let first = self.random.below(table.columns.len());
        let second = self.random.below(table.columns.len());
        for at in [first, second] {
            if at == second && (at == first || self.random.percent(50)) && !parts.is_empty() {
                break;
            }
            let column = &table.columns[at];
            let value = match column.in_key && !one {
                true => match self.value(column) {
                    // In which order rows take numbers is not said.
                    number if number == "default" && column.numbered => "null".to_owned(),
                    value => value,
                },
                false => self.value_of_update(column, alias),
            };
            parts.push(format!("{} = {value}", column.name));
        }
        parts.join(", ")
    }

    pub(super) fn update(&mut self) -> Step {
        let table = self.table();
        let name = &table.name;
        if self.random.percent(12)
            && let Some((other, column, key)) = self.by_key(&table)
        {
            let target = self.column(&table).clone();
            let fits: Vec<String> = other
                .columns
                .iter()
                .filter(|of| target.kind.takes(of.kind))
                .map(|of| of.name.clone())
                .collect();
            if !fits.is_empty() && !target.in_key {
                let from = &fits[self.random.below(fits.len())];
                let sql = format!(
                    "update {name} as t set {} = o.{from} from {} o where t.{column} = o.{key}",
                    target.name, other.name
                );
                let step = Step::of(sql).writes(&table);
                return self.returning(&table, "t", step);
            }
        }
        let one = match self.random.percent(40) {
            true => self.one_row(&table, "t"),
            false => None,
        };
        let set = self.assignments(&table, "t", one.is_some());
        let filter = match one {
            Some(one) => format!(" where {one}"),
            None => self.filter(&table, "t"),
        };
        let step = Step::of(format!("update {name} as t set {set}{filter}")).writes(&table);
        self.returning(&table, "t", step)
    }

    pub(super) fn delete(&mut self) -> Step {
        let table = self.table();
        let name = &table.name;
        if self.random.percent(15)
            && let Some((other, column, key)) = self.by_key(&table)
        {
            let condition = self.condition(&other, "o");
            let sql = format!(
                "delete from {name} t using {} o where t.{column} = o.{key} and {condition}",
                other.name
            );
            let step = Step::of(sql).writes(&table);
            return self.returning(&table, "t", step);
        }
        let filter = match self.random.percent(50) {
            true => self.one_row(&table, "t").map(|one| format!(" where {one}")),
            false => None,
        };
        let filter = filter.unwrap_or_else(|| format!(" where {}", self.condition(&table, "t")));
        let step = Step::of(format!("delete from {name} t{filter}")).writes(&table);
        self.returning(&table, "t", step)
    }

    pub(super) fn merge(&mut self) -> Step {
        let table = self.table();
        let Some((other, column, key)) = self.by_key(&table) else {
            return self.insert();
        };
        // Each row of the target meets one of the source at most, and the other way round.
        if table.primary.len() != 1 || table.columns[table.primary[0]].name != column {
            return self.update();
        }
        let mut sql = format!(
            "merge into {} t using {} o on t.{column} = o.{key}",
            table.name, other.name
        );
        let value = table.columns[self.random.below(table.columns.len())].clone();
        for _ in 0..1 + self.random.below(2) {
            let condition = match self.random.percent(40) && !Known::ConditionSubqueries.is_avoided() {
                true => format!(" and {}", self.condition(&table, "t")),
                false => String::new(),
            };
            let action = match self.random.below(5) {
                0 => "delete".to_owned(),
                1 => "do nothing".to_owned(),
                _ if value.in_key => "do nothing".to_owned(),
                _ => format!(
                    "update set {} = {}",
                    value.name,
                    self.value_of_update(&value, "t")
                ),
            };
            sql += &format!(" when matched{condition} then {action}");
        }
        if self.random.percent(70) {
            let condition = match self.random.percent(30) && !Known::ConditionSubqueries.is_avoided() {
                true => format!(" and {}", self.condition(&other, "o")),
                false => String::new(),
            };
            let named: Vec<Column> = table
                .columns
                .iter()
                .filter(|of| !of.always || self.random.percent(5))
                .cloned()
                .collect();
            let values: Vec<String> = named
                .iter()
                .map(|of| match of.name == column {
                    true => format!("o.{key}"),
                    false => self.value(of),
                })
                .collect();
            let names: Vec<&str> = named.iter().map(|of| of.name.as_str()).collect();
            let insert = match self.random.percent(12) {
                true => "do nothing".to_owned(),
                false => format!("insert ({}) values ({})", names.join(", "), values.join(", ")),
            };
            sql += &format!(" when not matched{condition} then {insert}");
        }
        Step::of(sql).writes(&table)
    }

    /// All columns, in an order of all of them.
    fn order(table: &Table, alias: &str) -> String {
        let columns: Vec<String> = table
            .columns
            .iter()
            .map(|column| format!("{alias}.{}", column.name))
            .collect();
        columns.join(", ")
    }

    pub(super) fn select(&mut self) -> Step {
        let table = self.table();
        let filter = self.filter(&table, "t");
        let name = &table.name;
        let column = self.column(&table).clone();
        match self.random.below(12) {
            0..=2 => {
                let order = Self::order(&table, "t");
                let limit = self.random.text(&["", " limit 3", " limit 2 offset 1"]);
                Step::of(format!("select * from {name} t{filter} order by {order}{limit}")).ordered()
            }
            3 => Step::of(format!("select * from {name} t{filter}")),
            4..=5 => match self.partner(column.kind) {
                Some((other, with)) => {
                    let join = self
                        .random
                        .text(&["join", "left join", "right join", "full join"]);
                    let of = self.column(&other).name.clone();
                    Step::of(format!(
                        "select t.{0}, o.{of} from {name} t {join} {1} o on t.{0} = o.{with}",
                        column.name, other.name
                    ))
                }
                None => Step::of(format!("select count(*) from {name} t{filter}")),
            },
            6 => {
                let of = match column.kind {
                    Kind::Bool | Kind::Uuid | Kind::Bytes => "count",
                    _ => self.random.pick(&["min", "max", "count"]),
                };
                Step::of(format!(
                    "select {of}({}), count(*) from {name} t{filter}",
                    column.name
                ))
                .computed()
            }
            7 => {
                let sums: Vec<String> = table
                    .columns
                    .iter()
                    .filter(|of| of.kind.is_integer() || of.kind == Kind::Numeric)
                    .map(|of| format!("sum(t.{}) as s_{0}", of.name))
                    .collect();
                let sums = if sums.is_empty() {
                    "count(*)".to_owned()
                } else {
                    sums.join(", ")
                };
                Step::of(format!(
                    "select {0}, {sums} from {name} t{filter} group by {0} having count(*) > 0 order by {0}",
                    column.name
                ))
                .computed()
                .ordered()
            }
            8 => Step::of(format!("select distinct {} from {name} t{filter}", column.name)).computed(),
            9 => match self.partner(column.kind) {
                Some((other, with)) => {
                    let set = self.random.text(&["union", "union all", "except", "intersect"]);
                    Step::of(format!(
                        "select {} from {name} t{filter} {set} select {with} from {}",
                        column.name, other.name
                    ))
                    .computed()
                }
                None if Known::BigConstants.is_avoided() => {
                    Step::of(format!("select 1::int from {name} t{filter}"))
                }
                None => Step::of(format!("select 1 from {name} t{filter}")),
            },
            10 => {
                let of = column
                    .kind
                    .expression(&format!("t.{}", column.name), &mut self.random);
                Step::of(format!("select {of} as e from {name} t{filter}")).computed()
            }
            _ => Step::of(format!("select exists (select * from {name} t{filter})")),
        }
    }

    /// A statement that fails.
    pub(super) fn mistake(&mut self) -> Step {
        let table = self.table();
        let name = &table.name;
        let column = self.column(&table).clone();
        let of = &column.name;
        let literal = column.kind.literal(&mut self.random);
        let wrong = column.kind.wrong(&mut self.random);
        let sql = match self.random.below(22) {
            0 => format!("insert into {name} (nothing) values (1)"),
            1 => format!("update {name} set nothing = 1"),
            2 => "select * from nowhere".to_owned(),
            3 => "insert into nowhere values (1)".to_owned(),
            4 => format!("insert into {name} ({of}, {of}) values ({literal}, {literal})"),
            5 => format!("insert into {name} ({of}) values ({literal}, {literal})"),
            6 => format!("update {name} set {of} = {literal}, {of} = {literal}"),
            7 if !Known::LateConstants.is_avoided() => format!("update {name} set {of} = {wrong}"),
            8 => format!("insert into {name} ({of}) values ({wrong})"),
            9 => format!("selct * from {name}"),
            10 => format!("delete from {name} where nothing = 1"),
            11 => format!("select {of}, count(*) from {name}"),
            12 => format!(
                "insert into {name} values ({})",
                vec!["null"; table.columns.len() + 1].join(", ")
            ),
            13 => "drop table nowhere".to_owned(),
            14 => "drop table if exists nowhere".to_owned(),
            15 => format!("alter table {name} drop column nothing"),
            16 => format!("alter table {name} add column {of} int"),
            17 => format!("create index on {name} (nothing)"),
            18 => format!("insert into {name} ({of}) select {literal} from nowhere"),
            19 => format!("delete from {name} where {of} is null and 1 = 'x'"),
            20 if !Known::FilterType.is_avoided() => format!("update {name} set {of} = {literal} where {of}"),
            _ => format!("delete from {name} where {of} = {literal} returning nothing"),
        };
        Step::of(sql).writes(&table)
    }
}
