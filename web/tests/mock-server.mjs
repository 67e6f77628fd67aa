/**
 * A mock server, for work on these pages alone: the built pages, `/library.json` and `/status` on
 * one port, the files of a folder on another, with ranges and CORS. The numbers of `/status` come
 * from a small model of a disk swept by an elevator for paced viewers, so that they move
 * plausibly; bytes fetched by a browser are added to them.
 *
 *     node tests/mock-server.mjs FOLDER [--admin 8081] [--media 8080] [--viewers 40] [--devices 1]
 *
 * With --devices 3 the last one is failing. With an empty folder, the library is empty.
 */
import { createReadStream } from 'node:fs';
import { readdir, readFile, stat } from 'node:fs/promises';
import { createServer } from 'node:http';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';

const DIST = path.join(path.dirname(fileURLToPath(import.meta.url)), '..', 'dist');
const MIB = 1024 * 1024;
const TICK_S = 0.02;

const TYPES = {
  '.html': 'text/html; charset=utf-8',
  '.js': 'text/javascript; charset=utf-8',
  '.css': 'text/css; charset=utf-8',
  '.svg': 'image/svg+xml',
  '.woff2': 'font/woff2',
  '.jpg': 'image/jpeg',
  '.m3u8': 'application/vnd.apple.mpegurl',
  '.mpd': 'application/dash+xml',
  '.mp4': 'video/mp4',
  '.m4s': 'video/iso.segment',
  '.ts': 'video/mp2t',
};

const CORS = {
  'access-control-allow-origin': '*',
  'access-control-allow-headers': 'Range, CMCD-Request, CMCD-Object, CMCD-Status, CMCD-Session',
  'access-control-expose-headers': 'Content-Length, Content-Range, Accept-Ranges, ETag',
};

// ---- files ----

/** The file of a URL path inside a root, or null. */
async function find(root, url) {
  let name;
  try {
    name = decodeURIComponent(url.split('?')[0]);
  } catch {
    return null;
  }
  if (name.includes('\0')) return null;
  const file = path.join(root, path.normalize(name));
  if (!file.startsWith(root + path.sep)) return null;
  const info = await stat(file).catch(() => null);
  return info?.isFile() ? { file, size: info.size } : null;
}

async function serveFile(root, request, response, extra, sent) {
  if (request.method === 'OPTIONS') {
    response.writeHead(204, { ...extra, 'access-control-max-age': '86400' }).end();
    return;
  }
  const found = await find(root, request.url.split('?')[0] === '/' ? '/index.html' : request.url);
  if (found === null) {
    response.writeHead(404, { ...extra, 'content-type': 'text/plain' }).end('no such file\n');
    return;
  }
  const { file, size } = found;
  const headers = {
    ...extra,
    'content-type': TYPES[path.extname(file)] ?? 'application/octet-stream',
    'accept-ranges': 'bytes',
    'cache-control': 'no-cache',
  };
  const range = /^bytes=(\d*)-(\d*)$/.exec(request.headers.range ?? '');
  let first = 0;
  let last = size - 1;
  if (range !== null && (range[1] !== '' || range[2] !== '')) {
    if (range[1] === '') first = Math.max(0, size - Number(range[2]));
    else {
      first = Number(range[1]);
      if (range[2] !== '') last = Math.min(last, Number(range[2]));
    }
    if (first > last) {
      response.writeHead(416, { ...headers, 'content-range': `bytes */${size}` }).end();
      return;
    }
    headers['content-range'] = `bytes ${first}-${last}/${size}`;
  }
  headers['content-length'] = String(size === 0 ? 0 : last - first + 1);
  response.writeHead(headers['content-range'] === undefined ? 200 : 206, headers);
  if (request.method === 'HEAD' || size === 0) {
    response.end();
    return;
  }
  const stream = createReadStream(file, { start: first, end: last });
  stream.on('data', (chunk) => sent?.(chunk.length));
  stream.on('error', () => response.destroy());
  response.on('close', () => stream.destroy());
  stream.pipe(response);
}

// ---- library ----

async function walk(folder) {
  const entries = await readdir(folder, { withFileTypes: true });
  const nested = entries.map(async (entry) => {
    const name = path.join(folder, entry.name);
    return entry.isDirectory() ? walk(name) : [name];
  });
  return (await Promise.all(nested)).flat();
}

async function describeHls(file) {
  const master = await readFile(file, 'utf8');
  const rates = [...master.matchAll(/[:,]BANDWIDTH=(\d+)/g)].map((match) => Number(match[1]));
  const variant = master.split('\n').find((line) => line.trim() !== '' && !line.startsWith('#'));
  const media = variant?.includes('.m3u8')
    ? await readFile(path.join(path.dirname(file), variant.trim()), 'utf8').catch(() => '')
    : master;
  const lengths = [...media.matchAll(/#EXTINF:([\d.]+)/g)].map((match) => Number(match[1]));
  return { rates, duration: lengths.reduce((a, b) => a + b, 0) || null };
}

async function describeDash(file) {
  const manifest = await readFile(file, 'utf8');
  const rates = [...manifest.matchAll(/<Representation[^>]*\bbandwidth="(\d+)"/g)];
  const length = /mediaPresentationDuration="PT(?:(\d+)H)?(?:(\d+)M)?(?:([\d.]+)S)?"/.exec(manifest);
  const [hours, minutes, seconds] = (length ?? []).slice(1).map((part) => Number(part ?? 0));
  return {
    rates: rates.map((match) => Number(match[1])),
    duration: length === null ? null : hours * 3600 + minutes * 60 + seconds,
  };
}

/** Length of an MP4 from its mvhd box, found by a search; sufficient for samples. */
async function describeFile(file, size) {
  const data = await readFile(file);
  const at = data.indexOf('mvhd');
  if (at < 0 || data[at + 4] !== 0) return { rates: [], duration: null };
  const duration = data.readUInt32BE(at + 20) / data.readUInt32BE(at + 16);
  return { rates: duration > 0 ? [Math.round((8 * size) / duration)] : [], duration };
}

async function library(root) {
  const files = await walk(root);
  const titles = [];
  for (const file of files) {
    const folder = path.dirname(file);
    const base = path.basename(file);
    const beside = files.filter((other) => path.dirname(other) === folder);
    const chunked = beside.some((other) => /\.(m3u8|mpd)$/.test(other));
    const kind =
      base === 'master.m3u8' ? 'hls' : base.endsWith('.mpd') ? 'dash' : base.endsWith('.mp4') && !chunked ? 'file' : null;
    if (kind === null) continue;
    const size = (await stat(file)).size;
    const about = await { hls: describeHls, dash: describeDash, file: describeFile }[kind](file, size);
    const parts = kind === 'file' ? [file] : beside;
    const sizes = await Promise.all(parts.map(async (part) => (await stat(part)).size));
    const url = (name) => `/${path.relative(root, name).split(path.sep).map(encodeURIComponent).join('/')}`;
    const poster = path.join(folder, 'poster.jpg');
    titles.push({
      id: path.relative(root, file),
      name: kind === 'file' ? base.replace(/\.mp4$/, '') : path.basename(folder),
      kind,
      path: url(file),
      duration_s: about.duration,
      bit_rates_bps: about.rates,
      bytes: sizes.reduce((a, b) => a + b, 0),
      poster: beside.includes(poster) ? url(poster) : null,
      texts: [],
      packaged: kind === 'file',
    });
  }
  return { titles };
}

// ---- a disk with viewers ----

/** Seeded, so that every run shows the same values. */
function randomFrom(seed) {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}

/** At most `most` of them, evenly spaced. */
function thinned(all, most) {
  if (all.length <= most) return all;
  return Array.from({ length: most }, (_, index) => all[Math.floor((index * all.length) / most)]);
}

class Disk {
  constructor(index, viewers, root, titles) {
    this.random = randomFrom(index + 1);
    this.index = index;
    this.root = root;
    this.titles = titles;
    this.capacity = 4e12;
    this.reference = 4 * MIB;
    this.budget = 512 * MIB;
    this.head = 0.3 * this.capacity;
    this.up = true;
    this.current = null;
    this.read_bytes = 90 * MIB;
    this.counters = Object.fromEntries(
      ('requests requests_refused requests_failed bytes_requested bytes_sent bytes_from_ram bytes_from_flash bytes_from_disk reads ' +
        'reads_done read_errors bytes_read jobs job_bytes job_bytes_wanted jobs_merged jobs_late busy_seconds ' +
        'queue_job_seconds seek_bytes seeks prefetch_evicted_bytes prefetch_evictions prefetch_eviction_seconds ' +
        'wasted_bytes cache_evicted_bytes chains chains_refused')
        .split(' ')
        .map((name) => [name, 0]),
    );
    this.viewers = Array.from({ length: viewers }, () => this.newcomer());
    if (index === 2) this.counters.read_errors = 3;
  }

  newcomer() {
    this.counters.chains += 1;
    const rate = [0.8e6, 1.6e6, 2.5e6, 4.5e6, 8e6][Math.floor(this.random() * 5)];
    const known = this.titles[Math.floor(this.random() * this.titles.length)];
    const number = Math.floor(this.random() * 4000);
    return {
      viewer: Array.from({ length: 16 }, () => Math.floor(this.random() * 16).toString(16)).join(''),
      path: known !== undefined && this.random() < 0.1 ? known.path : `/archive/${1950 + (number % 70)}/film-${number}.mp4`,
      rate,
      place: this.random() * this.capacity * 0.94,
      length: 0,
      unread: 0,
      queued: null,
      left_s: 20 + this.random() * 400,
      prefetch: Math.round(this.reference * Math.sqrt(rate / 2.5e6)),
    };
  }

  /** Viewers read at their pace; those with little slack are queued. */
  tick(now_s) {
    const { counters } = this;
    this.viewers.forEach((viewer, index) => {
      const take = Math.min(viewer.unread, (viewer.rate / 8) * TICK_S * 1.02);
      viewer.unread -= take;
      viewer.length += take;
      this.read_bytes += take;
      counters.bytes_sent += take;
      counters.bytes_requested += take;
      const ram = viewer.length > 4 * MIB ? 0.97 : 0.4;
      counters.bytes_from_ram += take * ram;
      // The second disk has a flash tier.
      const flash = this.index === 1 ? 0.6 : 0;
      counters.bytes_from_flash += take * (1 - ram) * flash;
      counters.bytes_from_disk += take * (1 - ram) * (1 - flash);
      counters.requests += (take / MIB) * 2;
      viewer.left_s -= TICK_S;
      if (viewer.queued === null && (8 * viewer.unread) / viewer.rate < 14 && this.index !== 9) {
        viewer.queued = { at: viewer.place, deadline: now_s + (8 * viewer.unread) / viewer.rate };
      }
      if (viewer.left_s < 0 && this.current?.viewer !== viewer) {
        counters.wasted_bytes += viewer.unread;
        this.viewers[index] = this.newcomer();
      }
    });
    const queue = this.queue();
    counters.queue_job_seconds += queue.length * TICK_S;
    let left = TICK_S;
    while (left > 0) {
      if (this.current === null) this.begin(now_s);
      if (this.current === null) break;
      const used = Math.min(left, this.current.time_s);
      this.current.time_s -= used;
      counters.busy_seconds += used;
      left -= used;
      if (this.current.time_s <= 1e-9) this.end(now_s);
    }
    this.evict();
  }

  queue() {
    return this.viewers.filter((viewer) => viewer.queued !== null && this.current?.viewer !== viewer);
  }

  begin() {
    const ahead = (viewer) => (viewer.queued.at - this.head) * (this.up ? 1 : -1);
    let queue = this.queue();
    if (queue.length === 0) return;
    if (!queue.some((viewer) => ahead(viewer) >= 0)) this.up = !this.up;
    queue = queue.filter((viewer) => ahead(viewer) >= 0).sort((a, b) => ahead(a) - ahead(b));
    const viewer = queue[0];
    const bytes = Math.round(viewer.prefetch * (this.random() < 0.06 ? 0.4 : 1));
    const distance = Math.abs(viewer.queued.at - this.head);
    const slow = 1.6 - 0.7 * (viewer.queued.at / this.capacity);
    const seek_s = 0.002 + 0.014 * Math.sqrt(distance / this.capacity) + 0.004 * this.random();
    this.current = { viewer, bytes, time_s: seek_s + (bytes / 150e6) * slow, distance };
  }

  end(now_s) {
    const { viewer, bytes, distance } = this.current;
    const { counters } = this;
    counters.reads += 1;
    counters.reads_done += 1;
    counters.jobs += 1;
    counters.bytes_read += bytes;
    counters.job_bytes += bytes;
    counters.job_bytes_wanted += viewer.prefetch;
    counters.seek_bytes += distance;
    counters.seeks += 1;
    if (viewer.queued.deadline < now_s && viewer.length > 0) counters.jobs_late += 1;
    if (this.random() < 0.05) counters.jobs_merged += 1;
    viewer.unread += bytes;
    viewer.place += bytes;
    this.head = viewer.place;
    viewer.queued = null;
    this.current = null;
  }

  evict() {
    const unread = this.viewers.reduce((sum, viewer) => sum + viewer.unread, 0);
    const room = this.budget - unread - 40 * MIB;
    if (this.read_bytes > room) {
      this.counters.cache_evicted_bytes += this.read_bytes - room;
      this.read_bytes = Math.max(0, room);
    }
    if (room < 0 || this.random() < 0.002) {
      this.counters.prefetch_evictions += 1;
      this.counters.prefetch_evicted_bytes += MIB;
      this.counters.prefetch_eviction_seconds += 11;
    }
  }

  view(now_s) {
    const queue = this.queue();
    const unread = this.viewers.reduce((sum, viewer) => sum + viewer.unread, 0);
    const filling = this.current?.bytes ?? 0;
    const sending = Math.min(24 * MIB, this.viewers.length * 300_000 * (0.8 + 0.4 * this.random()));
    const free = Math.max(0, this.budget - unread - filling - sending - this.read_bytes);
    const shown = this.viewers.map((viewer) => ({
      viewer: viewer.viewer,
      path: viewer.path,
      bit_rate_bps: viewer.rate,
      pace_bps: Math.round(viewer.rate * 1.02),
      length_bytes: Math.round(viewer.length),
      unread_bytes: Math.round(viewer.unread),
      prefetch_bytes: viewer.prefetch,
      slack_ms: Math.round((8000 * viewer.unread) / viewer.rate),
    }));
    shown.sort((a, b) => a.slack_ms - b.slack_ms);
    const counters = Object.fromEntries(
      Object.entries(this.counters).map(([name, value]) => [name, /seconds/.test(name) ? value : Math.floor(value)]),
    );
    return {
      name: ['sda', 'sdb', 'sdc', 'sdd'][this.index] ?? `disk${this.index}`,
      roots: [this.root],
      state: this.index === 2 ? 'failing' : 'online',
      rotational: true,
      io: 'io_uring',
      capacity_bytes: this.capacity,
      policy: { name: 'square-root', reference_bytes: this.reference, reference_bit_rate_bps: 2_500_000 },
      order: 'deadline-elevator',
      retention: 'interval',
      ...(this.index === 1 && {
        flash: {
          is_recovering: false,
          capacity_bytes: 100e9,
          filled_bytes: 96e9,
          budget_bytes: 30e9,
          budget_left_bytes: 21e9,
          reads_wrong: 0,
          reads_failed: 3,
          ssds: [
            { path: '/dev/nvme0n1', state: 'online', read_ms: 0.2 },
            { path: '/dev/nvme1n1', state: 'slow', read_ms: 400 },
          ],
        },
      }),
      memory: {
        budget_bytes: this.budget,
        free_bytes: Math.round(free),
        filling_bytes: filling,
        sending_bytes: Math.round(sending),
        unread_bytes: Math.round(unread),
        read_bytes: Math.round(this.read_bytes),
      },
      queue: {
        jobs: queue.length,
        jobs_demanded: queue.filter((viewer) => viewer.unread < 1).length,
        jobs_overdue: queue.filter((viewer) => viewer.queued.deadline < now_s).length,
        outstanding_reads: this.current === null ? 0 : 1,
        head_physical_bytes: Math.round(this.head),
        positions_bytes: thinned(queue.map((viewer) => Math.round(viewer.queued.at)).sort((a, b) => a - b), 64),
      },
      counters,
      chains: { live: shown.length, shown: shown.slice(0, 200) },
    };
  }
}

// ---- servers ----

/** Starts both listeners; resolves to their addresses and a way to stop them. */
export async function start({ folder, admin = 0, media = 0, viewers = 40, devices = 1 }) {
  const root = path.resolve(folder);
  const started = Date.now();
  const began = performance.now();
  const { titles } = await library(root);
  const disks = Array.from({ length: devices }, (_, index) => new Disk(index, viewers, root, titles));
  const totals = { requests: 0, bytes_sent: 0 };
  let active = 0;
  let modelled_s = 0;
  // The model catches up with the clock in small steps, at most two seconds at once.
  const timer = setInterval(() => {
    const now_s = (performance.now() - began) / 1000;
    modelled_s = Math.max(modelled_s, now_s - 2);
    for (; modelled_s < now_s; modelled_s += TICK_S) for (const disk of disks) disk.tick(modelled_s);
  }, 50);

  const mediaServer = createServer((request, response) => {
    active += 1;
    totals.requests += 1;
    disks[0].counters.requests += 1;
    response.on('close', () => (active -= 1));
    void serveFile(root, request, response, CORS, (length) => {
      totals.bytes_sent += length;
      for (const name of ['bytes_sent', 'bytes_requested', 'bytes_from_ram']) disks[0].counters[name] += length;
    });
  });
  const address = (server) => `http://127.0.0.1:${server.address().port}`;
  const json = (response, value) =>
    response.writeHead(200, { 'content-type': 'application/json', 'cache-control': 'no-store' }).end(JSON.stringify(value));
  const adminServer = createServer(async (request, response) => {
    const name = request.url.split('?')[0];
    if (name === '/library.json') return json(response, await library(root));
    if (name !== '/status') return serveFile(DIST, request, response, {}, null);
    const views = disks.map((disk) => disk.view(modelled_s));
    const sum = (counter) => views.reduce((total, view) => total + view.counters[counter], 0);
    return json(response, {
      version: '0.1.0-mock',
      started_unix_ms: started,
      now_unix_ms: Date.now(),
      uptime_ms: Math.floor(performance.now() - began),
      state: 'serving',
      media_addresses: [address(mediaServer)],
      connections: { open: devices * viewers + active, requests_active: devices * viewers + active },
      totals: { requests: sum('requests'), bytes_sent: sum('bytes_sent') },
      devices: views,
    });
  });
  const listen = (server, port) =>
    new Promise((resolve, reject) => server.once('error', reject).listen(port, '127.0.0.1', resolve));
  await listen(mediaServer, media);
  await listen(adminServer, admin);
  return {
    page: `${address(adminServer)}/`,
    stop: () => {
      clearInterval(timer);
      for (const server of [mediaServer, adminServer]) {
        server.close();
        server.closeAllConnections();
      }
    },
  };
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const { values, positionals } = parseArgs({
    allowPositionals: true,
    options: {
      admin: { type: 'string', default: '8081' },
      media: { type: 'string', default: '8080' },
      viewers: { type: 'string', default: '40' },
      devices: { type: 'string', default: '1' },
    },
  });
  if (positionals.length !== 1) {
    console.error('usage: node tests/mock-server.mjs FOLDER [--admin PORT] [--media PORT] [--viewers N] [--devices N]');
    process.exit(2);
  }
  const server = await start({
    folder: positionals[0],
    admin: Number(values.admin),
    media: Number(values.media),
    viewers: Number(values.viewers),
    devices: Number(values.devices),
  });
  console.log(server.page);
}
