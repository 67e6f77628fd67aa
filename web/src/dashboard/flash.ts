/** The flash tier: fill level, hit rate, wear, and SSDs that are bypassed. */
import { h, setText } from '../dom';
import type { Flash, SsdState } from '../pure/api';
import { bytes, count, percent, span, text } from '../pure/format';
import { quotient, type History } from '../pure/rates';
import { panel } from './panel';

const MEANING: Record<SsdState, string> = {
  online: 'read and written',
  'read-only': 'read-only: it accepts no writes',
  slow: 'bypassed: it answers too slowly',
  offline: 'bypassed: it returns errors, or is missing',
};

const PARTS = [
  ['filled', 'Filled', 'bytes of readable records, of the bytes of all blocks'],
  ['hits', 'From flash', 'of the bytes sent in the last minute'],
  ['written', 'Written today', 'bytes written in the last 24 hours, of the daily budget'],
  ['wrong', 'Failed reads', 'records that were damaged or not returned, since the start'],
] as const;
type Part = (typeof PARTS)[number][0];

/** Whether an SSD is restricted: not both read and written. */
export function isIll(state: SsdState): boolean {
  return state !== 'online';
}

export class FlashPanel {
  readonly element: HTMLElement;
  #state = h('span', { class: 'aside' });
  #parts = new Map<Part, { value: HTMLElement; share: HTMLElement; bar: HTMLElement }>();
  #ssds = h('ul', { class: 'ssds', 'aria-label': 'SSDs' });

  constructor() {
    const list = h('dl', { class: 'flash-list' });
    for (const [name, label, meaning] of PARTS) {
      const value = h('dd', {}, '–');
      const share = h('dd', { class: 'share' });
      const bar = h('span', { class: 'ratio-bar', 'data-ratio': 'disk', 'aria-hidden': 'true' });
      this.#parts.set(name, { value, share, bar });
      list.append(h('div', { title: meaning }, h('dt', {}, label), value, share, bar));
    }
    this.element = panel('flash', 'Flash tier', this.#state, h('div', { class: 'flash-row' }, list, this.#ssds));
  }

  update(flash: Flash, history: History): void {
    setText(this.#state, flash.is_recovering ? 'recovering; nothing is written yet' : '');
    const minute = history.over(60).growth;
    this.#set('filled', flash.filled_bytes, flash.capacity_bytes);
    this.#set('hits', minute.bytes_from_flash, minute.bytes_sent);
    const written = Math.max(0, flash.budget_bytes - flash.budget_left_bytes);
    this.#set('written', written, flash.budget_bytes);
    const wrong = flash.reads_wrong + flash.reads_failed;
    const part = this.#parts.get('wrong');
    if (part !== undefined) {
      setText(part.value, text(count(wrong)));
      setText(part.share, `${text(count(flash.reads_wrong))} damaged`);
    }
    this.#list(flash);
    const isIllOne = flash.ssds.some((ssd) => isIll(ssd.state));
    this.element.toggleAttribute('data-alarm', isIllOne || flash.reads_wrong > 0);
  }

  #set(name: Part, size: number, all: number): void {
    const part = this.#parts.get(name);
    const share = quotient(size, all);
    if (part === undefined) return;
    setText(part.value, text(percent(share)));
    setText(part.share, `${text(bytes(size))} of ${text(bytes(all))}`);
    part.bar.style.setProperty('--share', String(Math.min(1, share ?? 0)));
  }

  #list(flash: Flash): void {
    const items = flash.ssds.map((ssd) => {
      const badge = h('span', { class: 'badge', 'data-state': ssd.state }, ssd.state);
      const time = isIll(ssd.state) && ssd.state !== 'read-only' ? '' : text(span(ssd.read_ms));
      return h('li', { title: MEANING[ssd.state] }, h('strong', {}, ssd.path), badge, time);
    });
    this.#ssds.replaceChildren(...items);
  }
}
