/** Panels beside the picture: the player's measurements, and the server's data for this title. */
import { Chart } from '../chart';
import { h, setText } from '../dom';
import { feed } from '../feed';
import type { Title } from '../pure/api';
import { chainsOf, unreadOf } from '../pure/chains';
import { bitRate, bytes, count, span, text, UNKNOWN } from '../pure/format';
import { aheadOf, renditionName } from '../pure/rendition';
import type { Standstill } from '../pure/standstill';
import type { Engine } from './engine';

const WINDOW_S = 120;

interface Reading {
  at_s: number;
  ahead_s: number;
  throughput_bps: number | null;
  rendition_bps: number | null;
}

export class Gauges {
  readonly element: HTMLElement;
  #title: Title;
  #video: HTMLVideoElement;
  #readings: Reading[] = [];
  #values = new Map<string, HTMLElement>();
  #buffer = new Chart({
    name: 'buffer ahead',
    window_s: WINDOW_S,
    quiet_max: 20,
    format: (value) => ({ value: String(Math.round(value)), unit: 's' }),
    lines: [{ label: 'Buffer ahead', color: '--viewers', fill: 0.18 }],
  });
  #speed = new Chart({
    name: 'player throughput',
    window_s: WINDOW_S,
    quiet_max: 4e6,
    format: bitRate,
    lines: [
      { label: 'Throughput', color: '--disk', fill: 0.12 },
      { label: 'Rendition', color: '--viewers', dash: [4, 3] },
    ],
  });

  constructor(title: Title, video: HTMLVideoElement) {
    this.#title = title;
    this.#video = video;
    this.element = h(
      'aside',
      { class: 'gauges', 'aria-label': 'Measurements' },
      h(
        'section',
        { class: 'panel' },
        h('h2', {}, 'This player'),
        this.#list(['Rendition', 'Buffer ahead', 'Throughput', 'Stalls', 'Frames dropped']),
        h('h3', {}, 'Buffer ahead'),
        this.#buffer.element,
        h('h3', {}, 'Throughput ', h('small', {}, 'and rendition')),
        this.#speed.element,
      ),
      h(
        'section',
        { class: 'panel' },
        h('h2', {}, 'This title on the server'),
        this.#list(['Chains', 'Unread in memory', 'Next prefetch', 'Least time to deadline']),
      ),
    );
  }

  #list(names: readonly string[]): HTMLElement {
    const list = h('dl', { class: 'facts' });
    for (const name of names) {
      const value = h('dd', {}, '–');
      this.#values.set(name, value);
      list.append(h('dt', {}, name), value);
    }
    return list;
  }

  #set(name: string, value: string): void {
    const element = this.#values.get(name);
    if (element !== undefined) setText(element, value);
  }

  update(engine: Engine | null, still: Standstill): void {
    const stats = engine?.stats() ?? null;
    const ahead = aheadOf(this.#video);
    const at_s = performance.now() / 1000;
    const rendition = stats?.rendition ?? null;
    const height = this.#video.videoHeight || null;
    this.#readings.push({
      at_s,
      ahead_s: ahead,
      throughput_bps: stats?.throughput_bps ?? null,
      rendition_bps: rendition?.bandwidth ?? null,
    });
    this.#readings = this.#readings.filter((one) => one.at_s > at_s - WINDOW_S - 2);
    const name =
      rendition !== null
        ? renditionName(rendition)
        : height === null
          ? '–'
          : `${height}p, original`;
    this.#set('Rendition', name);
    this.#set('Buffer ahead', text(span(ahead * 1000)));
    this.#set(
      'Throughput',
      this.#title.kind === 'file' && stats?.throughput_bps == null
        ? 'not reported by the browser'
        : text(bitRate(stats?.throughput_bps)),
    );
    const stalled = still.stalls === 0 ? '' : ` (${text(span(still.stalled_ms))})`;
    this.#set('Stalls', text(count(still.stalls)) + stalled);
    this.#set('Frames dropped', text(count(stats?.dropped_frames)));
    const xs = this.#readings.map((one) => one.at_s - at_s);
    this.#buffer.update(xs, [this.#readings.map((one) => one.ahead_s)]);
    this.#speed.update(xs, [
      this.#readings.map((one) => one.throughput_bps),
      this.#readings.map((one) => one.rendition_bps),
    ]);
    this.#updateServer();
  }

  #updateServer(): void {
    const { status } = feed;
    const known = status === null ? null : chainsOf(this.#title.path, status.devices);
    const chains = known ?? [];
    const some = chains.length > 0;
    const slack = Math.min(...chains.map((chain) => chain.slack_ms));
    const next = Math.max(...chains.map((chain) => chain.prefetch_bytes));
    this.#set('Chains', text(count(known?.length)));
    this.#set('Unread in memory', some ? unreadOf(chains) : text(UNKNOWN));
    this.#set('Next prefetch', text(some ? bytes(next) : UNKNOWN));
    this.#set('Least time to deadline', text(some ? span(slack) : UNKNOWN));
  }

  close(): void {
    this.#buffer.close();
    this.#speed.close();
  }
}
