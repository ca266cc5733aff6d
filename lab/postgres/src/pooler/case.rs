//! [`Case`]: what clients do, how many they are, and over what they come.

use super::attacked::Attack;
use super::shapes::Literals;
use crate::fixture::address::Transport;
use crate::fixture::pgbench::Protocol;
use lab_core::metric::parameters;
use lab_core::row::Value;

/// What clients do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Work {
    /// Point selects.
    Select,
    /// pgbench's transfers: reads and writes in transactions.
    Transfers,
    /// A point select on a connection of its own.
    Storm,
    /// Statements of many shapes.
    Mixed(Literals),
    /// Nothing, once logged in.
    Idle,
    /// Point selects, while another client does this.
    Attacked(Attack),
}

/// A case of the suite.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Case {
    /// What clients do.
    pub work: Work,
    /// How statements are sent.
    pub protocol: Protocol,
    /// Over what, on both sides of a pooler.
    pub transport: Transport,
    /// How many clients there are.
    pub clients: usize,
}

impl Case {
    /// The name in rows, such as `simple_tcp_c8`.
    pub fn name(&self) -> String {
        let work: String = match self.work {
            Work::Select => self.protocol.as_str().into(),
            Work::Transfers => "tpcb".into(),
            Work::Storm => "storm".into(),
            Work::Mixed(Literals::Many) => "mixed".into(),
            Work::Mixed(Literals::Few) => "mixed_few".into(),
            Work::Idle => "idle".into(),
            Work::Attacked(attack) => attack.name(),
        };
        format!("{work}_{}_c{}", self.transport.as_str(), self.clients)
    }

    /// Parameters of all its rows.
    pub fn parameters(&self) -> Vec<(String, Value)> {
        let mut all = vec![
            ("protocol", Value::from(self.protocol.as_str())),
            ("clients", Value::from(self.clients)),
            ("transport", Value::from(self.transport.as_str())),
        ];
        if let Work::Mixed(literals) = self.work {
            all.push(("shapes", Value::from(super::shapes::SHAPES.len())));
            all.push(("literals", Value::from(literals.as_str())));
        }
        parameters(all)
    }
}

/// The numbers of clients of each kind of case.
struct Clients {
    select: &'static [usize],
    transfers: &'static [usize],
    storm: &'static [usize],
    mixed: &'static [usize],
    idle: &'static [usize],
    attacks: &'static [Attack],
}

const STANDARD: Clients = Clients {
    select: &[1, 8, 50, 200, 1_000],
    transfers: &[8, 50],
    storm: &[8, 50],
    mixed: &[50],
    idle: &[10_000],
    attacks: &[
        Attack::CopyDone,
        Attack::EndlessName,
        Attack::Statements,
        Attack::CopyData,
        Attack::Unread,
        Attack::Mixed,
        Attack::Pipeline(25_000),
        Attack::Pipeline(100_000),
    ],
};

const QUICK: Clients = Clients {
    select: &[1, 8],
    transfers: &[8],
    storm: &[8],
    mixed: &[8],
    idle: &[200],
    attacks: &[Attack::Mixed, Attack::Pipeline(2_000)],
};

/// All cases over one transport; those of `--quick` have few clients.
pub fn cases(quick: bool, transport: Transport) -> Vec<Case> {
    let clients = if quick { QUICK } else { STANDARD };
    let mut all = Vec::new();
    let mut add = |work, protocol, clients: &[usize]| {
        all.extend(clients.iter().map(|&clients| Case {
            work,
            protocol,
            transport,
            clients,
        }));
    };
    for protocol in [Protocol::Simple, Protocol::Extended, Protocol::Prepared] {
        add(Work::Select, protocol, clients.select);
    }
    add(Work::Transfers, Protocol::Simple, clients.transfers);
    add(Work::Storm, Protocol::Simple, clients.storm);
    for literals in [Literals::Many, Literals::Few] {
        add(Work::Mixed(literals), Protocol::Simple, clients.mixed);
    }
    add(Work::Idle, Protocol::Simple, clients.idle);
    for attack in clients.attacks {
        add(Work::Attacked(*attack), Protocol::Simple, &[8]);
    }
    all
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn names_are_distinct_and_say_what_is_done() {
        for quick in [true, false] {
            let all: Vec<Case> = [Transport::Tcp, Transport::Unix]
                .into_iter()
                .flat_map(|transport| cases(quick, transport))
                .collect();
            let names: BTreeSet<String> = all.iter().map(Case::name).collect();
            assert_eq!(names.len(), all.len());
            assert!(
                names.contains("prepared_unix_c8") && names.contains("storm_tcp_c8"),
                "{names:?}"
            );
        }
        let names: Vec<String> = cases(false, Transport::Tcp).iter().map(Case::name).collect();
        for name in [
            "simple_tcp_c1000",
            "mixed_tcp_c50",
            "mixed_few_tcp_c50",
            "idle_tcp_c10000",
        ] {
            assert!(names.iter().any(|known| known == name), "{name}");
        }
    }
}
