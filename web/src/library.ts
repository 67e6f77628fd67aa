/** The library: a grid of all titles of the server. */
import { h, icon, setText, type Page } from './dom';
import { feed, fetchLibrary, onPoll } from './feed';
import { decodeLibrary, decodeTitleCount, type Title } from './pure/api';
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

function poster(title: Title, base: URL | null): HTMLElement {
  const frame = h('div', { class: 'poster' }, icon('M9 7.5v9l7.5-4.5z'));
  frame.style.setProperty('--hue', String(hue(title.id)));
  if (title.poster !== null && base !== null) {
    const image = h('img', {
      src: mediaUrl(base, title.poster),
      alt: '',
      loading: 'lazy',
      decoding: 'async',
      onerror: () => image.remove(),
    });
    frame.append(image);
  }
  if (title.duration_s !== null) {
    frame.append(h('span', { class: 'length', 'aria-hidden': 'true' }, clock(title.duration_s)));
  }
  return frame;
}

function card(title: Title, base: URL | null, mark: string): HTMLElement {
  const rates = bitRateRange(title.bit_rates_bps);
  const renditions = title.bit_rates_bps.length;
  const facts = [
    rates,
    renditions > 1 ? `${renditions} renditions` : '',
    title.bytes === null ? '' : text(bytes(title.bytes)),
  ].filter((fact) => fact !== '');
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
        title: title.path,
      },
      poster(title, base),
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

  #card(title: Title, base: URL | null, mark: string): HTMLElement {
    const of = JSON.stringify([title, base, mark]);
    const known = this.#cards.get(title.id);
    if (known?.of === of) return known.element;
    const element = card(title, base, mark);
    this.#cards.set(title.id, { of, element });
    return element;
  }

  append(titles: readonly Title[], base: URL | null, marks: ReadonlyMap<string, string>): void {
    this.element.append(...titles.map((title) => this.#card(title, base, marks.get(title.id) ?? '')));
  }

  /** Shows exactly these titles. */
  show(titles: readonly Title[], base: URL | null, marks: ReadonlyMap<string, string>): void {
    const focused = [...this.#cards].find(([, one]) => one.element.contains(document.activeElement));
    const wanted = titles.map((title) => this.#card(title, base, marks.get(title.id) ?? ''));
    const ids = new Set(titles.map((title) => title.id));
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

export function libraryPage(): Page {
  const search = h('input', {
    type: 'search',
    placeholder: 'Search titles',
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
    h('div', { class: 'tools' }, h('h1', {}, 'Library'), found, search),
    notice,
    grid.element,
    more,
  );

  let titles: Title[] | null = null;
  /** Of the server, which lists no more than fit in its answer. */
  let total = 0;
  let shown: Title[] = [];
  let marks = new Map<string, string>();
  let base: URL | null = null;
  let known = '';
  let query = '';
  let timer = 0;
  let closed = false;

  const drawMore = () => {
    grid.append(shown.slice(grid.count, grid.count + BATCH), base, marks);
    more.hidden = grid.count >= shown.length;
  };
  const draw = () => {
    if (titles === null) return;
    const isSameQuery = search.value === query;
    query = search.value;
    shown = titles.filter((title) => matches(title, query));
    const many = quantity(titles.length, total);
    setText(found, query.trim() === '' ? many : `${shown.length} of ${many}`);
    notice.replaceChildren();
    if (titles.length === 0) {
      setText(found, '');
      notice.append(emptyLibrary());
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
      if (closed || text === known) return;
      known = text;
      titles = decodeLibrary(answer).sort((a, b) => order.compare(a.name, b.name));
      total = decodeTitleCount(answer);
      marks = tellApart(titles);
      draw();
    } catch {
      // The banner reports a lost connection; this notice is for a server that fails only here.
      if (titles === null && feed.status !== null) {
        const failed = h('p', {}, 'The list of titles cannot be loaded. Retrying automatically.');
        notice.replaceChildren(h('section', { class: 'notice' }, failed));
      }
    } finally {
      const long = (titles?.length ?? 0) > LONG;
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
  void load();

  return {
    title: 'Library',
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
