/**
 * Base URL of the video. The server reports the addresses of its media listener; some of them mean
 * nothing to a browser on another machine (0.0.0.0, [::], loopback), and the host name of this page
 * replaces those.
 */

const WILDCARD = new Set(['0.0.0.0', '[::]', '[::ffff:0:0]']);

function isLoopback(hostname: string): boolean {
  return hostname === 'localhost' || hostname === '[::1]' || /^127(\.\d+){3}$/.test(hostname);
}

/** The base of all media URLs, or null when the server has no usable media address. */
export function mediaBase(addresses: readonly string[], pageHostname: string): URL | null {
  for (const address of addresses) {
    if (!URL.canParse(address)) continue;
    const base = new URL(address);
    if (base.protocol !== 'http:' && base.protocol !== 'https:') continue;
    if (pageHostname !== '' && (WILDCARD.has(base.hostname) || isLoopback(base.hostname))) {
      base.hostname = pageHostname;
    }
    return base;
  }
  return null;
}

/**
 * The URL of a library path. Paths come percent-encoded; characters with a meaning in URLs (`?`,
 * `#`, a stray `%`) are part of a file's name here, and are escaped. `//films.example/a.mp4` is a
 * file of the site `films.example`, at the port of the base.
 */
export function mediaUrl(base: URL, path: string): string {
  const site = /^\/\/([A-Za-z0-9.-]+)(\/.*)$/.exec(path);
  const home = new URL(base);
  if (site?.[1] !== undefined) home.hostname = site[1];
  const safe = (site?.[2] ?? path)
    .replace(/%(?![0-9a-fA-F]{2})/g, '%25')
    .replaceAll('?', '%3F')
    .replaceAll('#', '%23')
    .replaceAll('\\', '%5C')
    .replace(/^\/*/, '/');
  return new URL(safe, home).href;
}
