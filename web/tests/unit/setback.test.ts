import { expect, test } from 'vitest';
import { mayPass, outcome, resumeFrom } from '../../src/pure/setback';

test('only network failures with buffered media may be temporary', () => {
  for (const code of [1001, 1002, 1003]) {
    expect(mayPass({ code }, 25)).toBe(true);
    expect(mayPass({ code }, 0.5)).toBe(false);
  }
  expect(mayPass({ code: 3016 }, 25)).toBe(false);
  expect(mayPass({ code: 4000 }, 25)).toBe(false);
});

test('an error lasts until new media arrives, and ends playback without buffer', () => {
  const at = (position_s: number, ahead_s: number, duration_s = 120) =>
    outcome(85, { position_s, ahead_s, duration_s });
  expect(at(60, 25)).toBe('lasts');
  expect(at(70, 15)).toBe('lasts');
  expect(at(84.5, 0.5)).toBe('over');
  expect(at(70, 19)).toBe('passed');
  expect(at(84.5, 0.5, 85)).toBe('passed');
});

test('a retry resumes at the current position, or at the intended start', () => {
  expect(resumeFrom(60.5, null)).toBe(60.5);
  expect(resumeFrom(0, 60.5)).toBe(60.5);
  expect(resumeFrom(0, null)).toBeNull();
});
