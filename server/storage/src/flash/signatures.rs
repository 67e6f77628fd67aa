//! Recognises existing data on a device by the signatures of file systems, partition tables and the
//! like.

use super::medium::Medium;

/// A signature: its meaning, offset and bytes.
type Signature = (&'static str, u64, &'static [u8]);

const MARKS: &[Signature] = &[
    ("a flash tier", 0, b"HLFLASH\0"),
    ("an XFS file system", 0, b"XFSB"),
    ("an encrypted volume (LUKS)", 0, b"LUKS\xba\xbe"),
    ("a squashfs file system", 0, b"hsqs"),
    ("a Ceph volume", 0, b"bluestore block device"),
    ("an NTFS file system", 3, b"NTFS    "),
    ("an exFAT file system", 3, b"EXFAT   "),
    ("a FAT file system", 0x36, b"FAT"),
    ("a FAT file system", 0x52, b"FAT32"),
    ("a partition table (GPT)", 512, b"EFI PART"),
    ("a partition table (GPT)", 4096, b"EFI PART"),
    ("a partition table or boot record", 510, b"\x55\xaa"),
    ("an LVM volume", 0, b"LABELONE"),
    ("an LVM volume", 512, b"LABELONE"),
    ("an LVM volume", 1024, b"LABELONE"),
    ("an LVM volume", 1536, b"LABELONE"),
    ("an F2FS file system", 1024, b"\x10\x20\xf5\xf2"),
    ("an ext2, ext3 or ext4 file system", 0x438, b"\x53\xef"),
    ("an HFS+ file system", 1024, b"H+"),
    ("a RAID member (md)", 0, b"\xfc\x4e\x2b\xa9"),
    ("a RAID member (md)", 4096, b"\xfc\x4e\x2b\xa9"),
    (
        "a bcache device",
        0x1018,
        b"\xc6\x85\x73\xf6\x4e\x1a\x45\xca",
    ),
    (
        "a bcachefs file system",
        0x1018,
        b"\xc6\x85\x73\xf6\x66\xce\x90\xa9\xd9\x6a\x60\xcf\x80\x3d\xf7\xef",
    ),
    ("swap space", 4086, b"SWAPSPACE2"),
    ("swap space", 65_526, b"SWAPSPACE2"),
    ("a CD image (ISO 9660)", 0x8001, b"CD001"),
    ("a JFS file system", 0x8000, b"JFS1"),
    ("a ReiserFS file system", 0x10034, b"ReIsEr"),
    ("a Btrfs file system", 0x10040, b"_BHRfS_M"),
];

/// Signatures that are searched near the end, at multiples of 512 bytes.
const AT_THE_END: &[(&str, &[u8])] = &[
    ("a RAID member (md)", b"\xfc\x4e\x2b\xa9"),
    ("a partition table (GPT)", b"EFI PART"),
];

const HEAD_BYTES: u64 = 256 << 10;
const ZFS: &[u8] = b"\x0c\xb1\xba\x00\0\0\0\0";

/// Returns what was recognised; `None` if nothing was.
pub(super) fn recognise(medium: &Medium) -> std::io::Result<Option<&'static str>> {
    let page = 4096;
    let mut head = vec![0; HEAD_BYTES.min(medium.bytes - medium.bytes % page) as usize];
    medium.read(0, &mut head)?;
    let marked = |bytes: &[u8], at: u64, mark: &[u8]| {
        let at = usize::try_from(at).unwrap_or(usize::MAX);
        bytes.get(at..).is_some_and(|rest| rest.starts_with(mark))
    };
    if let Some((what, ..)) = MARKS.iter().find(|(_, at, mark)| marked(&head, *at, mark)) {
        return Ok(Some(what));
    }
    let uberblocks = (128_u64 << 10..HEAD_BYTES).step_by(1024);
    if uberblocks.into_iter().any(|at| marked(&head, at, ZFS)) {
        return Ok(Some("a ZFS pool"));
    }
    let end = medium.bytes - medium.bytes % page;
    let mut tail = vec![0; (128 << 10).min(end) as usize];
    medium.read(end - tail.len() as u64, &mut tail)?;
    let at_the_end = AT_THE_END.iter().find(|(_, mark)| {
        let places = (0..tail.len() as u64).step_by(512);
        places.into_iter().any(|at| marked(&tail, at, mark))
    });
    if let Some((what, _)) = at_the_end {
        return Ok(Some(what));
    }
    // A file with content was made for some purpose.
    let is_empty = head.iter().all(|byte| *byte == 0);
    Ok((!medium.is_device && !is_empty).then_some("other data"))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::FileExt as _;

    use super::super::medium::AccessMode;
    use super::*;

    #[test]
    fn recognises_signatures_at_every_offset() {
        let file = tempfile::NamedTempFile::new().expect("a file");
        file.as_file().set_len(1 << 20).expect("room");
        let look = || {
            let medium = Medium::open(file.path(), AccessMode::Look).expect("opens");
            recognise(&medium).expect("reads")
        };
        assert_eq!(look(), None);
        let far = [
            ("a ZFS pool", (128 << 10) + 4096, ZFS),
            ("a partition table (GPT)", (1 << 20) - 512, &b"EFI PART"[..]),
            (
                "a RAID member (md)",
                (1 << 20) - (64 << 10),
                b"\xfc\x4e\x2b\xa9",
            ),
            ("other data", 77, b"x"),
        ];
        for (what, at, mark) in MARKS.iter().copied().chain(far) {
            file.as_file().write_all_at(mark, at).expect("written");
            assert_eq!(look(), Some(what), "signature at {at}");
            let nothing = vec![0; mark.len()];
            file.as_file().write_all_at(&nothing, at).expect("written");
        }
    }
}
