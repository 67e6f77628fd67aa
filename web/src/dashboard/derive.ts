/** The numbers of the tiles and charts, from a device's history. */
import type { Counter } from '../pure/api';
import { quotient, type History, type Point } from '../pure/rates';

/** Averaging window of the tiles: long enough to read, short enough to be live. */
export const CALM_S = 5;

/** Reads are rare; their mean size needs a longer window. */
export const READS_S = 30;

export function perSecondOver(history: History, counter: Counter, seconds: number): number | null {
  const window = history.over(seconds);
  return quotient(window.growth[counter], window.seconds);
}

/** Share of the time in which the device was busy; at most 1. */
export function busyShare(history: History, seconds: number): number | null {
  const share = perSecondOver(history, 'busy_seconds', seconds);
  return share === null ? null : Math.min(1, share);
}

export function meanOver(
  history: History,
  sum: Counter,
  number: Counter,
  seconds: number,
): number | null {
  const { growth } = history.over(seconds);
  return quotient(growth[sum], growth[number]);
}

/** One value for each point of a chart. */
export function perSecondSeries(points: readonly Point[], counter: Counter): (number | null)[] {
  return points.map(({ growth, seconds }) =>
    growth === null || seconds === null ? null : growth[counter] / seconds,
  );
}

/**
 * Mean read size at each point over the reads of the last `seconds`; null while there were none.
 * One pass: both ends of the window only advance.
 */
export function readSizeSeries(points: readonly Point[], seconds: number): (number | null)[] {
  const sizes: (number | null)[] = [];
  let first = 0;
  let bytes = 0;
  let reads = 0;
  for (const point of points) {
    bytes += point.growth?.bytes_read ?? 0;
    reads += point.growth?.reads ?? 0;
    for (let old = points[first]; old !== undefined && old.at_s <= point.at_s - seconds; ) {
      bytes -= old.growth?.bytes_read ?? 0;
      reads -= old.growth?.reads ?? 0;
      first += 1;
      old = points[first];
    }
    sizes.push(quotient(bytes, reads));
  }
  return sizes;
}
