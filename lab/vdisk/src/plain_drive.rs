//! For tests of this crate: a drive that takes the same time for anything, one after the other.

use std::collections::VecDeque;

use headlong_drive::{Completion, Drive, Parts, Refusal, Request, RequestId};
use headlong_units::{Duration, Instant};

#[derive(Debug)]
pub(crate) struct PlainDrive {
    sectors: u64,
    depth: usize,
    service: Duration,
    queue: VecDeque<(RequestId, Request, Instant)>,
    free_at: Instant,
    done: VecDeque<Completion>,
}

impl PlainDrive {
    pub(crate) fn new(sectors: u64, depth: usize, service: Duration) -> Self {
        Self {
            sectors,
            depth,
            service,
            queue: VecDeque::new(),
            free_at: Instant::ZERO,
            done: VecDeque::new(),
        }
    }
}

impl Drive for PlainDrive {
    fn capacity_sectors(&self) -> u64 {
        self.sectors
    }

    fn queue_depth(&self) -> usize {
        self.depth
    }

    fn handle_request(
        &mut self,
        now: Instant,
        id: RequestId,
        request: Request,
    ) -> Result<(), Refusal> {
        if request.end() > self.sectors {
            return Err(Refusal::OutOfRange);
        }
        if self.queue.len() == self.depth {
            return Err(Refusal::QueueFull);
        }
        self.queue.push_back((id, request, now));
        Ok(())
    }

    fn handle_timeout(&mut self, now: Instant) {
        while let Some(ended) = self.poll_timeout().filter(|ended| *ended <= now) {
            let Some((id, request, _)) = self.queue.pop_front() else {
                return;
            };
            self.done.push_back(Completion {
                id,
                request,
                started: ended - self.service,
                ended,
                parts: Parts {
                    transfer: self.service,
                    ..Parts::default()
                },
                is_sequential: false,
            });
            self.free_at = ended;
        }
    }

    fn poll_completion(&mut self) -> Option<Completion> {
        self.done.pop_front()
    }

    fn poll_timeout(&self) -> Option<Instant> {
        let (_, _, arrived) = self.queue.front()?;
        Some(self.free_at.max(*arrived) + self.service)
    }
}
