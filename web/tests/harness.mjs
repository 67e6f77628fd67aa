/**
 * A browser and a running server for a file of tests. HEADLONG_PAGE names the server's admin
 * address, e.g. http://127.0.0.1:8081/. With HEADLONG_SAMPLE, a folder of titles, mock-server.mjs
 * serves that folder instead. CHROMIUM names another browser than Debian's.
 */
import assert from 'node:assert/strict';
import { after, before } from 'node:test';
import { openBrowser } from './browser.mjs';
import { start } from './mock-server.mjs';

const LIMIT_MS = 60_000;
export const BROKEN_BY_US = /Failed to load resource|net::ERR_FAILED/;

export let home;
export let titles;
export let media;
let mock = null;
let browser;

/** A page that records the browser's errors. */
export async function open(hash) {
  const page = await browser.context.newPage();
  page.setDefaultTimeout(LIMIT_MS);
  const complaints = [];
  page.on('pageerror', (error) => complaints.push(String(error)));
  page.on('console', (message) => {
    // A warning of Chromium about a type that the page gave it.
    const isOdd = message.type() === 'error' || message.text().includes('Failed to parse');
    if (isOdd) complaints.push(`${message.text()} (${message.location().url})`);
  });
  await page.goto(home + hash);
  return {
    page,
    complaints,
    /** Closes the page; recorded errors fail the test. */
    finish: async () => {
      await page.unrouteAll({ behavior: 'ignoreErrors' });
      await page.close();
      assert.deepEqual(complaints, [], 'the browser console has errors');
    },
  };
}

/** From now on the page gets `/status` as modified by `by`. */
export async function changeStatus(page, by) {
  await page.route('**/status', async (route) => {
    const status = await (await fetch(new URL('status', home))).json();
    by(status);
    await route.fulfill({ json: status });
  });
}

export const watch = (title) => `#/watch/${encodeURIComponent(title.id)}`;
export const playsBeyond = (page, seconds) =>
  page.waitForFunction((from) => (window.headlong?.video?.currentTime ?? 0) > from, seconds);

export function adaptive() {
  const title = titles.find((one) => one.kind === 'hls' && one.bit_rates_bps.length > 1);
  assert.ok(title, 'the library needs an HLS title with two renditions for this test');
  return title;
}

before(async () => {
  if (process.env.HEADLONG_PAGE === undefined && process.env.HEADLONG_SAMPLE === undefined) {
    throw new Error('Set HEADLONG_PAGE to the admin address of a running server, e.g. http://127.0.0.1:8081/');
  }
  if (process.env.HEADLONG_PAGE === undefined) mock = await start({ folder: process.env.HEADLONG_SAMPLE });
  home = new URL(process.env.HEADLONG_PAGE ?? mock.page).href;
  browser = await openBrowser();
  titles = (await (await fetch(new URL('library.json', home))).json()).titles;
  media = (await (await fetch(new URL('status', home))).json()).media_addresses[0];
  assert.ok(titles.length > 0, `the library at ${home} is empty`);
});

after(async () => {
  await browser?.close();
  mock?.stop();
});
