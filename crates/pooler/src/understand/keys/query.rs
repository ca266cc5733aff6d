//! [`plan`]: from parse trees to a [`KeyPlan`], query by query.

use pg_query::protobuf as pb;
use pg_query::{Node, NodeEnum};

use super::constants::Constants;
use super::plan::{KeyColumn, KeyPlan};
use super::scope::{Relation, Scope};
use super::test::{Comparison, Operand, Test};
use super::{COLUMNS_MAX, NODES_MAX};
use crate::understand::{TableName, Tree, children, own_operator};

/// Queries of a text that are looked at; those that follow are not known.
const QUERIES_MAX: u16 = 64;

/// What a text says of keys; `None` if nothing.
pub(in crate::understand) fn plan(tree: &pb::ParseResult, text: &[u8]) -> Option<KeyPlan> {
    let mut planner = Planner {
        constants: Constants::of(text),
        ctes: Vec::new(),
        columns: Vec::new(),
        tests: Vec::new(),
        query: 0,
    };
    for statement in &tree.stmts {
        if let Some(node) = statement.stmt.as_deref() {
            planner.statement(node);
        }
    }
    let Planner { columns, tests, .. } = planner;
    (!columns.is_empty()).then(|| KeyPlan {
        columns: columns.into(),
        tests: tests.into(),
    })
}

struct Planner<'a> {
    constants: Constants<'a>,
    /// Names of WITH, wherever they stand: what is called like one is not taken for a table.
    ctes: Vec<String>,
    columns: Vec<KeyColumn>,
    tests: Vec<Test>,
    /// Number of the query that is looked at.
    query: u16,
}

impl Planner<'_> {
    fn statement(&mut self, node: &Node) {
        match node.node.as_ref() {
            Some(NodeEnum::ExplainStmt(explain)) => {
                explain.query.iter().for_each(|query| self.statement(query))
            }
            Some(NodeEnum::DeclareCursorStmt(cursor)) => {
                cursor.query.iter().for_each(|query| self.statement(query))
            }
            // Other statements take their parameters from elsewhere, or touch whole tables.
            Some(
                NodeEnum::SelectStmt(_)
                | NodeEnum::InsertStmt(_)
                | NodeEnum::UpdateStmt(_)
                | NodeEnum::DeleteStmt(_),
            ) => {
                if let Some(tree) = Tree::of(node) {
                    self.names_of_with(tree);
                    self.query(tree);
                }
            }
            _ => {}
        }
    }

    fn names_of_with(&mut self, tree: Tree<'_>) {
        if let Tree::Node(NodeEnum::CommonTableExpr(cte)) = tree {
            self.ctes.push(cte.ctename.clone());
        }
        children(tree, &mut |child| self.names_of_with(child));
    }

    /// A query, and behind it those inside of it.
    fn query(&mut self, tree: Tree<'_>) {
        if self.query == QUERIES_MAX || self.columns.len() == COLUMNS_MAX {
            return;
        }
        match tree {
            Tree::Select(select) => {
                let mut scope = Scope::default();
                let mut conditions = Vec::new();
                self.sources(&select.from_clause, &mut scope, &mut conditions);
                conditions.extend(select.where_clause.as_deref());
                self.scope(scope, &conditions);
            }
            Tree::Node(NodeEnum::UpdateStmt(update)) => {
                self.changed(
                    &update.relation,
                    &update.from_clause,
                    update.where_clause.as_deref(),
                );
            }
            Tree::Node(NodeEnum::DeleteStmt(delete)) => {
                self.changed(
                    &delete.relation,
                    &delete.using_clause,
                    delete.where_clause.as_deref(),
                );
            }
            Tree::Node(NodeEnum::InsertStmt(insert)) => self.insert(insert),
            _ => return,
        }
        self.query += 1;
        let mut inside = Vec::new();
        children(tree, &mut |child| queries(child, &mut inside));
        for query in inside {
            self.query(query);
        }
    }

    /// UPDATE and DELETE: one more table beside those of FROM.
    fn changed(&mut self, table: &Option<pb::RangeVar>, from: &[Node], condition: Option<&Node>) {
        let mut scope = Scope::default();
        let mut conditions = Vec::new();
        if let Some(table) = table {
            // What is changed is a table, whatever WITH names.
            scope.add(Relation::of(table, &[]));
        }
        self.sources(from, &mut scope, &mut conditions);
        conditions.extend(condition);
        self.scope(scope, &conditions);
    }

    /// Items of FROM, and the conditions of the inner joins among them.
    fn sources<'t>(&self, items: &'t [Node], scope: &mut Scope, conditions: &mut Vec<&'t Node>) {
        for item in items {
            self.source(item, scope, conditions);
        }
    }

    fn source<'t>(&self, item: &'t Node, scope: &mut Scope, conditions: &mut Vec<&'t Node>) {
        match item.node.as_ref() {
            Some(NodeEnum::RangeVar(table)) => scope.add(Relation::of(table, &self.ctes)),
            Some(NodeEnum::RangeTableSample(sample)) => {
                if let Some(relation) = sample.relation.as_deref() {
                    self.source(relation, scope, conditions);
                }
            }
            Some(NodeEnum::JoinExpr(join)) => {
                let begin = scope.relations();
                if let Some(left) = join.larg.as_deref() {
                    self.source(left, scope, conditions);
                }
                let middle = scope.relations();
                if let Some(right) = join.rarg.as_deref() {
                    self.source(right, scope, conditions);
                }
                // The condition of an outer join does not hold for the rows it fills up.
                if join.jointype() == pb::JoinType::JoinInner {
                    conditions.extend(join.quals.as_deref());
                    scope.equate_using(begin, middle, &join.using_clause);
                }
            }
            Some(NodeEnum::RangeSubselect(range)) => scope.add(Relation::other(range.alias.as_ref())),
            Some(NodeEnum::RangeFunction(range)) => scope.add(Relation::other(range.alias.as_ref())),
            _ => scope.add(Relation::other(None)),
        }
    }

    /// What conditions that all hold say of the columns of a query.
    fn scope(&mut self, mut scope: Scope, conditions: &[&Node]) {
        let mut parts = Vec::new();
        for condition in conditions {
            conjuncts(condition, &mut parts);
        }
        for part in &parts {
            equalities(part, &mut scope);
        }
        // No class changes any more.
        let said = Said::And(parts.iter().map(|part| self.said(part, &mut scope)).collect());
        let classes: Vec<usize> = scope.classes().collect();
        for class in classes {
            if let Some(test) = said.of(class) {
                let columns: Vec<(Box<[TableName]>, &str)> = scope.columns(class).collect();
                self.keep(test, columns);
            }
        }
    }

    /// Keeps a test of columns that are equal.
    fn keep(&mut self, test: Test, columns: Vec<(Box<[TableName]>, &str)>) {
        if test.nodes() > NODES_MAX {
            return;
        }
        let equality = test.is_equality();
        let index = u16::try_from(self.tests.len()).unwrap_or(u16::MAX);
        self.tests.push(test);
        for (tables, column) in columns {
            if self.columns.len() == COLUMNS_MAX {
                break;
            }
            self.columns.push(KeyColumn {
                tables,
                column: column.into(),
                query: self.query,
                equality,
                test: index,
            });
        }
    }

    /// What a condition says of the columns of a query.
    fn said(&self, node: &Node, scope: &mut Scope) -> Said {
        match node.node.as_ref() {
            Some(NodeEnum::BoolExpr(expr)) => {
                let mut parts = || expr.args.iter().map(|arg| self.said(arg, scope)).collect();
                match expr.boolop() {
                    pb::BoolExprType::AndExpr => Said::And(parts()),
                    pb::BoolExprType::OrExpr => Said::Or(parts()),
                    _ => Said::Nothing,
                }
            }
            Some(NodeEnum::AExpr(expr)) => match self.comparison(expr, scope) {
                Some((class, test)) => Said::Column(class, test),
                None => Said::Nothing,
            },
            _ => Said::Nothing,
        }
    }

    /// A comparison: the class of its column, and what it says of that.
    fn comparison(&self, expr: &pb::AExpr, scope: &mut Scope) -> Option<(usize, Test)> {
        use pb::AExprKind as Kind;
        let (left, right) = (expr.lexpr.as_deref()?, expr.rexpr.as_deref()?);
        let operator = own_operator(expr)?;
        if let Kind::AexprOp | Kind::AexprNotDistinct = expr.kind() {
            // `IS NOT DISTINCT FROM` has the operator of equality.
            let comparison = Comparison::of(operator)?;
            return match class_of(Some(left), scope) {
                Some(class) => Some((class, Test::Compare(comparison, self.constants.operand(right)?))),
                None => {
                    let class = class_of(Some(right), scope)?;
                    Some((
                        class,
                        Test::Compare(comparison.flipped(), self.constants.operand(left)?),
                    ))
                }
            };
        }
        let class = class_of(Some(left), scope)?;
        let test = match (expr.kind(), operator, right.node.as_ref()?) {
            (Kind::AexprIn, "=", NodeEnum::List(list)) => Test::In(self.operands(&list.items)?),
            (Kind::AexprOpAny, "=", NodeEnum::AArrayExpr(array)) => Test::In(self.operands(&array.elements)?),
            (Kind::AexprOpAny, "=", _) => Test::Any(self.constants.array(right)?),
            (Kind::AexprBetween, _, NodeEnum::List(list)) => {
                let [low, high] = list.items.as_slice() else {
                    return None;
                };
                // One side alone says something too.
                let sides = [(Comparison::GreaterOrEqual, low), (Comparison::LessOrEqual, high)];
                let known = sides.into_iter().filter_map(|(comparison, side)| {
                    Some(Test::Compare(comparison, self.constants.operand(side)?))
                });
                let known: Box<[Test]> = known.collect();
                if known.is_empty() {
                    return None;
                }
                Test::And(known)
            }
            _ => return None,
        };
        Some((class, test))
    }

    fn operands(&self, nodes: &[Node]) -> Option<Box<[Operand]>> {
        if nodes.len() > NODES_MAX {
            return None;
        }
        nodes.iter().map(|node| self.constants.operand(node)).collect()
    }

    /// `INSERT INTO table (column, ...) VALUES (value, ...), ...`.
    fn insert(&mut self, insert: &pb::InsertStmt) {
        let Some(NodeEnum::SelectStmt(select)) =
            insert.select_stmt.as_deref().and_then(|node| node.node.as_ref())
        else {
            return;
        };
        let Some(table) = insert
            .relation
            .as_ref()
            .and_then(|table| Relation::of(table, &[]).table)
        else {
            return;
        };
        let rows: Option<Vec<&[Node]>> = select.values_lists.iter().map(row).collect();
        let Some(rows) = rows.filter(|rows| !rows.is_empty() && rows.len() <= NODES_MAX) else {
            return;
        };
        for (index, column) in insert.cols.iter().enumerate() {
            let Some(NodeEnum::ResTarget(column)) = &column.node else {
                continue;
            };
            let values: Option<Box<[Operand]>> = rows
                .iter()
                .map(|row| self.constants.operand(row.get(index)?))
                .collect();
            if let (Some(values), true) = (values, column.indirection.is_empty()) {
                let tables: Box<[TableName]> = Box::new([table.clone()]);
                self.keep(Test::Assigned(values), vec![(tables, &column.name)]);
            }
        }
    }
}

/// A condition whose columns are looked up.
enum Said {
    Column(usize, Test),
    And(Vec<Said>),
    Or(Vec<Said>),
    Nothing,
}

impl Said {
    /// What it says of a class of columns.
    fn of(&self, class: usize) -> Option<Test> {
        match self {
            Said::Column(column, test) => (*column == class).then(|| test.clone()),
            Said::And(parts) => {
                let mut known: Vec<Test> = parts.iter().filter_map(|part| part.of(class)).collect();
                match known.len() {
                    0 => None,
                    1 => known.pop(),
                    _ => Some(Test::And(known.into())),
                }
            }
            Said::Or(parts) => parts
                .iter()
                .map(|part| part.of(class))
                .collect::<Option<_>>()
                .map(Test::Or),
            Said::Nothing => None,
        }
    }
}

/// The queries below a place, not those inside of these.
fn queries<'t>(tree: Tree<'t>, out: &mut Vec<Tree<'t>>) {
    match tree {
        Tree::Select(_)
        | Tree::Node(NodeEnum::InsertStmt(_) | NodeEnum::UpdateStmt(_) | NodeEnum::DeleteStmt(_)) => {
            out.push(tree);
        }
        Tree::Table(_) | Tree::Node(_) => {
            children(tree, &mut |child| queries(child, out));
        }
    }
}

/// The conditions that must all hold for one to hold.
fn conjuncts<'t>(node: &'t Node, out: &mut Vec<&'t Node>) {
    match node.node.as_ref() {
        Some(NodeEnum::BoolExpr(expr)) if expr.boolop() == pb::BoolExprType::AndExpr => {
            expr.args.iter().for_each(|arg| conjuncts(arg, out));
        }
        _ => out.push(node),
    }
}

/// `column = column`.
fn equalities(node: &Node, scope: &mut Scope) {
    let Some(NodeEnum::AExpr(expr)) = node.node.as_ref() else {
        return;
    };
    if expr.kind() == pb::AExprKind::AexprOp && own_operator(expr) == Some("=") {
        let left = class_of(expr.lexpr.as_deref(), scope);
        let right = class_of(expr.rexpr.as_deref(), scope);
        if let (Some(left), Some(right)) = (left, right) {
            scope.equate(left, right);
        }
    }
}

fn class_of(node: Option<&Node>, scope: &mut Scope) -> Option<usize> {
    match node?.node.as_ref()? {
        NodeEnum::ColumnRef(column) => scope.class_of(column),
        _ => None,
    }
}

fn row(node: &Node) -> Option<&[Node]> {
    match node.node.as_ref()? {
        NodeEnum::List(row) => Some(&row.items),
        _ => None,
    }
}
