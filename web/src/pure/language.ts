/** The display name of a language (BCP 47), or the tag itself if it has none. */
export function languageName(tag: string | null, shownIn: string): string {
  if (tag === null) return 'Subtitles';
  try {
    return new Intl.DisplayNames([shownIn], { type: 'language' }).of(tag) ?? tag;
  } catch {
    return tag;
  }
}
