/**
 * Stall detector: the picture should move and does not. The events of the element and the player
 * differ by kind of title (a plain file waits without a Shaka event, Shaka halts the others
 * itself), so only the position decides here.
 */

/** State of a video at one check. */
export interface Look {
  readonly at_ms: number;
  readonly position_s: number;
  readonly paused: boolean;
  readonly seeking: boolean;
  readonly ended: boolean;
}

/** Shortest standstill that counts as waiting. */
export const NOTICED_MS = 400;

/** A position further ahead of the clock than this, or backwards, is a seek. */
const JUMP_S = 4;

export class Standstill {
  /** Number of stalls after playback has moved since the start or the last seek. */
  stalls = 0;
  #ended_ms = 0;
  #now_ms = 0;
  #position_s: number | null = null;
  /** Start of the current standstill; null while the picture moves or need not. */
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
      // A seek ends a stall; the following wait belongs to the seek.
      if (this.#counted) this.#go();
      this.#moved = false;
    }
    if (this.waits && this.#moved && !this.#counted) {
      this.#counted = true;
      this.stalls += 1;
    }
  }

  /** Whether the viewer waits: for the end of a stall, or for the start after opening or seeking. */
  get waits(): boolean {
    return this.#since_ms !== null && this.#now_ms - this.#since_ms >= NOTICED_MS;
  }

  /** Total duration of stalls, including the current one. */
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
