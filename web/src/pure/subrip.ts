/** `00:01:02,345 --> 00:01:04,5`, and whatever position follows. */
const TIMES = /^\s*(\d+:\d\d:\d\d)[,.](\d{1,3})\s*-->\s*(\d+:\d\d:\d\d)[,.](\d{1,3}).*$/gm;

/** The text of a subtitle file: UTF-8, or what older tools wrote. */
export function subtitleText(bytes: ArrayBuffer): string {
  try {
    return new TextDecoder('utf-8', { fatal: true }).decode(bytes);
  } catch {
    return new TextDecoder('windows-1252').decode(bytes);
  }
}

/** A subtitle file as WebVTT, which browsers show; from SubRip (`.srt`) if it is not yet. */
export function toWebVtt(text: string): string {
  if (text.startsWith('WEBVTT')) return text;
  const time = (clock: string, fraction: string) => `${clock.padStart(8, '0')}.${fraction.padEnd(3, '0')}`;
  const cues = text
    .replace(/\r\n?/g, '\n')
    .replace(TIMES, (_, from: string, fromPart: string, to: string, toPart: string) => {
      return `${time(from, fromPart)} --> ${time(to, toPart)}`;
    })
    // Positions of another format, which some tools leave in the text.
    .replace(/\{\\an?\d+\}/g, '');
  return `WEBVTT\n\n${cues}`;
}
