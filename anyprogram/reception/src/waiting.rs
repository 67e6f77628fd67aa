//! Requests in progress at one device, and who waits for them.

use std::collections::HashMap;

use headlong_protocol::Answer;

use crate::answering::Answering;
use crate::status::Counters;

/// One request.
#[derive(Debug)]
struct Waiting {
    bytes_left: u64,
    /// Nobody waits for what a program has read already.
    answering: Option<Answering>,
}

/// All of them.
#[derive(Debug, Default)]
pub(crate) struct AllWaiting(HashMap<u64, Waiting>);

impl AllWaiting {
    /// A request for so many bytes begins.
    pub(crate) fn begin(&mut self, id: u64, bytes: u64, answering: Option<Answering>) {
        let waiting = Waiting {
            bytes_left: bytes,
            answering,
        };
        self.0.insert(id, waiting);
    }

    /// So many bytes of it are there.
    pub(crate) fn brought(&mut self, id: u64, bytes: u64, counters: &Counters) {
        if let Some(waiting) = self.0.get_mut(&id) {
            waiting.bytes_left = waiting.bytes_left.saturating_sub(bytes);
            if waiting.bytes_left == 0 {
                self.end(id, Answer::Ready, counters);
            }
        }
    }

    /// It ends without its bytes: whoever waits goes on.
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
