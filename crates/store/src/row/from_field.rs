//! [`FromField`]: what [`RowRef::get`](super::RowRef::get) returns.

use crate::value::{Type, Value};

mod sealed {
    use crate::value::{Type, Value};

    /// What [`super::FromField`] is made of; nobody else implements it.
    pub trait Sealed<'a>: Sized {
        /// The type as errors name it.
        const NAME: &'static str;

        /// Whether fields of a type are read as this one.
        fn reads(data_type: Type) -> bool;

        /// Of a field of a type it reads. None for NULL and numbers out of range, if it has no room for them.
        fn of(value: Value<'a>) -> Option<Self>;
    }
}

use sealed::Sealed;

/// What a field can be read as with [`crate::RowRef::get`].
///
/// | Rust | columns |
/// | --- | --- |
/// | `i8`, `i16`, `i32`, `i64`, `i128`, `u8`, `u16`, `u32`, `u64` | integers, decimals (unscaled), dates, timestamps; the number must be in its range |
/// | `f64` | [`Type::F64`], [`Type::F32`] |
/// | `bool` | [`Type::Bool`] |
/// | `&str`, `String` | texts |
/// | `&[u8]`, `Vec<u8>` | bytes, and the bytes of texts |
/// | [`Value`] | all |
/// | `Option` of these | as theirs; `None` for NULL |
pub trait FromField<'a>: Sealed<'a> {}

impl<'a, T: Sealed<'a>> FromField<'a> for T {}

macro_rules! integers {
    ($($t:ty),*) => {$(
        impl<'a> Sealed<'a> for $t {
            const NAME: &'static str = stringify!($t);

            fn reads(data_type: Type) -> bool {
                data_type.number_range().is_some()
            }

            fn of(value: Value<'a>) -> Option<Self> {
                match value {
                    Value::Int(value) => value.try_into().ok(),
                    Value::Decimal(value) => value.try_into().ok(),
                    _ => None,
                }
            }
        }
    )*};
}
integers!(i8, i16, i32, i64, i128, u8, u16, u32, u64);

macro_rules! others {
    ($($t:ty, $name:literal, $reads:expr, $($value:pat => $read:expr),+;)*) => {$(
        impl<'a> Sealed<'a> for $t {
            const NAME: &'static str = $name;

            fn reads(data_type: Type) -> bool {
                let reads: fn(Type) -> bool = $reads;
                reads(data_type)
            }

            fn of(value: Value<'a>) -> Option<Self> {
                match value {
                    $($value => Some($read),)+
                    _ => None,
                }
            }
        }
    )*};
}
others! {
    bool, "bool", |of| of == Type::Bool, Value::Bool(value) => value;
    f64, "f64", Type::is_float, Value::Float(value) => value;
    &'a str, "&str", Type::is_text, Value::Text(text) => text;
    String, "String", Type::is_text, Value::Text(text) => text.to_owned();
    &'a [u8], "&[u8]", |of| of.is_bytes() || of.is_text(), Value::Bytes(bytes) => bytes, Value::Text(text) => text.as_bytes();
    Vec<u8>, "Vec<u8>", |of| of.is_bytes() || of.is_text(), Value::Bytes(bytes) => bytes.to_vec(), Value::Text(text) => text.into();
}

impl<'a> Sealed<'a> for Value<'a> {
    const NAME: &'static str = "Value";

    fn reads(_: Type) -> bool {
        true
    }

    fn of(value: Value<'a>) -> Option<Self> {
        Some(value)
    }
}

impl<'a, T: Sealed<'a>> Sealed<'a> for Option<T> {
    const NAME: &'static str = T::NAME;

    fn reads(data_type: Type) -> bool {
        T::reads(data_type)
    }

    fn of(value: Value<'a>) -> Option<Self> {
        match value {
            Value::Null => Some(None),
            value => T::of(value).map(Some),
        }
    }
}
