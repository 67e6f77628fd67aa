import { describe, expect, test } from 'vitest';
import {
  bitRate,
  bitRateRange,
  byteRate,
  bytes,
  capacity,
  clock,
  count,
  percent,
  perSecond,
  ratio,
  shownOf,
  span,
  spokenClock,
  text,
  timeSplits,
  windowOf,
} from '../../src/pure/format';

const plain = (quantity: { value: string; unit: string }) =>
  text(quantity).replaceAll('\u00a0', ' ').replaceAll('\u2009', ' ');

describe('bytes', () => {
  test.each([
    [0, '0 B'],
    [1, '1 B'],
    [1023, '1 023 B'],
    [1024, '1.00 KiB'],
    [2 * 1024 ** 2, '2.00 MiB'],
    [3.75 * 1024 ** 2, '3.75 MiB'],
    [512 * 1024 ** 2, '512 MiB'],
    [1024 ** 3, '1.00 GiB'],
  ])('%d is %s, in binary units', (n, said) => expect(plain(bytes(n))).toBe(said));

  test('a size just below a unit is printed in that unit', () => {
    expect(plain(bytes(1024 ** 2 - 1))).toBe('1.00 MiB');
    expect(plain(byteRate(999_960))).toBe('1.00 MB/s');
  });
});

test('capacities and rates are in decimal units, as disks are sold and measured', () => {
  expect(plain(capacity(4e12))).toBe('4.00 TB');
  expect(plain(byteRate(118_200_000))).toBe('118 MB/s');
  expect(plain(bitRate(2_500_000))).toBe('2.50 Mbit/s');
  expect(plain(bitRate(545_600))).toBe('546 kbit/s');
});

test('three significant digits at most, and never an exponent', () => {
  expect(plain(byteRate(12_345_678))).toBe('12.3 MB/s');
  expect(plain(byteRate(9_996_000))).toBe('10.0 MB/s');
  expect(plain(byteRate(1e21))).not.toContain('e');
  expect(plain(perSecond(0))).toBe('0 /s');
  expect(plain(perSecond(34.21))).toBe('34.2 /s');
});

test('an unknown value is a dash, for every reason', () => {
  for (const unknown of [null, undefined, NaN, Infinity]) {
    for (const format of [bytes, capacity, byteRate, bitRate, count, percent, span, ratio]) {
      expect(text(format(unknown))).toBe('–');
    }
  }
  expect(clock(null)).toBe('–:––');
});

test('counts are grouped in threes', () => expect(plain(count(1_234_567))).toBe('1 234 567'));

test('percentages have a decimal only while they are small', () => {
  expect(plain(percent(0))).toBe('0 %');
  expect(plain(percent(0.034))).toBe('3.4 %');
  expect(plain(percent(0.0996))).toBe('10 %');
  expect(plain(percent(0.874))).toBe('87 %');
});

test('ratios keep two decimals', () => expect(plain(ratio(1.0349))).toBe('1.03'));

test.each([
  [0, '0 ms'],
  [850, '850 ms'],
  [-1500, '-1.5 s'],
  [999.7, '1.0 s'],
  [41_230, '41.2 s'],
  [180_000, '3 min'],
  [9_000_000, '2.5 h'],
  [345_600_000, '4 d'],
])('a span of %d ms is %s', (ms, said) => expect(plain(span(ms))).toBe(said));

test('a partly known window is labelled with its known length', () => {
  expect(plain(windowOf(60, 60))).toBe('1 min');
  expect(plain(windowOf(300, 299))).toBe('5 min');
  expect(plain(windowOf(300, 12.3))).toBe('12 s');
  expect(plain(windowOf(300, 0.4))).toBe('1 s');
  expect(plain(windowOf(300, 0))).toBe('5 min');
  expect(plain(windowOf(300, 120))).toBe('2 min');
  expect(plain(windowOf(60, 62))).toBe('1 min');
  expect(plain(windowOf(60, 95))).toBe('95 s');
  expect(plain(windowOf(60, 3600))).toBe('60 min');
});

test('a part states the total', () => {
  expect(shownOf(64, 200)).toBe('64 of 200');
  expect(shownOf(200, 200)).toBe('200');
  expect(shownOf(3, 0)).toBe('3');
});

test('an axis of time has as many labels as fit', () => {
  expect(timeSplits(300, 600)).toEqual([-300, -240, -180, -120, -60, 0]);
  expect(timeSplits(300, 190)).toEqual([-240, -120, 0]);
  expect(timeSplits(120, 190)).toEqual([-96, -48, 0]);
  expect(timeSplits(300, 100)).toEqual([-300, 0]);
});

test('positions in a title', () => {
  expect(clock(0)).toBe('0:00');
  expect(clock(245.9)).toBe('4:05');
  expect(clock(3723)).toBe('1:02:03');
  expect(spokenClock(3723)).toBe('1 hour 2 minutes 3 seconds');
  expect(spokenClock(0.4)).toBe('0 seconds');
});

test('bit rates of a title are a range, lowest first, and one number if they agree', () => {
  const said = (rates: number[]) => bitRateRange(rates).replace(/[\u00a0\u2009]/g, ' ');
  expect(said([])).toBe('');
  expect(said([0, -5, NaN])).toBe('');
  expect(said([1_500_000])).toBe('1.50 Mbit/s');
  expect(said([1_500_000, 1_500_001])).toBe('1.50 Mbit/s');
  expect(said([2_305_600, 545_600])).toBe('546 kbit/s – 2.31 Mbit/s');
  expect(said([2e6, 8e6, 4e6])).toBe('2.00 – 8.00 Mbit/s');
});
