/**
 * Rates from counters, and five minutes of their history.
 *
 * The server sends counters that only grow; a rate is the difference of two polls over the time
 * between them *by the server's uptime*, so that a late or throttled poll is a longer interval and
 * not a dip, and a clock change has no effect. A counter that decreased, or another start time,
 * means a restarted server: that interval has no rate, and the chart has a gap.
 */
import { COUNTERS, type Counters, type Device, type Memory, type Queue, type Status } from './api';

/** Length of the history: five minutes. */
export const WINDOW_S = 300;

type Moment = Pick<Status, 'started_unix_ms' | 'uptime_ms'>;

/** Seconds between two answers; null if the server was restarted between them. */
export function elapsed(before: Moment, after: Moment): number | null {
  const seconds = (after.uptime_ms - before.uptime_ms) / 1000;
  return before.started_unix_ms === after.started_unix_ms && seconds > 0 ? seconds : null;
}

/** Growth of one counter per second; null when the two readings cannot be compared. */
export function rate(before: number, after: number, seconds: number | null): number | null {
  return seconds !== null && seconds > 0 && after >= before ? (after - before) / seconds : null;
}

/** The quotient, or null if an operand is unknown or the divisor is zero. */
export function quotient(a: number, b: number): number | null {
  return b > 0 && !Number.isNaN(a) ? a / b : null;
}

/**
 * Growth of every counter; null if any decreased (a restart). Only the sum of seeks wraps at 2^64
 * while a server runs: its growth is then NaN, and so is every value derived from it.
 */
export function growth(before: Counters, after: Counters): Counters | null {
  const fallen = COUNTERS.filter((name) => after[name] < before[name]);
  if (fallen.some((name) => name !== 'seek_bytes')) return null;
  return Object.fromEntries(
    COUNTERS.map((name) => [name, fallen.includes(name) ? NaN : after[name] - before[name]]),
  ) as Counters;
}

/** One poll of one device, with the growth since the previous poll. */
export interface Point {
  /** Time of the poll in seconds, by a monotonic clock of the page. */
  readonly at_s: number;
  /** Time since the previous poll by the server's uptime; null at a start, a restart or a gap. */
  readonly seconds: number | null;
  /** Growth of the counters over that time; null with `seconds`. */
  readonly growth: Counters | null;
  readonly memory: Memory;
  readonly queue: Queue;
  readonly reference_bytes: number | null;
}

/** Five minutes of one device. */
export class History {
  points: Point[] = [];
  #last: { counters: Counters; status: Status } | null = null;

  /** The connection was lost: the next poll starts a new interval. */
  interrupt(): void {
    this.#last = null;
  }

  push(at_s: number, status: Status, device: Device): void {
    const before = this.#last;
    const { counters, memory, queue, policy } = device;
    const time = before === null ? null : elapsed(before.status, status);
    const grown = before === null || time === null ? null : growth(before.counters, counters);
    this.#last = { counters, status };
    this.points.push({
      at_s,
      seconds: grown === null ? null : time,
      growth: grown,
      memory,
      queue,
      reference_bytes: policy.reference_bytes,
    });
    // One point older than the window is kept, so that the line reaches the chart's left edge.
    const first = this.points.findIndex((point) => point.at_s >= at_s - WINDOW_S);
    if (first > 1) this.points.splice(0, first - 1);
  }

  /**
   * Growth of the counters and its time span, over the last `seconds`, or as much of them as is
   * known without a gap. A server younger than that is known completely: its counters start at zero.
   */
  over(seconds: number): { seconds: number; growth: Counters } {
    const last = this.#last;
    const uptime_s = last === null ? Infinity : last.status.uptime_ms / 1000;
    if (last !== null && uptime_s > 0 && uptime_s <= seconds) {
      return { seconds: uptime_s, growth: last.counters };
    }
    const sum = Object.fromEntries(COUNTERS.map((name) => [name, 0])) as Counters;
    const newest = this.points.at(-1)?.at_s ?? 0;
    let measured = 0;
    for (const point of this.points.toReversed()) {
      if (point.growth === null || point.seconds === null) break;
      if (point.at_s <= newest - seconds) break;
      measured += point.seconds;
      for (const name of COUNTERS) sum[name] += point.growth[name];
    }
    return { seconds: measured, growth: sum };
  }
}

/** The ratios of Table 4.1 of the thesis: shares of the requested bytes. */
export interface Ratios {
  readonly disk: number | null;
  readonly ram: number | null;
  readonly evicted: number | null;
  readonly wasted: number | null;
}

export function ratios(counters: Counters): Ratios {
  const requested = counters.bytes_requested;
  return {
    disk: quotient(counters.bytes_read, requested),
    ram: quotient(counters.bytes_from_ram, requested),
    evicted: quotient(counters.prefetch_evicted_bytes, requested),
    wasted: quotient(counters.wasted_bytes, requested),
  };
}

/** Viewers by urgency: least slack first; ties by name, so that rows do not move. */
export function byNeed<T extends { slack_ms: number; viewer: string }>(viewers: readonly T[]): T[] {
  return [...viewers].sort((a, b) => a.slack_ms - b.slack_ms || (a.viewer < b.viewer ? -1 : 1));
}
