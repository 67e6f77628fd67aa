/** The library and the dashboard in a browser: contents, layout and colours. */
import assert from 'node:assert/strict';
import { pathToFileURL } from 'node:url';
import { test } from 'node:test';
import { adaptive, BROKEN_BY_US, changeStatus, home, open, titles, watch } from './harness.mjs';

test('the library lists every title, finds one, and links to it', async () => {
  const { page, finish } = await open('');
  const cards = page.locator('.card');
  await cards.first().waitFor();
  assert.equal(await cards.count(), Math.min(titles.length, 60));
  const wanted = titles.at(-1);
  await page.getByRole('searchbox', { name: 'Search titles' }).fill(wanted.name);
  await page.locator('.card h2', { hasText: wanted.name }).first().waitFor();
  await page.getByRole('searchbox', { name: 'Search titles' }).fill('no title has this name 5f1c');
  await page.getByText('No title matches').waitFor();
  assert.equal(await cards.count(), 0);
  await page.getByRole('searchbox', { name: 'Search titles' }).fill('');
  await cards.first().click();
  await page.locator('video').waitFor();
  assert.match(page.url(), /#\/watch\//);
  await finish();
});

test('posters of the library come from the media address', async () => {
  const withPoster = titles.filter((title) => title.poster !== null);
  const { page, finish } = await open('');
  await page.locator('.card').first().waitFor();
  if (withPoster.length > 0) {
    await page.waitForFunction(
      () => [...document.querySelectorAll('.poster img')].some((image) => image.naturalWidth > 0),
    );
  }
  await finish();
});

/** A library like that of a collector: shows of the same names, films in folders of their own. */
function manyTitles() {
  const title = (path, name) => ({
    id: path, name, kind: 'file', path: encodeURI(path), bytes: 1e9, duration_s: 1500, bit_rates_bps: [5e6],
    poster: path.startsWith('/Films/') ? null : '/Shows/poster.jpg',
  });
  const episodes = Array.from({ length: 3000 }, (_, number) => {
    const [show, episode] = [Math.floor(number / 30), number % 30];
    const name = `S0${1 + Math.floor(episode / 10)}E${String(1 + (episode % 10)).padStart(2, '0')}`;
    return title(`/Shows/Show ${show}/Season ${name.slice(1, 3)}/${name}.mp4`, name);
  });
  const films = Array.from({ length: 999 }, (_, number) => title(`/Films/Film ${number}/film ${number}.mkv`, `film ${number}`));
  return [...episodes, ...films, title('/Films/Old/old.avi', 'old')];
}

test('4,000 titles open as folders, and are found by a search over all', async () => {
  const { page, finish } = await open('#/dashboard');
  await page.route('**/library.json', (route) => route.fulfill({ json: { titles: manyTitles(), title_count: 4000 } }));
  const picture = '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 16 9"><rect width="16" height="9" fill="teal"/></svg>';
  await page.route('**/Shows/poster.jpg', (route) => route.fulfill({ contentType: 'image/svg+xml', body: picture }));
  await page.goto(home);
  const cards = page.locator('.card');
  const named = (name) => page.locator('.card', { has: page.getByRole('heading', { name, exact: true }) });
  // The cards of a folder's parent count titles too, so only its heading says that it is open.
  const opened = (path) => page.locator('.tools h1').getByText(path, { exact: true }).waitFor();
  await page.getByText('4000 titles').waitFor();
  assert.equal(await cards.count(), 2);
  await named('Shows').locator('.poster img').waitFor();
  // Only what is in view is made, however many titles there are.
  await named('Films').click();
  await opened('Library / Films');
  await page.getByText('1000 titles').waitFor();
  assert.equal(await cards.count(), 60);
  await page.goBack();
  await named('Shows').click();
  await named('Show 7').click();
  await named('Season 02').click();
  await opened('Library / Shows / Show 7 / Season 02');
  await page.getByText('10 titles').waitFor();
  assert.equal(await page.locator('.poster img').count(), 0, 'a picture of all shows is that of no title');
  await page.getByRole('searchbox', { name: 'Search titles' }).fill('s01e01');
  await page.getByText('100 of 4000 titles').waitFor();
  await page.getByText('Shows / Show 42 / Season 01').waitFor();
  await page.getByRole('searchbox', { name: 'Search titles' }).fill('');
  await page.getByRole('heading').getByRole('link', { name: 'Shows' }).click();
  await opened('Library / Shows');
  await page.getByText('3000 titles').waitFor();
  assert.equal(page.url(), `${home}#/folder/Shows`);
  await page.goto(`${home}#/folder/Elsewhere`);
  await page.getByText('There is no folder “Elsewhere”').waitFor();
  await finish();
});

test('a container that no browser plays is named before playing', async () => {
  const { page, finish } = await open('#/dashboard');
  await page.route('**/library.json', (route) => route.fulfill({ json: { titles: manyTitles() } }));
  let requests = 0;
  await page.route('**/old.avi*', (route) => {
    requests += 1;
    return route.abort();
  });
  await page.goto(`${home}#/folder/Films`);
  await page.getByRole('searchbox', { name: 'Search titles' }).fill('old');
  await page.getByText('AVI, not for browsers').waitFor();
  await page.locator('.card').click();
  await page.getByText('Browsers do not play AVI files, and “old” is one.').waitFor();
  assert.match(await page.getByRole('link', { name: 'Open the file' }).getAttribute('href'), /old\.avi$/);
  assert.equal(requests, 0);
  await page.getByRole('link', { name: 'Library', exact: true }).last().click();
  await page.waitForFunction(() => location.hash === '#/folder/Films');
  await finish();
});

test('a library refresh keeps scroll position and focus', async () => {
  const { page, finish } = await open('');
  const title = (number) => ({ id: `t${number}`, name: `Title ${number}`, kind: 'file', path: `/t${number}.mp4`, bytes: 1 });
  const many = Array.from({ length: 300 }, (_, number) => title(number));
  await page.route('**/library.json', (route) => route.fulfill({ json: { titles: many } }));
  await page.reload();
  const cards = page.locator('.card');
  await cards.first().waitFor();
  for (let count = await cards.count(); count <= 150; count = await cards.count()) {
    await page.evaluate(() => window.scrollTo(0, document.body.scrollHeight));
    await page.waitForFunction((before) => document.querySelectorAll('.card').length > before, count);
  }
  await cards.nth(140).focus();
  const place = () =>
    page.evaluate(() => ({ at: scrollY, focused: document.activeElement.hash, cards: document.querySelectorAll('.card').length }));
  const before = await place();
  assert.ok(before.at > 0 && before.focused !== undefined, JSON.stringify(before));
  await cards.nth(141).evaluate((card) => (card.stays = true));
  // The focused title is another file now, and there is one more title.
  many[140].bytes = 2;
  many.push(title(300));
  await page.getByText('301 titles').waitFor();
  assert.deepEqual(await place(), before);
  assert.equal(await cards.nth(141).evaluate((card) => card.stays), true, 'a card that is still valid is kept');
  assert.match(await cards.nth(140).getAttribute('aria-label'), /2\sB$/);
  await page.getByRole('searchbox', { name: 'Search titles' }).fill('title');
  await page.getByText('301 of 301 titles').waitFor();
  assert.equal(await cards.count(), 60, 'a new search begins at the top');
  await finish();
});

/** Panels whose content is cut off. */
const cutOff = (page) =>
  page.evaluate(() =>
    [...document.querySelectorAll('.device .panel')]
      .filter((panel) => panel.scrollHeight > panel.clientHeight)
      .map((panel) => panel.className),
  );

/** Tiles and panels of the dashboard that are not fully within the window. */
const outside = (page) =>
  page.evaluate(() =>
    [...document.querySelectorAll('.tile, .device .panel')]
      .map((element) => ({ name: element.className, box: element.getBoundingClientRect() }))
      .filter(({ box }) => box.height < 40 || box.bottom > innerHeight || box.right > innerWidth)
      .map(({ name }) => name),
  );

test('a screen of 1920 x 1080 shows the whole dashboard of a device without scrolling', async () => {
  const { page, finish } = await open('?wall=1#/dashboard');
  await page.setViewportSize({ width: 1920, height: 1080 });
  await page.locator('.area-viewers').waitFor();
  await page.waitForFunction(() => document.querySelectorAll('.device .chart canvas').length >= 5);
  assert.deepEqual(await outside(page), []);
  assert.deepEqual(await cutOff(page), []);
  assert.equal(await page.evaluate(() => document.documentElement.scrollHeight), 1080);
  assert.equal(await page.evaluate(() => document.documentElement.dataset.theme), 'dark');
  await finish();
});

/** Simulates this many disks like the server's first, each with flash. */
const withDisks = (page, count) =>
  changeStatus(page, (status) => {
    const ssds = [{ path: '/dev/nvme0n1', state: 'online', read_ms: 0.2 }];
    const flash = { capacity_bytes: 1e11, filled_bytes: 9e10, budget_bytes: 3e10, budget_left_bytes: 2e10, ssds };
    const disk = { ...status.devices[0], flash };
    status.devices = Array.from({ length: count }, (_, index) => ({ ...disk, name: `disk${index}` }));
  });

test('a screen of 1920 x 940 scrolls for two disks with flash', async () => {
  const { page, finish } = await open('');
  await page.setViewportSize({ width: 1920, height: 940 });
  await withDisks(page, 2);
  await page.goto(`${home}#/dashboard`);
  await page.locator('.area-flash').waitFor();
  // By the wheel: a script can scroll even without a scroll bar.
  await page.locator('.device-head h2').hover();
  await page.mouse.wheel(0, 3000);
  await page.waitForFunction(() => document.querySelector('.area-flash').getBoundingClientRect().bottom <= innerHeight);
  assert.deepEqual(await outside(page), []);
  assert.deepEqual(await cutOff(page), []);
  await finish();
});

test('of 24 disks the card of the chosen one is in view', async () => {
  const { page, finish } = await open('');
  await page.setViewportSize({ width: 1920, height: 940 });
  await withDisks(page, 24);
  for (const name of ['disk20', 'disk0', 'disk23']) {
    await page.goto(`${home}#/dashboard/${name}`);
    const chosen = page.locator('.device-card[aria-current]', { hasText: name });
    await chosen.waitFor();
    const box = await chosen.boundingBox();
    assert.ok(box.x >= 0 && box.x + box.width <= 1920, `${name} lies at ${box.x}`);
  }
  await finish();
});

test('counts chains and queued positions that are not shown', async () => {
  const { page, finish } = await open('');
  await changeStatus(page, (status) => {
    const [disk] = status.devices;
    disk.capacity_bytes = 0;
    disk.chains = { live: 3, shown: [] };
    disk.queue = { ...disk.queue, jobs: 200, positions_bytes: Array.from({ length: 64 }, (_, at) => 1e9 * at) };
    status.devices = [disk];
  });
  await page.goto(`${home}#/dashboard`);
  await page.getByText('64 of 200 queued positions').waitFor();
  await page.getByText('No active chain reads from the disk.').waitFor();
  const tile = page.locator('.tile', { has: page.getByRole('heading', { name: 'Chains', exact: true }) });
  assert.equal(await tile.locator('.value').textContent(), '3');
  assert.match(await page.locator('.strip canvas').getAttribute('aria-label'), /^Disk of unknown size, .*64 of 200/);
  assert.doesNotMatch(await page.locator('.device-facts').textContent(), /\b0\sB/);
  await finish();
});

test('quotes the error text of the server', async () => {
  const { page, complaints } = await open('#/dashboard');
  await page.locator('.tile').first().waitFor();
  await page.route('**/status', (route) =>
    route.fulfill({ status: 503, contentType: 'text/plain; charset=utf-8', body: 'a device does not answer\n' }),
  );
  await page.getByText('the server answered 503 for status: a device does not answer.').waitFor();
  await page.close();
  assert.deepEqual(complaints.filter((one) => !BROKEN_BY_US.test(one)), []);
});

test('a phone shows every page without scrolling sideways', async () => {
  const { page, finish } = await open('');
  await page.setViewportSize({ width: 390, height: 844 });
  for (const [hash, landmark] of [
    ['#/', '.card'],
    [watch(adaptive()), '.gauges'],
    ['#/dashboard', '.area-viewers'],
  ]) {
    await page.goto(home + hash);
    await page.locator(landmark).first().waitFor();
    const wide = await page.evaluate(() => document.documentElement.scrollWidth);
    assert.ok(wide <= 390, `${hash} is ${wide} pixels wide`);
  }
  await page.goto(`${home}#/`);
  const search = await page.getByRole('searchbox', { name: 'Search titles' }).boundingBox();
  const grid = await page.locator('.grid').boundingBox();
  assert.deepEqual([search.x, search.width], [grid.x, grid.width]);
  await finish();
});

/** The files of HEADLONG_LAB_PAGES, which scripts/browser.sh makes. */
const labPages = (process.env.HEADLONG_LAB_PAGES ?? '').split(' ').filter((file) => file !== '');

test('the pages of the lab fit a phone', { skip: labPages.length === 0 && 'HEADLONG_LAB_PAGES is not set' }, async () => {
  const { page, finish } = await open('');
  for (const [width, height] of [[390, 844], [1100, 800]]) {
    await page.setViewportSize({ width, height });
    for (const file of labPages) {
      await page.goto(pathToFileURL(file).href);
      await page.locator('table').first().waitFor({ state: 'attached' });
      const wide = await page.evaluate(() => document.documentElement.scrollWidth);
      assert.ok(wide <= width, `${file} is ${wide} pixels wide on ${width}`);
      // Nothing is cut off: what is wider than the page scrolls.
      const cut = await page.evaluate(() =>
        [...document.querySelectorAll('table')].filter((table) => {
          const beyond = table.getBoundingClientRect().right > document.documentElement.clientWidth;
          let box = table;
          while (box && !['auto', 'scroll'].includes(getComputedStyle(box).overflowX)) box = box.parentElement;
          return beyond && box === null;
        }).length);
      assert.equal(cut, 0, `${file} cuts tables off on ${width}`);
    }
  }
  await finish();
});

test('the colours follow the choice, which persists', async () => {
  const { page, finish } = await open('');
  const background = () => page.evaluate(() => getComputedStyle(document.body).backgroundColor);
  await page.emulateMedia({ colorScheme: 'dark' });
  const dark = await background();
  await page.emulateMedia({ colorScheme: 'light' });
  const light = await background();
  assert.notEqual(dark, light);
  const button = page.getByRole('button', { name: 'Colours' });
  await button.click();
  await button.click();
  assert.equal(await background(), dark);
  await page.reload();
  assert.equal(await background(), dark);
  await button.click();
  assert.equal(await background(), light);
  await finish();
});

/** Contrast of a text with its background (WCAG 2), in the given state. */
const contrast = (locator, state) =>
  locator.evaluate((element, shown) => {
    if (shown !== undefined) element.dataset.state = shown;
    const context = document.createElement('canvas').getContext('2d', { willReadFrequently: true });
    const paint = (color, opacity) => {
      context.globalAlpha = opacity;
      context.fillStyle = color;
      context.fillRect(0, 0, 1, 1);
    };
    const luminance = () => {
      const [r, g, b] = [...context.getImageData(0, 0, 1, 1).data]
        .map((part) => part / 255)
        .map((part) => (part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4));
      return 0.2126 * r + 0.7152 * g + 0.0722 * b;
    };
    const around = [];
    for (let one = element; one !== null; one = one.parentElement) around.unshift(getComputedStyle(one));
    let opacity = 1;
    for (const style of around) {
      opacity *= Number(style.opacity);
      paint(style.backgroundColor, opacity);
    }
    const behind = luminance();
    paint(around.at(-1).color, opacity);
    const [dark, light] = [behind, luminance()].sort((a, b) => a - b);
    return (light + 0.05) / (dark + 0.05);
  }, state);

test('small texts have enough contrast, in light and dark mode', async () => {
  const { page, finish } = await open('#/dashboard');
  const states = ['online', 'failing', 'offline', 'serving', 'draining', 'read-only', 'slow', 'lost', 'unknown'];
  const pale = [];
  const look = async (name, locator, state) => {
    const ratio = await contrast(locator, state);
    if (!(ratio >= 4.5)) pale.push(`${name}: ${ratio.toFixed(2)}`);
  };
  for (const colorScheme of ['light', 'dark']) {
    await page.emulateMedia({ colorScheme });
    await page.goto(`${home}#/dashboard`);
    await page.locator('.device-head .badge').waitFor();
    for (const state of states) {
      for (const place of ['.device-head', '.bar']) {
        await look(`${state} in ${place}, ${colorScheme}`, page.locator(`${place} .badge`), state);
      }
    }
    await page.goto(home + watch(adaptive()));
    await look(`path of a title, ${colorScheme}`, page.locator('.facts-line code'));
  }
  assert.deepEqual(pale, []);
  await finish();
});
