//! A device's reads: what they bring is judged as `Transfer::end` does.

use headlong_engine::{ReadCommand, ReadOutcome};

use super::Device;
use crate::around::Around;
use crate::check::Check;
use crate::disk::Reading;
use crate::files::Inode;
use crate::plant::Plant;

impl Device {
    pub(super) fn read(&mut self, around: &mut Around<'_>, command: ReadCommand) {
        around.note("read", [command.id.0, command.offset, command.length]);
        let piece = self.shard.config().piece_bytes;
        let leased = self.pool.lease(&command.slots).is_some();
        let fits = command.slots.len() as u64 * piece >= command.length && command.length > 0;
        around
            .oracle
            .expect(leased && fits, Check::Budget, around.now, || {
                format!("a read names memory that is in use or too little: {command:?}")
            });
        let identity = self
            .sources
            .get(&command.stream)
            .and_then(|source| source.parts.get(command.part as usize));
        let identity = identity.map(|(_, identity)| *identity);
        let (true, Some(identity)) = (leased, identity) else {
            around.oracle.fail(Check::Panic, around.now, || {
                format!("a read of an unknown stream: {command:?}")
            });
            self.impossible.push(command.id);
            return;
        };
        let inode = self.open_file(around, command.stream, command.part);
        let now = around.now;
        around.disk.submit(
            now,
            Reading {
                command,
                identity,
                inode,
                began: now,
            },
        );
    }

    /// A read ended: what it brought is judged as `Transfer::end` does.
    pub(crate) fn read_done(&mut self, around: &mut Around<'_>, reading: &Reading) {
        let outcome = self.carry_out(around, reading);
        let code = match outcome {
            ReadOutcome::Done => 0,
            ReadOutcome::Error => 1,
            ReadOutcome::Changed => 2,
            ReadOutcome::NoResources => 3,
        };
        around.note("read done", [reading.command.id.0, code, 0]);
        self.pool.release(&reading.command.slots);
        self.shard
            .handle_read_done(around.now, reading.command.id, outcome);
        self.settle(around);
    }

    fn carry_out(&mut self, around: &mut Around<'_>, reading: &Reading) -> ReadOutcome {
        let plant = around.plant;
        let inode = match reading.inode {
            Ok(inode) => inode,
            Err(outcome) => return outcome,
        };
        let size = reading.identity.size;
        let fails = around.disk.files.is_dead(inode) || around.disk.fails(reading, size);
        if fails {
            // They may hold anything.
            for slot in &reading.command.slots {
                self.pool.slot_mut(*slot).fill(0x5a);
            }
            return match plant {
                Some(Plant::ErrorSwallowed) => ReadOutcome::Done,
                _ => ReadOutcome::Error,
            };
        }
        let available = self.fill(around, reading, inode);
        let is_same = around.disk.files.identity(inode) == Some(reading.identity);
        if available < reading.command.length && plant != Some(Plant::ShortReadTaken) {
            let is_shorter = around
                .disk
                .files
                .current(inode)
                .is_none_or(|of| of.size < reading.command.offset + reading.command.length);
            return match is_shorter || !is_same {
                true => ReadOutcome::Changed,
                false => ReadOutcome::Error,
            };
        }
        let is_believed =
            is_same || matches!(plant, Some(Plant::VersionUnchecked | Plant::ShortReadTaken));
        match is_believed {
            true => ReadOutcome::Done,
            false => ReadOutcome::Changed,
        }
    }

    /// Puts bytes into the slots: some as they were when the read began, some as they are. Answers
    /// how many there were.
    fn fill(&mut self, around: &mut Around<'_>, reading: &Reading, inode: Inode) -> u64 {
        let ReadCommand {
            offset,
            length,
            slots,
            ..
        } = &reading.command;
        let piece = self.shard.config().piece_bytes;
        let early = around.disk.chance.0.below(slots.len() as u64 + 1) as usize;
        let mut available = *length;
        let count = slots.len();
        for index in 0..count {
            let at = offset + index as u64 * piece;
            let time = if index < early {
                reading.began
            } else {
                around.now
            };
            let Some(version) = around.disk.files.at(inode, time) else {
                return 0;
            };
            let wanted = piece.min(offset + length - at);
            let there = version.size.saturating_sub(at).min(wanted);
            let slot = match around.plant {
                Some(Plant::SlotsReversed) => slots[count - 1 - index],
                _ => slots[index],
            };
            let fits = (there as usize).min(self.pool.slot(slot).len());
            version.key.fill(at, &mut self.pool.slot_mut(slot)[..fits]);
            if there < wanted {
                available = available.min(at + there - offset);
            }
        }
        available
    }
}
