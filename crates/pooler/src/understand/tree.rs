//! The parse tree of statements on data: what stands below each node, for those who read it ([`children`]) and for those who change
//! it ([`children_mut`]).
//!
//! Every field of every kind of node is named here, so that a new field of a later grammar fails to compile instead of being
//! passed over. For kinds that are not listed [`children`] returns `false`: their contents are out of sight.

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
            select.below(each);
            true
        }
        Tree::Node(NodeEnum::RangeTableSample(sample)) if !is_built_in_method(sample) => false,
        Tree::Node(node) => node_below(node, each),
    }
}

/// What stands below a node or a part of one.
pub(crate) trait Below {
    /// Hands out each child.
    fn below<'a>(&'a self, each: &mut dyn FnMut(Tree<'a>));
    /// Hands out each child to be changed. Tables that stand in a field of their own type are left out.
    fn below_mut(&mut self, each: &mut dyn FnMut(&mut Node));
}

/// A field that holds children: hands out what is in it.
trait Field {
    fn hand<'a>(&'a self, each: &mut dyn FnMut(Tree<'a>));
    fn hand_mut(&mut self, each: &mut dyn FnMut(&mut Node));
}

impl<T: Field> Field for Option<T> {
    fn hand<'a>(&'a self, each: &mut dyn FnMut(Tree<'a>)) {
        self.iter().for_each(|field| field.hand(each));
    }

    fn hand_mut(&mut self, each: &mut dyn FnMut(&mut Node)) {
        self.iter_mut().for_each(|field| field.hand_mut(each));
    }
}

impl<T: Field> Field for Vec<T> {
    fn hand<'a>(&'a self, each: &mut dyn FnMut(Tree<'a>)) {
        self.iter().for_each(|field| field.hand(each));
    }

    fn hand_mut(&mut self, each: &mut dyn FnMut(&mut Node)) {
        self.iter_mut().for_each(|field| field.hand_mut(each));
    }
}

impl<T: Field> Field for Box<T> {
    fn hand<'a>(&'a self, each: &mut dyn FnMut(Tree<'a>)) {
        (**self).hand(each);
    }

    fn hand_mut(&mut self, each: &mut dyn FnMut(&mut Node)) {
        (**self).hand_mut(each);
    }
}

impl Field for Node {
    fn hand<'a>(&'a self, each: &mut dyn FnMut(Tree<'a>)) {
        if let Some(tree) = Tree::of(self) {
            each(tree);
        }
    }

    fn hand_mut(&mut self, each: &mut dyn FnMut(&mut Node)) {
        each(self);
    }
}

impl Field for pb::RangeVar {
    fn hand<'a>(&'a self, each: &mut dyn FnMut(Tree<'a>)) {
        each(Tree::Table(self));
    }

    fn hand_mut(&mut self, _: &mut dyn FnMut(&mut Node)) {}
}

/// A side of a set operation.
impl Field for pb::SelectStmt {
    fn hand<'a>(&'a self, each: &mut dyn FnMut(Tree<'a>)) {
        each(Tree::Select(self));
    }

    fn hand_mut(&mut self, each: &mut dyn FnMut(&mut Node)) {
        self.below_mut(each);
    }
}

/// Clauses that are no places of their own: their children are handed out in their stead.
macro_rules! clauses {
    ($($clause:ident)*) => {
        $(impl Field for pb::$clause {
            fn hand<'a>(&'a self, each: &mut dyn FnMut(Tree<'a>)) {
                self.below(each);
            }

            fn hand_mut(&mut self, each: &mut dyn FnMut(&mut Node)) {
                self.below_mut(each);
            }
        })*
    };
}

clauses! { WithClause ReturningClause WindowDef OnConflictClause InferClause }

/// The kinds of node: fields that hold children, in the order in which these are handed out, and all other fields.
macro_rules! kinds {
    ($($kind:ident { $($field:ident),* } { $($other:ident),* })*) => {
        $(impl Below for pb::$kind {
            fn below<'a>(&'a self, each: &mut dyn FnMut(Tree<'a>)) {
                let pb::$kind { $($field,)* $($other: _,)* } = self;
                $($field.hand(each);)*
            }

            fn below_mut(&mut self, each: &mut dyn FnMut(&mut Node)) {
                let pb::$kind { $($field,)* $($other: _,)* } = self;
                $($field.hand_mut(each);)*
            }
        })*

        fn node_below<'a>(node: &'a NodeEnum, each: &mut dyn FnMut(Tree<'a>)) -> bool {
            match node {
                $(NodeEnum::$kind(node) => node.below(each),)*
                node => return is_leaf(node),
            }
            true
        }

        /// Hands each child of a node to `each`, to be changed; none of a kind that is not known.
        pub(crate) fn children_mut(node: &mut NodeEnum, each: &mut dyn FnMut(&mut Node)) {
            match node {
                $(NodeEnum::$kind(node) => node.below_mut(each),)*
                _ => {}
            }
        }
    };
}

kinds! {
    SelectStmt {
        with_clause, distinct_clause, target_list, from_clause, where_clause, group_clause, having_clause,
        window_clause, values_lists, sort_clause, limit_offset, limit_count, larg, rarg
    } { into_clause, group_distinct, limit_option, locking_clause, op, all }
    InsertStmt { with_clause, relation, cols, select_stmt, on_conflict_clause, returning_clause } {
        r#override
    }
    OnConflictClause { infer, target_list, where_clause } { action, location }
    InferClause { index_elems, where_clause } { conname, location }
    IndexElem { expr } { name, indexcolname, collation, opclass, opclassopts, ordering, nulls_ordering }
    UpdateStmt { with_clause, relation, target_list, from_clause, where_clause, returning_clause } {}
    DeleteStmt { with_clause, relation, using_clause, where_clause, returning_clause } {}
    MergeStmt {
        with_clause, relation, source_relation, join_condition, merge_when_clauses, returning_clause
    } {}
    MergeWhenClause { condition, target_list, values } { match_kind, command_type, r#override }
    MultiAssignRef { source } { colno, ncolumns }
    WithClause { ctes } { recursive, location }
    // The clauses SEARCH and CYCLE hold names and constants.
    CommonTableExpr { ctequery } {
        ctename, aliascolnames, ctematerialized, search_clause, cycle_clause, location, cterecursive,
        cterefcount, ctecolnames, ctecoltypes, ctecoltypmods, ctecolcollations
    }
    ReturningClause { exprs } { options }
    WindowDef { partition_clause, order_clause, start_offset, end_offset } {
        name, refname, frame_options, location
    }
    JoinExpr { larg, rarg, quals } { jointype, is_natural, using_clause, join_using_alias, alias, rtindex }
    RangeSubselect { subquery } { lateral, alias }
    RangeFunction { functions } { lateral, ordinality, is_rowsfrom, alias, coldeflist }
    RangeTableSample { relation, args, repeatable } { method, location }
    List { items } {}
    ResTarget { indirection, val } { name, location }
    SortBy { node } { sortby_dir, sortby_nulls, use_op, location }
    GroupingSet { content } { kind, location }
    GroupingFunc { args } { xpr, refs, agglevelsup, location }
    AExpr { lexpr, rexpr } { kind, name, rexpr_list_start, rexpr_list_end, location }
    BoolExpr { args } { xpr, boolop, location }
    NullTest { arg } { xpr, nulltesttype, argisrow, location }
    BooleanTest { arg } { xpr, booltesttype, location }
    CaseExpr { arg, args, defresult } { xpr, casetype, casecollid, location }
    CaseWhen { expr, result } { xpr, location }
    CoalesceExpr { args } { xpr, coalescetype, coalescecollid, location }
    MinMaxExpr { args } { xpr, minmaxtype, minmaxcollid, inputcollid, op, location }
    FuncCall { args, agg_order, agg_filter, over } {
        funcname, agg_within_group, agg_star, agg_distinct, func_variadic, funcformat, location
    }
    NamedArgExpr { arg } { xpr, name, argnumber, location }
    TypeCast { arg } { type_name, location }
    CollateClause { arg } { collname, location }
    AIndirection { arg, indirection } {}
    AIndices { lidx, uidx } { is_slice }
    AArrayExpr { elements } { list_start, list_end, location }
    RowExpr { args } { xpr, row_typeid, row_format, colnames, location }
    SubLink { testexpr, subselect } { xpr, sub_link_type, sub_link_id, oper_name, location }
}

/// Whether it is a node without children.
fn is_leaf(node: &NodeEnum) -> bool {
    matches!(
        node,
        NodeEnum::ColumnRef(_)
            | NodeEnum::AConst(_)
            | NodeEnum::ParamRef(_)
            | NodeEnum::AStar(_)
            | NodeEnum::SqlvalueFunction(_)
            | NodeEnum::SetToDefault(_)
            | NodeEnum::CurrentOfExpr(_)
            | NodeEnum::String(_)
            | NodeEnum::Integer(_)
            | NodeEnum::ColumnDef(_)
    )
}

/// Whether the method of TABLESAMPLE is one of PostgreSQL's own.
fn is_built_in_method(sample: &pb::RangeTableSample) -> bool {
    matches!(names(&sample.method).as_slice(), ["bernoulli" | "system"])
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

/// The operator of an expression, if it is one of PostgreSQL's own for all that can be seen.
pub(crate) fn own_operator(expr: &pb::AExpr) -> Option<&str> {
    match names(&expr.name).as_slice() {
        [name] | ["pg_catalog", name] => Some(name),
        _ => None,
    }
}
