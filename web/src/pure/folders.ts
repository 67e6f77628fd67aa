/**
 * Folders of titles. A folder with a single title below it is that title, not a folder of its own:
 * packagers write one folder for each title.
 */
import type { Title } from './api';

export interface Folder {
  /** Decoded, without a slash at either end; empty for the library itself. */
  readonly path: string;
  /** Relative to the folder that shows it; more than one name if those between show nothing else. */
  readonly name: string;
  /** Titles below it. */
  readonly count: number;
  /** A picture of one of its titles. */
  readonly poster: string | null;
}

export interface FolderContent {
  readonly folders: Folder[];
  readonly titles: Title[];
}

/** A decoded URL path without its leading slash. */
export function readable(path: string): string {
  try {
    return decodeURIComponent(path).replace(/^\/+/, '');
  } catch {
    return path; // A stray % in a file's name.
  }
}

/** The folder of a path, or of a folder: all but its last name. */
export function parent(path: string): string {
  return path.slice(0, Math.max(0, path.lastIndexOf('/')));
}

interface Node {
  count: number;
  poster: string | null;
  titles: Title[];
  below: string[];
}

/** The titles without pictures that several of them share: such a picture belongs to none. */
function withOwnPosters(titles: readonly Title[]): Title[] {
  const uses = new Map<string, number>();
  for (const { poster } of titles) if (poster !== null) uses.set(poster, (uses.get(poster) ?? 0) + 1);
  return titles.map((title) =>
    title.poster !== null && (uses.get(title.poster) ?? 0) > 1 ? { ...title, poster: null } : title,
  );
}

/** The folders of a library. Titles keep their order; folders have none. */
export class Folders {
  readonly #nodes = new Map<string, Node>();
  /** All of them, each with a picture of its own or none. */
  readonly titles: readonly Title[];

  constructor(titles: readonly Title[]) {
    this.#node('');
    const places = titles.map((title) => parent(readable(title.path)));
    titles.forEach((title, index) => {
      for (let at = places[index] ?? ''; ; at = parent(at)) {
        const node = this.#node(at);
        node.count += 1;
        node.poster ??= title.poster;
        if (at === '') break;
      }
    });
    this.titles = withOwnPosters(titles);
    this.titles.forEach((title, index) => {
      this.#node(this.nearest(places[index] ?? '')).titles.push(title);
    });
    for (const [path, node] of this.#nodes) {
      if (path !== '' && node.count > 1) this.#node(parent(path)).below.push(path);
    }
  }

  #node(path: string): Node {
    const known = this.#nodes.get(path);
    if (known !== undefined) return known;
    const node = { count: 0, poster: null, titles: [], below: [] };
    this.#nodes.set(path, node);
    return node;
  }

  /** The only folder that a folder shows, and so on. */
  #descend(path: string): string {
    const { titles, below } = this.#node(path);
    const [only] = below;
    return titles.length === 0 && below.length === 1 && only !== undefined ? this.#descend(only) : path;
  }

  /** Whether a folder exists and has more than one title. */
  has(path: string): boolean {
    return path === '' || (this.#nodes.get(path)?.count ?? 0) > 1;
  }

  /** The folder that shows what lies in a folder: itself, unless it has a single title. */
  nearest(path: string): string {
    let at = path;
    while (!this.has(at)) at = parent(at);
    return at;
  }

  /** Titles below a folder. */
  count(path: string): number {
    return this.#nodes.get(path)?.count ?? 0;
  }

  /** What a folder shows. That of the library is the first one that has more than one entry. */
  content(path: string): FolderContent {
    const shown = path === '' ? this.#descend('') : path;
    const { titles, below } = this.#nodes.get(shown) ?? { titles: [], below: [] };
    const folders = below.map((one) => {
      const end = this.#descend(one);
      const { count, poster } = this.#node(end);
      return { path: end, name: end.slice(shown === '' ? 0 : shown.length + 1), count, poster };
    });
    return { folders, titles };
  }
}
