//! Requests in progress at one device, and the calls that wait for them.

use std::collections::HashMap;

use headlong_protocol::Answer;

use crate::pending_answer::PendingAnswer;
use crate::status::Counters;

/// One request.
#[derive(Debug)]
struct WaitingRequest {
    bytes_left: u64,
    /// `None` for a note: the program has read the bytes already.
    answering: Option<PendingAnswer>,
}

/// All requests in progress.
#[derive(Debug, Default)]
pub(crate) struct WaitingRequests(HashMap<u64, WaitingRequest>);

impl WaitingRequests {
    /// Starts a request for `bytes` bytes.
    pub(crate) fn begin(&mut self, id: u64, bytes: u64, answering: Option<PendingAnswer>) {
        let waiting = WaitingRequest {
            bytes_left: bytes,
            answering,
        };
        self.0.insert(id, waiting);
    }

    /// Further bytes of a request have arrived.
    pub(crate) fn brought(&mut self, id: u64, bytes: u64, counters: &Counters) {
        if let Some(waiting) = self.0.get_mut(&id) {
            waiting.bytes_left = waiting.bytes_left.saturating_sub(bytes);
            if waiting.bytes_left == 0 {
                self.end(id, Answer::Ready, counters);
            }
        }
    }

    /// A request failed: its call continues without the bytes.
    pub(crate) fn fail(&mut self, id: u64, counters: &Counters) {
        self.end(id, Answer::GoOn, counters);
    }

    fn end(&mut self, id: u64, answer: Answer, counters: &Counters) {
        let waiting = self.0.remove(&id);
        if let Some(answering) = waiting.and_then(|waiting| waiting.answering) {
            counters.answered(answer, answering.answer(answer));
        }
    }
}
