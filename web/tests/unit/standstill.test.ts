import { describe, expect, test } from 'vitest';
import { Standstill, type Look } from '../../src/pure/standstill';

/** Checks four times a second; each entry is a position, or another observation there. */
function watched(seen: readonly (number | Partial<Look>)[], every_ms = 250): Standstill {
  const still = new Standstill();
  let position_s = 0;
  seen.forEach((one, index) => {
    const more = typeof one === 'number' ? { position_s: one } : one;
    position_s = more.position_s ?? position_s;
    still.look({ at_ms: index * every_ms, paused: false, seeking: false, ended: false, position_s, ...more });
  });
  return still;
}

const moving = [0.1, 0.35, 0.6, 0.85];
const standing = [0.85, 0.85, 0.85, 0.85];

describe('a picture that does not move', () => {
  test('after movement is one stall, whose duration grows while it lasts', () => {
    const still = watched([...moving, ...standing, ...standing]);
    expect(still.waits).toBe(true);
    expect(still.stalls).toBe(1);
    expect(still.stalled_ms).toBe(7 * 250);
  });

  test('and moves again ends the stall; the next one counts again', () => {
    const once = watched([...moving, ...standing, 1.1, 1.35]);
    expect(once.waits).toBe(false);
    expect([once.stalls, once.stalled_ms]).toEqual([1, 750 + 250]);
    const twice = watched([...moving, ...standing, 1.1, 1.1, 1.1, 1.1, 1.35]);
    expect(twice.stalls).toBe(2);
  });

  test('for a moment is not a stall', () => {
    expect(watched([...moving, 0.85, 1.1, 1.35])).toMatchObject({ stalls: 0, waits: false });
  });

  test('before the first movement is the wait for the start', () => {
    expect(watched([0, 0, 0, 0, 0])).toMatchObject({ stalls: 0, waits: true, stalled_ms: 0 });
  });

  test('after a seek is the wait of the seek, even if no check saw it seeking', () => {
    const seeking = { position_s: 60, seeking: true };
    const still = watched([...moving, seeking, seeking, seeking, 60, 60, 60]);
    expect(still).toMatchObject({ stalls: 0, waits: true });
    expect(watched([...moving, 60, 60, 60, 60]).stalls).toBe(0);
    expect(watched([...moving, 0.1, 0.1, 0.1, 0.1]).stalls).toBe(0);
    expect(watched([...moving, seeking, 60, 60.25, 60.25, 60.25, 60.25]).stalls).toBe(1);
  });

  test('while paused or at the end is not a wait', () => {
    const paused = { paused: true };
    expect(watched([...moving, paused, paused, paused, paused])).toMatchObject({ stalls: 0, waits: false });
    const ended = { ended: true };
    expect(watched([...moving, ended, ended, ended])).toMatchObject({ stalls: 0, waits: false });
  });

  test('is not a stall of hours when the page slept meanwhile', () => {
    const still = new Standstill();
    const look = (at_ms: number, position_s: number) =>
      still.look({ at_ms, position_s, paused: false, seeking: false, ended: false });
    look(0, 1);
    look(250, 1.25);
    look(9_000_000, 1.25);
    look(9_000_250, 1.5);
    expect(still).toMatchObject({ stalls: 0, stalled_ms: 0 });
  });

  test('is not a seek when a background page checks once a minute', () => {
    expect(watched([0.1, 60, 120, 180], 60_000)).toMatchObject({ stalls: 0, waits: false });
  });

  test('ends a stall by a seek', () => {
    const still = watched([...moving, ...standing, { position_s: 30, seeking: true }, 30, 30, 30, 30]);
    expect(still.stalls).toBe(1);
    expect(still.stalled_ms).toBe(1000);
  });
});
