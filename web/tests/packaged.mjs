// Reads titles that are made from MP4 files with other programs' parsers: hls-parser in its strict mode
// for playlists, mpd-parser for manifests, GPAC's mp4box.js for headers and segments. They must agree
// with each other: codecs, lengths, times, and that every segment of video begins with a key frame.
//
//     node packaged.mjs URL_OF_TITLE...

import assert from 'node:assert/strict';
import HLS from 'hls-parser';
import { createFile } from 'mp4box';
import { parse as parseManifest } from 'mpd-parser';

HLS.setOptions({ strictMode: true, silent: true });

/** Seconds by which times of a playlist may differ from those in segments. */
const ROUNDING = 0.002;

async function fetched(url) {
  const reply = await fetch(url);
  assert.equal(reply.status, 200, url);
  return reply;
}

const text = async (url) => (await fetched(url)).text();
const bytes = async (url) => (await fetched(url)).arrayBuffer();

/** Tracks of a rendition, and their samples in each segment, as mp4box.js reads them. */
async function read(init, segments) {
  const file = createFile();
  const faults = [];
  let tracks = [];
  file.onError = (module, message) => faults.push(`${module}: ${message}`);
  file.onReady = (info) => {
    assert.ok(info.isFragmented, init);
    tracks = info.tracks;
  };
  let place = 0;
  const append = (buffer) => {
    buffer.fileStart = place;
    place += buffer.byteLength;
    file.appendBuffer(buffer);
  };
  append(await bytes(init));
  assert.ok(tracks.length > 0, `${init}: no track`);
  const counts = [];
  for (const segment of segments) {
    append(await bytes(segment));
    counts.push(tracks.map(({ id }) => file.getTrackById(id).samples.length));
  }
  file.flush();
  assert.deepEqual(faults, [], init);
  const samples = ({ id }) => file.getTrackById(id).samples;
  return tracks.map((track, index) => {
    const all = samples(track);
    const bounds = [0, ...counts.map((count) => count[index])];
    const parts = segments.map((_, at) => all.slice(bounds[at], bounds[at + 1]));
    checkSamples(all, `${init}: track ${track.id}`);
    if (track.type === 'video') {
      for (const [at, part] of parts.entries()) {
        assert.ok(part.length === 0 || part[0].is_sync, `${segments[at]}: begins without a key frame`);
      }
    }
    return { codec: track.codec, type: track.type, timescale: track.timescale, parts };
  });
}

/** Decoding times are consecutive: a gap is the length of the sample before it. */
function checkSamples(samples, of) {
  for (const [at, sample] of samples.entries()) {
    assert.ok(sample.size >= 0 && sample.duration >= 0, `${of}: sample ${at}`);
    if (at > 0) {
      const before = samples[at - 1];
      assert.equal(sample.dts, before.dts + before.duration, `${of}: time of sample ${at}`);
    }
  }
}

/** Codecs are compared without the parts that a parser may leave out. */
const family = (codec) => codec.toLowerCase().split('.').slice(0, 2).join('.').replace('mp4a.40', 'mp4a');

function agree(listed, tracks, of) {
  const sorted = (codecs) => [...new Set(codecs.map(family))].sort();
  const found = tracks.map(({ codec }) => codec.replace(/^mp4a.*/, 'mp4a'));
  assert.deepEqual(sorted(found), sorted(listed.map((one) => one.replace(/^mp4a.*/, 'mp4a'))), of);
}

async function checkPlaylist(url, codecs) {
  const playlist = HLS.parse(await text(url));
  assert.ok(!playlist.isMasterPlaylist && playlist.endlist, url);
  const { segments } = playlist;
  const absolute = (uri) => new URL(uri, url).href;
  const init = absolute(segments[0].map.uri);
  const tracks = await read(init, segments.map(({ uri }) => absolute(uri)));
  agree(codecs, tracks, url);
  for (const { duration } of segments) {
    assert.ok(Math.round(duration) <= playlist.targetDuration, `${url}: ${duration}`);
  }
}

async function checkHls(title) {
  const url = `${title}/master.m3u8`;
  const master = HLS.parse(await text(url));
  assert.ok(master.isMasterPlaylist && master.variants.length > 0, url);
  const done = new Set();
  for (const variant of master.variants) {
    const codecs = variant.codecs.split(',');
    const sounds = variant.audio.filter(({ uri }) => uri !== undefined);
    // The codecs of a group of sounds are those that the variant's own playlist has not.
    const ofSounds = codecs.filter((codec) => !/^(avc|hvc|hev|av01|vp09)/.test(codec));
    const own = sounds.length > 0 ? codecs.filter((codec) => !ofSounds.includes(codec)) : codecs;
    for (const [uri, of] of [[variant.uri, own], ...sounds.map(({ uri }) => [uri, ofSounds])]) {
      if (done.has(uri)) continue;
      done.add(uri);
      await checkPlaylist(new URL(uri, url).href, of);
    }
  }
}

async function checkDash(title) {
  const url = `${title}/manifest.mpd`;
  const events = [];
  const manifest = parseManifest(await text(url), {
    manifestUri: url,
    eventHandler: ({ type, message }) => events.push(`${type}: ${message}`),
  });
  const sounds = Object.values(manifest.mediaGroups.AUDIO.audio ?? {}).flatMap(({ playlists }) => playlists);
  const all = [...manifest.playlists, ...sounds];
  assert.ok(all.length > 0, url);
  for (const { attributes, segments } of all) {
    const init = segments[0].map.resolvedUri;
    const tracks = await read(init, segments.map(({ resolvedUri }) => resolvedUri));
    assert.equal(tracks.length, 1, `${init}: DASH has one track in each representation`);
    agree(attributes.CODECS.split(','), tracks, init);
    const [{ parts, timescale }] = tracks;
    const begins = parts.map(([first]) => first.cts / timescale);
    for (const [at, { presentationTime, resolvedUri }] of segments.entries()) {
      if (at === 0) continue;
      const listed = presentationTime - segments[at - 1].presentationTime;
      const length = begins[at] - begins[at - 1];
      // The edit list leaves out the beginning of the first segment.
      const isRight = at === 1 ? listed <= length + ROUNDING : Math.abs(listed - length) < ROUNDING;
      assert.ok(isRight, `${resolvedUri}: after ${length} s, of which ${listed} are listed`);
    }
  }
}

let failed = 0;
for (const title of process.argv.slice(2)) {
  try {
    await checkHls(title);
    await checkDash(title);
  } catch (fault) {
    failed += 1;
    console.error(`${title}: ${fault.stack ?? fault}`);
  }
}
process.exitCode = failed > 0 ? 1 : 0;
