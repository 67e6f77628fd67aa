//! Identifiers of requested objects.

use serde::{Deserialize, Serialize};

/// A URL, as its index in the trace's table of objects.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ObjectId(pub u32);
