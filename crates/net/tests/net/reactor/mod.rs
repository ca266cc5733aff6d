//! Every reactor over the kernel keeps the same contract; each test runs on all of them.

mod contract;
mod support;
mod twin;

/// The same tests for one implementation.
macro_rules! on {
    ($name:ident, $reactor:ty: $($test:ident),+ $(,)?) => {
        mod $name {
            $(
                #[test]
                fn $test() {
                    if <$reactor as super::support::Real>::is_usable() {
                        super::contract::$test::<$reactor>();
                    }
                }
            )+
        }
    };
}

/// All tests of the contract.
macro_rules! all_on {
    ($name:ident, $reactor:ty) => {
        on!($name, $reactor:
            connecting_succeeds,
            small_buffers_are_agreed_on_at_the_beginning,
            connecting_fails,
            tokens_are_unique,
            a_listener_can_be_closed,
            unix_listeners_replace_dead_ones,
            ports_can_be_shared,
            a_unix_socket_is_taken_over,
            a_listener_leaves_a_shared_port_without_a_gap,
            connections_move_to_another_reactor,
            a_connection_with_output_stays,
            waking,
            a_slow_reader_gets_everything,
            back_pressure_bounds_what_is_queued,
            a_paused_connection_keeps_silent,
            a_pause_inside_an_event_holds_at_once,
            output_is_gathered_in_order,
            sends_outside_of_events_leave_with_the_next_turn,
            half_closed_connections_are_answered,
            last_words_come_before_the_end,
            a_reset_is_an_error,
            a_failed_send_ends_a_paused_connection,
            what_a_handler_closed_has_no_events,
            a_goodbye_arrives_and_frees_the_token,
            a_goodbye_does_not_wait_for_ever,
            close_is_silent_and_tries_once_more,
            echo_of_many_connections,
            ten_thousand_connections,
            a_flood_does_not_starve_others,
        );
    };
}

all_on!(epoll, corun_net::reactor::Epoll);
all_on!(uring, corun_net::reactor::Uring);
