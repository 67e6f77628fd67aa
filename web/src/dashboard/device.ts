/** All panels of one device, arranged to fit a wall screen without scrolling. */
import { Chart } from '../chart';
import { h, setText } from '../dom';
import type { Device } from '../pure/api';
import {
  byteRate,
  bytes,
  capacity,
  count,
  percent,
  text,
  UNKNOWN,
  windowOf,
  type Quantity,
} from '../pure/format';
import { quotient, WINDOW_S, type History } from '../pure/rates';
import {
  busyShare,
  CALM_S,
  meanOver,
  perSecondOver,
  perSecondSeries,
  READS_S,
  readSizeSeries,
} from './derive';
import { FlashPanel } from './flash';
import { HeadStrip } from './head_strip';
import { MemoryPanel } from './memory';
import { panel } from './panel';
import { RatiosPanel } from './ratios';
import { ViewersPanel } from './viewers';

/** A number in large type, readable across a room. */
class Tile {
  readonly element: HTMLElement;
  #value = h('span', { class: 'value' }, '–');
  #unit = h('span', { class: 'unit' });
  #note = h('p', { class: 'note' });

  constructor(label: string, accent = '') {
    this.element = h(
      'div',
      { class: 'tile', 'data-accent': accent },
      h('h3', {}, label),
      h('p', { class: 'big' }, this.#value, this.#unit),
      this.#note,
    );
  }

  set(quantity: Quantity, note: string, alarm = false): void {
    setText(this.#value, quantity.value);
    setText(this.#unit, quantity.unit);
    setText(this.#note, note);
    this.element.toggleAttribute('data-alarm', alarm);
  }
}

/** The controller that set the reference size, and its reason. */
function found(policy: Device['policy']): string {
  const { control } = policy;
  if (control === null) return '';
  const why = control.reason_text === '' ? '' : `: ${control.reason_text}`;
  return ` (${control.name}${why})`;
}

export class DevicePanel {
  readonly element: HTMLElement;
  #title = h('h2', {});
  #state = h('span', { class: 'badge' });
  #facts = h('p', { class: 'device-facts' });
  #tiles = {
    viewers: new Tile('To viewers', 'viewers'),
    disk: new Tile('From disk', 'disk'),
    busy: new Tile('Disk busy', 'disk'),
    queue: new Tile('Queue'),
    read: new Tile('Mean read'),
    live: new Tile('Chains'),
    late: new Tile('Late jobs'),
    refused: new Tile('Refused, failed'),
  };
  #throughput = new Chart({
    name: 'throughput',
    window_s: WINDOW_S,
    quiet_max: 2e6,
    format: byteRate,
    lines: [
      { label: 'To viewers', color: '--viewers', fill: 0.16 },
      { label: 'From disk', color: '--disk', fill: 0.1 },
    ],
  });
  #queue = new Chart({
    name: 'queue',
    window_s: WINDOW_S,
    quiet_max: 8,
    format: count,
    lines: [
      { label: 'Queued', color: '--ink', fill: 0.1 },
      { label: 'Overdue', color: '--alarm', fill: 0.3 },
    ],
  });
  #busy = new Chart({
    name: 'busy',
    window_s: WINDOW_S,
    quiet_max: 1,
    fixed_max: 1,
    format: percent,
    lines: [{ label: 'Busy', color: '--disk', fill: 0.18 }],
  });
  #read = new Chart({
    name: 'read size',
    window_s: WINDOW_S,
    quiet_max: 1 << 20,
    binary: true,
    format: bytes,
    lines: [
      { label: 'Mean read', color: '--disk', fill: 0.12 },
      { label: 'Reference', color: '--muted', dash: [5, 4], width: 1.25 },
    ],
  });
  #strip = new HeadStrip();
  #memory = new MemoryPanel();
  #ratios = new RatiosPanel();
  #viewers = new ViewersPanel();
  #flash = new FlashPanel();

  constructor(readonly name: string) {
    const legend = (...entries: [string, string][]) =>
      h(
        'span',
        { class: 'legend', 'aria-hidden': 'true' },
        ...entries.map(([color, label]) => {
          const key = h('i');
          key.style.setProperty('--key', `var(${color})`);
          return h('span', {}, key, label);
        }),
      );
    this.element = h(
      'section',
      { class: 'device', 'aria-label': `Device ${name}` },
      h('header', { class: 'device-head' }, this.#title, this.#state, this.#facts),
      h('div', { class: 'tiles' }, ...Object.values(this.#tiles).map((tile) => tile.element)),
      panel(
        'throughput',
        'Throughput',
        legend(['--viewers', 'to viewers'], ['--disk', 'from disk']),
        this.#throughput.element,
      ),
      panel('queue', 'Queue', legend(['--ink', 'jobs'], ['--alarm', 'overdue']), this.#queue.element),
      panel('busy', 'Disk busy', null, this.#busy.element),
      panel(
        'reads',
        'Read size',
        legend(['--disk', `mean of ${READS_S} s`], ['--muted', 'reference']),
        this.#read.element,
      ),
      this.#strip.element,
      this.#memory.element,
      this.#ratios.element,
      this.#viewers.element,
    );
  }

  update(device: Device, history: History): void {
    this.#head(device);
    this.#numbers(device, history);
    const newest = history.points.at(-1)?.at_s ?? 0;
    const points = history.points;
    const xs = points.map((point) => point.at_s - newest);
    this.#throughput.update(xs, [
      perSecondSeries(points, 'bytes_sent'),
      perSecondSeries(points, 'bytes_read'),
    ]);
    this.#queue.update(xs, [
      points.map((point) => (point.growth === null ? null : point.queue.jobs)),
      points.map((point) => (point.growth === null ? null : point.queue.jobs_overdue)),
    ]);
    this.#busy.update(xs, [
      perSecondSeries(points, 'busy_seconds').map((v) => (v === null ? null : Math.min(1, v))),
    ]);
    this.#read.update(xs, [
      readSizeSeries(points, READS_S),
      points.map((point) => point.reference_bytes),
    ]);
    this.#strip.update(device, points);
    this.#memory.update(device.memory, points, xs);
    this.#ratios.update(device.counters, history);
    this.#viewers.update(device.chains);
    const { flash } = device;
    if (flash === null) {
      this.#flash.element.remove();
    } else {
      this.#flash.update(flash, history);
      if (!this.#flash.element.isConnected) this.element.append(this.#flash.element);
    }
  }

  #head(device: Device): void {
    setText(this.#title, device.name);
    setText(this.#state, device.state);
    this.#state.dataset['state'] = device.state;
    this.element.dataset['state'] = device.state;
    const facts = [
      device.rotational ? 'rotating disk' : 'flash',
      text(capacity(device.capacity_bytes)),
      device.roots.join(', '),
      device.io === '' ? '' : `reads by ${device.io}`,
      device.policy.name === '' ? '' : `prefetch ${device.policy.name}`,
      device.order === '' ? '' : `order ${device.order}`,
      device.retention === '' ? '' : `keeps ${device.retention}`,
    ];
    setText(this.#facts, facts.filter((fact) => fact !== '' && fact !== UNKNOWN.value).join(' · '));
  }

  #numbers(device: Device, history: History): void {
    const { queue, policy, chains, counters } = device;
    const minute = history.over(60);
    // A page that was just opened has no data yet, which is not the same as zero.
    const lately = (n: number) => text(count(minute.seconds > 0 ? n : null));
    const window = `in the last ${text(windowOf(60, minute.seconds))}`;
    const jobs = minute.growth.jobs;
    const late = quotient(minute.growth.jobs_late, jobs);
    const tiles = this.#tiles;
    const fromRam = quotient(minute.growth.bytes_from_ram, minute.growth.bytes_sent);
    tiles.viewers.set(
      byteRate(perSecondOver(history, 'bytes_sent', CALM_S)),
      `${text(percent(fromRam))} from RAM`,
    );
    const seeks = perSecondOver(history, 'seeks', CALM_S);
    const reads = perSecondOver(history, 'reads', CALM_S);
    tiles.disk.set(
      byteRate(perSecondOver(history, 'bytes_read', CALM_S)),
      `${text(count(reads))} reads/s, ${text(count(seeks))} seeks/s`,
    );
    tiles.busy.set(
      percent(busyShare(history, CALM_S)),
      `${queue.outstanding_reads} ${queue.outstanding_reads === 1 ? 'read' : 'reads'} outstanding`,
    );
    tiles.queue.set(
      count(queue.jobs),
      `${text(count(queue.jobs_demanded))} with waiting replies, ${text(count(queue.jobs_overdue))} overdue`,
      queue.jobs_overdue > 0,
    );
    const size = meanOver(history, 'bytes_read', 'reads', READS_S);
    const wanted = meanOver(history, 'job_bytes', 'job_bytes_wanted', READS_S);
    tiles.read.set(
      bytes(size),
      `reference ${text(bytes(policy.reference_bytes))}${found(policy)}; jobs had ${text(percent(wanted))}`,
    );
    tiles.live.set(
      count(chains.live),
      `${lately(minute.growth.chains)} started ${window}`,
    );
    tiles.late.set(
      percent(late),
      `${lately(minute.growth.jobs_late)} of ${lately(jobs)} ${window}`,
      (late ?? 0) > 0.01,
    );
    const bad = minute.growth.requests_refused + minute.growth.requests_failed;
    tiles.refused.set(
      count(counters.requests_refused + counters.requests_failed),
      counters.read_errors > 0
        ? `${text(count(counters.read_errors))} read errors since start`
        : `${lately(bad)} ${window}`,
      bad > 0 || counters.read_errors > 0,
    );
  }

  close(): void {
    for (const part of [this.#throughput, this.#queue, this.#busy, this.#read, this.#strip, this.#memory]) {
      part.close();
    }
  }
}
