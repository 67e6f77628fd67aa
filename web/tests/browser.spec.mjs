/**
 * Browser tests of playback, seeking and error messages. See harness.mjs for requirements.
 *
 * The library must hold an HLS title with two renditions; every kind in it is played. No test
 * depends on the clock: each waits for an event, with a generous limit.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { adaptive, BROKEN_BY_US, home, media, open, playsBeyond, titles, watch } from './harness.mjs';

/** HLS has two containers, which players handle differently; the manifest tells which. */
async function container(title) {
  if (title.kind !== 'hls') return title.kind;
  const url = new URL(title.path, media);
  const master = await (await fetch(url)).text();
  const variant = master.split('\n').find((line) => line.trim() !== '' && !line.startsWith('#'));
  if (variant === undefined || !variant.includes('.m3u8')) return 'hls';
  const list = await (await fetch(new URL(variant.trim(), url))).text();
  return list.includes('#EXT-X-MAP') ? 'hls fMP4' : 'hls TS';
}

test('every kind of title plays, seeks and continues', async (t) => {
  const kinds = new Map();
  for (const title of titles) {
    const kind = await container(title);
    if (!kinds.has(kind)) kinds.set(kind, title);
  }
  for (const [kind, title] of kinds) {
    await t.test(`${kind}: ${title.name}`, async () => {
      const { page, finish } = await open(watch(title));
      await playsBeyond(page, 5);
      const target = await page.evaluate(() => {
        const { video } = window.headlong;
        const wanted = Math.min(video.duration * 0.6, video.duration - 8);
        video.currentTime = wanted;
        return wanted;
      });
      await page.waitForFunction((wanted) => {
        const { video } = window.headlong;
        return !video.seeking && Math.abs(video.currentTime - wanted) < 4;
      }, target);
      await playsBeyond(page, target + 2);
      const state = await page.evaluate(() => {
        const { video } = window.headlong;
        return { error: video.error, paused: video.paused, height: video.videoHeight };
      });
      assert.deepEqual({ ...state, height: state.height > 0 }, { error: null, paused: false, height: true });
      await finish();
    });
  }
});

test('requests carry one CMCD session id for each playback', async () => {
  const sessions = [];
  for (let playback = 0; playback < 2; playback += 1) {
    const { page, finish } = await open('');
    const seen = new Set();
    page.on('request', (request) => {
      const cmcd = new URL(request.url()).searchParams.get('CMCD');
      if (cmcd !== null) seen.add(/sid="([^"]+)"/.exec(cmcd)?.[1]);
    });
    await page.goto(home + watch(adaptive()));
    await playsBeyond(page, 1);
    assert.equal(seen.size, 1, `one session id, not ${[...seen].join(', ')}`);
    sessions.push([...seen][0]);
    await finish();
  }
  assert.notEqual(sessions[0], sessions[1]);
});

test('selects a fixed rendition, and Auto again', async () => {
  const { page, finish } = await open(watch(adaptive()));
  await playsBeyond(page, 1);
  const menu = page.getByRole('combobox', { name: 'Rendition' });
  const options = await menu.locator('option').evaluateAll((all) => all.map((one) => one.value));
  const renditions = options.filter((value) => value !== 'auto').map(Number);
  assert.ok(renditions.length >= 2, `the menu has renditions, not only ${options}`);
  // Best first: the other end of the menu is another picture, whichever is playing.
  for (const id of [renditions.at(-1), renditions[0]]) {
    await menu.selectOption(String(id));
    const height = await page.waitForFunction((wanted) => {
      const { player, video } = window.headlong;
      const track = player.getVariantTracks().find((one) => one.active);
      if (track?.id !== wanted) return false;
      return track.height === null || video.videoHeight === track.height ? video.videoHeight : false;
    }, id);
    assert.ok((await height.jsonValue()) > 0);
    const from = await page.evaluate(() => window.headlong.video.currentTime);
    await playsBeyond(page, from + 1);
  }
  await menu.selectOption('auto');
  assert.equal(await page.evaluate(() => window.headlong.player.getConfiguration().abr.enabled), true);
  await finish();
});

test('keys reach the controls of the picture', async () => {
  const { page, finish } = await open(watch(adaptive()));
  await playsBeyond(page, 1);
  await page.locator('video').focus();
  await page.keyboard.press('Space');
  await page.waitForFunction(() => window.headlong.video.paused);
  await page.keyboard.press('Space');
  await page.waitForFunction(() => !window.headlong.video.paused);
  await finish();
});

test('the charts of the dashboard move while a title plays', async () => {
  const viewer = await open(watch(adaptive()));
  const { page, finish } = await open('#/dashboard');
  const throughput = () =>
    page.evaluate(() => {
      const { xs = [], lines = [] } = window.headlong.charts.get('throughput') ?? {};
      const sent = (lines[0] ?? []).filter((value) => value !== null);
      return { length: xs.length, sent, canvas: document.querySelector('.area-throughput canvas')?.toDataURL() };
    });
  await page.waitForFunction(() => (window.headlong.charts.get('throughput')?.xs.length ?? 0) >= 2);
  const first = await throughput();
  await page.waitForFunction(
    (length) => (window.headlong.charts.get('throughput')?.xs.length ?? 0) >= length + 2,
    first.length,
  );
  // The player keeps fetching, so that a poll eventually sees bytes sent.
  await viewer.page.bringToFront();
  await playsBeyond(viewer.page, 3);
  await viewer.page.evaluate(() => {
    const { video } = window.headlong;
    video.currentTime = Math.max(0, video.duration - 12);
  });
  await page.bringToFront();
  await page.waitForFunction(() =>
    (window.headlong.charts.get('throughput')?.lines[0] ?? []).some((value) => (value ?? 0) > 0),
  );
  const second = await throughput();
  assert.ok(second.length > first.length, 'polls add points');
  assert.notDeepEqual(second.sent, first.sent, 'values differ');
  assert.notEqual(second.canvas, first.canvas, 'the picture differs');
  for (const name of ['throughput', 'queue', 'busy', 'read size', 'memory']) {
    assert.ok(await page.evaluate((chart) => window.headlong.charts.has(chart), name), name);
  }
  assert.ok(await page.locator('.strip canvas').isVisible());
  await viewer.finish();
  await finish();
});

test('reports a lost connection and recovers', async () => {
  const { page, complaints } = await open('#/dashboard');
  await page.locator('.tile').first().waitFor();
  await page.route('**/status', (route) => route.abort());
  await page.getByText('No connection to').waitFor();
  await page.unroute('**/status');
  await page.waitForFunction(() => document.querySelector('#banner')?.textContent === '');
  await page.close();
  assert.deepEqual(complaints.filter((one) => !BROKEN_BY_US.test(one)), []);
});

test('a playback error names the file and the remedy', async () => {
  const { page, complaints } = await open('');
  const title = adaptive();
  await page.route(
    (url) => url.pathname === new URL(title.path, media).pathname,
    (route) => route.fulfill({ status: 404, headers: { 'access-control-allow-origin': '*' }, body: 'gone' }),
  );
  await page.goto(home + watch(title));
  const alert = page.getByRole('alert');
  await alert.getByText(decodeURIComponent(title.path)).waitFor();
  await page.unrouteAll();
  await alert.getByRole('button', { name: 'Try again' }).click();
  await playsBeyond(page, 1);
  await page.goto(`${home}#/watch/there-is-no-such-title`);
  await page.getByText('There is no title “there-is-no-such-title”').waitFor();
  await page.close();
  assert.deepEqual(complaints.filter((one) => !BROKEN_BY_US.test(one)), []);
});

/** Blocks all media from now on; returns a function that ends that. */
async function cutOff(page) {
  const ofMedia = (url) => url.origin === new URL(media).origin;
  let refused = 0;
  await page.route(ofMedia, (route) => {
    refused += 1;
    return route.abort();
  });
  return { refused: () => refused, restore: () => page.unroute(ofMedia) };
}

/** Plays until some media is buffered; cuts the connection, and seeks close to the buffer's end. */
async function playToTheEdge(page, left) {
  await page.waitForFunction((seconds) => {
    const { buffered, currentTime, duration } = window.headlong.video ?? { buffered: [] };
    const end = buffered.length > 0 ? buffered.end(buffered.length - 1) : 0;
    return currentTime > 1 && end > currentTime + seconds && end < duration - 8;
  }, left);
  const line = await cutOff(page);
  const edge = await page.evaluate((seconds) => {
    const { video } = window.headlong;
    const edge = video.buffered.end(video.buffered.length - 1);
    video.currentTime = edge - seconds;
    return edge;
  }, left);
  return { line, edge };
}

test('plays the buffer without the server, and a retry resumes there', async () => {
  const { page, complaints } = await open(watch(adaptive()));
  const { line, edge } = await playToTheEdge(page, 6);
  const alert = page.getByRole('alert');
  await alert.getByText('No answer from the media address').waitFor();
  const stood = await page.evaluate(() => window.headlong.video.currentTime);
  assert.ok(stood > edge - 2, `stopped at ${stood}, with media ready up to ${edge}`);
  await line.restore();
  await alert.getByRole('button', { name: 'Try again' }).click();
  await page.waitForFunction(() => window.headlong.video.currentTime > 0);
  const again = await page.evaluate(() => window.headlong.video.currentTime);
  assert.ok(again > stood - 1, `resumes at ${again}, not at ${stood}`);
  await playsBeyond(page, again + 1);
  await page.close();
  assert.deepEqual(complaints.filter((one) => !BROKEN_BY_US.test(one)), []);
});

test('a server outage shorter than the buffer does not stop playback', async () => {
  const { page, complaints } = await open(watch(adaptive()));
  const { line, edge } = await playToTheEdge(page, 12);
  // A player gives up after some attempts; the page retries.
  await page.evaluate(() => {
    window.failed = new Promise((resolve) => window.headlong.player.addEventListener('error', resolve));
    return window.failed.then(() => {});
  });
  assert.ok(line.refused() > 1);
  await line.restore();
  await playsBeyond(page, edge + 1);
  assert.equal(await page.locator('.trouble').isVisible(), false);
  await page.close();
  assert.deepEqual(complaints.filter((one) => !BROKEN_BY_US.test(one)), []);
});

/** Adds subtitles to a title: one cue, as long as the title. */
async function addSubtitles(page, title, isDefault) {
  const master = new URL(title.path, media);
  const seconds = Math.floor(title.duration_s);
  const cors = { 'access-control-allow-origin': '*' };
  const texts = {
    'added.m3u8': `#EXTM3U\n#EXT-X-TARGETDURATION:${seconds}\n#EXT-X-PLAYLIST-TYPE:VOD\n#EXTINF:${seconds},\nadded.vtt\n#EXT-X-ENDLIST\n`,
    'added.vtt': 'WEBVTT\n\n00:00.000 --> 10:00.000\nIt is said\n',
  };
  for (const [name, body] of Object.entries(texts)) {
    const { pathname } = new URL(name, master);
    await page.route((url) => url.pathname === pathname, (route) => route.fulfill({ headers: cors, body }));
  }
  await page.route((url) => url.pathname === master.pathname, async (route) => {
    const response = await route.fetch();
    const track = `#EXT-X-MEDIA:TYPE=SUBTITLES,GROUP-ID="added",NAME="Added",LANGUAGE="de",AUTOSELECT=YES,DEFAULT=${isDefault ? 'YES' : 'NO'},URI="added.m3u8"`;
    const body = (await response.text())
      .replace(/^#EXTM3U\r?\n/, (first) => `${first}${track}\n`)
      .replace(/^(#EXT-X-STREAM-INF:.*?)\r?$/gm, '$1,SUBTITLES="added"');
    await route.fulfill({ response, body });
  });
}

const showsCues = (page) =>
  page.waitForFunction(() =>
    [...window.headlong.video.textTracks].some((one) => one.mode === 'showing' && one.activeCues?.length > 0),
  );

test('shows subtitles selected after the last video segment', async () => {
  const { page, finish } = await open('');
  await addSubtitles(page, adaptive(), false);
  await page.goto(home + watch(adaptive()));
  await playsBeyond(page, 1);
  await page.evaluate(() => {
    const { video } = window.headlong;
    video.currentTime = video.duration - 15;
  });
  await page.waitForFunction(() => {
    const { buffered, duration, seeking } = window.headlong.video;
    // The player has ended its stream, so no segment follows.
    return !seeking && buffered.length > 0 && buffered.end(buffered.length - 1) >= duration - 0.01;
  });
  const menu = page.getByRole('combobox', { name: 'Subtitles' });
  assert.equal(await menu.inputValue(), '');
  await menu.selectOption({ label: 'Added' });
  await showsCues(page);
  await finish();
});

test('shows the default subtitles of a playlist from the start', async () => {
  const { page, finish } = await open('');
  await addSubtitles(page, adaptive(), true);
  await page.goto(home + watch(adaptive()));
  await showsCues(page);
  const menu = page.getByRole('combobox', { name: 'Subtitles' });
  assert.notEqual(await menu.inputValue(), '');
  await menu.selectOption('');
  await page.waitForFunction(() => [...window.headlong.video.textTracks].every((one) => one.mode !== 'showing'));
  await finish();
});

test('lists subtitles beside a plain file by language', async () => {
  const title = titles.find((one) => one.kind === 'file');
  assert.ok(title, 'the library needs a plain file for this test');
  const { page, complaints } = await open('');
  const languages = { 'added.vtt': null, 'added.de.vtt': 'de', 'added.fr.vtt': 'fr' };
  await page.route('**/library.json', async (route) => {
    const response = await route.fetch();
    const library = await response.json();
    for (const one of library.titles) {
      assert.ok(Array.isArray(one.texts), 'the server says which subtitles there are');
      if (one.id !== title.id) continue;
      one.texts = Object.entries(languages).map(([name, language]) => ({ path: `/${name}`, language }));
    }
    await route.fulfill({ response, json: library });
  });
  const cors = { 'access-control-allow-origin': '*' };
  const body = 'WEBVTT\n\n00:00.000 --> 10:00.000\nIt is said\n';
  for (const name of ['added.vtt', 'added.de.vtt']) {
    await page.route((url) => url.pathname === `/${name}`, (route) => route.fulfill({ headers: cors, body }));
  }
  // The third is listed but missing.
  await page.route((url) => url.pathname === '/added.fr.vtt', (route) => route.fulfill({ status: 404, headers: cors }));
  await page.goto(home + watch(title));
  await playsBeyond(page, 1);
  const menu = page.getByRole('combobox', { name: 'Subtitles' });
  const german = new Intl.DisplayNames([await page.evaluate(() => navigator.language)], { type: 'language' }).of('de');
  await menu.locator('option', { hasText: german }).waitFor({ state: 'attached' });
  const labels = await menu.locator('option').allTextContents();
  assert.deepEqual(labels.slice(1), ['Subtitles', german]);
  assert.equal(await menu.inputValue(), '');
  await menu.selectOption({ label: german });
  await showsCues(page);
  await page.close();
  assert.deepEqual(complaints.filter((one) => !BROKEN_BY_US.test(one)), []);
});

test('reports the status of a refused plain file', async () => {
  const title = titles.find((one) => one.kind === 'file');
  assert.ok(title, 'the library needs a plain file for this test');
  const { page, complaints } = await open('');
  await page.route(
    (url) => url.pathname === new URL(title.path, media).pathname,
    (route) => route.fulfill({ status: 403, headers: { 'access-control-allow-origin': '*' }, body: 'closed' }),
  );
  await page.goto(home + watch(title));
  await page.getByRole('alert').getByText(`${decodeURIComponent(title.path)} (403)`).waitFor();
  await page.close();
  assert.deepEqual(complaints.filter((one) => !BROKEN_BY_US.test(one)), []);
});
