/**
 * The single poll of `/status`, shared by all pages, once a second, and five minutes of history
 * for each device. It runs on all pages, so that a dashboard opened later has a history.
 */
import { decodeStatus, type Status } from './pure/api';
import { elapsed, History, rate } from './pure/rates';

const PERIOD_MS = 1000;
/** Longer than the 5 s after which the server itself names an unresponsive device. */
const PATIENCE_MS = 8000;
/** The server renders a long list for up to ten seconds, and it may be large. */
const LIBRARY_PATIENCE_MS = 30_000;
/** Longest error text shown. */
const REASON_CHARS_MAX = 200;

export interface Totals {
  bytes_per_s: number | null;
  requests_per_s: number | null;
}

export interface Feed {
  /** The newest answer; kept when the connection is lost. */
  status: Status | null;
  /** Time at which the connection was lost, by this machine's clock; null while connected. */
  lost_since_ms: number | null;
  /** Reason for the loss. */
  lost_because: string;
  totals: Totals;
  /** By device name. */
  readonly histories: Map<string, History>;
}

export const feed: Feed = {
  status: null,
  lost_since_ms: null,
  lost_because: '',
  totals: { bytes_per_s: null, requests_per_s: null },
  histories: new Map(),
};

const listeners = new Set<() => void>();

/** Calls back after every poll, answered or not; returns a function that unsubscribes. */
export function onPoll(listener: () => void): () => void {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

function take(status: Status): void {
  const at_s = performance.now() / 1000;
  const before = feed.lost_since_ms === null ? feed.status : null;
  if (before === null) {
    feed.totals = { bytes_per_s: null, requests_per_s: null };
  } else {
    const seconds = elapsed(before, status);
    feed.totals = {
      bytes_per_s: rate(before.totals.bytes_sent, status.totals.bytes_sent, seconds),
      requests_per_s: rate(before.totals.requests, status.totals.requests, seconds),
    };
  }
  const names = new Set(status.devices.map((device) => device.name));
  for (const name of feed.histories.keys()) if (!names.has(name)) feed.histories.delete(name);
  for (const device of status.devices) {
    let history = feed.histories.get(device.name);
    if (history === undefined) {
      history = new History();
      feed.histories.set(device.name, history);
    }
    history.push(at_s, status, device);
  }
  feed.status = status;
  feed.lost_since_ms = null;
  feed.lost_because = '';
}

function lose(because: unknown): void {
  feed.lost_since_ms ??= Date.now();
  const timedOut = because instanceof DOMException && because.name === 'TimeoutError';
  feed.lost_because = timedOut
    ? `no answer within ${PATIENCE_MS / 1000} s`
    : because instanceof StatusError
      ? because.message
      : 'the server is unreachable';
  for (const history of feed.histories.values()) history.interrupt();
}

/** An invalid answer or an error status. */
class StatusError extends Error {}

/** The server's text about its error, or nothing. */
async function reason(response: Response): Promise<string> {
  const type = response.headers.get('content-type') ?? '';
  if (!type.startsWith('text/plain')) return '';
  const body = await response.text().catch(() => '');
  const first = body.trim().split('\n', 1)[0]?.slice(0, REASON_CHARS_MAX).trim() ?? '';
  return first === '' ? '' : `: ${first}`;
}

/** Fetches JSON from the server that serves this page. */
export async function fetchJson(path: string, patience_ms = PATIENCE_MS): Promise<unknown> {
  const signal = AbortSignal.timeout(patience_ms);
  const response = await fetch(new URL(path, document.baseURI), { cache: 'no-cache', signal });
  if (!response.ok) {
    throw new StatusError(`the server answered ${response.status} for ${path}${await reason(response)}`);
  }
  try {
    return await response.json();
  } catch (error) {
    if (error instanceof SyntaxError) throw new StatusError(`${path} is not JSON`);
    throw error;
  }
}

/** Fetches the list of titles. */
export function fetchLibrary(): Promise<unknown> {
  return fetchJson('library.json', LIBRARY_PATIENCE_MS);
}

async function poll(): Promise<void> {
  const began = performance.now();
  try {
    take(decodeStatus(await fetchJson('status')));
  } catch (error) {
    lose(error);
  }
  try {
    for (const listener of listeners) listener();
  } finally {
    // The interval is from start to start, but polls never overlap.
    setTimeout(poll, Math.max(100, PERIOD_MS - (performance.now() - began)));
  }
}

export function startFeed(): void {
  void poll();
}
