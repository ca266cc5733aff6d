//! [`numbered`]: a statement with named variables as PostgreSQL takes it, with numbered ones, as `pgbench` sends it.

/// A statement with `$1`, `$2`, ... in place of its variables, and their names in this order. A variable is a colon and a name; a cast's
/// two colons are none. Quoted texts are not looked into for what they are: none of ours has a colon.
pub fn numbered(sql: &str) -> (String, Vec<&str>) {
    let mut text = String::with_capacity(sql.len());
    let mut names = Vec::new();
    let mut rest = sql;
    while let Some(colon) = rest.find(':') {
        let (before, after) = rest.split_at(colon);
        text.push_str(before);
        if let Some(cast) = after.strip_prefix("::") {
            text.push_str("::");
            rest = cast;
            continue;
        }
        let name = &after[1..];
        let end = name
            .find(|character: char| !character.is_ascii_alphanumeric() && character != '_')
            .unwrap_or(name.len());
        if end == 0 {
            text.push(':');
            rest = name;
            continue;
        }
        names.push(&name[..end]);
        text.push_str(&format!("${}", names.len()));
        rest = &name[end..];
    }
    text.push_str(rest);
    (text, names)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_get_numbers_and_casts_stay() {
        let (text, names) = numbered("select :a_1 + :b, currval('x')::text where i = :a_1;");
        assert_eq!(text, "select $1 + $2, currval('x')::text where i = $3;");
        assert_eq!(names, ["a_1", "b", "a_1"]);
        assert_eq!(numbered("select 1 : 2"), ("select 1 : 2".to_owned(), Vec::new()));
    }
}
