/** Starts the application: the bar, the poll, and one of three pages by the URL. */
import './styles/base.css';
import './styles/library.css';
import './styles/player.css';
import './styles/dashboard.css';
import { startBar } from './bar';
import { chartData } from './chart';
import { dashboardPage } from './dashboard/page';
import { h, type Page } from './dom';
import { startFeed } from './feed';
import { libraryPage } from './library';
import { playerPage } from './player/page';
import { parseRoute } from './pure/route';
import { isWall, startTheme } from './theme';

declare global {
  interface Window {
    /** For tests and debugging: the current player and the data of the charts. */
    headlong: {
      video?: HTMLVideoElement;
      player?: unknown;
      charts: typeof chartData;
    };
  }
}

window.headlong = { charts: chartData };

function unknownPage(hash: string): Page {
  return {
    title: 'Not found',
    close: () => {},
    element: h(
      'section',
      { class: 'notice' },
      h('h1', {}, 'Page not found'),
      h('p', {}, `There is no page at ${hash}.`),
      h('p', {}, h('a', { href: '#/', class: 'button' }, 'Go to the library')),
    ),
  };
}

let current: Page | null = null;
let shownHash: string | null = null;

function show(): void {
  // The skip link and other in-page anchors are not routes.
  if (location.hash !== '' && !location.hash.startsWith('#/')) return;
  if (location.hash === shownHash) return;
  const first = shownHash === null;
  shownHash = location.hash;
  current?.close();
  const route = parseRoute(location.hash);
  switch (route.page) {
    case 'library':
      current = libraryPage(route.folder);
      break;
    case 'watch':
      current = playerPage(route.id);
      break;
    case 'dashboard':
      current = dashboardPage(route.device);
      break;
    case 'unknown':
      current = unknownPage(route.hash);
  }
  const main = document.querySelector<HTMLElement>('#main');
  main?.replaceChildren(current.element);
  document.body.dataset['page'] = route.page;
  document.body.toggleAttribute('data-wall', isWall());
  document.title = `${current.title} · Headlong`;
  // Moving the focus announces a change of page to screen readers, except at the first load.
  if (!first) {
    main?.focus({ preventScroll: true });
    window.scrollTo(0, 0);
  }
}

startTheme();
startBar();
startFeed();
window.addEventListener('hashchange', show);
show();
