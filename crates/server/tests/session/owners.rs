//! External tables belong to who made them.

use super::users::Users;

const FILE: &str = "[user.root]\nsuperuser = true\n[user.ann]\nread_files = true\nread = [\"sales.*\"]\n\
    [user.bob]\nread_files = true\n[user.eve]\n";
const CREATE: &str = "CREATE EXTERNAL TABLE sales.ext STORED AS CSV LOCATION 'sales/q1.csv' OPTIONS ('format.has_header' 'true')";

#[test]
fn only_their_makers_and_superusers_drop_external_tables() {
    let users = Users::with(FILE);
    let server = &users.server;
    let [mut root, mut ann, mut bob, mut eve] = ["root", "ann", "bob", "eve"].map(|user| users.session(user));
    server.rows(&mut ann, CREATE);
    for sql in ["DROP TABLE sales.ext", "DROP TABLE IF EXISTS corun.sales.ext"] {
        for other in [&mut bob, &mut eve] {
            let refusal = server.refused(other, sql);
            assert_eq!(
                (refusal.code, refusal.message.as_str()),
                ("42501", "must be owner of table ext"),
                "{sql}"
            );
        }
    }
    server.rows(&mut eve, "SET search_path = sales");
    assert_eq!(server.refused(&mut eve, "DROP TABLE ext").code, "42501");
    assert_eq!(server.refused(&mut bob, CREATE).code, "42P07");
    assert_eq!(
        server.rows(&mut ann, "SELECT count(*) FROM sales.ext"),
        ["2", "=SELECT 1"]
    );
    // Its maker in another session; then it is whoever's makes the next one.
    server.rows(&mut users.session("ann"), "DROP TABLE sales.ext");
    server.rows(&mut bob, CREATE);
    assert_eq!(server.refused(&mut ann, "DROP TABLE sales.ext").code, "42501");
    server.rows(&mut root, "DROP TABLE sales.ext");
    assert_eq!(
        server.refused(&mut ann, "SELECT count(*) FROM sales.ext").code,
        "42P01"
    );
}
