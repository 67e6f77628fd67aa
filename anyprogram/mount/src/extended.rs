//! Extended attributes, lists of access rights among them, as the tree has them.

use std::ffi::OsStr;
use std::fs::File;

use fuser::{Errno, ReplyXattr};
use rustix::fs::{getxattr, listxattr};
use rustix::io::{Errno as Kernel, Result};

use crate::tree::path_of;

/// Longest value or list that the kernel passes on (`XATTR_SIZE_MAX`, `XATTR_LIST_MAX`).
const BYTES_MAX: usize = 64 << 10;

/// The value of one, of what is open in any way.
///
/// # Errors
/// `ENODATA` if there is none of that name, also where there can be no lists of access rights; else
/// what the kernel says.
pub(crate) fn value(open: &File, name: &OsStr) -> Result<Vec<u8>> {
    let mut value = vec![0; BYTES_MAX];
    let length = match getxattr(path_of(open), name, &mut value[..]) {
        // The kernel asks for it to find out who may do what, and to it this is no answer.
        Err(Kernel::OPNOTSUPP) if is_access_list(name) => return Err(Kernel::NODATA),
        read => read?,
    };
    value.truncate(length);
    Ok(value)
}

fn is_access_list(name: &OsStr) -> bool {
    name == "system.posix_acl_access" || name == "system.posix_acl_default"
}

/// The names of all, each with a zero behind it. Those that only the system's administrator may see
/// are left out for others.
///
/// # Errors
/// What the kernel says.
pub(crate) fn names(open: &File, is_root: bool) -> Result<Vec<u8>> {
    let mut names = vec![0; BYTES_MAX];
    let length = listxattr(path_of(open), &mut names[..])?;
    names.truncate(length);
    if is_root {
        return Ok(names);
    }
    let shown = names
        .split_inclusive(|byte| *byte == 0)
        .filter(|name| !name.starts_with(b"trusted."));
    Ok(shown.flatten().copied().collect())
}

/// Says it to who has room for `size` bytes, or only wants to know how many there are.
pub(crate) fn answer(reply: ReplyXattr, size: u32, bytes: &[u8]) {
    let length = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
    match size {
        0 => reply.size(length),
        room if room < length => reply.error(Errno::ERANGE),
        _ => reply.data(bytes),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::{XattrFlags, fsetxattr};
    use rustix::io::Errno;

    #[test]
    fn values_and_names_are_read_of_what_is_open() {
        // Not in memory: its file system may not have them.
        let file = tempfile::tempfile_in(env!("CARGO_MANIFEST_DIR")).expect("a file");
        fsetxattr(&file, "user.a", b"one", XattrFlags::empty()).expect("set");
        assert_eq!(value(&file, OsStr::new("user.a")).expect("there"), b"one");
        let missing = value(&file, OsStr::new("user.b"));
        assert_eq!(missing.expect_err("absent"), Errno::NODATA);
        assert_eq!(names(&file, false).expect("listed"), b"user.a\0");
    }

    #[test]
    fn where_there_are_no_lists_of_access_rights_no_file_has_one() {
        let file = File::open("/proc/self/status").expect("there");
        let error = |name: &str| value(&file, OsStr::new(name)).expect_err("it has none");
        assert_eq!(error("system.posix_acl_access"), Errno::NODATA);
        assert_eq!(error("system.posix_acl_default"), Errno::NODATA);
        assert_eq!(error("user.a"), Errno::OPNOTSUPP);
    }
}
