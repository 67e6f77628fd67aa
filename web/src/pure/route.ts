/** The routes of the three pages, in the URL after `#`. */

export type Route =
  /** `folder` is decoded, without a slash at either end; empty for the whole library. */
  | { readonly page: 'library'; readonly folder: string }
  | { readonly page: 'watch'; readonly id: string }
  | { readonly page: 'dashboard'; readonly device: string | null }
  | { readonly page: 'unknown'; readonly hash: string };

function decoded(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    return part; // A stray % in a hand-typed address.
  }
}

export function parseRoute(hash: string): Route {
  const path = hash.replace(/^#/, '').replace(/[?].*$/, '');
  const [page, ...rest] = path.split('/').filter((part) => part !== '');
  const argument = rest.map(decoded).join('/');
  if (page === undefined) return { page: 'library', folder: '' };
  if (page === 'folder') return { page: 'library', folder: argument };
  if (page === 'watch' && argument !== '') return { page, id: argument };
  if (page === 'dashboard') return { page, device: argument === '' ? null : argument };
  return { page: 'unknown', hash };
}

export function routeHash(route: Exclude<Route, { page: 'unknown' }>): string {
  switch (route.page) {
    case 'library':
      return route.folder === ''
        ? '#/'
        : `#/folder/${route.folder.split('/').map(encodeURIComponent).join('/')}`;
    case 'watch':
      return `#/watch/${encodeURIComponent(route.id)}`;
    case 'dashboard':
      return route.device === null
        ? '#/dashboard'
        : `#/dashboard/${encodeURIComponent(route.device)}`;
  }
}
