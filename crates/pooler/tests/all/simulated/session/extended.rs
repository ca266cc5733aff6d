//! The extended protocol of the stand-in: statements and portals by name.

use super::super::message::message;
use super::super::plan::{Plan, plan, statements};
use super::{Failed, Portal, Session, aborted, missing, number, parameters, text, wrong};

impl Session {
    pub(super) fn parse(&mut self, mut body: &[u8]) -> Result<(), Failed> {
        let (name, sql) = (text(&mut body), text(&mut body));
        let plan = plan(&sql);
        if plan == Plan::Wrong || statements(&sql).len() > 1 {
            return Err(wrong());
        }
        if self.status == b'E' && !plan.ends_transaction() {
            return Err(aborted());
        }
        if !name.is_empty() && self.prepared.contains_key(&name) {
            return Err(("42P05", format!("prepared statement \"{name}\" already exists")));
        }
        self.prepared.insert(name, sql);
        self.output.extend(message(b'1', &[]));
        Ok(())
    }

    pub(super) fn bind(&mut self, mut body: &[u8]) -> Result<(), Failed> {
        let (portal, name) = (text(&mut body), text(&mut body));
        let Some(sql) = self.prepared.get(&name).cloned() else {
            return Err(missing("prepared statement", &name, "26000"));
        };
        let formats = number(&mut body, 2);
        number(&mut body, 2 * formats);
        let mut values = Vec::new();
        for _ in 0..number(&mut body, 2) {
            let length = number(&mut body, 4);
            if body.is_empty() && length != 0 && length != 0xffff_ffff {
                return Err(("08P01", "insufficient data left in message".to_owned()));
            }
            let length = if length == 0xffff_ffff { 0 } else { length };
            let (value, rest) = body.split_at(length.min(body.len()));
            values.push(String::from_utf8_lossy(value).into_owned());
            body = rest;
        }
        if values.len() != parameters(&sql) {
            return Err(("08P01", format!("{} values for {sql}", values.len())));
        }
        if self.status == b'E' && !plan(&sql).ends_transaction() {
            return Err(aborted());
        }
        if !portal.is_empty() && self.portals.contains_key(&portal) {
            return Err(("42P03", format!("portal \"{portal}\" already exists")));
        }
        let rows = None;
        self.portals.insert(portal, Portal { sql, values, rows });
        self.output.extend(message(b'2', &[]));
        Ok(())
    }

    pub(super) fn describe(&mut self, body: &[u8]) -> Result<(), Failed> {
        let name = text(&mut body.get(1..).unwrap_or_default());
        let sql = if body.first() == Some(&b'S') {
            let Some(sql) = self.prepared.get(&name).cloned() else {
                return Err(missing("prepared statement", &name, "26000"));
            };
            let count = parameters(&sql);
            let mut types = (count as u16).to_be_bytes().to_vec();
            types.extend([0, 0, 0, 25].repeat(count));
            self.output.extend(message(b't', &types));
            sql
        } else {
            let portal = self.portals.get(&name).map(|portal| portal.sql.clone());
            portal.ok_or_else(|| missing("portal", &name, "34000"))?
        };
        match plan(&sql).columns() {
            0 => self.output.extend(message(b'n', &[])),
            columns => self.describe_rows(columns),
        }
        Ok(())
    }

    pub(super) fn execute(&mut self, mut body: &[u8]) -> Result<(), Failed> {
        let (name, most) = (text(&mut body), number(&mut body, 4));
        let Some(portal) = self.portals.get_mut(&name) else {
            return Err(missing("portal", &name, "34000"));
        };
        let (sql, values) = (portal.sql.clone(), portal.values.clone());
        let mut rows = match portal.rows.take() {
            Some(rows) => rows,
            None => match self.run(&sql, &values)? {
                Some(rows) => rows,
                None => return Ok(()),
            },
        };
        let count = if most == 0 {
            rows.len()
        } else {
            most.min(rows.len())
        };
        self.output.extend(rows.drain(..count).flatten());
        let suspended = !rows.is_empty();
        if let Some(portal) = self.portals.get_mut(&name) {
            portal.rows = Some(rows);
        }
        if suspended {
            self.output.extend(message(b's', &[]));
        } else {
            self.complete_rows(&sql, count);
        }
        Ok(())
    }
}
