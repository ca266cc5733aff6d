//! The parse tree of statements on data: what stands below each node.
//!
//! Every field of every kind of node is named here, so that a new field of a later grammar fails to compile instead of being
//! passed over. Kinds that are not listed answer `false`: their contents are out of sight.

use pg_query::protobuf as pb;
use pg_query::{Node, NodeEnum};

/// A place in the tree. Two kinds of node also stand in fields of their own type; they get variants so that both ways of
/// holding one look the same.
#[derive(Clone, Copy)]
pub(crate) enum Tree<'a> {
    Select(&'a pb::SelectStmt),
    Table(&'a pb::RangeVar),
    Node(&'a NodeEnum),
}

impl<'a> Tree<'a> {
    /// A node that is there.
    pub(crate) fn of(node: &'a Node) -> Option<Tree<'a>> {
        Some(match node.node.as_ref()? {
            NodeEnum::SelectStmt(select) => Tree::Select(select),
            NodeEnum::RangeVar(table) => Tree::Table(table),
            other => Tree::Node(other),
        })
    }
}

/// Hands each child of a place to `each`, in the order of the text where that is easy. `false`: this kind of node is not known,
/// and nothing was handed out.
pub(crate) fn children<'a>(tree: Tree<'a>, each: &mut dyn FnMut(Tree<'a>)) -> bool {
    match tree {
        Tree::Table(_) => true,
        Tree::Select(select) => {
            self::select(select, &mut Each(each));
            true
        }
        Tree::Node(node) => self::node(node, &mut Each(each)),
    }
}

/// Hands out what a field holds.
struct Each<'e, 'a>(&'e mut dyn FnMut(Tree<'a>));

impl<'a> Each<'_, 'a> {
    fn one(&mut self, node: &'a Option<Box<Node>>) {
        if let Some(tree) = node.as_deref().and_then(Tree::of) {
            (self.0)(tree);
        }
    }

    fn all(&mut self, nodes: &'a [Node]) {
        nodes.iter().filter_map(Tree::of).for_each(&mut *self.0);
    }

    fn table(&mut self, table: &'a Option<pb::RangeVar>) {
        if let Some(table) = table {
            (self.0)(Tree::Table(table));
        }
    }

    fn with(&mut self, with: &'a Option<pb::WithClause>) {
        if let Some(pb::WithClause {
            ctes,
            recursive: _,
            location: _,
        }) = with
        {
            self.all(ctes);
        }
    }

    fn returning(&mut self, returning: &'a Option<pb::ReturningClause>) {
        if let Some(pb::ReturningClause { options: _, exprs }) = returning {
            self.all(exprs);
        }
    }

    fn window(&mut self, window: &'a pb::WindowDef) {
        let pb::WindowDef {
            name: _,
            refname: _,
            partition_clause,
            order_clause,
            frame_options: _,
            start_offset,
            end_offset,
            location: _,
        } = window;
        self.all(partition_clause);
        self.all(order_clause);
        self.one(start_offset);
        self.one(end_offset);
    }
}

fn select<'a>(select: &'a pb::SelectStmt, each: &mut Each<'_, 'a>) {
    let pb::SelectStmt {
        distinct_clause,
        into_clause: _,
        target_list,
        from_clause,
        where_clause,
        group_clause,
        group_distinct: _,
        having_clause,
        window_clause,
        values_lists,
        sort_clause,
        limit_offset,
        limit_count,
        limit_option: _,
        locking_clause: _,
        with_clause,
        op: _,
        all: _,
        larg,
        rarg,
    } = select;
    each.with(with_clause);
    each.all(distinct_clause);
    each.all(target_list);
    each.all(from_clause);
    each.one(where_clause);
    each.all(group_clause);
    each.one(having_clause);
    each.all(window_clause);
    each.all(values_lists);
    each.all(sort_clause);
    each.one(limit_offset);
    each.one(limit_count);
    for side in [larg, rarg].into_iter().flatten() {
        (each.0)(Tree::Select(side));
    }
}

fn node<'a>(node: &'a NodeEnum, each: &mut Each<'_, 'a>) -> bool {
    match node {
        NodeEnum::ColumnRef(_)
        | NodeEnum::AConst(_)
        | NodeEnum::ParamRef(_)
        | NodeEnum::AStar(_)
        | NodeEnum::SqlvalueFunction(_)
        | NodeEnum::SetToDefault(_)
        | NodeEnum::CurrentOfExpr(_)
        | NodeEnum::String(_)
        | NodeEnum::Integer(_)
        | NodeEnum::ColumnDef(_) => {}
        NodeEnum::List(pb::List { items }) => each.all(items),
        NodeEnum::ResTarget(target) => {
            let pb::ResTarget {
                name: _,
                indirection,
                val,
                location: _,
            } = &**target;
            each.all(indirection);
            each.one(val);
        }
        NodeEnum::AExpr(expr) => {
            let pb::AExpr {
                kind: _,
                name: _,
                lexpr,
                rexpr,
                rexpr_list_start: _,
                rexpr_list_end: _,
                location: _,
            } = &**expr;
            each.one(lexpr);
            each.one(rexpr);
        }
        NodeEnum::BoolExpr(expr) => {
            let pb::BoolExpr {
                xpr: _,
                boolop: _,
                args,
                location: _,
            } = &**expr;
            each.all(args);
        }
        NodeEnum::NullTest(test) => each.one(&test.arg),
        NodeEnum::BooleanTest(test) => each.one(&test.arg),
        NodeEnum::CaseExpr(case) => {
            let pb::CaseExpr {
                xpr: _,
                casetype: _,
                casecollid: _,
                arg,
                args,
                defresult,
                location: _,
            } = &**case;
            each.one(arg);
            each.all(args);
            each.one(defresult);
        }
        NodeEnum::CaseWhen(when) => {
            let pb::CaseWhen {
                xpr: _,
                expr,
                result,
                location: _,
            } = &**when;
            each.one(expr);
            each.one(result);
        }
        NodeEnum::CoalesceExpr(expr) => each.all(&expr.args),
        NodeEnum::MinMaxExpr(expr) => each.all(&expr.args),
        NodeEnum::FuncCall(call) => {
            let pb::FuncCall {
                funcname: _,
                args,
                agg_order,
                agg_filter,
                over,
                agg_within_group: _,
                agg_star: _,
                agg_distinct: _,
                func_variadic: _,
                funcformat: _,
                location: _,
            } = &**call;
            each.all(args);
            each.all(agg_order);
            each.one(agg_filter);
            if let Some(over) = over {
                each.window(over);
            }
        }
        NodeEnum::NamedArgExpr(arg) => each.one(&arg.arg),
        NodeEnum::TypeCast(pb_cast) => {
            let pb::TypeCast {
                arg,
                type_name: _,
                location: _,
            } = &**pb_cast;
            each.one(arg);
        }
        NodeEnum::CollateClause(collate) => each.one(&collate.arg),
        NodeEnum::AIndirection(expr) => {
            let pb::AIndirection { arg, indirection } = &**expr;
            each.one(arg);
            each.all(indirection);
        }
        NodeEnum::AIndices(indices) => {
            let pb::AIndices {
                is_slice: _,
                lidx,
                uidx,
            } = &**indices;
            each.one(lidx);
            each.one(uidx);
        }
        NodeEnum::AArrayExpr(array) => each.all(&array.elements),
        NodeEnum::RowExpr(row) => each.all(&row.args),
        NodeEnum::SubLink(link) => {
            let pb::SubLink {
                xpr: _,
                sub_link_type: _,
                sub_link_id: _,
                testexpr,
                oper_name: _,
                subselect,
                location: _,
            } = &**link;
            each.one(testexpr);
            each.one(subselect);
        }
        NodeEnum::SortBy(sort) => each.one(&sort.node),
        NodeEnum::WindowDef(window) => each.window(window),
        NodeEnum::GroupingSet(set) => each.all(&set.content),
        NodeEnum::GroupingFunc(func) => each.all(&func.args),
        NodeEnum::JoinExpr(join) => {
            let pb::JoinExpr {
                jointype: _,
                is_natural: _,
                larg,
                rarg,
                using_clause: _,
                join_using_alias: _,
                quals,
                alias: _,
                rtindex: _,
            } = &**join;
            each.one(larg);
            each.one(rarg);
            each.one(quals);
        }
        NodeEnum::RangeSubselect(range) => {
            let pb::RangeSubselect {
                lateral: _,
                subquery,
                alias: _,
            } = &**range;
            each.one(subquery);
        }
        NodeEnum::RangeFunction(range) => {
            let pb::RangeFunction {
                lateral: _,
                ordinality: _,
                is_rowsfrom: _,
                functions,
                alias: _,
                coldeflist: _,
            } = range;
            each.all(functions);
        }
        NodeEnum::RangeTableSample(sample) => {
            let pb::RangeTableSample {
                relation,
                method,
                args,
                repeatable,
                location: _,
            } = &**sample;
            if !matches!(names(method).as_slice(), ["bernoulli" | "system"]) {
                return false;
            }
            each.one(relation);
            each.all(args);
            each.one(repeatable);
        }
        NodeEnum::CommonTableExpr(cte) => {
            // The clauses SEARCH and CYCLE hold names and constants.
            each.one(&cte.ctequery);
        }
        NodeEnum::InsertStmt(insert) => {
            let pb::InsertStmt {
                relation,
                cols,
                select_stmt,
                on_conflict_clause,
                returning_clause,
                with_clause,
                r#override: _,
            } = &**insert;
            each.with(with_clause);
            each.table(relation);
            each.all(cols);
            each.one(select_stmt);
            if let Some(conflict) = on_conflict_clause {
                let pb::OnConflictClause {
                    action: _,
                    infer,
                    target_list,
                    where_clause,
                    location: _,
                } = &**conflict;
                if let Some(infer) = infer {
                    let pb::InferClause {
                        index_elems,
                        where_clause,
                        conname: _,
                        location: _,
                    } = &**infer;
                    for element in index_elems {
                        if let Some(NodeEnum::IndexElem(element)) = &element.node {
                            each.one(&element.expr);
                        }
                    }
                    each.one(where_clause);
                }
                each.all(target_list);
                each.one(where_clause);
            }
            each.returning(returning_clause);
        }
        NodeEnum::UpdateStmt(update) => {
            let pb::UpdateStmt {
                relation,
                target_list,
                where_clause,
                from_clause,
                returning_clause,
                with_clause,
            } = &**update;
            each.with(with_clause);
            each.table(relation);
            each.all(target_list);
            each.all(from_clause);
            each.one(where_clause);
            each.returning(returning_clause);
        }
        NodeEnum::DeleteStmt(delete) => {
            let pb::DeleteStmt {
                relation,
                using_clause,
                where_clause,
                returning_clause,
                with_clause,
            } = &**delete;
            each.with(with_clause);
            each.table(relation);
            each.all(using_clause);
            each.one(where_clause);
            each.returning(returning_clause);
        }
        NodeEnum::MergeStmt(merge) => {
            let pb::MergeStmt {
                relation,
                source_relation,
                join_condition,
                merge_when_clauses,
                returning_clause,
                with_clause,
            } = &**merge;
            each.with(with_clause);
            each.table(relation);
            each.one(source_relation);
            each.one(join_condition);
            each.all(merge_when_clauses);
            each.returning(returning_clause);
        }
        NodeEnum::MergeWhenClause(when) => {
            let pb::MergeWhenClause {
                match_kind: _,
                command_type: _,
                r#override: _,
                condition,
                target_list,
                values,
            } = &**when;
            each.one(condition);
            each.all(target_list);
            each.all(values);
        }
        NodeEnum::MultiAssignRef(assign) => each.one(&assign.source),
        _ => return false,
    }
    true
}

/// The parts of a qualified name.
pub(crate) fn names(parts: &[Node]) -> Vec<&str> {
    parts
        .iter()
        .filter_map(|node| match node.node.as_ref() {
            Some(NodeEnum::String(part)) => Some(part.sval.as_str()),
            _ => None,
        })
        .collect()
}
