/** The name of a language (BCP 47) for people, or the tag itself where nobody knows one. */
export function languageName(tag: string | null, shownIn: string): string {
  if (tag === null) return 'Subtitles';
  try {
    return new Intl.DisplayNames([shownIn], { type: 'language' }).of(tag) ?? tag;
  } catch {
    return tag;
  }
}
