/** Playback of one title. */
import { h, setText, type Page } from '../dom';
import { feed, fetchLibrary, onPoll } from '../feed';
import { decodeLibrary, type Title } from '../pure/api';
import { bitRateRange, bytes, clock, text } from '../pure/format';
import { unplayable } from '../pure/container';
import { Folders, parent, readable } from '../pure/folders';
import { mediaBase, mediaUrl } from '../pure/media_base';
import { aheadOf } from '../pure/rendition';
import { mayPass, outcome, resumeFrom } from '../pure/setback';
import { Standstill } from '../pure/standstill';
import { routeHash } from '../pure/route';
import { explain, ofContainer, ofPlainFile, type Answer, type PlayerError, type Trouble } from '../pure/trouble';
import { Menus } from './menus';
import type { Engine } from './engine';
import { Gauges } from './gauges';
import { Subtitles } from './subtitles';

/** Longest wait for the first `/status`, which contains the media address. */
const STATUS_WAIT_MS = 10_000;
/** Longest wait for the server's answer about a file that cannot be played. */
const ASK_WAIT_MS = 5000;
/** Interval of the checks for a stalled picture. */
const LOOK_MS = 250;

/** The title, and the folder of the library that shows it. */
async function findTitle(id: string): Promise<{ title: Title; folder: string } | null> {
  const titles = decodeLibrary(await fetchLibrary());
  const title = titles.find((one) => one.id === id);
  if (title === undefined) return null;
  return { title, folder: new Folders(titles).nearest(parent(readable(title.path))) };
}

/** The media address, as soon as the server has reported it. */
function awaitBase(): Promise<URL | null> {
  const now = () => mediaBase(feed.status?.media_addresses ?? [], location.hostname);
  if (feed.status !== null) return Promise.resolve(now());
  return new Promise((resolve) => {
    const done = () => {
      clearTimeout(timer);
      off();
      resolve(now());
    };
    const off = onPoll(() => {
      if (feed.status !== null) done();
    });
    const timer = setTimeout(done, STATUS_WAIT_MS);
  });
}

/** The server's current answer for a file. */
async function askFor(url: string): Promise<Answer> {
  const ask = (mode: RequestMode) =>
    fetch(url, { method: 'HEAD', cache: 'no-store', mode, signal: AbortSignal.timeout(ASK_WAIT_MS) });
  try {
    return (await ask('cors')).status;
  } catch {
    // No answer, or none permitted for this origin: playback itself needs no permission.
    return ask('no-cors').then(() => 'unreadable', () => 'silence');
  }
}

const NO_ADDRESS: Trouble = {
  what: 'The server reports no media address.',
  remedy: 'Start it with --listen ADDRESS:PORT, and check its log for listener errors.',
};

const OLD_BROWSER: Trouble = {
  what: 'This browser lacks Media Source Extensions, which adaptive playback needs.',
  remedy: 'Use a current Firefox, Chrome, Edge or Safari.',
};

class PlayerPage implements Page {
  title = 'Player';
  readonly element = h('div', { class: 'watch' });
  #id: string;
  /** The folder that shows the title. */
  #back = '#/';
  #video = h('video', { playsinline: true, preload: 'auto', controls: true });
  #spinner = h('div', { class: 'spinner', hidden: true, role: 'status' }, h('span', {}, 'Loading'));
  #trouble = h('div', { class: 'trouble', role: 'alert', hidden: true });
  #stage = h('div', { class: 'stage' }, this.#video, this.#spinner, this.#trouble);
  #menus = new Menus();
  /** Of a packaged title, for other players. */
  #addresses = h('p', { class: 'facts-line' });
  #gauges: Gauges | null = null;
  #engine: Engine | null = null;
  #texts: Subtitles | null = null;
  #still = new Standstill();
  #loading = false;
  /** The current failure while there is still buffered media, and its message if it persists. */
  #setback: { error: PlayerError; end_s: number; tell: (error: PlayerError) => void } | null = null;
  /** Position of the next attempt; null for the start. */
  #from_s: number | null = null;
  #timers: number[] = [];
  #closed = false;

  constructor(id: string) {
    this.#id = id;
    // A missing file makes the player retry, and raise the error again.
    this.#video.addEventListener('seeking', () => (this.#setback = null));
    window.headlong.video = this.#video;
    void this.#open();
  }

  async #open(): Promise<void> {
    let found: Awaited<ReturnType<typeof findTitle>>;
    try {
      found = await findTitle(this.#id);
    } catch {
      this.#stop({
        what: `The list of titles cannot be loaded from ${location.host}.`,
        remedy: 'Check that the server is running and reachable, and try again.',
      });
      return;
    }
    if (this.#closed) return;
    if (found === null) {
      this.#stop({
        what: `There is no title “${this.#id}” on this server.`,
        remedy: 'It may have been renamed or removed: pick it again from the library.',
      });
      return;
    }
    this.#back = routeHash({ page: 'library', folder: found.folder });
    this.#describe(found.title);
    await this.#play(found.title);
  }

  #describe(title: Title): void {
    this.title = title.name;
    document.title = `${title.name} · Headlong`;
    this.#video.setAttribute('aria-label', title.name);
    this.#gauges = new Gauges(title, this.#video);
    const facts = [
      { hls: 'HLS', dash: 'DASH', file: 'File' }[title.kind],
      title.duration_s === null ? '' : clock(title.duration_s),
      bitRateRange(title.bit_rates_bps),
      title.bytes === null ? '' : text(bytes(title.bytes)),
    ].filter((fact) => fact !== '');
    this.element.replaceChildren(
      h(
        'div',
        { class: 'screen' },
        this.#stage,
        this.#menus.element,
        h('h1', {}, title.name),
        h('p', { class: 'facts-line' }, facts.join(' · '), ' ', h('code', {}, title.path)),
        title.odd === null ? null : h('p', { class: 'facts-line' }, `The server reports: ${title.odd}.`),
        title.packaged ? this.#addresses : null,
      ),
      this.#gauges.element,
    );
    this.#timers.push(
      window.setInterval(() => this.#gauges?.update(this.#engine, this.#still), 1000),
      window.setInterval(() => this.#look(), LOOK_MS),
    );
  }

  async #play(title: Title): Promise<void> {
    this.#load(true);
    const [base, library] = await Promise.all([awaitBase(), import('./engine')]);
    if (this.#closed) return;
    if (base === null) return this.#stop(NO_ADDRESS);
    if (!library.supported() && title.kind !== 'file') return this.#stop(OLD_BROWSER);
    if (title.poster !== null) this.#video.poster = mediaUrl(base, title.poster);
    const url = mediaUrl(base, title.path);
    this.#addresses.replaceChildren(
      'Made from this file: ',
      h('a', { href: `${url}/master.m3u8` }, 'HLS'),
      ' · ',
      h('a', { href: `${url}/manifest.mpd` }, 'DASH'),
    );
    const container = unplayable(title);
    if (container !== null) return this.#stop(ofContainer(container, title.name, readable(title.path)), url);
    const tell = async (thrown: unknown) => {
      let error = library.asPlayerError(thrown);
      if (title.kind === 'file') error = ofPlainFile(error, url, await askFor(url));
      // The server may have read the file's headers only after this request.
      const now = await findTitle(title.id).catch(() => null);
      if (this.#closed) return;
      const odd = (now?.title ?? title).odd;
      const trouble = explain(error, title.name, base.host, odd);
      if (trouble !== null) this.#stop(trouble);
    };
    try {
      const engine = await library.Engine.on(this.#video, title.id);
      if (this.#closed) return void engine.close();
      this.#engine = engine;
      window.headlong.player = engine.player;
      engine.onError((error) => {
        if (!this.#trouble.hidden) return;
        const ahead_s = aheadOf(this.#video);
        if (!mayPass(error, ahead_s)) {
          // Missing subtitles must not prevent playback.
          if (!engine.dropText()) return void tell(error);
          return engine.retrySoon();
        }
        this.#setback = { error, end_s: this.#video.currentTime + ahead_s, tell };
        engine.retrySoon();
      });
      this.#menus.use(engine);
      await engine.load(url, title.kind, this.#from_s);
      this.#texts?.close();
      this.#texts = new Subtitles(this.#video);
      void this.#texts.add(title.texts.map((one) => ({ ...one, url: mediaUrl(base, one.path) })));
      this.#menus.paint();
      this.#load(false);
      // A browser may refuse autoplay; the play button remains.
      await this.#video.play().catch(() => undefined);
    } catch (error) {
      if (!this.#closed) await tell(error);
    }
  }

  #load(loading: boolean): void {
    this.#loading = loading;
    this.#paintSpinner();
  }

  #look(): void {
    const { currentTime: position_s, paused, seeking, ended } = this.#video;
    this.#still.look({ at_ms: performance.now(), position_s, paused, seeking, ended });
    this.#paintSpinner();
    this.#judge();
  }

  /** Whether a failure has recovered, or must be reported now. */
  #judge(): void {
    const setback = this.#setback;
    if (setback === null) return;
    const { currentTime: position_s, duration: duration_s } = this.#video;
    const result = outcome(setback.end_s, { position_s, ahead_s: aheadOf(this.#video), duration_s });
    if (result === 'lasts') return;
    this.#setback = null;
    if (result === 'over') setback.tell(setback.error);
  }

  #paintSpinner(): void {
    const waits = this.#loading || this.#still.waits;
    this.#spinner.hidden = !waits || !this.#trouble.hidden;
  }

  /**
   * Ends playback: reports the failure and the remedy, with a button to try again, or with a link to
   * a file that other programs play.
   */
  #stop(trouble: Trouble, file: string | null = null): void {
    this.#video.pause();
    this.#setback = null;
    this.#from_s = resumeFrom(this.#video.currentTime, this.#from_s);
    const again =
      file === null
        ? h('button', { type: 'button', onclick: () => this.#again() }, 'Try again')
        : h('a', { class: 'button', href: file }, 'Open the file');
    this.#trouble.replaceChildren(
      h('strong', {}, trouble.what),
      h('p', {}, trouble.remedy),
      h('p', { class: 'ways' }, again, h('a', { class: 'button', href: this.#back }, 'Library')),
    );
    this.#trouble.hidden = false;
    this.#load(false);
    if (!this.#stage.isConnected) this.element.replaceChildren(h('div', { class: 'screen' }, this.#stage));
  }

  /** Stops timers and measurements. */
  #rest(): void {
    for (const timer of this.#timers) clearInterval(timer);
    this.#timers = [];
    this.#gauges?.close();
  }

  #again(): void {
    this.#trouble.hidden = true;
    setText(this.#trouble, '');
    this.#rest();
    this.#still = new Standstill();
    const engine = this.#engine;
    this.#engine = null;
    void Promise.resolve(engine?.close()).then(() => this.#open());
  }

  close(): void {
    this.#closed = true;
    this.#rest();
    this.#texts?.close();
    this.#video.pause();
    void this.#engine?.close();
    delete window.headlong.video;
    delete window.headlong.player;
  }
}

export function playerPage(id: string): Page {
  return new PlayerPage(id);
}
