//! Deception: the library that is preloaded into a program (`LD_PRELOAD`), as libception has it.
//!
//! The one idea: before a call that reads a file, look whether its bytes are in memory. If not, ask
//! the reception, which reads them and more, and wait for it for a bounded time. Then make the call
//! as the program made it, and return what it returns, `errno` too. So nothing that happens here
//! can change what a program sees but the time it takes. Of small files the order is the other way
//! round: how long their first call took tells for nothing whether they were in memory, and if not,
//! the reception is told, and reads the next ones.
//!
//! Invariants: what is remembered of a descriptor is a hint, and wrong hints cost time only. No
//! lock, no allocation and no open descriptor outlives a call, so signals, threads and forks need no
//! care. A program whose reception is absent pays for one look in [`memory::PAUSE_MS`]; one whose
//! reception takes and answers nothing, for waits that are further and further apart.
//!
//! Absent on purpose: an engine. What to read is the reception's to decide.
#![cfg_attr(
    test,
    expect(
        dead_code,
        reason = "tests do without the functions that take the place of libc's"
    )
)]

mod before;
mod client;
mod memory;
mod raw;
mod resident;
mod settings;
mod table;
