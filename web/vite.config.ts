/// All output is in dist/ with relative addresses, so that the server can embed the folder and
/// serve it under any prefix. Nothing is inlined as data: URLs, which permits a strict content
/// security policy.
import { defineConfig } from 'vite';

export default defineConfig({
  base: './',
  build: {
    target: ['chrome123', 'firefox121', 'safari17.5'],
    assetsInlineLimit: 0,
    chunkSizeWarningLimit: 800,
    modulePreload: { polyfill: false },
  },
  // `npm run dev` against a running server: HEADLONG_PAGE=http://127.0.0.1:8081 npm run dev
  server: {
    proxy: Object.fromEntries(
      ['/status', '/library.json'].map((path) => [
        path,
        process.env['HEADLONG_PAGE'] ?? 'http://127.0.0.1:8081',
      ]),
    ),
  },
});
