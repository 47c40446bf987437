// Two to fifty runs side by side: what differs first, curves over each other, metric over param,
// parallel coordinates, confusion matrices, and why.

import { useEffect, useMemo, useRef, useState } from 'preact/hooks';
import * as api from '../api';
import type { Comparison, Run } from '../api';
import { duration, shortHash, value } from '../base/format';
import { REPORT } from '../base/mode';
import { useLoad } from '../base/load';
import { project, projectQuery } from '../base/project';
import { part, place, setQuery, url } from '../base/route';
import { words } from '../base/words';
import { Curves, type Line } from '../charts/curves';
import { Parallel, Scatter } from '../charts/plots';
import {
  Card,
  Check,
  Empty,
  IconButton,
  Segmented,
  Skeleton,
  StateDot,
  Time,
  Trouble,
} from '../parts/bits';
import { Icon } from '../parts/icons';
import { ChartOptions, curveOptions, hasTimes } from './run/metrics';

const w = words.compare;
const VIEWS = ['tables', 'curves', 'scatter', 'parallel', 'confusion'] as const;

export default function Compare() {
  const p = project.value;
  const q = place.value.query;
  const ids = (q.get('runs') ?? '')
    .split(',')
    .map((s) => s.trim())
    .filter(Boolean);
  const data = useLoad(
    p && ids.length >= 2 ? (s) => api.compare({ project: p, runs: ids.join(',') }, s) : null,
    [p, ids.join()],
    true,
  );
  const view = (VIEWS as readonly string[]).includes(q.get('view') ?? '')
    ? (q.get('view') as (typeof VIEWS)[number])
    : 'tables';
  const c = ids.length >= 2 ? data.value : null;
  return (
    <>
      <div class="pagehead">
        <h1>{w.title}</h1>
        {!REPORT && <RunPicker ids={ids} />}
      </div>
      {ids.length < 2 && (
        <Empty title={w.pick} hint={w.pickHint}>
          <a class="btn" href={url('/runs', { project: projectQuery.value })}>
            {words.runs.title}
          </a>
        </Empty>
      )}
      {data.problem && <Trouble problem={data.problem} again={data.again} />}
      {ids.length >= 2 && data.first && <Skeleton />}
      {c && (
        <>
          <Segmented
            label={w.title}
            value={view}
            options={
              [
                ['tables', w.tables],
                ['curves', w.curves],
                ['scatter', w.scatter],
                ['parallel', w.parallel],
                ...(REPORT ? [] : [['confusion', w.confusion] as const]),
              ] as const
            }
            onChange={(v) => setQuery({ view: v === 'tables' ? null : v })}
          />
          {view === 'tables' && <Tables c={c} ids={ids} />}
          {view === 'curves' && <CurvesView c={c} />}
          {view === 'scatter' && <ScatterView c={c} />}
          {view === 'parallel' && (
            <Parallel
              runs={c.runs.map(nameOf)}
              params={numeric(c.params)}
              metrics={c.metrics}
              label={w.parallel}
            />
          )}
          {view === 'confusion' && <Confusions c={c} />}
        </>
      )}
    </>
  );
}

/** An id begins with its pipeline's name; a tag doesn't. */
const nameOf = (r: Run) => ((r.tags ?? [])[0] ? `${r.pipeline} ${r.tags![0]}` : r.id);

function RunPicker({ ids }: { ids: string[] }) {
  const [text, setText] = useState('');
  return (
    <form
      class="row tight"
      onSubmit={(e) => {
        e.preventDefault();
        const more = text.split(/[\s,]+/).filter(Boolean);
        if (more.length) setQuery({ runs: [...new Set([...ids, ...more])].join(',') }, {});
        setText('');
      }}
    >
      <input
        class="field w190"
        aria-label={w.ids}
        placeholder={w.ids}
        value={text}
        data-search
        onInput={(e) => setText(e.currentTarget.value)}
      />
      <button type="submit" class="btn">
        <Icon name="plus" size={14} /> {w.add}
      </button>
    </form>
  );
}

const same = (vs: unknown[]) =>
  vs.every((v) => JSON.stringify(v ?? null) === JSON.stringify(vs[0] ?? null));

export function numeric(params: Record<string, unknown[]>): Record<string, (number | null)[]> {
  const out: Record<string, (number | null)[]> = {};
  for (const [k, vs] of Object.entries(params)) {
    const ns = vs.map((v) =>
      typeof v === 'number'
        ? v
        : typeof v === 'string' && v !== '' && Number.isFinite(Number(v))
          ? Number(v)
          : null,
    );
    if (ns.some((n) => n !== null) && !same(vs)) out[k] = ns;
  }
  return out;
}

function Tables({ c, ids }: { c: Comparison; ids: string[] }) {
  const q = { project: projectQuery.value };
  const onlyDiff = place.value.query.get('all') !== '1';
  const section = (title: string, rows: [string, unknown[]][], number: boolean) => {
    const differing = rows.filter(([, vs]) => !same(vs));
    const equal = rows.filter(([, vs]) => same(vs));
    const list = onlyDiff ? differing : [...differing, ...equal];
    return [
      <tr key={title} class="section">
        <th scope="rowgroup" colSpan={c.runs.length + 1}>
          {title}{' '}
          {onlyDiff && equal.length > 0 && <span class="quiet">· {w.same(equal.length)}</span>}
        </th>
      </tr>,
      ...list.map(([k, vs]) => (
        <tr key={`${title} ${k}`}>
          <th scope="row" class="mono sticky">
            {k}
          </th>
          {vs.map((v, i) => (
            <td
              key={i}
              class={`${number ? 'num' : 'mono'} ${same(vs) ? '' : i === 0 ? 'base' : JSON.stringify(v) !== JSON.stringify(vs[0]) ? 'differs' : ''}`}
            >
              {value(v)}
              {number &&
                i > 0 &&
                typeof v === 'number' &&
                typeof vs[0] === 'number' &&
                v !== vs[0] && (
                  <span class="delta">
                    {' '}
                    {v > vs[0] ? '+' : '−'}
                    {value(Math.abs(v - vs[0]))}
                  </span>
                )}
            </td>
          ))}
        </tr>
      )),
    ];
  };
  return (
    <>
      <div class="row">
        <Check
          label={w.onlyDiff}
          checked={onlyDiff}
          onChange={(on) => setQuery({ all: on ? null : '1' })}
        />
        <span class="quiet">± {w.delta}</span>
      </div>
      <div class="card tablewrap" tabIndex={0} role="group" aria-label={w.tables}>
        <table class="comparison">
          <thead>
            <tr>
              <th scope="col" class="sticky">
                {w.runsCol}
              </th>
              {c.runs.map((r, i) => (
                <th scope="col" key={r.id}>
                  <span class="row tight nowraprow">
                    <i class={`swatch s${(i % 8) + 1}`} />
                    <StateDot state={r.state} />
                    <a href={url(`/runs/${part(r.id)}`, q)}>{(r.tags ?? [])[0] ?? r.id}</a>
                    {!REPORT && (
                      <IconButton
                        icon="close"
                        size={12}
                        label={w.remove(r.id)}
                        kind="bare small"
                        onClick={() =>
                          setQuery({
                            runs: ids
                              .filter((x) => x !== r.id && !(r.hash ?? '').startsWith(x))
                              .join(','),
                          })
                        }
                      />
                    )}
                  </span>
                  <span class="quiet small">
                    {r.pipeline} · <Time at={r.started} />
                  </span>
                </th>
              ))}
            </tr>
          </thead>
          <tbody>
            {section(w.metrics, Object.entries(c.metrics), true)}
            {section(w.params, Object.entries(c.params), false)}
            {section(
              words.run.views.about,
              [
                [words.run.facts.commit, c.runs.map((r) => r.git_commit?.slice(0, 8) ?? null)],
                [words.run.facts.duration, c.runs.map((r) => duration(r.duration_ns))],
                [words.runs.state, c.runs.map((r) => words.states[r.state] ?? r.state)],
                [words.run.facts.hash, c.runs.map((r) => (r.hash ? shortHash(r.hash) : null))],
              ],
              false,
            )}
          </tbody>
        </table>
      </div>
      <Card title={w.causes} flush>
        {c.causes.length === 0 ? (
          <p class="body second">{w.sameCause}</p>
        ) : (
          <ul class="lines">
            {c.causes.map((x, i) => (
              <li key={i} class="line">
                <a class="nowrap" href={url(`/runs/${part(x.b)}`, { project: projectQuery.value })}>
                  {x.b}
                </a>
                <span class="grow prewrap">
                  {x.because.length ? x.because.map((y) => y.sentence).join('\n') : w.sameCause}
                </span>
              </li>
            ))}
          </ul>
        )}
      </Card>
    </>
  );
}

function CurvesView({ c }: { c: Comparison }) {
  const p = project.value;
  const all = useLoad(
    (s) =>
      Promise.all(
        c.runs
          .slice(0, 50)
          .map((r) =>
            api
              .series(r.id, { project: p, points: c.runs.length > 10 ? 300 : 1000 }, s)
              .catch(() => ({ series: [] })),
          ),
      ),
    [c.runs.map((r) => r.id).join()],
  );
  const metrics = useMemo(() => {
    const m = new Map<string, Line[]>();
    all.value?.forEach((a, i) => {
      for (const s of a.series) {
        const l: Line = { name: `${nameOf(c.runs[i]!)} · ${s.task}`, points: s.points };
        const list = m.get(s.metric);
        if (list) list.push(l);
        else m.set(s.metric, [l]);
      }
    });
    return m;
  }, [all.value]);
  if (all.first) return <Skeleton />;
  if (metrics.size === 0)
    return (
      <Empty title={w.noCurves} hint={words.run.metricsNoneHint} command="series: log.jsonl" />
    );
  return (
    <>
      <ChartOptions timed={(all.value ?? []).some((a) => hasTimes(a.series))} />
      <div class="charts">
        {[...metrics].map(([m, lines]) => (
          <InView key={m} height={260}>
            <Curves title={m} lines={lines} {...curveOptions()} />
          </InView>
        ))}
      </div>
    </>
  );
}

/** Charts are made when they come near the view: a hundred metrics don't cost a hundred charts. */
function InView({ height, children }: { height: number; children: preact.ComponentChildren }) {
  const ref = useRef<HTMLDivElement>(null);
  const [seen, setSeen] = useState(false);
  useEffect(() => {
    const o = new IntersectionObserver(
      (es) => es.some((e) => e.isIntersecting) && (setSeen(true), o.disconnect()),
      { rootMargin: '300px' },
    );
    if (ref.current) o.observe(ref.current);
    return () => o.disconnect();
  }, []);
  return (
    <div ref={ref} style={seen ? undefined : { minHeight: `${height}px` }}>
      {seen && children}
    </div>
  );
}

function ScatterView({ c }: { c: Comparison }) {
  const q = place.value.query;
  const params = numeric(c.params);
  const metrics = Object.keys(c.metrics);
  const x = q.get('px') ?? Object.keys(params)[0] ?? '';
  const y = q.get('py') ?? metrics[0] ?? '';
  if (Object.keys(params).length === 0 || metrics.length === 0)
    return <Empty title={w.noScatter} />;
  return (
    <div class="stack">
      <div class="row">
        <label class="check">
          {w.metric}
          <select class="field" value={y} onChange={(e) => setQuery({ py: e.currentTarget.value })}>
            {metrics.map((m) => (
              <option key={m}>{m}</option>
            ))}
          </select>
        </label>
        <label class="check">
          {w.param}
          <select class="field" value={x} onChange={(e) => setQuery({ px: e.currentTarget.value })}>
            {Object.keys(params).map((m) => (
              <option key={m}>{m}</option>
            ))}
          </select>
        </label>
        <Check
          label={w.log}
          checked={q.get('log') === '1'}
          onChange={(on) => setQuery({ log: on })}
        />
      </div>
      <Scatter
        x={params[x] ?? []}
        y={c.metrics[y] ?? []}
        names={c.runs.map(nameOf)}
        hrefs={c.runs.map((r) => url(`/runs/${part(r.id)}`, { project: projectQuery.value }))}
        xName={x}
        yName={y}
        log={q.get('log') === '1'}
      />
    </div>
  );
}

type WithOutputs = { task: string; outputs?: Record<string, api.Content> };

/** Outputs named confusion… of runs, as tables with their counts shaded. */
function Confusions({ c }: { c: Comparison }) {
  const p = project.value;
  const found = useLoad(
    (s) =>
      Promise.all(
        c.runs.slice(0, 12).map(async (r) => {
          for await (const tasks of api.taskPages(r.id, { project: p }, s))
            for (const t of tasks as unknown as WithOutputs[])
              for (const [name, out] of Object.entries(t.outputs ?? {})) {
                if (!out) continue;
                if (out.kind === 'blob' && /confusion/i.test(name))
                  return { run: r, task: t.task, content: out.id, path: null };
                if (out.kind !== 'tree') continue;
                const e = await api
                  .contentEntries(out.id, { project: p, limit: 200 }, s)
                  .catch(() => null);
                const f = e?.entries.find((x) => /^confusion.*\.(csv|tsv)$/i.test(x.name));
                if (f) return { run: r, task: t.task, content: out.id, path: f.name };
              }
          return null;
        }),
      ),
    [c.runs.map((r) => r.id).join()],
  );
  if (found.first) return <Skeleton />;
  const list = (found.value ?? []).filter((x): x is NonNullable<typeof x> => x !== null);
  if (list.length === 0)
    return (
      <Empty
        title={words.run.outputsNone}
        hint={words.run.metricsNoneHint}
        command="outputs: {report: report/}   # report/confusion.csv"
      />
    );
  return (
    <div class="charts">
      {list.map((f) => (
        <Confusion key={f.run.id} {...f} />
      ))}
    </div>
  );
}

function Confusion({
  run,
  task,
  content,
  path,
}: {
  run: Run;
  task: string;
  content: string;
  path: string | null;
}) {
  const p = project.value;
  const t = useLoad(
    (s) => api.contentTable(content, { project: p, path, limit: 100 }, s),
    [content, path],
  );
  if (!t.value) return <Skeleton />;
  const cells = t.value.rows.map((r) => r.slice(1).map(Number));
  const top = Math.max(1, ...cells.flat().filter(Number.isFinite));
  return (
    <figure class="card chart">
      <figcaption>
        {nameOf(run)} · {task}
      </figcaption>
      <div
        class="tablewrap"
        tabIndex={0}
        role="group"
        aria-label={`${w.confusion}: ${nameOf(run)}`}
      >
        <table class="matrix">
          <thead>
            <tr>
              {t.value.columns.map((col, i) => (
                <th scope="col" key={i} class={i === 0 ? undefined : 'num'}>
                  {i === 0 ? `${w.truth} \\ ${w.predicted}` : col.name}
                </th>
              ))}
            </tr>
          </thead>
          <tbody>
            {t.value.rows.map((r, i) => (
              <tr key={i}>
                <th scope="row">{value(r[0])}</th>
                {cells[i]!.map((n, j) => (
                  <td
                    key={j}
                    class={`num heat h${Math.min(9, Math.floor((n / top) * 9.99))} ${i === j ? 'diagonal' : ''}`}
                  >
                    {value(n)}
                  </td>
                ))}
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </figure>
  );
}
