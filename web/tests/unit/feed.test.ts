import { afterEach, beforeEach, expect, test, vi } from 'vitest';

let answers: Response[] = [];

/** A new page, which receives these answers one after the other. */
async function page(...given: Response[]) {
  answers = given;
  vi.resetModules();
  return import('../../src/feed');
}

const json = (value: unknown) => Response.json(value);
const plain = (status: number, body: string) =>
  new Response(body, { status, headers: { 'content-type': 'text/plain; charset=utf-8' } });

beforeEach(() => {
  vi.useFakeTimers({ toFake: ['setTimeout'] });
  vi.stubGlobal('document', { baseURI: 'http://server/' });
  vi.stubGlobal('fetch', () => {
    const answer = answers.shift();
    return answer === undefined ? Promise.reject(new TypeError('no connection')) : Promise.resolve(answer);
  });
});

afterEach(() => {
  vi.useRealTimers();
  vi.unstubAllGlobals();
  vi.restoreAllMocks();
});

type Feed = Awaited<ReturnType<typeof page>>;

/** Resolves when a poll started this way has its answer. */
async function poll({ onPoll }: Feed, begin: () => void) {
  const polled = new Promise<void>((resolve) => {
    const off = onPoll(() => {
      off();
      resolve();
    });
  });
  begin();
  await polled;
}

const aSecondOn = () => void vi.advanceTimersByTime(1000);

test('there is no rate between two runs of a server', async () => {
  const said = (started_unix_ms: number, uptime_ms: number, bytes_sent: number) =>
    json({ started_unix_ms, uptime_ms, totals: { bytes_sent, requests: 1 } });
  const opened = await page(said(1, 5000, 10), said(1, 7000, 50), said(2, 9000, 90));
  const rates: (number | null)[] = [];
  for (const begin of [opened.startFeed, aSecondOn, aSecondOn]) {
    await poll(opened, begin);
    rates.push(opened.feed.totals.bytes_per_s);
  }
  expect(rates).toEqual([null, 20, null]);
});

test('quotes the error text of the server', async () => {
  const opened = await page(plain(503, 'a device does not answer\nand more of it\n'));
  await poll(opened, opened.startFeed);
  expect(opened.feed.lost_because).toBe('the server answered 503 for status: a device does not answer');
});

test('reports the status of an error without plain text', async () => {
  const html = new Response('<p>no', { status: 502, headers: { 'content-type': 'text/html' } });
  const { fetchJson } = await page(html, plain(500, ' \n'));
  await expect(fetchJson('status')).rejects.toThrow(/the server answered 502 for status$/);
  await expect(fetchJson('status')).rejects.toThrow(/the server answered 500 for status$/);
});

test('the page waits longer than the server itself', async () => {
  const patience = vi.spyOn(AbortSignal, 'timeout');
  const { fetchJson } = await page(json({}));
  await fetchJson('status');
  expect(patience.mock.calls[0]?.[0]).toBeGreaterThan(5000);
});
