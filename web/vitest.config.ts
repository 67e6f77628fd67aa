import { defineConfig } from 'vitest/config';

// A busy machine is slow, which must not fail a test.
export default defineConfig({
  test: { include: ['tests/unit/**/*.test.ts'], testTimeout: 60_000 },
});
