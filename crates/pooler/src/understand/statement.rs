//! [`Reader`]: from parse trees to an [`Understood`], statement by statement.

use std::collections::BTreeSet;

use pg_query::protobuf as pb;
use pg_query::{Node, NodeEnum};

use super::constant::{is_true, options, string};
use super::functions::{self, Known};
use super::relations;
use super::transaction::transaction;
use super::tree::{Tree, children, names};
use super::{
    Access, Discard, Effects, Pins, StatementKind, TableName, TransactionEffect, Understood, Words,
    explained, words,
};

/// Reads the statements of one text.
pub(super) struct Reader<'a> {
    text: &'a [u8],
    out: Understood,
    /// What the text may do to the session.
    effects: Effects,
    /// Names of WITH, which are no tables.
    ctes: Vec<String>,
    /// Functions and relations.
    names: BTreeSet<Box<str>>,
    /// A node was met whose contents are out of sight.
    unseen: bool,
    /// A statement or function was met that only the primary runs.
    writes: bool,
    /// One was met of which nothing is known.
    doubtful: bool,
}

impl<'a> Reader<'a> {
    pub(super) fn read(text: &'a [u8], tree: &pb::ParseResult) -> Understood {
        let mut reader = Reader {
            text,
            out: Understood {
                kind: StatementKind::Empty,
                statements: u16::try_from(tree.stmts.len()).unwrap_or(u16::MAX),
                ..Understood::default()
            },
            effects: Effects::default(),
            ctes: Vec::new(),
            names: BTreeSet::new(),
            unseen: false,
            writes: false,
            doubtful: false,
        };
        let mut selects_into = false;
        for (number, statement) in tree.stmts.iter().enumerate() {
            let Some(node) = statement.stmt.as_deref().and_then(|node| node.node.as_ref()) else {
                continue;
            };
            let (kind, effect) = reader.statement(node);
            let out = &mut reader.out;
            out.defines |= kind == StatementKind::Definition;
            selects_into |= matches!(node, NodeEnum::SelectStmt(select) if into(select).is_some());
            if number == 0 {
                (out.kind, out.transaction) = (kind, effect);
                continue;
            }
            if out.kind != kind {
                out.kind = StatementKind::Several;
            }
            if effect != TransactionEffect::None || out.transaction != TransactionEffect::None {
                out.transaction = TransactionEffect::Mixed;
            }
        }
        reader.finish(selects_into)
    }

    fn finish(mut self, selects_into: bool) -> Understood {
        if self.unseen {
            self.out.opaque = true;
            self.out.by_literals = true;
            self.take(Words::of(self.text));
        }
        let mut out = self.out.with(self.effects);
        out.names = self.names.into_iter().collect();
        if out.names.len() > NAMES_MAX {
            out.names = Vec::new();
            out.unreadable = true;
        }
        if out.statements != 1 {
            out.explains = None;
        }
        out.access = if out.explains.is_some() {
            // Nothing runs: the proxy answers itself, or the server refuses the option.
            Access::Read
        } else if self.writes {
            Access::Write
        } else if self.doubtful || self.unseen || out.statements == 0 {
            Access::Unknown
        } else {
            Access::Read
        };
        out.tables
            .retain(|table| table.schema.is_some() || !self.ctes.iter().any(|cte| **cte == *table.name));
        out.tables.sort();
        out.tables.dedup();
        out.tables.truncate(Understood::TABLES_MAX);
        out.plain = out.statements == 1
            && out.kind.is_data()
            && out.kind != StatementKind::Merge
            && out.parameters == 0
            && !selects_into
            && !self.unseen;
        out
    }

    /// Takes over what a text of code does that runs within this one.
    fn take(&mut self, words: Words) {
        self.effects.add(&words.effects);
        self.names.extend(words.names);
    }

    /// A block of code, or a function that is made: it may run before anybody can look at it.
    fn block(&mut self, elements: &[Node]) {
        self.out.by_literals = true;
        let (mut body, mut language) = (None, None);
        for (name, value) in options(elements) {
            let value = value.and_then(|value| match &value.node {
                // Of a function in C there are two.
                Some(NodeEnum::List(list)) => {
                    <[&str; 1]>::try_from(names(&list.items)).ok().map(|[text]| text)
                }
                _ => names(std::slice::from_ref(value)).first().copied(),
            });
            match name {
                "language" => language = value,
                "as" => body = value,
                _ => {}
            }
        }
        let readable = |language: &str| {
            ["plpgsql", "sql"]
                .iter()
                .any(|known| language.eq_ignore_ascii_case(known))
        };
        match body {
            Some(body) if language.is_none_or(readable) => self.take(Words::of(body.as_bytes())),
            _ => self.effects.unreadable = true,
        }
    }

    fn statement(&mut self, node: &NodeEnum) -> (StatementKind, TransactionEffect) {
        use StatementKind as Kind;
        match node {
            // Whether these write says what is in them.
            NodeEnum::SelectStmt(_)
            | NodeEnum::InsertStmt(_)
            | NodeEnum::UpdateStmt(_)
            | NodeEnum::DeleteStmt(_)
            | NodeEnum::MergeStmt(_)
            | NodeEnum::DeclareCursorStmt(_)
            | NodeEnum::ExplainStmt(_)
            | NodeEnum::CopyStmt(_) => {}
            // The answer to SHOW may be about the server, such as transaction_read_only, which drivers ask to find the primary.
            NodeEnum::VariableShowStmt(_)
            | NodeEnum::ExecuteStmt(_)
            | NodeEnum::ClosePortalStmt(_)
            | NodeEnum::FetchStmt(_) => self.doubtful = true,
            _ => self.writes = true,
        }
        let kind = match node {
            NodeEnum::SelectStmt(select) => {
                self.tree(Tree::Select(select));
                Kind::Select
            }
            NodeEnum::InsertStmt(_) => self.data(node, Kind::Insert),
            NodeEnum::UpdateStmt(_) => self.data(node, Kind::Update),
            NodeEnum::DeleteStmt(_) => self.data(node, Kind::Delete),
            NodeEnum::MergeStmt(_) => self.data(node, Kind::Merge),
            NodeEnum::TransactionStmt(statement) => return (Kind::Transaction, transaction(statement)),
            NodeEnum::VariableSetStmt(statement) => return (Kind::Set, self.set(statement)),
            NodeEnum::VariableShowStmt(_) => Kind::Show,
            NodeEnum::DiscardStmt(statement) => {
                self.discard(statement.target());
                Kind::Discard
            }
            NodeEnum::PrepareStmt(statement) => {
                self.effects.pins |= Pins::SQL_PREPARE;
                self.out.prepares.push(statement.name.as_str().into());
                // What it does happens at EXECUTE, where it cannot be seen; the server connection is kept anyway.
                let parameters = self.out.parameters;
                self.node(&statement.query);
                self.out.parameters = parameters;
                Kind::Prepare
            }
            NodeEnum::ExecuteStmt(statement) => {
                self.out.opaque = true;
                self.effects.settings = true;
                self.out.executes.push(statement.name.as_str().into());
                self.nodes(&statement.params);
                Kind::Execute
            }
            NodeEnum::DeallocateStmt(statement) => {
                self.deallocate(statement);
                Kind::Deallocate
            }
            NodeEnum::DeclareCursorStmt(statement) => {
                const HOLD: i32 = 0x20;
                if statement.options & HOLD != 0 {
                    self.effects.pins |= Pins::HOLD_CURSOR;
                }
                self.node(&statement.query);
                Kind::Cursor
            }
            NodeEnum::ClosePortalStmt(statement) => {
                if statement.portalname.is_empty() {
                    self.out.unpins |= Pins::HOLD_CURSOR;
                }
                Kind::Cursor
            }
            NodeEnum::FetchStmt(_) => Kind::Cursor,
            NodeEnum::ExplainStmt(statement) => {
                self.explain(statement);
                Kind::Explain
            }
            NodeEnum::CopyStmt(statement) => self.copy(statement),
            NodeEnum::ListenStmt(_) => {
                self.effects.pins |= Pins::LISTEN;
                Kind::Notification
            }
            NodeEnum::UnlistenStmt(statement) => {
                if statement.conditionname.is_empty() {
                    self.out.unpins |= Pins::LISTEN;
                } else {
                    self.out.unlistens.push(statement.conditionname.as_str().into());
                }
                Kind::Notification
            }
            NodeEnum::NotifyStmt(_) => Kind::Notification,
            NodeEnum::LoadStmt(_) => {
                self.effects.pins |= Pins::LOAD;
                Kind::Utility
            }
            NodeEnum::DoStmt(statement) => {
                self.out.opaque = true;
                self.block(&statement.args);
                Kind::Call
            }
            NodeEnum::CallStmt(statement) => {
                self.out.opaque = true;
                if let Some(call) = &statement.funccall {
                    self.call(call);
                    self.nodes(&call.args);
                }
                Kind::Call
            }
            NodeEnum::LockStmt(statement) => {
                self.nodes(&statement.relations);
                Kind::Lock
            }
            NodeEnum::VacuumStmt(_)
            | NodeEnum::ClusterStmt(_)
            | NodeEnum::ReindexStmt(_)
            | NodeEnum::CheckPointStmt(_)
            | NodeEnum::ConstraintsSetStmt(_)
            | NodeEnum::AlterSystemStmt(_) => Kind::Utility,
            other => {
                self.define(other);
                Kind::Definition
            }
        };
        (kind, TransactionEffect::None)
    }

    /// A statement that writes data.
    fn data(&mut self, node: &NodeEnum, kind: StatementKind) -> StatementKind {
        self.tree(Tree::Node(node));
        kind
    }

    fn node(&mut self, node: &Option<Box<Node>>) {
        if let Some(tree) = node.as_deref().and_then(Tree::of) {
            self.tree(tree);
        }
    }

    fn nodes(&mut self, nodes: &[Node]) {
        for tree in nodes.iter().filter_map(Tree::of) {
            self.tree(tree);
        }
    }

    /// A place in the tree and everything below it. The decoder bounds how deep that is.
    fn tree(&mut self, tree: Tree<'_>) {
        match tree {
            Tree::Table(table) => self.table(table),
            Tree::Select(select) => {
                if let Some(into) = into(select) {
                    self.writes = true;
                    self.out.wide = true;
                    self.created(into.rel.as_ref(), into.on_commit());
                }
                self.writes |= !select.locking_clause.is_empty();
            }
            Tree::Node(node) => match node {
                NodeEnum::InsertStmt(_) | NodeEnum::DeleteStmt(_) | NodeEnum::MergeStmt(_) => {
                    self.writes = true
                }
                NodeEnum::UpdateStmt(update) => {
                    self.writes = true;
                    // A rule of this view calls set_config().
                    self.effects.settings |= update
                        .relation
                        .as_ref()
                        .is_some_and(|table| table.relname == "pg_settings");
                }
                NodeEnum::FuncCall(call) => self.call(call),
                NodeEnum::ParamRef(parameter) => {
                    let number = u16::try_from(parameter.number).unwrap_or(u16::MAX);
                    self.out.parameters = self.out.parameters.max(number);
                }
                NodeEnum::CommonTableExpr(cte) => self.ctes.push(cte.ctename.clone()),
                _ => {}
            },
        }
        // The closure needs `self`, so the children are collected first: a handful of references.
        let mut below = Vec::new();
        self.unseen |= !children(tree, &mut |child| below.push(child));
        for child in below {
            self.tree(child);
        }
    }

    fn table(&mut self, table: &pb::RangeVar) {
        let table = TableName::of(table);
        // System views speak of the server they are asked on; of PostgreSQL's own relations only the catalogs are data.
        let system = table
            .schema
            .as_deref()
            .map_or(table.name.starts_with("pg_"), |schema| schema == "pg_catalog");
        self.doubtful |= system && !relations::is_catalog(&table.name);
        self.names.insert(table.name.clone());
        if self.out.tables.len() < 4 * Understood::TABLES_MAX {
            self.out.tables.push(table);
        }
    }

    fn call(&mut self, call: &pb::FuncCall) {
        let parts = names(&call.funcname);
        let (schema, name) = match parts.as_slice() {
            [name] => (None, *name),
            [.., schema, name] => (Some(*schema), *name),
            [] => return,
        };
        self.names.insert(name.into());
        // Nothing but the session itself knows what it does.
        self.effects.unreadable |= schema.is_some_and(|schema| schema.starts_with("pg_temp"));
        match functions::known(schema, name) {
            Known::Reads => {}
            Known::Primary => {
                self.doubtful = true;
                let runs_text = functions::runs_text(name);
                self.out.opaque |= runs_text;
                self.effects.unreadable |= runs_text;
                self.effects_of(name, call);
            }
            Known::No => {
                self.doubtful = true;
                self.out.opaque = true;
                if name.starts_with("dblink_connect") {
                    self.effects.pins |= Pins::OTHER;
                }
            }
        }
    }

    /// What one of PostgreSQL's own functions leaves behind.
    fn effects_of(&mut self, name: &str, call: &pb::FuncCall) {
        match name {
            "set_config" => {
                self.out.by_literals = true;
                if call.args.get(2).is_some_and(is_true) {
                    return; // Ends with the transaction.
                }
                self.effects.settings = true;
                match call.args.first().and_then(string) {
                    Some(setting) => self.setting(setting),
                    None => self.effects.pins |= Pins::OTHER,
                }
            }
            name => self.effects.pins |= functions::left_by(name),
        }
    }

    /// A setting that is changed by name.
    fn setting(&mut self, name: &str) {
        self.effects.change_setting(name);
        // With the session's own schema in front, every CREATE is one of something temporary.
        if name.eq_ignore_ascii_case("search_path") && words::name_pg_temp(self.text) {
            self.effects.pins |= Pins::TEMP_TABLE;
        }
    }

    fn set(&mut self, statement: &pb::VariableSetStmt) -> TransactionEffect {
        use pb::VariableSetKind as Kind;
        let kind = statement.kind();
        self.out.by_literals = true;
        if kind == Kind::VarSetMulti && statement.name.starts_with("TRANSACTION") {
            return TransactionEffect::Characteristics;
        }
        if statement.is_local {
            return TransactionEffect::None;
        }
        self.effects.settings = true;
        match kind {
            Kind::VarSetMulti | Kind::VarResetAll => {}
            Kind::VarSetDefault | Kind::VarReset if statement.name == "session_authorization" => {
                self.out.unpins |= Pins::SESSION_AUTHORIZATION;
                self.setting("role");
            }
            _ => self.setting(&statement.name),
        }
        TransactionEffect::None
    }

    fn discard(&mut self, target: pb::DiscardMode) {
        match target {
            pb::DiscardMode::DiscardAll => {
                self.effects.settings = true;
                self.setting("role");
                self.out.unpins |= Pins::DISCARDED;
                self.out.discards_prepared = Discard::All;
            }
            pb::DiscardMode::DiscardTemp => self.out.unpins |= Pins::TEMP_TABLE,
            _ => {}
        }
    }

    fn deallocate(&mut self, statement: &pb::DeallocateStmt) {
        if statement.isall || statement.name.is_empty() {
            self.out.unpins |= Pins::SQL_PREPARE;
            self.out.discards_prepared = Discard::All;
            return;
        }
        let name = Box::from(statement.name.as_str());
        match &mut self.out.discards_prepared {
            Discard::All => {}
            Discard::Named(names) => names.push(name),
            none => *none = Discard::Named(vec![name]),
        }
    }

    fn explain(&mut self, statement: &pb::ExplainStmt) {
        let Some(inner) = statement.query.as_deref().and_then(|node| node.node.as_ref()) else {
            return;
        };
        self.out.by_literals = true;
        let before = (self.effects.clone(), self.out.unpins, self.out.opaque);
        self.statement(inner);
        let has =
            |name: &str| options(&statement.options).any(|(option, _)| option.eq_ignore_ascii_case(name));
        if has(explained::OPTION) {
            self.out.explains = std::str::from_utf8(self.text).ok().and_then(explained::inner);
        }
        let runs = has("analyze") && self.out.explains.is_none();
        if !runs {
            let names = std::mem::take(&mut self.effects.names);
            (self.effects, self.out.unpins, self.out.opaque) = before;
            self.effects.names = names;
        }
    }

    fn copy(&mut self, statement: &pb::CopyStmt) -> StatementKind {
        self.writes |= statement.is_from || statement.is_program || !statement.filename.is_empty();
        if let Some(table) = &statement.relation {
            self.table(table);
        }
        self.node(&statement.query);
        self.node(&statement.where_clause);
        if statement.is_from {
            StatementKind::CopyIn
        } else {
            StatementKind::CopyOut
        }
    }

    /// CREATE, ALTER, DROP and whatever else is not listed.
    fn define(&mut self, node: &NodeEnum) {
        self.out.by_literals = true;
        match node {
            NodeEnum::CreateStmt(statement) => {
                self.created(statement.relation.as_ref(), statement.oncommit())
            }
            NodeEnum::CreateTableAsStmt(statement) => {
                if let Some(into) = &statement.into {
                    self.created(into.rel.as_ref(), into.on_commit());
                }
                self.node(&statement.query);
            }
            NodeEnum::ViewStmt(statement) => {
                self.created(statement.view.as_ref(), pb::OnCommitAction::OncommitNoop)
            }
            NodeEnum::CreateSeqStmt(statement) => {
                self.created(statement.sequence.as_ref(), pb::OnCommitAction::OncommitNoop);
            }
            // The body of a standard function is part of the text.
            NodeEnum::CreateFunctionStmt(statement) if statement.sql_body.is_none() => {
                self.block(&statement.options);
            }
            NodeEnum::CreateExtensionStmt(_) | NodeEnum::AlterExtensionStmt(_) => {
                self.out.opaque = true;
                self.effects.settings = true;
            }
            _ => {}
        }
        self.out.recodes |= !makes_temporary(node)
            && !matches!(
                node,
                NodeEnum::TruncateStmt(_)
                    | NodeEnum::DropStmt(_)
                    | NodeEnum::GrantStmt(_)
                    | NodeEnum::GrantRoleStmt(_)
                    | NodeEnum::CommentStmt(_)
                    | NodeEnum::RefreshMatViewStmt(_)
                    | NodeEnum::CreateTableAsStmt(_)
                    | NodeEnum::CreateSeqStmt(_)
                    | NodeEnum::CreateRoleStmt(_)
                    | NodeEnum::AlterRoleStmt(_)
                    | NodeEnum::AlterRoleSetStmt(_)
                    | NodeEnum::DropRoleStmt(_)
                    | NodeEnum::CreatedbStmt(_)
                    | NodeEnum::DropdbStmt(_)
            );
        // Defaults, expressions and triggers of events run.
        self.out.wide = true;
        let mut words = Words::of(self.text);
        // What is temporary the statement itself says.
        words.effects.pins = Pins::NONE;
        self.take(words);
        // Functions, types and others can be made in the session's own schema too.
        if words::name_pg_temp(self.text) {
            self.effects.pins |= Pins::TEMP_TABLE;
        }
    }

    /// A table, view or sequence that is made.
    fn created(&mut self, relation: Option<&pb::RangeVar>, on_commit: pb::OnCommitAction) {
        let Some(relation) = relation else { return };
        self.table(relation);
        if is_temporary(relation) && on_commit != pb::OnCommitAction::OncommitDrop {
            self.effects.pins |= Pins::TEMP_TABLE;
        }
    }
}

/// Whether it makes a table or view of the session's own.
fn makes_temporary(node: &NodeEnum) -> bool {
    let relation = match node {
        NodeEnum::CreateStmt(statement) => statement.relation.as_ref(),
        NodeEnum::ViewStmt(statement) => statement.view.as_ref(),
        NodeEnum::IndexStmt(statement) => statement.relation.as_ref(),
        _ => None,
    };
    relation.is_some_and(is_temporary)
}

fn is_temporary(relation: &pb::RangeVar) -> bool {
    relation.relpersistence == "t" || relation.schemaname.starts_with("pg_temp")
}

/// Names beyond which a text may use anything.
const NAMES_MAX: usize = 1000;

/// The INTO of a SELECT; of a set operation it stands in the leftmost one.
fn into(select: &pb::SelectStmt) -> Option<&pb::IntoClause> {
    let mut select = select;
    loop {
        match (&select.into_clause, &select.larg) {
            (Some(into), _) => return Some(into),
            (None, Some(left)) => select = left,
            (None, None) => return None,
        }
    }
}
