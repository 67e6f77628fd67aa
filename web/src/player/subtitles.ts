/**
 * Subtitle files beside a plain file, as tracks of the video. The page fetches them itself: a
 * cross-origin track would require CORS for the whole video, which it may not have.
 */
import { h } from '../dom';
import { languageName } from '../pure/language';
import { subtitleText, toWebVtt } from '../pure/subrip';

/** Longest file: twenty times that of any film. */
const BYTES_MAX = 4 << 20;

export interface Beside {
  readonly url: string;
  readonly language: string | null;
}

export class Subtitles {
  #video: HTMLVideoElement;
  #tracks: HTMLTrackElement[] = [];
  #urls: string[] = [];
  #stop = new AbortController();

  constructor(video: HTMLVideoElement) {
    this.#video = video;
  }

  /** Adds the available ones; none is shown before the viewer selects it. */
  async add(texts: readonly Beside[]): Promise<void> {
    const { signal } = this.#stop;
    // Fetched concurrently, listed in order.
    const had = texts.map(async ({ url, language }) => {
      const reply = await fetch(url, { signal });
      if (!reply.ok) throw new Error(String(reply.status));
      if (Number(reply.headers.get('content-length')) > BYTES_MAX) throw new Error('too long');
      return { text: toWebVtt(subtitleText(await reply.arrayBuffer())), language };
    });
    for (const one of await Promise.allSettled(had)) {
      // Missing subtitles must not prevent playback.
      if (one.status !== 'fulfilled' || signal.aborted) continue;
      const { text, language } = one.value;
      const src = URL.createObjectURL(new Blob([text], { type: 'text/vtt' }));
      const label = languageName(language, navigator.language);
      const track = h('track', { kind: 'subtitles', src, label, srclang: language ?? 'und' });
      this.#urls.push(src);
      this.#tracks.push(track);
      this.#video.append(track);
    }
  }

  close(): void {
    this.#stop.abort();
    for (const track of this.#tracks) track.remove();
    for (const url of this.#urls) URL.revokeObjectURL(url);
    this.#tracks = [];
    this.#urls = [];
  }
}
