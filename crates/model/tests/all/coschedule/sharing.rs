//! Queries that read what another one makes.

use super::{config, query, scheduler};
use corun_model::cache::coschedule::{PolicyName, Query, QueryId, Scheduler, Why};
use corun_model::cache::locality::Footprint;
use corun_model::units::Bytes;

/// Who reads what another makes goes first, wherever there is room, unless order of arrival was asked for or somebody has waited too long.
#[test]
fn queries_that_share_beat_queries_that_do_no_harm() {
    for (policy, first) in [
        (PolicyName::Sls, Why::Shares),
        (PolicyName::Mls, Why::Shares),
        (PolicyName::Learned, Why::Shares),
        (PolicyName::Fifo, Why::Oldest),
    ] {
        let mut config = config(policy, 2);
        config.overtakes_max = 1;
        let mut s = scheduler(config);
        let tables = Footprint::Tables(Bytes::kib(500));
        let with = |s: &Scheduler, id, footprint, parts| Query {
            parts,
            ..query(s, id, footprint)
        };
        s.arrive(0, with(&s, 1, tables, 0b0110)).expect("room");
        assert_eq!(s.dispatch().len(), 1);
        s.arrive(0, with(&s, 9, Footprint::Streams, 0)).expect("room");
        s.dispatch();
        // Two that would fit as well, then two that share with the first; the other place is free again.
        for (id, footprint, parts) in [
            (2, tables, 0b1000),
            (3, Footprint::Streams, 0),
            (4, tables, 0b0100),
            (5, tables, 0b0010),
        ] {
            s.arrive(0, with(&s, id, footprint, parts)).expect("room");
        }
        s.finish(1000, QueryId(9)).expect("it ran");
        let start = s.dispatch().remove(0);
        let wanted = if policy == PolicyName::Fifo {
            QueryId(2)
        } else {
            QueryId(4)
        };
        assert_eq!((start.id, start.why), (wanted, first), "{policy}");
        s.finish(2000, start.id).expect("it ran");
        let start = s.dispatch().remove(0);
        if policy != PolicyName::Fifo {
            assert_eq!((start.id, start.why), (QueryId(2), Why::Aged), "{policy}");
        }
    }
}
