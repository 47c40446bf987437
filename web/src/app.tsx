// The frame and the pages. Each page is a chunk of its own, loaded when it is first opened, and
// ahead of time when the pointer comes near its link.

import type { ComponentType } from 'preact';
import { Component } from 'preact';
import { useEffect, useLayoutEffect, useRef, useState } from 'preact/hooks';
import * as api from './api';
import { signInWanted } from './api';
import { onKey, typing } from './base/keys';
import { chosen, choose as chooseProject, projects } from './base/project';
import { go, matchRoute, place, url } from './base/route';
import { known, role, session } from './base/session';
import { choose as chooseTheme, theme, type Theme } from './base/theme';
import { words } from './base/words';
import { subscribe, way } from './live/live';
import { Empty, IconButton } from './parts/bits';
import { Icon, type IconName } from './parts/icons';
import { Keys } from './parts/keylist';
import { Palette } from './parts/palette';
import { Toasts } from './parts/toast';
import icon from './icon.svg?no-inline';

type Page = ComponentType<{ params: Record<string, string> }>;
type Loader = () => Promise<{ default: Page }>;

const routes: [pattern: string, nav: string, load: Loader][] = [
  ['/', 'home', () => import('./pages/home')],
  ['/runs', 'runs', () => import('./pages/runs')],
  ['/runs/{run}/reproduce', 'runs', () => import('./pages/reproduce')],
  ['/runs/{run}/tasks/{task}', 'runs', () => import('./pages/run/run')],
  ['/runs/{run}', 'runs', () => import('./pages/run/run')],
  ['/compare', 'compare', () => import('./pages/compare')],
  ['/lineage', 'lineage', () => import('./pages/lineage')],
  ['/lineage/{content}', 'lineage', () => import('./pages/lineage')],
  ['/artifacts/{content}', 'lineage', () => import('./pages/artifact')],
  ['/artifacts', 'lineage', () => import('./pages/artifact')],
  ['/schedules', 'schedules', () => import('./pages/schedules')],
  ['/start', 'start', () => import('./pages/start')],
  ['/store', 'store', () => import('./pages/store')],
  ['/audit', 'audit', () => import('./pages/audit')],
  ['/sign-in', '', () => import('./pages/signin')],
];

const nav: [id: string, href: string, word: string, icon: IconName][] = [
  ['home', '/', words.nav.home, 'home'],
  ['runs', '/runs', words.nav.runs, 'runs'],
  ['start', '/start', words.nav.start, 'play'],
  ['schedules', '/schedules', words.nav.schedules, 'calendar'],
  ['compare', '/compare', words.nav.compare, 'compare'],
  ['lineage', '/lineage', words.nav.lineage, 'lineage'],
  ['store', '/store', words.nav.store, 'store'],
];

function found(path: string) {
  for (const [pattern, id, load] of routes) {
    const params = matchRoute(pattern, path);
    if (params) return { pattern, id, load, params };
  }
  return null;
}

const loaded = new Map<Loader, Page>();

const fetched = (load: Loader) => load().then((m) => void loaded.set(load, m.default));

/** Fetches the code of the address's page. */
export async function loadPage(): Promise<void> {
  const match = found(place.value.path);
  if (match) await fetched(match.load);
}

class Boundary extends Component<
  { children: preact.ComponentChildren; on: string },
  { error: Error | null }
> {
  override state: { error: Error | null } = { error: null };
  static override getDerivedStateFromError(error: Error) {
    return { error };
  }
  override componentDidCatch(error: Error) {
    console.error(error);
  }
  override componentDidUpdate(before: { on: string }) {
    if (before.on !== this.props.on && this.state.error) this.setState({ error: null });
  }
  override render() {
    if (!this.state.error) return this.props.children;
    return (
      <Empty whole title={words.errors.title} hint={this.state.error.message}>
        <button type="button" class="btn" onClick={() => location.reload()}>
          {words.errors.reload}
        </button>
      </Empty>
    );
  }
}

function Outlet() {
  const path = place.value.path;
  const match = found(path);
  const [, redraw] = useState(0);
  const [broken, setBroken] = useState(false);
  const page = match ? loaded.get(match.load) : null;
  // Before the paint: what has come already is drawn at once.
  useLayoutEffect(() => {
    if (!match || page) return;
    fetched(match.load).then(
      () => {
        setBroken(false);
        redraw((n) => n + 1);
      },
      () => setBroken(true),
    );
  }, [match?.load]);
  if (!match) return <Empty whole title={words.errors.notFound} hint={words.errors.notFoundHint} />;
  if (broken)
    return (
      <Empty whole title={words.errors.title} hint={words.errors.chunk}>
        <button type="button" class="btn" onClick={() => location.reload()}>
          {words.errors.reload}
        </button>
      </Empty>
    );
  if (!page) return null;
  const Shown = page;
  return (
    <Boundary on={path}>
      <Shown
        key={
          match.pattern.startsWith('/runs/{run}')
            ? `run ${match.params.run} ${match.pattern.endsWith('reproduce')}`
            : match.pattern
        }
        params={match.params}
      />
    </Boundary>
  );
}

function ProjectChoice() {
  if (projects.value.length < 2) return null;
  return (
    <label class="labelled">
      <span class="sr">{words.nav.project}</span>
      <select
        class="field"
        value={chosen.value ?? ''}
        onChange={(e) => chooseProject(e.currentTarget.value || null)}
      >
        <option value="">{words.nav.allProjects}</option>
        {projects.value.map((p) => (
          <option key={p.project} value={p.project}>
            {p.project}
          </option>
        ))}
      </select>
    </label>
  );
}

function Rail({
  open,
  current,
  onFind,
  onKeys,
}: {
  open: boolean;
  current: string;
  onFind: () => void;
  onKeys: () => void;
}) {
  const p = place.value.query.get('project');
  const next: Record<Theme, Theme> = { system: 'light', light: 'dark', dark: 'system' };
  return (
    <aside class={`rail ${open ? 'open' : ''}`} id="rail" aria-label={words.product}>
      <a class="brand" href={url('/', { project: p })}>
        <img src={icon} alt="" /> {words.product}
      </a>
      <ProjectChoice />
      <button type="button" class="entry" onClick={onFind}>
        <Icon name="search" /> {words.nav.find} <kbd>Ctrl K</kbd>
      </button>
      <nav aria-label={words.nav.label}>
        <ul>
          {nav.map(([id, href, word, ic]) => (
            <li key={id}>
              <a
                href={url(href, { project: p })}
                aria-current={current === id ? 'page' : undefined}
                onPointerEnter={() =>
                  void found(href)
                    ?.load()
                    .catch(() => undefined)
                }
              >
                <Icon name={ic} /> {word}
              </a>
            </li>
          ))}
          {role.value === 'admin' && session.value?.sign_in && (
            <li>
              <a href="/audit" aria-current={current === 'audit' ? 'page' : undefined}>
                <Icon name="shield" /> {words.nav.audit}
              </a>
            </li>
          )}
        </ul>
      </nav>
      <div class="foot">
        <button type="button" class="entry" onClick={() => chooseTheme(next[theme.value])}>
          <Icon name="theme" /> {words.nav.theme}: {words.nav.themes[theme.value]}
        </button>
        <button type="button" class="entry" onClick={onKeys}>
          <Icon name="keyboard" /> {words.nav.keys} <kbd>?</kbd>
        </button>
        <div class="who">
          <span class="row tight" title={words.live[way.value]}>
            <i class={`dot ${way.value}`} /> {words.live[way.value]}
          </span>
        </div>
        {session.value?.signed_in && session.value.way === 'cookie' && (
          <div class="who">
            <span class="ellipsis">
              {session.value.user} · {session.value.role}
            </span>
            <button
              type="button"
              class="btn bare small"
              onClick={() =>
                void api.signOut().finally(() => {
                  location.assign('/sign-in');
                })
              }
            >
              {words.nav.signOut}
            </button>
          </div>
        )}
      </div>
    </aside>
  );
}

const titles: Record<string, string> = {
  home: words.nav.home,
  runs: words.nav.runs,
  start: words.nav.start,
  schedules: words.nav.schedules,
  compare: words.nav.compare,
  lineage: words.nav.lineage,
  store: words.nav.store,
  audit: words.nav.audit,
};

export function App() {
  const [menu, setMenu] = useState(false);
  const [find, setFind] = useState(false);
  const [keys, setKeys] = useState(false);
  const main = useRef<HTMLElement>(null);
  const path = place.value.path;
  const current = found(path)?.id ?? '';
  const before = useRef(path);

  useEffect(() => {
    const leave = subscribe(() => undefined); // the sign of the connection is on every page
    let g = -Infinity;
    const off = onKey((e) => {
      if ((e.ctrlKey || e.metaKey) && e.key === 'k') {
        setFind(true);
        return true;
      }
      if (typing(e) || e.ctrlKey || e.metaKey) return;
      if (e.key === '?') {
        setKeys(true);
        return true;
      }
      if (e.key === '/') {
        const field = document.querySelector<HTMLInputElement>('main [data-search]');
        if (field) field.focus();
        else setFind(true);
        return true;
      }
      if (e.key === 'g') {
        g = e.timeStamp;
        return true;
      }
      if (e.timeStamp - g < 1200) {
        const to: Record<string, string> = {
          h: '/',
          r: '/runs',
          n: '/start',
          s: '/schedules',
          c: '/compare',
          l: '/lineage',
          o: '/store',
        };
        const href = to[e.key];
        g = -Infinity;
        if (href) {
          go(url(href, { project: place.value.query.get('project') }));
          return true;
        }
      }
    });
    return () => {
      off();
      leave();
    };
  }, []);

  // A new page: its title, and the focus at its beginning for readers. Not within a run.
  useEffect(() => {
    const same =
      before.current.split('/').slice(0, 3).join('/') === path.split('/').slice(0, 3).join('/');
    if (before.current !== path && !same) main.current?.focus({ preventScroll: true });
    before.current = path;
    setMenu(false);
    const run = matchRoute('/runs/{run}', path.split('/').slice(0, 3).join('/'));
    document.title = `${run ? `${run.run} · ` : titles[current] && current !== 'home' ? `${titles[current]} · ` : ''}${words.product}`;
  }, [path]);

  if (path === '/sign-in' || (signInWanted.value && session.value?.signed_in !== true)) {
    const load = routes[routes.length - 1]![2];
    const SignIn = loaded.get(load);
    if (!SignIn) void fetched(load).then(() => setMenu((x) => !x));
    return <main class="solo">{SignIn && <SignIn params={{}} />}</main>;
  }
  return (
    <div class="frame">
      <a class="skip" href="#main" onClick={(e) => (e.preventDefault(), main.current?.focus())}>
        {words.skip}
      </a>
      <header class="topbar">
        <IconButton
          icon={menu ? 'close' : 'menu'}
          size={16}
          label={words.nav.menu}
          kind="bare"
          aria-expanded={menu}
          aria-controls="rail"
          onClick={() => setMenu(!menu)}
        />
        <a class="brand" href="/">
          <img src={icon} alt="" /> {words.product}
        </a>
        <IconButton
          icon="search"
          size={16}
          label={words.nav.find}
          kind="bare"
          onClick={() => setFind(true)}
        />
      </header>
      <Rail
        open={menu}
        current={current}
        onFind={() => setFind(true)}
        onKeys={() => setKeys(true)}
      />
      <main id="main" ref={main} tabIndex={-1}>
        {known.value && <Outlet />}
      </main>
      {find && <Palette nav={nav} onClose={() => setFind(false)} />}
      {keys && <Keys onClose={() => setKeys(false)} />}
      <Toasts />
    </div>
  );
}
