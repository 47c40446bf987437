// The address is the state: what a page shows can be sent to somebody. Pages read `query`, change it
// with `setQuery`, and are told apart by `matchRoute`.

import { signal } from '@preact/signals';

export interface Place {
  path: string;
  query: URLSearchParams;
  hash: string;
}

const here = (): Place =>
  typeof location === 'undefined'
    ? { path: '/', query: new URLSearchParams(), hash: '' }
    : { path: location.pathname, query: new URLSearchParams(location.search), hash: location.hash };

export const place = signal<Place>(here());

export function go(url: string, how: { replace?: boolean } = {}): void {
  const samePath = new URL(url, location.href).pathname === location.pathname;
  if (how.replace) history.replaceState(null, '', url);
  else history.pushState(null, '', url);
  place.value = here();
  if (!samePath) window.scrollTo(0, 0);
}

/** Changes some members of the query; null and '' remove one. The rest stays. */
export function setQuery(
  changes: Record<string, string | number | boolean | null | undefined>,
  how: { replace?: boolean } = { replace: true },
): void {
  const q = new URLSearchParams(location.search);
  for (const [k, v] of Object.entries(changes)) {
    if (v === null || v === undefined || v === '' || v === false) q.delete(k);
    else q.set(k, v === true ? '1' : String(v));
  }
  go(url(location.pathname, q) + location.hash, how);
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
    const to = new URL(a.href, location.href);
    if (to.origin !== location.origin || /^\/(api|view|assets|metrics)\b/.test(to.pathname)) return;
    if (to.pathname === location.pathname && to.search === location.search && to.hash) return;
    e.preventDefault();
    go(to.pathname + to.search + to.hash);
  });
}
