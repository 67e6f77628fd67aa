/**
 * A part of a title that did not come although the player asked for it several times. What was
 * fetched before can still be watched, so playing goes on, and the player goes on asking; it ends
 * only where there is nothing left to show.
 */
import type { PlayerError } from './trouble';

/** Less than this left to play, and it is over: adaptive players halt a little before the end. */
const LEFT_S = 1;
/** More than this beyond where the buffer ended, and something came. */
const CAME_S = 0.25;

/** Whether it may pass: something of the network, while there is something to play meanwhile. */
export function mayPass(error: PlayerError, ahead_s: number): boolean {
  return error.code >= 1000 && error.code < 2000 && ahead_s >= LEFT_S;
}

/** Where a player is: its position, what it can play from there, and how long the title is. */
export interface Place {
  readonly position_s: number;
  readonly ahead_s: number;
  readonly duration_s: number;
}

/**
 * What became of it, by where the buffer ended when it happened and by what is there now: it
 * `passed`, it is `over` (nothing left to play), or it `lasts`.
 */
export function outcome(end_then_s: number, now: Place): 'passed' | 'over' | 'lasts' {
  const end_s = now.position_s + now.ahead_s;
  // What is wanting to a title that is there to its end is no picture: subtitles.
  if (end_s > end_then_s + CAME_S || end_s > now.duration_s - CAME_S) return 'passed';
  return now.ahead_s < LEFT_S ? 'over' : 'lasts';
}

/** From where to go on after a failure: where it stood, or where it should have begun. */
export function resumeFrom(stood_s: number, began_s: number | null): number | null {
  return stood_s > 0 ? stood_s : began_s;
}
