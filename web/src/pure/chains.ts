/** Chains of one title, among those that the server lists. */
import type { Device, Viewer } from './api';

/**
 * Chains of the title with this path, on all devices. A server lists only some of many: if none
 * belongs to this title and the list is incomplete, the result is null.
 */
export function chainsOf(path: string, devices: readonly Pick<Device, 'chains'>[]): Viewer[] | null {
  const own = devices.flatMap(({ chains }) => chains.shown.filter((chain) => chain.path === path));
  const areAll = devices.every(({ chains }) => chains.shown.length >= chains.live);
  return own.length > 0 || areAll ? own : null;
}
