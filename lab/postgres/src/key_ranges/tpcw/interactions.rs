//! The 14 web interactions of TPC-W, what each asks of the database, and how often each comes in the browsing mix. As scripts of `pgbench` they are
//! in [`super::scripts`].
//!
//! Three of them are written as several [`Interaction`]s, because they ask different things of the same page: the three kinds of search,
//! and customers who are known or new. Their shares add up to the page's. Rows are ordered wholly, so that each answer is one; Best Seller
//! alone is the paper's text, and orders by sums only.

/// How a number is drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Draw {
    /// A customer.
    Customer,
    /// An item.
    Item,
    /// An item of the first, second or last third of all: in one order, so that no two purchases wait for each other.
    ItemOfThird(usize),
    /// Both ends included.
    Between(i64, i64),
}

/// A text that is looked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Word {
    /// A subject.
    Subject,
    /// The beginning of a title.
    Title,
    /// The beginning of a last name.
    Author,
}

/// One step of an interaction. In statements a colon and a name is a variable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Draws a number.
    Set(&'static str, Draw),
    /// Reads.
    Ask(&'static str),
    /// Reads; `:word` is drawn.
    AskFor(Word, &'static str),
    /// Begins, ends, writes, or reads inside of a transaction that writes.
    Do(&'static str),
    /// The same, and keeps the columns of the one row that comes back as variables.
    Keep(&'static str),
}

use Draw::{Between, Customer, Item, ItemOfThird};
use Step::{Ask, AskFor, Do, Keep, Set};

/// What a page asks.
#[derive(Clone, Copy, Debug)]
pub struct Interaction {
    /// Its name in rows and files.
    pub name: &'static str,
    /// How many of 10,000 interactions of the browsing mix are of this kind.
    pub share: u32,
    /// Its steps.
    pub steps: &'static [Step],
}

/// The name of the interaction the paper splits.
pub const BEST_SELLERS: &str = "best_sellers";
/// The name of the interaction that enters an order.
pub const BUY_CONFIRM: &str = "buy_confirm";
/// Lines of an order that is entered.
pub const LINES: i64 = 3;

/// The paper's complex query.
pub const BEST_SELLER: &str = "select i_id, i_title, a_fname, a_lname from item, author, order_line \
    where item.i_id = order_line.ol_i_id and item.i_a_id = author.a_id and order_line.ol_o_id > (select max(o_id) - 3333 from orders) \
    and item.i_subject = :word group by i_id, i_title, a_fname, a_lname order by sum(ol_qty) desc limit 50";

const RELATED: &str = "select j.i_id, j.i_thumbnail from item i join item j \
    on j.i_id in (i.i_related1, i.i_related2, i.i_related3, i.i_related4, i.i_related5) where i.i_id = :i order by j.i_id";
const DETAIL: &str = "select * from item join author on a_id = i_a_id where i_id = :i";
const KNOWN: &str = "select c_id, c_fname, c_lname, c_discount, addr_street1, addr_city, addr_zip, co_name \
    from customer join address on addr_id = c_addr_id join country on co_id = addr_co_id where c_uname = :c";

/// All of them. Shares are the specification's for the browsing mix, in hundredths of a percent.
pub const INTERACTIONS: [Interaction; 17] = [
    Interaction {
        name: "home",
        share: 2_900,
        steps: &[
            Set("c", Customer),
            Set("i", Item),
            Ask("select c_fname, c_lname from customer where c_id = :c"),
            Ask(RELATED),
        ],
    },
    Interaction {
        name: "new_products",
        share: 1_100,
        steps: &[AskFor(
            Word::Subject,
            "select i_id, i_title, a_fname, a_lname from item, author where i_a_id = a_id and i_subject = :word \
             order by i_pub_date desc, i_title, i_id limit 50",
        )],
    },
    Interaction {
        name: BEST_SELLERS,
        share: 1_100,
        steps: &[AskFor(Word::Subject, BEST_SELLER)],
    },
    Interaction {
        name: "product_detail",
        share: 2_100,
        steps: &[Set("i", Item), Ask(DETAIL)],
    },
    Interaction {
        name: "search_request",
        share: 1_200,
        steps: &[Set("i", Item), Ask(RELATED)],
    },
    Interaction {
        name: "search_by_subject",
        share: 366,
        steps: &[AskFor(
            Word::Subject,
            "select i_id, i_title, a_fname, a_lname from item, author where i_a_id = a_id and i_subject = :word \
             order by i_title, i_id limit 50",
        )],
    },
    Interaction {
        name: "search_by_title",
        share: 367,
        steps: &[AskFor(
            Word::Title,
            "select i_id, i_title, a_fname, a_lname from item, author where i_a_id = a_id and i_title like :word \
             order by i_title, i_id limit 50",
        )],
    },
    Interaction {
        name: "search_by_author",
        share: 367,
        steps: &[AskFor(
            Word::Author,
            "select i_id, i_title, a_fname, a_lname from item, author where i_a_id = a_id and a_lname like :word \
             order by i_title, i_id limit 50",
        )],
    },
    Interaction {
        name: "shopping_cart",
        share: 200,
        steps: &[
            Set("i", Item),
            Set("a", ItemOfThird(0)),
            Set("b", ItemOfThird(1)),
            Ask(
                "select i_id, i_title, i_cost, i_srp, i_backing from item where i_id in (:a, :b) order by i_id",
            ),
            Ask(RELATED),
        ],
    },
    Interaction {
        name: "customer_registration",
        share: 82,
        steps: &[
            Set("c", Customer),
            Ask("select c_uname from customer where c_id = :c"),
        ],
    },
    Interaction {
        name: "buy_request",
        share: 60,
        steps: &[
            Set("c", Customer),
            Do("begin"),
            Do(KNOWN),
            Do(
                "update customer set c_login = now(), c_expiration = now() + interval '2 hours' where c_id = :c",
            ),
            Do("end"),
        ],
    },
    Interaction {
        name: "buy_request_new",
        share: 15,
        steps: &[
            Set("zip", Between(10_000, 99_999)),
            Set("co", Between(1, 92)),
            Do("begin"),
            Keep(
                "insert into address (addr_id, addr_street1, addr_street2, addr_city, addr_state, addr_zip, addr_co_id) \
                 values (nextval('address_id'), 'new street', 'second line', 'new city', 'state', :zip, :co) returning addr_id",
            ),
            Do(
                "insert into customer (c_id, c_uname, c_passwd, c_fname, c_lname, c_addr_id, c_phone, c_email, c_since, c_last_login, \
                 c_login, c_expiration, c_discount, c_balance, c_ytd_pmt, c_birthdate, c_data) values (nextval('customer_id'), \
                 currval('customer_id')::text, 'secret', 'first', 'last', :addr_id, '0123456789', 'new@example.com', \
                 current_date, current_date, now(), now() + interval '2 hours', 0.1, 0, 0, date '1980-01-01', 'new customer')",
            ),
            Do("end"),
        ],
    },
    Interaction {
        name: BUY_CONFIRM,
        share: 69,
        steps: &[
            Set("c", Customer),
            Set("a", ItemOfThird(0)),
            Set("b", ItemOfThird(1)),
            Set("d", ItemOfThird(2)),
            Set("qty", Between(1, 10)),
            Set("price", Between(1_000, 999_999)),
            Do("begin"),
            Keep("select c_discount, c_addr_id from customer where c_id = :c"),
            Keep(
                "insert into orders (o_id, o_c_id, o_date, o_sub_total, o_tax, o_total, o_ship_type, o_ship_date, o_bill_addr_id, \
                 o_ship_addr_id, o_status) values (nextval('orders_id'), :c, now(), :price * 0.01, :price * 0.000825, \
                 :price * 0.010825, 'MAIL', now() + interval '3 days', :c_addr_id, :c_addr_id, 'PENDING') returning o_id",
            ),
            Do(
                "insert into order_line (ol_id, ol_o_id, ol_i_id, ol_qty, ol_discount, ol_comments) values \
                 (1, :o_id, :a, :qty, :c_discount, 'first'), (2, :o_id, :b, :qty, :c_discount, 'second'), \
                 (3, :o_id, :d, :qty, :c_discount, 'third')",
            ),
            Do(
                "update item set i_stock = i_stock - :qty + case when i_stock - :qty < 10 then 21 else 0 end where i_id = :a",
            ),
            Do(
                "update item set i_stock = i_stock - :qty + case when i_stock - :qty < 10 then 21 else 0 end where i_id = :b",
            ),
            Do(
                "update item set i_stock = i_stock - :qty + case when i_stock - :qty < 10 then 21 else 0 end where i_id = :d",
            ),
            Do(
                "insert into cc_xacts (cx_o_id, cx_type, cx_num, cx_name, cx_expiry, cx_auth_id, cx_xact_amt, cx_xact_date, cx_co_id) \
                 values (:o_id, 'VISA', '4111111111111111', 'a customer', date '2030-01-01', 'authorised', :price * 0.010825, \
                 now(), 1)",
            ),
            Do("end"),
        ],
    },
    Interaction {
        name: "order_inquiry",
        share: 30,
        steps: &[
            Set("c", Customer),
            Ask("select c_passwd from customer where c_uname = :c"),
        ],
    },
    Interaction {
        name: "order_display",
        share: 25,
        steps: &[
            Set("c", Customer),
            Ask(
                "select o_id, o_date, o_sub_total, o_tax, o_total, o_ship_type, o_ship_date, o_status, cx_type \
                 from orders join cc_xacts on cx_o_id = o_id where o_c_id = :c order by o_date desc, o_id desc limit 1",
            ),
            Ask(
                "select ol_id, ol_i_id, i_title, i_publisher, i_cost, ol_qty, ol_discount, ol_comments from order_line \
                 join item on i_id = ol_i_id where ol_o_id = (select o_id from orders where o_c_id = :c \
                 order by o_date desc, o_id desc limit 1) order by ol_id",
            ),
        ],
    },
    Interaction {
        name: "admin_request",
        share: 10,
        steps: &[Set("i", Item), Ask(DETAIL)],
    },
    Interaction {
        name: "admin_confirm",
        share: 9,
        steps: &[
            Set("i", Item),
            Set("r", Item),
            Set("price", Between(100, 99_999)),
            Ask(
                "select ol_i_id from order_line where ol_o_id in (select ol_o_id from order_line where ol_i_id = :i) and ol_i_id <> :i \
                 group by ol_i_id order by sum(ol_qty) desc, ol_i_id limit 5",
            ),
            Do("begin"),
            Do(
                "update item set i_cost = :price * 0.01, i_pub_date = current_date, i_related1 = :r where i_id = :i",
            ),
            Do("end"),
        ],
    },
];

/// The place of an interaction among all, which is the number of its script.
pub fn place_of(name: &str) -> Option<usize> {
    INTERACTIONS
        .iter()
        .position(|interaction| interaction.name == name)
}
