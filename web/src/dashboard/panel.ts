/** The frame of every part of the dashboard. */
import { h } from '../dom';

export function panel(
  area: string,
  title: string,
  aside: HTMLElement | null,
  ...content: HTMLElement[]
): HTMLElement {
  return h(
    'section',
    { class: `panel area-${area}`, 'aria-label': title },
    h('header', {}, h('h3', {}, title), aside),
    ...content,
  );
}
