/** Containers that no browser plays, whatever the codecs in them. */
import type { Title } from './api';

const UNPLAYABLE: Readonly<Record<string, string>> = { avi: 'AVI', mpg: 'MPEG', mpeg: 'MPEG' };

/** The name of the container of a plain file that no browser plays, or null. */
export function unplayable(title: Pick<Title, 'kind' | 'path'>): string | null {
  if (title.kind !== 'file') return null;
  const ending = /\.([^./]+)$/.exec(title.path)?.[1]?.toLowerCase() ?? '';
  return UNPLAYABLE[ending] ?? null;
}
