import { describe, expect, test } from 'vitest';
import { mediaBase, mediaUrl } from '../../src/pure/media_base';

describe('the media address', () => {
  test.each([
    [['http://0.0.0.0:8080'], 'box.lan', 'http://box.lan:8080/'],
    [['http://[::]:8080'], 'box.lan', 'http://box.lan:8080/'],
    [['http://127.0.0.1:8080'], 'box.lan', 'http://box.lan:8080/'],
    [['http://127.0.0.1:8080'], 'localhost', 'http://localhost:8080/'],
    [['http://[::1]:8080'], '[fe80::1]', 'http://[fe80::1]:8080/'],
    [['http://localhost:8080'], '192.168.1.5', 'http://192.168.1.5:8080/'],
    [['https://0.0.0.0:443'], 'tv.example', 'https://tv.example/'],
    [['http://192.168.1.5:8080'], 'localhost', 'http://192.168.1.5:8080/'],
    [['http://video.example:8080', 'http://0.0.0.0:1'], 'x', 'http://video.example:8080/'],
  ])('%j seen from %s is %s', (addresses, hostname, base) => {
    expect(mediaBase(addresses, hostname)?.href).toBe(base);
  });

  test('is unknown without an address usable by a browser', () => {
    expect(mediaBase([], 'box')).toBeNull();
    expect(mediaBase(['nonsense', 'unix:/run/x.sock'], 'box')).toBeNull();
    expect(mediaBase(['nonsense', 'http://0.0.0.0:8080'], 'box')?.href).toBe('http://box:8080/');
  });
});

describe('the URL of a path', () => {
  const base = new URL('http://box:8080');
  test.each([
    ['/movie/master.m3u8', 'http://box:8080/movie/master.m3u8'],
    ['movie/a.mp4', 'http://box:8080/movie/a.mp4'],
    ['/a%20b/c.mp4', 'http://box:8080/a%20b/c.mp4'],
    ['/a b/ü.mp4', 'http://box:8080/a%20b/%C3%BC.mp4'],
    ['/100%/a?b#c.mp4', 'http://box:8080/100%25/a%3Fb%23c.mp4'],
    ['//films.example/a?b.mp4', 'http://films.example:8080/a%3Fb.mp4'],
    ['///evil.example/a.mp4', 'http://box:8080/evil.example/a.mp4'],
    ['//films.example//evil.example/a.mp4', 'http://films.example:8080/evil.example/a.mp4'],
    ['/\\evil.example/a.mp4', 'http://box:8080/%5Cevil.example/a.mp4'],
  ])('of %s is %s', (path, url) => expect(mediaUrl(base, path)).toBe(url));
});
