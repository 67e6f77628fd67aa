//! Extended attributes of the tree, including POSIX ACLs.

use std::ffi::OsStr;
use std::fs::File;

use fuser::{Errno, ReplyXattr};
use rustix::fs::{getxattr, listxattr};
use rustix::io::{Errno as Kernel, Result};

use crate::tree::path_of;

/// Longest value or list that the kernel passes on (`XATTR_SIZE_MAX`, `XATTR_LIST_MAX`).
const BYTES_MAX: usize = 64 << 10;

/// The value of an attribute of an open file.
///
/// # Errors
/// `ENODATA` if there is no attribute of that name, or an ACL on a file system without ACLs;
/// otherwise the kernel's error.
pub(crate) fn value(open: &File, name: &OsStr) -> Result<Vec<u8>> {
    let mut value = vec![0; BYTES_MAX];
    let length = match getxattr(path_of(open), name, &mut value[..]) {
        // The kernel reads it to check permissions, and does not handle this error.
        Err(Kernel::OPNOTSUPP) if is_access_list(name) => return Err(Kernel::NODATA),
        read => read?,
    };
    value.truncate(length);
    Ok(value)
}

fn is_access_list(name: &OsStr) -> bool {
    name == "system.posix_acl_access" || name == "system.posix_acl_default"
}

/// The names of all attributes, each terminated by a NUL byte. Names in `trusted.` are shown to
/// root only.
///
/// # Errors
/// The kernel's error.
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

/// Replies with the bytes, or with their length if `size` is zero.
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
    fn values_and_names_of_an_open_file_are_read() {
        // Not on tmpfs, which may not support extended attributes.
        let file = tempfile::tempfile_in(env!("CARGO_MANIFEST_DIR")).expect("a file");
        fsetxattr(&file, "user.a", b"one", XattrFlags::empty()).expect("set");
        assert_eq!(value(&file, OsStr::new("user.a")).expect("there"), b"one");
        let missing = value(&file, OsStr::new("user.b"));
        assert_eq!(missing.expect_err("absent"), Errno::NODATA);
        assert_eq!(names(&file, false).expect("listed"), b"user.a\0");
    }

    #[test]
    fn acl_is_absent_where_acls_are_unsupported() {
        let file = File::open("/proc/self/status").expect("there");
        let error = |name: &str| value(&file, OsStr::new(name)).expect_err("it has none");
        assert_eq!(error("system.posix_acl_access"), Errno::NODATA);
        assert_eq!(error("system.posix_acl_default"), Errno::NODATA);
        assert_eq!(error("user.a"), Errno::OPNOTSUPP);
    }
}
