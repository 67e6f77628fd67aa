//! The init segment of a rendition: `ftyp` and a `moov` without samples, for fragments that follow.

use alloc::vec::Vec;

use headlong_media::mp4_boxes;

use crate::fault::PackageFault;
use crate::fields::{BoxWriter, require};
use crate::resource::Rendition;
use crate::title::{IndexedTrack, Title};

impl Title {
    /// The init segment of a rendition; `None` if there is none.
    ///
    /// # Errors
    /// A box of the file is broken.
    pub fn init(&self, rendition: Rendition) -> Result<Option<Vec<u8>>, PackageFault> {
        let Some(tracks) = self.tracks_of(rendition) else {
            return Ok(None);
        };
        let mut w = BoxWriter::default();
        w.boxed(b"ftyp", |w| {
            w.raw(b"iso6\0\0\0\0iso6mp41dashcmfc");
        });
        let mut written = Ok(());
        w.boxed(b"moov", |w| written = self.write_moov(w, &tracks));
        written?;
        Ok(Some(w.bytes))
    }

    fn write_moov(&self, w: &mut BoxWriter, tracks: &[&IndexedTrack]) -> Result<(), PackageFault> {
        let mvhd = require(&self.moov, b"mvhd")?.whole;
        without_duration(w, mvhd, [24, 32]);
        for of in tracks {
            let trak = &self.moov[of.track.whole.clone()];
            let mut written = Ok(());
            w.boxed(b"trak", |w| written = write_trak(w, of, trak));
            written?;
        }
        w.boxed(b"mvex", |w| {
            for of in tracks {
                w.full(b"trex", 0, 0, |w| {
                    w.u32(of.track.id).u32(of.track.table.description);
                    w.u32(0).u32(0).u32(0);
                });
            }
        });
        Ok(())
    }
}

fn write_trak(w: &mut BoxWriter, of: &IndexedTrack, trak: &[u8]) -> Result<(), PackageFault> {
    let trak = mp4_boxes(trak).next().transpose()?.map(|trak| trak.body);
    let trak = trak.unwrap_or_default();
    without_duration(w, require(trak, b"tkhd")?.whole, [28, 36]);
    let media_start = of.track.media_start + i64::from(of.track.composition_shift);
    if media_start != 0 {
        // The empty edit before it is part of the times of the fragments.
        w.boxed(b"edts", |w| {
            w.full(b"elst", 1, 0, |w| {
                w.u32(1).u64(0);
                w.u64(media_start as u64).u32(1 << 16);
            });
        });
    }
    let mdia = require(trak, b"mdia")?.body;
    let mut written = Ok(());
    w.boxed(b"mdia", |w| written = write_mdia(w, mdia));
    written
}

fn write_mdia(w: &mut BoxWriter, mdia: &[u8]) -> Result<(), PackageFault> {
    without_duration(w, require(mdia, b"mdhd")?.whole, [24, 32]);
    w.raw(require(mdia, b"hdlr")?.whole);
    let minf = require(mdia, b"minf")?.body;
    let mut written = Ok(());
    w.boxed(b"minf", |w| written = write_minf(w, minf));
    written
}

fn write_minf(w: &mut BoxWriter, minf: &[u8]) -> Result<(), PackageFault> {
    for child in mp4_boxes(minf) {
        let child = child?;
        if child.kind != *b"stbl" {
            w.raw(child.whole);
            continue;
        }
        let stsd = require(child.body, b"stsd")?.whole;
        w.boxed(b"stbl", |w| {
            w.raw(stsd);
            for kind in [b"stts", b"stsc", b"stco"] {
                w.full(kind, 0, 0, |w| {
                    w.u32(0);
                });
            }
            w.full(b"stsz", 0, 0, |w| {
                w.u32(0).u32(0);
            });
        });
    }
    Ok(())
}

/// Writes a header box whose duration is zero, because fragments follow; it is at one place in boxes
/// of version 0 and at another, and twice as long, in those of version 1.
fn without_duration(w: &mut BoxWriter, whole: &[u8], [short, long]: [usize; 2]) {
    let start = w.bytes.len();
    w.raw(whole);
    // Headers of these boxes have eight bytes in all real files; in others, nothing is wrong except
    // for a duration that players ignore.
    match whole.get(8) {
        Some(0) => w.patch(start + short, 0),
        _ => {
            w.patch(start + long, 0);
            w.patch(start + long + 4, 0);
        }
    }
}
