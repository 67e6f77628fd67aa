/** Chains of one title, among those that the server lists. */
import type { Device, Viewer } from './api';
import { bytes, text } from './format';

/**
 * Chains of the title with this path, on all devices. A server lists only some of many: if none
 * belongs to this title and the list is incomplete, the result is null.
 */
export function chainsOf(path: string, devices: readonly Pick<Device, 'chains'>[]): Viewer[] | null {
  const own = devices.flatMap(({ chains }) => chains.shown.filter((chain) => chain.path === path));
  const areAll = devices.every(({ chains }) => chains.shown.length >= chains.live);
  return own.length > 0 || areAll ? own : null;
}

/**
 * Unread memory of chains of one title, in words. They share its pieces, so their amounts cannot be
 * added.
 */
export function unreadOf(chains: readonly Pick<Viewer, 'unread_bytes'>[]): string {
  const most = text(bytes(Math.max(0, ...chains.map((chain) => chain.unread_bytes))));
  return chains.length > 1 ? `${most} ahead of one chain, at most` : most;
}
