/** Search for titles: every word must occur in the name or the path, ignoring case and accents. */
import type { Title } from './api';
import { parent, readable } from './folders';

function folded(text: string): string {
  return text.normalize('NFD').replace(/\p{M}/gu, '').toLowerCase();
}

export function matches(title: Pick<Title, 'name' | 'path'>, query: string): boolean {
  const words = folded(query).split(/\s+/).filter((word) => word !== '');
  if (words.length === 0) return true;
  const text = folded(`${title.name} ${readable(title.path)}`);
  return words.every((word) => text.includes(word));
}

/** How many titles there are, in words, if only the first `listed` of `total` are known. */
export function quantity(listed: number, total: number): string {
  if (total > listed) return `the first ${listed} of ${total} titles`;
  return `${listed} ${listed === 1 ? 'title' : 'titles'}`;
}

/**
 * Suffixes for titles whose names are not unique, by id: the folder, relative to the one at `base`,
 * if that distinguishes them, or else the file extension, or else the path.
 */
export function tellApart(
  titles: readonly Pick<Title, 'id' | 'name' | 'path'>[],
  base = '',
): Map<string, string> {
  const byName = new Map<string, typeof titles[number][]>();
  for (const title of titles) {
    const same = byName.get(title.name);
    if (same === undefined) byName.set(title.name, [title]);
    else same.push(title);
  }
  const marks = new Map<string, string>();
  for (const same of byName.values()) {
    if (same.length < 2) continue;
    const paths = same.map(({ path }) => readable(path));
    const above = base === '' ? 0 : base.length + 1;
    const folders = paths.map((path) => parent(path).slice(above).split('/').join(' / '));
    const endings = paths.map((path) => /\.[^./]+$/.exec(path)?.[0].toLowerCase() ?? '');
    const differ = [folders, endings].find((texts) => new Set(texts).size === same.length) ?? paths;
    same.forEach((title, index) => marks.set(title.id, differ[index] ?? ''));
  }
  return marks;
}
