/** The controls below the picture: buttons, sliders and menus, and keys for all of them. */
import { h, icon, setText } from '../dom';
import { clock, spokenClock } from '../pure/format';
import { renditionMenu, renditionName } from '../pure/rendition';
import type { Engine } from './engine';

const ICONS = {
  play: 'M7 4.5v15l12.5-7.5z',
  pause: 'M7 5h3.5v14H7zM13.5 5H17v14h-3.5z',
  loud: 'M4 9.5v5h3.5L12 19V5L7.5 9.5zM15.5 9a4.2 4.2 0 0 1 0 6M18 6.5a8 8 0 0 1 0 11',
  mute: 'M4 9.5v5h3.5L12 19V5L7.5 9.5zM16 9.5l5 5M21 9.5l-5 5',
  full: 'M4 9V4h5M15 4h5v5M20 15v5h-5M9 20H4v-5',
  small: 'M9 4v5H4M20 9h-5V4M15 20v-5h5M4 15h5v5',
} as const;

/** Keys and their actions, for the help text. */
export const KEYS: readonly (readonly [string, string])[] = [
  ['Space, K', 'play or pause'],
  ['← →', '5 s back or forward'],
  ['J L', '10 s back or forward'],
  ['↑ ↓', 'volume'],
  ['0 – 9', 'to that tenth of the title'],
  ['M', 'mute'],
  ['F', 'full screen'],
];

export class Controls {
  readonly element: HTMLElement;
  #video: HTMLVideoElement;
  #stage: HTMLElement;
  #engine: Engine | null = null;
  #aborter = new AbortController();
  #play = h('button', { type: 'button', class: 'quiet', onclick: () => this.toggle() });
  #mute = h('button', { type: 'button', class: 'quiet', onclick: () => this.#toggleMute() });
  #full = h('button', { type: 'button', class: 'quiet', onclick: () => void this.#toggleFull() });
  #seek = h('input', { type: 'range', min: 0, max: 1, step: 'any', value: 0, class: 'seek', 'aria-label': 'Seek' });
  #volume = h('input', { type: 'range', min: 0, max: 1, step: 0.05, value: 1, class: 'volume', 'aria-label': 'Volume' });
  #time = h('span', { class: 'time' }, '0:00');
  #renditions = h('select', { 'aria-label': 'Rendition' }, h('option', { value: 'auto' }, 'Auto'));
  #texts = h('select', { 'aria-label': 'Subtitles', hidden: true });
  #menuKey = '';

  constructor(video: HTMLVideoElement, stage: HTMLElement) {
    this.#video = video;
    this.#stage = stage;
    this.element = h(
      'div',
      { class: 'controls', role: 'group', 'aria-label': 'Player controls' },
      this.#seek,
      h(
        'div',
        { class: 'row' },
        this.#play,
        this.#mute,
        this.#volume,
        this.#time,
        h('span', { class: 'space' }),
        this.#texts,
        this.#renditions,
        this.#full,
      ),
    );
    const { signal } = this.#aborter;
    const paint = () => this.paint();
    for (const name of ['play', 'pause', 'timeupdate', 'seeking', 'progress', 'volumechange', 'durationchange', 'ended']) {
      video.addEventListener(name, paint, { signal });
    }
    document.addEventListener('fullscreenchange', paint, { signal });
    video.addEventListener('click', () => this.toggle(), { signal });
    video.addEventListener('dblclick', () => void this.#toggleFull(), { signal });
    this.#seek.addEventListener('input', () => this.seekTo(Number(this.#seek.value)), { signal });
    this.#volume.addEventListener('input', () => this.#setVolume(Number(this.#volume.value)), { signal });
    this.#renditions.addEventListener('change', () => this.#chosen(), { signal });
    this.#texts.addEventListener(
      'change',
      () => this.#engine?.chooseText(this.#texts.value === '' ? null : Number(this.#texts.value)),
      { signal },
    );
    document.addEventListener('keydown', (event) => this.#key(event), { signal });
    this.#hideWhenIdle(signal);
    this.paint();
  }

  /** Connects the menus to this engine. */
  use(engine: Engine): void {
    this.#engine = engine;
    engine.onRenditions(() => this.paintMenus());
    this.paintMenus();
  }

  close(): void {
    this.#aborter.abort();
    if (document.fullscreenElement === this.#stage) void document.exitFullscreen();
  }

  toggle(): void {
    // After a refusal (autoplay rules, nothing loaded yet) the button still shows "play".
    if (this.#video.paused) this.#video.play().catch(() => this.paint());
    else this.#video.pause();
  }

  seekTo(seconds: number): void {
    const { duration } = this.#video;
    if (!Number.isFinite(duration)) return;
    this.#video.currentTime = Math.min(Math.max(seconds, 0), Math.max(duration - 0.1, 0));
    this.paint();
  }

  #setVolume(volume: number): void {
    this.#video.volume = Math.min(Math.max(volume, 0), 1);
    this.#video.muted = this.#video.volume === 0;
  }

  #toggleMute(): void {
    this.#video.muted = !this.#video.muted;
    if (!this.#video.muted && this.#video.volume === 0) this.#video.volume = 0.5;
  }

  async #toggleFull(): Promise<void> {
    try {
      if (document.fullscreenElement === null) await this.#stage.requestFullscreen();
      else await document.exitFullscreen();
    } catch {
      // Not allowed here (an embedding page, a phone): the picture keeps its size.
    }
  }

  #chosen(): void {
    if (this.#renditions.value === 'auto') this.#engine?.chooseAuto();
    else this.#engine?.choose(Number(this.#renditions.value));
    this.paintMenus();
  }

  #key(event: KeyboardEvent): void {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const target = event.target;
    if (target instanceof HTMLSelectElement) return;
    if (target instanceof HTMLInputElement && target.type !== 'range') return;
    const onButton = target instanceof Element && target.matches('button, a, summary');
    // A focused slider handles arrow keys itself, except that seeking moves by seconds.
    const onVolume = target === this.#volume;
    const { currentTime, duration, volume } = this.#video;
    const key = event.key.length === 1 ? event.key.toLowerCase() : event.key;
    if (key === ' ' && onButton) return;
    if (onVolume && key.startsWith('Arrow')) return;
    if (key === ' ' || key === 'k') this.toggle();
    else if (key === 'ArrowLeft') this.seekTo(currentTime - 5);
    else if (key === 'ArrowRight') this.seekTo(currentTime + 5);
    else if (key === 'j') this.seekTo(currentTime - 10);
    else if (key === 'l') this.seekTo(currentTime + 10);
    else if (key === 'ArrowUp') this.#setVolume(volume + 0.05);
    else if (key === 'ArrowDown') this.#setVolume(volume - 0.05);
    else if (key === 'm') this.#toggleMute();
    else if (key === 'f') void this.#toggleFull();
    else if (/^[0-9]$/.test(key) && Number.isFinite(duration)) this.seekTo((duration * Number(key)) / 10);
    else return;
    event.preventDefault();
  }

  /** In full screen the controls overlay the picture, and are hidden while the pointer rests. */
  #hideWhenIdle(signal: AbortSignal): void {
    let timer = 0;
    const awake = () => {
      this.#stage.classList.remove('idle');
      clearTimeout(timer);
      timer = window.setTimeout(() => {
        if (!this.#video.paused) this.#stage.classList.add('idle');
      }, 3000);
    };
    for (const name of ['pointermove', 'pointerdown', 'keydown', 'focusin']) {
      this.#stage.addEventListener(name, awake, { signal });
    }
    signal.addEventListener('abort', () => clearTimeout(timer));
  }

  paint(): void {
    const { currentTime, duration, paused, muted, volume, buffered } = this.#video;
    const length = Number.isFinite(duration) ? duration : 0;
    button(this.#play, paused ? ICONS.play : ICONS.pause, paused ? 'Play' : 'Pause');
    button(this.#mute, muted ? ICONS.mute : ICONS.loud, muted ? 'Unmute' : 'Mute');
    const full = document.fullscreenElement === this.#stage;
    button(this.#full, full ? ICONS.small : ICONS.full, full ? 'Leave full screen' : 'Full screen');
    this.#seek.max = String(length || 1);
    this.#seek.value = String(currentTime);
    this.#seek.disabled = length === 0;
    this.#seek.setAttribute('aria-valuetext', `${spokenClock(currentTime)} of ${spokenClock(length)}`);
    this.#volume.value = String(muted ? 0 : volume);
    let ready = currentTime;
    for (let index = 0; index < buffered.length; index += 1) {
      if (buffered.start(index) <= currentTime + 0.25) ready = Math.max(ready, buffered.end(index));
    }
    const share = (seconds: number) => `${length > 0 ? (100 * seconds) / length : 0}%`;
    this.#seek.style.setProperty('--played', share(currentTime));
    this.#seek.style.setProperty('--ready', share(ready));
    this.#volume.style.setProperty('--played', `${(muted ? 0 : volume) * 100}%`);
    setText(this.#time, `${clock(currentTime)} / ${clock(length)}`);
  }

  paintMenus(): void {
    const engine = this.#engine;
    if (engine === null) return;
    const all = engine.renditions();
    const menu = renditionMenu(all);
    const auto = engine.isAuto();
    const active = all.find((one) => one.active);
    const texts = engine.textTracks();
    const key = JSON.stringify([menu.map((one) => one.id), auto, active?.id, texts]);
    // An open menu must not change under the pointer.
    if (key === this.#menuKey) return;
    this.#menuKey = key;
    const autoName = auto && active !== undefined && menu.length > 1 ? `Auto (${active.height ?? '?'}p)` : 'Auto';
    this.#renditions.replaceChildren(
      h('option', { value: 'auto' }, autoName),
      ...menu.map((one) => h('option', { value: one.id }, renditionName(one))),
    );
    const current = menu.find((one) => active !== undefined && renditionName(one) === renditionName(active));
    this.#renditions.value = auto || current === undefined ? 'auto' : String(current.id);
    this.#renditions.disabled = menu.length < 2;
    this.#texts.hidden = texts.length === 0;
    this.#texts.replaceChildren(
      h('option', { value: '' }, 'No subtitles'),
      ...texts.map((one) => h('option', { value: one.id }, one.label)),
    );
    this.#texts.value = String(texts.find((one) => one.active)?.id ?? '');
  }
}

function button(element: HTMLButtonElement, path: string, label: string): void {
  if (element.getAttribute('aria-label') === label) return;
  element.replaceChildren(icon(path));
  element.setAttribute('aria-label', label);
  element.title = label;
}
