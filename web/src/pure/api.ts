/**
 * Validation of the server's answers. A field that is missing or of another type becomes zero,
 * null or empty rather than an exception: a page left open for weeks meets servers older and
 * newer than itself.
 */

type Json = Record<string, unknown>;
type Decoder<T> = (value: unknown) => T;
type Decoded<D> = D extends Decoder<infer T> ? T : never;

function object(value: unknown): Json {
  return typeof value === 'object' && value !== null && !Array.isArray(value) ? (value as Json) : {};
}

/** An object with these fields, each with its decoder. */
function fields<F extends Record<string, Decoder<unknown>>>(of: F): Decoder<{ [K in keyof F]: Decoded<F[K]> }> {
  return (value) => {
    const given = object(value);
    const decoded = Object.entries(of).map(([name, one]) => [name, one(given[name])]);
    return Object.fromEntries(decoded) as { [K in keyof F]: Decoded<F[K]> };
  };
}

function list<T>(one: Decoder<T>): Decoder<T[]> {
  return (value) => (Array.isArray(value) ? value.map((item) => one(item)) : []);
}

function orNull<T>(one: Decoder<T>): Decoder<T | null> {
  return (value) => (value === null || value === undefined ? null : one(value));
}

function oneOf<const T extends string>(known: readonly T[], otherwise: NoInfer<T>): Decoder<T> {
  return (value) => known.find((name) => name === value) ?? otherwise;
}

function numberOrNull(value: unknown): number | null {
  return typeof value === 'number' && Number.isFinite(value) ? value : null;
}

function number(value: unknown): number {
  return numberOrNull(value) ?? 0;
}

function string(value: unknown): string {
  return typeof value === 'string' ? value : '';
}

function stringOrNull(value: unknown): string | null {
  return typeof value === 'string' && value !== '' ? value : null;
}

function flag(value: unknown): boolean {
  return value === true;
}

const titleFields = fields({
  id: string,
  name: string,
  kind: oneOf(['hls', 'dash', 'file'], 'file'),
  path: string,
  duration_s: numberOrNull,
  bit_rates_bps: list(number),
  bytes: numberOrNull,
  poster: stringOrNull,
  /** Subtitles beside a plain file. */
  texts: list(fields({ path: string, language: stringOrNull })),
  /** Whether the server makes HLS and DASH from it. */
  packaged: flag,
  /** The server's remark about a defect of the file. */
  odd: stringOrNull,
});

export type Title = Decoded<typeof titleFields>;

function decodeTitle(value: unknown): Title {
  const title = titleFields(value);
  const { path } = title;
  return {
    ...title,
    id: title.id || path,
    name: title.name || path || 'untitled',
    bit_rates_bps: title.bit_rates_bps.filter((rate) => rate > 0),
  };
}

export function decodeLibrary(value: unknown): Title[] {
  return list(decodeTitle)(object(value)['titles']);
}

/** The number of titles of a library, listed or not; 0 if the answer does not contain it. */
export function decodeTitleCount(value: unknown): number {
  return number(object(value)['title_count']);
}

/** Counters that only grow while a server runs, in the order of `/status`. */
export const COUNTERS = [
  'requests',
  'requests_refused',
  'requests_failed',
  'bytes_requested',
  'bytes_sent',
  'bytes_from_ram',
  'bytes_from_flash',
  'bytes_from_disk',
  'reads',
  'reads_done',
  'read_errors',
  'bytes_read',
  'jobs',
  'job_bytes',
  'job_bytes_wanted',
  'jobs_merged',
  'jobs_late',
  'busy_seconds',
  'queue_job_seconds',
  'seek_bytes',
  'seeks',
  'prefetch_evicted_bytes',
  'prefetch_evictions',
  'prefetch_eviction_seconds',
  'wasted_bytes',
  'cache_evicted_bytes',
  'chains',
  'chains_refused',
] as const;

export type Counter = (typeof COUNTERS)[number];
export type Counters = Record<Counter, number>;

function decodeCounters(value: unknown): Counters {
  const given = object(value);
  return Object.fromEntries(COUNTERS.map((name) => [name, number(given[name])])) as Counters;
}

/** Classes of memory in the page's stacking order. */
export const MEMORY_CLASSES = ['sending', 'unread', 'filling', 'read', 'free'] as const;
export type MemoryClass = (typeof MEMORY_CLASSES)[number];

export interface Memory extends Record<MemoryClass, number> {
  budget: number;
}

function decodeMemory(value: unknown): Memory {
  const given = object(value);
  const classes = Object.fromEntries(
    MEMORY_CLASSES.map((name) => [name, number(given[`${name}_bytes`])]),
  ) as Record<MemoryClass, number>;
  const sum = Object.values(classes).reduce((a, b) => a + b, 0);
  return { ...classes, budget: numberOrNull(given['budget_bytes']) ?? sum };
}

const decodeViewer = fields({
  viewer: string,
  path: string,
  bit_rate_bps: numberOrNull,
  pace_bps: number,
  length_bytes: number,
  unread_bytes: number,
  prefetch_bytes: number,
  slack_ms: number,
});

export type Viewer = Decoded<typeof decodeViewer>;

function decodeChains(value: unknown): { live: number; shown: Viewer[] } {
  const chains = fields({ live: numberOrNull, shown: list(decodeViewer) })(value);
  return { ...chains, live: chains.live ?? chains.shown.length };
}

/** States of an SSD of the flash tier, the best first. */
export const SSD_STATES = ['online', 'read-only', 'slow', 'offline'] as const;
export type SsdState = (typeof SSD_STATES)[number];

/** A device's part of the flash tier. */
const decodeFlash = fields({
  is_recovering: flag,
  capacity_bytes: number,
  filled_bytes: number,
  /** Largest number of bytes written per day, and the remainder now. */
  budget_bytes: number,
  budget_left_bytes: number,
  reads_wrong: number,
  reads_failed: number,
  // An unknown state must not be shown as healthy.
  ssds: list(fields({ path: string, state: oneOf(SSD_STATES, 'offline'), read_ms: number })),
});

export type Flash = Decoded<typeof decodeFlash>;

const decodeQueue = fields({
  jobs: number,
  jobs_demanded: number,
  jobs_overdue: number,
  outstanding_reads: number,
  head_physical_bytes: numberOrNull,
  positions_bytes: list(number),
});

export type Queue = Decoded<typeof decodeQueue>;

const decodeDevice = fields({
  name: (value) => string(value) || 'device',
  roots: list(string),
  state: oneOf(['online', 'failing', 'offline'], 'online'),
  rotational: flag,
  io: string,
  // The server reports 0 for a disk of unknown size.
  capacity_bytes: (value) => number(value) || null,
  policy: fields({
    name: string,
    reference_bytes: numberOrNull,
    reference_bit_rate_bps: numberOrNull,
    /** The controller of the reference size, and its reason; null if the size is configured. */
    control: orNull(fields({ name: string, target_bytes: numberOrNull, reason_text: string })),
  }),
  order: string,
  retention: string,
  memory: decodeMemory,
  queue: decodeQueue,
  counters: decodeCounters,
  chains: decodeChains,
  /** Null without a flash tier. */
  flash: orNull(decodeFlash),
});

export type Device = Decoded<typeof decodeDevice>;

const statusFields = fields({
  version: string,
  /** Distinguishes runs of the server. */
  started_unix_ms: number,
  /** Time since the start, by a monotonic clock. */
  uptime_ms: numberOrNull,
  state: oneOf(['serving', 'draining'], 'serving'),
  media_addresses: list(string),
  connections: fields({ open: number, requests_active: number }),
  totals: fields({ requests: number, bytes_sent: number }),
  devices: list(decodeDevice),
});

export type Status = Decoded<typeof decodeStatus>;

export function decodeStatus(value: unknown) {
  const status = statusFields(value);
  // Older servers report only times of day.
  const by_day_ms = number(object(value)['now_unix_ms']) - status.started_unix_ms;
  return { ...status, uptime_ms: Math.max(0, status.uptime_ms ?? by_day_ms) };
}
