//! The modelled files of `server/storage`, and the models.

#[path = "../../../../server/storage/src/delegation_lock.rs"]
mod delegation_lock;
#[expect(dead_code, reason = "the server uses more of it than the models do")]
#[path = "../../../../server/storage/src/mailbox.rs"]
mod mailbox;
pub mod models;

use crate::sync;
