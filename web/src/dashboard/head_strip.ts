/**
 * Position of the disk head. The disk spans from left (its first byte) to right (its last); queued
 * jobs are ticks on it, the head is a marker, and its trail of the last minute runs downwards, so
 * that a sweep shows as a slope and a jump as a step.
 */
import { h, setText } from '../dom';
import type { Device } from '../pure/api';
import { capacity, shownOf, text } from '../pure/format';
import type { Point } from '../pure/rates';
import { color, faded, onTheme } from '../theme';
import { panel } from './panel';

const TRAIL_S = 60;
/** Height of the band for the disk, and of the scale below it. */
const BAND = 26;
const TOP = 10;
const SCALE = 20;

export class HeadStrip {
  readonly element: HTMLElement;
  #canvas = h('canvas', { role: 'img' });
  #note = h('span', { class: 'aside' });
  #zoom = h('button', { type: 'button', class: 'small', 'aria-pressed': 'false' }, 'Zoom to activity');
  #zoomed = false;
  #device: Device | null = null;
  #points: readonly Point[] = [];
  #observer = new ResizeObserver(() => this.#draw());
  #offTheme = onTheme(() => this.#draw());

  constructor() {
    const aside = h('span', { class: 'row' }, this.#note, this.#zoom);
    this.element = panel('head', 'Disk head', aside, h('div', { class: 'strip' }, this.#canvas));
    this.#zoom.addEventListener('click', () => {
      this.#zoomed = !this.#zoomed;
      this.#zoom.setAttribute('aria-pressed', String(this.#zoomed));
      this.#draw();
    });
    this.#observer.observe(this.#canvas);
  }

  close(): void {
    this.#observer.disconnect();
    this.#offTheme();
  }

  update(device: Device, points: readonly Point[]): void {
    this.#device = device;
    this.#points = points;
    const { head_physical_bytes: head, positions_bytes: queued, jobs } = device.queue;
    const size = device.capacity_bytes;
    const disk = size === null ? 'Disk of unknown size' : `Disk of ${text(capacity(size))}`;
    const where = head === null ? 'head position unknown' : `head at ${text(capacity(head))}`;
    const waiting = `${shownOf(queued.length, jobs)} queued positions`;
    setText(this.#note, `${where} · ${waiting}`);
    this.#canvas.setAttribute('aria-label', `${disk}, ${where}, ${waiting}`);
    this.#draw();
  }

  /** Head positions of the last minute, newest last. */
  #trail(): { age_s: number; at: number }[] {
    const newest = this.#points.at(-1)?.at_s ?? 0;
    const trail: { age_s: number; at: number }[] = [];
    for (const point of this.#points) {
      const at = point.queue.head_physical_bytes;
      const age_s = newest - point.at_s;
      if (at !== null && age_s <= TRAIL_S) trail.push({ age_s, at });
    }
    return trail;
  }

  /** Range of the width: the whole disk, or the part that was visited or is queued. */
  #span(device: Device, trail: readonly { at: number }[]): [number, number] {
    const places = [...trail.map((one) => one.at), ...device.queue.positions_bytes];
    const least = places.reduce((a, b) => Math.min(a, b), Infinity);
    const most = places.reduce((a, b) => Math.max(a, b), 0);
    const whole = device.capacity_bytes ?? 0;
    if (!this.#zoomed && whole > 0) return [0, Math.max(whole, most)];
    if (!Number.isFinite(least)) return [0, Math.max(whole, 1)];
    const margin = Math.max((most - least) * 0.04, 1 << 20);
    return [Math.max(0, least - margin), most + margin];
  }

  #draw(): void {
    const device = this.#device;
    const { clientWidth: width, clientHeight: height } = this.#canvas;
    const context = this.#canvas.getContext('2d');
    if (device === null || context === null || width < 40 || height < 40) return;
    const density = window.devicePixelRatio || 1;
    this.#canvas.width = Math.round(width * density);
    this.#canvas.height = Math.round(height * density);
    context.scale(density, density);

    const trail = this.#trail();
    const [from, to] = this.#span(device, trail);
    const x = (at: number) => 8 + ((at - from) / (to - from)) * (width - 16);
    const depth = height - TOP - BAND - SCALE;

    context.fillStyle = color('--band');
    context.beginPath();
    context.roundRect(2, TOP, width - 4, BAND, 4);
    context.fill();
    this.#scale(context, width, height, from, to, x);
    this.#drawTrail(context, trail, x, depth);

    // Queued jobs: translucent, so that many of them are brighter than one.
    context.fillStyle = faded('--ink', 0.62);
    for (const at of device.queue.positions_bytes) {
      context.fillRect(x(at) - 0.75, TOP + 5, 1.5, BAND - 10);
    }
    const head = device.queue.head_physical_bytes;
    if (head !== null) this.#drawHead(context, x(head));
  }

  #drawTrail(
    context: CanvasRenderingContext2D,
    trail: readonly { age_s: number; at: number }[],
    x: (at: number) => number,
    depth: number,
  ): void {
    const y = (age_s: number) => TOP + BAND + (age_s / TRAIL_S) * depth;
    context.lineWidth = 1.75;
    context.lineJoin = 'round';
    trail.forEach((point, index) => {
      const before = trail[index - 1];
      if (before === undefined) return;
      context.strokeStyle = faded('--disk', 0.9 * (1 - point.age_s / TRAIL_S) ** 1.2 + 0.06);
      context.beginPath();
      context.moveTo(x(before.at), y(before.age_s));
      context.lineTo(x(point.at), y(point.age_s));
      context.stroke();
    });
  }

  #drawHead(context: CanvasRenderingContext2D, at: number): void {
    context.save();
    context.shadowColor = color('--disk');
    context.shadowBlur = 12;
    context.fillStyle = color('--disk');
    context.beginPath();
    context.roundRect(at - 2, TOP - 4, 4, BAND + 8, 2);
    context.fill();
    context.beginPath();
    context.moveTo(at - 7, TOP - 9);
    context.lineTo(at + 7, TOP - 9);
    context.lineTo(at, TOP);
    context.fill();
    context.restore();
  }

  #scale(
    context: CanvasRenderingContext2D,
    width: number,
    height: number,
    from: number,
    to: number,
    x: (at: number) => number,
  ): void {
    context.font = '500 11px "Inter Variable", system-ui, sans-serif';
    const steps = width < 500 ? 2 : 8;
    for (let step = 0; step <= steps; step += 1) {
      const at = from + ((to - from) * step) / steps;
      context.strokeStyle = color('--grid');
      context.lineWidth = 1;
      context.beginPath();
      context.moveTo(Math.round(x(at)) + 0.5, TOP + BAND + 2);
      context.lineTo(Math.round(x(at)) + 0.5, height - SCALE + 2);
      context.stroke();
      context.fillStyle = color('--muted');
      context.textAlign = step === 0 ? 'left' : step === steps ? 'right' : 'center';
      context.fillText(text(capacity(at)), x(at), height - 4);
    }
    context.textAlign = 'right';
    context.fillText(`−${TRAIL_S} s`, width - 12, height - SCALE - 4);
  }
}
