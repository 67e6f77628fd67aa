/**
 * The dashboard: one device in full, and cards of all devices at the top if there are several.
 * On a wall screen the devices alternate, unless the URL names one.
 */
import { h, setText, type Page } from '../dom';
import { feed, onPoll } from '../feed';
import type { Device } from '../pure/api';
import { byteRate, count, percent, text } from '../pure/format';
import { routeHash } from '../pure/route';
import { isWall } from '../theme';
import { busyShare, CALM_S, perSecondOver } from './derive';
import { DevicePanel } from './device';

const TURN_MS = 20_000;

/** States, the worst first: selects the device on a wall screen when none was chosen. */
const GRAVITY = { online: 0, failing: 1, offline: 2 } as const;

class Card {
  readonly element: HTMLAnchorElement;
  #state = h('span', { class: 'badge' });
  #line = h('span', { class: 'card-line' });

  constructor(name: string) {
    this.element = h(
      'a',
      { class: 'device-card', href: routeHash({ page: 'dashboard', device: name }) },
      h('strong', {}, name),
      this.#state,
      this.#line,
    );
  }

  update(device: Device, chosen: boolean): void {
    const history = feed.histories.get(device.name);
    setText(this.#state, device.state);
    this.#state.dataset['state'] = device.state;
    const parts = [
      text(byteRate(history === undefined ? null : perSecondOver(history, 'bytes_sent', CALM_S))),
      `${text(percent(history === undefined ? null : busyShare(history, CALM_S)))} busy`,
      `${text(count(device.chains.live))} ${device.chains.live === 1 ? 'chain' : 'chains'}`,
    ];
    setText(this.#line, parts.join(' · '));
    if (chosen) this.element.setAttribute('aria-current', 'true');
    else this.element.removeAttribute('aria-current');
  }
}

export function dashboardPage(wanted: string | null): Page {
  const cards = h('nav', { class: 'device-cards', 'aria-label': 'Devices', hidden: true });
  const place = h('div', { class: 'device-place' });
  const element = h(
    'div',
    { class: 'dashboard' },
    h('h1', { class: 'unseen' }, 'Dashboard'),
    cards,
    place,
  );
  const byName = new Map<string, Card>();
  const began = performance.now();
  let panel: DevicePanel | null = null;

  const pick = (devices: readonly Device[]): Device | undefined => {
    if (wanted !== null) return devices.find((device) => device.name === wanted);
    const worst = [...devices].sort((a, b) => GRAVITY[b.state] - GRAVITY[a.state])[0];
    if (!isWall() || worst?.state !== 'online') return worst;
    return devices[Math.floor((performance.now() - began) / TURN_MS) % devices.length];
  };

  const say = (headline: string, advice: string) => {
    panel?.close();
    panel = null;
    const notice = h('section', { class: 'notice' }, h('h2', {}, headline), h('p', {}, advice));
    place.replaceChildren(notice);
  };

  const paint = () => {
    const status = feed.status;
    if (status === null) {
      if (place.childElementCount === 0) say('Connecting', 'Waiting for the first answer from the server.');
      return;
    }
    const { devices } = status;
    const device = pick(devices);
    cards.hidden = devices.length < 2;
    if (!cards.hidden) {
      for (const one of devices) {
        let card = byName.get(one.name);
        if (card === undefined) {
          card = new Card(one.name);
          byName.set(one.name, card);
          cards.append(card.element);
        }
        card.update(one, one.name === device?.name);
      }
      for (const [name, card] of byName) {
        if (devices.some((one) => one.name === name)) continue;
        card.element.remove();
        byName.delete(name);
      }
    }
    if (device === undefined) {
      if (wanted === null) say('No devices', 'The server serves no folder yet: start it as headlong serve DIR.');
      else say(`No device “${wanted}”`, 'Choose another one above, or open the dashboard without a name.');
      return;
    }
    if (panel === null || panel.name !== device.name) {
      panel?.close();
      panel = new DevicePanel(device.name);
      place.replaceChildren(panel.element);
    }
    const history = feed.histories.get(device.name);
    if (history !== undefined) panel.update(device, history);
  };

  const offPoll = onPoll(paint);
  paint();
  return {
    title: 'Dashboard',
    element,
    close: () => {
      offPoll();
      panel?.close();
    },
  };
}
