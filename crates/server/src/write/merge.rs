//! MERGE: one SELECT joins the source to the table and says of each row which clause it meets, and with which values; then the rows are locked
//! and written by number.
//!
//! ```text
//!   SELECT t."\u{1}rid", CASE WHEN matched AND c1 THEN 0 WHEN ... END, CASE WHEN <that> = 0 THEN v1 END, ...
//!   FROM (SELECT *, true AS "\u{1}there" FROM s) AS s LEFT JOIN "\u{1}t" AS t ON ...
//! ```
//!
//! `WHEN NOT MATCHED BY SOURCE` makes a FULL JOIN of it. Rows go first, then they change, then new ones come, so that a key may go from one row
//! to another.

use super::checks::Checks;
use super::conflict::told;
use super::insert::check_width;
use super::rows::{self, FoundRow, Parts, Run, Values};
use super::select::{Assigned, Source, Target, alone, parsed as expression, push, query, select};
use super::update::{current, fill, write_assigned};
use super::{Change, ColumnDefault, Identity, PreparedChange};
use crate::session::{ClientSession, StoreFailure, names};
use crate::users::WriteRight;
use arrow::array::{Array, RecordBatch};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Int64Type};
use corun_store::{Lock, Rid, RowBuf, Transaction};
use corun_wire::error::{Refusal, code};
use corun_wire::values::Kind;
use datafusion::logical_expr::LogicalPlan;
use datafusion::sql::sqlparser::ast::helpers::attached_token::AttachedToken;
use datafusion::sql::sqlparser::ast::{
    self, AssignmentTarget, BinaryOperator, CaseWhen, Expr, Ident, Join, JoinConstraint, JoinOperator,
    MergeAction, MergeClauseKind, MergeInsertExpr, MergeInsertKind, ObjectNamePart, SelectItem, SetExpr,
    SetOperator, SetQuantifier, Statement, TableAlias, TableFactor, TableWithJoins, Value, Visit, Visitor,
    WildcardAdditionalOptions,
};
use datafusion::sql::sqlparser::dialect::PostgreSqlDialect;
use datafusion::sql::sqlparser::parser::{Parser, ParserError};
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan, Tokenizer};
use std::collections::HashSet;
use std::ops::{ControlFlow, Range};

/// What says that a row of the source is there.
const THERE: &str = "\u{1}there";
/// The column that `DO NOTHING` seems to set ([`with_nothing`]).
pub(crate) const NOTHING: &str = "\u{1}nothing";

/// A statement that is ready to run.
#[derive(Debug)]
pub(crate) struct Merge {
    target: Target,
    /// Row number, clause, values.
    pub(super) plan: LogicalPlan,
    clauses: Vec<Action>,
    checks: Checks,
}

/// What a clause does.
#[derive(Debug)]
enum Action {
    Nothing,
    Delete,
    Update(Vec<Assigned>, Vec<Kind>),
    Insert(Vec<Assigned>, Vec<Kind>),
}

fn literal(value: Value) -> Expr {
    Expr::Value(value.into())
}

fn and(one: Expr, other: Option<&Expr>) -> Expr {
    let Some(other) = other else {
        return one;
    };
    Expr::BinaryOp {
        left: Box::new(one),
        op: BinaryOperator::And,
        right: Box::new(Expr::Nested(Box::new(other.clone()))),
    }
}

fn case(conditions: impl Iterator<Item = (Expr, Expr)>) -> Expr {
    Expr::Case {
        case_token: AttachedToken::empty(),
        end_token: AttachedToken::empty(),
        operand: None,
        conditions: conditions
            .map(|(condition, result)| CaseWhen { condition, result })
            .collect(),
        else_result: None,
    }
}

/// Plans it, with the queries of a `WITH`.
pub(super) async fn prepare(
    session: &ClientSession,
    with: Option<&ast::With>,
    of: &ast::Merge,
    types: &[u32],
    text: &str,
) -> Result<PreparedChange, Refusal> {
    if of.output.is_some() {
        let what = "RETURNING of MERGE is not supported";
        return Err(Refusal::new(code::NOT_SUPPORTED, what).hint("Use INSERT ... ON CONFLICT."));
    }
    let has = |wanted: fn(&MergeAction) -> bool| of.clauses.iter().any(|clause| wanted(&clause.action));
    let rights = [
        (has(|of| matches!(of, MergeAction::Insert(_))), WriteRight::Insert),
        (has(|of| matches!(of, MergeAction::Update(_))), WriteRight::Update),
        (
            has(|of| matches!(of, MergeAction::Delete { .. })),
            WriteRight::Delete,
        ),
    ];
    let mut rights = rights.into_iter().filter_map(|(has, right)| has.then_some(right));
    let target = Target::of(session, &of.table, rights.next().unwrap_or(WriteRight::Update))?;
    rights.try_for_each(|right| session.check_may_write(right, &target.info))?;
    let mut of = of.clone();
    target.unqualify(&mut of);
    let (source, there) = marked(&of.source)?;

    let not_null = |of: Expr| Expr::IsNotNull(Box::new(of));
    let null = |of: Expr| Expr::IsNull(Box::new(of));
    let mut conditions: Vec<(usize, Expr)> = Vec::new();
    let mut always: [bool; 3] = [false; 3];
    for clause in &of.clauses {
        let (kind, when) = match clause.clause_kind {
            MergeClauseKind::Matched => (0, and(not_null(target.rid()), Some(&not_null(there.clone())))),
            MergeClauseKind::NotMatched | MergeClauseKind::NotMatchedByTarget => (1, null(target.rid())),
            MergeClauseKind::NotMatchedBySource => (2, null(there.clone())),
        };
        if always[kind] {
            let what = "unreachable WHEN clause specified after unconditional WHEN clause";
            return Err(Refusal::new(code::SYNTAX_ERROR, what));
        }
        always[kind] = clause.predicate.is_none();
        conditions.push((kind, and(when, clause.predicate.as_ref())));
    }
    if conditions.is_empty() {
        return Err(Refusal::new(code::SYNTAX_ERROR, "MERGE needs a WHEN clause"));
    }
    let mut items = Vec::new();
    push(&mut items, target.rid());
    push(&mut items, literal(Value::Null));
    let mut clauses = Vec::new();
    // Which items are whose.
    let mut items_of: Vec<Range<usize>> = Vec::new();
    for clause in &of.clauses {
        let begin = items.len();
        clauses.push(match &clause.action {
            action if is_nothing(action) => Action::Nothing,
            MergeAction::Delete { .. } => Action::Delete,
            MergeAction::Update(update) => Action::Update(
                target.assignments(&update.assignments, &mut items, text)?,
                Vec::new(),
            ),
            MergeAction::Insert(insert) => {
                Action::Insert(inserted(&target, insert, &mut items, text)?, Vec::new())
            }
        });
        items_of.push(begin..items.len());
    }
    let by_source = of
        .clauses
        .iter()
        .any(|clause| clause.clause_kind == MergeClauseKind::NotMatchedBySource);
    let on = JoinConstraint::On(of.on.as_ref().clone());
    let from = TableWithJoins {
        relation: source,
        joins: vec![Join {
            relation: target.relation(),
            global: false,
            join_operator: match by_source {
                true => JoinOperator::FullOuter(on),
                false => JoinOperator::LeftOuter(on),
            },
        }],
    };
    let choice = Choice {
        conditions,
        items: &items,
        items_of,
        from,
    };
    let query = match of.clauses.iter().any(|clause| has_subquery(&clause.predicate)) {
        true => choice.union(with.cloned()),
        false => query(with.cloned(), choice.select()),
    };
    let planned = session
        .plan_ast(Statement::Query(Box::new(query)), types, text)
        .await?;
    let columns = session.columns(&planned.plan)?;
    for clause in &mut clauses {
        if let Action::Update(assigned, kinds) | Action::Insert(assigned, kinds) = clause {
            target.check_types(&columns, &items, assigned, (session.zone(), text))?;
            *kinds = target.kinds(&columns, assigned);
        }
    }
    Ok(PreparedChange {
        parameters: planned.parameters,
        columns: None,
        change: Change::Merge(Merge {
            checks: Checks::plan(session, &target.info).await?,
            target,
            plan: planned.plan,
            clauses,
        }),
    })
}

/// Which clause each row meets, and with which values.
struct Choice<'a> {
    /// Of each clause: its kind, and when it is met. Kinds exclude each other.
    conditions: Vec<(usize, Expr)>,
    items: &'a [SelectItem],
    items_of: Vec<Range<usize>>,
    from: TableWithJoins,
}

impl Choice<'_> {
    /// One SELECT with the first clause that is met.
    fn select(self) -> ast::Select {
        let number = |number: usize| literal(Value::Number(number.to_string(), false));
        let conditions = self.conditions.into_iter().enumerate();
        let which = case(conditions.map(|(at, (_, condition))| (condition, number(at))));
        let mut items = self.items.to_vec();
        // Values of other clauses are not computed: they may fail.
        for (at, range) in self.items_of.into_iter().enumerate() {
            for expr in items[range].iter_mut().filter_map(expression_of) {
                if !is_harmless(expr) {
                    let is_this = Expr::BinaryOp {
                        left: Box::new(Expr::Nested(Box::new(which.clone()))),
                        op: BinaryOperator::Eq,
                        right: Box::new(number(at)),
                    };
                    let result = std::mem::replace(expr, literal(Value::Null));
                    *expr = case([(is_this, result)].into_iter());
                }
            }
        }
        items
            .get_mut(1)
            .and_then(expression_of)
            .into_iter()
            .for_each(|expr| *expr = which.clone());
        select(items, vec![self.from], None)
    }

    /// A SELECT for each clause: the engine takes subqueries that are conditions in WHERE only.
    fn union(self, with: Option<ast::With>) -> ast::Query {
        let mut all: Option<SetExpr> = None;
        for (at, (kind, condition)) in self.conditions.iter().enumerate() {
            let earlier = self.conditions[..at].iter().filter(|(other, _)| other == kind);
            let condition = earlier.fold(condition.clone(), |condition, (_, earlier)| {
                let not = Expr::IsNotTrue(Box::new(Expr::Nested(Box::new(earlier.clone()))));
                and(condition, Some(&not))
            });
            let mut items = self.items.to_vec();
            for (item, expr) in items.iter_mut().enumerate().skip(1) {
                let own = item == 1 || self.items_of[at].contains(&item);
                if let Some(expr) = expression_of(expr) {
                    match item {
                        1 => *expr = literal(Value::Number(at.to_string(), false)),
                        _ if own => {}
                        _ => *expr = literal(Value::Null),
                    }
                }
            }
            let one = select(items, vec![self.from.clone()], Some(condition));
            let one = SetExpr::Select(Box::new(one));
            all = Some(match all {
                None => one,
                Some(before) => SetExpr::SetOperation {
                    op: SetOperator::Union,
                    set_quantifier: SetQuantifier::All,
                    left: Box::new(before),
                    right: Box::new(one),
                },
            });
        }
        let mut whole = query(with, select(Vec::new(), Vec::new(), None));
        whole.body = all.map_or(whole.body, Box::new);
        whole
    }
}

fn expression_of(item: &mut SelectItem) -> Option<&mut Expr> {
    match item {
        SelectItem::ExprWithAlias { expr, .. } | SelectItem::UnnamedExpr(expr) => Some(expr),
        _ => None,
    }
}

/// Whether a condition asks whether a query has rows.
fn has_subquery(of: &Option<Expr>) -> bool {
    struct Subqueries;
    impl Visitor for Subqueries {
        type Break = ();
        fn pre_visit_expr(&mut self, of: &Expr) -> ControlFlow<()> {
            match of {
                Expr::InSubquery { .. } | Expr::Exists { .. } | Expr::AnyOp { .. } | Expr::AllOp { .. } => {
                    ControlFlow::Break(())
                }
                _ => ControlFlow::Continue(()),
            }
        }
    }
    of.visit(&mut Subqueries).is_break()
}

/// Whether none of its clauses does anything.
pub(crate) fn does_nothing(of: &ast::Merge) -> bool {
    of.clauses.iter().all(|clause| is_nothing(&clause.action))
}

/// `DO NOTHING` ([`parsed`]).
fn is_nothing(action: &MergeAction) -> bool {
    let is_it = |name: &ast::ObjectName| {
        let last = name.0.last().and_then(ObjectNamePart::as_ident);
        last.is_some_and(|name| name.value == NOTHING)
    };
    match action {
        MergeAction::Update(update) => update.assignments.iter().any(
            |assignment| matches!(&assignment.target, AssignmentTarget::ColumnName(name) if is_it(name)),
        ),
        MergeAction::Insert(insert) => insert.columns.iter().any(is_it),
        MergeAction::Delete { .. } => false,
    }
}

/// Whether an expression cannot fail, and gives nothing away.
fn is_harmless(of: &Expr) -> bool {
    match of {
        Expr::Identifier(_) | Expr::CompoundIdentifier(_) | Expr::Value(_) => true,
        Expr::Nested(inner) => is_harmless(inner),
        _ => false,
    }
}

/// The source, and the column that is not NULL where one of its rows is there.
fn marked(source: &TableFactor) -> Result<(TableFactor, Expr), Refusal> {
    let alias = match source {
        TableFactor::Table { name, alias, .. } => match alias {
            Some(alias) => alias.clone(),
            None => TableAlias {
                explicit: true,
                name: Ident::with_quote('"', names(name)?.1),
                columns: Vec::new(),
                at: None,
            },
        },
        TableFactor::Derived {
            alias: Some(alias), ..
        } => alias.clone(),
        _ => {
            let what = "the source of MERGE is a table, or a subquery with an alias";
            return Err(Refusal::new(code::NOT_SUPPORTED, what));
        }
    };
    let items = vec![
        SelectItem::Wildcard(WildcardAdditionalOptions::default()),
        SelectItem::ExprWithAlias {
            expr: literal(Value::Boolean(true)),
            alias: Ident::with_quote('"', THERE),
        },
    ];
    let there = Expr::CompoundIdentifier(vec![alias.name.clone(), Ident::with_quote('"', THERE)]);
    // Names of columns stay with the inner alias: the outer one would have to name the mark, too.
    let outer = TableAlias {
        columns: Vec::new(),
        ..alias
    };
    let marked = TableFactor::Derived {
        lateral: false,
        subquery: Box::new(query(None, select(items, vec![alone(source.clone())], None))),
        alias: Some(outer),
        sample: None,
    };
    Ok((marked, there))
}

/// What an INSERT clause gives the columns of a new row: all of them.
fn inserted(
    target: &Target,
    insert: &MergeInsertExpr,
    items: &mut Vec<SelectItem>,
    text: &str,
) -> Result<Vec<Assigned>, Refusal> {
    let info = target.info.as_ref();
    let MergeInsertKind::Values(values) = &insert.kind else {
        return Err(Refusal::new(code::SYNTAX_ERROR, "INSERT of MERGE needs VALUES"));
    };
    let [values] = values.rows.as_slice() else {
        return Err(Refusal::new(
            code::SYNTAX_ERROR,
            "INSERT of MERGE takes one row of values",
        ));
    };
    if insert.insert_predicate.is_some() {
        return Err(Refusal::new(code::SYNTAX_ERROR, "INSERT of MERGE takes no WHERE"));
    }
    let mut columns: Vec<usize> = Vec::new();
    for name in &insert.columns {
        let column = target.position(name, text)?;
        if columns.contains(&column) {
            let name = &info.columns[column].name;
            return Err(Refusal::new(
                "42701",
                format!("column \"{name}\" specified more than once"),
            ));
        }
        columns.push(column);
    }
    let values = &values.content;
    if insert.columns.is_empty() {
        columns = (0..values.len().min(info.columns.len())).collect();
    }
    check_width(columns.len(), values.len(), true)?;
    let mut assigned = Vec::new();
    for (column, of) in info.columns.iter().enumerate() {
        let place = columns.iter().position(|known| *known == column);
        let value = place
            .map(|place| &values[place])
            .filter(|value| !super::select::is_default(value));
        let to = match (value, &of.default) {
            (Some(_), _) if of.identity == Some(Identity::Always) => {
                let what = format!("cannot insert a non-DEFAULT value into column \"{}\"", of.name);
                let detail = format!(
                    "Column \"{}\" is an identity column defined as GENERATED ALWAYS.",
                    of.name
                );
                return Err(Refusal::new("428C9", what).detail(detail));
            }
            (Some(value), _) => Source::Item(push(items, target.typed(column, value.clone()))),
            (None, ColumnDefault::Expression(text)) => Source::Item(push(items, expression(text)?)),
            (None, _) => Source::Default,
        };
        assigned.push(Assigned { column, to });
    }
    Ok(assigned)
}

/// Which clause each row of the SELECT meets.
pub(super) struct Found {
    /// Rows of the table, in the order of their numbers, and their clauses.
    changed: Vec<(FoundRow, usize)>,
    /// All, in the order in which they are written: those that go, those that change, new ones.
    order: Vec<(FoundRow, usize)>,
}

impl Parts for Merge {
    const VERB: &'static str = "MERGE";
    type Found = Found;

    fn find(&self, batches: &[RecordBatch]) -> Result<Found, Refusal> {
        let mut chosen = Found {
            changed: Vec::new(),
            order: Vec::new(),
        };
        let mut new = Vec::new();
        let mut seen = HashSet::new();
        for (at, batch) in batches.iter().enumerate() {
            let wrong = |_| Refusal::new(code::INTERNAL_ERROR, "the number of a clause has another type");
            let which = cast(batch.column(1), &DataType::Int64).map_err(wrong)?;
            let which = arrow::array::AsArray::as_primitive::<Int64Type>(&which);
            let numbers = rows::numbers(std::slice::from_ref(batch), 0)?;
            let mut numbers = numbers.into_iter().peekable();
            for row in 0..batch.num_rows() {
                let rid = numbers.next_if(|found| found.row == row).map(|found| found.rid);
                let clause = usize::try_from(which.value(row))
                    .ok()
                    .filter(|_| which.is_valid(row));
                let Some((clause, action)) = clause.and_then(|at| Some((at, self.clauses.get(at)?))) else {
                    continue;
                };
                if matches!(action, Action::Nothing) {
                    continue;
                }
                let found = FoundRow {
                    rid: rid.unwrap_or(Rid(0)),
                    batch: at,
                    row,
                };
                match rid {
                    None => new.push((found, clause)),
                    Some(rid) if seen.insert(rid) => chosen.changed.push((found, clause)),
                    Some(_) => {
                        let what = "MERGE command cannot affect row a second time";
                        let hint = "Ensure that not more than one source row matches any one target row.";
                        return Err(Refusal::new("21000", what).hint(hint));
                    }
                }
            }
        }
        chosen.changed.sort_unstable();
        let is_deleted = |(_, clause): &(FoundRow, usize)| matches!(self.clauses[*clause], Action::Delete);
        let (deleted, updated): (Vec<_>, Vec<_>) = chosen.changed.iter().copied().partition(is_deleted);
        chosen.order = [deleted, updated, new].concat();
        Ok(chosen)
    }

    fn count(found: &Found) -> usize {
        found.order.len()
    }

    fn lock(
        &self,
        run: &Run<'_, Found>,
        transaction: &Transaction<'_>,
        part: Range<usize>,
    ) -> Result<Option<Option<RecordBatch>>, StoreFailure> {
        let changed = &run.found.changed;
        let part = part.start.min(changed.len())..part.end.min(changed.len());
        let rids = changed[part].iter().map(|(found, _)| found.rid);
        let table = &self.target.info.table;
        let is_newest = rows::lock_all(transaction, &run.snapshot, table, rids, Lock::Exclusive)?;
        Ok(is_newest.then_some(None))
    }

    fn write(
        &self,
        run: &Run<'_, Found>,
        transaction: &Transaction<'_>,
        part: Range<usize>,
    ) -> Result<Option<RecordBatch>, StoreFailure> {
        let info = self.target.info.as_ref();
        let mut values: Vec<Option<Values<'_>>> = Vec::new();
        for clause in &self.clauses {
            values.push(match clause {
                Action::Update(_, kinds) | Action::Insert(_, kinds) => Some(Values::new(&run.plain, kinds)?),
                _ => None,
            });
        }
        // Rows that change or are new, and what is assigned.
        let mut new: Vec<(Rid, RowBuf)> = Vec::new();
        let mut written: Vec<(bool, &[Assigned])> = Vec::new();
        for (found, clause) in &run.found.order[part] {
            let (is_new, assigned) = match &self.clauses[*clause] {
                Action::Nothing => continue,
                Action::Delete => {
                    transaction.delete(&info.table, found.rid)?;
                    continue;
                }
                Action::Update(assigned, _) => (false, assigned),
                Action::Insert(assigned, _) => (true, assigned),
            };
            let Some(values) = &values[*clause] else {
                continue;
            };
            let mut row = match is_new {
                true => info.table.new_row(),
                false => current(transaction, info, found.rid)?,
            };
            fill(info, assigned, values, *found, &run.zone, &mut row)?;
            new.push((found.rid, row));
            written.push((is_new, assigned));
        }
        if !new.is_empty() && !self.checks.is_empty() {
            let batch = rows::batch_of_new(info, new.iter().map(|(rid, row)| (*rid, row)))?;
            self.checks.check(info, &batch, &run.zone)?;
        }
        for ((rid, row), (is_new, assigned)) in new.iter().zip(written) {
            if is_new {
                let inserted = transaction.insert(&info.table, row);
                inserted.map_err(|error| told(info, Some(row.row()), run.zone, error))?;
            } else {
                write_assigned(transaction, info, *rid, assigned, row, (true, run.zone))?;
            }
        }
        Ok(None)
    }
}

/// Parses it. `DO NOTHING` and `INSERT DEFAULT VALUES` become what the parser knows.
///
/// # Errors
/// A text that is no SQL.
pub(crate) fn parsed(text: &str) -> Result<Vec<Statement>, ParserError> {
    let dialect = PostgreSqlDialect {};
    let tokens = Tokenizer::new(&dialect, text).tokenize_with_location()?;
    let word = |token: &TokenWithSpan| match &token.token {
        Token::Word(word) if word.quote_style.is_none() => word.value.to_ascii_uppercase(),
        _ => String::new(),
    };
    let mut written: Vec<TokenWithSpan> = Vec::with_capacity(tokens.len());
    // Words since the last WHEN, or since INSERT.
    let mut when: Vec<String> = Vec::new();
    for token in tokens {
        if matches!(token.token, Token::Whitespace(_)) {
            continue;
        }
        let this = word(&token);
        let last = when.last().map(String::as_str).unwrap_or_default();
        let is_new = when.get(1).is_some_and(|word| word == "NOT")
            && when
                .get(3)
                .is_none_or(|word| word != "BY" || when.get(4).is_some_and(|word| word == "TARGET"));
        let instead = match (last, this.as_str()) {
            ("DO", "NOTHING") if is_new => Some(format!("INSERT (\"{NOTHING}\") VALUES (NULL)")),
            ("DO", "NOTHING") => Some(format!("UPDATE SET \"{NOTHING}\" = NULL")),
            ("DEFAULT", "VALUES") => Some("VALUES (DEFAULT)".to_owned()),
            _ => None,
        };
        if let Some(instead) = instead {
            let span = written.pop().map_or(token.span, |before| before.span);
            let tokens = Tokenizer::new(&dialect, &instead).tokenize()?;
            let tokens = tokens
                .into_iter()
                .filter(|token| !matches!(token, Token::Whitespace(_)));
            written.extend(tokens.map(|token| TokenWithSpan { token, span }));
            when.push(this);
            continue;
        }
        if this == "WHEN" {
            when.clear();
        }
        when.push(this);
        written.push(token);
    }
    Parser::new(&dialect)
        .with_tokens_with_locations(written)
        .parse_statements()
}
