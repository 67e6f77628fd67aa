/** Chains of one title, among those that the server shows. */
import type { Device, Viewer } from './api';

/**
 * Chains of the title with this path, on all devices. A server shows only some of many: if none is
 * of this title, and not all are shown, nobody knows, and this is null.
 */
export function chainsOf(path: string, devices: readonly Pick<Device, 'chains'>[]): Viewer[] | null {
  const own = devices.flatMap(({ chains }) => chains.shown.filter((chain) => chain.path === path));
  const areAll = devices.every(({ chains }) => chains.shown.length >= chains.live);
  return own.length > 0 || areAll ? own : null;
}
