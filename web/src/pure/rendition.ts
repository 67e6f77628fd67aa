/** Renditions as a menu: one entry for each picture, best first, with its distinguishing data. */
import { bitRate, text } from './format';

export interface Rendition {
  readonly id: number;
  readonly height: number | null;
  readonly width: number | null;
  readonly bandwidth: number;
  readonly language: string;
  readonly active: boolean;
}

/** `720p · 2.31 Mbit/s`, or only the bit rate if the height is unknown. */
export function renditionName(rendition: Pick<Rendition, 'height' | 'bandwidth'>): string {
  const size = rendition.height === null || rendition.height === 0 ? '' : `${rendition.height}p`;
  const rate = rendition.bandwidth > 0 ? text(bitRate(rendition.bandwidth)) : '';
  return [size, rate].filter((part) => part !== '').join(' · ') || 'original';
}

/**
 * One entry for each picture: variants that differ only in sound share an entry, with preference
 * for the current language.
 */
export function renditionMenu(renditions: readonly Rendition[]): Rendition[] {
  const language = renditions.find((one) => one.active)?.language;
  const byName = new Map<string, Rendition>();
  for (const one of renditions) {
    const name = renditionName(one);
    const known = byName.get(name);
    const better =
      known === undefined ||
      (!known.active && one.active) ||
      (!known.active && known.language !== language && one.language === language);
    if (better) byName.set(name, one);
  }
  return [...byName.values()].sort(
    (a, b) => (b.height ?? 0) - (a.height ?? 0) || b.bandwidth - a.bandwidth,
  );
}

/** Seconds of buffered media from `time` on, ignoring gaps too small to stop at. */
export function bufferAhead(ranges: readonly (readonly [number, number])[], time: number): number {
  let end = time;
  for (const [from, to] of ranges) {
    if (from <= end + 0.25 && to > end) end = to;
  }
  return end - time;
}

/** The same for a video element. */
export function aheadOf(video: Pick<HTMLVideoElement, 'buffered' | 'currentTime'>): number {
  const { buffered, currentTime } = video;
  const ranges = Array.from({ length: buffered.length }, (_, index) => [
    buffered.start(index),
    buffered.end(index),
  ] as const);
  return bufferAhead(ranges, currentTime);
}
