//! Texts that share a plan get their own values; and no bytes bring anything down.

use corun_pooler::understand::keys::{KeyKind, Literals, Operands, Values, parameters_of_bind};
use corun_pooler::understand::{Limits, Understanding};
use proptest::prelude::*;

use super::bind;

/// `?` a number, `~` a string, `#` a comment in brackets or none, `%` one to the end of a line; `@` the number that is the key of
/// `t`, `^` the same as a string.
const TEMPLATES: &[&str] = &[
    "select ~, ? from t where v = ~ and k = @ and w = ?",
    "select # ? -- x\n from t where % k = @",
    "select - ? from t where k = - @ and v in (~, ~)",
    "select -?, +? from t where v = ? and k =-@",
    "select ~ from t where % v like ~ % and k = ^ and w > ?",
    "select ~\n ~ from t where k = ^",
    "update t set v = ~, w = w + ? where k = @ and v <> ~",
    "insert into t (v, k, w) values (~, @, ?)",
    "delete from t where # k = ^::int8 # and v = ~",
    "select * from t where k = cast(@ as int) limit ?",
    "select case when v = ~ then ? end from t where k = -(@)",
    "select date ~, \"5, '6'\" from t where k = int4 ^",
    "select $1, ?, $2::text || ~ from t where k = @",
    "select * from t where v between ? and ? and k in (@)",
    "select * from t where v = ~ % \n and k = ^ % \n and w = ~",
];

#[derive(Clone, Debug)]
struct Filler {
    numbers: Vec<String>,
    strings: Vec<String>,
    comments: Vec<bool>,
    key: u32,
}

fn filler() -> impl Strategy<Value = Filler> {
    let number = prop_oneof![
        (0_u32..300).prop_map(|n| n.to_string()),
        any::<u64>().prop_map(|n| n.to_string()),
    ];
    let string = prop_oneof!["[a-z0-9 ]{0,6}", "[0-9]{1,4}", "([a-z'?$-]|''){0,6}", "\\PC{0,8}"]
        .prop_map(|string| string.replace('\'', "''").replace(['\\', '\0'], ""));
    (
        prop::collection::vec(number, 8),
        prop::collection::vec(string, 8),
        prop::collection::vec(any::<bool>(), 8),
        prop_oneof![0_u32..1000, any::<u32>()],
    )
        .prop_map(|(numbers, strings, comments, key)| Filler {
            numbers,
            strings,
            comments,
            key,
        })
}

fn filled(template: &str, filler: &Filler) -> String {
    let (mut numbers, mut strings) = (filler.numbers.iter(), filler.strings.iter());
    let mut comments = filler.comments.iter();
    let mut out = String::new();
    for sign in template.chars() {
        match sign {
            '?' => out.push_str(numbers.next().expect("enough")),
            '~' => {
                out.push('\'');
                out.push_str(strings.next().expect("enough"));
                out.push('\'');
            }
            '#' => out.push_str(if comments.next() == Some(&true) {
                "/* 12 */"
            } else {
                "/**/"
            }),
            '%' => out.push_str(if comments.next() == Some(&true) {
                "-- 7 '\n"
            } else {
                "\n"
            }),
            '@' => out.push_str(&filler.key.to_string()),
            '^' => out.push_str(&format!("'{}'", filler.key)),
            other => out.push(other),
        }
    }
    out
}

/// Every form a value may have, from bytes that may be anything.
fn look_everywhere(operands: &impl Operands) {
    let plans = [
        "select * from t where k = $1 and a in ($2, 5, 'x', $65535) and b = any($1) and c = any($2) and d < -$1::int",
        "select * from t where k = $1::date and a > $2::numeric and b between $1::timestamp and $2::uuid",
    ];
    for text in plans {
        let plan = super::plan(text).expect("keys");
        for column in 0..=plan.columns().len() {
            for kind in KeyKind::ALL {
                plan.span(column, kind, operands);
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_000))]

    #[test]
    fn texts_that_share_a_plan_get_their_own_values(
        template in prop::sample::select(TEMPLATES),
        fillers in prop::collection::vec(filler(), 2..4),
    ) {
        let mut understanding = Understanding::new(Limits::default());
        let minus = template.contains("- @") || template.contains("-@") || template.contains("-(@");
        for filler in &fillers {
            let text = filled(template, filler);
            let understood = understanding.of(text.as_bytes());
            let plan = understood.keys.as_ref();
            let resolved = plan.and_then(|plan| plan.resolve(|_, _, column| (column == "k").then_some(())));
            let (column, ()) = resolved.expect("a key");
            let span = plan.expect("a plan").span(column, KeyKind::Integer, &Literals::of(text.as_bytes()));
            let key = i64::from(filler.key);
            let expected = if minus { -key } else { key };
            prop_assert_eq!(span.as_point(), Some(expected), "{} as one of {:?}", text, fillers);
        }
    }

    /// A plan is used with the texts it was made for only; with any other it is wrong at worst.
    #[test]
    fn any_bytes_as_a_bind(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        if let Some(values) = parameters_of_bind(&bytes) {
            look_everywhere(&values);
            look_everywhere(&(values, Literals::of(&bytes)));
        }
        look_everywhere(&Literals::of(&bytes));
    }

    #[test]
    fn a_bind_with_some_bytes_changed(
        values in prop::collection::vec((0_u16..3, prop::option::of(prop::collection::vec(any::<u8>(), 0..30))), 0..4),
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..4),
        cut in any::<prop::sample::Index>(),
    ) {
        let mut body = bind(&values);
        look_everywhere(&parameters_of_bind(&body).expect("a Bind"));
        for (at, byte) in changes {
            let at = at.index(body.len());
            body[at] = byte;
        }
        body.truncate(cut.index(body.len() + 1));
        let mut found: Option<Values<'_>> = parameters_of_bind(&body);
        if let Some(values) = found.take() {
            look_everywhere(&values);
        }
    }
}
