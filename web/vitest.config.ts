import { defineConfig } from 'vitest/config';

// A machine that does much else is slow, and no reason for a test to fail.
export default defineConfig({
  test: { include: ['tests/unit/**/*.test.ts'], testTimeout: 60_000 },
});
