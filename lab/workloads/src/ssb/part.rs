//! Table `part`: 5 manufacturers of 5 categories of 40 brands, and the price `lineorder` computes with.

use std::sync::{Arc, LazyLock};

use arrow::array::{ArrayRef, Int32Array, StringArray};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};

use super::random::Stream;

/// Number of this table in the random streams.
const TABLE: u64 = 4;

pub(super) static SCHEMA: LazyLock<SchemaRef> = LazyLock::new(|| {
    let field = |name: &str, kind| Field::new(name, kind, false);
    Arc::new(Schema::new(vec![
        field("p_partkey", DataType::Int32),
        field("p_name", DataType::Utf8),
        field("p_mfgr", DataType::Utf8),
        field("p_category", DataType::Utf8),
        field("p_brand1", DataType::Utf8),
        field("p_color", DataType::Utf8),
        field("p_type", DataType::Utf8),
        field("p_size", DataType::Int32),
        field("p_container", DataType::Utf8),
    ]))
});

/// The colours of TPC-H's part names.
const COLORS: &str = "almond antique aquamarine azure beige bisque black blanched blue blush brown burlywood \
    burnished chartreuse chiffon chocolate coral cornflower cornsilk cream cyan dark deep dim dodger drab \
    firebrick floral forest frosted gainsboro ghost goldenrod green grey honeydew hot indian ivory khaki lace \
    lavender lawn lemon light lime linen magenta maroon medium metallic midnight mint misty moccasin navajo navy \
    olive orange orchid pale papaya peach peru pink plum powder puff purple red rose rosy royal saddle salmon \
    sandy seashell sienna sky slate smoke snow spring steel tan thistle tomato turquoise violet wheat white yellow";

static COLOR_LIST: LazyLock<Vec<&str>> = LazyLock::new(|| COLORS.split_whitespace().collect());

const TYPE_SIZES: [&str; 6] = ["STANDARD", "SMALL", "MEDIUM", "LARGE", "ECONOMY", "PROMO"];
const TYPE_FINISHES: [&str; 5] = ["ANODIZED", "BURNISHED", "PLATED", "POLISHED", "BRUSHED"];
const TYPE_METALS: [&str; 5] = ["TIN", "NICKEL", "BRASS", "STEEL", "COPPER"];
const CONTAINER_SIZES: [&str; 5] = ["SM", "LG", "MED", "JUMBO", "WRAP"];
const CONTAINERS: [&str; 8] = ["CASE", "BOX", "BAG", "JAR", "PKG", "PACK", "CAN", "DRUM"];

/// Price of one piece of part `key` (1-based), in cents: TPC-H's formula, 900.00 to 2,098.99.
pub(super) fn price_cents(key: i32) -> i32 {
    90_000 + (key / 10) % 20_001 + 100 * (key % 1_000)
}

/// Columns of rows `rows` under `seed`.
pub(super) fn columns(seed: u64, rows: std::ops::Range<usize>) -> Vec<ArrayRef> {
    let stream = |column| Stream::new(seed, TABLE, column);
    let (first, second, colors) = (stream(1), stream(2), stream(3));
    let (makers, categories, brands) = (stream(4), stream(5), stream(6));
    let (types, sizes, containers) = (stream(7), stream(8), stream(9));
    let maker = |row| 1 + makers.below(row, 5);
    let category = |row| 10 * maker(row) + 1 + categories.below(row, 5);
    let texts = |value: &dyn Fn(u64) -> String| -> ArrayRef {
        Arc::new(StringArray::from_iter_values(
            rows.clone().map(|row| value(row as u64)),
        ))
    };
    vec![
        Arc::new(Int32Array::from_iter_values(
            rows.clone().map(|row| row as i32 + 1),
        )),
        texts(&|row| {
            format!(
                "{} {}",
                first.pick(row, &COLOR_LIST),
                second.pick(row, &COLOR_LIST)
            )
        }),
        texts(&|row| format!("MFGR#{}", maker(row))),
        texts(&|row| format!("MFGR#{}", category(row))),
        texts(&|row| format!("MFGR#{}{}", category(row), 1 + brands.below(row, 40))),
        texts(&|row| colors.pick(row, &COLOR_LIST).to_owned()),
        texts(&|row| {
            let number = types.below(row, 150) as usize;
            let (size, finish, metal) = (number / 25, number / 5 % 5, number % 5);
            format!(
                "{} {} {}",
                TYPE_SIZES[size], TYPE_FINISHES[finish], TYPE_METALS[metal]
            )
        }),
        Arc::new(Int32Array::from_iter_values(
            rows.clone().map(|row| sizes.between(row as u64, 1, 50)),
        )),
        texts(&|row| {
            let number = containers.below(row, 40) as usize;
            format!("{} {}", CONTAINER_SIZES[number / 8], CONTAINERS[number % 8])
        }),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colors_and_prices() {
        assert_eq!(COLOR_LIST.len(), 92);
        assert_eq!(price_cents(1), 90_100);
        // Parts 200,000 and up wrap around rather than grow.
        let most = (1..=1_400_000).map(price_cents).max().unwrap();
        assert!(most <= 209_900, "{most}");
    }
}
