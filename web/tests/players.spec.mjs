/**
 * Other players than the page's own: each plays the sample library's adaptive title and titles that the
 * server packages, to the end, with a seek, and with a switch where there are two bit rates. Two servers
 * have the packaged titles, and players are steered from one to the other.
 * scripts/browser.sh adds titles in fragments, with and without an index of them.
 */
import assert from 'node:assert/strict';
import { createRequire } from 'node:module';
import { test } from 'node:test';
import { BROKEN_BY_US, adaptive, home, media, open, playsBeyond } from './harness.mjs';

const { resolve } = createRequire(import.meta.url);

/**
 * Each function runs in the page: `start` plays a URL in the only video and returns the player, `choose`
 * lets it go on with the video of this height, if it has such a one. With the settings `frugal` it loads
 * segments as late as it can, and soon gives up a server.
 */
const PLAYERS = {
  'hls.js': {
    script: resolve('hls.js/dist/hls.min.js'),
    playlist: 'master.m3u8',
    frugal: {
      maxBufferLength: 4,
      maxMaxBufferLength: 4,
      fragLoadPolicy: {
        default: {
          maxTimeToFirstByteMs: 10_000,
          maxLoadTimeMs: 20_000,
          timeoutRetry: null,
          errorRetry: { maxNumRetry: 1, retryDelayMs: 100, maxRetryDelayMs: 100 },
        },
      },
    },
    start: (url, video, failed, settings) => {
      const hls = new window.Hls({ enableWorker: false, cmcd: {}, ...settings });
      hls.on(window.Hls.Events.ERROR, (_event, data) => {
        if (data.fatal) failed(`${data.details} ${data.error ?? ''}`);
      });
      hls.on(window.Hls.Events.MANIFEST_PARSED, () => video.play());
      hls.loadSource(url);
      hls.attachMedia(video);
      return hls;
    },
    choose: (hls, height) => {
      hls.nextLevel = hls.levels.findIndex((level) => level.height === height);
    },
  },
  'dash.js': {
    script: resolve('dashjs'),
    playlist: 'manifest.mpd',
    frugal: {
      buffer: { bufferTimeDefault: 4, bufferTimeAtTopQuality: 4, bufferTimeAtTopQualityLongForm: 4 },
      retryAttempts: { MediaSegment: 1 },
    },
    start: (url, video, failed, settings) => {
      const dash = window.dashjs.MediaPlayer().create();
      dash.updateSettings({ streaming: { cmcd: { enabled: true }, ...settings } });
      dash.on('error', ({ error }) => failed(`${error?.code} ${error?.message ?? error}`));
      dash.initialize(video, url, true);
      return dash;
    },
    choose: (dash, height) => {
      dash.updateSettings({ streaming: { abr: { autoSwitchBitrate: { video: false } } } });
      const all = dash.getRepresentationsByType('video');
      const { id } = all.find((one) => one.height === height);
      dash.setRepresentationForTypeById('video', id, true);
    },
  },
  'Shaka Player': {
    script: resolve('shaka-player/dist/shaka-player.compiled.js'),
    playlist: 'manifest.mpd',
    start: async (url, video, failed) => {
      const shaka = new window.shaka.Player();
      shaka.addEventListener('error', ({ detail }) => failed(`${detail.code} ${detail.data}`));
      await shaka.attach(video);
      await shaka.load(url);
      await video.play();
      return shaka;
    },
    choose: (shaka, height) => {
      shaka.configure({ abr: { enabled: false } });
      const track = shaka.getVariantTracks().find((one) => one.height === height);
      shaka.selectVariantTrack(track, true);
    },
  },
};

/** A page of the server without our code, and the script of a player. */
async function openWith(player) {
  const { page, complaints } = await open('');
  // It must really come from there: Chromium blocks access to loopback addresses from pages of unknown
  // origin, and pages of the server allow only its own scripts.
  await page.goto(new URL('status', home).href);
  await page.evaluate(() => {
    document.body.innerHTML = '<video muted></video>';
  });
  const script = new URL('player.test.js', home).href;
  await page.route(script, (route) =>
    route.fulfill({ path: player.script, contentType: 'text/javascript' }),
  );
  await page.addScriptTag({ url: script });
  return { page, complaints };
}

/**
 * Waits for the end of the video; an error says where it stands and what was loaded last. Where a browser
 * is slow, dash.js pauses at the end and the element never calls itself ended.
 */
async function untilEnded(page) {
  try {
    await page.waitForFunction(() => {
      const { ended, currentTime, duration } = window.headlong.video;
      return ended || currentTime > duration - 0.1;
    });
  } catch (cause) {
    const stands = await page.evaluate(() => {
      const { video } = window.headlong;
      const { currentTime, duration, readyState, networkState, seeking, paused, buffered } = video;
      const ranges = Array.from({ length: buffered.length }, (_, n) => [buffered.start(n), buffered.end(n)]);
      const loaded = performance.getEntriesByType('resource').slice(-8);
      return {
        currentTime, duration, readyState, networkState, seeking, paused, ranges,
        failures: window.failures,
        loaded: loaded.map(({ name, responseStatus, startTime, responseEnd }) =>
          [name.split('/').at(-1), responseStatus, startTime, responseEnd]),
        now: performance.now(),
      };
    });
    throw new Error(`the video does not end: ${JSON.stringify(stands)}`, { cause });
  }
}

/** Starts a path of the media address in a page. */
async function begin(page, player, path, settings) {
  const [url, given] = [new URL(path, media).href, settings].map((value) => JSON.stringify(value));
  await page.evaluate(
    `(async () => {
      const video = document.querySelector('video');
      window.failures = [];
      window.headlong = { video };
      const failed = (why) => window.failures.push(why);
      window.headlong.player = await (${player.start})(${url}, video, failed, ${given});
    })()`,
  );
}

/** Plays a path of the media address to its end. */
async function plays(player, path, heights) {
  const { page, complaints } = await openWith(player);
  await begin(page, player, path, {});
  await playsBeyond(page, 2);
  const shows = (height) =>
    page.waitForFunction((expected) => window.headlong.video.videoHeight === expected, height);
  for (const height of heights) {
    await page.evaluate(`(${player.choose})(window.headlong.player, ${height})`);
    await shows(height);
  }
  const target = await page.evaluate(() => {
    const { video } = window.headlong;
    video.currentTime = video.duration - 5;
    return video.currentTime;
  });
  await untilEnded(page);
  const state = await page.evaluate(() => {
    const { currentTime, duration, videoHeight } = window.headlong.video;
    return { isAtEnd: Math.abs(currentTime - duration) < 0.5, videoHeight, failures: window.failures };
  });
  assert.ok(target > 5, `a seek to ${target}`);
  assert.deepEqual(state, { isAtEnd: true, videoHeight: heights.at(-1) ?? state.videoHeight, failures: [] });
  await page.close();
  assert.deepEqual(complaints.filter((one) => !/favicon/.test(one)), []);
}

test('another player, hls.js, plays the same title', async () => {
  await plays(PLAYERS['hls.js'], adaptive().path, []);
});

/** Paths of packaged titles, and heights of their videos in the order in which they are chosen. */
const PACKAGED = [
  { path: '/test-card.mp4', heights: [] },
  { path: '/whole.mp4', heights: [90, 180, 90] },
  { path: '/with-index.mp4', heights: [90, 180, 90] },
  { path: '/without-index.mp4', heights: [90, 180, 90] },
];

for (const { path, heights } of PACKAGED) {
  for (const [name, player] of Object.entries(PLAYERS)) {
    test(`${name} plays ${path} with a seek${heights.length > 0 ? ' and switches' : ''}`, async (t) => {
      if (process.env.HEADLONG_PAGE === undefined) return t.skip('the mock server does not package');
      await plays(player, `${path}/${player.playlist}`, heights);
    });
  }
}

/** Hosts of the two servers that the playlists of a title name, the one that answers first. */
async function serversOf(title) {
  const master = await (await fetch(new URL(`${title}/master.m3u8`, media))).text();
  const hosts = [...master.matchAll(/^http:\/\/([^/]+)\//gm)].map(([, host]) => host);
  const found = [...new Set(hosts)];
  assert.equal(found.length, 2, master);
  assert.equal(found[0], new URL(media).host);
  return found;
}

for (const name of ['hls.js', 'dash.js']) {
  test(`${name} goes to the server it is steered to, and leaves one that does not answer`, async (t) => {
    if (process.env.HEADLONG_PAGE === undefined) return t.skip('the mock server does not package');
    const title = '/whole.mp4';
    const player = PLAYERS[name];
    const [first, second] = await serversOf(title);
    const { page, complaints } = await openWith(player);
    // The answers of the server, as if its disks became late.
    let isLate = false;
    await page.route('**/steering.json*', async (route) => {
      const response = await route.fetch();
      const steering = await response.json();
      if (isLate) steering['PATHWAY-PRIORITY'].reverse();
      await route.fulfill({ response, json: { ...steering, TTL: 1 } });
    });
    const segments = [];
    page.on('request', (request) => {
      const { host, pathname } = new URL(request.url());
      if (pathname.endsWith('.m4s')) segments.push(host);
    });
    const isLoadedFrom = async (host) => {
      const before = segments.length;
      const end = Date.now() + 60_000;
      while (!segments.slice(before).includes(host)) {
        assert.ok(Date.now() < end, `no segment from ${host} after ${segments}`);
        await page.waitForTimeout(50);
      }
    };
    await begin(page, player, `${title}/${player.playlist}`, player.frugal);
    await playsBeyond(page, 1);
    assert.deepEqual([...new Set(segments)], [first]);
    isLate = true;
    await isLoadedFrom(second);
    await page.route(`http://${second}/**`, (route) => route.abort());
    await isLoadedFrom(first);
    await untilEnded(page);
    // dash.js reports segments that it then loads from the other server.
    const failures = await page.evaluate(() => window.failures);
    assert.deepEqual(failures.filter((one) => !(one.startsWith('27 ') && one.includes(second))), []);
    await page.close();
    assert.deepEqual(complaints.filter((one) => !/favicon/.test(one) && !BROKEN_BY_US.test(one)), []);
  });
}
