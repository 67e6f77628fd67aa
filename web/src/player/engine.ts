/**
 * Shaka Player, configured for these pages: adaptive, tolerant of a slow disk, and sending CMCD so
 * that the server knows how soon bytes are needed. CMCD is sent in the query, not in headers:
 * custom headers would cost a preflight request for each segment, because the video comes from
 * another port than the page.
 */
import shaka from 'shaka-player/dist/shaka-player.compiled-es2021.js';
import type { PlayerError } from '../pure/trouble';
import type { Rendition } from '../pure/rendition';

const MIME_BY_KIND = {
  hls: 'application/x-mpegurl',
  dash: 'application/dash+xml',
  // The browser finds the true type of a plain file. This one keeps Shaka from taking the file for a
  // playlist; without codecs, Chromium would log that it cannot parse it.
  file: 'video/mp4; codecs="avc1.42E01E, mp4a.40.2"',
} as const;

/** Pause between two rounds of attempts, which have their own growing pauses. */
const RETRY_MS = 1000;

export function supported(): boolean {
  shaka.polyfill.installAll();
  return shaka.Player.isBrowserSupported();
}

/** A new id for each playback; without a secure context for `randomUUID`, from random bytes. */
function sessionId(): string {
  if ('randomUUID' in crypto) return crypto.randomUUID();
  const bytes = (crypto as Crypto).getRandomValues(new Uint8Array(16));
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, '0')).join('');
}

export interface Stats {
  rendition: Rendition | null;
  /** Throughput measured by Shaka; null for a plain file, which the browser fetches. */
  throughput_bps: number | null;
  dropped_frames: number;
}

export class Engine {
  readonly player: shaka.Player;
  readonly session = sessionId();
  #plain = false;
  #retry = 0;
  #hls = false;
  #shownText: number | null = null;

  private constructor(player: shaka.Player) {
    this.player = player;
  }

  static async on(video: HTMLVideoElement, contentId: string): Promise<Engine> {
    const engine = new Engine(new shaka.Player());
    await engine.player.attach(video);
    engine.player.addEventListener('streaming', () => engine.#beginText());
    engine.player.configure({
      cmcd: {
        enabled: true,
        useHeaders: false,
        sessionId: engine.session,
        // CTA-5004 allows 64 characters.
        contentId: contentId.slice(0, 64),
      },
      streaming: {
        bufferingGoal: 30,
        bufferBehind: 30,
        rebufferingGoal: 2,
        // A long-tail title comes from a disk with a queue: wait, and back off slowly.
        retryParameters: { maxAttempts: 5, baseDelay: 500, backoffFactor: 1.7, timeout: 30_000 },
      },
      manifest: { retryParameters: { maxAttempts: 4, baseDelay: 500, timeout: 20_000 } },
    });
    return engine;
  }

  onError(listener: (error: PlayerError) => void): void {
    this.player.addEventListener('error', (event) => {
      const detail = (event as unknown as { detail: PlayerError & { severity: number } }).detail;
      if (detail.severity === shaka.util.Error.Severity.CRITICAL) listener(detail);
    });
  }

  onRenditions(listener: () => void): void {
    for (const name of ['trackschanged', 'variantchanged', 'adaptation', 'abrstatuschanged', 'textchanged']) {
      this.player.addEventListener(name, listener);
    }
  }

  /** Loads a title and starts playback at a position, or at its beginning. */
  async load(url: string, kind: keyof typeof MIME_BY_KIND, from_s: number | null): Promise<void> {
    this.#plain = kind === 'file';
    this.#hls = kind === 'hls';
    await this.player.load(url, from_s, MIME_BY_KIND[kind]);
    // Another track of the same language may have been selected.
    this.chooseText(this.#shownText);
  }

  /** Soon retries the failed request; another failure raises another error. */
  retrySoon(): void {
    clearTimeout(this.#retry);
    this.#retry = window.setTimeout(() => this.player.retryStreaming(), RETRY_MS);
  }

  renditions(): Rendition[] {
    return this.player.getVariantTracks().map((track) => ({
      id: track.id,
      height: track.height,
      width: track.width,
      bandwidth: track.videoBandwidth ?? track.bandwidth,
      language: track.language,
      active: track.active,
    }));
  }

  isAuto(): boolean {
    return this.player.getConfiguration().abr.enabled;
  }

  /** Lets the player choose the rendition. */
  chooseAuto(): void {
    this.player.configure('abr.enabled', true);
  }

  /** Plays only this rendition, from shortly after the current frame on. */
  choose(id: number): void {
    const track = this.player.getVariantTracks().find((one) => one.id === id);
    if (track === undefined) return;
    this.player.configure('abr.enabled', false);
    this.player.selectVariantTrack(track, true, 2);
  }

  /**
   * Selects subtitles before streaming begins; `load` deselects them if they are not wanted. Shaka
   * derives the times of HLS subtitles from video segments that arrive after the selection;
   * subtitles first selected after the last segment would never be shown.
   */
  #beginText(): void {
    const tracks = this.player.getTextTracks();
    // In HLS, DEFAULT=YES means: shown unless the viewer deselects them.
    const shown = this.#hls ? tracks.find((track) => track.primary) : undefined;
    this.#shownText = shown?.id ?? null;
    const first = shown ?? tracks[0];
    // A track cannot be selected yet; its language can.
    if (first !== undefined) this.player.configure('preferredText', [{ language: first.language }]);
  }

  /** Continues without subtitles; false if there were none. */
  dropText(): boolean {
    if (!this.player.getTextTracks().some((track) => track.active)) return false;
    this.player.selectTextTrack(null);
    return true;
  }

  textTracks(): { id: number; label: string; active: boolean }[] {
    return this.player.getTextTracks().map((track) => ({
      id: track.id,
      label: track.label ?? (track.language === 'und' ? 'Subtitles' : track.language),
      active: track.active,
    }));
  }

  chooseText(id: number | null): void {
    const track = this.player.getTextTracks().find((one) => one.id === id);
    this.player.selectTextTrack(track ?? null);
  }

  stats(): Stats {
    const stats = this.player.getStats();
    const estimate = stats.estimatedBandwidth;
    return {
      rendition: this.renditions().find((one) => one.active) ?? null,
      throughput_bps: this.#plain || !Number.isFinite(estimate) ? null : estimate,
      dropped_frames: stats.droppedFrames || 0,
    };
  }

  async close(): Promise<void> {
    clearTimeout(this.#retry);
    await this.player.destroy();
  }
}

/** Code and data of a thrown value. */
export function asPlayerError(thrown: unknown): PlayerError {
  if (typeof thrown === 'object' && thrown !== null && 'code' in thrown) {
    const { code, data } = thrown as { code: unknown; data?: unknown };
    if (typeof code === 'number') return { code, data: Array.isArray(data) ? data : [] };
  }
  return { code: 0, data: [] };
}
