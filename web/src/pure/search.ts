/** Finding titles: every word must occur in the name or the path, in any case and any accent. */
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
