/** Search for titles: every word must occur in the name or the path, ignoring case and accents. */
import type { Title } from './api';

function folded(text: string): string {
  return text.normalize('NFD').replace(/\p{M}/gu, '').toLowerCase();
}

export function matches(title: Pick<Title, 'name' | 'path'>, query: string): boolean {
  const words = folded(query).split(/\s+/).filter((word) => word !== '');
  if (words.length === 0) return true;
  const text = folded(`${title.name} ${title.path}`);
  return words.every((word) => text.includes(word));
}

/** How many titles there are, in words, if only the first `listed` of `total` are known. */
export function quantity(listed: number, total: number): string {
  if (total > listed) return `the first ${listed} of ${total} titles`;
  return `${listed} ${listed === 1 ? 'title' : 'titles'}`;
}

/**
 * Suffixes for titles whose names are not unique, by id: the file extension if that distinguishes
 * them, otherwise the path.
 */
export function tellApart(titles: readonly Pick<Title, 'id' | 'name' | 'path'>[]): Map<string, string> {
  const byName = new Map<string, typeof titles[number][]>();
  for (const title of titles) {
    const same = byName.get(title.name);
    if (same === undefined) byName.set(title.name, [title]);
    else same.push(title);
  }
  const marks = new Map<string, string>();
  for (const same of byName.values()) {
    if (same.length < 2) continue;
    const endings = same.map(({ path }) => /\.[^./]+$/.exec(path)?.[0].toLowerCase() ?? '');
    const differ = new Set(endings).size === same.length;
    same.forEach((title, index) => marks.set(title.id, differ ? (endings[index] ?? '') : readable(title.path)));
  }
  return marks;
}

function readable(path: string): string {
  try {
    return decodeURIComponent(path);
  } catch {
    return path; // A stray % in a file's name.
  }
}
