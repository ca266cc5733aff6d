//! Ranges of keys and queries in parts (paper 004) through the proxy, against a real PostgreSQL.

mod core_pools;
mod dispatch;
mod faults;
mod fixture;
mod orders;
mod parts;
mod random;
mod replicas;
mod session;

use crate::common;
use std::io::{Read as _, Write as _};

use crate::common::postgres;
use crate::common::raw::Login;
use crate::common::target::{Mode, Pooling, Scene, Target};

/// A proxy in transaction mode with these lines of `[databases."*"]` and tables behind it, in which `{database}` is the test's own.
fn scene(pool_size: usize, lines: &str) -> Scene {
    let database = postgres::new_database();
    let pooling = Pooling::new(Mode::Transaction, pool_size).ours(&lines.replace("{database}", &database));
    Scene {
        target: Target::start(postgres::shared(), &pooling),
        database,
    }
}

/// Orders of a small shop: item 1 to 1,000, a few lines each.
const SHOP: &str = "create table item (i_id int primary key, i_title text, i_subject text, i_a_id int);
    create table author (a_id int primary key, a_fname text, a_lname text);
    create table orders (o_id int primary key, o_c_id int);
    create table order_line (ol_id int, ol_o_id int, ol_i_id int, ol_qty int, primary key (ol_o_id, ol_id));
    insert into author select i, 'f' || i, 'l' || i from generate_series(1, 250) i;
    insert into item select i, 'title ' || i, (array['ARTS', 'COOKING', 'SPORTS'])[1 + i % 3], 1 + i % 250
        from generate_series(1, 1000) i;
    insert into orders select i, 1 + i % 300 from generate_series(1, 5000) i;
    insert into order_line select l, o, 1 + (o * 7 + l * 131) % 1000, 1 + (o * l) % 9
        from generate_series(1, 5000) o, generate_series(1, 3) l;
    create index on order_line (ol_i_id);
    analyze";

/// Best Seller of TPC-W, with a total order so that answers can be compared row by row.
const BEST_SELLER: &str = "select i_id, i_title, a_fname, a_lname from item, author, order_line \
    where item.i_id = order_line.ol_i_id and item.i_a_id = author.a_id \
    and order_line.ol_o_id > (select max(o_id) - 3333 from orders) and item.i_subject = 'ARTS' \
    group by i_id, i_title, a_fname, a_lname order by sum(ol_qty) desc, i_id limit 50";

/// Sends a cancel request as drivers do, and waits until the other side closes.
fn cancel(login: &Login, key: &(u32, Vec<u8>)) {
    let mut socket = std::net::TcpStream::connect((login.host.as_str(), login.port)).expect("connected");
    socket
        .write_all(&common::message::cancel_request(key.0, &key.1))
        .expect("sent");
    let _ = socket.read_to_end(&mut Vec::new());
}
