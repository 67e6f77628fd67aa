/**
 * Formatting of numbers. One rule for each kind of quantity, so that a page never mixes two:
 * memory and read sizes in binary units (they are configured as `2MiB`), byte rates and disk
 * capacities in decimal units (as disks are sold and measured), bit rates in bit/s.
 * Three significant digits; an unknown quantity is a dash.
 */

/** A number and its unit, separate because tiles set them in different sizes. */
export interface Quantity {
  readonly value: string;
  readonly unit: string;
}

export const UNKNOWN: Quantity = { value: '–', unit: '' };

type Maybe = number | null | undefined;

function known(n: Maybe): n is number {
  return typeof n === 'number' && Number.isFinite(n);
}

/** Three significant digits, without exponent. */
function digits(n: number): string {
  const size = Math.abs(n);
  if (size === 0) return '0';
  if (size >= 99.95) return grouped(Math.round(n));
  if (size >= 9.995) return n.toFixed(1);
  return n.toFixed(2);
}

function grouped(n: number): string {
  return n.toLocaleString('en-US').replaceAll(',', '\u2009');
}

function scaled(n: Maybe, step: number, units: readonly string[]): Quantity {
  if (!known(n)) return UNKNOWN;
  let value = n;
  let index = 0;
  // 0.9995 rather than 1: 999 960 bytes/s print as "1.00 MB/s", not as "1 000 kB/s".
  while (Math.abs(value) >= step * 0.9995 && index < units.length - 1) {
    value /= step;
    index += 1;
  }
  const unit = units[index] ?? '';
  return { value: index === 0 ? grouped(Math.round(value)) : digits(value), unit };
}

/** Memory, read sizes, file sizes: `3.75 MiB`. */
export function bytes(n: Maybe): Quantity {
  return scaled(n, 1024, ['B', 'KiB', 'MiB', 'GiB', 'TiB', 'PiB']);
}

/** Capacity of a device, or a position on it: `4.00 TB`. */
export function capacity(n: Maybe): Quantity {
  return scaled(n, 1000, ['B', 'kB', 'MB', 'GB', 'TB', 'PB']);
}

/** Bytes per second: `118 MB/s`. */
export function byteRate(n: Maybe): Quantity {
  return scaled(n, 1000, ['B/s', 'kB/s', 'MB/s', 'GB/s', 'TB/s']);
}

/** Bits per second: `2.50 Mbit/s`. */
export function bitRate(n: Maybe): Quantity {
  return scaled(n, 1000, ['bit/s', 'kbit/s', 'Mbit/s', 'Gbit/s']);
}

/** A count: `12 345`. */
export function count(n: Maybe): Quantity {
  return known(n) ? { value: grouped(Math.round(n)), unit: '' } : UNKNOWN;
}

/** The number of shown items: `200`, or `64 of 200` if there are more. */
export function shownOf(shown: number, all: number): string {
  return shown < all ? `${text(count(shown))} of ${text(count(all))}` : text(count(shown));
}

/** A rate per second: `34.2 /s`. */
export function perSecond(n: Maybe): Quantity {
  return known(n) ? { value: digits(n), unit: '/s' } : UNKNOWN;
}

/** A share of one: `87 %`, and below ten per cent `3.4 %`. */
export function percent(n: Maybe): Quantity {
  if (!known(n)) return UNKNOWN;
  const hundredths = n * 100;
  const whole = Math.abs(hundredths) >= 9.95 || hundredths === 0;
  return { value: whole ? grouped(Math.round(hundredths)) : hundredths.toFixed(1), unit: '%' };
}

/** A ratio of Table 4.1: two decimals, no unit. */
export function ratio(n: Maybe): Quantity {
  return known(n) ? { value: n.toFixed(2), unit: '' } : UNKNOWN;
}

/** A span of time in milliseconds: `850 ms`, `4.2 s`, `3 min`, `2.5 h`, `4 d`. */
export function span(ms: Maybe): Quantity {
  if (!known(ms)) return UNKNOWN;
  const size = Math.abs(ms);
  const seconds = ms / 1000;
  if (size < 999.5) return { value: String(Math.round(ms)), unit: 'ms' };
  if (size < 99_950) return { value: seconds.toFixed(1), unit: 's' };
  if (size < 5_970_000) return { value: String(Math.round(seconds / 60)), unit: 'min' };
  if (size < 172_800_000) return { value: (seconds / 3600).toFixed(1), unit: 'h' };
  return { value: String(Math.round(seconds / 86_400)), unit: 'd' };
}

/**
 * The window of a number requested for the last `asked_s` seconds and known for `known_s`: `1 min`,
 * `5 min`, `12 s` for a page opened 12 s ago, `95 s` for one that the browser seldom wakes.
 */
export function windowOf(asked_s: number, known_s: number): Quantity {
  const whole = known_s <= 0 || Math.abs(known_s - asked_s) <= 0.05 * asked_s;
  const seconds = whole ? asked_s : Math.max(1, Math.round(known_s));
  return seconds % 60 === 0
    ? { value: String(seconds / 60), unit: 'min' }
    : { value: String(seconds), unit: 's' };
}

/** A quantity as one string, with a no-break space before its unit. */
export function text(quantity: Quantity): string {
  return quantity.unit === '' ? quantity.value : `${quantity.value}\u00a0${quantity.unit}`;
}

/** A position in a title: `4:05`, `1:02:03`. */
export function clock(seconds: Maybe): string {
  if (!known(seconds) || seconds < 0) return '–:––';
  const whole = Math.floor(seconds);
  const s = String(whole % 60).padStart(2, '0');
  const m = Math.floor(whole / 60) % 60;
  const h = Math.floor(whole / 3600);
  return h > 0 ? `${h}:${String(m).padStart(2, '0')}:${s}` : `${m}:${s}`;
}

/** The same position, for a screen reader: `1 hour 2 minutes 3 seconds`. */
export function spokenClock(seconds: Maybe): string {
  if (!known(seconds) || seconds < 0) return 'unknown';
  const whole = Math.floor(seconds);
  const parts: [number, string][] = [
    [Math.floor(whole / 3600), 'hour'],
    [Math.floor(whole / 60) % 60, 'minute'],
    [whole % 60, 'second'],
  ];
  const said = parts.filter(([n]) => n > 0).map(([n, unit]) => `${n} ${unit}${n === 1 ? '' : 's'}`);
  return said.length > 0 ? said.join(' ') : '0 seconds';
}

/** The bit rates of a title: `0.55 – 2.31 Mbit/s`, one number if there is one. */
export function bitRateRange(rates: readonly number[]): string {
  const sorted = rates.filter((rate) => known(rate) && rate > 0).sort((a, b) => a - b);
  const low = sorted[0];
  const high = sorted.at(-1);
  if (low === undefined || high === undefined) return '';
  const top = bitRate(high);
  const bottom = bitRate(low);
  if (text(top) === text(bottom)) return text(top);
  return bottom.unit === top.unit
    ? `${bottom.value}\u2009–\u2009${text(top)}`
    : `${text(bottom)} – ${text(top)}`;
}

/** Width of one label of a time axis, in pixels. */
const TIME_LABEL_PX = 52;

/** Label positions of a time axis: fifths of the window, fewer on a narrow chart. */
export function timeSplits(window_s: number, width_px: number): number[] {
  const fits = [1, 2, 5].find((every) => (width_px * every) / 5 >= TIME_LABEL_PX) ?? 5;
  return [5, 4, 3, 2, 1, 0].filter((n) => n % fits === 0).map((n) => (n === 0 ? 0 : (-n * window_s) / 5));
}
