//! The modelled files of `server/serve/src/disk`, and the models.

#[path = "../../../../server/serve/src/disk/delegation_lock.rs"]
mod delegation_lock;
#[expect(dead_code, reason = "the server uses more of it than the models do")]
#[path = "../../../../server/serve/src/disk/mailbox.rs"]
mod mailbox;
pub mod models;

use crate::sync;
