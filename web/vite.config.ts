import { defineConfig } from 'vitest/config';

// Everything that a page loads comes from the server that sent it: no inlined assets (CSP), names
// by content (immutable), one chunk a page.
export default defineConfig({
  base: '/',
  esbuild: { jsx: 'automatic', jsxImportSource: 'preact' },
  build: {
    target: 'es2022',
    outDir: 'dist',
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    sourcemap: false,
    reportCompressedSize: true,
    chunkSizeWarningLimit: 250,
  },
  worker: { format: 'es' },
  server: {
    proxy: {
      '/api': process.env.CAIRN_SERVER ?? 'http://127.0.0.1:8080',
      '/view': process.env.CAIRN_SERVER ?? 'http://127.0.0.1:8080',
    },
  },
  test: { include: ['tests/**/*.test.ts'], environment: 'node' },
});
