//! A client's bytes: read on its way in elsewhere (`entrance`); once it is logged in, served at once or kept until they can be.

use corun_net::reactor::Reactor;

use crate::core::classify::request::{First, Request};
use crate::core::client::Phase;
use crate::core::event_loop::{EventLoop, Todo};
use crate::core::stages::Halt;
use corun_wire::transport::Opened;

impl<R: Reactor> EventLoop<R> {
    /// What a client's socket has brought.
    pub(in crate::core) fn client_data(&mut self, reactor: &mut R, index: usize, bytes: &[u8]) {
        let Some(client) = self.clients.get_mut(index) else {
            return;
        };
        client.since = self.now;
        if client.transport.tls.is_none() {
            return self.client_bytes(reactor, index, bytes);
        }
        let mut plain = std::mem::take(&mut self.plain);
        plain.clear();
        let opened = client.transport.open(reactor, bytes, &mut plain);
        if !plain.is_empty() {
            self.client_bytes(reactor, index, &plain);
        }
        self.plain = plain;
        match opened {
            Ok(Opened::Open) => {}
            Ok(Opened::Ended) => self.close_client(reactor, index, "client closed the connection"),
            Err(error) => {
                tracing::info!(%error, "TLS with a client failed");
                self.close_client(reactor, index, "TLS failed");
            }
        }
    }

    fn client_bytes(&mut self, reactor: &mut R, index: usize, bytes: &[u8]) {
        let Some(client) = self.clients.get_mut(index) else {
            return;
        };
        match client.phase {
            Phase::Ready => {
                if let Some(pool) = self.pools.get_mut(client.pool) {
                    pool.totals.received += bytes.len() as u64;
                }
                self.client_request(reactor, index, bytes);
            }
            Phase::Closing => {}
            _ => self.entrance_bytes(reactor, index, bytes),
        }
    }

    /// Bytes of a client that is logged in.
    fn client_request(&mut self, reactor: &mut R, index: usize, bytes: &[u8]) {
        let inbox_max = self.waiting_inbox_max();
        let Some(client) = self.clients.get_mut(index) else {
            return;
        };
        let server = client.server.and_then(|server| self.servers.get(server));
        let waits = client.waits() || server.is_some_and(|server| server.is_taken());
        if !waits && client.inbox.is_empty() {
            let used = self.serve(reactor, index, bytes);
            if used < bytes.len()
                && let Some(client) = self.clients.get_mut(index)
            {
                client.inbox = bytes[used..].to_vec();
                self.grew(reactor, bytes.len() - used);
            }
            return;
        }
        client.inbox.extend(bytes);
        if !waits {
            self.serve_soon(index);
        } else if client.inbox.len() > inbox_max && !client.paused {
            client.paused = true;
            reactor.pause(client.token());
        }
        self.grew(reactor, bytes.len());
    }

    /// Puts a client's waiting bytes on the list of what is done once the event is over.
    pub(in crate::core) fn serve_soon(&mut self, index: usize) {
        if let Some(client) = self.clients.get(index) {
            self.todo.push_back(Todo::Serve(index, client.id));
        }
    }

    /// Serves what a client's inbox holds, if the client still is there and does not wait.
    pub(in crate::core) fn serve_inbox(&mut self, reactor: &mut R, index: usize, id: u64) {
        let inbox_max = self.waiting_inbox_max();
        let Some(client) = self.clients.get_mut(index) else {
            return;
        };
        if client.id != id || client.waits() || !client.is_ready() {
            return;
        }
        let mut inbox = std::mem::take(&mut client.inbox);
        let used = self.serve(reactor, index, &inbox);
        let Some(client) = self.clients.get_mut(index) else {
            return;
        };
        if client.id != id {
            return;
        }
        if used < inbox.len() {
            inbox.drain(..used);
            client.inbox = inbox;
        }
        let blocked = client.waits() && client.inbox.len() > inbox_max;
        let behind = client
            .server
            .and_then(|server| self.servers.get(server))
            .is_some_and(|server| reactor.queued(server.token()) > 0);
        if client.paused && !blocked && !behind {
            client.paused = false;
            reactor.resume(client.token());
        }
    }

    /// Goes through a client's messages. Returns how many bytes are done with; the rest is kept by the caller, if the client still is
    /// there.
    fn serve(&mut self, reactor: &mut R, index: usize, bytes: &[u8]) -> usize {
        let Some(client) = self.clients.get_mut(index) else {
            return bytes.len();
        };
        let mut first = First::known(client.first.take());
        if let Some(server) = client.server {
            self.lingers_no_more(server);
            self.judge(index);
        }
        let mut at = 0;
        loop {
            let Some(client) = self.clients.get(index) else {
                return bytes.len();
            };
            let mut request = Request {
                client: index,
                bytes: &bytes[at..],
                rules: self.rules(client),
                first,
            };
            let halt = self.go(reactor, &mut request);
            first = request.first;
            let used = match halt {
                Halt::Done(used) => {
                    at += used;
                    first = First::default();
                    continue;
                }
                Halt::Gone => return bytes.len(),
                Halt::Leave(used) => {
                    if let Some(server) = self.clients.get(index).and_then(|client| client.server) {
                        self.part(reactor, server, index);
                    }
                    used
                }
                Halt::Wait(used) => used,
            };
            if used == 0
                && let Some(client) = self.clients.get_mut(index)
            {
                client.first = first.take();
            }
            return at + used;
        }
    }
}
