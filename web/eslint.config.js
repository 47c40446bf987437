import js from '@eslint/js';
import tseslint from 'typescript-eslint';

export default tseslint.config(
  { ignores: ['dist', 'node_modules', 'src/api/generated.ts'] },
  js.configs.recommended,
  ...tseslint.configs.recommended,
  {
    files: ['src/**/*.{ts,tsx}'],
    rules: {
      eqeqeq: 'error',
      'no-control-regex': 'off', // escape sequences are what a log's parser looks for
      'no-restricted-properties': [
        'error',
        { property: 'innerHTML', message: 'Text of others never becomes markup.' },
        { property: 'outerHTML', message: 'Text of others never becomes markup.' },
        { property: 'insertAdjacentHTML', message: 'Text of others never becomes markup.' },
      ],
      'no-restricted-syntax': [
        'error',
        {
          selector: 'JSXAttribute[name.name="dangerouslySetInnerHTML"]',
          message: 'Text of others never becomes markup.',
        },
      ],
      'no-eval': 'error',
    },
  },
  {
    files: ['tools/**/*.mjs', '*.js'],
    languageOptions: {
      globals: {
        process: 'readonly',
        console: 'readonly',
        fetch: 'readonly',
        URL: 'readonly',
        Buffer: 'readonly',
        setTimeout: 'readonly',
        performance: 'readonly',
        document: 'readonly',
        window: 'readonly',
        location: 'readonly',
        PerformanceObserver: 'readonly',
        getComputedStyle: 'readonly',
        sessionStorage: 'readonly',
      },
    },
  },
);
