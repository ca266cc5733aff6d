//! The statements of the five transactions, each prepared under its name.

use super::session::Statement;

pub const BUYER: Statement = (
    "buyer",
    "select c_last, c_credit, c_discount from customer where c_w_id = $1 and c_d_id = $2 and c_id = $3",
);
pub const ITEMS: Statement = (
    "items",
    "select i_id, i_im_id, i_name, i_price, i_data from item where i_id = any($1::int[])",
);
pub const STOCKS: Statement = (
    "stocks",
    "select s_i_id, s_quantity, (array[s_dist_01, s_dist_02, s_dist_03, s_dist_04, s_dist_05, s_dist_06, s_dist_07, s_dist_08, \
     s_dist_09, s_dist_10])[$3::int], s_data from stock where s_w_id = $1 and s_i_id = any($2::int[]) order by s_i_id for update",
);
pub const STOCKS_SOLD: Statement = (
    "stocks_sold",
    "update stock set s_quantity = taken.quantity, s_ytd = s_ytd + taken.ytd, s_order_cnt = s_order_cnt + taken.orders, \
     s_remote_cnt = s_remote_cnt + taken.remotes from unnest($2::int[], $3::int[], $4::bigint[], $5::int[], $6::int[]) \
     as taken (item, quantity, ytd, orders, remotes) where s_w_id = $1 and s_i_id = taken.item",
);
pub const NEXT_ORDER: Statement = (
    "next_order",
    "update district set d_next_o_id = d_next_o_id + 1 where d_w_id = $1 and d_id = $2 returning d_tax, d_next_o_id - 1",
);
pub const ORDER: Statement = (
    "order",
    "insert into orders (o_w_id, o_d_id, o_id, o_c_id, o_entry_d, o_carrier_id, o_ol_cnt, o_all_local) \
     values ($1, $2, $3, $4, $5, null, $6, $7)",
);
pub const WAITS: Statement = (
    "waits",
    "insert into new_order (no_w_id, no_d_id, no_o_id) values ($1, $2, $3)",
);
pub const LINES: Statement = (
    "lines",
    "insert into order_line (ol_w_id, ol_d_id, ol_o_id, ol_number, ol_i_id, ol_supply_w_id, ol_delivery_d, ol_quantity, ol_amount, \
     ol_dist_info) select $1::int, $2::int, $3::int, number, item, supply, null, quantity, amount, info \
     from unnest($4::int[], $5::int[], $6::int[], $7::bigint[], $8::text[]) \
     with ordinality as line (item, supply, quantity, amount, info, number)",
);
pub const WAREHOUSE_TAX: Statement = ("warehouse_tax", "select w_tax from warehouse where w_id = $1");
pub const NAMED: Statement = (
    "named",
    "select c_id from customer where c_w_id = $1 and c_d_id = $2 and c_last = $3 order by c_first, c_id",
);
pub const PAID: Statement = (
    "paid",
    "update customer set c_balance = c_balance - $4, c_ytd_payment = c_ytd_payment + $4, c_payment_cnt = c_payment_cnt + 1 \
     where c_w_id = $1 and c_d_id = $2 and c_id = $3 returning c_first, c_middle, c_last, c_street_1, c_street_2, c_city, c_state, \
     c_zip, c_phone, c_since, c_credit, c_credit_lim, c_discount, c_balance, c_data",
);
pub const NOTED: Statement = (
    "noted",
    "update customer set c_data = $4 where c_w_id = $1 and c_d_id = $2 and c_id = $3",
);
pub const DISTRICT_PAID: Statement = (
    "district_paid",
    "update district set d_ytd = d_ytd + $3 where d_w_id = $1 and d_id = $2 \
     returning d_name, d_street_1, d_street_2, d_city, d_state, d_zip",
);
pub const WAREHOUSE_PAID: Statement = (
    "warehouse_paid",
    "update warehouse set w_ytd = w_ytd + $2 where w_id = $1 returning w_name, w_street_1, w_street_2, w_city, w_state, w_zip",
);
pub const HISTORY: Statement = (
    "history",
    "insert into history (h_c_w_id, h_c_d_id, h_c_id, h_w_id, h_d_id, h_date, h_amount, h_data) \
     values ($1, $2, $3, $4, $5, $6, $7, $8)",
);
pub const WHO: Statement = (
    "who",
    "select c_first, c_middle, c_last, c_balance from customer where c_w_id = $1 and c_d_id = $2 and c_id = $3",
);
pub const LAST_ORDER: Statement = (
    "last_order",
    "select o_id, o_entry_d, o_carrier_id from orders where o_w_id = $1 and o_d_id = $2 and o_c_id = $3 order by o_id desc limit 1",
);
pub const LINES_OF: Statement = (
    "lines_of",
    "select ol_supply_w_id, ol_i_id, ol_quantity, ol_amount, ol_delivery_d from order_line \
     where ol_w_id = $1 and ol_d_id = $2 and ol_o_id = $3 order by ol_number",
);
pub const DELIVERED: Statement = (
    "delivered",
    "with oldest as (delete from new_order where no_w_id = $1 and no_d_id = $2 and no_o_id = (select no_o_id from new_order \
     where no_w_id = $1 and no_d_id = $2 order by no_o_id limit 1 for update skip locked) returning no_o_id), \
     sent as (update orders set o_carrier_id = $3 from oldest where o_w_id = $1 and o_d_id = $2 and o_id = no_o_id \
     returning o_id, o_c_id), \
     lines as (update order_line set ol_delivery_d = $4 from oldest where ol_w_id = $1 and ol_d_id = $2 and ol_o_id = no_o_id \
     returning ol_amount) \
     update customer set c_balance = c_balance + (select sum(ol_amount) from lines)::bigint, c_delivery_cnt = c_delivery_cnt + 1 \
     from sent where c_w_id = $1 and c_d_id = $2 and c_id = o_c_id returning o_id",
);
pub const LOW: Statement = (
    "low",
    "select count(distinct s_i_id) from order_line join stock on s_w_id = ol_w_id and s_i_id = ol_i_id where ol_w_id = $1 \
     and ol_d_id = $2 and ol_o_id >= (select d_next_o_id from district where d_w_id = $1 and d_id = $2) - 20 and s_quantity < $3",
);
