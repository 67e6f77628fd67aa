//! A real block device or file, accessed with direct I/O.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Seek as _, SeekFrom};
use std::os::unix::fs::{FileExt as _, FileTypeExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use headlong_disk::{Direction, Request, SECTOR_BYTES};
use headlong_random::Generator;
use headlong_units::{Bytes, Duration};
use rustix::fs::OFlags;

use super::error::ProbeError;
use super::loop_devices::{folder, loops_over};
use super::seeks::BYTES_MIN;
use super::target::Target;
use super::unwritten::unwritten_bytes;

/// Alignment of memory and of requests to files: no device has larger blocks than a page.
const ALIGNMENT: usize = 4096;

/// A file is not measured if more than one in this many bytes was never written.
const UNWRITTEN_MAX: u64 = 100;

/// The kernel's information about a device.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct DeviceFacts {
    /// Whether it rotates; `None` if the kernel does not report it.
    pub rotational: Option<bool>,
    /// Rotations per minute, if the drive reports them (SCSI and SATA, page B1 of its vital product
    /// data).
    pub rpm: Option<u32>,
    /// The manufacturer's name of the model.
    pub model: Option<String>,
    /// Smallest readable or writable unit.
    pub block_bytes: Option<u64>,
}

impl DeviceFacts {
    /// The facts of the device with this number, from sysfs.
    fn of(sys: &Path, device: u64) -> Self {
        let Some(mut directory) = folder(sys, device) else {
            return Self::default();
        };
        // A partition's disk is one directory up.
        if directory.join("partition").exists() {
            directory.pop();
        }
        let read = |path: &str| fs::read_to_string(directory.join(path)).ok();
        let number = |path: &str| read(path)?.trim().parse::<u64>().ok();
        let page = fs::read(directory.join("device/vpd_pgb1")).unwrap_or_default();
        let model = read("device/model").map(|model| model.trim().to_string());
        Self {
            rotational: number("queue/rotational").map(|flag| flag != 0),
            rpm: rotation_rate(&page),
            model: model.filter(|model| !model.is_empty()),
            block_bytes: number("queue/logical_block_size"),
        }
    }
}

/// MEDIUM ROTATION RATE of the block device characteristics page (SBC-4 6.6.2): 1 means
/// non-rotating, up to 0x400 is reserved.
fn rotation_rate(page: &[u8]) -> Option<u32> {
    let bytes: [u8; 2] = page.get(4..6)?.try_into().ok()?;
    match u16::from_be_bytes(bytes) {
        rate @ 0x401..=0xfffe => Some(rate.into()),
        _ => None,
    }
}

/// A device or file that is open for direct I/O.
#[derive(Debug)]
pub struct DeviceTarget {
    path: PathBuf,
    file: File,
    facts: DeviceFacts,
    /// Its size, and the size of its whole blocks.
    size_bytes: u64,
    bytes: u64,
    block_bytes: u64,
    buffer: AlignedBuffer,
}

impl DeviceTarget {
    /// Opens it for reading.
    ///
    /// # Errors
    /// If it is neither block device nor file, cannot be read, or has no direct I/O.
    pub fn open(path: &Path) -> Result<Self, ProbeError> {
        Self::open_with(path, OpenOptions::new().read(true), OFlags::DIRECT)
    }

    /// Opens it for writing, exclusively: the kernel refuses a device that is mounted, in part or
    /// whole, or used by another; it does not refuse one below a loop device, or a file.
    ///
    /// # Errors
    /// As [`Self::open`], and if the device or the file is in use or read-only.
    pub fn open_for_writing(path: &Path) -> Result<Self, ProbeError> {
        let metadata = kind(path)?;
        let is_device = metadata.file_type().is_block_device();
        let sys = Path::new("/sys");
        let loops = loops_over(sys, &metadata);
        if !loops.is_empty() {
            let over = |(name, number): (String, u64)| match mounts(number).as_slice() {
                [] => format!("below /dev/{name}"),
                points => format!("below /dev/{name}, mounted on {}", points.join(", ")),
            };
            let users: Vec<String> = loops.into_iter().map(over).collect();
            return Err(ProbeError::in_use(path, &users));
        }
        if is_device && is_read_only(sys, metadata.rdev()) {
            let text = "is read-only; `blockdev --setrw` may change that, or probe without --write";
            return Err(ProbeError::of(path, text));
        }
        let alone = if is_device {
            OFlags::EXCL
        } else {
            OFlags::empty()
        };
        let mut options = OpenOptions::new();
        Self::open_with(path, options.read(true).write(true), OFlags::DIRECT | alone)
    }

    fn open_with(
        path: &Path,
        options: &mut OpenOptions,
        flags: OFlags,
    ) -> Result<Self, ProbeError> {
        let metadata = kind(path)?;
        let is_device = metadata.file_type().is_block_device();
        // The flags of open(2) are an int.
        let flags = i32::try_from(flags.bits()).unwrap_or(0);
        let opened = options.custom_flags(flags).open(path);
        let mut file = opened.map_err(|error| refused(path, &metadata, error))?;
        let bytes = file.seek(SeekFrom::End(0));
        let bytes = bytes.map_err(|error| refused(path, &metadata, error))?;
        let device = if is_device {
            metadata.rdev()
        } else {
            metadata.dev()
        };
        let facts = DeviceFacts::of(Path::new("/sys"), device);
        // The block size of a file depends on its file system; a page is right for all of them.
        let block_bytes = match facts.block_bytes {
            Some(block_bytes) if is_device => block_bytes.max(SECTOR_BYTES),
            _ => ALIGNMENT as u64,
        };
        Ok(Self {
            path: path.to_path_buf(),
            size_bytes: bytes,
            bytes: bytes / block_bytes * block_bytes,
            block_bytes,
            buffer: AlignedBuffer::default(),
            file,
            facts,
        })
    }

    /// The kernel's information about it; for a file, about its device.
    pub fn facts(&self) -> &DeviceFacts {
        &self.facts
    }

    /// Checks whether a measurement is meaningful.
    ///
    /// # Errors
    /// If it is too small, or a file with many unwritten bytes: these are read without the disk.
    pub fn check(&self) -> Result<(), ProbeError> {
        if self.bytes < BYTES_MIN {
            let name = self.path.display();
            return Err(ProbeError::too_small(name, self.size_bytes, BYTES_MIN));
        }
        let is_file = self.file.metadata().is_ok_and(|file| file.is_file());
        if !is_file {
            return Ok(());
        }
        let unwritten = unwritten_bytes(&self.file, self.bytes);
        let unwritten = unwritten.map_err(|error| ProbeError::of(&self.path, error))?;
        if unwritten <= self.bytes / UNWRITTEN_MAX {
            return Ok(());
        }
        let text = format!(
            "{} of {} were never written, and are read without the disk; write them first, such as \
             with `shred -n 1`, or name a device or a file that is full",
            Bytes(unwritten),
            Bytes(self.bytes)
        );
        Err(ProbeError::of(&self.path, text))
    }

    /// The byte range of whole blocks that contain a request.
    fn blocks_of(&self, request: &Request) -> (u64, u64) {
        let start = request.sector * SECTOR_BYTES / self.block_bytes * self.block_bytes;
        let end = (request.end() * SECTOR_BYTES).next_multiple_of(self.block_bytes);
        (start, end.saturating_sub(start))
    }
}

fn kind(path: &Path) -> Result<fs::Metadata, ProbeError> {
    let metadata = fs::metadata(path).map_err(|error| match error.kind() {
        io::ErrorKind::PermissionDenied => ProbeError::no_permission(path),
        _ => ProbeError::of(path, error),
    })?;
    let kind = metadata.file_type();
    let found = match kind {
        kind if kind.is_block_device() || kind.is_file() => return Ok(metadata),
        kind if kind.is_dir() => "a folder",
        kind if kind.is_char_device() => "a character device",
        _ => "another kind of file",
    };
    let text = format_args!("not a block device and not a file but {found}");
    Err(ProbeError::of(path, text))
}

fn refused(path: &Path, metadata: &fs::Metadata, error: io::Error) -> ProbeError {
    match error.kind() {
        io::ErrorKind::PermissionDenied => ProbeError::no_permission(path),
        // EINVAL means that the file system has no direct I/O.
        io::ErrorKind::InvalidInput => ProbeError::NoDirectIo(path.to_path_buf()),
        io::ErrorKind::ResourceBusy => match mounts(metadata.rdev()).as_slice() {
            [] => ProbeError::in_use(path, &[]),
            points => ProbeError::in_use(path, &[format!("mounted on {}", points.join(", "))]),
        },
        _ => ProbeError::of(path, error),
    }
}

/// Whether a device is read-only.
fn is_read_only(sys: &Path, device: u64) -> bool {
    let flag = folder(sys, device).and_then(|folder| fs::read_to_string(folder.join("ro")).ok());
    flag.is_some_and(|flag| flag.trim() == "1")
}

/// Mount points of a device and its partitions.
fn mounts(device: u64) -> Vec<String> {
    let link = |dev| folder(Path::new("/sys"), dev);
    let Some(whole) = link(device) else {
        return Vec::new();
    };
    let all = headlong_library::read_mounts(Path::new("/proc/self/mountinfo")).into_iter();
    let within = all.filter(|mount| link(mount.dev).is_some_and(|part| part.starts_with(&whole)));
    within
        .map(|mount| mount.point.display().to_string())
        .collect()
}

impl Target for DeviceTarget {
    fn sectors(&self) -> u64 {
        self.bytes / SECTOR_BYTES
    }

    fn perform(&mut self, request: Request) -> Result<Duration, ProbeError> {
        let (offset, bytes) = self.blocks_of(&request);
        let length = usize::try_from(bytes).unwrap_or(usize::MAX);
        let memory = self.buffer.of(length);
        let what = match request.direction {
            Direction::Read => "a read",
            Direction::Write => "a write",
        };
        let began = std::time::Instant::now();
        let done = match request.direction {
            // A file would grow.
            _ if offset + bytes > self.bytes => Err(io::ErrorKind::UnexpectedEof.into()),
            Direction::Read => self.file.read_exact_at(memory, offset),
            Direction::Write => self.file.write_all_at(memory, offset),
        };
        let elapsed = began.elapsed();
        done.map_err(|error| {
            let name = self.path.display();
            ProbeError::Failed(format!(
                "{name}: {what} of {bytes} bytes at byte {offset} failed: {error}"
            ))
        })?;
        Ok(Duration(
            u64::try_from(elapsed.as_nanos()).unwrap_or(u64::MAX),
        ))
    }
}

/// Page-aligned memory, as direct I/O needs. Filled with noise, since some SSDs are faster with
/// compressible data.
#[derive(Debug, Default)]
struct AlignedBuffer {
    memory: Vec<u8>,
    start: usize,
}

impl AlignedBuffer {
    fn of(&mut self, length: usize) -> &mut [u8] {
        if self.memory.len() < length + ALIGNMENT {
            let mut noise = Generator::new(0);
            let words = (length + ALIGNMENT).div_ceil(8);
            self.memory = (0..words)
                .flat_map(|_| noise.bits().to_le_bytes())
                .collect();
            self.start = self.memory.as_ptr().align_offset(ALIGNMENT).min(ALIGNMENT);
        }
        &mut self.memory[self.start..self.start + length]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffer_is_page_aligned_for_any_size() {
        let mut buffer = AlignedBuffer::default();
        for length in [512, 1 << 20, 4096, 3 << 20] {
            let memory = buffer.of(length);
            assert_eq!(
                (memory.len(), memory.as_ptr() as usize % ALIGNMENT),
                (length, 0)
            );
        }
    }

    #[test]
    fn rotation_rate_is_read_from_vital_product_data() {
        let page = |rate: u16| [&[0, 0xb1, 0, 0x3c], &rate.to_be_bytes()[..]].concat();
        assert_eq!(rotation_rate(&page(5400)), Some(5400));
        assert_eq!(rotation_rate(&page(1)), None);
        assert_eq!(rotation_rate(&[0, 0xb1]), None);
    }

    #[test]
    fn non_disk_is_refused_by_its_kind() {
        let folder = tempfile::tempdir().expect("a folder");
        for (path, words) in [
            (folder.path(), "but a folder"),
            (Path::new("/dev/null"), "but a character device"),
            (Path::new("/no/such/disk"), "/no/such/disk: No such file"),
        ] {
            let error = DeviceTarget::open(path).expect_err("not a disk");
            assert!(
                error.is_mistake() && error.to_string().contains(words),
                "{error}"
            );
        }
    }

    #[test]
    fn file_is_accessed_in_whole_blocks_past_the_cache() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("disk");
        fs::write(&path, vec![0; 1 << 20]).expect("written");
        let mut target = match DeviceTarget::open_for_writing(&path) {
            Ok(target) => target,
            Err(error @ ProbeError::NoDirectIo(_)) => {
                headlong_testkit::skip(
                    "a_file_is_read_and_written_past_the_cache",
                    &error.to_string(),
                );
                return;
            }
            Err(error) => panic!("{error}"),
        };
        assert_eq!(target.sectors(), 2048);
        let request = |sector, direction| Request {
            sector,
            sectors: 1,
            direction,
        };
        target
            .perform(request(9, Direction::Write))
            .expect("written");
        let content = fs::read(&path).expect("read");
        assert!(content[..4096].iter().all(|byte| *byte == 0));
        assert!(content[4096..8192].iter().any(|byte| *byte != 0));
        assert!(content[8192..].iter().all(|byte| *byte == 0));
        target
            .perform(request(2047, Direction::Read))
            .expect("read");
        let error = target.perform(request(4000, Direction::Read));
        assert!(error.is_err(), "a read beyond the end succeeded");
    }

    #[test]
    fn small_or_unwritten_file_is_not_measured() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("disk");
        fs::write(&path, [7; 1000]).expect("written");
        let mut target = match DeviceTarget::open(&path) {
            Ok(target) => target,
            Err(error @ ProbeError::NoDirectIo(_)) => {
                headlong_testkit::skip(
                    "small_or_unwritten_file_is_not_measured",
                    &error.to_string(),
                );
                return;
            }
            Err(error) => panic!("{error}"),
        };
        let told = target.check().expect_err("small").to_string();
        assert!(told.contains("1000 bytes are too few"), "{told}");
        let file = OpenOptions::new().write(true).open(&path).expect("there");
        file.set_len(128 << 20).expect("longer");
        target = DeviceTarget::open(&path).expect("opened");
        match target.check() {
            Err(error) => assert!(error.to_string().contains("were never written"), "{error}"),
            Ok(()) => headlong_testkit::skip(
                "small_or_unwritten_file_is_not_measured",
                "the file system does not report holes",
            ),
        }
    }
}
