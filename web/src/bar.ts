/** The bar at the top of every page: navigation, server state, and the banner below it. */
import { h, icon, setText } from './dom';
import { feed, onPoll } from './feed';
import { byteRate, count, perSecond, span, text } from './pure/format';
import { parseRoute } from './pure/route';
import { nextTheme, onTheme, themeChoice } from './theme';

const THEME_ICONS = {
  system: 'M4 5h16v11H4zM9 20h6M12 16v4',
  light:
    'M12 8a4 4 0 1 0 0 8 4 4 0 0 0 0-8zM12 2v3M12 19v3M2 12h3M19 12h3M5 5l2 2M17 17l2 2M5 19l2-2M17 7l2-2',
  dark: 'M20 14.5A8.5 8.5 0 0 1 9.5 4a8.5 8.5 0 1 0 10.5 10.5z',
} as const;

function logo(): HTMLElement {
  const mark = icon('M20.6 3.6 12.4 11');
  const disk = document.createElementNS('http://www.w3.org/2000/svg', 'path');
  disk.setAttribute('d', 'M10.5 5.5a7.5 7.5 0 1 0 0 15 7.5 7.5 0 0 0 0-15z');
  disk.setAttribute('class', 'logo-disk');
  mark.prepend(disk);
  mark.setAttribute('class', 'icon logo');
  return h('a', { class: 'home', href: '#/' }, mark, 'Headlong');
}

function figure(label: string): { element: HTMLElement; value: HTMLElement } {
  const value = h('dd', {}, '–');
  return { element: h('div', {}, h('dt', {}, label), value), value };
}

export function startBar(): void {
  const bar = document.querySelector('#bar');
  const banner = document.querySelector<HTMLElement>('#banner');
  if (bar === null || banner === null) return;

  const links = [
    h('a', { href: '#/' }, 'Library'),
    h('a', { href: '#/dashboard' }, 'Dashboard'),
  ];
  const state = h('span', { class: 'badge', 'data-state': 'unknown' }, 'connecting');
  const viewers = figure('to viewers');
  const requests = figure('requests');
  const active = figure('active');
  const open = figure('connections');
  const uptime = figure('up');
  const theme = h('button', { class: 'quiet', type: 'button', onclick: () => nextTheme() });
  bar.append(
    logo(),
    h('nav', { 'aria-label': 'Pages' }, ...links),
    h(
      'div',
      { class: 'server' },
      h(
        'dl',
        { class: 'totals', 'aria-label': 'Server totals' },
        ...[viewers, requests, active, open, uptime].map((one) => one.element),
      ),
      state,
      theme,
    ),
  );

  const mark = () => {
    const { page } = parseRoute(location.hash);
    links.forEach((link, index) => {
      const here = index === 1 ? page === 'dashboard' : page === 'library' || page === 'watch';
      if (here) link.setAttribute('aria-current', 'page');
      else link.removeAttribute('aria-current');
    });
  };
  const paintTheme = () => {
    const choice = themeChoice();
    theme.replaceChildren(icon(THEME_ICONS[choice]));
    const label = choice === 'system' ? 'Colours: system' : `Colours: ${choice}`;
    theme.setAttribute('aria-label', `${label}. Change`);
    theme.title = label;
  };
  window.addEventListener('hashchange', mark);
  onTheme(paintTheme);
  mark();
  paintTheme();

  onPoll(() => {
    const { status, lost_since_ms, totals } = feed;
    const lost = lost_since_ms !== null;
    document.body.toggleAttribute('data-lost', lost);
    if (status !== null) {
      setText(viewers.value, text(byteRate(lost ? null : totals.bytes_per_s)));
      setText(requests.value, text(perSecond(lost ? null : totals.requests_per_s)));
      setText(active.value, text(count(status.connections.requests_active)));
      setText(open.value, text(count(status.connections.open)));
      setText(uptime.value, text(span(status.uptime_ms)));
      uptime.element.title = `version ${status.version}`;
    }
    const shown = lost ? 'no answer' : (status?.state ?? 'connecting');
    setText(state, shown);
    state.dataset['state'] = lost ? 'lost' : shown;
    paintBanner(banner);
  });
}

function paintBanner(banner: HTMLElement): void {
  const { lost_since_ms, lost_because, status } = feed;
  if (lost_since_ms !== null) {
    const since = new Date(lost_since_ms).toLocaleTimeString();
    const shows = status === null ? '' : ' The values below are from before.';
    banner.dataset['kind'] = 'lost';
    setText(
      banner,
      `No connection to ${location.host} since ${since}: ${lost_because}. Trying again every second.${shows}`,
    );
  } else if (status?.state === 'draining') {
    banner.dataset['kind'] = 'draining';
    setText(banner, 'The server is draining: it finishes the replies in progress and accepts no new requests.');
  } else {
    delete banner.dataset['kind'];
    setText(banner, '');
  }
}
