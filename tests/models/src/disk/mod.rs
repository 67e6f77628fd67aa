//! The modelled files of `server/serve/src/disk`, and the models.

#[path = "../../../../server/serve/src/disk/lock.rs"]
mod lock;
#[expect(dead_code, reason = "the server uses more of it than the models do")]
#[path = "../../../../server/serve/src/disk/mailbox.rs"]
mod mailbox;
pub mod models;

use crate::sync;
