import { defineConfig } from 'vite';

// The page of reports: one script, one style sheet, which tools/report.mjs puts into one file.
export default defineConfig({
  mode: 'report',
  base: './',
  esbuild: { jsx: 'automatic', jsxImportSource: 'preact' },
  build: {
    target: 'es2022',
    outDir: 'dist/report',
    modulePreload: false,
    cssCodeSplit: false,
    chunkSizeWarningLimit: 1000,
    rollupOptions: { input: 'report.html', output: { inlineDynamicImports: true } },
  },
  worker: { format: 'es' },
});
