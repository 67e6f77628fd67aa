/**
 * Validation of the server's answers. A field that is missing or of another type becomes zero,
 * null or empty rather than an exception: a page left open for weeks meets servers older and
 * newer than itself.
 */

export type TitleKind = 'hls' | 'dash' | 'file';

export interface Title {
  id: string;
  name: string;
  kind: TitleKind;
  path: string;
  duration_s: number | null;
  bit_rates_bps: number[];
  bytes: number | null;
  poster: string | null;
  /** Subtitles beside a plain file. */
  texts: { path: string; language: string | null }[];
  /** Whether the server makes HLS and DASH from it. */
  packaged: boolean;
  /** The server's remark about a defect of the file. */
  odd: string | null;
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

/** Classes of memory in the page's stacking order. */
export const MEMORY_CLASSES = ['sending', 'unread', 'filling', 'read', 'free'] as const;
export type MemoryClass = (typeof MEMORY_CLASSES)[number];

export interface Memory extends Record<MemoryClass, number> {
  budget: number;
}

export interface Queue {
  jobs: number;
  jobs_demanded: number;
  jobs_overdue: number;
  outstanding_reads: number;
  head_physical_bytes: number | null;
  positions_bytes: number[];
}

export interface Viewer {
  viewer: string;
  path: string;
  bit_rate_bps: number | null;
  pace_bps: number;
  length_bytes: number;
  unread_bytes: number;
  prefetch_bytes: number;
  slack_ms: number;
}

/** States of an SSD of the flash tier, the best first. */
export const SSD_STATES = ['online', 'read-only', 'slow', 'offline'] as const;
export type SsdState = (typeof SSD_STATES)[number];

/** A device's part of the flash tier. */
export interface Flash {
  is_recovering: boolean;
  capacity_bytes: number;
  filled_bytes: number;
  /** Largest number of bytes written per day, and the remainder now. */
  budget_bytes: number;
  budget_left_bytes: number;
  reads_wrong: number;
  reads_failed: number;
  ssds: { path: string; state: SsdState; read_ms: number }[];
}

export type DeviceState = 'online' | 'failing' | 'offline';

export interface Device {
  name: string;
  roots: string[];
  state: DeviceState;
  rotational: boolean;
  io: string;
  capacity_bytes: number | null;
  policy: {
    name: string;
    reference_bytes: number | null;
    reference_bit_rate_bps: number | null;
    /** The controller of the reference size, and its reason; null if the size is configured. */
    control: { name: string; target_bytes: number | null; reason_text: string } | null;
  };
  order: string;
  retention: string;
  memory: Memory;
  queue: Queue;
  counters: Counters;
  chains: { live: number; shown: Viewer[] };
  /** Null without a flash tier. */
  flash: Flash | null;
}

export interface Status {
  version: string;
  /** Distinguishes runs of the server. */
  started_unix_ms: number;
  /** Time since the start, by a monotonic clock. */
  uptime_ms: number;
  state: 'serving' | 'draining';
  media_addresses: string[];
  connections: { open: number; requests_active: number };
  totals: { requests: number; bytes_sent: number };
  devices: Device[];
}

type Json = Record<string, unknown>;

function object(value: unknown): Json {
  return typeof value === 'object' && value !== null && !Array.isArray(value) ? (value as Json) : {};
}

function list<T>(value: unknown, one: (item: unknown) => T): T[] {
  return Array.isArray(value) ? value.map(one) : [];
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

function oneOf<T extends string>(value: unknown, known: readonly T[], otherwise: T): T {
  return known.find((name) => name === value) ?? otherwise;
}

export function decodeLibrary(value: unknown): Title[] {
  return list(object(value)['titles'], (item) => {
    const title = object(item);
    const path = string(title['path']);
    return {
      id: string(title['id']) || path,
      name: string(title['name']) || path || 'untitled',
      kind: oneOf(title['kind'], ['hls', 'dash', 'file'], 'file'),
      path,
      duration_s: numberOrNull(title['duration_s']),
      bit_rates_bps: list(title['bit_rates_bps'], number).filter((rate) => rate > 0),
      bytes: numberOrNull(title['bytes']),
      poster: stringOrNull(title['poster']),
      texts: list(title['texts'], (item) => {
        const text = object(item);
        return { path: string(text['path']), language: stringOrNull(text['language']) };
      }),
      packaged: title['packaged'] === true,
      odd: stringOrNull(title['odd']),
    };
  });
}

/** The number of titles of a library, listed or not; 0 if the answer does not contain it. */
export function decodeTitleCount(value: unknown): number {
  return number(object(value)['title_count']);
}

function decodeCounters(value: unknown): Counters {
  const given = object(value);
  return Object.fromEntries(COUNTERS.map((name) => [name, number(given[name])])) as Counters;
}

function decodeMemory(value: unknown): Memory {
  const given = object(value);
  const classes = Object.fromEntries(
    MEMORY_CLASSES.map((name) => [name, number(given[`${name}_bytes`])]),
  ) as Record<MemoryClass, number>;
  const sum = Object.values(classes).reduce((a, b) => a + b, 0);
  return { ...classes, budget: numberOrNull(given['budget_bytes']) ?? sum };
}

function decodeViewer(value: unknown): Viewer {
  const given = object(value);
  return {
    viewer: string(given['viewer']),
    path: string(given['path']),
    bit_rate_bps: numberOrNull(given['bit_rate_bps']),
    pace_bps: number(given['pace_bps']),
    length_bytes: number(given['length_bytes']),
    unread_bytes: number(given['unread_bytes']),
    prefetch_bytes: number(given['prefetch_bytes']),
    slack_ms: number(given['slack_ms']),
  };
}

function decodeControl(given: unknown): Device['policy']['control'] {
  if (given === null || given === undefined) return null;
  const control = object(given);
  return {
    name: string(control['name']),
    target_bytes: numberOrNull(control['target_bytes']),
    reason_text: string(control['reason_text']),
  };
}

function decodeFlash(value: unknown): Flash | null {
  if (value === null || value === undefined) return null;
  const given = object(value);
  return {
    is_recovering: given['is_recovering'] === true,
    capacity_bytes: number(given['capacity_bytes']),
    filled_bytes: number(given['filled_bytes']),
    budget_bytes: number(given['budget_bytes']),
    budget_left_bytes: number(given['budget_left_bytes']),
    reads_wrong: number(given['reads_wrong']),
    reads_failed: number(given['reads_failed']),
    ssds: list(given['ssds'], (item) => {
      const ssd = object(item);
      return {
        path: string(ssd['path']),
        // An unknown state must not be shown as healthy.
        state: oneOf(ssd['state'], SSD_STATES, 'offline'),
        read_ms: number(ssd['read_ms']),
      };
    }),
  };
}

function decodeDevice(value: unknown): Device {
  const given = object(value);
  const policy = object(given['policy']);
  const queue = object(given['queue']);
  const chains = object(given['chains']);
  const shown = list(chains['shown'], decodeViewer);
  return {
    name: string(given['name']) || 'device',
    roots: list(given['roots'], string),
    state: oneOf(given['state'], ['online', 'failing', 'offline'], 'online'),
    rotational: given['rotational'] === true,
    io: string(given['io']),
    // The server reports 0 for a disk of unknown size.
    capacity_bytes: number(given['capacity_bytes']) || null,
    policy: {
      name: string(policy['name']),
      reference_bytes: numberOrNull(policy['reference_bytes']),
      reference_bit_rate_bps: numberOrNull(policy['reference_bit_rate_bps']),
      control: decodeControl(policy['control']),
    },
    order: string(given['order']),
    retention: string(given['retention']),
    memory: decodeMemory(given['memory']),
    queue: {
      jobs: number(queue['jobs']),
      jobs_demanded: number(queue['jobs_demanded']),
      jobs_overdue: number(queue['jobs_overdue']),
      outstanding_reads: number(queue['outstanding_reads']),
      head_physical_bytes: numberOrNull(queue['head_physical_bytes']),
      positions_bytes: list(queue['positions_bytes'], number),
    },
    counters: decodeCounters(given['counters']),
    chains: { live: numberOrNull(chains['live']) ?? shown.length, shown },
    flash: decodeFlash(given['flash']),
  };
}

export function decodeStatus(value: unknown): Status {
  const given = object(value);
  const connections = object(given['connections']);
  const totals = object(given['totals']);
  const started_unix_ms = number(given['started_unix_ms']);
  // Older servers report only times of day.
  const by_day_ms = number(given['now_unix_ms']) - started_unix_ms;
  return {
    version: string(given['version']),
    started_unix_ms,
    uptime_ms: Math.max(0, numberOrNull(given['uptime_ms']) ?? by_day_ms),
    state: oneOf(given['state'], ['serving', 'draining'], 'serving'),
    media_addresses: list(given['media_addresses'], string),
    connections: {
      open: number(connections['open']),
      requests_active: number(connections['requests_active']),
    },
    totals: { requests: number(totals['requests']), bytes_sent: number(totals['bytes_sent']) },
    devices: list(given['devices'], decodeDevice),
  };
}
