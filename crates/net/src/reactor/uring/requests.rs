//! Requests to the kernel: how they are made, waited for and noted when done.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::time::Duration;

use io_uring::squeue::Entry;
use io_uring::types::{Fd, SubmitArgs, Timespec};
use io_uring::{EnterFlags, IoUring, cqueue, opcode};

use super::pool::GROUP;
use super::socket::{Arrival, Request, Slot, State, name, named};
use super::{Stream, Uring, piece};

/// Requests that can be made between two system calls; more cost one more.
const SUBMISSIONS: u32 = 1024;

/// Completions that fit before the kernel keeps them on a list of its own.
const COMPLETIONS: u32 = 8192;

/// How often, and how long each time, a stopped request is waited for.
const STOP_ROUNDS_MAX: usize = 100;
const STOP_WAIT: Duration = Duration::from_millis(10);

/// A ring that has not begun: the thread of its first turn becomes its only one.
pub(super) fn ring() -> io::Result<IoUring> {
    IoUring::builder()
        .setup_r_disabled()
        .setup_single_issuer()
        .setup_defer_taskrun()
        .setup_clamp()
        .setup_cqsize(COMPLETIONS)
        .build(SUBMISSIONS)
}

/// Why there is no ring.
pub(super) fn unsupported(error: io::Error) -> io::Error {
    match error.raw_os_error() {
        Some(libc::ENOSYS | libc::EPERM | libc::EACCES | libc::EINVAL) => io::Error::new(
            io::ErrorKind::Unsupported,
            format!(
                "io_uring cannot be used here ({error}): it needs Linux 6.1 and `sysctl kernel.io_uring_disabled` 0, and \
                 containers often forbid it; use epoll"
            ),
        ),
        _ => error,
    }
}

impl Uring {
    /// Adds a request.
    ///
    /// What the entry points to must stay until its completion is noted: buffers in slots do, since slots stay.
    fn push(&mut self, entry: Entry) {
        for _ in 0..2 {
            // SAFETY: entries point to nothing, or to the `sending` buffer of a slot, which is neither moved, changed nor
            // freed while `send_runs`.
            if unsafe { self.ring.submission().push(&entry) }.is_ok() {
                return;
            }
            // Full. Before the ring has begun that is an error, which the next turn tells as well.
            let _ = self.enable().and_then(|()| self.ring.submit());
        }
        debug_assert!(false, "an empty queue takes a request");
    }

    pub(super) fn listen_to_bell(&mut self) -> io::Result<()> {
        let poll = opcode::PollAdd::new(Fd(self.bell.as_raw_fd()), libc::POLLIN as u32).multi(true);
        self.push(poll.build().user_data(name(Request::Wake, 0)));
        Ok(())
    }

    pub(super) fn start_accept(&mut self, slot: usize) {
        let Some(Slot::Door(door)) = self.slots.get_mut(slot) else {
            return;
        };
        if door.accepting {
            return;
        }
        let Some(fd) = door
            .listener
            .as_ref()
            .and_then(|listener| listener.descriptor().ok())
        else {
            return;
        };
        door.accepting = true;
        self.running += 1;
        // One at a time: a request for all of them that begins with a connection already there may never hear of the next (Linux 6.18).
        let nobody: *mut libc::sockaddr = std::ptr::null_mut();
        let accept = opcode::Accept::new(Fd(fd), nobody, nobody.cast()).flags(libc::SOCK_CLOEXEC);
        self.push(accept.build().user_data(name(Request::Accept, slot)));
    }

    /// Waits for a connection attempt.
    pub(super) fn start_poll(&mut self, slot: usize) {
        let Some(socket) = self.socket(slot) else {
            return;
        };
        socket.poll_runs = true;
        let poll = opcode::PollAdd::new(Fd(socket.stream.as_raw_fd()), libc::POLLOUT as u32);
        self.running += 1;
        self.push(poll.build().user_data(name(Request::Connect, slot)));
    }

    pub(super) fn start_receive(&mut self, slot: usize) {
        let Some(socket) = self.socket(slot) else {
            return;
        };
        socket.receive_runs = true;
        socket.stopping = false;
        let receive = opcode::RecvMulti::new(Fd(socket.stream.as_raw_fd()), GROUP);
        self.running += 1;
        self.push(receive.build().user_data(name(Request::Receive, slot)));
    }

    pub(super) fn stop_receive(&mut self, slot: usize) {
        let Some(socket) = self.socket(slot) else {
            return;
        };
        if socket.receive_runs && !std::mem::replace(&mut socket.stopping, true) {
            self.cancel(Request::Receive, slot);
        }
    }

    /// Sends what is left of the last piece, or else what was gathered.
    pub(super) fn start_send(&mut self, slot: usize) {
        let Some(Slot::Socket(socket)) = self.slots.get_mut(slot) else {
            return;
        };
        debug_assert!(!socket.send_runs);
        if socket.sending.is_empty() {
            socket.sending = socket.output.take();
            socket.sent = 0;
        }
        let rest = &socket.sending[socket.sent..];
        if rest.is_empty() {
            return;
        }
        let most = piece(self.buffer_bytes).min(1 << 30);
        let count = rest.len().min(most) as u32;
        let send =
            opcode::Send::new(Fd(socket.stream.as_raw_fd()), rest.as_ptr(), count).flags(libc::MSG_NOSIGNAL);
        socket.send_runs = true;
        self.running += 1;
        self.push(send.build().user_data(name(Request::Send, slot)));
    }

    fn cancel(&mut self, request: Request, slot: usize) {
        let cancel = opcode::AsyncCancel::new(name(request, slot));
        self.push(cancel.build().user_data(name(Request::Cancel, slot)));
    }

    /// Asks the kernel to end whatever a slot has running.
    pub(super) fn cancel_all(&mut self, slot: usize) {
        let runs = match self.slots.get(slot) {
            Some(Slot::Socket(socket)) => [
                (Request::Receive, socket.receive_runs && !socket.stopping),
                (Request::Send, socket.send_runs),
                (Request::Connect, socket.poll_runs),
            ],
            Some(Slot::Door(door)) => [
                (Request::Accept, door.accepting),
                (Request::Wake, false),
                (Request::Wake, false),
            ],
            None => return,
        };
        for (request, runs) in runs {
            if runs {
                self.cancel(request, slot);
            }
        }
    }

    /// Stops the receive of a slot and waits until it has.
    pub(super) fn stop_and_wait(&mut self, slot: usize) {
        self.stop_receive(slot);
        for _ in 0..STOP_ROUNDS_MAX {
            if !self.socket(slot).is_some_and(|socket| socket.receive_runs)
                || self.wait(Some(STOP_WAIT)).is_err()
            {
                return;
            }
            self.reap();
        }
    }

    /// Takes an idle connection out of its slot.
    pub(super) fn retire(&mut self, slot: usize) -> Option<Stream> {
        // It may stand in a list: what is served there must not be another.
        let stays = self
            .socket(slot)
            .is_some_and(|socket| socket.listed || socket.gathered);
        if stays {
            self.ready.retain(|other| *other != slot);
            self.gathered.retain(|other| *other != slot);
        }
        match self.slots.try_remove(slot)? {
            Slot::Socket(socket) => socket.stream.into_nonblocking().ok(),
            Slot::Door(_) => None,
        }
    }

    fn enable(&mut self) -> io::Result<()> {
        if !self.enabled {
            self.ring.submitter().register_enable_rings()?;
            self.enabled = true;
        }
        Ok(())
    }

    /// Hands requests over and waits for a completion.
    pub(super) fn wait(&mut self, patience: Option<Duration>) -> io::Result<()> {
        self.enable()?;
        let time = patience.map(Timespec::from);
        let arguments = SubmitArgs::new();
        let arguments = match &time {
            Some(time) => arguments.timespec(time),
            None => arguments,
        };
        let mut flags = EnterFlags::EXT_ARG | EnterFlags::GETEVENTS;
        // Otherwise a loop without work would be shown as one that waits for a disk.
        flags.set(EnterFlags::NO_IOWAIT, self.waits_idly());
        let requests = self.ring.submission().len() as u32;
        // SAFETY: the argument is what the flags say, and it and the time in it live until the call returns.
        let result = unsafe {
            let submitter = self.ring.submitter();
            submitter.enter(requests, 1, flags.bits(), Some(&arguments))
        };
        match result {
            // EBUSY: completions must be taken before more requests are.
            Err(error)
                if !matches!(
                    error.raw_os_error(),
                    Some(libc::ETIME | libc::EINTR | libc::EBUSY | libc::EAGAIN)
                ) =>
            {
                Err(error)
            }
            _ => Ok(()),
        }
    }

    /// Notes what is done. Calls no handler, so it may run anywhere.
    pub(super) fn reap(&mut self) {
        loop {
            let Some(done) = self.ring.completion().next() else {
                return;
            };
            let (request, slot) = named(done.user_data());
            let (result, flags) = (done.result(), done.flags());
            match request {
                Some(Request::Wake) => {
                    self.arrivals.push_back(Arrival::Woken);
                    if !cqueue::more(flags) {
                        let _ = self.listen_to_bell();
                    }
                }
                Some(Request::Accept) => self.note_accept(slot, result),
                Some(Request::Connect) => {
                    self.running -= 1;
                    if let Some(socket) = self.socket(slot) {
                        socket.poll_runs = false;
                        socket.pending += 1;
                        self.arrivals.push_back(Arrival::Connected { slot });
                    }
                }
                Some(Request::Receive) => self.note_receive(slot, result, flags),
                Some(Request::Send) => self.note_send(slot, result),
                Some(Request::Cancel) | None => {}
            }
        }
    }

    fn note_accept(&mut self, slot: usize, result: i32) {
        // SAFETY: the kernel has made this descriptor for us and told nobody else.
        let result = outcome(result).map(|fd| unsafe { OwnedFd::from_raw_fd(fd as i32) });
        self.running -= 1;
        if let Some(Slot::Door(door)) = self.slots.get_mut(slot) {
            door.accepting = false;
            door.pending += 1;
            self.arrivals.push_back(Arrival::Accepted { slot, result });
        }
    }

    fn note_receive(&mut self, slot: usize, result: i32, flags: u32) {
        let ended = !cqueue::more(flags);
        if ended {
            self.running -= 1;
        }
        let buffer = cqueue::buffer_select(flags);
        let Some(Slot::Socket(socket)) = self.slots.get_mut(slot) else {
            return;
        };
        if ended {
            socket.receive_runs = false;
            socket.stopping = false;
        }
        let arrival = match (outcome(result), buffer) {
            (Ok(count), Some(buffer)) if count > 0 => Arrival::Data { slot, buffer, count },
            (result, buffer) => {
                if let Some(buffer) = buffer {
                    self.pool.give(buffer);
                }
                match result {
                    Ok(_) => Arrival::Ended { slot, error: None },
                    // Asked to stop, out of buffers, or nothing there after all: begun again where it is wanted.
                    Err(error)
                        if matches!(
                            error.raw_os_error(),
                            Some(libc::ECANCELED | libc::ENOBUFS | libc::EAGAIN | libc::EINTR)
                        ) =>
                    {
                        return self.again(slot);
                    }
                    Err(error) => Arrival::Ended {
                        slot,
                        error: Some(error),
                    },
                }
            }
        };
        socket.pending += 1;
        self.arrivals.push_back(arrival);
    }

    /// After a receive without a result. Not begun here: the buffers that it lacked are still to be read.
    fn again(&mut self, slot: usize) {
        self.list(slot);
    }

    fn note_send(&mut self, slot: usize, result: i32) {
        self.running -= 1;
        let Some(Slot::Socket(socket)) = self.slots.get_mut(slot) else {
            return;
        };
        socket.sent(outcome(result), &mut self.spare);
        if matches!(socket.state, State::Dead) {
            return self.settle(slot);
        }
        let news = socket.drained || socket.failed.is_some() || !socket.is_open();
        if socket.failed.is_none() && socket.unsent() > 0 {
            self.start_send(slot);
        }
        if news {
            self.list(slot);
        }
    }
}

/// A completion's result as the standard library puts it.
fn outcome(result: i32) -> io::Result<usize> {
    usize::try_from(result).map_err(|_| io::Error::from_raw_os_error(-result))
}

impl Drop for Uring {
    fn drop(&mut self) {
        // The kernel may use buffers of ours until each request is done.
        let slots: Vec<usize> = self.slots.iter().map(|(slot, _)| slot).collect();
        for slot in slots {
            self.cancel_all(slot);
        }
        for _ in 0..STOP_ROUNDS_MAX {
            if self.running == 0 || self.wait(Some(STOP_WAIT)).is_err() {
                break;
            }
            self.reap();
        }
        if self.running > 0 {
            // Better lost than written to later.
            std::mem::forget(std::mem::take(&mut self.slots));
            std::mem::forget(std::sync::Arc::clone(&self.pool));
        }
    }
}
