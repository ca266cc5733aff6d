//! Random scripts of a client: what drivers send, pipelined or not, with the errors that happen to them.

use super::actor::{Step, log_in};
use super::message::{
    bind, close, copy_data, copy_done, copy_fail, describe, execute, flush, parse, query, statement, sync,
    terminate,
};
use super::random::Random;

/// A script under way.
pub struct Script {
    random: Random,
    /// Whose it is; stands in every text.
    name: String,
    steps: Vec<Step>,
    readies: usize,
    texts: usize,
    /// Names of prepared statements that exist, if all went well.
    prepared: Vec<(String, usize)>,
    /// In a transaction block.
    open: bool,
    /// Most of its queries belong into the queue of heavy ones.
    heavy: bool,
    /// It logged in with a setting. Where `RESET` goes on the server then is not where it goes on one of its own.
    zoned: bool,
}

/// A script of some `steps` for the client `name`.
pub fn script(seed: u64, name: &str, steps: usize) -> Vec<Step> {
    script_of(seed, name, steps, false)
}

/// The same with queries for the queue of heavy ones.
pub fn heavy_script(seed: u64, name: &str, steps: usize) -> Vec<Step> {
    script_of(seed, name, steps, true)
}

fn script_of(seed: u64, name: &str, steps: usize, heavy: bool) -> Vec<Step> {
    let mut script = Script {
        random: Random::new(seed),
        name: name.to_owned(),
        steps: Vec::new(),
        readies: 1,
        texts: 0,
        prepared: Vec::new(),
        open: false,
        heavy,
        zoned: false,
    };
    script.zoned = script.random.percent(30);
    let zone = format!("Zone/{name}");
    let parameters: &[(&str, &str)] = if script.zoned { &[("TimeZone", &zone)] } else { &[] };
    script.steps.push(log_in("app", parameters));
    for _ in 0..steps {
        script.one();
    }
    if script.open {
        script.simple("rollback");
    }
    let after = script.readies;
    script.steps.push(Step {
        after,
        bytes: terminate(),
    });
    script.steps
}

impl Script {
    fn push(&mut self, bytes: Vec<u8>, readies: usize) {
        let after = self.readies;
        self.steps.push(Step { after, bytes });
        self.readies += readies;
    }

    fn simple(&mut self, sql: &str) {
        self.push(query(sql), 1);
    }

    /// A comment that puts most of its queries into the queue.
    fn hint(&mut self) -> &'static str {
        if self.heavy && self.random.percent(70) {
            "/* corun: heavy_queue=analytic */ "
        } else {
            ""
        }
    }

    /// A text nobody else sends, or one that several do.
    fn select(&mut self) -> String {
        self.texts += 1;
        let rows = self.random.below(5);
        let wide = match self.random.below(8) {
            0 => "wide 4000",
            1 => "wide 300",
            _ => "",
        };
        let hint = self.hint();
        match self.random.below(5) {
            0 => format!("{hint}select 'common' rows"),
            1 => format!("{hint}select '{}' sleep", self.tag()),
            _ => format!("{hint}select '{} rows {rows} {wide}'", self.tag()),
        }
    }

    fn tag(&self) -> String {
        format!("{}:{}", self.name, self.texts)
    }

    fn one(&mut self) {
        self.texts += 1;
        let tag = self.tag();
        if self.heavy && self.random.percent(50) {
            let sql = self.select();
            return self.simple(&sql);
        }
        match self.random.below(26) {
            0 => {
                let first = self.select();
                let second = self.select();
                self.simple(&format!("{first}; {second}"));
            }
            1 => {
                let hint = self.hint();
                self.simple(&format!("{hint}select 'fail {tag}'"));
            }
            2 if !self.open => {
                self.open = true;
                self.simple("begin");
            }
            2 | 3 if self.open => {
                self.open = false;
                let end = if self.random.percent(70) {
                    "commit"
                } else {
                    "rollback"
                };
                self.simple(end);
            }
            4 => self.simple(&format!("set timezone to 'Zone/{tag}'")),
            5 => self.simple("show timezone"),
            6 | 7 => self.simple(&format!("insert into t values ('{tag}')")),
            8 => {
                let bytes = [
                    query(&format!("copy t from stdin -- {tag}")),
                    copy_data(&vec![b'y'; self.random.below(3000)]),
                    copy_data(b"more\n"),
                    if self.random.percent(80) {
                        copy_done()
                    } else {
                        copy_fail("no")
                    },
                ];
                self.push(bytes.concat(), 1);
            }
            9 => self.simple(&format!("copy t to stdout -- {tag}")),
            10 => self.simple(""),
            11 => {
                let kind = ["create temp table tt (a int)", "drop table tt"];
                let sql = self.random.pick(&kind);
                self.simple(sql);
            }
            12 if !self.zoned => self.simple("reset timezone"),
            13 => {
                let sql = self.select();
                self.simple(&format!("begin; insert into t values ('{tag}'); {sql}; commit"));
            }
            14 => self.simple(&format!(
                "insert into t values ('{tag}'); select 'fail'; select 1"
            )),
            15 => self.simple(&format!("select syntax error {tag}")),
            _ => self.extended(),
        }
    }

    /// Some batches, each with its Sync, sent as one.
    fn extended(&mut self) {
        let (mut bytes, mut readies) = (Vec::new(), 0);
        for _ in 0..=self.random.below(3) {
            for _ in 0..=self.random.below(3) {
                let part = self.part();
                bytes.extend(part);
            }
            if self.random.percent(20) {
                bytes.extend(flush());
            }
            bytes.extend(sync());
            readies += 1;
        }
        self.push(bytes, readies);
    }

    fn part(&mut self) -> Vec<u8> {
        self.texts += 1;
        let tag = self.tag();
        let value = format!("value {tag}");
        match self.random.below(10) {
            0 | 1 => {
                // What is prepared now is used later.
                let name = format!("s{}", self.random.below(4));
                let values = self.random.below(2);
                let of_it = if values == 0 { "" } else { "$1" };
                let sql = if self.heavy {
                    let comma = if values == 0 { "" } else { ", " };
                    format!("{}select '{tag}'{comma}{of_it}", self.hint())
                } else if self.random.percent(50) {
                    format!("select 'shared' {of_it} rows")
                } else {
                    format!("select '{tag}' {of_it}")
                };
                let mut bytes = Vec::new();
                match self.prepared.iter().position(|(known, _)| *known == name) {
                    // Rarely, a name that is taken.
                    Some(_) if self.random.percent(10) => return parse(&name, &sql, &[]),
                    Some(at) => {
                        self.prepared.remove(at);
                        bytes.extend(close(b'S', &name));
                    }
                    None => {}
                }
                bytes.extend(parse(&name, &sql, &[]));
                if self.random.percent(50) {
                    bytes.extend(describe(b'S', &name));
                }
                self.prepared.push((name, values));
                bytes
            }
            2..=5 if !self.prepared.is_empty() => {
                let (name, values) = self.prepared[self.random.below(self.prepared.len())].clone();
                let values: &[Option<&str>] = if values == 0 { &[] } else { &[Some(&value)] };
                let mut bytes = bind("", &name, values, false);
                if self.random.percent(40) {
                    bytes.extend(describe(b'P', ""));
                }
                bytes.extend(execute("", 0));
                bytes
            }
            6 => {
                let sql = format!("select '{tag} rows 7' $1");
                let mut bytes = [parse("", &sql, &[25]), bind("p", "", &[Some(&value)], false)].concat();
                for _ in 0..=self.random.below(4) {
                    bytes.extend(execute("p", 2));
                }
                bytes.extend(close(b'P', "p"));
                bytes
            }
            7 => {
                let sql = if self.random.percent(50) {
                    format!("insert into t values ('{tag}')")
                } else {
                    format!("select 'fail {tag}'")
                };
                statement(&sql, &[])
            }
            8 => {
                let sql = format!("copy t from stdin -- {tag}");
                [statement(&sql, &[]), copy_data(b"some\n"), copy_done()].concat()
            }
            _ => {
                let sql = self.select();
                [
                    parse("", &sql, &[]),
                    bind("", "", &[], false),
                    describe(b'P', ""),
                    execute("", 0),
                ]
                .concat()
            }
        }
    }
}
