/**
 * Recoverable errors: a part of a title did not arrive after several attempts. Buffered media can
 * still be played, so playback continues and the player keeps retrying; it ends only when the
 * buffer is empty.
 */
import type { PlayerError } from './trouble';

/** Remaining time below which the buffer counts as empty: adaptive players halt a little earlier. */
const LEFT_S = 1;
/** Growth of the buffer above which new media has arrived. */
const CAME_S = 0.25;

/** Whether the error may be temporary: a network error, while there is buffered media. */
export function mayPass(error: PlayerError, ahead_s: number): boolean {
  return error.code >= 1000 && error.code < 2000 && ahead_s >= LEFT_S;
}

/** State of a player: its position, the end of the buffer there, and the title's length. */
export interface Place {
  readonly position_s: number;
  readonly ahead_s: number;
  readonly duration_s: number;
}

/**
 * Outcome, from the end of the buffer at the error and now: it has `passed`, playback is `over`
 * (nothing left to play), or it `lasts`.
 */
export function outcome(end_then_s: number, now: Place): 'passed' | 'over' | 'lasts' {
  const end_s = now.position_s + now.ahead_s;
  // A title that is buffered to its end lacks only subtitles.
  if (end_s > end_then_s + CAME_S || end_s > now.duration_s - CAME_S) return 'passed';
  return now.ahead_s < LEFT_S ? 'over' : 'lasts';
}

/** Position to resume from after a failure: the current one, or the intended start. */
export function resumeFrom(stood_s: number, began_s: number | null): number | null {
  return stood_s > 0 ? stood_s : began_s;
}
