import { describe, expect, test } from 'vitest';
import { COUNTERS, decodeLibrary, decodeStatus, decodeTitleCount } from '../../src/pure/api';
import { chainsOf, unreadOf } from '../../src/pure/chains';
import { unplayable } from '../../src/pure/container';
import { Folders } from '../../src/pure/folders';
import { bufferAhead, renditionMenu, renditionName, type Rendition } from '../../src/pure/rendition';
import { parseRoute, routeHash } from '../../src/pure/route';
import { matches, quantity, tellApart } from '../../src/pure/search';
import { explain, ofContainer, ofPlainFile } from '../../src/pure/trouble';

describe('routes', () => {
  test('lead to the three pages', () => {
    expect(parseRoute('')).toEqual({ page: 'library', folder: '' });
    expect(parseRoute('#/')).toEqual({ page: 'library', folder: '' });
    expect(parseRoute('#/dashboard')).toEqual({ page: 'dashboard', device: null });
    expect(parseRoute('#/dashboard?wall=1')).toEqual({ page: 'dashboard', device: null });
    expect(parseRoute('#/nowhere')).toEqual({ page: 'unknown', hash: '#/nowhere' });
    expect(parseRoute('#/watch/')).toEqual({ page: 'unknown', hash: '#/watch/' });
  });

  test.each(['plain', 'with/slash', 'a b?c#d%e', 'Žluťoučký kůň', '100%'])(
    'of a title %s lead back to it',
    (id) => expect(parseRoute(routeHash({ page: 'watch', id }))).toEqual({ page: 'watch', id }),
  );

  test.each(['', 'shows', 'A & B/100%/#1?', 'Žluťoučký/kůň'])('of a folder %s lead back to it', (folder) =>
    expect(parseRoute(routeHash({ page: 'library', folder }))).toEqual({ page: 'library', folder }),
  );

  test('with a stray percent sign are used unchanged', () => {
    expect(parseRoute('#/watch/100%')).toEqual({ page: 'watch', id: '100%' });
  });
});

describe('answers of a server', () => {
  test('that are invalid are empty, not exceptions', () => {
    for (const nonsense of [null, 3, 'x', [], {}, { titles: 4, devices: {} }]) {
      expect(decodeLibrary(nonsense)).toEqual([]);
      expect(decodeTitleCount(nonsense)).toBe(0);
      expect(decodeStatus(nonsense).devices).toEqual([]);
    }
  });

  test('with missing fields have zeros and nulls in their place', () => {
    const device = decodeStatus({ devices: [{ name: 'sdb', state: 'melting' }] }).devices[0];
    expect(device).toMatchObject({
      name: 'sdb',
      state: 'online',
      capacity_bytes: null,
      queue: { jobs: 0, head_physical_bytes: null, positions_bytes: [] },
      chains: { live: 0, shown: [] },
    });
    for (const name of COUNTERS) expect(device?.counters[name]).toBe(0);
  });

  test('of a disk of unknown size do not report 0 bytes', () => {
    const sizes = [0, 4e12, undefined].map(
      (capacity_bytes) => decodeStatus({ devices: [{ capacity_bytes }] }).devices[0]?.capacity_bytes,
    );
    expect(sizes).toEqual([null, 4e12, null]);
  });

  test('give the uptime by a monotonic clock, or by the time of day, never below zero', () => {
    const clock = { started_unix_ms: 5000, now_unix_ms: 7000 };
    expect(decodeStatus({ ...clock, uptime_ms: 90_000 }).uptime_ms).toBe(90_000);
    expect(decodeStatus(clock).uptime_ms).toBe(2000);
    expect(decodeStatus({ ...clock, now_unix_ms: 4000 }).uptime_ms).toBe(0);
  });

  test('of a device without flash have none, and an unknown SSD state is not healthy', () => {
    expect(decodeStatus({ devices: [{}] }).devices[0]?.flash).toBeNull();
    const given = { capacity_bytes: 5, ssds: [{ path: '/dev/x', state: 'melting' }, { state: 'slow' }] };
    const flash = decodeStatus({ devices: [{ flash: given }] }).devices[0]?.flash;
    expect(flash).toMatchObject({ is_recovering: false, capacity_bytes: 5, budget_bytes: 0 });
    expect(flash?.ssds.map((ssd) => ssd.state)).toEqual(['offline', 'slow']);
  });

  test('without a budget use the sum of the classes of memory', () => {
    const memory = { free_bytes: 1, filling_bytes: 2, sending_bytes: 3, unread_bytes: 4, read_bytes: 5 };
    expect(decodeStatus({ devices: [{ memory }] }).devices[0]?.memory.budget).toBe(15);
  });

  test('name titles by their path if nothing else names them', () => {
    expect(decodeLibrary({ titles: [{ path: '/a.mp4', kind: 'vhs' }] })).toEqual([
      { id: '/a.mp4', name: '/a.mp4', kind: 'file', path: '/a.mp4', duration_s: null,
        bit_rates_bps: [], bytes: null, poster: null, texts: [], packaged: false, odd: null },
    ]);
  });
});

describe('chains of a title', () => {
  const device = (paths: string[], live = paths.length) => {
    const shown = paths.map((path) => ({ path }));
    const [decoded] = decodeStatus({ devices: [{ chains: { live, shown } }] }).devices;
    if (decoded === undefined) throw new Error('the status has a device');
    return decoded;
  };
  const paths = (path: string, ...devices: ReturnType<typeof device>[]) =>
    chainsOf(path, devices)?.map((chain) => chain.path);

  test('are those of its path only', () => {
    const shown = device(['/a%20b.mpd', '/b.m3u8', '/c/d.mp4', '/a%20b.mpd']);
    expect(paths('/a%20b.mpd', shown)).toEqual(['/a%20b.mpd', '/a%20b.mpd']);
    expect(paths('/b.m3u8', shown, device(['/b.m3u8']))).toEqual(['/b.m3u8', '/b.m3u8']);
  });

  test('share their unread memory, which is not added up', () => {
    const unread = (...amounts: number[]) => unreadOf(amounts.map((unread_bytes) => ({ unread_bytes })));
    expect(unread(5 * 1024 ** 2)).toBe('5.00\u00a0MiB');
    expect(unread(5 * 1024 ** 2, 3 * 1024 ** 2)).toBe('5.00\u00a0MiB ahead of one chain, at most');
  });

  test('are none if all are shown, and unknown if not all are', () => {
    expect(paths('/e.mp4', device(['/b.m3u8']), device([]))).toEqual([]);
    expect(paths('/e.mp4', device(['/b.m3u8'], 2))).toBeUndefined();
    expect(paths('/b.m3u8', device(['/b.m3u8'], 2))).toEqual(['/b.m3u8']);
  });
});

describe('a search', () => {
  const title = { name: 'Žluťoučký Kůň', path: '/animals/horse%20and%20%C3%B6l.mp4' };
  test('finds every word in any case, accent and order', () => {
    for (const query of ['', '  ', 'kun', 'KŮŇ žlu', 'horse kun', 'animals/', 'öl and']) {
      expect(matches(title, query)).toBe(true);
    }
    expect(matches(title, 'kun cow')).toBe(false);
  });

  test('says how many of the titles it covers', () => {
    expect(quantity(1, 1)).toBe('1 title');
    expect(quantity(300, 0)).toBe('300 titles');
    expect(quantity(300, 4000)).toBe('the first 300 of 4000 titles');
  });
});

test('titles of one name differ by their folders, extensions or paths', () => {
  const title = (id: string, name: string, path: string) => ({ id, name, path });
  const marks = tellApart([
    title('1', 'film', '/a/film.mp4'),
    title('2', 'film', '/a/film.WebM'),
    title('3', 'other', '/other.mp4'),
    title('4', 'twice', '/a%20b/twice.mp4'),
    title('5', 'twice', '/c/d/twice.mp4'),
    title('6', 'both', '/a/both.mp4'),
    title('7', 'both', '/a/both.mkv'),
    title('8', 'both', '/c/both.mkv'),
  ]);
  expect([...marks]).toEqual([
    ['1', '.mp4'],
    ['2', '.webm'],
    ['4', 'a b'],
    ['5', 'c / d'],
    ['6', 'a/both.mp4'],
    ['7', 'a/both.mkv'],
    ['8', 'c/both.mkv'],
  ]);
  const seasons = [title('1', 'S01E01', '/shows/A/S1/S01E01.mp4'), title('2', 'S01E01', '/shows/B/S01E01.mp4')];
  expect([...tellApart(seasons, 'shows')]).toEqual([
    ['1', 'A / S1'],
    ['2', 'B'],
  ]);
});

describe('folders', () => {
  const library = (...paths: string[]) =>
    decodeLibrary({ titles: paths.map((path) => ({ path, poster: path.startsWith('/films/') ? '/films/poster.jpg' : null })) });
  const shown = (folders: Folders, path: string) => {
    const content = folders.content(path);
    return [
      ...content.folders.map((folder) => `${folder.name}/ ${folder.count}`),
      ...content.titles.map((title) => title.path),
    ];
  };

  test('of one title are that title', () => {
    const folders = new Folders(
      library('/films/One/master.m3u8', '/films/Two/hls/master.m3u8', '/three/a.mp4', '/b%20c.mp4'),
    );
    expect(shown(folders, '')).toEqual(['films/ 2', '/three/a.mp4', '/b%20c.mp4']);
    expect(shown(folders, 'films')).toEqual(['/films/One/master.m3u8', '/films/Two/hls/master.m3u8']);
    expect(['films/Two/hls', 'three', 'films'].map((path) => folders.nearest(path))).toEqual(['films', '', 'films']);
    expect([folders.has('films'), folders.has('films/One'), folders.has('none')]).toEqual([true, false, false]);
    expect(shown(folders, 'none')).toEqual([]);
  });

  test('that show only one folder are passed', () => {
    const paths = ['/media/shows/A/S1/1.mp4', '/media/shows/A/S1/2.mp4', '/media/films/1.mp4', '/media/films/2.mp4'];
    const folders = new Folders(library(...paths));
    expect(shown(folders, '')).toEqual(['shows/A/S1/ 2', 'films/ 2']);
    expect(folders.content('').folders.map((folder) => folder.path)).toEqual(['media/shows/A/S1', 'media/films']);
    expect(shown(folders, 'media')).toEqual(['shows/A/S1/ 2', 'films/ 2']);
    expect(folders.count('')).toBe(4);
  });

  test('have the picture that their titles share, which belongs to no title', () => {
    const titles = library('/films/1.mp4', '/films/2.mp4', '/a.mp4');
    const folders = new Folders(titles);
    expect(folders.titles.map((title) => title.poster)).toEqual([null, null, null]);
    expect(folders.content('films').titles.map((title) => title.poster)).toEqual([null, null]);
    expect(folders.content('').folders[0]?.poster).toBe('/films/poster.jpg');
    expect(new Folders(library('/films/1.mp4')).content('').titles[0]?.poster).toBe('/films/poster.jpg');
  });
});

test('containers that no browser plays are known before playing', () => {
  const kinds = ['/a.avi', '/A.MPG', '/a.mp4', '/a.mkv', '/a', '/avi'].map((path) => unplayable({ kind: 'file', path }));
  expect(kinds).toEqual(['AVI', 'MPEG', null, null, null, null]);
  expect(unplayable({ kind: 'hls', path: '/a.avi' })).toBeNull();
  const { what, remedy } = ofContainer('AVI', 'film', 'a b/film.avi');
  expect(what).toBe('Browsers do not play AVI files, and “film” is one.');
  expect(remedy).toContain('ffmpeg -i "film.avi" film.mp4');
});

describe('renditions', () => {
  const one = (id: number, height: number | null, bandwidth: number, more = {}): Rendition => ({
    id, height, width: null, bandwidth, language: 'en', active: false, ...more,
  });

  test('are named by height and bit rate, or the known one of them', () => {
    expect(renditionName(one(1, 720, 2_305_600))).toBe('720p · 2.31\u00a0Mbit/s');
    expect(renditionName(one(1, null, 96_000))).toBe('96.0\u00a0kbit/s');
    expect(renditionName(one(1, null, 0))).toBe('original');
  });

  test('are listed best first, one for each picture, in the current language', () => {
    const menu = renditionMenu([
      one(1, 240, 4e5, { language: 'de' }),
      one(2, 720, 2e6, { language: 'de' }),
      one(3, 240, 4e5),
      one(4, 720, 2e6, { active: true }),
      one(5, 720, 3e6),
    ]);
    expect(menu.map((entry) => entry.id)).toEqual([5, 4, 3]);
  });
});

describe('the buffer ahead', () => {
  test('includes small gaps, and ends at large ones', () => {
    expect(bufferAhead([[0, 10]], 4)).toBe(6);
    expect(bufferAhead([[0, 10], [10.1, 20]], 4)).toBe(16);
    expect(bufferAhead([[0, 10], [12, 20]], 4)).toBe(6);
    expect(bufferAhead([[5, 10]], 2)).toBe(0);
    expect(bufferAhead([], 2)).toBe(0);
  });
});

describe('an error of playback', () => {
  const uri = 'http://box:8080/a%20b/v0_003.m4s?CMCD=sid';
  test('names the file and the remedy', () => {
    expect(explain({ code: 1001, data: [uri, 404] }, 'A', 'box:8080')?.what).toContain('/a b/v0_003.m4s');
    expect(explain({ code: 1001, data: [uri, 503] }, 'A', 'box:8080')?.remedy).toContain('again');
    expect(explain({ code: 1002, data: [uri] }, 'A', 'box:8080')?.what).toContain('box:8080');
    expect(explain({ code: 3016, data: [4] }, 'A film', 'box')?.what).toContain('A film');
    expect(explain({ code: 4000 }, 'A film', 'box')?.what).toContain('playlist');
  });

  test('is explained by the server remark about the file, if that is the cause', () => {
    const odd = 'it is not an MP4 file: it does not consist of boxes; it is served as a plain file';
    const [title] = decodeLibrary({ titles: [{ path: '/notes.mp4', odd }] });
    for (const code of [3016, 4032, 3000, 4000]) {
      const trouble = explain({ code, data: [4] }, 'notes', 'box', title?.odd);
      expect(trouble?.what).toContain('it is not an MP4 file');
      expect(trouble?.remedy).not.toContain('H.264');
    }
    expect(explain({ code: 1002, data: [uri] }, 'notes', 'box', odd)?.what).toContain('No answer');
    expect(explain({ code: 7000 }, 'notes', 'box', odd)).toBeNull();
    expect(explain({ code: 3016 }, 'A film', 'box', null)?.remedy).toContain('H.264');
  });

  test('of a plain file reports the answer of the server before the browser error', () => {
    const failed = { code: 3016, data: [4] };
    expect(explain(ofPlainFile(failed, uri, 404), 'A', 'box')?.what).toContain('/a b/v0_003.m4s is no longer on');
    expect(explain(ofPlainFile(failed, uri, 403), 'A', 'box')?.what).toContain('(403)');
    expect(explain(ofPlainFile(failed, uri, 503), 'A', 'box')?.what).toContain('another viewer');
    expect(explain(ofPlainFile(failed, uri, 'silence'), 'A', 'box')?.what).toContain('No answer');
    expect(explain(ofPlainFile(failed, uri, 200), 'A', 'box')?.remedy).toContain('H.264');
    expect(ofPlainFile(failed, uri, 'unreadable')).toBe(failed);
    const brokeOff = { code: 3016, data: [2] };
    expect(explain(ofPlainFile(brokeOff, uri, 200), 'A', 'box')?.what).toContain('No answer');
    expect(ofPlainFile({ code: 7000 }, uri, 404)).toEqual({ code: 7000 });
  });

  test('is reported for every code, with a remedy, and without the query', () => {
    for (let code = 0; code < 10_000; code += 1) {
      const trouble = explain({ code, data: [uri, 500] }, 'A', 'box');
      if (trouble === null) expect([7000, 7003]).toContain(code);
      else {
        expect(trouble.remedy.length).toBeGreaterThan(10);
        expect(trouble.what).not.toContain('CMCD');
      }
    }
  });
});
