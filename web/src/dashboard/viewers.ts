/** Chains, the most urgent first, each with a bar of its slack. */
import { h, setText } from '../dom';
import type { Device, Viewer } from '../pure/api';
import { bitRate, bytes, shownOf, span, text } from '../pure/format';
import { byNeed } from '../pure/rates';
import { panel } from './panel';

/** Slack of a full bar. */
const FULL_MS = 30_000;
/** Limits below which a viewer is in danger, or close to it. */
const DANGER_MS = 2_000;
const CARE_MS = 6_000;

function decoded(path: string): string {
  try {
    return decodeURIComponent(path);
  } catch {
    return path;
  }
}

class Row {
  readonly element = h('tr');
  #who = h('td', { class: 'who' });
  #path = h('span');
  #cells = ['rate', 'pace', 'sent', 'ahead', 'next'].map((name) => h('td', { class: name }));
  #bar = h('span', { class: 'slack-bar', 'aria-hidden': 'true' });
  #slack = h('span', { class: 'slack-text' });

  constructor() {
    this.element.append(
      h('td', { class: 'slack' }, this.#bar, this.#slack),
      h('td', { class: 'path' }, this.#path),
      ...this.#cells,
      this.#who,
    );
  }

  set(viewer: Viewer): void {
    const { slack_ms } = viewer;
    const need = slack_ms < DANGER_MS ? 'danger' : slack_ms < CARE_MS ? 'care' : 'fine';
    this.element.dataset['need'] = need;
    this.#bar.style.setProperty('--share', String(Math.min(1, Math.max(0, slack_ms / FULL_MS))));
    setText(this.#slack, text(span(slack_ms)));
    setText(this.#path, decoded(viewer.path));
    this.#path.title = decoded(viewer.path);
    const values = [
      bitRate(viewer.bit_rate_bps),
      bitRate(viewer.pace_bps),
      bytes(viewer.length_bytes),
      bytes(viewer.unread_bytes),
      bytes(viewer.prefetch_bytes),
    ];
    this.#cells.forEach((cell, index) => {
      const value = values[index];
      if (value !== undefined) setText(cell, text(value));
    });
    setText(this.#who, viewer.viewer.slice(0, 8));
    this.#who.title = viewer.viewer;
  }
}

export class ViewersPanel {
  readonly element: HTMLElement;
  #note = h('span', { class: 'aside' });
  #body = h('tbody');
  #empty = h('p', { class: 'empty' }, 'No active chain reads from the disk.');
  #rows: Row[] = [];

  constructor() {
    const heads: [string, string, string][] = [
      ['slack', 'To deadline', 'time until this viewer runs out of data if nothing more is read'],
      ['path', 'Title', ''],
      ['rate', 'Bit rate', 'average of the file'],
      ['pace', 'Pace', 'rate at which the viewer reads'],
      ['sent', 'Requested', 'bytes requested so far'],
      ['ahead', 'In memory', 'prefetched and not yet read'],
      ['next', 'Prefetch', 'size of its next prefetch'],
      ['who', 'Viewer', ''],
    ];
    const head = heads.map(([name, label, title]) =>
      h('th', { scope: 'col', class: name, title: title || null }, label),
    );
    const scroller = h(
      'div',
      { class: 'scroller', tabindex: 0, role: 'region', 'aria-label': 'Chains, most urgent first' },
      h('table', { class: 'viewers' }, h('thead', {}, h('tr', {}, ...head)), this.#body),
      this.#empty,
    );
    this.element = panel('viewers', 'Chains, most urgent first', this.#note, scroller);
  }

  update(chains: Device['chains']): void {
    const sorted = byNeed(chains.shown);
    while (this.#rows.length > sorted.length) this.#rows.pop()?.element.remove();
    sorted.forEach((viewer, index) => {
      let row = this.#rows[index];
      if (row === undefined) {
        row = new Row();
        this.#rows.push(row);
        this.#body.append(row.element);
      }
      row.set(viewer);
    });
    this.#empty.hidden = sorted.length > 0;
    setText(this.#note, `${shownOf(sorted.length, chains.live)} live`);
  }
}
