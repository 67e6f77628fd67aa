//! The simulated host of a device core: traces and checks the core's actions, and forwards them to
//! the simulated disk and SSDs.

use std::collections::BTreeMap;
use std::rc::Rc;

use headlong_device::flash::{BlockJob, SsdJob};
use headlong_device::{
    FileRead, Host, LookupJob, LookupProgress, Notice, OpenJob, OpenProgress, ReadyPiece, SlotBusy,
};
use headlong_engine::{Failure, RequestId, Slot, StreamId};
use headlong_flash::format::{RecordName, encode_record, padded_bytes};
use headlong_flash::{RecordEntry, SsdId};
use headlong_units::Instant;

use crate::check::{Check, Checker};
use crate::disk::{ReadCall, SimulatedDisk};
use crate::files::Inode;
use crate::resources::{SimulatedResources, SlotLease, SlotPool, StreamSource};
use crate::ssd::SimulatedSsd;
use crate::trace::EventTrace;

/// The environment of one device.
pub(crate) struct DeviceEnv<'a> {
    pub(crate) now: Instant,
    pub(crate) wall_ns: i64,
    pub(crate) number: usize,
    pub(crate) disk: &'a mut SimulatedDisk,
    pub(crate) ssds: &'a mut [SimulatedSsd],
    pub(crate) oracle: &'a mut Checker,
    pub(crate) trace: &'a mut EventTrace,
}

impl DeviceEnv<'_> {
    /// Seconds since 1970, by the wall clock.
    pub(crate) fn wall_s(&self) -> u64 {
        u64::try_from(self.wall_ns / 1_000_000_000).unwrap_or(0)
    }

    pub(crate) fn note(&mut self, what: &'static str, of: [u64; 3]) {
        self.trace.add(self.now, Some(self.number), what, of);
    }
}

/// A piece that the socket has not accepted yet.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PendingPiece {
    pub(crate) request: RequestId,
    pub(crate) slot: Slot,
    pub(crate) start: u32,
    pub(crate) end: u32,
    /// Offset of its first byte in the file, once its reply is known.
    pub(crate) offset: u64,
}

/// An event for a reply.
#[derive(Debug, Clone, Copy)]
pub(crate) enum ReplyEvent {
    Piece(PendingPiece),
    Failed {
        request: RequestId,
        failure: Failure,
    },
}

/// State of a device outside of its core.
#[derive(Debug)]
pub(crate) struct HostState {
    pub(crate) pool: SlotPool,
    pub(crate) outs: Vec<ReplyEvent>,
    /// SSD numbers by position in the tier.
    pub(crate) order: Vec<usize>,
    /// Bytes written to SSDs.
    pub(crate) flash_bytes: u64,
    /// The last sequence number of each SSD.
    pub(crate) sequences: BTreeMap<usize, u64>,
}

/// The host during a call of the core.
pub(crate) struct SimulatedHost<'m, 'a> {
    pub(crate) around: &'m mut DeviceEnv<'a>,
    pub(crate) own: &'m mut HostState,
}

impl SimulatedHost<'_, '_> {
    fn fail(&mut self, check: Check, text: impl FnOnce() -> String) {
        self.around.oracle.fail(check, self.around.now, text);
    }

    /// Records a job that changes blocks in the ledger.
    fn note_block(&mut self, ssd: usize, job: &BlockJob) {
        let now = self.around.now;
        let tier = self.around.ssds[ssd].drive.tier;
        let ledger = &mut self.around.ssds[ssd].drive.ledger;
        let BlockJob::Seal(seal) = job else {
            let (BlockJob::Empty { block } | BlockJob::GiveUp { block }) = job else {
                return;
            };
            ledger.give_up(*block);
            return self.around.note("drop", [u64::from(*block), 0, 0]);
        };
        let head = seal.summary.head;
        let is_new = ledger.give(&seal.summary);
        let rest = tier.layout.block_bytes() - seal.from;
        self.own.flash_bytes += u64::from(rest) + tier.layout.checkpoint_bytes() + 4096;
        let last = self.own.sequences.entry(ssd).or_insert(0);
        let before = std::mem::replace(last, head.sequence);
        let oracle = &mut self.around.oracle;
        oracle.expect(is_new, Check::RecordIdentity, now, || {
            format!(
                "{:?} uses filling {} for the second time",
                seal.of, head.filling
            )
        });
        oracle.expect(head.sequence > before, Check::Sequence, now, || {
            format!(
                "{:?} is sealed with sequence {} after {before}",
                seal.of, head.sequence
            )
        });
        self.around
            .note("seal", [seal.of.0.into(), head.sequence, 0]);
    }
}

impl Host<SimulatedResources> for SimulatedHost<'_, '_> {
    fn lease(&mut self, _: Option<StreamId>, slots: &[Slot], length: u64) -> Option<SlotLease> {
        let leased = self.own.pool.lease(slots)?;
        (leased.capacity() >= length && length > 0).then_some(leased)
    }

    fn vacate(&mut self, slot: Slot) {
        if self.own.pool.is_used(slot) {
            self.fail(Check::Budget, || {
                format!("{slot:?} is returned to the system while in use")
            });
        }
    }

    fn open(&mut self, job: OpenJob<Rc<StreamSource>>) -> OpenProgress<Inode> {
        self.around
            .note("open", [job.id.stream.0, job.id.part.into(), 0]);
        self.around.disk.open(self.around.now, job)
    }

    fn look_up(&mut self, job: LookupJob<Rc<StreamSource>, Inode>) -> LookupProgress {
        self.around
            .note("look up", [job.id.stream.0, job.id.part.into(), 0]);
        self.around.disk.look_up(self.around.now, job.id)
    }

    fn close(&mut self, files: Vec<Inode>) {
        self.around.note("close", [files.len() as u64, 0, 0]);
    }

    fn read(&mut self, read: FileRead<SimulatedResources>) {
        let job = &read.job;
        self.around.note("read", [job.id.0, job.offset, job.length]);
        let began = self.around.now;
        self.around.disk.submit(began, ReadCall { read, began });
    }

    fn forget(&mut self, stream: StreamId) {
        self.around.note("forget", [stream.0, 0, 0]);
    }

    fn lasting_name(&self, _: StreamId, _: &Rc<StreamSource>) -> Option<u64> {
        None
    }

    fn deliver(&mut self, (): &mut (), piece: &ReadyPiece) -> Result<(), SlotBusy> {
        let ReadyPiece {
            request,
            slot,
            start,
            end,
            ..
        } = *piece;
        self.own.pool.view(slot).ok_or(SlotBusy)?;
        let bytes = u64::from(end - start);
        self.around.note("piece", [request.0, slot.0.into(), bytes]);
        self.own.outs.push(ReplyEvent::Piece(PendingPiece {
            request,
            slot,
            start,
            end,
            offset: 0,
        }));
        Ok(())
    }

    fn fail(&mut self, (): &mut (), request: RequestId, failure: Failure) {
        self.around.note("failed", [request.0, failure as u64, 0]);
        self.own.outs.push(ReplyEvent::Failed { request, failure });
    }

    fn stage(&mut self, name: &RecordName, slot: Slot) -> Option<Vec<u8>> {
        let of = [name.block.into(), name.length.into(), slot.0.into()];
        self.around.note("stage", of);
        if self.own.pool.is_leased(slot) {
            return None;
        }
        let content = self.own.pool.bytes(slot, 0..name.length);
        let mut record = vec![0; padded_bytes(name.length) as usize];
        encode_record(name, &content, &mut record)?;
        let mut ssds = self.around.ssds.iter_mut();
        let ssd = ssds.find(|ssd| ssd.drive.tier.device == name.device)?;
        let entry = RecordEntry {
            piece: name.piece,
            offset: name.offset,
            length: name.length,
        };
        ssd.drive.ledger.stage(name.block, name.filling, entry);
        Some(record)
    }

    fn submit(&mut self, ssd: SsdId, job: SsdJob<SimulatedResources>) {
        let Some(ssd) = self.own.order.get(usize::from(ssd.0)).copied() else {
            return;
        };
        match &job {
            SsdJob::Write(job) => {
                self.own.flash_bytes += u64::from(job.to - job.from);
                let of = [job.of.0.into(), job.from.into(), job.to.into()];
                self.around.note("flash write", of);
            }
            SsdJob::Block(job) => self.note_block(ssd, job),
            SsdJob::Read(job) => {
                let of = [job.id.0, job.wanted.len() as u64, 0];
                self.around.note("flash read", of);
            }
            SsdJob::Probe(id) => self.around.note("probe", [id.0.into(), 0, 0]),
        }
        let (now, disk) = (self.around.now, self.around.number);
        self.around.ssds[ssd].submit(now, disk, job);
    }

    fn wall_seconds(&self) -> u64 {
        self.around.wall_s()
    }

    fn announce(&mut self, notice: Notice<'_>) {
        match notice {
            Notice::Ssd { ssd, state, .. } => {
                self.around.note("SSD is", [ssd.0.into(), state as u64, 0]);
            }
            Notice::FlashRefused(_)
            | Notice::ImpossibleRead(..)
            | Notice::PieceBusy(..)
            | Notice::RecordMissing(_)
            | Notice::ImpossibleFlashRead => {
                let check = match notice {
                    Notice::FlashRefused(_) => Check::Panic,
                    _ => Check::Budget,
                };
                self.fail(check, || format!("{notice:?}"));
            }
            Notice::DeviceBuffered => self.around.note("buffered", [0; 3]),
            Notice::TooManyFiles(closed) => {
                self.around.note("too many files", [closed as u64, 0, 0]);
            }
            Notice::Device { .. }
            | Notice::Size(_)
            | Notice::FlashReady(_)
            | Notice::FileBuffered => {}
        }
    }
}
