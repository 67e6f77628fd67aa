/**
 * Messages for playback errors: the failed object and the remedy. Codes are those of Shaka Player
 * (`shaka.util.Error.Code`).
 */

export interface Trouble {
  /** The failure, with the name of the object. */
  readonly what: string;
  /** The remedy. */
  readonly remedy: string;
}

export interface PlayerError {
  readonly code: number;
  readonly data?: readonly unknown[];
}

const BAD_HTTP_STATUS = 1001;
const HTTP_ERROR = 1002;
const TIMEOUT = 1003;
const VIDEO_ERROR = 3016;
const CONTENT_UNSUPPORTED = 4032;
/** Loading was interrupted by another load or by leaving the page: not reported. */
const SILENT = new Set([7000, 7003]);

function fileName(uri: unknown): string {
  if (typeof uri !== 'string' || uri === '') return 'a file';
  const path = URL.canParse(uri) ? new URL(uri).pathname : uri;
  try {
    return decodeURIComponent(path);
  } catch {
    return path;
  }
}

function httpTrouble(file: string, status: unknown): Trouble {
  switch (status) {
    case 404:
    case 410:
      return {
        what: `${file} is no longer on the server (${status}).`,
        remedy: 'Put the file back, or correct the playlist that names it, and try again.',
      };
    case 401:
    case 403:
      return {
        what: `The server refuses ${file} (${status}).`,
        remedy:
          'Make the file readable for the server, inside one of its folders, or open its path to viewers (access in the configuration), and try again.',
      };
    case 503:
      return {
        what: `The disk cannot serve another viewer now, or is out of service (503 for ${file}).`,
        remedy: 'Try again in a few seconds; the dashboard shows the load of the disk.',
      };
    default:
      return {
        what: `The server answered ${String(status)} for ${file}.`,
        remedy: "See the server's log for the reason; fix it and try again.",
      };
  }
}

/** Codes of the browser's own MediaError, the first datum of VIDEO_ERROR. */
const MEDIA_ERR_NETWORK = 2;

/** The server's answer: a status, silence, or an answer that this page may not read. */
export type Answer = number | 'silence' | 'unreadable';

/**
 * A plain file is fetched by the browser, which reports every failed fetch as an unplayable file.
 * `asked` is the server's answer when the file was requested again.
 */
export function ofPlainFile(error: PlayerError, uri: string, asked: Answer): PlayerError {
  if (error.code !== VIDEO_ERROR) return error;
  if (asked === 'silence') return { code: HTTP_ERROR, data: [uri] };
  if (asked !== 'unreadable' && asked >= 400) return { code: BAD_HTTP_STATUS, data: [uri, asked] };
  // The server answers now, so the earlier fetch was interrupted.
  if (error.data?.[0] === MEDIA_ERR_NETWORK) return { code: HTTP_ERROR, data: [uri] };
  return error;
}

/** The message for a file whose container no browser plays, known before it is loaded. */
export function ofContainer(container: string, title: string, path: string): Trouble {
  const file = path.split('/').pop() ?? path;
  return {
    what: `Browsers do not play ${container} files, and “${title}” is one.`,
    remedy: `Open it in a player such as VLC or mpv, or offer it as MP4 (ffmpeg -i ${JSON.stringify(file)} film.mp4).`,
  };
}

/** Whether the fetched media is the cause, rather than the network. */
function isOfMedia(code: number): boolean {
  return code >= 2000 && code < 5000;
}

/**
 * The message for an error, or null if there is nothing to report. The server's remark about a
 * defective title explains more than the browser's error.
 */
export function explain(
  error: PlayerError,
  title: string,
  base: string,
  odd: string | null = null,
): Trouble | null {
  const { code, data = [] } = error;
  if (SILENT.has(code)) return null;
  if (odd !== null && isOfMedia(code)) {
    return {
      what: `“${title}” cannot be played. The server reports: ${odd}.`,
      remedy: 'Replace or repair the file, and try again.',
    };
  }
  const file = fileName(data[0]);
  if (code === BAD_HTTP_STATUS) return httpTrouble(file, data[1]);
  if (code === HTTP_ERROR) {
    return {
      what: `No answer from the media address ${base} for ${file}.`,
      remedy: base.startsWith('https:')
        ? 'Open that address in another tab. If the browser warns about the certificate, set media_url to a name in the certificate; otherwise check that this machine can reach that address and port (firewall, tunnel).'
        : 'Check that this machine can reach that address and port (firewall, tunnel), and try again.',
    };
  }
  if (code === TIMEOUT) {
    return {
      what: `${file} did not arrive in time.`,
      remedy: 'The disk or the network is too slow now; try again, or choose a lower rendition.',
    };
  }
  if (code === VIDEO_ERROR || code === CONTENT_UNSUPPORTED || (code >= 4011 && code <= 4013)) {
    return {
      what: `This browser cannot decode “${title}”.`,
      remedy: 'Offer it in H.264 and AAC (ffmpeg -c:v libx264 -c:a aac), or use a browser with its codecs.',
    };
  }
  if (code >= 4000 && code < 5000) {
    return {
      what: `The playlist of “${title}” cannot be parsed (player error ${code}).`,
      remedy: 'Check the manifest with a validator; the server’s log names the error.',
    };
  }
  if (code >= 2000 && code < 4000) {
    return {
      what: `The media of “${title}” is damaged or of an unknown kind (player error ${code}).`,
      remedy: 'Check the file with ffprobe, and repackage it if necessary.',
    };
  }
  if (code >= 6000 && code < 7000) {
    return {
      what: `“${title}” is encrypted, and this player has no key for it (player error ${code}).`,
      remedy: 'Play it with a player that knows its licence server.',
    };
  }
  return {
    what: `Playback of “${title}” stopped (player error ${code}).`,
    remedy: 'Try again; if it persists, report the number to the operator of this server.',
  };
}
