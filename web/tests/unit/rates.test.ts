import { describe, expect, test } from 'vitest';
import { COUNTERS, decodeStatus, type Counters, type Device, type Status } from '../../src/pure/api';
import { byNeed, elapsed, growth, History, quotient, rate, ratios, WINDOW_S } from '../../src/pure/rates';
import { busyShare, meanOver, perSecondOver, perSecondSeries, readSizeSeries } from '../../src/dashboard/derive';

function poll(
  now_ms: number,
  counters: Partial<Counters>,
  started_ms = -1e9,
  more: { uptime_ms?: number; reference_bytes?: number } = {},
): [Status, Device] {
  const { uptime_ms, reference_bytes } = more;
  const status = decodeStatus({
    started_unix_ms: started_ms,
    now_unix_ms: now_ms,
    uptime_ms,
    devices: [{ name: 'sda', counters, policy: { reference_bytes } }],
  });
  const device = status.devices[0];
  if (device === undefined) throw new Error('the status has a device');
  return [status, device];
}

const zero = Object.fromEntries(COUNTERS.map((name) => [name, 0])) as Counters;

test('a rate is growth over time, and unknown when the counter went down or no time passed', () => {
  expect(rate(100, 300, 2)).toBe(100);
  expect(rate(100, 100, 2)).toBe(0);
  expect(rate(300, 100, 2)).toBeNull();
  expect(rate(100, 300, 0)).toBeNull();
  expect(rate(100, 300, -1)).toBeNull();
  expect(rate(100, 300, null)).toBeNull();
});

test('the time between two runs of a server is unknown', () => {
  const before = { started_unix_ms: 1000, uptime_ms: 500 };
  expect(elapsed(before, { started_unix_ms: 1000, uptime_ms: 2500 })).toBe(2);
  expect(elapsed(before, { started_unix_ms: 1000, uptime_ms: 400 })).toBeNull();
  expect(elapsed(before, { started_unix_ms: 9000, uptime_ms: 2500 })).toBeNull();
});

test('one decreased counter makes the whole growth unknown', () => {
  expect(growth({ ...zero, reads: 5 }, { ...zero, reads: 4, bytes_sent: 10 })).toBeNull();
  expect(growth(zero, { ...zero, reads: 4 })?.reads).toBe(4);
});

test('a wrapped sum of seeks is unknown, and nothing else', () => {
  const grown = growth({ ...zero, seek_bytes: 2 ** 64, reads: 5 }, { ...zero, seek_bytes: 7, reads: 9 });
  expect(grown?.reads).toBe(4);
  expect(quotient(grown?.seek_bytes ?? 0, 4)).toBeNull();
});

test('division by zero is unknown, not infinite', () => {
  expect(quotient(1, 0)).toBeNull();
  expect(quotient(0, 4)).toBe(0);
});

describe('a history', () => {
  test('measures by the clock of the server, so that a late poll is no dip', () => {
    const history = new History();
    history.push(0, ...poll(10_000, { bytes_sent: 0 }));
    history.push(1, ...poll(11_000, { bytes_sent: 100 }));
    history.push(3.5, ...poll(13_000, { bytes_sent: 300 }));
    expect(perSecondSeries(history.points, 'bytes_sent')).toEqual([null, 100, 100]);
  });

  test('has no rate across a restart seen by the start time', () => {
    const history = new History();
    history.push(0, ...poll(10_000, { bytes_sent: 100 }));
    history.push(1, ...poll(11_000, { bytes_sent: 900 }, 10_500));
    history.push(2, ...poll(12_000, { bytes_sent: 950 }, 10_500));
    expect(perSecondSeries(history.points, 'bytes_sent')).toEqual([null, null, 50]);
  });

  test('has no rate across a decreased counter', () => {
    const history = new History();
    history.push(0, ...poll(10_000, { bytes_sent: 100 }));
    history.push(1, ...poll(11_000, { bytes_sent: 20 }));
    history.push(2, ...poll(12_000, { bytes_sent: 80 }));
    expect(perSecondSeries(history.points, 'bytes_sent')).toEqual([null, null, 60]);
    expect(history.over(WINDOW_S).growth.bytes_sent).toBe(60);
  });

  test('has all rates but the mean seek after the sum of seeks wrapped', () => {
    const history = new History();
    history.push(0, ...poll(1000, { seek_bytes: 2 ** 64, seeks: 10, bytes_read: 0 }));
    history.push(1, ...poll(2000, { seek_bytes: 900, seeks: 12, bytes_read: 80 }));
    expect(meanOver(history, 'seek_bytes', 'seeks', 60)).toBeNull();
    expect(perSecondSeries(history.points, 'bytes_read')).toEqual([null, 80]);
    history.push(62, ...poll(63_000, { seek_bytes: 1000, seeks: 14, bytes_read: 80 }));
    expect(meanOver(history, 'seek_bytes', 'seeks', 60)).toBe(50);
  });

  test('is correct although the clock of the server is changed by an hour', () => {
    const history = new History();
    const hour_ms = 3_600_000;
    const times = [5_000_000, 5_001_000 + hour_ms, 5_002_000, 5_003_000 - hour_ms];
    times.forEach((now_ms, second) => {
      const more = { uptime_ms: 5_000_000 + 1000 * second };
      history.push(second, ...poll(now_ms, { bytes_sent: 100 * second }, 0, more));
    });
    expect(perSecondSeries(history.points, 'bytes_sent')).toEqual([null, 100, 100, 100]);
    expect(history.over(60)).toMatchObject({ seconds: 3, growth: { bytes_sent: 300 } });
  });

  test('does not count 62 minutes as 2 after the clock was set back', () => {
    const history = new History();
    const up_ms = 62 * 60_000;
    history.push(0, ...poll(119_000, { chains: 3719 }, 0, { uptime_ms: up_ms - 1000 }));
    expect(history.over(WINDOW_S).seconds).toBe(0);
    history.push(1, ...poll(120_000, { chains: 3720 }, 0, { uptime_ms: up_ms }));
    expect(history.over(WINDOW_S)).toMatchObject({ seconds: 1, growth: { chains: 1 } });
  });

  test('keeps the reference size of each point', () => {
    const history = new History();
    history.push(0, ...poll(1000, {}, 0, { reference_bytes: 4 }));
    history.push(1, ...poll(2000, {}, 0, { reference_bytes: 6 }));
    expect(history.points.map((point) => point.reference_bytes)).toEqual([4, 6]);
  });

  test('has no rate across a lost connection or a clock change of an old server', () => {
    const history = new History();
    history.push(0, ...poll(10_000, { bytes_sent: 0 }));
    history.interrupt();
    history.push(9, ...poll(19_000, { bytes_sent: 900 }));
    history.push(10, ...poll(15_000, { bytes_sent: 950 }));
    history.push(11, ...poll(16_000, { bytes_sent: 960 }));
    expect(perSecondSeries(history.points, 'bytes_sent')).toEqual([null, null, null, 10]);
  });

  test('keeps five minutes at most', () => {
    const history = new History();
    for (let second = 0; second < 1000; second += 1) {
      history.push(second, ...poll(1000 * second, { bytes_sent: 7 * second }));
    }
    expect(history.points.length).toBeLessThanOrEqual(WINDOW_S + 2);
    expect(history.points[0]?.at_s).toBe(1000 - 1 - WINDOW_S - 1);
    expect(perSecondOver(history, 'bytes_sent', WINDOW_S)).toBeCloseTo(7);
  });

  test('sums only the requested seconds', () => {
    const history = new History();
    [0, 10, 30, 60].forEach((sent, second) => {
      history.push(second, ...poll(1000 * (second + 1), { bytes_sent: sent, reads: second }));
    });
    expect(history.over(2)).toMatchObject({ seconds: 2, growth: { bytes_sent: 50, reads: 2 } });
    expect(meanOver(history, 'bytes_sent', 'reads', 2)).toBe(25);
    expect(meanOver(history, 'bytes_sent', 'jobs', 2)).toBeNull();
  });

  test('of a young server is complete, even on a page that was just opened', () => {
    const history = new History();
    history.push(0, ...poll(31_000, { chains: 8, jobs: 3, bytes_read: 90 }, 1000));
    expect(history.over(60)).toMatchObject({ seconds: 30, growth: { chains: 8, jobs: 3, bytes_read: 90 } });
    expect(history.over(WINDOW_S).growth.chains).toBe(8);
    // The last five seconds remain unknown.
    expect(perSecondOver(history, 'bytes_read', 5)).toBeNull();
  });

  test('of an older server covers this page, back to the last gap', () => {
    const history = new History();
    history.push(0, ...poll(10_000, { chains: 5 }));
    expect(history.over(60).seconds).toBe(0);
    history.push(1, ...poll(11_000, { chains: 7 }));
    expect(history.over(60)).toMatchObject({ seconds: 1, growth: { chains: 2 } });
    history.interrupt();
    history.push(9, ...poll(19_000, { chains: 50 }));
    history.push(10, ...poll(20_000, { chains: 51 }));
    expect(history.over(60)).toMatchObject({ seconds: 1, growth: { chains: 1 } });
  });

  test('has no rate without points', () => {
    const history = new History();
    expect(perSecondOver(history, 'bytes_sent', 5)).toBeNull();
    expect(busyShare(history, 5)).toBeNull();
  });

  test('never reports more than 100 % busy', () => {
    const history = new History();
    history.push(0, ...poll(1000, { busy_seconds: 0 }));
    history.push(1, ...poll(2000, { busy_seconds: 1.02 }));
    expect(busyShare(history, 5)).toBe(1);
  });

  test('read sizes are moving averages, with a gap without reads', () => {
    const history = new History();
    const readings: [number, number][] = [[0, 0], [2, 8], [4, 12], [4, 12], [4, 12], [4, 12]];
    readings.forEach(([reads, bytes_read], second) => {
      history.push(second, ...poll(1000 * (second + 1), { reads, bytes_read }));
    });
    expect(readSizeSeries(history.points, 2)).toEqual([null, 4, 3, 2, null, null]);
  });
});

test('the ratios of Table 4.1 are shares of the requested bytes', () => {
  const counters = {
    ...zero,
    bytes_requested: 200,
    bytes_read: 240,
    bytes_from_ram: 150,
    prefetch_evicted_bytes: 10,
    wasted_bytes: 40,
  };
  expect(ratios(counters)).toEqual({ disk: 1.2, ram: 0.75, evicted: 0.05, wasted: 0.2 });
  expect(ratios(zero)).toEqual({ disk: null, ram: null, evicted: null, wasted: null });
});

test('viewers with the least slack come first, and ties keep their order', () => {
  const viewers = [
    { viewer: 'c', slack_ms: 50 },
    { viewer: 'b', slack_ms: 9 },
    { viewer: 'a', slack_ms: 50 },
    { viewer: 'd', slack_ms: -3 },
  ];
  expect(byNeed(viewers).map((one) => one.viewer)).toEqual(['d', 'b', 'a', 'c']);
});
