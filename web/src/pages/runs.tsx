// All runs, live. Search, filters and columns are in the address; the table draws what is in view.

import { useEffect, useMemo, useRef, useState } from 'preact/hooks';
import { count, shortCommit, value } from '../base/format';
import { now } from '../base/clock';
import { chosen, projects, projectQuery } from '../base/project';
import { go, part, place, setQuery, url } from '../base/route';
import { recall, remember } from '../base/store';
import { words } from '../base/words';
import { onKey, typing } from '../base/keys';
import { subscribe } from '../live/live';
import {
  Check,
  countsText,
  Empty,
  Hash,
  Lasting,
  Menu,
  SearchField,
  State,
  TaskBar,
  Time,
  Trouble,
} from '../parts/bits';
import { Icon } from '../parts/icons';
import { VTable, type Column } from '../parts/vtable';
import { duration } from '../base/format';
import { RunList, type Filters, type Row } from './runlist';
import { Picked, PickedActions } from './runpicked';

const STATES = ['running', 'succeeded', 'failed', 'cancelled', 'interrupted', 'died'] as const;
const FILTERS = [
  'q',
  'state',
  'pipeline',
  'schedule',
  'tag',
  'commit',
  'since',
  'until',
  'param',
  'metric',
  'sort',
] as const;
const DEFAULT = ['state', 'started', 'duration', 'tasks', 'tags', 'commit', 'hash'];
const CHOICE = [
  'state',
  'started',
  'duration',
  'tasks',
  'saved',
  'hash',
  'tags',
  'schedule',
  'author',
  'commit',
  'message',
];

const list = (text: string | null) =>
  (text ?? '')
    .split(',')
    .map((s) => s.trim())
    .filter(Boolean);

function read(): Filters {
  const f: Filters = {};
  const q = place.value.query;
  for (const k of FILTERS) {
    const v = q.get(k);
    if (v) f[k] = k === 'since' || k === 'until' ? new Date(v).toISOString() : v;
  }
  const metrics = q.get('metrics');
  if (metrics) f.metrics = metrics;
  return f;
}

function RunName({ r, more }: { r: Row; more: boolean }) {
  return (
    <span class="row nowraprow tight">
      <a
        class="name"
        href={url(`/runs/${part(r.id)}`, {
          project: more || projectQuery.value ? r.project : null,
        })}
      >
        {r.pipeline}
      </a>
      <span class="hash ellipsis" title={r.id}>
        {r.id}
      </span>
      {r.trial && <span class="tag">{words.runs.trial(r.trial.sweep, r.trial.number)}</span>}
      {r.reproduces && <span class="tag">{words.runs.reproduces}</span>}
    </span>
  );
}

function columnsFor(
  ids: string[],
  metrics: string[],
  params: string[],
  many: boolean,
): Column<Row>[] {
  const w = words.runs.cols;
  const one = (
    id: string,
    width: string,
    cell: (r: Row) => preact.ComponentChildren,
    num = false,
  ): Column<Row> => ({ id, title: w[id] ?? id, width, num, cell });
  const known: Record<string, Column<Row>> = {
    state: one('state', '140px', (r) =>
      r.waiting && r.state === 'running' ? <State state="approval" /> : <State state={r.state} />,
    ),
    started: one('started', '104px', (r) => <Time at={r.started} />),
    duration: one(
      'duration',
      '96px',
      (r) => (r.state === 'running' ? <Lasting since={r.started} /> : duration(r.duration_ns)),
      true,
    ),
    tasks: one('tasks', '148px', (r) => (
      <span class="row tight nowraprow">
        <TaskBar counts={r.counts} />
        <span class="quiet" title={countsText(r.counts)}>
          {count(r.counts.total)}
        </span>
      </span>
    )),
    saved: one('saved', '88px', (r) => duration(r.saved_ns), true),
    hash: one('hash', '120px', (r) => <Hash id={r.hash} />),
    tags: one('tags', 'minmax(90px, .6fr)', (r) => (
      <span class="row tight nowraprow">
        {(r.tags ?? []).map((t) => (
          <span class="tag" key={t} title={t}>
            {t}
          </span>
        ))}
      </span>
    )),
    schedule: one('schedule', '110px', (r) => r.schedule ?? ''),
    author: one('author', '110px', (r) => r.git_author ?? ''),
    commit: one('commit', '96px', (r) => (
      <span
        class="hash"
        title={
          r.git_commit ? r.git_commit + (r.git_dirty ? ` ${words.runs.dirty}` : '') : undefined
        }
      >
        {shortCommit(r.git_commit)}
        {r.git_dirty ? '*' : ''}
      </span>
    )),
    message: one('message', 'minmax(160px, 1fr)', (r) => (
      <span class="second" title={r.message ?? ''}>
        {r.message ?? ''}
      </span>
    )),
  };
  return [
    {
      id: 'run',
      title: w.run,
      width: 'minmax(240px, 1.4fr)',
      cell: (r) => <RunName r={r} more={many} />,
    },
    ...(many ? [one('project', '120px', (r: Row) => <span class="tag">{r.project}</span>)] : []),
    ...ids.map((id) => known[id]).filter((c): c is Column<Row> => !!c),
    ...metrics
      .map((m) => one(`m:${m}`, '104px', (r: Row) => value(r.metrics?.[m]), true))
      .map((c) => ({ ...c, title: c.id.slice(2) })),
    ...params
      .map((p) => one(`p:${p}`, '104px', (r: Row) => value(r.params[p]), true))
      .map((c) => ({ ...c, title: c.id.slice(2) })),
  ];
}

function FilterBar() {
  const q = place.value.query;
  const any = FILTERS.some((k) => k !== 'q' && q.get(k));
  const [open, setOpen] = useState(any);
  const field = (k: string, label: string, hint = '', type = 'text', width = 'w140') => (
    <label class="labelled" key={k}>
      {label}
      <input
        class={`field ${width}`}
        type={type}
        value={q.get(k) ?? ''}
        placeholder={hint}
        onChange={(e) => setQuery({ [k]: e.currentTarget.value.trim() })}
      />
    </label>
  );
  const w = words.runs;
  return (
    <>
      <div class="row">
        <SearchField
          value={q.get('q') ?? ''}
          onChange={(v) => setQuery({ q: v.trim() })}
          label={w.search}
          placeholder={w.searchHint}
        />
        <select
          class="field"
          aria-label={w.state}
          value={q.get('state') ?? ''}
          onChange={(e) => setQuery({ state: e.currentTarget.value })}
        >
          <option value="">
            {w.state}: {words.all.toLowerCase()}
          </option>
          {STATES.map((s) => (
            <option key={s} value={s}>
              {words.states[s]}
            </option>
          ))}
        </select>
        <button type="button" class="btn" aria-expanded={open} onClick={() => setOpen(!open)}>
          <Icon name="filter" size={14} /> {w.filters}
        </button>
        <Columns />
        {(any || q.get('q')) && (
          <button
            type="button"
            class="btn bare"
            onClick={() => setQuery(Object.fromEntries(FILTERS.map((k) => [k, null])))}
          >
            {w.clear}
          </button>
        )}
      </div>
      {open && (
        <div class="filters">
          {field('pipeline', w.pipeline)}
          {field('schedule', w.schedule)}
          {field('tag', w.tag)}
          {field('commit', w.commit)}
          {field('param', w.param, w.paramHint)}
          {field('metric', w.metric, w.metricHint)}
          {field('sort', w.sort, w.sortHint)}
          {field('since', w.since, '', 'datetime-local', 'w190')}
          {field('until', w.until, '', 'datetime-local', 'w190')}
        </div>
      )}
    </>
  );
}

function Columns() {
  const q = place.value.query;
  const ids = q.has('columns') ? list(q.get('columns')) : recall('columns', DEFAULT);
  const set = (next: string[]) => {
    remember('columns', next);
    setQuery({ columns: next.join(',') === DEFAULT.join(',') ? null : next.join(',') });
  };
  return (
    <Menu label={words.runs.chooseColumns} icon="columns" text={words.runs.columns} side="left">
      {() => (
        <>
          {CHOICE.map((id) => (
            <Check
              key={id}
              label={words.runs.cols[id] ?? id}
              checked={ids.includes(id)}
              onChange={(on) =>
                set(
                  on
                    ? CHOICE.filter((c) => ids.includes(c) || c === id)
                    : ids.filter((c) => c !== id),
                )
              }
            />
          ))}
          <label class="labelled">
            {words.runs.metricColumns}
            <input
              class="field"
              value={q.get('metrics') ?? ''}
              placeholder={words.runs.metricColumnsHint}
              onChange={(e) => setQuery({ metrics: e.currentTarget.value.trim() })}
            />
          </label>
          <label class="labelled">
            {words.runs.paramColumns}
            <input
              class="field"
              value={q.get('params') ?? ''}
              placeholder={words.runs.paramColumnsHint}
              onChange={(e) => setQuery({ params: e.currentTarget.value.trim() })}
            />
          </label>
        </>
      )}
    </Menu>
  );
}

export default function Runs() {
  const names = chosen.value ? [chosen.value] : projects.value.map((p) => p.project);
  const filters = read();
  const key = JSON.stringify([names, filters]);
  const [, redraw] = useState(0);
  const [picked, setPicked] = useState(new Picked());
  const model = useRef<RunList | null>(null);

  useEffect(() => {
    if (names.length === 0) return;
    const m = new RunList(names, filters, () => redraw((n) => n + 1));
    model.current = m;
    setPicked((p) => (p.all ? new Picked() : p)); // all that matched something else
    void m.upTo(40);
    redraw((n) => n + 1);
    const stop = subscribe((batch) => {
      let changed = false;
      for (const h of batch) {
        if (h.kind === 'run')
          changed = m.patch({ ...h.data, project: h.data.project ?? names[0]! }) || changed;
        if (h.kind === 'reset') void m.refresh();
      }
      if (changed) redraw((n) => n + 1);
    });
    return () => {
      stop();
      m.close();
    };
  }, [key]);

  useEffect(
    () =>
      onKey((e) => {
        if (e.key === 'Escape' && !typing(e) && (picked.all || picked.rows.size)) {
          setPicked(new Picked());
          return true;
        }
      }),
    [picked],
  );

  const q = place.value.query;
  const ids = q.has('columns') ? list(q.get('columns')) : recall('columns', DEFAULT);
  const toggle = (r: Row) => setPicked(picked.toggled(r));
  const columns = useMemo(
    () => columnsFor(ids, list(q.get('metrics')), list(q.get('params')), names.length > 1),
    [ids.join(), q.get('metrics'), q.get('params'), names.join()],
  );
  const m = model.current;
  const pickColumn: Column<Row> = {
    id: 'pick',
    title: <span class="sr">{words.runs.select('')}</span>,
    width: '34px',
    cell: (r) => (
      <input
        type="checkbox"
        tabIndex={-1}
        aria-label={words.runs.select(r.id)}
        checked={picked.has(r.id)}
        onChange={() => toggle(r)}
      />
    ),
  };
  const empty = m && m.ended && m.rows.length === 0;
  void now; // durations of running runs count on by themselves
  return (
    <>
      <div class="pagehead">
        <h1>{words.runs.title}</h1>
        <span class="quiet" aria-live="polite">
          {m && (m.rows.length > 0 || m.ended)
            ? m.total !== null
              ? words.runs.count(m.total)
              : words.runs.loadedOf(m.rows.length, null)
            : ''}
        </span>
        <span class="grow" />
        {(picked.all || picked.rows.size > 0) && (
          <PickedActions
            picked={picked}
            total={m ? m.total : null}
            names={names}
            filters={filters}
            set={setPicked}
          />
        )}
      </div>
      <FilterBar />
      {m?.problem && (
        <Trouble
          problem={m.problem}
          again={() => ((m.problem = null), void m.upTo(m.rows.length + 40))}
        />
      )}
      {empty ? (
        Object.keys(filters).length > 0 ? (
          <Empty title={words.runs.noMatch} hint={words.runs.noMatchHint} />
        ) : (
          <Empty
            title={words.runs.empty}
            hint={words.runs.emptyHint}
            command={words.runs.emptyCommand}
          />
        )
      ) : (
        <div class="card fill">
          <VTable
            label={words.runs.title}
            columns={[pickColumn, ...columns]}
            length={m ? m.length : 24}
            row={(i) => m?.rows[i]}
            keyOf={(r) => r.id}
            onRange={(_, to) => void m?.upTo(to)}
            onOpen={(r) =>
              go(
                url(`/runs/${part(r.id)}`, {
                  project: projects.value.length > 1 ? r.project : null,
                }),
              )
            }
            onKey={(e, r) => {
              if (e.key !== 'x' && e.key !== ' ') return false;
              toggle(r);
              return true;
            }}
          />
        </div>
      )}
    </>
  );
}
