// Light, dark, or like the system. The style sheet follows `data-theme`; canvases read its colours.

import { signal } from '@preact/signals';
import { recall, remember } from './store';

export type Theme = 'system' | 'light' | 'dark';

export const theme = signal<Theme>(recall<Theme>('theme', 'system'));
/** Grows whenever colours may have changed: what draws on a canvas draws again. */
export const colours = signal(0);

export function apply(): void {
  const root = document.documentElement;
  if (theme.value === 'system') root.removeAttribute('data-theme');
  else root.setAttribute('data-theme', theme.value);
  colours.value++;
}

export function choose(t: Theme): void {
  theme.value = t;
  remember('theme', t);
  apply();
}

export function listen(): void {
  apply();
  matchMedia('(prefers-color-scheme: dark)').addEventListener('change', () => colours.value++);
}

const cache = new Map<string, string>();
let cachedAt = -1;

/** The colour of a token, such as '--text'. */
export function colour(token: string): string {
  if (cachedAt !== colours.peek()) {
    cache.clear();
    cachedAt = colours.peek();
  }
  let c = cache.get(token);
  if (c === undefined) {
    c = getComputedStyle(document.documentElement).getPropertyValue(token).trim();
    cache.set(token, c);
  }
  return c;
}
