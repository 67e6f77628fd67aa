/** The library: the folders and titles of one folder, or the titles found by a search, as a grid. */
import { h, icon, setText, type Page } from './dom';
import { feed, fetchLibrary, onPoll } from './feed';
import { decodeLibrary, decodeTitleCount, type Title } from './pure/api';
import { unplayable } from './pure/container';
import { Folders, type Folder } from './pure/folders';
import { bitRateRange, bytes, clock, spokenClock, text } from './pure/format';
import { mediaBase, mediaUrl } from './pure/media_base';
import { routeHash } from './pure/route';
import { matches, quantity, tellApart } from './pure/search';

const REFRESH_MS = 5000;
/** Refresh interval: a long list is a large answer, and rarely changes. */
const REFRESH_LONG_MS = 60_000;
const LONG = 2000;
/** Cards created at a time; more are added while scrolling, so that 100,000 titles stay fast. */
const BATCH = 60;

const order = new Intl.Collator(undefined, { numeric: true, sensitivity: 'base' });

const KINDS = { hls: 'HLS', dash: 'DASH', file: 'File' } as const;

/** A steady hue for a title without a poster. */
function hue(id: string): number {
  let sum = 0;
  for (const char of id) sum = (sum * 31 + (char.codePointAt(0) ?? 0)) % 360;
  return sum;
}

/** A card of the grid. */
interface Item {
  /** Of the title, or a text that is no title's. */
  readonly id: string;
  readonly poster: string | null;
  readonly title: Title | null;
  readonly folder: Folder | null;
}

const PLAY = 'M9 7.5v9l7.5-4.5z';
const FOLDER = 'M3.5 6.5h6l2 2.2h9v9.8h-17z';

function poster(item: Item, base: URL | null): HTMLElement {
  const frame = h('div', { class: 'poster' }, icon(item.folder === null ? PLAY : FOLDER));
  frame.style.setProperty('--hue', String(hue(item.id)));
  if (item.poster !== null && base !== null) {
    const image = h('img', {
      src: mediaUrl(base, item.poster),
      alt: '',
      loading: 'lazy',
      decoding: 'async',
      onerror: () => image.remove(),
    });
    frame.append(image);
  }
  const length_s = item.title?.duration_s ?? null;
  if (length_s !== null) {
    frame.append(h('span', { class: 'length', 'aria-hidden': 'true' }, clock(length_s)));
  }
  return frame;
}

function folderCard(item: Item, folder: Folder, base: URL | null): HTMLElement {
  const name = folder.name.split('/').join(' / ');
  const many = quantity(folder.count, folder.count);
  return h(
    'li',
    {},
    h(
      'a',
      {
        class: 'card folder',
        href: routeHash({ page: 'library', folder: folder.path }),
        'aria-label': `Folder ${name}, ${many}`,
      },
      poster(item, base),
      h('div', { class: 'about' }, h('h2', {}, name), h('span', { class: 'kind' }, 'Folder'), h('p', {}, many)),
    ),
  );
}

function card(item: Item, title: Title, base: URL | null, mark: string): HTMLElement {
  const rates = bitRateRange(title.bit_rates_bps);
  const renditions = title.bit_rates_bps.length;
  const facts = [
    rates,
    renditions > 1 ? `${renditions} renditions` : '',
    title.bytes === null ? '' : text(bytes(title.bytes)),
  ].filter((fact) => fact !== '');
  const container = unplayable(title);
  if (container !== null) facts.push(`${container}, not for browsers`);
  if (title.odd !== null) facts.push('has a defect');
  const spoken = [mark === '' ? title.name : `${title.name} ${mark}`, KINDS[title.kind]];
  if (title.duration_s !== null) spoken.push(spokenClock(title.duration_s));
  return h(
    'li',
    {},
    h(
      'a',
      {
        class: 'card',
        href: routeHash({ page: 'watch', id: title.id }),
        'aria-label': [...spoken, ...facts].join(', '),
        title: title.odd === null ? title.path : `${title.path}: ${title.odd}`,
      },
      poster(item, base),
      h(
        'div',
        { class: 'about' },
        h('h2', {}, title.name, mark === '' ? null : h('small', {}, ` ${mark}`)),
        h('span', { class: 'kind', 'data-kind': title.kind }, KINDS[title.kind]),
        h('p', {}, facts.join(' · ')),
      ),
    ),
  );
}

/** The cards on the page. A card that is still valid is kept, including its focus. */
class Grid {
  readonly element = h('ul', { class: 'grid' });
  /** By title id, with the data that each card shows. */
  #cards = new Map<string, { of: string; element: HTMLElement }>();

  get count(): number {
    return this.element.childElementCount;
  }

  #card(item: Item, base: URL | null, marks: ReadonlyMap<string, string>): HTMLElement {
    const mark = marks.get(item.id) ?? '';
    const of = JSON.stringify([item, base, mark]);
    const known = this.#cards.get(item.id);
    if (known?.of === of) return known.element;
    const { title, folder } = item;
    const element =
      title !== null ? card(item, title, base, mark) : folder !== null ? folderCard(item, folder, base) : h('li');
    this.#cards.set(item.id, { of, element });
    return element;
  }

  append(items: readonly Item[], base: URL | null, marks: ReadonlyMap<string, string>): void {
    this.element.append(...items.map((item) => this.#card(item, base, marks)));
  }

  /** Shows exactly these cards. */
  show(items: readonly Item[], base: URL | null, marks: ReadonlyMap<string, string>): void {
    const focused = [...this.#cards].find(([, one]) => one.element.contains(document.activeElement));
    const wanted = items.map((item) => this.#card(item, base, marks));
    const ids = new Set(items.map((item) => item.id));
    for (const id of this.#cards.keys()) if (!ids.has(id)) this.#cards.delete(id);
    // Removed cards are taken out first: the remaining ones need not be moved, and keep the focus.
    const kept = new Set<Element>(wanted);
    for (const element of [...this.element.children]) if (!kept.has(element)) element.remove();
    wanted.forEach((element, index) => {
      const there = this.element.children[index];
      if (there !== element) this.element.insertBefore(element, there ?? null);
    });
    if (focused === undefined || focused[1].element.contains(document.activeElement)) return;
    this.#cards.get(focused[0])?.element.querySelector('a')?.focus({ preventScroll: true });
  }
}

function emptyLibrary(): HTMLElement {
  const roots = feed.status?.devices.flatMap((device) => device.roots) ?? [];
  const where = roots.length > 0 ? roots.join(', ') : 'the folders given to headlong serve';
  return h(
    'section',
    { class: 'notice' },
    h('h2', {}, 'No titles yet'),
    h('p', {}, `Put video files (.mp4), HLS (.m3u8) or DASH (.mpd) titles into ${where}.`),
    h('p', {}, 'They appear here automatically.'),
  );
}

const ofTitle = (title: Title): Item => ({ id: title.id, poster: title.poster, title, folder: null });
const ofFolder = (folder: Folder): Item => ({
  id: `folder ${folder.path}`,
  poster: folder.poster,
  title: null,
  folder,
});

/** The library as of the last answer, which another folder shows at once. */
let last: { text: string; total: number; folders: Folders } | null = null;

/** The name of the page, and of a folder the way to it. */
function heading(folder: string): HTMLElement {
  if (folder === '') return h('h1', {}, 'Library');
  const names = folder.split('/');
  const links = names.slice(0, -1).flatMap((name, index) => {
    const path = names.slice(0, index + 1).join('/');
    return [' / ', h('a', { href: routeHash({ page: 'library', folder: path }) }, name)];
  });
  const all = h('a', { href: routeHash({ page: 'library', folder: '' }) }, 'Library');
  return h('h1', {}, all, ...links, ' / ', h('span', { 'aria-current': 'page' }, names.at(-1)));
}

export function libraryPage(folder: string): Page {
  const search = h('input', {
    type: 'search',
    placeholder: folder === '' ? 'Search titles' : 'Search all titles',
    'aria-label': 'Search titles',
    autocomplete: 'off',
    spellcheck: 'false',
  });
  const found = h('p', { class: 'found', role: 'status' });
  const grid = new Grid();
  const more = h('div', { class: 'more', 'aria-hidden': 'true' });
  const notice = h('div');
  const element = h(
    'div',
    { class: 'library' },
    h('div', { class: 'tools' }, heading(folder), found, search),
    notice,
    grid.element,
    more,
  );

  let shown: Item[] = [];
  let marks = new Map<string, string>();
  let base: URL | null = null;
  let query = '';
  let timer = 0;
  let closed = false;

  const drawMore = () => {
    grid.append(shown.slice(grid.count, grid.count + BATCH), base, marks);
    more.hidden = grid.count >= shown.length;
  };
  const draw = () => {
    if (last === null) return;
    const { total, folders } = last;
    const { titles } = folders;
    const isSameQuery = search.value === query;
    query = search.value;
    // A search covers the whole library, from every folder.
    const isSearch = query.trim() !== '';
    const content = isSearch
      ? { folders: [], titles: titles.filter((title) => matches(title, query)) }
      : folders.content(folder);
    marks = tellApart(content.titles, isSearch ? '' : folder);
    content.folders.sort((a, b) => order.compare(a.name, b.name));
    shown = [...content.folders.map(ofFolder), ...content.titles.map(ofTitle)];
    const many = quantity(titles.length, total);
    const here = folder === '' ? many : quantity(folders.count(folder), 0);
    setText(found, isSearch ? `${shown.length} of ${many}` : here);
    notice.replaceChildren();
    if (titles.length === 0) {
      setText(found, '');
      notice.append(emptyLibrary());
    } else if (!isSearch && !folders.has(folder)) {
      setText(found, '');
      const gone = h('p', {}, `There is no folder “${folder}” with more than one title.`);
      const back = h('p', {}, h('a', { href: '#/', class: 'button' }, 'Go to the library'));
      notice.append(h('section', { class: 'notice' }, gone, back));
      shown = [];
    } else if (shown.length === 0) {
      notice.append(h('section', { class: 'notice' }, h('p', {}, `No title matches “${query}”.`)));
    }
    // An automatic refresh must not change the scroll position.
    grid.show(shown.slice(0, isSameQuery ? Math.max(BATCH, grid.count) : BATCH), base, marks);
    more.hidden = grid.count >= shown.length;
  };

  const load = async () => {
    try {
      const answer = await fetchLibrary();
      const text = JSON.stringify(answer);
      if (closed || text === last?.text) return;
      // By name, then by path, so that folders are in order, too.
      const all = decodeLibrary(answer).sort(
        (a, b) => order.compare(a.name, b.name) || order.compare(a.path, b.path),
      );
      last = { text, total: decodeTitleCount(answer), folders: new Folders(all) };
      draw();
    } catch {
      // The banner reports a lost connection; this notice is for a server that fails only here.
      if (last === null && feed.status !== null) {
        const failed = h('p', {}, 'The list of titles cannot be loaded. Retrying automatically.');
        notice.replaceChildren(h('section', { class: 'notice' }, failed));
      }
    } finally {
      const long = (last?.folders.titles.length ?? 0) > LONG;
      if (!closed) timer = window.setTimeout(load, long ? REFRESH_LONG_MS : REFRESH_MS);
    }
  };
  // Posters need the media address, which arrives with the poll and possibly after the titles.
  const rebase = () => {
    const next = mediaBase(feed.status?.media_addresses ?? [], location.hostname);
    if (next?.href === base?.href) return;
    base = next;
    draw();
  };
  const keys = (event: KeyboardEvent) => {
    if (event.key !== '/' || event.ctrlKey || event.metaKey || document.activeElement === search) return;
    event.preventDefault();
    search.focus();
  };

  const watcher = new IntersectionObserver(
    (entries) => {
      if (entries.some((entry) => entry.isIntersecting)) drawMore();
    },
    { rootMargin: '600px' },
  );
  watcher.observe(more);
  search.addEventListener('input', draw);
  window.addEventListener('keydown', keys);
  const offPoll = onPoll(rebase);
  rebase();
  draw();
  void load();

  return {
    title: folder === '' ? 'Library' : (folder.split('/').at(-1) ?? folder),
    element,
    close: () => {
      closed = true;
      clearTimeout(timer);
      offPoll();
      watcher.disconnect();
      window.removeEventListener('keydown', keys);
    },
  };
}
