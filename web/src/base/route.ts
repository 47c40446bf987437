// The address is the state: what a page shows can be sent to somebody. Pages read `query`, change it
// with `setQuery`, and are told apart by `matchRoute`.

import { signal } from '@preact/signals';
import { REPORT } from './mode';

export interface Place {
  path: string;
  query: URLSearchParams;
  hash: string;
}

/** A report is one file: there the address is what stands behind its `#`. */
const base = (): string => (REPORT ? 'http://report/' : location.href);

function here(): Place {
  if (typeof location === 'undefined') return { path: '/', query: new URLSearchParams(), hash: '' };
  const at = REPORT ? new URL(location.hash.slice(1) || '/', base()) : location;
  return { path: at.pathname, query: new URLSearchParams(at.search), hash: at.hash };
}

export const place = signal<Place>(here());

export function go(url: string, how: { replace?: boolean } = {}): void {
  const to = REPORT ? `#${url}` : url;
  const before = place.value.path;
  if (how.replace) history.replaceState(null, '', to);
  else history.pushState(null, '', to);
  place.value = here();
  const samePath = place.value.path === before;
  if (!samePath) window.scrollTo(0, 0);
}

/** Changes some members of the query; null and '' remove one. The rest stays. */
export function setQuery(
  changes: Record<string, string | number | boolean | null | undefined>,
  how: { replace?: boolean } = { replace: true },
): void {
  const q = new URLSearchParams(place.value.query);
  for (const [k, v] of Object.entries(changes)) {
    if (v === null || v === undefined || v === '' || v === false) q.delete(k);
    else q.set(k, v === true ? '1' : String(v));
  }
  go(url(place.value.path, q) + place.value.hash, how);
}

/** A path with a query, readable: what needn't be escaped in a query isn't. */
export function url(
  path: string,
  query?: URLSearchParams | Record<string, string | number | boolean | null | undefined>,
): string {
  const q = query instanceof URLSearchParams ? query : new URLSearchParams();
  if (query && !(query instanceof URLSearchParams))
    for (const [k, v] of Object.entries(query))
      if (v !== null && v !== undefined && v !== '' && v !== false)
        q.set(k, v === true ? '1' : String(v));
  const text = q
    .toString()
    .replace(/%2C/g, ',')
    .replace(/%3A/g, ':')
    .replace(/%2F/g, '/')
    .replace(/%3D/g, '=');
  return text ? `${path}?${text}` : path;
}

/** Matches '/runs/{run}/tasks/{task}'; the last part takes what is left with its slashes. */
export function matchRoute(pattern: string, path: string): Record<string, string> | null {
  const parts = (s: string) => s.replace(/^\//, '').replace(/\/$/, '').split('/');
  const want = parts(pattern);
  const have = parts(path);
  const found: Record<string, string> = {};
  if (have.length < want.length) return null;
  for (let i = 0; i < want.length; i++) {
    const w = want[i] ?? '';
    const last = i === want.length - 1;
    if (w.startsWith('{')) {
      const text = last ? have.slice(i).join('/') : (have[i] ?? '');
      if (!text) return null;
      try {
        found[w.slice(1, -1)] = decodeURIComponent(text);
      } catch {
        return null;
      }
    } else if (w !== have[i] || (last && have.length > want.length)) {
      return null;
    }
  }
  return found;
}

/** A name in a path: slashes and brackets of tasks stay readable. */
export const part = (s: string) =>
  encodeURIComponent(s)
    .replace(/%2F/g, '/')
    .replace(/%3A/g, ':')
    .replace(/%3D/g, '=')
    .replace(/%2C/g, ',');

/** Links within the site change the page without loading it; all else is the browser's. */
export function listen(): void {
  addEventListener('popstate', () => {
    place.value = here();
  });
  document.addEventListener('click', (e) => {
    if (e.defaultPrevented || e.button !== 0 || e.metaKey || e.ctrlKey || e.shiftKey || e.altKey)
      return;
    const a = (e.target as Element | null)?.closest?.('a');
    if (!a || a.target || a.hasAttribute('download') || !a.hasAttribute('href')) return;
    const to = new URL(REPORT ? (a.getAttribute('href') ?? '') : a.href, base());
    if (to.origin !== new URL(base()).origin) return;
    if (!REPORT && /^\/(api|view|assets|metrics)\b/.test(to.pathname)) return;
    if (!REPORT && to.pathname === location.pathname && to.search === location.search && to.hash)
      return;
    e.preventDefault();
    go(to.pathname + to.search + to.hash);
  });
}
