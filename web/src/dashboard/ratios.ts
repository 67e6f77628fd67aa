/**
 * Costs and savings of prefetching: the ratios of Table 4.1 of the thesis, for the last five
 * minutes and since the start, and the rates of wasted reads.
 */
import { h, setText } from '../dom';
import type { Counters } from '../pure/api';
import { byteRate, bytes, ratio, span, text, windowOf, type Quantity } from '../pure/format';
import { quotient, ratios, WINDOW_S, type History, type Ratios } from '../pure/rates';
import { panel } from './panel';

const ROWS: readonly (readonly [keyof Ratios, string, string])[] = [
  ['disk', 'Disk / requested', 'bytes read from the disk for each requested byte; below 1 means cache hits'],
  ['ram', 'RAM / requested', 'bytes that were in memory, or in flight, when requested'],
  ['evicted', 'Evicted / requested', 'bytes prefetched for a live viewer and evicted before it read them'],
  ['wasted', 'Wasted / requested', 'bytes read from the disk that were dropped before any viewer read them'],
];

export class RatiosPanel {
  readonly element: HTMLElement;
  #cells = new Map<string, HTMLElement>();
  #window = h('th', { scope: 'col' }, text(windowOf(WINDOW_S, 0)));
  #bars = new Map<keyof Ratios, HTMLElement>();

  constructor() {
    const body = h('tbody');
    for (const [key, label, meaning] of ROWS) {
      const bar = h('span', { class: 'ratio-bar', 'data-ratio': key, 'aria-hidden': 'true' });
      this.#bars.set(key, bar);
      body.append(
        h(
          'tr',
          { title: meaning },
          h('th', { scope: 'row' }, label, bar),
          this.#cell(`${key}.window`),
          this.#cell(`${key}.start`),
        ),
      );
    }
    const list = h('dl', { class: 'waste' });
    for (const [key, label] of [
      ['evictions', 'Prefetch evictions'],
      ['eviction_time', 'Time until evicted'],
      ['waste', 'Wasted'],
      ['cache', 'Read and evicted'],
      ['seek', 'Mean seek'],
      ['merged', 'Jobs merged'],
    ] as const) {
      const value = h('dd', {}, '–');
      this.#cells.set(key, value);
      list.append(h('div', {}, h('dt', {}, label), value));
    }
    this.element = panel(
      'ratios',
      'Evictions and waste',
      null,
      h(
        'table',
        { class: 'ratios' },
        h(
          'thead',
          {},
          h(
            'tr',
            {},
            h('th', { scope: 'col' }, h('span', { class: 'unseen' }, 'Ratio')),
            this.#window,
            h('th', { scope: 'col' }, 'start'),
          ),
        ),
        body,
      ),
      list,
    );
  }

  #cell(key: string): HTMLElement {
    const cell = h('td', {}, '–');
    this.#cells.set(key, cell);
    return cell;
  }

  #set(key: string, quantity: Quantity): void {
    const cell = this.#cells.get(key);
    if (cell !== undefined) setText(cell, text(quantity));
  }

  update(counters: Counters, history: History): void {
    const recent = history.over(WINDOW_S);
    const now = ratios(recent.growth);
    setText(this.#window, text(windowOf(WINDOW_S, recent.seconds)));
    const ever = ratios(counters);
    for (const [key] of ROWS) {
      this.#set(`${key}.window`, ratio(now[key]));
      this.#set(`${key}.start`, ratio(ever[key]));
      // The full width is 1; larger values are clamped, and the number shows them.
      this.#bars.get(key)?.style.setProperty('--share', String(Math.min(1, now[key] ?? 0)));
    }
    const minute = history.over(60);
    const each = (name: keyof Counters) => quotient(minute.growth[name], minute.seconds);
    this.#set('evictions', byteRate(each('prefetch_evicted_bytes')));
    const { prefetch_eviction_seconds: time, prefetch_evictions: times } = recent.growth;
    const lived = quotient(time, times);
    this.#set('eviction_time', span(lived === null ? null : lived * 1000));
    this.#set('waste', byteRate(each('wasted_bytes')));
    this.#set('cache', byteRate(each('cache_evicted_bytes')));
    this.#set('seek', bytes(quotient(minute.growth.seek_bytes, minute.growth.seeks)));
    const merged = quotient(minute.growth.jobs_merged, minute.growth.jobs);
    this.#set('merged', merged === null ? ratio(null) : { value: (merged * 100).toFixed(0), unit: '%' });
  }
}
