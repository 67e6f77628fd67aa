/** The menus below the picture: renditions and subtitles. The browser has the other controls. */
import { h } from '../dom';
import { renditionMenu, renditionName } from '../pure/rendition';
import type { Engine } from './engine';

export class Menus {
  readonly element: HTMLElement;
  #engine: Engine | null = null;
  #renditions = h('select', { 'aria-label': 'Rendition' }, h('option', { value: 'auto' }, 'Auto'));
  #texts = h('select', { 'aria-label': 'Subtitles', hidden: true });
  #key = '';

  constructor() {
    this.element = h('div', { class: 'menus' }, this.#texts, this.#renditions);
    this.#renditions.addEventListener('change', () => this.#chosen());
    this.#texts.addEventListener('change', () =>
      this.#engine?.chooseText(this.#texts.value === '' ? null : Number(this.#texts.value)),
    );
  }

  /** Connects the menus to this engine. */
  use(engine: Engine): void {
    this.#engine = engine;
    engine.onRenditions(() => this.paint());
    this.paint();
  }

  #chosen(): void {
    if (this.#renditions.value === 'auto') this.#engine?.chooseAuto();
    else this.#engine?.choose(Number(this.#renditions.value));
    this.paint();
  }

  paint(): void {
    const engine = this.#engine;
    if (engine === null) return;
    const all = engine.renditions();
    const menu = renditionMenu(all);
    const auto = engine.isAuto();
    const active = all.find((one) => one.active);
    const texts = engine.textTracks();
    const key = JSON.stringify([menu.map((one) => one.id), auto, active?.id, texts]);
    // An open menu must not change under the pointer.
    if (key === this.#key) return;
    this.#key = key;
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
