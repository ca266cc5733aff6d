//! Every reactor over the kernel keeps the same contract; each test runs on all of them.

mod contract;
mod support;

/// The same tests for one implementation.
macro_rules! on {
    ($name:ident, $reactor:ty: $($test:ident),+ $(,)?) => {
        mod $name {
            $(#[test] fn $test() { super::contract::$test::<$reactor>(); })+
        }
    };
}

/// All tests of the contract.
macro_rules! all_on {
    ($name:ident, $reactor:ty) => {
        on!($name, $reactor:
            echo_of_many_connections,
        );
    };
}

all_on!(epoll, machine::reactor::Epoll);
