//! A small star schema on a server of its own, and questions to it.

use std::sync::OnceLock;

use corun_pooler::plans::{Corrections, Explained, Form, HashTable, Memory, QUESTION, Relation, Statistics};

use crate::common::number_from_environment;
use crate::common::postgres::{Options, Postgres};
use crate::common::raw::Raw;

/// Parts in the table of that name.
pub const PARTS: u64 = 100_000;

/// The tables of SSB, with every column the queries need. Values are drawn, evenly but where said; `part.p_partkey` is shuffled, so that a
/// category is spread over the table.
const TABLES: &str = "
    select setseed(0.25);
    create table part as select i as p_partkey, ('name of part ' || i)::varchar(22) as p_name,
        ('MFGR#' || c / 5 + 1)::char(6) as p_mfgr, ('MFGR#' || c / 5 + 1 || c % 5 + 1)::char(7) as p_category,
        ('MFGR#' || c / 5 + 1 || c % 5 + 1 || b)::char(9) as p_brand1
        from (select i, (random() * 24.9999 - 0.5)::int as c, (random() * 39.9999 + 0.5)::int as b from generate_series(1, 100000) i offset 0) x;
    create table supplier as select i as s_suppkey, ('Supplier#' || i)::char(25) as s_name, ('CITY ' || n || i % 10)::char(10) as s_city,
        ('NATION ' || n)::char(15) as s_nation, ('REGION ' || n / 5)::char(12) as s_region
        from (select i, (random() * 24.9999 - 0.5)::int as n from generate_series(1, 4000) i offset 0) x;
    create table customer as select i as c_custkey, ('Customer#' || i)::varchar(25) as c_name, ('CITY ' || n || i % 10)::char(10) as c_city,
        ('NATION ' || n)::char(15) as c_nation, ('REGION ' || n / 5)::char(12) as c_region
        from (select i, (random() * 24.9999 - 0.5)::int as n from generate_series(1, 30000) i offset 0) x;
    create table dates as select to_char(d, 'YYYYMMDD')::int as d_datekey, extract(year from d)::int as d_year,
        to_char(d, 'MonYYYY')::char(7) as d_yearmonth
        from generate_series('1992-01-01'::date, '1998-12-31'::date, '1 day') d;
    create table lineorder as select i as lo_orderkey, (random() * 99999 + 1)::int as lo_partkey, (random() * 3999 + 1)::int as lo_suppkey,
        (random() * 29999 + 1)::int as lo_custkey, to_char('1992-01-01'::date + (random() * 2556)::int, 'YYYYMMDD')::int as lo_orderdate,
        (random() * 10000)::int as lo_revenue, (random() * 1000)::int as lo_supplycost
        from generate_series(1, 300000) i;
    create index on part (p_partkey); create index on supplier (s_suppkey); create index on customer (c_custkey);
    create index on dates (d_datekey); create index on lineorder (lo_partkey);
    create table skewed as select case when i % 4 = 0 then i / 4 % 20 + 1 else (random() * 99999 + 1)::int end as lo_partkey, i as lo_revenue
        from generate_series(1, 300000) i;
    create table odd as select case when i % 10 > 0 then i end as k, case when i % 3 > 0 then i end as a, repeat('x', i % 400) as wide, 1.5 * i as n,
        case when i % 2 = 0 then 'y' end as b, 1 as c1, 2::smallint as c2, 3::bigint as c3, 'z'::text as c4, 5 as c5, 6 as c6, 7 as c7
        from generate_series(1, 50000) i;
    create table measurement (at int, value int) partition by range (at);
    create table measurement_1 partition of measurement for values from (0) to (100);
    create table measurement_2 partition of measurement for values from (100) to (200);
    insert into measurement select i % 200, i from generate_series(1, 20000) i;
    create table correlated as select i as k, i % 50 as a, i % 50 * 2 as b, i % 50 * 3 as c from generate_series(1, 100000) i;
    analyze;
";

/// The server; tests change nothing in it but in schemas of their own.
pub fn server() -> &'static Postgres {
    static SERVER: OnceLock<Postgres> = OnceLock::new();
    SERVER.get_or_init(|| {
        let server = Postgres::start_with(Options {
            settings: vec![
                "shared_buffers = 128MB".to_owned(),
                "max_parallel_workers_per_gather = 0".to_owned(),
                // The default since version 15.
                "hash_mem_multiplier = 2".to_owned(),
                // Samples of statistics hold most rows, so that estimates without correlation are good. PostgreSQL's own is 100.
                format!(
                    "default_statistics_target = {}",
                    number_from_environment("CORUN_STATISTICS_TARGET", 300)
                ),
            ],
            ..Options::default()
        });
        server.sql(TABLES);
        server
    })
}

/// A session.
pub struct Session(pub Raw);

impl Session {
    /// With hash joins only, unless settings say otherwise.
    pub fn hashing(settings: &[&str]) -> Session {
        let mut session = Session::new(&["enable_nestloop = off", "enable_mergejoin = off"]);
        session.set(settings);
        session
    }

    pub fn new(settings: &[&str]) -> Session {
        let raw = Raw::connect(&server().login("postgres").database("app")).expect("a session");
        let mut session = Session(raw);
        session.set(settings);
        session
    }

    pub fn set(&mut self, settings: &[&str]) {
        for setting in settings {
            self.0.rows(&format!("set {setting}"));
        }
    }

    /// The plan of a text.
    pub fn explain(&mut self, sql: &str) -> Explained {
        let answer = self.0.value(&format!("{QUESTION}{sql}"));
        corun_pooler::plans::read(&answer).unwrap_or_else(|error| panic!("{error}: {answer}"))
    }

    /// What a form of a statement gives: in a transaction with its settings.
    pub fn in_form<T>(&mut self, form: &Form, look: impl FnOnce(&mut Session) -> T) -> T {
        self.0.rows("begin");
        for (name, value) in form.settings() {
            self.0.rows(&format!("set local {name} = {value}"));
        }
        let found = look(self);
        self.0.rows("commit");
        found
    }

    /// The plan of a text that was executed.
    pub fn analyze(&mut self, sql: &str) -> Explained {
        let answer = self.0.value(&format!(
            "EXPLAIN (ANALYZE, TIMING OFF, FORMAT JSON, VERBOSE, SETTINGS) {sql}"
        ));
        corun_pooler::plans::read(&answer).unwrap_or_else(|error| panic!("{error}: {answer}"))
    }

    pub fn statistics(&mut self, relations: &[Relation]) -> Statistics {
        let rows = self.0.rows(&Statistics::question(relations));
        Statistics::read(&rows).unwrap_or_else(|| panic!("{rows:?}"))
    }

    /// Statistics of tables, and what their sizes alone correct.
    pub fn known(&mut self, tables: &[&str]) -> (Statistics, Corrections) {
        let statistics = self.statistics(&relations(tables));
        let mut known = Corrections::default();
        known.set_tables(&statistics);
        (statistics, known)
    }

    pub fn memory(&mut self) -> Memory {
        self.statistics(&[]).memory
    }

    /// Its hash tables, executed.
    pub fn tables(&mut self, sql: &str) -> Vec<HashTable> {
        let memory = self.memory();
        let tables = self.analyze(sql).tables(&memory, &Corrections::default());
        assert!(!tables.is_empty(), "no hash join: {sql}");
        assert!(tables.iter().all(|table| table.seen.is_some()), "{tables:?}");
        tables
    }
}

/// Names of relations in the schema `public`.
pub fn relations(names: &[&str]) -> Vec<Relation> {
    let relation = |name: &&str| Relation {
        schema: "public".to_owned(),
        name: (*name).to_owned(),
    };
    names.iter().map(relation).collect()
}

/// PLQ_k of paper 002: parts of `k` of 25 categories.
pub fn plq(k: usize) -> String {
    let categories: Vec<String> = (0..k)
        .map(|c| format!("p_category = 'MFGR#{}{}'", c / 5 + 1, c % 5 + 1))
        .collect();
    format!(
        "select sum(lo_revenue) from part, lineorder where p_partkey = lo_partkey and ({})",
        categories.join(" or ")
    )
}

/// Queries of SSB whose predicates PostgreSQL estimates well.
pub const SSB: [(&str, &str); 4] = [
    (
        "Q2.1",
        "select sum(lo_revenue), d_year, p_brand1 from lineorder, dates, part, supplier where lo_orderdate = d_datekey \
         and lo_partkey = p_partkey and lo_suppkey = s_suppkey and p_category = 'MFGR#12' and s_region = 'REGION 1' \
         group by d_year, p_brand1 order by d_year, p_brand1",
    ),
    (
        "Q3.1",
        "select c_nation, s_nation, d_year, sum(lo_revenue) as revenue from customer, lineorder, supplier, dates \
         where lo_custkey = c_custkey and lo_suppkey = s_suppkey and lo_orderdate = d_datekey and c_region = 'REGION 2' \
         and s_region = 'REGION 2' and d_year >= 1992 and d_year <= 1997 group by c_nation, s_nation, d_year order by d_year, revenue desc",
    ),
    (
        "Q4.1",
        "select d_year, c_nation, sum(lo_revenue - lo_supplycost) as profit from dates, customer, supplier, part, lineorder \
         where lo_custkey = c_custkey and lo_suppkey = s_suppkey and lo_partkey = p_partkey and lo_orderdate = d_datekey \
         and c_region = 'REGION 1' and s_region = 'REGION 1' and (p_mfgr = 'MFGR#1' or p_mfgr = 'MFGR#2') \
         group by d_year, c_nation order by d_year, c_nation",
    ),
    (
        "Q4.2",
        "select d_year, s_nation, p_category, sum(lo_revenue - lo_supplycost) as profit from dates, customer, supplier, part, lineorder \
         where lo_custkey = c_custkey and lo_suppkey = s_suppkey and lo_partkey = p_partkey and lo_orderdate = d_datekey \
         and c_region = 'REGION 1' and s_region = 'REGION 1' and (d_year = 1997 or d_year = 1998) \
         and (p_mfgr = 'MFGR#1' or p_mfgr = 'MFGR#2') group by d_year, s_nation, p_category order by d_year, s_nation, p_category",
    ),
];
