import { expect, test } from 'vitest';
import { subtitleText, toWebVtt } from '../../src/pure/subrip';

test('subrip becomes webvtt', () => {
  const srt =
    '1\r\n00:00:01,000 --> 00:00:02,5\r\n<i>It is, said</i>\r\n\r\n' +
    '2\r\n1:02:03,004-->1:02:04.000  X1:40 X2:600\r\n{\\an8}Above\r\n';
  expect(toWebVtt(srt)).toBe(
    'WEBVTT\n\n1\n00:00:01.000 --> 00:00:02.500\n<i>It is, said</i>\n\n' +
      '2\n01:02:03.004 --> 01:02:04.000\nAbove\n',
  );
});

test('webvtt stays', () => {
  const vtt = 'WEBVTT\n\n00:01.000 --> 00:02.000\n{\\an8}, 1\n';
  expect(toWebVtt(vtt)).toBe(vtt);
});

test('text is utf-8 without its mark, or of an older encoding', () => {
  const bytes = (...all: number[]) => new Uint8Array(all).buffer;
  expect(subtitleText(bytes(0xef, 0xbb, 0xbf, 0xc3, 0xa9))).toBe('é');
  expect(subtitleText(bytes(0x43, 0xe9))).toBe('Cé');
});
