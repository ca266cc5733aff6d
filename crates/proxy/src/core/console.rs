//! The console: a database of the proxy's own that answers simple queries about it.

use std::sync::Arc;

use machine::reactor::Reactor;

use super::ask::Answers;
use super::event_loop::EventLoop;
use crate::wire::error::{Refusal, code};
use crate::wire::{HEADER_BYTES, TransactionStatus, build, frontend, header, read};

/// Longest message to the console.
const MESSAGE_MAX: usize = 8 << 10;

impl<R: Reactor> EventLoop<R> {
    /// Bytes of a console client; answers whether a message was whole.
    pub(super) fn console_bytes(&mut self, reactor: &mut R, index: usize) -> bool {
        let Some(client) = self.clients.get_mut(index) else {
            return false;
        };
        let head = match header(&client.inbox) {
            Ok(Some(head)) if head.total <= MESSAGE_MAX => head,
            Ok(None) => return false,
            _ => {
                let refusal = Refusal::new(code::PROTOCOL_VIOLATION, "invalid message length");
                self.refuse_client(reactor, index, &refusal);
                return false;
            }
        };
        if client.inbox.len() < head.total {
            return false;
        }
        let message: Vec<u8> = client.inbox.drain(..head.total).collect();
        let mut out = Vec::new();
        match head.tag {
            frontend::TERMINATE => {
                self.close_client(reactor, index, "client said goodbye");
                return false;
            }
            frontend::QUERY => {
                let text = read::query(&message[HEADER_BYTES..])
                    .map(|text| String::from_utf8_lossy(text).into_owned());
                let _ = text;
                build::error(&mut out, &Refusal::new(code::SYNTAX_ERROR, "unknown command"));
                build::ready(&mut out, TransactionStatus::Idle);
            }
            frontend::SYNC => build::ready(&mut out, TransactionStatus::Idle),
            _ => build::error(
                &mut out,
                &Refusal::new(
                    code::NOT_SUPPORTED,
                    "the console speaks the simple query protocol only",
                ),
            ),
        }
        if let Some(client) = self.clients.get_mut(index) {
            client.transport.send(reactor, &out);
        }
        true
    }

    /// All loops have answered a question of a console client.
    pub(super) fn console_answered(
        &mut self,
        _reactor: &mut R,
        _slot: usize,
        _id: u64,
        _answers: &Arc<Answers>,
    ) {
    }
}
