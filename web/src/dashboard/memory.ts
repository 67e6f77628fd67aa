/** Memory by class: a bar for the current state, a stack for the last five minutes. */
import { Chart } from '../chart';
import { h, setText } from '../dom';
import { MEMORY_CLASSES, type Memory, type MemoryClass } from '../pure/api';
import { bytes, percent, text } from '../pure/format';
import { quotient, WINDOW_S, type Point } from '../pure/rates';
import { panel } from './panel';

const NAMES: Record<MemoryClass, [string, string]> = {
  sending: ['Sending', 'handed to replies, not yet accepted by their sockets'],
  unread: ['Unread', 'prefetched for a viewer that has not read it yet'],
  filling: ['Filling', 'being read from the disk'],
  read: ['Read', 'read before, kept for the next viewer'],
  free: ['Free', 'unused'],
};

const DRAWN = MEMORY_CLASSES.filter((name) => name !== 'free');

export class MemoryPanel {
  readonly element: HTMLElement;
  #budget = h('span', { class: 'aside' });
  #bar = h('div', { class: 'memory-bar', role: 'img' });
  #parts = new Map<MemoryClass, { part: HTMLElement; value: HTMLElement; share: HTMLElement }>();
  #chart = new Chart({
    name: 'memory',
    window_s: WINDOW_S,
    quiet_max: 1 << 20,
    binary: true,
    stacked: true,
    format: bytes,
    lines: DRAWN.map((name) => ({ label: NAMES[name][0], color: `--memory-${name}`, fill: 1 })),
  });

  constructor() {
    const list = h('dl', { class: 'memory-list' });
    for (const name of MEMORY_CLASSES) {
      const [label, meaning] = NAMES[name];
      const part = h('span', { 'data-class': name });
      const value = h('dd');
      const share = h('dd', { class: 'share' });
      this.#bar.append(part);
      this.#parts.set(name, { part, value, share });
      list.append(
        h('div', { 'data-class': name, title: meaning }, h('dt', {}, label), value, share),
      );
    }
    this.element = panel('memory', 'Memory', this.#budget, this.#bar, list, this.#chart.element);
  }

  update(memory: Memory, points: readonly Point[], xs: number[]): void {
    setText(this.#budget, `budget ${text(bytes(memory.budget))}`);
    const said: string[] = [];
    for (const [name, { part, value, share }] of this.#parts) {
      const size = memory[name];
      const ofAll = quotient(size, memory.budget);
      part.style.flexGrow = String(size);
      setText(value, text(bytes(size)));
      setText(share, text(percent(ofAll)));
      said.push(`${NAMES[name][0]} ${text(bytes(size))}`);
    }
    this.#bar.setAttribute('aria-label', `Memory now: ${said.join(', ')}`);
    this.#chart.update(
      xs,
      DRAWN.map((name) => points.map((point) => point.memory[name])),
    );
  }

  close(): void {
    this.#chart.close();
  }
}
