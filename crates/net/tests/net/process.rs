//! Backends are verified and bound, or the reason why not is told.

use std::process::{Child, Command};

use corun_model::units::CpuId;
use corun_net::process::{
    Backend, Processes, Refusal, Rights, Route, Search, SimulatedProcesses, Status, SystemProcesses, bind,
    is_still, unbind, verify_backend,
};
use corun_topology::affinity::allowed_cpus;

use crate::skipped::skipped;

const SERVER: u32 = 100;
const BACKEND: u32 = 200;
const PORT: u16 = 54321;
const UNIX: Route = Route::Unix {
    listener: Some(SERVER),
};

fn tcp(local: &str, peer: &str) -> Route {
    Route::Tcp {
        local: local.parse().unwrap(),
        peer: peer.parse().unwrap(),
    }
}

fn status(parent: u32, title: &str) -> Status {
    Status {
        parent,
        real_uid: 70,
        effective_uid: 70,
        title: title.to_owned(),
        started: 5,
        nested: false,
    }
}

fn server(rights: Rights) -> SimulatedProcesses {
    let processes = SimulatedProcesses::new(rights);
    let cpus = [CpuId(0), CpuId(1), CpuId(2)];
    processes.start(
        SERVER,
        status(1, "/usr/lib/postgresql/15/bin/postgres -D data"),
        &cpus,
    );
    processes.start(
        BACKEND,
        status(SERVER, "postgres: bench shop 127.0.0.1(54321) idle"),
        &cpus,
    );
    processes
}

const SAME_USER: Rights = Rights { uid: 70, nice: false };

#[test]
fn a_backend_is_bound_moved_and_let_go() {
    for rights in [
        SAME_USER,
        Rights {
            uid: 1000,
            nice: true,
        },
    ] {
        for route in [
            UNIX,
            tcp("127.0.0.1:54321", "127.0.0.1:5432"),
            tcp("10.0.0.1:54321", "10.0.0.1:5432"),
        ] {
            let processes = server(rights);
            let backend = verify_backend(&processes, BACKEND, &route).unwrap();
            assert_eq!(backend.cpus, [CpuId(0), CpuId(1), CpuId(2)]);
            for cpu in [CpuId(2), CpuId(0)] {
                bind(&processes, &backend, cpu).unwrap();
                assert_eq!(processes.cpus(BACKEND).unwrap(), [cpu]);
            }
            // Somebody else who looks at it finds what the server may, not what we made of it.
            assert_eq!(verify_backend(&processes, BACKEND, &route).unwrap(), backend);
            assert!(matches!(
                bind(&processes, &backend, CpuId(3)),
                Err(Refusal::CpuNotAllowed { .. })
            ));
            assert_eq!(processes.cpus(BACKEND).unwrap(), [CpuId(0)]);
            unbind(&processes, &backend).unwrap();
            assert_eq!(processes.cpus(BACKEND).unwrap(), backend.cpus);
        }
    }
}

#[track_caller]
fn refused(processes: &SimulatedProcesses, pid: u32, route: &Route, expected: &str) {
    let refusal = verify_backend(processes, pid, route).unwrap_err();
    assert_eq!(refusal.to_string(), expected);
}

#[test]
fn every_doubt_is_a_refusal() {
    let processes = server(SAME_USER);
    let far = tcp("10.0.0.1:54321", "10.0.0.2:5432");
    refused(
        &processes,
        BACKEND,
        &far,
        "the server at 10.0.0.2:5432 is not on this machine",
    );
    let hidden = Route::Unix { listener: None };
    refused(
        &processes,
        BACKEND,
        &hidden,
        "the process that listens at the server's unix socket is in another process namespace, as in a container",
    );
    refused(
        &processes,
        201,
        &UNIX,
        "there is no process 201 here: the server is in a container or behind another pooler, or the backend has ended",
    );
    refused(
        &processes,
        SERVER,
        &UNIX,
        "process 100 was started by 1, not by the server's process 100",
    );
    let other_port = tcp("127.0.0.1:4321", "127.0.0.1:5432");
    refused(
        &processes,
        BACKEND,
        &other_port,
        "process 200 (\"postgres: bench shop 127.0.0.1(54321) idle\") is not the backend of our connection from port 4321",
    );
    let mut nested = status(SERVER, "postgres: bench shop [local] idle");
    nested.nested = true;
    processes.start(202, nested, &[CpuId(0)]);
    refused(
        &processes,
        202,
        &UNIX,
        "process 202 is in another process namespace, so it is not the one the server means",
    );
    let stranger = server(Rights {
        uid: 1000,
        nice: false,
    });
    refused(
        &stranger,
        BACKEND,
        &UNIX,
        "process 200 belongs to user 70 and this is user 1000 without CAP_SYS_NICE: run as the same user, or grant it \
         (AmbientCapabilities=CAP_SYS_NICE in a systemd unit)",
    );
}

#[test]
fn a_number_that_was_given_to_another_process_is_not_bound() {
    let processes = server(SAME_USER);
    let backend = verify_backend(&processes, BACKEND, &UNIX).unwrap();
    processes.end(BACKEND);
    assert!(matches!(
        bind(&processes, &backend, CpuId(0)),
        Err(Refusal::NoSuchProcess { .. })
    ));
    let mut other = status(1, "vi");
    other.started = 6;
    processes.start(BACKEND, other, &[CpuId(0), CpuId(1)]);
    assert!(matches!(
        bind(&processes, &backend, CpuId(0)),
        Err(Refusal::NoSuchProcess { .. })
    ));
    assert_eq!(processes.cpus(BACKEND).unwrap(), [CpuId(0), CpuId(1)]);
}

#[test]
fn a_control_group_that_shrank_is_a_refusal() {
    let processes = server(SAME_USER);
    let backend = verify_backend(&processes, BACKEND, &UNIX).unwrap();
    processes.start(BACKEND, processes.status(BACKEND).unwrap(), &[CpuId(1)]);
    assert!(matches!(
        bind(&processes, &backend, CpuId(0)),
        Err(Refusal::CpuNotAllowed { cpu: CpuId(0), .. })
    ));
    bind(&processes, &backend, CpuId(1)).unwrap();
}

/// Ends with the test.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A child that looks like a backend.
fn disguised() -> Option<(Running, Backend)> {
    let title = format!("postgres: bench shop 127.0.0.1({PORT}) idle");
    let script = format!("exec -a '{title}' sleep 600");
    let child = Running(Command::new("bash").args(["-c", &script]).spawn().ok()?);
    let pid = child.0.id();
    let route = tcp("127.0.0.1:54321", "127.0.0.1:5432");
    for _ in 0..1000 {
        if let Ok(backend) = verify_backend(&SystemProcesses, pid, &route) {
            return Some((child, backend));
        }
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    panic!("{:?}", verify_backend(&SystemProcesses, pid, &route));
}

#[test]
fn processes_of_this_machine_are_bound() {
    let Some((child, backend)) = disguised() else {
        skipped("bash is missing");
        return;
    };
    let before = allowed_cpus().unwrap();
    assert_eq!(backend.cpus, before);
    let route = Route::Unix {
        listener: Some(std::process::id()),
    };
    assert_eq!(
        verify_backend(&SystemProcesses, backend.pid, &route).unwrap(),
        backend
    );
    for &cpu in &before {
        bind(&SystemProcesses, &backend, cpu).unwrap();
        assert_eq!(SystemProcesses.cpus(backend.pid).unwrap(), [cpu]);
    }
    unbind(&SystemProcesses, &backend).unwrap();
    assert_eq!(SystemProcesses.cpus(backend.pid).unwrap(), before);
    assert_eq!(allowed_cpus().unwrap(), before, "this thread is as it was");
    drop(child);
    let refusal = bind(&SystemProcesses, &backend, before[0]).unwrap_err();
    assert!(matches!(refusal, Refusal::NoSuchProcess { .. }), "{refusal}");
}

#[test]
fn parallel_workers_are_found_by_what_they_say() {
    let processes = server(SAME_USER);
    let cpus = [CpuId(0), CpuId(1), CpuId(2)];
    let start = |pid: u32, parent: u32, title: &str| {
        let mut status = status(parent, title);
        status.started = u64::from(pid);
        processes.start(pid, status, &cpus);
    };
    let backend = verify_backend(&processes, BACKEND, &UNIX).unwrap();
    let mut search = Search::new(&backend);
    let mut look = || {
        let new = search.look(&processes);
        new.iter().map(|worker| worker.pid).collect::<Vec<_>>()
    };
    assert!(look().is_empty());
    start(201, SERVER, "postgres: parallel worker for PID 200");
    start(202, SERVER, "postgres: 15/main: parallel worker for PID 200 ");
    start(203, SERVER, "postgres: parallel worker for PID 2001");
    // Just started: it has not said yet what it is.
    start(204, SERVER, "/usr/lib/postgresql/15/bin/postgres -D data");
    // It is about to say so.
    start(206, SERVER, "postgres: parallel wor");
    // Somebody with a name.
    start(
        205,
        SERVER,
        "postgres: parallel worker for PID 200 shop [local] idle",
    );
    start(300, 1, "postgres: parallel worker for PID 200");
    assert_eq!(look(), [201, 202]);
    assert!(look().is_empty(), "each once");
    start(206, SERVER, "postgres: parallel worker for PID 2006");
    assert!(look().is_empty(), "of another");
    start(206, SERVER, "postgres: parallel worker for PID 200");
    assert!(look().is_empty(), "what it said is kept");
    start(204, SERVER, "postgres: parallel worker for PID 200");
    processes.end(201);
    assert_eq!(look(), [204]);
    let known: Vec<u32> = search.workers().iter().map(|worker| worker.pid).collect();
    assert_eq!(known, [202, 204]);

    let [first, second] = search.workers() else {
        panic!("two")
    };
    search.bind(&processes, *first, &[CpuId(1), CpuId(7)]).unwrap();
    assert_eq!(processes.cpus(202).unwrap(), [CpuId(1)]);
    let nowhere = search.bind(&processes, *first, &[CpuId(7)]);
    assert!(
        matches!(nowhere, Err(Refusal::CpuNotAllowed { .. })),
        "{nowhere:?}"
    );
    // Another process with its number.
    start(202, SERVER, "postgres: parallel worker for PID 200");
    let mut other = processes.status(204).unwrap();
    other.started += 1;
    processes.start(204, other, &cpus);
    assert!(search.is_still(&processes, *first));
    let gone = search.bind(&processes, *second, &[CpuId(1)]);
    assert!(
        matches!(gone, Err(Refusal::NoSuchProcess { pid: 204 })),
        "{gone:?}"
    );
    assert_eq!(processes.cpus(204).unwrap(), cpus);
    // The backend itself has ended, and another has its number.
    assert!(is_still(&processes, &backend));
    let mut next = status(SERVER, "postgres: bench shop [local] idle");
    next.started = 99;
    processes.start(BACKEND, next, &cpus);
    assert!(!is_still(&processes, &backend));
    assert!(search.look(&processes).is_empty() && search.workers().is_empty());
}
