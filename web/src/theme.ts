/**
 * Light or dark: by the system's setting, unless the viewer chose; a wall screen (`?wall=1`) is
 * dark. Colours are `light-dark()` pairs in CSS; canvases read them here.
 */

const CHOICES = ['system', 'light', 'dark'] as const;
export type Choice = (typeof CHOICES)[number];

const KEY = 'headlong.theme';
const listeners = new Set<() => void>();
const systemDark = window.matchMedia('(prefers-color-scheme: dark)');

/** Whether this is a wall screen: requested by `?wall=1`, before or after the `#`. */
export function isWall(): boolean {
  const behind = location.hash.split('?')[1] ?? '';
  return [location.search, behind].some(
    (query) => (new URLSearchParams(query).get('wall') ?? '0') !== '0',
  );
}

function stored(): Choice {
  try {
    const value = localStorage.getItem(KEY);
    return CHOICES.find((choice) => choice === value) ?? 'system';
  } catch {
    return 'system'; // Storage may be forbidden; the choice then lasts as long as the page.
  }
}

let choice: Choice = stored();

function apply(): void {
  const effective = choice === 'system' && isWall() ? 'dark' : choice;
  if (effective === 'system') delete document.documentElement.dataset['theme'];
  else document.documentElement.dataset['theme'] = effective;
  cache.clear();
  for (const listener of listeners) listener();
}

export function themeChoice(): Choice {
  return choice;
}

export function nextTheme(): void {
  choice = CHOICES[(CHOICES.indexOf(choice) + 1) % CHOICES.length] ?? 'system';
  try {
    localStorage.setItem(KEY, choice);
  } catch {
    // As above.
  }
  apply();
}

/** Calls back when colours change; returns a function that unsubscribes. */
export function onTheme(listener: () => void): () => void {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

const cache = new Map<string, string>();
let probe: HTMLElement | null = null;

/** Current value of a colour property, e.g. `color('--disk')`. */
export function color(property: string): string {
  const known = cache.get(property);
  if (known !== undefined) return known;
  if (probe === null) {
    probe = document.createElement('span');
    probe.hidden = true;
    document.body.append(probe);
  }
  probe.style.color = `var(${property})`;
  const value = getComputedStyle(probe).color;
  cache.set(property, value);
  return value;
}

/** The same colour, more transparent. */
export function faded(property: string, alpha: number): string {
  const [r, g, b] = color(property).match(/[\d.]+/g) ?? ['128', '128', '128'];
  return `rgba(${r}, ${g}, ${b}, ${alpha})`;
}

export function startTheme(): void {
  systemDark.addEventListener('change', apply);
  window.addEventListener('hashchange', apply);
  apply();
}
