//! [`Key`]: what a [`CsbTree`](super::CsbTree) can be ordered by, and the integers its nodes really hold.
//!
//! A node holds no keys but their *orders*: signed integers of the same width that sort as the keys do. So there are two
//! widths to search instead of six types, and x86 compares signed lanes natively. What it is not: a general encoding; only
//! the tree reads it.

use std::fmt::Debug;

use super::search::Search;

mod sealed {
    /// Keeps other crates from adding keys.
    pub trait Sealed {}
}

/// A key of 4 or 8 bytes: `i32`, `u32`, `f32`, `i64`, `u64` or `f64`.
///
/// Floats are ordered as numbers, infinities included; `-0.0` and `0.0` are one key, given back as `0.0`. A NaN is never
/// stored; asked for, it sorts above every number, so it finds nothing.
pub trait Key: sealed::Sealed + Copy + PartialOrd + Debug + Send + Sync + 'static {
    /// The integer that stands for it in a node.
    #[doc(hidden)]
    type Order: Order;

    /// The integer that sorts as this key does.
    #[doc(hidden)]
    fn to_order(self) -> Self::Order;

    /// The key an order stands for.
    #[doc(hidden)]
    fn from_order(order: Self::Order) -> Self;

    /// May it not be stored?
    #[doc(hidden)]
    #[inline(always)]
    fn is_nan(self) -> bool {
        false
    }
}

/// A signed integer in a node. Any bit pattern is one.
pub trait Order: sealed::Sealed + Copy + Ord + Debug + Send + Sync + 'static {
    /// The smallest.
    const MIN: Self;

    /// The largest; unused key slots hold it, so that they never count as less than anything.
    const MAX: Self;

    /// Bytes it takes.
    const BYTES: usize;

    /// The next larger one, if there is one.
    fn above(self) -> Option<Self>;

    /// The next smaller one, if there is one.
    fn below(self) -> Option<Self>;

    /// How many of a node's keys are less than this one, with one instruction set.
    ///
    /// # Safety
    /// As [`Search::less32`].
    unsafe fn less<S: Search, const LINES: usize>(node: *const u8, keys: usize, key: Self) -> usize;
}

macro_rules! order {
    ($order:ty, $less:ident) => {
        impl sealed::Sealed for $order {}

        impl Order for $order {
            const MIN: Self = <$order>::MIN;
            const MAX: Self = <$order>::MAX;
            const BYTES: usize = size_of::<$order>();

            #[inline(always)]
            fn above(self) -> Option<Self> {
                self.checked_add(1)
            }

            #[inline(always)]
            fn below(self) -> Option<Self> {
                self.checked_sub(1)
            }

            #[inline(always)]
            unsafe fn less<S: Search, const LINES: usize>(node: *const u8, keys: usize, key: Self) -> usize {
                // SAFETY: the caller's promise.
                unsafe { S::$less::<LINES>(node, keys, key) }
            }
        }
    };
}

order!(i32, less32);
order!(i64, less64);

macro_rules! signed_key {
    ($key:ty) => {
        impl Key for $key {
            type Order = $key;

            #[inline(always)]
            fn to_order(self) -> $key {
                self
            }

            #[inline(always)]
            fn from_order(order: $key) -> Self {
                order
            }
        }
    };
}

macro_rules! unsigned_key {
    ($key:ty, $order:ty) => {
        impl sealed::Sealed for $key {}

        impl Key for $key {
            type Order = $order;

            #[inline(always)]
            fn to_order(self) -> $order {
                (self as $order) ^ <$order>::MIN
            }

            #[inline(always)]
            fn from_order(order: $order) -> Self {
                (order ^ <$order>::MIN) as $key
            }
        }
    };
}

macro_rules! float_key {
    ($key:ty, $bits:ty, $order:ty) => {
        impl sealed::Sealed for $key {}

        impl Key for $key {
            type Order = $order;

            #[inline(always)]
            fn to_order(self) -> $order {
                // Adding zero turns -0.0 into 0.0. All NaN become one with a clear sign, above infinity.
                let number = if self.is_nan() {
                    <$key>::NAN.abs()
                } else {
                    self + 0.0
                };
                flip(number.to_bits() as $order)
            }

            #[inline(always)]
            fn from_order(order: $order) -> Self {
                <$key>::from_bits(flip(order) as $bits)
            }

            #[inline(always)]
            fn is_nan(self) -> bool {
                <$key>::is_nan(self)
            }
        }
    };
}

/// Integers whose bits are a float's.
trait Flip {
    /// Inverts magnitude where the sign is set: negative floats sort from large magnitude to small. Its own inverse.
    fn flip(self) -> Self;
}

impl Flip for i32 {
    #[inline(always)]
    fn flip(self) -> Self {
        self ^ (self >> 31 & i32::MAX)
    }
}

impl Flip for i64 {
    #[inline(always)]
    fn flip(self) -> Self {
        self ^ (self >> 63 & i64::MAX)
    }
}

#[inline(always)]
fn flip<F: Flip>(bits: F) -> F {
    bits.flip()
}

signed_key!(i32);
unsigned_key!(u32, i32);
float_key!(f32, u32, i32);
signed_key!(i64);
unsigned_key!(u64, i64);
float_key!(f64, u64, i64);

#[cfg(test)]
mod tests {
    use super::*;

    fn check<K: Key>(ascending: &[K]) {
        for pair in ascending.windows(2) {
            assert!(pair[0].to_order() < pair[1].to_order(), "{pair:?}");
        }
        for &key in ascending {
            assert_eq!(K::from_order(key.to_order()), key);
        }
    }

    #[test]
    fn orders_sort_as_the_keys() {
        check(&[i32::MIN, -1, 0, 1, i32::MAX]);
        check(&[0, 1, 1 << 31, u32::MAX]);
        check(&[i64::MIN, -1, 0, 1, i64::MAX]);
        check(&[0, 1, 1 << 63, u64::MAX]);
        check(&[
            f32::NEG_INFINITY,
            f32::MIN,
            -1.0,
            -f32::MIN_POSITIVE,
            0.0,
            1e-45,
            1.0,
            f32::MAX,
            f32::INFINITY,
        ]);
        check(&[
            f64::NEG_INFINITY,
            f64::MIN,
            -1.0,
            -5e-324,
            0.0,
            5e-324,
            1.0,
            f64::MAX,
            f64::INFINITY,
        ]);
    }

    #[test]
    fn zeros_are_one_key_and_nan_is_above_all() {
        assert_eq!((-0.0_f32).to_order(), 0.0_f32.to_order());
        assert_eq!((-0.0_f64).to_order(), 0.0_f64.to_order());
        for nan in [f32::NAN, -f32::NAN, f32::from_bits(u32::MAX)] {
            assert!(nan.to_order() > f32::INFINITY.to_order() && Key::is_nan(nan));
            assert!(f64::from(nan).to_order() > f64::INFINITY.to_order());
        }
    }
}
