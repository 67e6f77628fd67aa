/**
 * Standing still, as a viewer sees it: the picture should move and does not. What the element and
 * the player tell of it differs by kind of title (a plain file waits without a word of Shaka's,
 * Shaka halts the others by itself), so the position alone decides here.
 */

/** What the page saw of a video when it looked. */
export interface Look {
  readonly at_ms: number;
  readonly position_s: number;
  readonly paused: boolean;
  readonly seeking: boolean;
  readonly ended: boolean;
}

/** Shorter than this, nobody calls it waiting. */
export const NOTICED_MS = 400;

/** Further ahead of the clock than this, and backwards, nobody plays: that was a seek. */
const JUMP_S = 4;

export class Standstill {
  /** How often it stood still after it had moved since the start or the last seek. */
  stalls = 0;
  #ended_ms = 0;
  #now_ms = 0;
  #position_s: number | null = null;
  /** Since when it stands, as seen; null while it moves or need not. */
  #since_ms: number | null = null;
  #moved = false;
  #counted = false;

  look(seen: Look): void {
    const { at_ms, position_s, seeking } = seen;
    const before = this.#position_s;
    const step = before === null ? 0 : position_s - before;
    const elapsed_s = before === null ? 0 : (at_ms - this.#now_ms) / 1000;
    this.#now_ms = at_ms;
    this.#position_s = position_s;
    const sought = seeking || step < 0 || step > elapsed_s + JUMP_S;
    if (seen.paused || seen.ended) this.#go();
    else if (!sought && step > 0) {
      this.#go();
      this.#moved = true;
      return;
    } else {
      this.#since_ms ??= at_ms;
    }
    if (sought) {
      // A stall that the viewer leaves by a seek is over; what follows is the seek's own wait.
      if (this.#counted) this.#go();
      this.#moved = false;
    }
    if (this.waits && this.#moved && !this.#counted) {
      this.#counted = true;
      this.stalls += 1;
    }
  }

  /** Whether a viewer waits: for a stall to end, or for the start after opening or seeking. */
  get waits(): boolean {
    return this.#since_ms !== null && this.#now_ms - this.#since_ms >= NOTICED_MS;
  }

  /** How long all stalls took, with the one that lasts. */
  get stalled_ms(): number {
    return this.#ended_ms + this.#lasts();
  }

  #lasts(): number {
    return this.#counted && this.#since_ms !== null ? this.#now_ms - this.#since_ms : 0;
  }

  #go(): void {
    this.#ended_ms += this.#lasts();
    this.#since_ms = null;
    this.#counted = false;
  }
}
